"""Convolution with few output channels a group (depthwise above all), without columns.

Each channel is copied into a zero-padded plane. In the plane, flattened, every tap reads at a
constant offset from the output's own place, so that the convolution is a sum of shifted planes:
long vector loops, whatever the width of the image. The price: outputs are also computed at the
places that a stride leaves out and in the columns of padding, and dropped.

In the two transposes the dropped places hold zeros, and 0 * inf is NaN. `input_grad` therefore
wants finite weights, and a `weight_grad` that is not finite is to be computed by columns instead.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fx import limits
from fx.backends.cpu._windows import Windows
from fx.backends.cpu.llvm import any_size


@dataclass(frozen=True, slots=True)
class _Layout:
    plane: tuple[int, int, int]  # padded sizes, as far as a window reaches
    grid: tuple[int, int, int]  # the outputs at stride 1, with the planes' rows and columns
    length: int  # flat outputs to compute, at most the volume of `grid`
    offsets: np.ndarray  # (taps,) int64, never written to
    inner: tuple[slice, ...]  # in a plane: where the input lies
    source: tuple[slice, ...]  # in the input: what of it lies there
    wanted: tuple[slice, ...]  # in the grid: the outputs


@lru_cache(maxsize=256)
def _layout(sizes: tuple[int, ...]) -> _Layout:
    size, window, stride, low, dilation, out = (sizes[i : i + 3] for i in range(0, 18, 3))
    last = [(t - 1) * s for t, s in zip(out, stride)]
    D, H, W = (b + (k - 1) * d + 1 for b, k, d in zip(last, window, dilation))
    inside = [max(0, min(s, p - lo)) for s, p, lo in zip(size, (D, H, W), low)]
    taps = np.indices(window).reshape(3, -1) * np.array(dilation)[:, None]  # (3, taps)
    every = (slice(None), slice(None))
    return _Layout(
        plane=(D, H, W),
        grid=(last[0] + 1, H, W),
        length=(last[0] * H + last[1]) * W + last[2] + 1,
        offsets=np.ascontiguousarray((taps[0] * H + taps[1]) * W + taps[2], np.int64),
        inner=every + tuple(slice(lo, lo + n) for lo, n in zip(low, inside)),
        source=every + tuple(slice(0, n) for n in inside),
        wanted=every + tuple(slice(0, b + 1, s) for b, s in zip(last, stride)),
    )


def suits(out_channels: int, win: Windows) -> bool:
    """Whether this way beats columns with so many output channels a group."""
    if win.pointwise or out_channels > limits.CONV_PLANES_UP_TO:
        return False
    return out_channels * _of(win).length <= limits.CONV_PLANES_UP_TO * win.positions


def forward(x: np.ndarray, w: np.ndarray, win: Windows, groups: int) -> np.ndarray:
    """conv of x (N, C, V) and w (O, C//groups, taps): (N, O, positions)."""
    lay, sizes = _of(win), win.geo[:3]
    N, C, O = *x.shape[:2], w.shape[0]
    out = np.empty((N, O, *win.geo[15:18]), x.dtype)
    step = _step(N, C + O, lay, x.itemsize)
    planes = np.zeros((step, C, *lay.plane), x.dtype)
    grid = np.empty((step, O, *lay.grid), x.dtype)
    sums = np.empty(lay.length, x.dtype)
    for n in _chunks(N, step):
        part = x[n].reshape(-1, C, *sizes)[lay.source]  # (n, C, ≤D, ≤H, ≤W)
        planes[: len(part)][lay.inner] = part
        to = grid[: len(part)]
        more = max(1, limits.CONV_SUM // win.taps)
        _run("correlate", len(part), lay, w, groups, [planes, w, grid, sums], more)
        out[n] = to[lay.wanted]
    return out.reshape(N, O, win.positions)


def input_grad(g: np.ndarray, w: np.ndarray, win: Windows, groups: int) -> np.ndarray:
    """The transpose of `forward` in x: g (N, O, positions) -> (N, C, V). Wants w finite."""
    lay, sizes = _of(win), win.geo[:3]
    N, O, C = *g.shape[:2], w.shape[1] * groups
    out = np.zeros((N, C, *sizes), g.dtype)
    step = _step(N, C + O, lay, g.itemsize)
    planes = np.empty((step, C, *lay.plane), g.dtype)
    grid = np.zeros((step, O, *lay.grid), g.dtype)
    for n in _chunks(N, step):
        part = g[n].reshape(-1, O, *win.geo[15:18])  # (n, O, *out)
        grid[: len(part)][lay.wanted] = part
        to = planes[: len(part)]
        _run("spread", len(part), lay, w, groups, [grid, w, planes])
        out[n][lay.source] = to[lay.inner]
    return out.reshape(N, C, win.volume)


def weight_grad(x: np.ndarray, g: np.ndarray, win: Windows, groups: int) -> np.ndarray:
    """The transpose of `forward` in w: x (N, C, V), g (N, O, positions) -> (O, C//groups, taps)."""
    lay, sizes = _of(win), win.geo[:3]
    N, C, O = *x.shape[:2], g.shape[1]
    out = np.zeros((O, C // groups, win.taps), x.dtype)
    step = _step(N, C + O, lay, x.itemsize)
    planes = np.zeros((step, C, *lay.plane), x.dtype)
    grid = np.zeros((step, O, *lay.grid), x.dtype)
    for n in _chunks(N, step):
        part = x[n].reshape(-1, C, *sizes)[lay.source]  # (n, C, ≤D, ≤H, ≤W)
        count = len(part)
        planes[:count][lay.inner] = part
        grid[:count][lay.wanted] = g[n].reshape(-1, O, *win.geo[15:18])
        _run("dots", count, lay, out, groups, [planes, grid, out])
    return out


def _of(win: Windows) -> _Layout:
    return _layout(tuple(win.geo[:18].tolist()))


def _step(samples: int, channels: int, lay: _Layout, itemsize: int) -> int:
    nbytes = channels * math.prod(lay.plane) * itemsize
    return max(1, min(samples, limits.CONV_PLANES_CHUNK // nbytes))


def _chunks(samples: int, step: int) -> Iterator[slice]:
    return (slice(n, n + step) for n in range(0, samples, step))


def _run(
    name: str, samples: int, lay: _Layout, w: np.ndarray, groups: int, arrays: list, *more: int
) -> None:
    """Call a kernel of ``irregular/planes.py``, w (O, C//groups, taps), on one thread."""
    sizes = (*w.shape, groups, math.prod(lay.plane), math.prod(lay.grid))
    work = float(samples * w.size * lay.length)
    chunk = 0 if work < limits.EAGER_SHORT else samples
    any_size.kernel("planes", name, w.dtype.char)(
        [samples, chunk, *arrays, lay.offsets, lay.length, *sizes, *more]
    )
