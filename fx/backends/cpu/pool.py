"""Pooling over 1 to 3 spatial dimensions: maxima with their places, window sums, their transpose.

Ceil mode is a larger high padding. A window that does not fit gives no output.
"""

import math
from functools import cache, lru_cache
from typing import Any

import numpy as np

from fx import limits
from fx.backends.cpu import sums
from fx.backends.cpu._arrays import computed, contiguous, narrowed, widen
from fx.backends.cpu._windows import Windows, windows
from fx.backends.cpu.formulas import dense
from fx.backends.cpu.llvm import any_size
from fx.prims.windows import some_window_is_all_padding

Pairs = tuple[tuple[int, int], ...]
Ints = tuple[int, ...]


@lru_cache(maxsize=1024)
def _plan(
    shape: Ints, window: Ints, stride: Ints, padding: Pairs, dilation: Ints
) -> tuple[Windows, Ints, int, bool, bool]:
    """Windows over x (N, C, *S), the shape of what they give, planes, and whether it is compiled.

    The last says whether some window is all padding. Raises ValueError where a window does not fit.
    """
    win = windows(shape[2:], window, stride, padding, dilation)
    if not win.positions:
        raise ValueError("the window does not fit")  # and the spec rule says how
    planes = math.prod(shape[:2])
    native = planes * win.positions * win.taps >= limits.POOL_FROM
    lost = some_window_is_all_padding(shape[2:], window, stride, padding, dilation)
    return win, (*shape[:2], *win.out), planes, native, lost


limits.on_change(_plan.cache_clear)


def _run(name: str, dtype: np.dtype, planes: int, win: Windows, *arrays: np.ndarray) -> None:
    """Call a kernel of ``irregular/windows.py``; a task is a plane."""
    chunk = any_size.chunk_of(planes, 1.0 * win.positions * win.taps)
    any_size.kernel("windows", name, dtype.char)([planes, chunk, *arrays, win.geo])


def max_pool(
    x: np.ndarray, *, window: Ints, stride: Ints, padding: Pairs, dilation: Ints
) -> tuple[np.ndarray, np.ndarray]:
    """The maximum of each window and its place: x (N, C, *S) -> values, indices (N, C, *out).

    Padding counts as lower than everything. indices: int64, flat over the unpadded spatial
    dimensions; the first of equal maxima, or the last NaN where a window holds NaN.
    """
    dtype = x.dtype
    if dtype.kind == "c":
        raise TypeError("complex numbers have no order")
    win, shape, planes, native, lost = _plan(x.shape, window, stride, padding, dilation)
    if lost:
        raise ValueError("a window of padding has no maximum")  # and the spec rule says which
    if native and dtype.kind == "f":
        params = dict(window=window, stride=stride, padding=padding, dilation=dilation)
        found = _native("max_pool", x, params)
        if found is not None:
            return found[0], found[1]
    if dtype.char not in "fd":
        x = x.view(np.uint8) if dtype.kind == "b" else widen(x)
    x = contiguous(x)
    values = np.empty(shape, x.dtype)
    indices = np.empty(shape, np.int64)
    if values.size:
        _run("max_pool", x.dtype, planes, win, x, values, indices, _lowest(x.dtype))
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


@cache
def _lowest(dtype: np.dtype) -> np.ndarray:
    return np.array([-np.inf if dtype.kind == "f" else np.iinfo(dtype).min], dtype)


def window_sum(
    x: np.ndarray, *, window: Ints, stride: Ints, padding: Pairs, dilation: Ints
) -> np.ndarray:
    """The sum over each window, padding counting as zero: x (N, C, *S) -> (N, C, *out)."""
    win, shape, planes, native, _ = _plan(x.shape, window, stride, padding, dilation)
    dtype = x.dtype
    if native and dtype.kind == "f":
        params = dict(window=window, stride=stride, padding=padding, dilation=dilation)
        found = _native("window_sum", x, params)
        if found is not None:
            return found[0]
    x = dense(x) if dtype.char in "fd" else computed(x)
    if win.whole:
        return narrowed(sums.total(x.reshape(planes, win.volume), (1,)).reshape(shape), dtype)
    out = np.zeros(shape, x.dtype)
    if planes:
        _run("window_sum", x.dtype, planes, win, x, out)
    return narrowed(out, dtype)


def window_mean(x: np.ndarray, *, count: int, **how: Any) -> np.ndarray | None:
    """The sums of ``window_sum`` divided by one count; None for other dtypes than its kernels'."""
    if x.dtype.char not in "fd" or not count:
        return None
    out = window_sum(x, **how)
    return np.divide(out, _number(x.dtype, count), out)  # type: ignore[no-any-return]


@lru_cache(maxsize=64)
def _number(dtype: np.dtype, count: int) -> np.ndarray:
    return np.array(count, dtype)


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
    shape = (*g.shape[:2], *input_size)
    win, given, planes, native, _ = _plan(shape, window, stride, padding, dilation)
    if g.shape != given:
        raise ValueError(f"g must have spatial sizes {win.out}, got shape {g.shape}")
    dtype = g.dtype
    if native and dtype.kind == "f":
        params = dict(
            input_size=tuple(input_size), window=window, stride=stride, padding=padding,
            dilation=dilation,
        )  # fmt: skip
        found = _native("window_sum_transpose", g, params)
        if found is not None:
            return found[0]
    g = computed(g)
    if win.whole:
        out = np.repeat(g.reshape(planes, 1), win.volume, axis=1).reshape(shape)
    else:
        out = np.zeros(shape, g.dtype)
        if out.size and g.size:
            _run("window_sum_transpose", g.dtype, planes, win, g, out)
    return narrowed(out, dtype)


def _native(name: str, x: np.ndarray, params: dict[str, Any]) -> list[np.ndarray] | None:
    """What a native kernel of `llvm.conv` gives; None where there is none for this platform."""
    from fx.backends.cpu.llvm.conv import native

    return native.run(name, [x], params)
