"""The factorisation into triangles, and solves by it."""

from __future__ import annotations

from typing import Any, NamedTuple

import fx.prims.compare as compare
import fx.prims.shape as shape_prims
from fx.dtypes import int32
from fx.errors import DTypeError
from fx.linalg.operands import matrices, square
from fx.linalg.solving import right_sides, together
from fx.prims.creation import counted
from fx.prims.linalg.lu import lu as factored
from fx.prims.linalg.lu import lu_solve as by_factors
from fx.prims.linalg.lu import order_of, resized
from fx.prims.linalg.stacks import conjugate, identity_like, triangle
from fx.prims.linalg.verified import verified
from fx.prims.linear import swap_last
from fx.tensor import Tensor


class LU(NamedTuple):
    """What ``lu`` gives."""

    P: Tensor
    L: Tensor
    U: Tensor


class LUFactor(NamedTuple):
    """What ``lu_factor`` gives."""

    LU: Tensor
    pivots: Tensor


class LUFactorEx(NamedTuple):
    """What ``lu_factor_ex`` gives."""

    LU: Tensor
    pivots: Tensor
    info: Tensor


def lu(x: Any, /) -> LU:
    """P, L and U with x = P L U: exchanges of rows, a lower and an upper triangle.

    Args:
        x: (*B, m, n).

    Returns:
        ``P`` (*B, m, m), 0 and 1; ``L`` (*B, m, k) with ones on its diagonal; ``U`` (*B, k, n);
        k = min(m, n).

    Raises:
        ShapeError: if ``x`` has fewer than two axes.
        DTypeError: unless it is of float32, float64 or complex numbers.

    Source: ``torch.linalg.lu``, ``scipy.linalg.lu``.

    Example:
        >>> import fx
        >>> fx.linalg.lu(fx.tensor([[1.0, 2.0], [2.0, 2.0]])).U
        tensor([[2., 2.],
                [0., 1.]])
    """
    x = matrices("linalg.lu", x)
    factors, _, order, _ = factored(x)
    return LU(_exchanges(order, x._dtype), *_triangles(factors))


def _exchanges(order: Tensor, dtype: Any) -> Tensor:
    """P (*B, m, m) with the rows of P x in an order (*B, m) those of x."""
    m = order._shape[-1]
    places = counted((m, 1), 0, 0, 1, order._dtype, order.device.name)
    lifted = shape_prims.reshaped(order, (*order._shape[:-1], 1, m))
    return compare.astype(compare.equal(places, lifted), dtype=dtype)  # type: ignore[no-any-return]


def _triangles(factors: Tensor) -> tuple[Tensor, Tensor]:
    m, n = factors._shape[-2:]
    k = min(m, n)
    low = resized(factors, m, k)
    lower = triangle(low, diagonal=0.0) + identity_like(low)
    return lower, triangle(resized(factors, k, n), lower=False)


def lu_factor_ex(x: Any, /, *, check_errors: bool = False) -> LUFactorEx:
    """``lu`` in one matrix, with ``info``.

    Args:
        x: (*B, m, n).
        check_errors: raise an error where U has a 0 on its diagonal.

    Returns:
        ``LU`` (*B, m, n): L below the diagonal, and U; ``pivots`` (*B, k), int32: row i was
        exchanged for row ``pivots[i] - 1``; ``info`` (*B), int32: the number of the first 0 on U's
        diagonal, from 1 on, or 0.

    Example:
        >>> import fx
        >>> fx.linalg.lu_factor_ex(fx.tensor([[1.0, 2.0], [2.0, 2.0]])).pivots
        tensor([2, 2], dtype=fx.int32)
    """
    return _factored("linalg.lu_factor_ex", x, check_errors)


def _factored(name: str, x: Any, check: bool) -> LUFactorEx:
    factors, pivots, _, info = factored(matrices(name, x))
    if check:
        rest = (
            "is zero and using it on lu_solve would result in a division by zero. If you still "
            "want to perform the factorization, consider calling linalg.lu(A, pivot) or "
            "linalg.lu_factor_ex(A, pivot)"
        )
        one = f"{name}: the diagonal element %lld of U {rest}"
        each = f"{name}: (Batch element %lld): a diagonal element of U {rest}"
        factors = verified(factors, info, words=(one, each))
    return LUFactorEx(factors, pivots + 1, info)


def lu_factor(x: Any, /) -> LUFactor:
    """``lu`` in one matrix, as ``lu_solve`` takes it; see ``lu_factor_ex``.

    Raises:
        LinAlgError: if U has a 0 on its diagonal.

    Example:
        >>> import fx
        >>> fx.linalg.lu_factor(fx.tensor([[1.0, 2.0], [2.0, 2.0]])).LU
        tensor([[2.0000, 2.0000],
                [0.5000, 1.0000]])
    """
    return LUFactor(*_factored("linalg.lu_factor", x, True)[:2])


def lu_solve(
    factors: Any, pivots: Any, x: Any, /, *, left: bool = True, adjoint: bool = False
) -> Tensor:
    """The solution y of A y = x by what ``lu_factor`` gives of A.

    Args:
        factors: (*B, n, n).
        pivots: (*B, n), int32.
        x: (*B, n, k), or (*B, k, n) where it is not ``left``; leading axes broadcast.
        left: whether A stands on the left.
        adjoint: with the conjugate transpose of A.

    Source: ``torch.linalg.lu_solve``.

    Example:
        >>> import fx
        >>> a = fx.linalg.lu_factor(fx.tensor([[1.0, 2.0], [2.0, 2.0]]))
        >>> fx.linalg.lu_solve(*a, fx.tensor([[3.0], [4.0]]))
        tensor([[1.],
                [1.]])
    """
    name = "linalg.lu_solve"
    a, b = square(name, factors), matrices(name, x, "B")
    if pivots.dtype != int32:
        raise DTypeError(f"{name}: pivots should be a Tensor of scalar type int32, got {pivots!r}")
    right_sides(name, a, b, left)
    order = order_of(pivots - 1, size=a._shape[-1])
    a, b = together(name, a, b)
    order = shape_prims.stretched(order, (*a._shape[:-2], a._shape[-1]))
    if not left:  # y A = x is A^T y^T = x^T
        b = swap_last(b)
    a = conjugate(a) if adjoint else a
    y = by_factors(a, order, b, transposed=adjoint == left)
    return y if left else swap_last(y)


def lu_unpack(factors: Any, pivots: Any, /) -> LU:
    """P, L and U of what ``lu_factor`` gives.

    Source: ``torch.lu_unpack``.

    Example:
        >>> import fx
        >>> a = fx.linalg.lu_factor(fx.tensor([[1.0, 2.0], [2.0, 2.0]]))
        >>> fx.linalg.lu_unpack(*a).P
        tensor([[0., 1.],
                [1., 0.]])
    """
    a = matrices("linalg.lu_unpack", factors, "LU_data")
    order = order_of(pivots - 1, size=a._shape[-2])
    return LU(_exchanges(order, a._dtype), *_triangles(a))
