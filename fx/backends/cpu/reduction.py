"""Reduction kernels: narrow floats in float32, sums and products of floats in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

from fx import limits
from fx.backends.cpu import sums
from fx.backends.cpu._arrays import is_narrow, narrowed, widen
from fx.backends.cpu.formulas import Along
from fx.dtypes import bfloat16, complex64, complex128, float16, float32, float64
from fx.primitive import registry

Axes = tuple[int, ...]
_PRODUCTS = {
    **dict.fromkeys((float16, bfloat16, float32), float64), complex64: complex128
}  # fmt: skip


sum = sums.total


def prod(x: np.ndarray, *, axes: Axes, keepdims: bool) -> Any:
    """The product in the dtype of ``x``, computed in float64 or complex128."""
    if axes and axes[-1] < x.ndim:
        found = _prod(x, axes=axes, keepdims=keepdims)
        if found is not None:
            return found
    wide = _PRODUCTS.get(x.dtype, x.dtype)
    return sums.cast(np.multiply.reduce(x, axes, wide, None, keepdims), x.dtype)


def max(x: np.ndarray, *, axes: Axes, keepdims: bool) -> Any:
    """The largest element; NaN wins. ValueError where nothing is reduced to something."""
    return _extremum(np.maximum, _max, x, axes, keepdims)


def min(x: np.ndarray, *, axes: Axes, keepdims: bool) -> Any:
    """The smallest element; NaN wins. ValueError where nothing is reduced to something."""
    return _extremum(np.minimum, _min, x, axes, keepdims)


_max, _min, _prod = [
    Along(name, lambda x, name=name: registry[name](x, axes=(1,), keepdims=True), "x>r").call
    for name in ("max", "min", "prod")
]


def _extremum(ufunc: np.ufunc, native: Any, x: np.ndarray, axes: Axes, keepdims: bool) -> Any:
    size = x.size
    few = size >= limits.FOLD_FROM and len(axes) == 1 and x.ndim > 1
    if few and 1 < (n := x.shape[-1]) <= _FEW and axes[0] == x.ndim - 1 and _is_wide(x):
        out = ufunc(x[..., 0], x[..., 1])  # no vector has to be put together
        for i in range(2, n):
            ufunc(out, x[..., i], out=out)
        return out[..., None] if keepdims else out
    # NumPy's are slow along short axes; it needs no copy of what is not dense
    if size < limits.WHERE_FROM or len(axes) < x.ndim or x.flags.c_contiguous:
        found = native(x, axes=axes, keepdims=keepdims)
        if found is not None:
            return found
    wide = _is_wide(x)
    whole = wide and 0 < size < limits.WHERE_FROM and axes == tuple(range(x.ndim))
    if whole and not keepdims and x.flags.c_contiguous:
        # NumPy's search, which a NaN wins as well, is four times as fast
        at = x.argmax() if ufunc is np.maximum else x.argmin()
        return x.reshape(-1)[at]
    # narrow ones are half as fast in their own dtype, and bfloat16 warns of NaN
    if not wide and is_narrow(x.dtype):
        return ufunc.reduce(widen(x), axes, None, None, keepdims).astype(x.dtype)
    return ufunc.reduce(x, axes, None, None, keepdims)


def _is_wide(x: np.ndarray) -> bool:
    """Whether it is of one of the usual dtypes that are not narrow, by NumPy's letters."""
    return x.dtype.char in "fdlib?"


_FEW = 4  # elements of a row


def any(x: np.ndarray, *, axes: Axes, keepdims: bool) -> Any:
    """Whether some element is not zero: bool."""
    return np.logical_or.reduce(x, axes, bool, None, keepdims)


def all(x: np.ndarray, *, axes: Axes, keepdims: bool) -> Any:
    """Whether no element is zero: bool."""
    return np.logical_and.reduce(x, axes, bool, None, keepdims)


def argmax(x: np.ndarray, *, axis: int, keepdims: bool) -> Any:
    """The first place of the largest element, or of the first NaN: int64."""
    return x.argmax(axis, keepdims=keepdims) if keepdims else x.argmax(axis)


def argmin(x: np.ndarray, *, axis: int, keepdims: bool) -> Any:
    """The first place of the smallest element, or of the first NaN: int64."""
    return x.argmin(axis, keepdims=keepdims) if keepdims else x.argmin(axis)


_logsumexp = Along(
    "logsumexp", lambda x: registry["logsumexp"](x, axes=(1,), keepdims=True), "x>r"
).call


def logsumexp(x: np.ndarray, *, axes: Axes, keepdims: bool) -> Any:
    """log(sum(exp(x))) without overflow; -inf where every element is -inf or there is none."""
    found = _logsumexp(x, axes=axes, keepdims=keepdims)
    if found is not None:
        return found
    wide = widen(x)
    with np.errstate(all="ignore"):
        top = np.maximum.reduce(wide, axes, None, None, True, -np.inf)
        top = np.where(np.isfinite(top), top, wide.dtype.type(0))
        rest = np.asarray(np.subtract(wide, top))
        rest = np.exp(rest, out=rest)
        out = np.log(sums.total(rest, axes, True))
        out += top
    return narrowed(out if keepdims else out.squeeze(axes), x.dtype)


_softmax, _log_softmax = [
    Along(name, lambda x, name=name: registry[name](x, axis=1)).call
    for name in ("softmax", "log_softmax")
]


def softmax(x: np.ndarray, *, axis: int) -> np.ndarray:
    """exp(x) / sum(exp(x)) along ``axis`` without overflow."""
    found = _softmax(x, axes=(axis,))
    if found is not None:
        return found
    wide = widen(x)
    with np.errstate(all="ignore"):
        out = np.subtract(wide, np.maximum.reduce(wide, axis, None, None, True, -np.inf))
        out = np.exp(out, out=out)
        out /= sums.total(out, (axis,), True)
    return narrowed(out, x.dtype)


def log_softmax(x: np.ndarray, *, axis: int) -> np.ndarray:
    """x - log(sum(exp(x))) along ``axis`` without overflow."""
    found = _log_softmax(x, axes=(axis,))
    if found is not None:
        return found
    wide = widen(x)
    with np.errstate(all="ignore"):
        out = np.subtract(wide, np.maximum.reduce(wide, axis, None, None, True, -np.inf))
        total = sums.total(np.exp(out), (axis,), True)
        out -= np.log(total, out=total)
    return narrowed(out, x.dtype)
