"""Convolution over 1 to 3 spatial dimensions and its two transposes.

Where there is enough work to pay for their compilation, the native kernels of `llvm.conv` do it;
else, and for integers, im2col and BLAS, or `_planes`. 16-bit numbers are computed in float32; but
where the CPU multiplies tiles of them, and the sums are long, columns and products are of 16 bits.
Which way is taken depends on the shapes and dtypes alone.

Shapes in this file: N samples, C input and O output channels, G groups, M = O // G output channels
and K = C // G * taps column rows a group, V input and T output positions (spatial dimensions
flattened).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from fx import limits
from fx.backends.cpu import _planes
from fx.backends.cpu._arrays import HALVES, computed, contiguous, narrowed
from fx.backends.cpu._windows import Windows, windows
from fx.backends.cpu.blas import product
from fx.backends.cpu.llvm import any_size
from fx.backends.cpu.matmul import matmul

Pairs = tuple[tuple[int, int], ...]
Ints = tuple[int, ...]


def conv(
    x: np.ndarray,
    w: np.ndarray,
    *,
    stride: Ints,
    padding: Pairs,
    dilation: Ints,
    groups: int,
) -> np.ndarray:
    """Cross-correlation: x (N, C, *S), w (O, C//groups, *kernel) -> (N, O, *out).

    out = (S + lo + hi - dilation * (kernel - 1) - 1) // stride + 1; `padding` holds a (lo, hi) pair
    for each spatial dimension. Raises ValueError where shapes, or the kernel, do not fit.
    """
    plan = _plan(x.shape, w.shape, stride, padding, dilation, groups)
    win, dtype = plan.win, _common_dtype(x, w)
    if not win.positions:
        raise ValueError("the window does not fit")  # and the spec rule says how
    if plan.planes and dtype.char in "fd":
        return _planes.forward(contiguous(x), contiguous(w), plan.planes, groups, plan.out)
    N, C, O, G = x.shape[0], x.shape[1], w.shape[0], groups
    by_tiles = _by_tiles(dtype, O // G, C // G * win.taps)
    x, w = (contiguous(x), contiguous(w)) if by_tiles else (computed(x), computed(w))
    if plan.empty:
        return np.zeros(plan.out, dtype)
    if not by_tiles:
        if plan.native and x.dtype.kind == "f":
            params = dict(stride=stride, padding=padding, dilation=dilation, groups=groups)
            native = _native("conv", x, w, params)
            if native is not None:
                return narrowed(native, dtype)
        if plan.layout:
            out = _planes.forward(x, w, plan.layout, groups, plan.out)
            return narrowed(out, dtype)
    x = x.reshape(N, C, win.volume)
    w = w.reshape(G, O // G, -1)  # (G, M, K)
    out = np.empty((N, G, O // G, win.positions), x.dtype)
    buffer = None
    for tile in _tiles(N, C, win, x.itemsize):
        n, t = slice(tile[0], tile[1]), _positions(tile, win)
        flat = _is_flat(tile, t)
        cols, buffer = _columns(x[n], win, G, tile, flat, buffer)
        if flat:  # (G, M, K) @ (G, K, n*T)
            product = matmul(w, cols).reshape(G, O // G, tile[1] - tile[0], -1)
            out[n] = product.transpose(2, 0, 1, 3)
        else:  # (G, M, K) @ (n, G, K, T)
            _matmul_into(w, cols, out[n, :, :, t])
    return narrowed(out.reshape(plan.out), dtype)


def conv_input_grad(
    g: np.ndarray,
    w: np.ndarray,
    *,
    input_size: Ints,
    stride: Ints,
    padding: Pairs,
    dilation: Ints,
    groups: int,
) -> np.ndarray:
    """The transpose of `conv` in x: g (N, O, *out) -> (N, C, *input_size).

    w (O, C//groups, *kernel). Raises ValueError where g is not what `conv` gives for such an input.
    """
    shape = (g.shape[0], w.shape[1] * groups, *input_size)
    plan = _plan(shape, w.shape, stride, padding, dilation, groups)
    win, dtype = plan.win, _common_dtype(g, w)
    _check_cotangent(g, plan)
    if plan.planes and dtype.char in "fd":
        return _planes.input_grad(contiguous(g), contiguous(w), plan.planes, groups, shape)
    g, w = computed(g), computed(w)
    N, C, O, G = g.shape[0], shape[1], g.shape[1], groups
    if plan.empty:
        return np.zeros(shape, dtype)
    if plan.native and g.dtype.kind == "f":
        params = dict(
            input_size=tuple(input_size), stride=stride, padding=padding, dilation=dilation,
            groups=groups,
        )  # fmt: skip
        native = _native("conv_input_grad", g, w, params)
        if native is not None:
            return narrowed(native, dtype)
    if plan.layout:
        return narrowed(_planes.input_grad(g, w, plan.layout, groups, shape), dtype)
    out = np.zeros((N, C, win.volume), g.dtype)
    g = g.reshape(N, G, O // G, win.positions)
    w = w.reshape(G, O // G, -1).transpose(0, 2, 1)  # (G, K, M)
    buffer = None
    for tile in _tiles(N, C, win, g.itemsize):
        n, t = slice(tile[0], tile[1]), _positions(tile, win)
        flat = _is_flat(tile, t)
        part = g[n, :, :, t]  # (n, G, M, T)
        if flat:
            part = _flattened(part)  # (G, M, n*T)
        if win.pointwise and not flat:
            _matmul_into(w, part, out.reshape(N, G, C // G, -1)[n])
            continue
        room = (*part.shape[:-2], w.shape[1], part.shape[-1])
        cols, buffer = _room(buffer, room, g.dtype)
        _matmul_into(w, part, cols)  # (G, K, n*T) or (n, G, K, T)
        steps = _steps(cols.shape, tile, flat)
        _by_samples("col2im", cols, out[n], cols, out[n], steps, win, tile)
    return narrowed(out.reshape(shape), dtype)


def conv_weight_grad(
    x: np.ndarray,
    g: np.ndarray,
    *,
    kernel_size: Ints,
    stride: Ints,
    padding: Pairs,
    dilation: Ints,
    groups: int,
) -> np.ndarray:
    """The transpose of `conv` in w: x (N, C, *S), g (N, O, *out) -> (O, C//groups, *kernel_size).

    Raises ValueError where g is not what `conv` gives for such an input.
    """
    shape = (g.shape[1], x.shape[1] // groups, *kernel_size)
    plan = _plan(x.shape, shape, stride, padding, dilation, groups)
    win, dtype = plan.win, _common_dtype(x, g)
    _check_cotangent(g, plan)
    if plan.planes and dtype.char in "fd":
        return _planes.weight_grad(contiguous(x), contiguous(g), plan.planes, groups, shape)
    x, g = computed(x), computed(g)
    N, C, O, G = x.shape[0], x.shape[1], g.shape[1], groups
    if plan.empty:
        return np.zeros(shape, dtype)
    if plan.native and x.dtype.kind == "f":
        params = dict(
            kernel_size=tuple(kernel_size), stride=stride, padding=padding, dilation=dilation,
            groups=groups,
        )  # fmt: skip
        native = _native("conv_weight_grad", x, g, params)
        if native is not None:
            return narrowed(native, dtype)
    if plan.layout:
        return narrowed(_planes.weight_grad(x, g, plan.layout, groups, shape), dtype)
    x = x.reshape(N, C, win.volume)
    g = g.reshape(N, G, O // G, win.positions)
    out = np.zeros((G, O // G, C // G * win.taps), x.dtype)
    buffer = None
    for tile in _tiles(N, C, win, x.itemsize):
        n, t = slice(tile[0], tile[1]), _positions(tile, win)
        cols, buffer = _columns(x[n], win, G, tile, True, buffer)  # (G, K, n*T)
        out += matmul(_flattened(g[n, :, :, t]), cols.transpose(0, 2, 1))
    return narrowed(out.reshape(shape), dtype)


@dataclass(frozen=True, slots=True)
class _Plan:
    """Which way convolutions of x (N, C, *S) and w (O, C // groups, *kernel) go, all three."""

    win: Windows
    out: Ints  # (N, O, *out)
    empty: bool  # there is nothing to multiply
    native: bool  # there is enough work to compile for these shapes
    layout: _planes.Layout | None  # of planes, where they suit
    planes: _planes.Layout | None  # the same where nothing goes before: of float32 and float64


@lru_cache(maxsize=1024)
def _plan(x: Ints, w: Ints, stride: Ints, padding: Pairs, dilation: Ints, groups: int) -> _Plan:
    win = windows(x[2:], w[2:], stride, padding, dilation)
    _check_channels(x[1], w[0], w[1], groups)
    out = (x[0], w[0], *win.out)
    empty = 0 in (*x, *out)
    native = math.prod(out) * w[1] * win.taps >= limits.CONV_FROM
    suits = not empty and _planes.suits(x[0] * w[0] * w[1], w[0] // groups, win)
    layout = _planes.layout_of(win) if suits else None
    return _Plan(win, out, empty, native, layout, None if native else layout)


limits.on_change(_plan.cache_clear)


def _common_dtype(x: np.ndarray, y: np.ndarray) -> np.dtype:
    dtype = x.dtype
    if dtype is not y.dtype and dtype != y.dtype:
        raise TypeError("dtypes differ")  # and the spec rule says how
    return dtype


def _by_tiles(dtype: np.dtype, outputs: int, depth: int) -> bool:
    """Whether a product (outputs, depth) @ (depth, positions) is left to the tiles of the CPU."""
    if dtype not in HALVES or outputs < limits.CONV_TILES or depth < limits.CONV_TILES_DEPTH:
        return False
    from fx.backends.cpu.llvm.any_size.products import has_tiles

    return has_tiles(dtype)


def _native(name: str, x: np.ndarray, y: np.ndarray, params: dict[str, Any]) -> np.ndarray | None:
    """What a native kernel gives; None where there is none for this platform."""
    from fx.backends.cpu.llvm.conv import native

    found = native.run(name, [x, y], params)
    return None if found is None else found[0]


# A tile: samples [0], [1], rows [2], [3] and columns [4], [5] of the output, as ``windows`` has it.
_Tile = tuple[int, int, int, int, int, int]


def _tiles(samples: int, channels: int, win: Windows, itemsize: int) -> Iterator[_Tile]:
    """The output cut so that the columns of each tile take about ``limits.CONV_COLUMNS``."""
    width = win.out[-1]
    rows = win.positions // width
    if win.pointwise:  # no columns are built
        yield 0, samples, 0, rows, 0, width
        return
    fit = max(1, limits.CONV_COLUMNS // (channels * win.taps * itemsize))  # positions
    if fit >= win.positions:
        step = min(samples, fit // win.positions)
        for n in range(0, samples, step):
            yield n, min(n + step, samples), 0, rows, 0, width
        return
    for n in range(samples):
        if fit >= width:
            step = fit // width
            for r in range(0, rows, step):
                yield n, n + 1, r, min(r + step, rows), 0, width
        else:
            for r in range(rows):
                for c in range(0, width, fit):
                    yield n, n + 1, r, r + 1, c, min(c + fit, width)


def _positions(tile: _Tile, win: Windows) -> slice:
    """The output positions of a tile: contiguous, since only a one-row tile is cut in columns."""
    width = win.out[-1]
    return slice(tile[2] * width + tile[4], (tile[3] - 1) * width + tile[5])


def _is_flat(tile: _Tile, t: slice) -> bool:
    return tile[1] - tile[0] > 1 and t.stop - t.start < limits.CONV_FLAT


def _flattened(x: np.ndarray) -> np.ndarray:
    """(n, G, R, T) -> (G, R, n*T), a view where n is 1."""
    n, G, R, T = x.shape
    return x.transpose(1, 2, 0, 3).reshape(G, R, n * T)


def _room(buffer: np.ndarray | None, shape: Ints, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """An array of `shape` at the start of `buffer`, which is made anew where it is too small."""
    size = int(np.prod(shape))
    if buffer is None or buffer.size < size:
        buffer = np.empty(size, dtype)
    return buffer[:size].reshape(shape), buffer


def _steps(shape: Ints, tile: _Tile, flat: bool) -> tuple[int, int]:
    """(sample_step, row_step) of columns (G, K, n*T) or (n, G, K, T)."""
    if flat:
        return shape[-1] // (tile[1] - tile[0]), shape[-1]
    return shape[-3] * shape[-2] * shape[-1], shape[-1]


def _columns(
    x: np.ndarray, win: Windows, groups: int, tile: _Tile, flat: bool, buffer: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray | None]:
    """What the windows of a tile see of x (n, C, V): (G, K, n*T) if flat, else (n, G, K, T)."""
    n, C, _ = x.shape
    if win.pointwise:
        cols = x.reshape(n, groups, C // groups, win.volume)
        return (_flattened(cols) if flat else cols), buffer
    t = _positions(tile, win)
    T = t.stop - t.start
    K = C // groups * win.taps
    shape = (groups, K, n * T) if flat else (n, groups, K, T)
    cols, buffer = _room(buffer, shape, x.dtype)
    steps = _steps(shape, tile, flat)
    _by_samples("im2col", x, cols, cols, x, steps, win, tile)
    return cols, buffer


def _by_samples(
    name: str,
    source: np.ndarray,
    target: np.ndarray,
    cols: np.ndarray,
    x: np.ndarray,
    steps: tuple[int, int],
    win: Windows,
    tile: _Tile,
) -> None:
    """Run im2col or col2im on the samples of a tile, x (n, C, V); they do not touch one another."""
    n, channels, _ = x.shape
    if x.dtype in HALVES:  # which are only moved
        source, target, x = source.view(np.uint16), target.view(np.uint16), x.view(np.uint16)
    chunk = any_size.chunk_of(n, 1.0 * cols.size / max(n, 1))
    any_size.kernel("windows", name, x.dtype.char)(
        [n, chunk, source, target, channels, *steps, win.geo, *tile[2:]]
    )


def _matmul_into(x: np.ndarray, y: np.ndarray, out: np.ndarray) -> None:
    if x.dtype.kind == "f" and x.dtype not in HALVES and x.shape[-1] > 1:
        product(x, y, out)
    else:
        out[...] = matmul(x, y)


def _check_channels(c: int, o: int, c_per_group: int, groups: int) -> None:
    if groups < 1 or c % groups or o % groups or c_per_group != c // groups:
        raise ValueError(
            f"{c} input channels and weights for {o} output and {c_per_group} input channels a "
            f"group do not fit {groups} groups"
        )


def _check_cotangent(g: np.ndarray, plan: _Plan) -> None:
    if g.shape != plan.out:
        raise ValueError(f"g must have shape {plan.out}, got {g.shape}")
