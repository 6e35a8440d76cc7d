"""Cumulative kernels: ``llvm/any_size/scans.py``, and what NumPy does of complex and few numbers.

Floats of 16 and 32 bits are carried in float64, so errors do not pile up.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np

from fx import limits
from fx.backends.cpu._arrays import narrowed, widen
from fx.backends.cpu.llvm import any_size

_CARRIED = {np.dtype("float32"): np.dtype("float64"), np.dtype("complex64"): np.dtype("complex128")}
_PLACES = np.zeros(1, np.int64)
_NAMES: dict[np.dtype, str] = {}  # of dtypes: NumPy makes them anew, in a microsecond
PRICE = {  # nanoseconds an element
    "cumsum": 1.2, "cumprod": 1.2, "cummax": 1.5, "cummin": 1.5, "logcumsumexp": 12.0,
    "recurrence": 2.5,
}  # fmt: skip


def cumsum(x: np.ndarray, *, axis: int, reverse: bool) -> np.ndarray:
    """out[k] = x[0] + ... + x[k], or x[k] + ... + x[n - 1] in reverse, in the dtype of ``x``."""
    found = _native("cumsum", [x], axis, reverse)
    return _accumulate(np.add, x, axis, reverse) if found is None else found[0]


def cumprod(x: np.ndarray, *, axis: int, reverse: bool) -> np.ndarray:
    """As ``cumsum`` with products."""
    found = _native("cumprod", [x], axis, reverse)
    return _accumulate(np.multiply, x, axis, reverse) if found is None else found[0]


def cummax(x: np.ndarray, *, axis: int, reverse: bool) -> tuple[np.ndarray, np.ndarray]:
    """The largest element so far and the place of its last occurrence; NaN wins: x and int64."""
    found = _native("cummax", [x], axis, reverse, True)
    return _records(np.maximum, x, axis, reverse) if found is None else found


def cummin(x: np.ndarray, *, axis: int, reverse: bool) -> tuple[np.ndarray, np.ndarray]:
    """The smallest element so far and the place of its last occurrence; NaN wins: x and int64."""
    found = _native("cummin", [x], axis, reverse, True)
    return _records(np.minimum, x, axis, reverse) if found is None else found


def logcumsumexp(x: np.ndarray, *, axis: int, reverse: bool) -> np.ndarray:
    """log(exp(x[0]) + ... + exp(x[k])) without overflow; -inf where every element is -inf."""
    return _accumulate(np.logaddexp, x, axis, reverse)


def vander(x: np.ndarray, *, n: int, increasing: bool) -> np.ndarray | None:
    """The powers 0 to n - 1 of each element, floating, as a new last axis; else downwards."""
    if x.dtype.kind not in "fV" or not x.size or n < 2:
        return None
    factors = np.empty((*x.shape, n), x.dtype)
    factors[...] = x[..., None]
    factors[..., 0 if increasing else -1] = 1
    return cumprod(factors, axis=x.ndim, reverse=not increasing)


def recurrence(a: np.ndarray, b: np.ndarray, *, axis: int, reverse: bool) -> np.ndarray:
    """out[k] = a[k] * out[k - 1] + b[k] from out[-1] = 0, or from the end in reverse.

    a, b and out have one shape and one dtype.
    """
    if a.shape != b.shape or a.dtype != b.dtype:
        raise ValueError("the factors and the terms of a recurrence have one shape and one dtype")
    found = _native("recurrence", [a, b], axis, reverse)
    if found is not None:
        return found[0]
    wide = widen(b)
    kind = _CARRIED.get(wide.dtype, wide.dtype)
    out = np.empty(b.shape, kind)
    a, b, into = (np.moveaxis(_turned(x, axis, reverse), axis, 0) for x in (a, b, out))
    before = np.zeros(into.shape[1:], kind)
    for k in range(len(into)):
        before = into[k] = a[k].astype(kind) * before + b[k].astype(kind) if k else b[k]
    return narrowed(narrowed(out, wide.dtype), b.dtype)


def tasks_of(shape: tuple[int, ...], axis: int) -> int:
    """The tasks of a kernel: rows, of blocks of columns."""
    blocks = -(-prod(shape[axis + 1 :]) // limits.SCAN_COLUMNS)
    return prod(shape[:axis]) * blocks


@lru_cache(1024)
def _words(name: str, shape: tuple[int, ...], axis: int) -> tuple[int, int, int, int]:
    """What a kernel is told of sizes: tasks, tasks at once, elements of a line, lines side by side.

    Raises:
        IndexError: if there is no such axis.
    """
    if not 0 <= axis < len(shape):
        raise IndexError(axis)
    tasks = tasks_of(shape, axis)
    chunk = any_size.chunk_of(tasks, prod(shape) * PRICE[name] / tasks) if tasks else 0
    return tasks, chunk, shape[axis], prod(shape[axis + 1 :])


limits.on_change(_words.cache_clear)


def _native(
    name: str, arrays: list[np.ndarray], axis: int, reverse: bool, placed: bool = False
) -> tuple[np.ndarray, ...] | None:
    """The results of a kernel; None where NumPy is to compute them."""
    x = arrays[0]
    shape, dtype = x.shape, x.dtype
    tasks, chunk, n, inner = _words(name, shape, axis)
    kind = _NAMES.get(dtype) or _NAMES.setdefault(dtype, dtype.name)
    run = any_size.if_ready("scans", name, kind) if x.size and dtype.kind != "c" else None
    if run is None:
        return None
    given = [a if a.flags.c_contiguous and a.flags.aligned else a.copy("C") for a in arrays]
    outs = (any_size.empty([x, *shape]),)
    if placed:
        outs += (any_size.empty([_PLACES, *shape]),)
    run([tasks, chunk, *given, *outs, n, inner, int(reverse)])
    return outs


def _accumulate(ufunc: np.ufunc, x: np.ndarray, axis: int, reverse: bool) -> np.ndarray:
    wide = widen(x)
    carried = _CARRIED.get(wide.dtype, wide.dtype)
    with np.errstate(all="ignore"):
        out = ufunc.accumulate(_turned(wide, axis, reverse), axis, carried)
        out = narrowed(narrowed(_turned(out, axis, reverse), wide.dtype), x.dtype)
        return np.ascontiguousarray(out)  # as the kernel's


def _records(
    ufunc: np.ufunc, x: np.ndarray, axis: int, reverse: bool
) -> tuple[np.ndarray, np.ndarray]:
    wide = _turned(widen(x), axis, reverse)
    values = ufunc.accumulate(wide, axis)
    places = np.arange(x.shape[axis]).reshape([-1] + [1] * (x.ndim - axis - 1))
    # what equals the record so far is one itself: its place counts until the next
    record = (wide == values) | (wide != wide)
    indices = np.maximum.accumulate(np.where(record, places, 0), axis)
    if reverse:
        indices = x.shape[axis] - 1 - indices
    found = narrowed(_turned(values, axis, reverse), x.dtype), _turned(indices, axis, reverse)
    return np.ascontiguousarray(found[0]), np.ascontiguousarray(found[1])


def _turned(x: np.ndarray, axis: int, reverse: bool) -> np.ndarray:
    return x[(slice(None),) * axis + (slice(None, None, -1),)] if reverse else x
