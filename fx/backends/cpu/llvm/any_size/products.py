"""Eager matrix products through the kernels of ``gemm.py``: sizes to tasks."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from fx import limits
from fx.backends.cpu.llvm import any_size

ROWS = 6  # of a tile, as in ``gemm.py``, which is imported only where something is to be compiled


def multiply(
    x: np.ndarray, y: np.ndarray, lead: tuple[int, ...], bias: np.ndarray | None = None
) -> np.ndarray | None:
    """x (*B, m, k) @ y (*B, k, n) of one dtype, float32 or float64; ``lead`` is B, broadcast.

    A dense ``bias`` (n,) is added to every row.

    None where the kernels cannot: no compiler here, or more than two axes of batches.
    """
    key = (x.shape, x.strides, y.shape, y.strides, x.dtype)
    plan = _plans.get(key) if x.flags.aligned and y.flags.aligned else None
    if plan is None:
        if not any_size.available():
            return None
        left, right = _whole_strides(x), _whole_strides(y)
        shared = lead and right.ndim == 2  # then it would be packed for each of the batch
        if x.itemsize not in right.strides[-1 if shared else -2 :]:
            right = np.ascontiguousarray(right)
        plan = planned(left, right, lead)
        if plan is None:
            return None
        if left is x and right is y:
            if len(_plans) >= _MOST:
                _plans.clear()
            _plans[key] = plan
        x, y = left, right
    out = any_size.empty([x, *plan.shape])
    any_size.kernel("gemm", "product", x.dtype.char)([*plan.tasks, x, y, out, *plan.words, bias])
    return out


class Plan(NamedTuple):
    """How matrices of given sizes and strides are multiplied: what depends on nothing else.

    Attributes:
        shape: of the product.
        tasks, words: as ``gemm.py`` lists them, without the arrays.
    """

    shape: tuple[int, ...]
    tasks: list[int]
    words: list[int]


_MOST = 1024
_plans: dict[Any, Plan] = {}
limits.on_change(_plans.clear)


def planned(x: Any, y: Any, lead: tuple[int, ...]) -> Plan | None:
    """The plan of a product whose strides are whole; None if it has too many axes of batches.

    Args:
        x, y: arrays, or what has their shape and strides.
        lead: the axes of batches.
    """
    size = x.itemsize
    batch = _batch(x, y, lead) if lead else (1, 1, 0, 0, 0, 0)
    if batch is None:
        return None
    (m, k), n = x.shape[-2:], y.shape[-1]
    b0, b1, x0, x1, y0, y1 = batch
    wide = _wide(size)
    row_tiles, column_tiles = -(-m // ROWS), -(-n // wide)
    count = b0 * b1
    work = count * m * n * k
    y_row, y_step = y.strides[-2] // size, y.strides[-1] // size
    large = k * n * size > limits.EAGER_GEMM_PANEL and m >= limits.EAGER_GEMM_TALL
    packs = y_step != 1 or large
    wanted = -(-min(-(-work // limits.EAGER_GEMM_TASK), limits.EAGER_GEMM_TASKS) // count)
    if packs:
        down, across = _cut_packing(row_tiles, column_tiles, wanted)
    else:
        turned = x.strides[-1] != size
        down, across = _cut(row_tiles, column_tiles, wanted, wide * k * size, turned)
    row_tasks, column_tasks = -(-row_tiles // down), -(-column_tiles // across)
    tasks = count * row_tasks * column_tasks
    each = any_size.chunk_of(tasks, work * size / 200 / tasks)
    words = [
        m, n, k, x.strides[-2] // size, x.strides[-1] // size, y_row, y_step,
        b0, b1, x0, x1, y0, y1, down, across, row_tasks, column_tasks, int(packs),
    ]  # fmt: skip
    return Plan((*lead, m, n), [tasks, each], words)


@cache
def _wide(size: int) -> int:
    from fx.backends.cpu.llvm.any_size import gemm

    return gemm.wide(size)


limits.on_change(_wide.cache_clear)


def _cut(rows: int, columns: int, wanted: int, column: int, turned: bool) -> tuple[int, int]:
    """Tiles of a task, down and across: about as many tasks as are wanted.

    What a task needs of the right factor stays in the second cache, where ``column`` is the bytes
    of a column of tiles. A line of the cache holds 16 rows of a left factor that is ``turned``, so
    there low tasks, and narrow ones, would bring each in again and again.
    """
    low, narrow = (8, 2) if turned else (2, 1)
    near = max(1, limits.EAGER_GEMM_PANEL // column) * narrow
    column_tasks = -(-columns // near)
    row_tasks = min(-(-wanted // column_tasks), max(1, rows // low))
    if row_tasks * column_tasks < wanted:
        most = max(column_tasks, columns // narrow)
        column_tasks = min(-(-wanted // row_tasks), most)
    return -(-rows // row_tasks), -(-columns // column_tasks)


def _cut_packing(rows: int, columns: int, wanted: int) -> tuple[int, int]:
    """The same where each task packs its part of the right factor: few, tall ones.

    Packing one tile of columns is the work of 3 to 4 tiles of rows.
    """
    column_tasks = min(wanted, columns)
    row_tasks = min(-(-wanted // (2 * column_tasks)), max(1, rows // 32))
    return -(-rows // row_tasks), -(-columns // column_tasks)


def _whole_strides(x: np.ndarray) -> np.ndarray:
    """x, or a copy where strides are no whole numbers of elements."""
    size = x.itemsize
    for stride in x.strides:
        if stride % size:
            return np.ascontiguousarray(x)
    return x if x.flags.aligned else x.copy()


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


# 16-bit numbers ---------------------------------------------------------------------------------


@cache
def _deep(dtype: np.dtype) -> tuple[str, int, int] | None:
    """A dtype's name, products of tiles for one of numbers, elements of a tile; None without tiles.

    Asking a dtype for its name takes a microsecond.
    """
    from fx.backends.cpu.llvm.gemm import amx

    if not any_size.available() or not amx.available():
        return None
    planes = amx.planes(dtype)
    return dtype.name, planes * planes, amx.TILE * planes // 2


def has_tiles(dtype: np.dtype) -> bool:
    """Whether the CPU multiplies tiles of bfloat16 or float16."""
    return _deep(dtype) is not None


def multiply_halves(
    x: np.ndarray, y: np.ndarray, lead: tuple[int, ...], bias: np.ndarray | None = None
) -> np.ndarray | None:
    """x (*B, m, k) @ y (*B, k, n) of one dtype, bfloat16 or float16; ``lead`` is B, broadcast.

    Sums are float32 and rounded once, after a dense ``bias`` (n,) was added.

    None where the CPU has no tiles for it, or there are more than two axes of batches.
    """
    deep = _deep(x.dtype)
    if deep is None:
        return None
    name, squared, tile = deep
    x, y = _one_dense(x), _one_dense(y)
    m, k = x.shape[-2:]
    n = y.shape[-1]
    rows, columns, panel = -(-m // LINES), -(-n // LINES), -(-k // 32) * tile
    out = any_size.empty([x, *lead, m, n])
    work = m * n * k * squared
    if not lead and work <= limits.EAGER_TILES_TOGETHER:
        head = (4 * (rows + columns) + 63) // 64 * 32
        scratch = any_size.empty([x, head + (rows + columns) * panel])
        any_size.kernel("halves", "small", name)(
            [1, 0, x, y, out, bias, scratch, m, n, k, *_strides(x), *_strides(y)]
        )
        return out
    batch = _batch(x, y, lead) if lead else (1, 1, 0, 0, 0, 0)
    if batch is None:
        return None
    b0, b1, x0, x1, y0, y1 = batch
    y_step, y_line = _strides(y)
    packed, apart = [], []
    for right, a, lines, strides, s0, s1, count in (
        (0, x, m, _strides(x), x0, x1, rows), (1, y, n, (y_line, y_step), y0, y1, columns)
    ):  # fmt: skip
        p0, p1 = b0 if s0 else 1, b1 if s1 else 1  # a matrix that is shared is packed once
        tasks = p0 * p1 * count
        target = any_size.empty([a, tasks * panel])
        flags = np.empty(tasks, np.int32)
        any_size.kernel("halves", "pack", name)(
            [tasks, any_size.chunk_of(tasks, panel / 8), a, target, flags, lines, k, *strides,
             right, p1, s0, s1]
        )  # fmt: skip
        packed.append((target, flags))
        apart += [p1 if s0 else 0, 1 if s1 else 0]
    (left, x_flags), (other, y_flags) = packed
    work *= b0 * b1
    down, across = blocks_of_a_task(m, n, 2 * panel, work, b0 * b1)
    tasks = b0 * b1 * -(-m // (2 * LINES * down)) * -(-n // (2 * LINES * across))
    any_size.kernel("halves", "product", name)(
        [tasks, any_size.chunk_of(tasks, work / 1000 / tasks), left, other, x_flags, y_flags, out,
         bias, m, n, k, down, across, b1, *apart]
    )  # fmt: skip
    return out


LINES = 16  # of a panel, as in ``amx.py``


def blocks_of_a_task(m: int, n: int, panel: int, work: int, count: int) -> tuple[int, int]:
    """Blocks of a task, down and across: about as many tasks as are worth it, in all products.

    Args:
        m, n: the rows and columns of one.
        panel: the bytes of a panel; of the blocks of rows as many as stay in the cache.
        work: the multiplications by tiles, of all.
        count: how many products there are.
    """
    rows, columns = -(-m // (2 * LINES)), -(-n // (2 * LINES))
    wanted = min(-(-work // limits.EAGER_TILES_TASK), limits.EAGER_GEMM_TASKS)
    parts = -(-wanted // count)
    near = max(1, limits.EAGER_TILES_NEAR // (2 * panel))
    if rows >= columns:
        return min(-(-rows // min(parts, rows)), near), columns
    return min(rows, near), -(-columns // min(parts, columns))


def _strides(x: np.ndarray) -> tuple[int, int]:
    """Strides of a matrix in elements, one of them 1."""
    lines, numbers = x.shape[-2:]
    row, column = x.strides[-2:]
    if numbers == 1:
        return row // 2, 1
    return (1 if lines == 1 and column != 2 else row // 2), column // 2


def _one_dense(x: np.ndarray) -> np.ndarray:
    """x, or a copy where neither rows nor columns are dense."""
    x = _whole_strides(x)
    if x.flags.c_contiguous:
        return x
    lines, numbers = x.shape[-2:]
    row, column = x.strides[-2:]
    if (column == 2 or numbers == 1) or (row == 2 or lines == 1):
        return x
    return np.ascontiguousarray(x)
