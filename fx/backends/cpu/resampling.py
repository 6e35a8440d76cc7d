"""Resampling along an axis, and samples of images; None where there is no kernel."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from fx.backends.cpu._arrays import contiguous, zero_of
from fx.backends.cpu.llvm import any_size

_KINDS = "fd"
_MOST = 1 << 31  # elements of an image, whose places are int32


def resample(x: np.ndarray, *, axis: int, taps: Any) -> np.ndarray | None:
    """The sums over t of weights[t, j] * x[..., places[t, j], ...] along an axis."""
    char = x.dtype.char
    run = any_size.if_ready("resampling", "resample", char) if char in _KINDS and x.size else None
    return None if run is None else _along(run, x, axis, taps, taps.places.shape[1])


def spread(ct: np.ndarray, *, axis: int, taps: Any) -> np.ndarray | None:
    """Its transpose, whose sums have another order than those of the reference."""
    char = ct.dtype.char
    if char not in _KINDS or not ct.size or not any_size.available():
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


_PADDINGS = {"zeros": 0, "border": 1, "reflection": 2}


def sample(
    x: np.ndarray, grid: np.ndarray, *, mode: str, padding: str, corners: bool
) -> np.ndarray | None:
    """Values (batch, channels, points) of x (batch, channels, *sizes).

    The grid is (batch, points, rank); the rank is two, or three where the mode is not bicubic.
    """
    char = x.dtype.char
    batch, channels, *sizes = x.shape
    if char not in _KINDS or not x.size or not grid.size or prod(sizes) >= _MOST:
        return None
    if not any_size.available():
        return None
    points = grid.shape[1]
    out = any_size.empty([x, batch, channels, points])
    block = 1024
    tasks = batch * -(-points // block)
    taps = _TAPS[mode] ** len(sizes)
    any_size.kernel("sampling", f"{mode} {len(sizes)}", char)([
        tasks, any_size.chunk_of(tasks, (4.0 + 0.5 * taps * channels) * min(points, block)),
        contiguous(x), contiguous(grid), out, channels, points, block, int(corners),
        _PADDINGS[padding], *sizes,
    ])  # fmt: skip
    return out


_TAPS = {"nearest": 1, "bilinear": 2, "bicubic": 4}  # along an axis


def sample_grad(
    ct: np.ndarray, x: np.ndarray, grid: np.ndarray, *, mode: str, padding: str, corners: bool
) -> list[np.ndarray] | None:
    """The cotangents of x and of the grid."""
    char = x.dtype.char
    if char not in _KINDS or ct.dtype != x.dtype or not any_size.available():
        return None
    batch, channels, *sizes = x.shape
    points, rank = grid.shape[1:]
    chunk = any_size.chunk_of(batch, (8.0 + 1.5 * _TAPS[mode] ** rank * channels) * points)
    dx = np.zeros(x.shape, x.dtype)
    dgrid = (
        np.broadcast_to(zero_of(x.dtype), grid.shape)
        if mode == "nearest"
        else any_size.empty([x, *grid.shape])
    )
    any_size.kernel("sampling", f"{mode} {rank} grad", char)([
        batch, chunk, contiguous(ct), contiguous(x), contiguous(grid), dx, dgrid, channels, points,
        int(corners), _PADDINGS[padding], *sizes,
    ])  # fmt: skip
    return [dx, dgrid]
