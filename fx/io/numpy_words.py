"""NumPy's arrays, scalars and dtypes in pickles: numbers and text, checked before they are made."""

from __future__ import annotations

from typing import Any

import numpy as np

from fx import dtypes
from fx.errors import FileFormatError
from fx.io.makers import Maker


def _numpy_dtype(code: Any, align: Any = False, copy: Any = True) -> np.dtype:
    if type(code) is Maker and code.name == "ml_dtypes.bfloat16":
        return dtypes.bfloat16
    if type(code) is not str or code.lstrip("<=|")[:1] not in tuple("bBhHiIlLqQuefdFDfcSU?"):
        shown = repr(code[:40]) if type(code) is str else type(code).__name__
        raise FileFormatError(
            f"the file holds a NumPy array of dtype {shown}, which is none of numbers or text"
        )
    found = np.dtype(code)
    if found.hasobject or found.names or found.kind not in "biufcSU" or not found.itemsize:
        raise FileFormatError(f"the file holds a NumPy array of dtype {code!r:.40}")
    return found


def check_dtype_state(dtype: np.dtype, state: Any) -> None:
    if type(state) is not tuple or len(state) < 8 or state[1] not in ("<", "=", "|"):
        raise FileFormatError("the file holds a NumPy array of another byte order or with fields")
    if dtype.kind not in "SU" and any(part is not None for part in state[2:5]):
        raise FileFormatError("the file holds a NumPy array with fields")


def _empty_array(kind: Any = None, shape: Any = None, code: Any = None) -> np.ndarray:
    return np.empty(0, np.uint8)


def fill_array(array: np.ndarray, state: Any) -> None:
    if type(state) is not tuple or len(state) != 5:
        raise FileFormatError("a NumPy array without shape, dtype and data")
    _, shape, dtype, fortran, data = state
    _check_array(shape, dtype, data)
    array.__setstate__((1, tuple(shape), dtype, bool(fortran), bytes(data)))


def _array_of_buffer(data: Any, dtype: Any, shape: Any, order: Any = "C") -> np.ndarray:
    _check_array(shape, dtype, data)
    if order not in ("C", "F"):
        raise FileFormatError("a NumPy array in no order")
    return np.frombuffer(bytearray(data), dtype).reshape(shape, order=order)


def _check_array(shape: Any, dtype: Any, data: Any) -> None:
    if type(shape) is not tuple or len(shape) > 64:
        raise FileFormatError("a NumPy array whose shape is no tuple of up to 64 integers")
    if any(type(n) is not int or not 0 <= n < 1 << 63 for n in shape):
        raise FileFormatError("a NumPy array whose shape is no tuple of integers from 0 on")
    if not isinstance(dtype, np.dtype) or type(data) not in (bytes, bytearray):
        raise FileFormatError("a NumPy array without dtype and data")
    count = 1
    for n in shape:
        count *= n
    if count * dtype.itemsize != len(data) or not dtype.itemsize:
        raise FileFormatError(
            f"a NumPy array of shape {shape!r:.80} and {dtype.name} with {len(data)} bytes"
        )
    if dtype == dtypes.bool_ and data and max(data) > 1:
        raise FileFormatError("a NumPy bool array with bytes that are neither 0 nor 1")


def _scalar(dtype: Any, data: Any = None) -> Any:
    _check_array((), dtype, data)
    return np.frombuffer(data, dtype)[0]


NUMPY = {
    "numpy.dtype": _numpy_dtype,
    **{f"numpy.{core}.multiarray._reconstruct": _empty_array for core in ("core", "_core")},
    **{f"numpy.{core}.multiarray.scalar": _scalar for core in ("core", "_core")},
    **{f"numpy.{core}.numeric._frombuffer": _array_of_buffer for core in ("core", "_core")},
}
