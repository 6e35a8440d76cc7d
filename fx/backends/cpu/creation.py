"""Kernels that make arrays from nothing."""

from __future__ import annotations

from functools import lru_cache
from math import copysign, prod
from typing import Any

import numpy as np

from fx import limits
from fx.backends.cpu.llvm import any_size
from fx.dtypes import plain

_INT64 = np.dtype(np.int64)
_zeros, _arange = np.zeros, np.arange


def full(*, shape: tuple[int, ...], value: Any, dtype: Any, device: str) -> np.ndarray:
    """A constant array."""
    if value == 0 and (type(value) is int or not _is_negative(value)):
        return _zeros(shape, dtype)
    value = plain(value, dtype)
    if prod(shape) * dtype.itemsize >= limits.FILL_FROM:
        fill = any_size.if_ready("filling", "fill", "f")
        if fill is not None:
            return _filled(fill, shape, value, dtype)
    out = np.empty(shape, dtype)
    out.fill(value)
    return out


def _is_negative(zero: Any) -> bool:
    """Whether a zero, or a part of it, has a sign."""
    parts = (zero.real, zero.imag) if isinstance(zero, complex) else (zero,)
    return any(isinstance(x, float) and copysign(1.0, x) < 0 for x in parts)


def _filled(fill: any_size.Run, shape: tuple[int, ...], value: Any, dtype: Any) -> np.ndarray:
    # complex numbers may be equal and not the same
    pattern = (_pattern.__wrapped__ if type(value) is complex else _pattern)(value, dtype)
    out = any_size.empty([pattern, *shape])
    tasks = -(-out.nbytes // limits.FILL_BLOCK)
    many = any_size.chunk_of(tasks, limits.FILL_BLOCK / _SPEED)
    fill([tasks, many, pattern, out, out.nbytes, limits.FILL_BLOCK])
    return out


@lru_cache(64)
def _pattern(value: Any, dtype: Any) -> np.ndarray:
    return np.full(_LINE // dtype.itemsize, value, dtype)


_LINE = 64  # bytes
_SPEED = 100  # bytes a nanosecond


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
    if n >= limits.COUNT_FROM and dtype.char in "fd":
        count = any_size.if_ready("counting", "line", dtype.name)
        if count is not None:
            return _spread(_counted(count, n, float(start), float(step), dtype), shape, axis)
    line = _arange(n, dtype=_INT64 if exact else np.float64)
    if step != 1:
        line = step * line
    if start or step < 0:  # 0 of -0.0 too
        line = start + line
    return _spread(line.astype(dtype, copy=False), shape, axis)


def _counted(count: any_size.Run, n: int, start: float, step: float, dtype: np.dtype) -> np.ndarray:
    out = any_size.empty([_pattern(0, dtype), n])
    tasks = -(-n // limits.FUSED_BLOCK)
    many = any_size.chunk_of(tasks, 0.1 * min(n, limits.FUSED_BLOCK))
    count([tasks, many, out, start, step, n])
    return out


def _spread(line: np.ndarray, shape: tuple[int, ...], axis: int) -> np.ndarray:
    """The same line at each place of the other axes."""
    if len(shape) == 1:
        return line
    line = line.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    if line.shape == shape:
        return line
    out = np.empty(shape, line.dtype)
    out[...] = line
    return out
