"""Kernels that make arrays from nothing."""

from __future__ import annotations

from math import copysign
from typing import Any

import numpy as np

_INT64 = np.dtype(np.int64)
_zeros, _arange = np.zeros, np.arange


def full(*, shape: tuple[int, ...], value: Any, dtype: Any, device: str) -> np.ndarray:
    """A constant array."""
    if value == 0 and (type(value) is not float or copysign(1.0, value) > 0):
        return _zeros(shape, dtype)
    out = np.empty(shape, dtype)
    out.fill(plain(value, dtype))
    return out


def plain(value: Any, dtype: Any) -> Any:
    """A Python number such that NumPy takes it for this dtype, however large it is."""
    if type(value) is int and not -(1 << 63) <= value < 1 << 63:
        if dtype == np.bool_:
            return True
        return float(value) if dtype.kind == "V" else value  # bfloat16
    return value


def iota(
    *, shape: tuple[int, ...], axis: int, start: Any, step: Any, dtype: Any, device: str
) -> np.ndarray:
    """start + step * index along ``axis``, the same along the others."""
    n = shape[axis]
    if type(start) is type(step) is int and step and dtype is _INT64 and len(shape) == 1:
        try:
            return _arange(start, start + step * n, step, _INT64)
        except OverflowError:
            pass
    exact = np.dtype(dtype).kind in "iu"
    index = np.arange(n, dtype=np.int64 if exact else np.float64)
    line = (start + step * index).astype(dtype)
    line = line.reshape([n if i == axis else 1 for i in range(len(shape))])
    return np.broadcast_to(line, shape).copy() if len(shape) > 1 else line


def eye(n: int, m: int, k: int, dtype: Any) -> np.ndarray:
    """An (n, m) matrix with ones on its diagonal ``k``."""
    out = _zeros((n, m), dtype)
    row, column = max(-k, 0), max(k, 0)
    count = min(n - row, m - column)
    if count > 0:
        first = row * m + column
        out.reshape(-1)[first : first + (count - 1) * (m + 1) + 1 : m + 1] = 1
    return out


def scalar(value: Any, dtype: Any) -> np.ndarray:
    """A 0-d array."""
    return np.asarray(plain(value, dtype), dtype=dtype)
