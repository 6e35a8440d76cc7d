"""Matrices of a structure, and what ``scipy.linalg`` makes of a singular value decomposition."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fx.dtypes import int64
from fx.errors import ArgumentError, ShapeError
from fx.linalg.functions import matrix_exp
from fx.linalg.operands import matrices, square
from fx.linalg.solving import cholesky_solve
from fx.linalg.spectral import svd
from fx.ops.axes import integer
from fx.ops.indexing.searching import where
from fx.ops.making.ranges import arange
from fx.ops.operands import argument, iota
from fx.ops.reductions.reduction import all as every
from fx.ops.reductions.reduction import max as largest
from fx.ops.reductions.reduction import sum as total
from fx.ops.shapes.assembly import block_diag
from fx.ops.shapes.joining import concat
from fx.ops.shapes.manipulation import flip, ravel
from fx.tensor import Tensor

expm = matrix_exp


class Polar(NamedTuple):
    """A unitary factor and a Hermitian one."""

    u: Tensor
    p: Tensor


def polar(a: Any, side: str = "right") -> Polar:
    """The factors of a = u p, or a = p u if ``side`` is "left".

    Args:
        a: (*B, m, n).
        side: "right" or "left".

    Returns:
        u (*B, m, n), whose rows or columns are orthonormal, and p (*B, n, n), Hermitian and without
        negative eigenvalues; (*B, m, m) on the left.

    Raises:
        ArgumentError: for another side.

    Example:
        >>> import fx
        >>> fx.linalg.polar(fx.tensor([[0.0, -2.0], [2.0, 0.0]])).p
        tensor([[2., 0.],
                [0., 2.]])
    """
    if side not in ("right", "left"):
        raise ArgumentError(f"polar: side is 'right' or 'left', got {side!r}")
    u, s, vh = svd(matrices("linalg.polar", a), full_matrices=False)
    unitary = u @ vh
    scaled = s.astype(u.dtype)[..., None, :]
    if side == "right":
        v = vh.mT.conj()
        return Polar(unitary, (v * scaled) @ vh)
    return Polar(unitary, (u * scaled) @ u.mT.conj())


def orth(A: Any, rcond: float | None = None) -> Tensor:
    """An orthonormal basis of the columns of A (m, n), as columns (m, rank).

    Args:
        A: a matrix.
        rcond: singular values below it times the largest count as 0; max(m, n) times the machine's
            epsilon unless given.
    """
    u, s, _ = svd(matrices("linalg.orth", A), full_matrices=False)
    return u[:, : _rank("orth", A, s, rcond)]  # type: ignore[no-any-return]


def null_space(A: Any, rcond: float | None = None) -> Tensor:
    """An orthonormal basis of the vectors that A (m, n) maps to 0, as columns (n, n - rank).

    Args:
        A: a matrix.
        rcond: as for ``orth``.
    """
    _, s, vh = svd(matrices("linalg.null_space", A), full_matrices=True)
    return vh[_rank("null_space", A, s, rcond) :, :].conj().T  # type: ignore[no-any-return]


def _rank(name: str, A: Any, s: Tensor, rcond: float | None) -> int:
    epsilon = float(np.finfo(s.dtype).eps) * max(argument(name, A).shape[-2:])
    return int(total(s > largest(s) * (epsilon if rcond is None else rcond)).item())


def cho_solve(c_and_lower: tuple[Any, bool], b: Any) -> Tensor:
    """The solution of A x = b by the factor of A that ``cholesky`` gives.

    Args:
        c_and_lower: (*B, n, n), and whether it is the lower triangle.
        b: (n,) or (*B, n, k).
    """
    c, lower = c_and_lower
    b = argument("cho_solve", b)
    if b.ndim == 1:
        return cholesky_solve(b[:, None], c, upper=not lower)[:, 0]
    return cholesky_solve(b, c, upper=not lower)


def ishermitian(a: Any) -> Tensor:
    """Whether a square matrix (*B, n, n) is exactly its own conjugate transpose."""
    a = square("linalg.ishermitian", a)
    return every(a == a.mT.conj(), axis=(-2, -1))


def issymmetric(a: Any) -> Tensor:
    """Whether a square matrix (*B, n, n) is exactly its own transpose."""
    a = square("linalg.issymmetric", a)
    return every(a == a.mT, axis=(-2, -1))


def khatri_rao(a: Any, b: Any) -> Tensor:
    """Kronecker's products of the columns of a (m, k) and b (n, k): (m n, k)."""
    a, b = matrices("linalg.khatri_rao", a), matrices("linalg.khatri_rao", b)
    return (a[:, None, :] * b[None, :, :]).reshape(-1, b.shape[-1])  # type: ignore[no-any-return]


# matrices of a vector ---------------------------------------------------------------------------


def _gathered(values: Tensor, rows: int, columns: int, down: int, across: int, start: int) -> Any:
    places = arange(rows)[:, None] * down + arange(columns)[None, :] * across + start
    return values[places]


def toeplitz(c: Any, r: Any = None) -> Tensor:
    """The matrix whose diagonals are constant.

    Args:
        c: (m,), the first column.
        r: (n,), the first row, whose first element does not matter; conj(c) unless given.

    Example:
        >>> import fx
        >>> fx.linalg.toeplitz(fx.tensor([1, 2, 3]), fx.tensor([1, 4]))
        tensor([[1, 4],
                [2, 1],
                [3, 2]])
    """
    c = ravel(argument("toeplitz", c))
    r = c.conj() if r is None else ravel(argument("toeplitz", r))
    m, n = c.shape[0], r.shape[0]
    return _gathered(concat([flip(c), r[1:]]), m, n, -1, 1, m - 1)  # type: ignore[no-any-return]


def hankel(c: Any, r: Any = None) -> Tensor:
    """The matrix whose antidiagonals are constant.

    Args:
        c: (m,), the first column.
        r: (n,), the last row, whose first element does not matter; zeros unless given.
    """
    c = ravel(argument("hankel", c))
    r = c * 0 if r is None else ravel(argument("hankel", r))
    m, n = c.shape[0], r.shape[0]
    return _gathered(concat([c, r[1:]]), m, n, 1, 1, 0)  # type: ignore[no-any-return]


def circulant(c: Any) -> Tensor:
    """The square matrix whose columns are c (n,), each turned by one more."""
    c = ravel(argument("circulant", c))
    return toeplitz(c, concat([c[:1], flip(c[1:])]))


def companion(a: Any) -> Tensor:
    """The matrix (n - 1, n - 1) whose eigenvalues are the roots of the polynomial a (n,).

    Raises:
        ArgumentError: if there are fewer than two coefficients.
    """
    a = argument("companion", a)
    n = a.size
    if a.ndim != 1 or n < 2:
        raise ArgumentError(f"companion: at least two coefficients along one axis, got {a.shape}")
    first = -a[1:] / a[0]
    rows, columns = iota(n - 2, first)[:, None], iota(n - 1, first)[None, :]
    ones = (rows == columns).astype(first.dtype)
    return concat([first[None, :], ones])


def bandwidth(a: Any) -> tuple[Tensor, Tensor]:
    """How far from the diagonal the elements of matrices reach that are not 0: below, and above.

    Args:
        a: (*B, m, n).

    Returns:
        Two of (*B), int64.

    Raises:
        ShapeError: if it has fewer than two axes.

    Source: ``scipy.linalg.bandwidth``.

    Example:
        >>> import fx
        >>> fx.linalg.bandwidth(fx.tensor([[1.0, 2.0, 3.0], [0.0, 1.0, 0.0]]))
        (tensor(0), tensor(2))
    """
    a = argument("linalg.bandwidth", a)
    if a.ndim < 2:
        raise ShapeError(f"linalg.bandwidth takes matrices, got shape {a.shape}")
    m, n = a.shape[-2:]
    below = iota(m, a).astype(int64)[:, None] - iota(n, a).astype(int64)[None, :]
    if not m or not n:
        none = total((a != 0).astype(int64), axis=(-2, -1))
        return none, none
    reach = where(a != 0, below, 0)
    return largest(reach, axis=(-2, -1)), largest(-reach, axis=(-2, -1))


def hilbert(n: int) -> Tensor:
    """1 / (i + j + 1), of the default dtype."""
    n = integer("hilbert", "n", n)
    return 1.0 / (arange(n)[:, None] + arange(n)[None, :] + 1)  # type: ignore[no-any-return]


__all__ = [
    "Polar", "bandwidth", "block_diag", "cho_solve", "circulant", "companion", "expm", "hankel",
    "hilbert", "ishermitian", "issymmetric", "khatri_rao", "null_space", "orth", "polar",
    "toeplitz",
]  # fmt: skip
