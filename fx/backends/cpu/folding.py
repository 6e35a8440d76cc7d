"""Windows along an axis and of images, and their transposes, which add up what overlaps."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from fx.backends.cpu._arrays import is_narrow

Ints = tuple[int, ...]


def unfolded_image(
    x: np.ndarray, *, sizes: Ints, window: Ints, pads: Ints, counts: Ints, steps: tuple[Ints, ...]
) -> np.ndarray:
    """x (batch, channels, *sizes) to (batch, channels * window, windows)."""
    if any(pads):
        x = np.pad(x, [(0, 0), (0, 0), *[(p, p) for p in pads]])
    lines = x.strides[2:]
    (a, b), strides = x.shape[:2], x.strides[:2]
    # (batch, channels, kernel height, kernel width, rows, columns)
    by_kernel = [s * dilation for s, (dilation, _) in zip(lines, steps)]
    by_window = [s * stride for s, (_, stride) in zip(lines, steps)]
    windows = as_strided(x, (a, b, *window, *counts), (*strides, *by_kernel, *by_window))
    out = np.empty(windows.shape, x.dtype)
    out[...] = windows
    return out.reshape(a, b * window[0] * window[1], counts[0] * counts[1])


def folded_image(
    x: np.ndarray, *, sizes: Ints, window: Ints, pads: Ints, counts: Ints, steps: tuple[Ints, ...]
) -> np.ndarray | None:
    """The transpose: one place of the windows after the other is added to the image."""
    if is_narrow(x.dtype):
        return None  # sums of these are taken in float32
    a, b = x.shape[0], x.shape[1] // (window[0] * window[1])
    parts = x.reshape(a, b, *window, *counts)
    out = np.zeros((a, b, *[n + 2 * p for n, p in zip(sizes, pads)]), x.dtype)
    for place in np.ndindex(*window):
        out[(..., *_seen(place, counts, steps))] += parts[:, :, place[0], place[1]]
    inner = tuple([slice(p, p + n) for n, p in zip(sizes, pads)])
    return np.ascontiguousarray(out[(..., *inner)])


def _seen(place: Ints, counts: Ints, steps: tuple[Ints, ...]) -> Any:
    """Where the windows have an element of theirs."""
    return [slice(i * d, i * d + (n - 1) * s + 1, s) for i, n, (d, s) in zip(place, counts, steps)]


def unfold_grad(ct: np.ndarray, *, n: int, axis: int, size: int, step: int) -> np.ndarray | None:
    """The cotangent of x (*A, n, *B), of that of its windows (*A, count, *B, size)."""
    if is_narrow(ct.dtype):
        return None
    count = ct.shape[axis]
    out = np.zeros((*ct.shape[:axis], n, *ct.shape[axis + 1 : -1]), ct.dtype)
    lines = np.moveaxis(out, axis, -1)
    windows = np.moveaxis(ct, axis, -2)  # (*A, *B, count, size)
    if size <= count:
        for k in range(size):
            lines[..., k : k + (count - 1) * step + 1 : step] += windows[..., k]
    else:
        for k in range(count):
            lines[..., k * step : k * step + size] += windows[..., k, :]
    return out
