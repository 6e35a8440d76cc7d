"""Diagonals, rows and columns of stacks of matrices, and their real and complex dtypes."""

from __future__ import annotations

from typing import Any

import fx.prims.shape as shape_prims
from fx.dtypes import complex64, complex128, float32, float64, int32
from fx.prims.compare import astype, equal, where
from fx.prims.complex import part
from fx.prims.creation import constant_like, counted
from fx.prims.linear import swap_last
from fx.prims.reduction import sum
from fx.tensor import Tensor

_REAL = {complex64: float32, complex128: float64}
_COMPLEX = {real: wide for wide, real in _REAL.items()}


def real_dtype(dtype: Any) -> Any:
    """The real dtype of the parts of a complex one; a real one itself."""
    return _REAL.get(dtype, dtype)


def complex_dtype(dtype: Any) -> Any:
    """The complex dtype whose parts are of a real one; a complex one itself."""
    return _COMPLEX.get(dtype, dtype)


def real(x: Tensor) -> Tensor:
    """The real part; real tensors as they are."""
    return part(x, turn=0) if x._dtype in _REAL else x  # type: ignore[no-any-return]


def of_dtype(x: Tensor, dtype: Any) -> Tensor:
    """``x`` of a dtype: itself if it is of that."""
    return x if x._dtype == dtype else astype(x, dtype=dtype)  # type: ignore[no-any-return]


def row(x: Tensor) -> Tensor:
    """(*B, n) -> (*B, 1, n): a matrix times it has its columns scaled."""
    return shape_prims.reshaped(x, (*x._shape[:-1], 1, x._shape[-1]))  # type: ignore[no-any-return]


def column(x: Tensor) -> Tensor:
    """(*B, n) -> (*B, n, 1): a matrix times it has its rows scaled."""
    return shape_prims.reshaped(x, (*x._shape, 1))  # type: ignore[no-any-return]


def on_diagonal(x: Tensor) -> Tensor:
    """Where (n, n) matrices have their diagonal, on the device of ``x``, whose last axis is n."""
    n, device = x._shape[-1], x.device.name
    rows, columns = (counted((n, n), axis, 0, 1, int32, device) for axis in (0, 1))
    return equal(rows, columns)  # type: ignore[no-any-return]


def diagonal(x: Tensor) -> Tensor:
    """(*B, n, n) -> (*B, n)."""
    kept = where(on_diagonal(x), x, constant_like(0, x))
    return sum(kept, axes=(len(x._shape) - 1,), keepdims=False)  # type: ignore[no-any-return]


def from_diagonal(d: Tensor) -> Tensor:
    """(*B, n) -> (*B, n, n) with zeros elsewhere."""
    return where(on_diagonal(d), row(d), constant_like(0, d))  # type: ignore[no-any-return]


def identity(n: int, like: Tensor) -> Tensor:
    """The matrix (n, n), of the dtype and on the device of ``like``."""
    return from_diagonal(shape_prims.stretched(constant_like(1, like), (n,)))


def reciprocal_off_diagonal(x: Tensor) -> Tensor:
    """1 / x of square matrices, and 0 on their diagonals."""
    same, one = on_diagonal(x), constant_like(1, x)
    return where(same, constant_like(0, x), one / where(same, one, x))  # type: ignore[no-any-return]


def columns_of(x: Tensor, start: int, stop: int) -> Tensor:
    """The columns ``start .. stop - 1``; all of them are ``x`` itself."""
    shape = x._shape
    if (start, stop) == (0, shape[-1]):
        return x
    none = (0,) * (len(shape) - 1)
    return shape_prims.slice(  # type: ignore[no-any-return]
        x, start=(*none, start), stop=(*shape[:-1], stop), step=(1,) * len(shape)
    )


def rows_of(x: Tensor, start: int, stop: int) -> Tensor:
    """The rows ``start .. stop - 1``; all of them are ``x`` itself."""
    if (start, stop) == (0, x._shape[-2]):
        return x
    return swap_last(columns_of(swap_last(x), start, stop))  # type: ignore[no-any-return]


def beside(*parts: Tensor) -> Tensor:
    """Matrices side by side."""
    return shape_prims.concatenate(*parts, axis=len(parts[0]._shape) - 1)  # type: ignore[no-any-return]


def total(*terms: Tensor | None) -> Tensor | None:
    """The sum of those that are not None; None if there is none."""
    found = None
    for term in terms:
        if term is not None:
            found = term if found is None else found + term
    return found
