"""Conversions: anything -> tensor, weak scalars, promotion of operands."""

from __future__ import annotations

from typing import Any

import numpy as np

import fx.prims.compare as compare
from fx import dtypes
from fx.devices import as_device, backend
from fx.errors import DTypeError
from fx.prims.creation import constant
from fx.tensor import Tensor, new_tensor

_SCALARS = (bool, int, float, complex)
_SCALAR_SET = frozenset(_SCALARS)


def as_operand(value: Any, other: Tensor) -> Any:
    """``value`` as the partner of ``other`` in an operation; NotImplemented if it is no tensor."""
    if isinstance(value, Tensor):
        return value
    if type(value) in _SCALAR_SET:
        dtype = dtypes.result_dtype_with_scalar(other.dtype, value)
        try:
            return constant(value, dtype, other.device.name)
        except OverflowError:
            raise DTypeError(
                f"the Python scalar {value} does not fit {dtype.name}; "
                f"cast the tensor first: x.astype(fx.int64)"
            ) from None
    if isinstance(value, np.ndarray | np.generic):
        return from_array(np.asarray(value), other.device.name)
    return NotImplemented


def promote(x: Tensor, y: Tensor, float_only: bool = False) -> tuple[Tensor, Tensor]:
    """Both tensors in their common dtype, a floating one if ``float_only``."""
    a, b = x.dtype, y.dtype
    common = a if a == b else dtypes.promote_types(a, b)
    if float_only:
        common = dtypes.to_float(common)
    if a != common:
        x = compare.astype(x, dtype=common)
    if b != common:
        y = compare.astype(y, dtype=common)
    return x, y


def from_array(array: np.ndarray, device: str) -> Tensor:
    """Wrap a NumPy array of a supported dtype, without a copy on the CPU."""
    dtype = dtypes.as_dtype(array.dtype)
    if array.dtype != dtype:
        array = array.astype(dtype)
    return new_tensor(backend(device).from_numpy(array))


def as_tensor(value: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """Anything as a tensor: a tensor stays itself, an array is not copied, a sequence is read."""
    if isinstance(value, Tensor):
        return value if dtype is None or value.dtype == dtype else compare.astype(value, dtype=dtype)
    name = as_device(device).name
    if type(value) in _SCALAR_SET:
        shared = constant(value, dtype or dtypes.dtype_of_scalar(value), name)
        return new_tensor(shared._a)  # its own object: it may come to require grad
    array = np.asarray(value)
    if dtype is None and array.dtype == np.float64 and not isinstance(value, np.ndarray | np.generic):
        dtype = dtypes.to_float(dtypes.bool_)
    return from_array(array if dtype is None else array.astype(dtype), name)
