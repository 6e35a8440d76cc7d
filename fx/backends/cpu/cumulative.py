"""Cumulative kernels: floats of 16 and 32 bits are carried in float64, so errors do not pile up."""

from __future__ import annotations

import math

import numpy as np

from fx import limits
from fx.backends.cpu._arrays import contiguous, narrowed, widen

_CARRIED = {np.dtype("float32"): np.dtype("float64"), np.dtype("complex64"): np.dtype("complex128")}

_nb = None


def _kernels():
    global _nb
    if _nb is None:
        from fx.backends.cpu import _nb_cumulative

        _nb = _nb_cumulative
    return _nb


def cumsum(x: np.ndarray, *, axis: int, reverse: bool) -> np.ndarray:
    """out[k] = x[0] + ... + x[k], or x[k] + ... + x[n - 1] in reverse, in the dtype of ``x``."""
    return _accumulate(np.add, x, axis, reverse)


def cumprod(x: np.ndarray, *, axis: int, reverse: bool) -> np.ndarray:
    """As ``cumsum`` with products."""
    return _accumulate(np.multiply, x, axis, reverse)


def cummax(x: np.ndarray, *, axis: int, reverse: bool) -> tuple[np.ndarray, np.ndarray]:
    """The largest element so far and the place of its last occurrence; NaN wins: x and int64."""
    return _records(np.maximum, x, axis, reverse)


def cummin(x: np.ndarray, *, axis: int, reverse: bool) -> tuple[np.ndarray, np.ndarray]:
    """The smallest element so far and the place of its last occurrence; NaN wins: x and int64."""
    return _records(np.minimum, x, axis, reverse)


def logcumsumexp(x: np.ndarray, *, axis: int, reverse: bool) -> np.ndarray:
    """log(exp(x[0]) + ... + exp(x[k])) without overflow; -inf where every element is -inf."""
    return _accumulate(np.logaddexp, x, axis, reverse)


def recurrence(a: np.ndarray, b: np.ndarray, *, axis: int, reverse: bool) -> np.ndarray:
    """out[k] = a[k] * out[k - 1] + b[k] from out[-1] = 0, or from the end in reverse.

    a, b and out have one shape and one dtype.
    """
    n, dtype = b.shape[axis], b.dtype
    shape = (math.prod(b.shape[:axis]), n, math.prod(b.shape[axis + 1 :]))
    a, b = contiguous(widen(a)), contiguous(widen(b))
    out = np.empty(b.shape, b.dtype)
    if out.size:
        carried = np.empty(shape[2], np.complex128 if b.dtype.kind == "c" else np.float64)
        _kernels().recurrence(
            a.reshape(shape), b.reshape(shape), out.reshape(shape), carried, reverse
        )
    return narrowed(out, dtype)


def _accumulate(ufunc: np.ufunc, x: np.ndarray, axis: int, reverse: bool) -> np.ndarray:
    wide = widen(x)
    if wide.dtype == np.float32 and wide.size >= limits.SCAN_FROM and ufunc is not np.logaddexp:
        wide = contiguous(wide)
        shape = (math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :]))
        out = np.empty(x.shape, wide.dtype)
        product = ufunc is np.multiply
        _kernels().accumulate(wide.reshape(shape), out.reshape(shape), product, reverse)
        return narrowed(out, x.dtype)
    carried = _CARRIED.get(wide.dtype, wide.dtype)
    with np.errstate(all="ignore"):
        out = ufunc.accumulate(_turned(wide, axis, reverse), axis, carried)
        return narrowed(narrowed(_turned(out, axis, reverse), wide.dtype), x.dtype)


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
    return narrowed(_turned(values, axis, reverse), x.dtype), _turned(indices, axis, reverse)


def _turned(x: np.ndarray, axis: int, reverse: bool) -> np.ndarray:
    return x[(slice(None),) * axis + (slice(None, None, -1),)] if reverse else x
