"""Eager matrix products through the kernels of ``gemm.py``: sizes to tasks."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from fx.backends.cpu.llvm import library

ROWS = 6
TASK = 3 << 19  # multiplications of a task: some 30 microseconds
PANEL = 512 << 10  # bytes of a right factor from which it is packed also where its rows are dense
TALL = 96  # rows from which that pays
LEAST = 1 << 16  # multiplications of all products from which this is the way
_wide: dict[str, int] = {}


def product(x: np.ndarray, y: np.ndarray) -> np.ndarray | None:
    """x (*B, m, k) @ y (*B, k, n) of one dtype, float32 or float64; None where BLAS is to do it.

    The sizes decide, and whether there is a compiler, but no earlier call.
    """
    m, k = x.shape[-2:]
    n = y.shape[-1]
    if m < ROWS or n < 4:
        return None
    if x.ndim == 2 == y.ndim:
        lead: tuple[int, ...] = ()
        count = 1
    else:
        lead = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
        count = prod(lead)
    if count * m * k * n < LEAST or not library.available():
        return None
    x, y = _aligned(x), _aligned(y)
    batch = _batch(x, y, lead) if lead else (1, 1, 0, 0, 0, 0)
    if batch is None:
        return None
    return _run(x, y, lead, m, n, k, count, batch)


def _run(
    x: np.ndarray, y: np.ndarray, lead: tuple[int, ...], m: int, n: int, k: int, count: int, batch: Any
) -> np.ndarray:
    dtype = x.dtype.name
    size = x.itemsize
    wide = _wide.get(dtype)
    if wide is None:
        from fx.backends.cpu.llvm.library import gemm

        wide = _wide[dtype] = gemm.wide(size)
    x_row, x_step = x.strides[-2] // size, x.strides[-1] // size
    y_row, y_step = y.strides[-2] // size, y.strides[-1] // size
    row_tiles, column_tiles = -(-m // ROWS), -(-n // wide)
    work = m * n * k
    down, across = _cut(row_tiles, column_tiles, wide, -(-count * work // TASK), count)
    row_tasks, column_tasks = -(-row_tiles // down), -(-column_tiles // across)
    b0, b1, x0, x1, y0, y1 = batch
    out = library.empty([x, *lead, m, n])
    packed = y
    words = [x, packed, out, m, n, k, x_row, x_step, y_row, y_step, b0, b1, x0, x1, y0, y1]
    more = [down, across, row_tasks, column_tasks]
    pack = y_step != 1 or (k * n * size > PANEL and m >= TALL)
    if pack:
        matrices = b0 * b1
        packed = library.empty([x, matrices * column_tiles * k * wide])
        words[2] = packed
        tasks = matrices * column_tiles
        each = k * wide // 2  # nanoseconds of a task, about
        chunk = _chunk(tasks, each)
        library.kernel("gemm", "pack", dtype)([tasks, chunk, *words, *more, 1])
        words[1], words[2] = packed, out
    tasks = count * row_tasks * column_tasks
    chunk = _chunk(tasks, count * work // 50 // tasks)
    library.kernel("gemm", "product", dtype)([tasks, chunk, *words, *more, int(pack)])
    return out


def _chunk(tasks: int, each: int) -> int:
    """How many tasks of so many nanoseconds a thread takes at once; 0: all of them, with the GIL."""
    total = tasks * each
    if total < 10_000:
        return 0
    return tasks if total < 60_000 else max(1, 30_000 // max(each, 1))


def _cut(rows: int, columns: int, wide: int, wanted: int, count: int) -> tuple[int, int]:
    """Tiles of a task, down and across: about as many tasks as are wanted, in all products."""
    wanted = min(wanted, 64)
    if wanted <= count:
        return rows, columns
    parts = -(-wanted // count)
    if rows * ROWS >= columns * wide:
        parts = min(parts, max(1, rows // 2))
        return -(-rows // parts), columns
    down = rows
    parts_across = min(parts, columns)
    left = -(-parts // parts_across)
    if left > 1:
        down = -(-rows // min(left, max(1, rows // 4)))
    return down, -(-columns // parts_across)


def _aligned(x: np.ndarray) -> np.ndarray:
    """x, or a copy where neither of its last two strides is 1."""
    size = x.itemsize
    strides = x.strides
    if (strides[-1] == size or strides[-2] == size) and x.flags.aligned:
        for stride in strides:
            if stride % size:
                return np.ascontiguousarray(x)
        return x
    return np.ascontiguousarray(x)


def _batch(x: np.ndarray, y: np.ndarray, lead: tuple[int, ...]) -> tuple[int, ...] | None:
    """Up to two axes of batches with the strides of both factors; None if there are more."""
    size = x.itemsize
    found: list[list[int]] = []
    for i, length in enumerate(lead):
        if length == 1:
            continue
        strides = []
        for a in (x, y):
            at = i - (len(lead) - (a.ndim - 2))
            strides.append(a.strides[at] // size if at >= 0 and a.shape[at] > 1 else 0)
        if found and found[-1][1] == length * strides[0] and found[-1][2] == length * strides[1]:
            found[-1] = [found[-1][0] * length, *strides]
        else:
            found.append([length, *strides])
    if len(found) > 2:
        return None
    while len(found) < 2:
        found.insert(0, [1, 0, 0])
    (b0, x0, y0), (b1, x1, y1) = found
    return b0, b1, x0, x1, y0, y1
