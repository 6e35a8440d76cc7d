"""Systems of linear equations, and inverses."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import fx.prims.shape as shape_prims
from fx.errors import ShapeError
from fx.linalg.operands import inexact, matrices, square
from fx.ops.axes import integer
from fx.ops.operands import promoted
from fx.prims.families import broadcast_shapes
from fx.prims.linalg.solve import inv as inverted
from fx.prims.linalg.solve import solve as solved
from fx.prims.linalg.stacks import conjugate, identity_like
from fx.prims.linalg.triangular import triangular_solve
from fx.prims.linalg.verified import verified
from fx.prims.linear import swap_last
from fx.tensor import Tensor

_SINGULAR = "The solver failed because the input matrix is singular."


class SolveEx(NamedTuple):
    """What ``solve_ex`` gives."""

    result: Tensor
    info: Tensor


class InvEx(NamedTuple):
    """What ``inv_ex`` gives."""

    inverse: Tensor
    info: Tensor


def together(name: str, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Matrices and right sides of one dtype, with the same leading axes."""
    a, b = promoted(name, a, b)
    lead = a._shape[:-2]
    if lead != b._shape[:-2]:
        lead = broadcast_shapes(name, lead, b._shape[:-2])
        a, b = (_led(x, lead) for x in (a, b))
    return a, b


def _led(x: Tensor, lead: tuple[int, ...]) -> Tensor:
    shape = (*lead, *x._shape[-2:])
    return x if x._shape == shape else shape_prims.stretched(x, shape)  # type: ignore[no-any-return]


def right_sides(name: str, a: Tensor, b: Tensor, left: bool) -> None:
    """Refuse right sides that do not fit their square matrices.

    Raises:
        ShapeError: naming both shapes.
    """
    if len(b._shape) < 2 or b._shape[-2 if left else -1] != a._shape[-1]:
        equation = "AX = B" if left else "XA = B"
        raise ShapeError(
            f"{name}: Incompatible shapes of A and B for the equation {equation} "
            f"({_by(a)} and {_by(b)})"
        )


def _by(x: Tensor) -> str:
    return "x".join(map(str, x._shape[-2:]))


def solution(name: str, a: Any, b: Any, left: bool, vector: bool | None) -> tuple[Tensor, Tensor]:
    """The solution and its info; whether b holds vectors is seen unless told."""
    a, b = square(name, a), inexact(name, b)
    if vector is None:
        vector = len(b._shape) == 1
    if vector:
        b = b[..., None] if left else b[..., None, :]
    right_sides(name, a, b, left)
    a, b = together(name, a, b)
    if left:
        x, info = solved(a, b)
    else:
        x, info = solved(swap_last(a), swap_last(b))
        x = swap_last(x)
    if vector:
        x = x[..., 0] if left else x[..., 0, :]
    return x, info


def singular(name: str) -> tuple[str, str]:
    """The words of ``verified`` for a solve."""
    return f"{name}: {_SINGULAR}", f"{name}: (Batch element %lld): {_SINGULAR}"


def solve(x1: Any, x2: Any, /, *, left: bool = True) -> Tensor:
    """The solution x of x1 x = x2, or of x x1 = x2 where it is not ``left``.

    Args:
        x1: (*B, n, n).
        x2: (n,), or (*B, n, k), (*B, k, n) where it is not ``left``; leading axes broadcast.

    Returns:
        of the shape of ``x2``, with the leading axes of both.

    Raises:
        LinAlgError: if a matrix is singular: if a pivot is exactly 0.
        ShapeError: if the shapes do not fit.
        DTypeError: unless both are of float32, float64 or complex numbers.

    Source: Python Array API standard 2024.12, ``linalg.solve``.

    Example:
        >>> import fx
        >>> fx.linalg.solve(fx.tensor([[2.0, 0.0], [0.0, 4.0]]), fx.tensor([1.0, 2.0]))
        tensor([0.5000, 0.5000])
    """
    found, info = solution("linalg.solve", x1, x2, left, None)
    return verified(found, info, words=singular("linalg.solve"))  # type: ignore[no-any-return]


def solve_ex(x1: Any, x2: Any, /, *, left: bool = True, check_errors: bool = False) -> SolveEx:
    """``solve`` that tells in numbers where a matrix is singular.

    Returns:
        ``result``, NaN where there is none, and ``info`` (*B), int32: the number of the first pivot
        that is 0, from 1 on, or 0.

    Example:
        >>> import fx
        >>> fx.linalg.solve_ex(fx.zeros((2, 2)), fx.ones(2)).info
        tensor(1, dtype=fx.int32)
    """
    found, info = solution("linalg.solve_ex", x1, x2, left, None)
    if check_errors:
        found = verified(found, info, words=singular("linalg.solve_ex"))
    return SolveEx(found, info)


def _inverse_words(name: str) -> tuple[str, str]:
    rest = "the inversion could not be completed because the input matrix is singular."
    one = f"{name}: The diagonal element %lld is zero, {rest}"
    return one, f"{name}: (Batch element %lld): A diagonal element is zero, {rest}"


def inv(x: Any, /) -> Tensor:
    """The inverse of square matrices.

    Args:
        x: (*B, n, n).

    Raises:
        LinAlgError: if a matrix is singular: if a pivot is exactly 0.
        ShapeError: if ``x`` is no stack of square matrices.
        DTypeError: unless it is of float32, float64 or complex numbers.

    Source: Python Array API standard 2024.12, ``linalg.inv``.

    Example:
        >>> import fx
        >>> fx.linalg.inv(fx.tensor([[2.0, 0.0], [0.0, 4.0]]))
        tensor([[0.5000, 0.0000],
                [0.0000, 0.2500]])
    """
    found, info = inverted(square("linalg.inv", x))
    return verified(found, info, words=_inverse_words("linalg.inv"))  # type: ignore[no-any-return]


def inv_ex(x: Any, /, *, check_errors: bool = False) -> InvEx:
    """``inv`` that tells in numbers where a matrix is singular.

    Returns:
        ``inverse``, NaN where there is none, and ``info`` (*B), int32: the number of the first
        pivot that is 0, from 1 on, or 0.

    Example:
        >>> import fx
        >>> fx.linalg.inv_ex(fx.zeros((2, 2))).info
        tensor(1, dtype=fx.int32)
    """
    found, info = inverted(square("linalg.inv_ex", x))
    if check_errors:
        found = verified(found, info, words=_inverse_words("linalg.inv_ex"))
    return InvEx(found, info)


def solve_triangular(
    x1: Any, x2: Any, /, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """The solution x of x1 x = x2, or of x x1 = x2, with triangular matrices.

    Args:
        x1: (*B, n, n), of which one triangle is read.
        x2: (*B, n, k), or (*B, k, n) where it is not ``left``; leading axes broadcast.
        upper: whether the upper triangle is read, else the lower one.
        left: whether the matrices stand on the left.
        unitriangular: whether the diagonal is taken to be 1, and not read.

    Returns:
        as ``x2``; infinite or NaN where a diagonal element is 0.

    Source: ``torch.linalg.solve_triangular``.

    Example:
        >>> import fx
        >>> L = fx.tensor([[2.0, 0.0], [1.0, 1.0]])
        >>> fx.linalg.solve_triangular(L, fx.tensor([[2.0], [3.0]]), upper=False)
        tensor([[1.],
                [2.]])
    """
    name = "linalg.solve_triangular"
    a, b = square(name, x1), matrices(name, x2, "B")
    right_sides(name, a, b, left)
    a, b = together(name, a, b)
    return triangular_solve(  # type: ignore[no-any-return]
        a, b, left=left, lower=not upper, transposed=False, unit=unitriangular
    )


def _with_both(factor: Tensor, b: Tensor, upper: bool) -> Tensor:
    """x of L L^H x = b, or U^H U x = b."""
    how = {"left": True, "lower": not upper, "unit": False}
    other = conjugate(factor)
    first, second = (other, factor) if upper else (factor, other)
    y = triangular_solve(first, b, transposed=upper, **how)
    return triangular_solve(second, y, transposed=not upper, **how)  # type: ignore[no-any-return]


def cholesky_solve(x: Any, factor: Any, /, *, upper: bool = False) -> Tensor:
    """The solution of A y = x by the Cholesky factor of A.

    Args:
        x: (*B, n, k).
        factor: (*B, n, n), L with A = L L^H, or U with A = U^H U if it is ``upper``.

    Source: ``torch.cholesky_solve``.

    Example:
        >>> import fx
        >>> L = fx.linalg.cholesky(fx.tensor([[4.0, 2.0], [2.0, 10.0]]))
        >>> fx.linalg.cholesky_solve(fx.tensor([[6.0], [12.0]]), L)
        tensor([[1.],
                [1.]])
    """
    name = "linalg.cholesky_solve"
    a, b = square(name, factor), matrices(name, x, "B")
    right_sides(name, a, b, True)
    return _with_both(*together(name, a, b), upper)


def cholesky_inverse(factor: Any, /, *, upper: bool = False) -> Tensor:
    """The inverse of A by its Cholesky factor.

    Args:
        factor: (*B, n, n), L with A = L L^H, or U with A = U^H U if it is ``upper``.

    Source: ``torch.cholesky_inverse``.

    Example:
        >>> import fx
        >>> fx.linalg.cholesky_inverse(fx.tensor([[2.0, 0.0], [0.0, 4.0]]))
        tensor([[0.2500, 0.0000],
                [0.0000, 0.0625]])
    """
    a = square("linalg.cholesky_inverse", factor)
    return _with_both(a, _led(identity_like(a), a._shape[:-2]), upper)


def tensorinv(x: Any, /, ind: int = 2) -> Tensor:
    """The inverse of ``tensordot`` with ``x``, whose first ``ind`` axes are as many as the rest.

    Raises:
        ShapeError: if the products of both parts of the shape differ.
        ValueError: if ``ind`` is not positive.
        LinAlgError: if it is singular.

    Source: ``numpy.linalg.tensorinv``.

    Example:
        >>> import fx
        >>> fx.linalg.tensorinv(fx.reshape(fx.eye(6), (6, 2, 3)), ind=1).shape
        (2, 3, 6)
    """
    name = "linalg.tensorinv"
    x, ind = inexact(name, x), integer(name, "ind", ind)
    if ind <= 0:
        raise ValueError(f"{name}: Expected a strictly positive integer for 'ind', got {ind}")
    rows, columns = x._shape[:ind], x._shape[ind:]
    if prod(rows) != prod(columns):
        raise ShapeError(
            f"{name}: Expected self to satisfy the requirement prod(self.shape[ind:]) == "
            f"prod(self.shape[:ind]), but got {prod(columns)} != {prod(rows)}"
        )
    found = inv(shape_prims.reshaped(x, (prod(rows), prod(columns))))
    return shape_prims.reshaped(found, (*columns, *rows))  # type: ignore[no-any-return]


def tensorsolve(x1: Any, x2: Any, /, dims: tuple[int, ...] | None = None) -> Tensor:
    """The x with tensordot(x1, x, x.ndim) = x2.

    Args:
        x1: of the shape of ``x2`` and that of x, behind one another.
        x2: any shape.
        dims: axes of ``x1`` to be moved to the end first.

    Raises:
        ShapeError: if the shapes do not fit.
        LinAlgError: if it is singular.

    Source: ``numpy.linalg.tensorsolve``.

    Example:
        >>> import fx
        >>> fx.linalg.tensorsolve(fx.reshape(fx.eye(6), (2, 3, 6)), fx.ones((2, 3))).shape
        (6,)
    """
    name = "linalg.tensorsolve"
    a, b = promoted(name, inexact(name, x1), inexact(name, x2))
    if dims is not None:
        moved = [d % a.ndim for d in dims]
        order = (*[i for i in range(a.ndim) if i not in moved], *moved)
        a = shape_prims.transposed(a, order)
    shape = a._shape[b.ndim :]
    if prod(shape) != prod(b._shape) or prod(a._shape[: b.ndim]) != prod(b._shape):
        raise ShapeError(
            f"{name}: Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
            f"prod(self.shape[:other.ndim]), but got {prod(shape)} != {prod(b._shape)}"
        )
    n = prod(shape)
    found = solve(shape_prims.reshaped(a, (n, n)), shape_prims.reshaped(b, (n,)))
    return shape_prims.reshaped(found, shape)  # type: ignore[no-any-return]
