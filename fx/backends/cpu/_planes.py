"""Convolution with few output channels a group (depthwise above all), without columns.

Each channel lies in a zero-padded plane. In the plane, flattened, every tap reads at a constant
offset from the output's own place, so that the convolution is a sum of shifted planes: long vector
loops, whatever the width of the image. The price: outputs are also computed at the places that a
stride leaves out and in the columns of padding, and dropped. The sums of one output channel of one
sample are a grid.

In the two transposes the dropped places hold zeros, and 0 * inf is NaN. Where weights, or a
gradient of them, are not finite, the kernels (``irregular/planes.py``) go over the rows of outputs
alone.

The layout of the geometry of ``_windows`` is one int64 array ``lay``:

    lay[0:3]    input sizes D, H, W          lay[12:15]  output sizes
    lay[3:6]    sizes of a plane             lay[15:18]  stride
    lay[6:9]    low padding                  lay[18]     length of a grid
    lay[9:12]   input inside of a plane      lay[19]     taps
    lay[20]     whether planes are padded: else they are those of the input
    lay[21:]    where, from an output's own place, each tap reads
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fx import limits
from fx.backends.cpu._windows import Windows
from fx.backends.cpu.llvm import any_size


@dataclass(frozen=True, slots=True)
class Layout:
    """What the kernels are told of windows."""

    lay: np.ndarray  # int64, never written to
    plane: int  # elements of a plane
    length: int  # and of a grid
    taps: int
    padded: bool


def suits(products: int, out_channels: int, win: Windows) -> bool:
    """Whether this way beats columns.

    Args:
        products: of planes: so many would be multiplied by a window.
        out_channels: output channels a group.
        win: the windows, of which there are some.
    """
    length = layout_of(win).length
    if products * win.taps * length <= limits.CONV_PLANES_WORK:
        return True
    if win.pointwise or out_channels > limits.CONV_PLANES_UP_TO:
        return False
    return out_channels * length <= limits.CONV_PLANES_UP_TO * win.positions


def forward(
    x: np.ndarray, w: np.ndarray, lay: Layout, groups: int, shape: tuple[int, ...]
) -> np.ndarray:
    """conv of x (N, C, *S) and w (O, C//groups, *kernel): of ``shape`` (N, O, *out)."""
    out = any_size.empty([x, *shape])
    room = x.shape[1] * lay.plane * lay.padded + 2 * lay.length
    most = max(1, limits.CONV_SUM // lay.taps)
    _run("correlate", x, w, w, groups, out, room, lay, most)
    return out


def input_grad(
    g: np.ndarray, w: np.ndarray, lay: Layout, groups: int, shape: tuple[int, ...]
) -> np.ndarray:
    """The transpose of `forward` in x: g (N, O, *out) -> ``shape`` (N, C, *S)."""
    out = any_size.empty([g, *shape])
    _run("spread", g, w, w, groups, out, lay.plane + len(w) * lay.length, lay)
    return out


def weight_grad(
    x: np.ndarray, g: np.ndarray, lay: Layout, groups: int, shape: tuple[int, ...]
) -> np.ndarray:
    """The transpose of `forward` in w: x (N, C, *S), g (N, O, *out) -> ``shape``."""
    out = any_size.empty([x, *shape])
    room = x.shape[1] * lay.plane * lay.padded + g.shape[1] * lay.length
    _run("dots", x, g, out, groups, out, room, lay)
    return out


def _run(
    name: str, x: np.ndarray, y: np.ndarray, w: np.ndarray, groups: int, out: np.ndarray,
    room: int, lay: Layout, *more: int,
) -> None:  # fmt: skip
    """Call a kernel of ``irregular/planes.py``, w (O, C//groups, *kernel), on one thread."""
    samples = len(x)
    chunk = 0 if samples * w.size * lay.length < limits.EAGER_SHORT else samples
    scratch = any_size.empty([x, room])
    any_size.kernel("planes", name, x.dtype.char)(
        [samples, chunk, x, y, out, scratch, lay.lay, len(w), w.shape[1], groups, *more]
    )


def layout_of(win: Windows) -> Layout:
    """The layout for these windows, of which there are some."""
    return _layout(tuple(win.geo[:18].tolist()))


@lru_cache(maxsize=256)
def _layout(sizes: tuple[int, ...]) -> Layout:
    size, window, stride, low, dilation, out = (sizes[i : i + 3] for i in range(0, 18, 3))
    last = [(t - 1) * s for t, s in zip(out, stride)]
    plane = [b + (k - 1) * d + 1 for b, k, d in zip(last, window, dilation)]
    padded = any(low) or any(p > s for p, s in zip(plane, size))
    if not padded:
        plane = [*size]
    inside = [max(0, min(s, p - lo)) for s, p, lo in zip(size, plane, low)]
    _, H, W = plane
    taps = np.indices(window).reshape(3, -1) * np.array(dilation)[:, None]  # (3, taps)
    offsets = ((taps[0] * H + taps[1]) * W + taps[2]).tolist()
    length = (last[0] * H + last[1]) * W + last[2] + 1
    lay = [*size, *plane, *low, *inside, *out, *stride, length, len(offsets), padded, *offsets]
    return Layout(np.array(lay, np.int64), math.prod(plane), length, len(offsets), padded)
