"""Sums of floats along any axes: added up in float64, in blocks of which sizes alone decide.

The rows that are added up are cut into chunks, each a task with one float64 result; the chunks'
results are added up in the same way. Without a compiler NumPy adds up in float64.
"""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Any

import numpy as np

from fx import limits
from fx.backends.cpu._arrays import narrowed, widen
from fx.backends.cpu.llvm import library

Axes = tuple[int, ...]

_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)
_add = np.add.reduce
_empty = np.empty


def total(x: np.ndarray, axes: Axes, keepdims: bool = False) -> Any:
    """The sum over ``axes`` (sorted, not negative) in the dtype of ``x``, which may be any."""
    dtype = x.dtype
    if dtype is _F32 or dtype is _F64:
        n, rank = x.size, x.ndim
        if not (axes and n and axes[-1] < rank):  # NumPy says which axis is none
            return _add(x, axes, dtype, None, keepdims)
        if not _compiler():
            return _by_numpy(x, axes, keepdims)
        flags = x.flags
        if not (flags.c_contiguous and flags.aligned):
            return _turned(x, axes, keepdims)
        if len(axes) == rank and n <= limits.SUM_ROW >> 3:  # the short way of what is small
            out = _empty((1,) * rank if keepdims else (), dtype)
            _rows[dtype]([1, 0, x, out, n, n, 1])
            return out
        return _by_kernel(x, axes, keepdims)
    if dtype.itemsize == 2 and dtype.kind not in "iu":
        return narrowed(total(widen(x), axes, keepdims), dtype)
    if dtype == np.complex64:
        return _cast(_add(x, axes, np.complex128, None, keepdims), dtype)
    if dtype in (_F32, _F64):  # the object of an unpickled array
        return total(x.view(_F32 if dtype == _F32 else _F64), axes, keepdims)
    return _add(x, axes, dtype, None, keepdims)


_compiler = library.available


def _by_numpy(x: np.ndarray, axes: Axes, keepdims: bool) -> Any:
    if x.dtype is _F64:
        x = np.ascontiguousarray(x)  # NumPy's order follows how it lies
    return _cast(_add(x, axes, _F64, None, keepdims), x.dtype)


def _cast(x: Any, dtype: np.dtype) -> Any:
    if x.dtype == dtype:
        return x
    with np.errstate(over="ignore"):
        return x.astype(dtype)


def _by_kernel(x: np.ndarray, axes: Axes, keepdims: bool) -> Any:
    """The sum of a dense array."""
    shape, n = x.shape, x.size
    if n <= limits.SUM_ROW >> 3 and len(axes) == 1 and axes[0] == len(shape) - 1:  # as above
        out = _empty((*shape[:-1], 1) if keepdims else shape[:-1], x.dtype)
        _rows[x.dtype]([out.size, 0, x, out, shape[-1], n, 1])
        return out
    last, k = axes[-1], len(axes) - 1
    low = last
    while k and axes[k - 1] == low - 1:  # axes side by side are one
        k -= 1
        low -= 1
    if keepdims:
        kept: list[int] = [1 if i in axes else s for i, s in enumerate(shape)]
    else:
        kept = [s for i, s in enumerate(shape) if i not in axes]
    n, inner, outer = _sizes(shape, low, last + 1)
    if not k:
        return summed(x, outer, n, inner, _empty(kept, x.dtype))
    lines = summed(x, outer, n, inner, _empty((*shape[:low], *shape[last + 1 :]), _F64))
    return _cast(total(lines, axes[:k]), x.dtype).reshape(kept)  # and the axes before those


def _sizes(shape: Axes, low: int, high: int) -> tuple[int, int, int]:
    if len(shape) == 2 and high - low == 1:
        return (shape[0], shape[1], 1) if low == 0 else (shape[1], 1, shape[0])
    return prod(shape[low:high]), prod(shape[high:]), prod(shape[:low])


def _turned(x: np.ndarray, axes: Axes, keepdims: bool) -> Any:
    """The sum of an array that is not dense, in an order of its axes in which it is, or copied.

    A sum of float32 has room for another order: it is added up in float64 and rounded in the end.
    """
    if x.dtype is _F64:
        return total(x.copy("C"), axes, keepdims)
    order = sorted(range(x.ndim), key=lambda i: -abs(x.strides[i]))
    turned = x.transpose(order)
    if not (turned.flags.c_contiguous and turned.flags.aligned):
        if x.size > limits.SUM_COPIED:
            return _by_numpy(x, axes, keepdims)
        return total(x.copy("C"), axes, keepdims)
    out = total(turned, tuple(sorted([order.index(a) for a in axes])), True)
    out = out.transpose([order.index(i) for i in range(x.ndim)])
    return out if keepdims else out.squeeze(axes)


def summed(x: np.ndarray, outer: int, n: int, inner: int, out: np.ndarray) -> np.ndarray:
    """The sum over n of a dense x, read as (outer, n, inner), into ``out`` of outer * inner.

    One of the two dtypes is float64, or both are the same.
    """
    if not (outer and n and inner):
        out[...] = 0.0
        return out
    char = x.dtype.char
    if inner == 1:
        chunk = limits.SUM_ROW if char == "f" else limits.SUM_ROW >> 3
        parts = -(-n // chunk) if n > chunk else 1
        sums = out if parts == 1 else _empty((outer, parts), _F64)
        tasks = outer * parts
        many = library.chunk_of(tasks, 0.05 * x.itemsize * (n if parts == 1 else chunk))
        _kernel("rows", char, sums.dtype.char)([tasks, many, x, sums, n, chunk, parts])
    else:
        block = _block(char)
        small = n * inner < limits.SUM_BESIDE
        most = limits.SUM_ROWS if char == "f" else limits.SUM_ROWS >> 2
        beside = 1 if small else max(1, block // inner)  # rows that share vectors
        rows = most if small else min(most, max(32, limits.SUM_AREA // (beside * inner) & -32))
        chunk = beside * rows
        chunks = -(-n // chunk)
        parts = chunks * beside
        each = 0.06 * x.itemsize * min(chunk, n) * inner
        if inner >= 4 * block and x.nbytes > limits.SUM_NEAR:
            sums = _empty((outer, parts, inner), _F64)
            tasks = outer * chunks
            _kernel("wide", char, "d")(
                [tasks, library.chunk_of(tasks, each), x, sums, n, inner, chunk, chunks]
            )
        else:
            sums = out if parts == 1 else _empty((outer, parts, inner), _F64)
            blocks = -(-beside * inner // block)
            tasks = outer * chunks * blocks
            many = library.chunk_of(tasks, each / blocks)
            _kernel("columns", char, sums.dtype.char)(
                [tasks, many, x, sums, n, inner, beside * inner, chunk, chunks, blocks]
            )
    if sums is out:
        return out
    if parts == 1:
        with np.errstate(over="ignore"):
            out[...] = sums.reshape(out.shape)
        return out
    return summed(sums, outer, parts, inner, out)


@cache
def _kernel(name: str, char: str, out: str) -> library.Run:
    return library.kernel("sums", f"{name}_to_{'float64' if out == 'd' else 'float32'}", char)


@cache
def _block(char: str) -> int:
    from fx.backends.cpu.llvm.library import sums

    return sums.block_of(4 if char == "f" else 8)


class _Rows(dict[np.dtype, library.Run]):
    """The kernel that sums rows, by their dtype, which is that of the sums too."""

    def __missing__(self, dtype: np.dtype) -> library.Run:
        self[dtype] = run = _kernel("rows", dtype.char, dtype.char)
        return run


_rows = _Rows()
limits.on_change(_rows.clear)
limits.on_change(_kernel.cache_clear)
limits.on_change(_block.cache_clear)
