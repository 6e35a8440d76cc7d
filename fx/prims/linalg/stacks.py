"""What primitives on stacks of matrices share: spec rules, lanes, masks, samplers.

Matrices are the last two axes; all arguments of a primitive have the same leading axes. A
factorisation never raises: it gives ``info``, int32 and 0 where all is well, and NaN where there is
no factor. ``verified`` makes an error of that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fx.prims.compare as compare
import fx.prims.shape as shape_prims
from fx.dtypes import FLOATING, INEXACT, float32, float64, int32
from fx.errors import ShapeError
from fx.primitive import Primitive
from fx.prims.complex import conj
from fx.prims.creation import constant_like, counted
from fx.prims.families import accept, to_front
from fx.prims.linear import swap_last
from fx.prims.sampling import Draw
from fx.spec import TensorSpec
from fx.tensor import Tensor

_NARROW = FLOATING - {float32, float64}


def matrices(name: str, x: TensorSpec, square: bool = True) -> None:
    """Refuse what is no stack of (square) matrices of floating or complex numbers.

    Raises:
        ShapeError: for a wrong shape.
        DTypeError: for another dtype.
    """
    accept(name, x.dtype, INEXACT)
    if x.ndim < 2 or (square and x.shape[-1] != x.shape[-2]):
        kind = "square matrices (*batch, n, n)" if square else "matrices (*batch, m, n)"
        raise ShapeError(f"{name} takes {kind}, got shape {x.shape}")


def lapack_matrices(name: str, x: TensorSpec, square: bool = True) -> None:
    """``matrices`` of the dtypes that LAPACK has: no narrow floats.

    Raises:
        ShapeError, DTypeError: as ``matrices``.
    """
    matrices(name, x, square)
    accept(name, x.dtype, INEXACT - _NARROW)


def stacked(get: Callable[[], Primitive]) -> Callable[..., Any]:
    """The batching rule: lanes are one more leading axis, of all arguments."""

    def batch(level: Any, args: Any, dims: Any, **params: Any) -> Any:
        args = [
            shape_prims.stretched(x, (level.size, *x.shape)) if d is None else to_front(x, d)
            for x, d in zip(args, dims, strict=True)
        ]
        out = get()(*args, **params)
        return (out, (0,) * len(out)) if isinstance(out, tuple) else (out, 0)

    return batch


def as_columns(solve: Callable[[Tensor], Tensor], b: Tensor, dim: int) -> tuple[Tensor, int]:
    """The batching rule of one system for lanes of right sides: lanes are more columns."""
    b = to_front(b, dim)  # (lanes, n, k)
    lanes, n, k = b.shape
    b = shape_prims.reshaped(shape_prims.transposed(b, (1, 0, 2)), (n, lanes * k))
    return shape_prims.reshaped(solve(b), (n, lanes, k)), 1


def in_float32(get: Callable[[], Primitive]) -> Callable[..., Any]:
    """The formula for narrow floats, of which compilers have no code: float32 and back."""

    def formula(*args: Tensor, **params: Any) -> Any:
        dtype = args[0]._dtype
        if dtype not in _NARROW:
            return None
        wide = [compare.astype(x, dtype=float32) if x._dtype in _NARROW else x for x in args]
        found = get()(*wide, **params)
        if not isinstance(found, tuple):
            return compare.astype(found, dtype=dtype)
        return tuple([compare.astype(x, dtype=dtype) if x._dtype == float32 else x for x in found])

    return formula


def adjoint(x: Tensor) -> Tensor:
    """The conjugate transpose."""
    x = swap_last(x)
    return conj(x) if x._dtype.kind == "c" else x


def conjugate(x: Tensor) -> Tensor:
    """The complex conjugate; real numbers as they are."""
    return conj(x) if x._dtype.kind == "c" else x  # type: ignore[no-any-return]


def triangle(x: Tensor, lower: bool = True, diagonal: float = 1.0) -> Tensor:
    """A triangle of matrices (*B, m, n), with zeros elsewhere and the diagonal times a number."""
    rows, columns = _places(x)
    inside = (compare.greater if lower else compare.less)(rows, columns)
    weights = compare.astype(inside, dtype=x._dtype)
    if diagonal:
        equal = compare.astype(compare.equal(rows, columns), dtype=x._dtype)
        weights = weights + equal * diagonal
    return x * weights  # type: ignore[no-any-return]


def _places(x: Tensor) -> tuple[Tensor, Tensor]:
    """The numbers of the rows and of the columns of matrices (*B, m, n): (m, n) each."""
    shape, device = x._shape[-2:], x.device.name
    rows, columns = (counted(shape, axis, 0, 1, int32, device) for axis in (0, 1))
    return rows, columns


def identity_like(x: Tensor, start: int = 0) -> Tensor:
    """The identity (m, n) of the dtype of matrices (*B, m, n), with zeros before row ``start``."""
    rows, columns = _places(x)
    ones = compare.equal(rows, columns)
    if start:
        ones = compare.logical_and(ones, compare.greater_equal(rows, constant_like(start, rows)))
    return compare.astype(ones, dtype=x._dtype)  # type: ignore[no-any-return]


# samplers ---------------------------------------------------------------------------------------


def stack_shape(d: Draw) -> tuple[int, ...]:
    """Leading axes: none, one or two."""
    return d.shape(0, 2, 1, 3)


def well_conditioned(d: Draw, lead: tuple[int, ...], n: int) -> np.ndarray:
    """Square matrices that are far from singular: the diagonal leads by rows and by columns."""
    return d.floats((*lead, n, n), -0.5, 0.5) / max(n, 1) + _signed_diagonal(d, lead, n)


def separate(d: Draw, lead: tuple[int, ...], n: int) -> np.ndarray:
    """Square matrices whose eigenvalues are far from one another and from 0."""
    x = d.floats((*lead, n, n), -0.4, 0.4)
    for i in range(n):
        x[..., i, i] += 3.0 * (i - 1.2)
    return x


def _signed_diagonal(d: Draw, lead: tuple[int, ...], n: int) -> np.ndarray:
    return d.away_from(0.0, (*lead, n, 1), 1.0, 2.0) * np.eye(n, dtype=d.dtype)


def positive_definite(d: Draw, lead: tuple[int, ...], n: int) -> np.ndarray:
    """Symmetric matrices whose diagonal leads and is positive."""
    x = d.floats((*lead, n, n), -0.4, 0.4) / max(n, 1)
    diagonal = d.floats((*lead, n, 1), 1.0, 2.0) * np.eye(n, dtype=d.dtype)
    return x + x.swapaxes(-1, -2) + diagonal  # type: ignore[no-any-return]
