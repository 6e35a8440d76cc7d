"""Resampling along an axis, and bilinear samples of images; None where there is no kernel."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from fx.backends.cpu._arrays import contiguous
from fx.backends.cpu.llvm import any_size

_UNITS = {char: np.array([1.0, 0.5], char) for char in "fd"}
_MOST = 1 << 31  # elements of an image, whose places are int32


def resample(x: np.ndarray, *, axis: int, taps: Any) -> np.ndarray | None:
    """The sums over t of weights[t, j] * x[..., places[t, j], ...] along an axis."""
    char = x.dtype.char
    run = any_size.if_ready("resampling", "resample", char) if char in _UNITS and x.size else None
    return None if run is None else _along(run, x, axis, taps, taps.places.shape[1])


def spread(ct: np.ndarray, *, axis: int, taps: Any) -> np.ndarray | None:
    """Its transpose, whose sums have another order than those of the reference."""
    char = ct.dtype.char
    if char not in _UNITS or not ct.size or not any_size.available():
        return None
    run = any_size.kernel("resampling", "spread", char)
    return _along(run, ct, axis, taps, taps.size)


def _along(run: any_size.Run, x: np.ndarray, axis: int, taps: Any, size: int) -> np.ndarray:
    before, lanes = prod(x.shape[:axis]), prod(x.shape[axis + 1 :])
    count, m = taps.places.shape
    out = any_size.empty([x, *x.shape[:axis], size, *x.shape[axis + 1 :]])
    chunk = any_size.chunk_of(before, 0.5 * m * lanes * count)
    weights = taps.weights_as(x.dtype.char)
    run([before, chunk, contiguous(x), taps.places, weights, out, taps.size, m, lanes, count])
    return out


def sample(x: np.ndarray, grid: np.ndarray, *, corners: bool, border: bool) -> np.ndarray | None:
    """Values (batch, channels, points) of x (batch, channels, h, w) at grid (batch, points, 2)."""
    char = x.dtype.char
    batch, channels, h, w = x.shape
    if char not in _UNITS or not x.size or not grid.size or h * w >= _MOST:
        return None
    if not any_size.available():
        return None
    points = grid.shape[1]
    out = any_size.empty([x, batch, channels, points])
    block = 1024
    tasks = batch * -(-points // block)
    any_size.kernel("sampling", "sample", char)([
        tasks, any_size.chunk_of(tasks, (4.0 + 2.0 * channels) * min(points, block)), contiguous(x),
        contiguous(grid), out, channels, h, w, points, block, int(corners), int(border),
    ])  # fmt: skip
    return out


def sample_grad(
    ct: np.ndarray, x: np.ndarray, grid: np.ndarray, *, corners: bool, border: bool
) -> list[np.ndarray] | None:
    """The cotangents of x and of the grid."""
    char = x.dtype.char
    if char not in _UNITS or ct.dtype != x.dtype or not any_size.available():
        return None
    batch, channels, h, w = x.shape
    points = grid.shape[1]
    dx, dgrid = np.zeros(x.shape, x.dtype), any_size.empty([x, *grid.shape])
    any_size.kernel("resampling", "sample_grad", char)([
        batch, any_size.chunk_of(batch, (8.0 + 6.0 * channels) * points), contiguous(ct),
        contiguous(x), contiguous(grid), _UNITS[char], dx, dgrid, channels, h, w, points,
        int(corners), int(border),
    ])  # fmt: skip
    return [dx, dgrid]
