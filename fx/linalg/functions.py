"""Pseudo-inverses, ranks, exponentials, and products of reflectors."""

from __future__ import annotations

from typing import Any

import numpy as np

import fx.prims.linalg.functions as functions
from fx.errors import ShapeError
from fx.linalg.operands import matrices, square
from fx.linalg.spectral import NOT_FINITE, checked, eigvalsh, svdvals
from fx.ops.making.patterns import tril
from fx.prims.creation import constant_like
from fx.prims.linalg.hermitian import hermitian as of_hermitian
from fx.prims.linalg.pieces import columns_of, from_diagonal, identity
from fx.prims.linalg.stacks import adjoint, triangle
from fx.prims.linalg.triangular import triangular_solve
from fx.prims.linear import matmul
from fx.prims.shape import pad
from fx.tensor import Tensor


def relative(x: Tensor, rtol: Any, atol: Any) -> Any:
    """``rtol``, or what it is without: 0 beside an ``atol``, else the rounding of such a matrix."""
    if rtol is not None:
        return rtol
    if atol is not None and not (isinstance(atol, int | float) and atol == 0):
        return 0.0
    return float(np.finfo(x._dtype).eps) * max(x._shape[-2:])


def _number(name: str, word: str, value: Any) -> float:
    if isinstance(value, Tensor) and value.ndim:
        raise ShapeError(
            f"{name}: {word} must be a number for all matrices, got shape {value.shape}; write "
            f"fx.vmap over matrices and tolerances"
        )
    return float(value)


def pseudo_inverse(name: str, x: Tensor, rtol: Any, atol: Any) -> tuple[Tensor, Tensor]:
    """The pseudo-inverse and the rank."""
    tolerances = {
        "rtol": _number(name, "rtol", relative(x, rtol, atol)),
        "atol": _number(name, "atol", 0.0 if atol is None else atol),
    }
    p, rank, info = functions.pinv(x, **tolerances)
    return checked(name, NOT_FINITE, info, p)[0], rank


def pinv(x: Any, /, *, rtol: Any = None, atol: Any = None, hermitian: bool = False) -> Tensor:
    """The Moore-Penrose inverse, of singular values above max(atol, rtol * the largest).

    It has a derivative among matrices of one rank, also where singular values repeat.

    Args:
        x: (*B, m, n).
        rtol: a number; max(m, n) times the machine's epsilon unless there is an ``atol``, else 0.
        atol: a number; 0 unless given.
        hermitian: whether ``x`` is Hermitian, so that gradients are; its lower triangle is read.

    Returns:
        (*B, n, m), of the dtype of ``x``.

    Raises:
        ShapeError: if ``x`` has fewer than two axes, or a tolerance has any.
        DTypeError: unless it is of float32, float64 or complex numbers.
        LinAlgError: if it holds NaN or infinities.

    Source: Python Array API standard 2024.12, ``linalg.pinv``; ``torch.linalg.pinv``; G. H. Golub
    and V. Pereyra, The differentiation of pseudo-inverses, 1973.

    Example:
        >>> import fx
        >>> fx.linalg.pinv(fx.tensor([[2.0, 0.0], [0.0, 0.0]]))
        tensor([[0.5000, 0.0000],
                [0.0000, 0.0000]])
    """
    x = (square if hermitian else matrices)("linalg.pinv", x)
    if hermitian:
        x = of_hermitian(x)
        x = tril(x) + adjoint(tril(x, k=-1))
    return pseudo_inverse("linalg.pinv", x, rtol, atol)[0]


def matrix_rank(
    x: Any, /, *, rtol: Any = None, atol: Any = None, hermitian: bool = False
) -> Tensor:
    """How many singular values are above max(atol, rtol * the largest).

    Args:
        x: (*B, m, n).
        rtol, atol: numbers or (*B); as of ``pinv``.
        hermitian: whether ``x`` is Hermitian; its eigenvalues are taken.

    Returns:
        (*B), int64.

    Source: Python Array API standard 2024.12, ``linalg.matrix_rank``; ``torch.linalg.matrix_rank``.

    Example:
        >>> import fx
        >>> fx.linalg.matrix_rank(fx.ones((3, 3)))
        tensor(1)
    """
    x = matrices("linalg.matrix_rank", x)
    values = eigvalsh(x).abs() if hermitian else svdvals(x)
    if not values._shape[-1]:
        return values.sum(-1).long()  # type: ignore[no-any-return]
    largest = values.amax(-1)
    cut = largest * relative(x, rtol, atol)
    if atol is not None:
        lowest = atol if isinstance(atol, Tensor) else largest.new_full((), atol)
        cut = cut.maximum(lowest)
    return (values > cut[..., None]).sum(-1)  # type: ignore[no-any-return]


def matrix_exp(x: Any, /) -> Tensor:
    """The exponential of square matrices, 1 + x + x x / 2 + ...

    Args:
        x: (*B, n, n).

    Returns:
        As ``x``; NaN for a matrix that holds NaN or infinities.

    Raises:
        ShapeError: if ``x`` is no stack of square matrices.
        DTypeError: unless it is of float32, float64 or complex numbers.

    Source: ``torch.linalg.matrix_exp``, ``jax.scipy.linalg.expm``; N. J. Higham, The scaling and
    squaring method for the matrix exponential revisited, 2005.

    Example:
        >>> import fx
        >>> fx.linalg.matrix_exp(fx.tensor([[0.0, 1.0], [0.0, 0.0]]))
        tensor([[1., 1.],
                [0., 1.]])
    """
    return functions.matrix_exp(square("linalg.matrix_exp", x))  # type: ignore[no-any-return]


def reflectors(name: str, a: Any, tau: Any) -> tuple[Tensor, Tensor]:
    """v (*B, m, k) and t (*B, k, k), for which the product of reflectors is 1 - v t v^H.

    C. Puglisi, Modification of the Householder method based on the compact WY representation,
    1992: t^-1 has 1 / tau on its diagonal and above it v^H v. Multiplied by diag(tau) that also
    holds where tau is 0.
    """
    a, tau = matrices(name, a), matrices(name, tau[..., None], "tau")[..., 0]
    (m, n), k = a._shape[-2:], tau._shape[-1]
    if m < n:
        raise ShapeError(
            f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1], got "
            f"{a.shape}"
        )
    if k > n or tau._shape[:-1] != a._shape[:-2]:
        raise ShapeError(f"{name}: reflectors {a.shape} and factors {tau.shape} do not fit")
    low = columns_of(a, 0, k)
    v = triangle(low, diagonal=0.0) + _padded(identity(k, a), m)
    inner = triangle(matmul(adjoint(v), v), lower=False, diagonal=0.0)
    t = triangular_solve(
        tau[..., :, None] * inner, from_diagonal(tau), left=True, lower=False, transposed=False,
        unit=True,
    )  # fmt: skip
    return v, t


def _padded(x: Tensor, rows: int) -> Tensor:
    none = (0,) * x.ndim
    high = (*none[2:], rows - x.shape[-2], 0)
    return pad(x, constant_like(0, x), low=none, high=high, inside=none)  # type: ignore[no-any-return]


def householder_product(x: Any, tau: Any, /) -> Tensor:
    """The first n columns of a product of reflectors 1 - tau[i] v[i] v[i]^H.

    Args:
        x: (*B, m, n) with n <= m; below its diagonal the columns are the v, whose first
            element that is not 0 is 1.
        tau: (*B, k) with k <= n.

    Returns:
        (*B, m, n).

    Raises:
        ShapeError: if these do not fit.

    Source: ``torch.linalg.householder_product``.

    Example:
        >>> import fx
        >>> fx.linalg.householder_product(fx.tensor([[0.0], [1.0]]), fx.tensor([1.0]))
        tensor([[ 0.],
                [-1.]])
    """
    v, t = reflectors("linalg.householder_product", x, tau)
    n = x.shape[-1]
    one = _padded(identity(n, v), v.shape[-2])
    return one - matmul(v, matmul(t, adjoint(v[..., :n, :])))  # type: ignore[no-any-return]
