"""Pooling over 1 to 3 spatial dimensions: maxima with their places, window sums, their transpose.

Ceil mode is a larger high padding. A window that does not fit gives no output.
"""

import math
from typing import Any

import numpy as np

from fx import limits
from fx.backends.cpu import sums
from fx.backends.cpu._arrays import computed, contiguous, narrowed, widen
from fx.backends.cpu._windows import Windows, sliding, windows
from fx.backends.cpu.llvm import any_size
from fx.prims.windows import some_window_is_all_padding

Pairs = tuple[tuple[int, int], ...]
Ints = tuple[int, ...]


def _run(name: str, dtype: np.dtype, planes: int, win: Windows, *arrays: np.ndarray) -> None:
    """Call a kernel of ``irregular/windows.py``; a task is a plane."""
    chunk = any_size.chunk_of(planes, 1.0 * win.positions * win.taps)
    any_size.kernel("windows", name, dtype.char)([planes, chunk, *arrays, win.geo])


@sliding
def max_pool(
    x: np.ndarray, *, window: Ints, stride: Ints, padding: Pairs, dilation: Ints
) -> tuple[np.ndarray, np.ndarray]:
    """The maximum of each window and its place: x (N, C, *S) -> values, indices (N, C, *out).

    Padding counts as lower than everything. indices: int64, flat over the unpadded spatial
    dimensions; the first of equal maxima, or the last NaN where a window holds NaN.
    """
    if x.dtype.kind == "c":
        raise TypeError("complex numbers have no order")
    if some_window_is_all_padding(x.shape[2:], window, stride, padding, dilation):
        raise ValueError("a window of padding has no maximum")  # and the spec rule says which
    win = windows(x.shape[2:], window, stride, padding, dilation)
    params = dict(window=window, stride=stride, padding=padding, dilation=dilation)
    native = _native("max_pool", x, x.shape[:2], win, params)
    if native is not None:
        return native[0], native[1]
    shape = (*x.shape[:2], *win.out)
    planes = math.prod(x.shape[:2])
    dtype = x.dtype
    x = contiguous(x.view(np.uint8) if dtype.kind == "b" else widen(x))
    values = np.empty(shape, x.dtype)
    indices = np.empty(shape, np.int64)
    if values.size:
        lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
        _run("max_pool", x.dtype, planes, win, x, values, indices, np.array([lowest], x.dtype))
    return (values.view(dtype) if dtype.kind == "b" else narrowed(values, dtype)), indices


def max_pool_values(
    x: np.ndarray, *, window: Ints, stride: Ints, padding: Pairs, dilation: Ints
) -> np.ndarray | None:
    """The maxima of ``max_pool`` alone, over one dimension in steps of 1: x (N, C, S); else None.

    A pass over memory for each element of a window but one.
    """
    if x.ndim != 3 or stride != (1,) or not 2 <= window[0] <= _FEW or x.dtype.char not in "fd":
        return None
    (n,), (k,), ((low, high),), (step,) = x.shape[2:], window, padding, dilation
    size = n + low + high - (k - 1) * step
    if x.size * k < limits.POOL_FROM or size < 1 or max(low, high) >= min(size, n):
        return None
    out = any_size.empty([x, *x.shape[:2], size])
    if low or high:
        out.fill(-np.inf)
        first = 0
    else:
        np.maximum(x[..., :size], x[..., step : step + size], out=out)
        first = 2
    for tap in range(first, k):
        at = tap * step - low  # the first output's element
        begin, end = max(0, -at), min(size, n - at)
        np.maximum(out[..., begin:end], x[..., begin + at : end + at], out=out[..., begin:end])
    return out


_FEW = 16  # elements of a window


@sliding
def window_sum(
    x: np.ndarray, *, window: Ints, stride: Ints, padding: Pairs, dilation: Ints
) -> np.ndarray:
    """The sum over each window, padding counting as zero: x (N, C, *S) -> (N, C, *out)."""
    win = windows(x.shape[2:], window, stride, padding, dilation)
    params = dict(window=window, stride=stride, padding=padding, dilation=dilation)
    native = _native("window_sum", x, x.shape[:2], win, params)
    if native is not None:
        return native[0]
    shape = (*x.shape[:2], *win.out)
    dtype, planes = x.dtype, math.prod(x.shape[:2])
    x = computed(x).reshape(planes, win.volume)
    if win.whole:
        return narrowed(sums.total(x, (1,)).reshape(shape), dtype)
    out = np.zeros((planes, win.positions), x.dtype)
    if out.size:
        _run("window_sum", x.dtype, planes, win, x, out)
    return narrowed(out.reshape(shape), dtype)


def window_sum_transpose(
    g: np.ndarray,
    *,
    input_size: Ints,
    window: Ints,
    stride: Ints,
    padding: Pairs,
    dilation: Ints,
) -> np.ndarray:
    """The transpose of `window_sum`: g (N, C, *out) -> (N, C, *input_size).

    Raises ValueError where g is not what `window_sum` gives for such an input.
    """
    win = windows(tuple(input_size), window, stride, padding, dilation)
    _check_out(g, win)
    params = dict(
        input_size=tuple(input_size), window=window, stride=stride, padding=padding,
        dilation=dilation,
    )  # fmt: skip
    native = _native("window_sum_transpose", g, g.shape[:2], win, params)
    if native is not None:
        return native[0]
    dtype, lead, planes = g.dtype, g.shape[:2], math.prod(g.shape[:2])
    g = computed(g).reshape(planes, win.positions)
    if win.whole:
        out = np.repeat(g, win.volume, axis=1)  # (P, V)
    else:
        out = np.zeros((planes, win.volume), g.dtype)
        if out.size and g.size:
            _run("window_sum_transpose", g.dtype, planes, win, g, out)
    return narrowed(out.reshape(*lead, *input_size), dtype)


def _native(
    name: str, x: np.ndarray, lead: Ints, win: Windows, params: dict[str, Any]
) -> list[np.ndarray] | None:
    """What a native kernel of `llvm.conv` gives; None where too little work would pay for it."""
    if x.dtype.kind != "f" or math.prod(lead) * win.positions * win.taps < limits.POOL_FROM:
        return None
    from fx.backends.cpu.llvm.conv import native

    return native.run(name, [x], params)


def _check_out(g: np.ndarray, win: Windows) -> None:
    if g.shape[2:] != win.out:
        raise ValueError(f"g must have spatial sizes {win.out}, got shape {g.shape}")
