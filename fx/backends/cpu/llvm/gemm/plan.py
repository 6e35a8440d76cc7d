"""The blocks of a product: tiles in registers, panels in scratch memory, tasks."""

from __future__ import annotations

from typing import NamedTuple

from fx import limits
from fx.backends.cpu.llvm import ir as v
from fx.backends.cpu.llvm.gemm.problem import Problem


class Plan(NamedTuple):
    """How a product is cut.

    The tiles that ``tile`` chooses, from 4 rows by 4 vectors to 14 by 2, run within 3% of each
    other and within 5% of what the multipliers can do; 2 by 8 loses a quarter.

    A task is ``row_tiles`` tiles by ``column_tiles`` tiles, one of ``row_tasks * column_tasks`` of
    each product of the batch. Tiles are ``rows`` by ``across`` vectors of ``width`` lanes.
    """

    width: int
    rows: int
    across: int
    row_tiles: int
    column_tiles: int
    depth: int
    pack_x: bool
    pack_y: bool
    shared: bool  # y is packed for all tasks by a kernel of its own
    split: int = 0  # depths of a task, if a kernel of its own adds up those of several tasks


def plan(p: Problem) -> Plan:
    """The blocks for a product: by its sizes and strides alone."""
    kind = v.compute_type(p.x.dtype)
    size = v.size_of(kind)
    width = v.target().vector_bytes // size
    narrow = v.memory_type(p.x.dtype) != kind
    rows, across = tile(p, width)
    row_tiles, column_tiles = -(-p.m // rows), -(-p.n // (across * width))
    large = p.k * p.n * size > limits.GEMM_PANEL and row_tiles >= limits.GEMM_PANEL_TILES
    pack_y = narrow or p.y.column != 1 or large
    pack_x = narrow
    depth = p.k
    if p.k > limits.GEMM_DEPTH:
        depth = -(-p.k // -(-p.k // limits.GEMM_DEPTH))
        depth = -(-depth // width) * width
        while depth < p.k and 0 < p.k % depth < width:  # packing works on whole vectors
            depth += width
    rt, ct = _tasks(p, rows, across * width, pack_x, pack_y, size, depth)
    shared = pack_y and rt < row_tiles
    found = Plan(width, rows, across, rt, ct, depth, pack_x, pack_y, shared)
    tasks = p.batches * -(-row_tiles // rt) * -(-column_tiles // ct)
    wanted = p.work // limits.GEMM_TASK
    parts = min(16, wanted // tasks, p.k // limits.GEMM_SPLIT)
    if tasks > 4 or parts < 4 or p.batches > 1 or pack_x or pack_y:
        return found
    span = -(-p.k // parts)
    split = -(-span // limits.GEMM_DEPTH)
    return found._replace(depth=-(-span // split), split=split)


def _tasks(
    p: Problem, rows: int, columns: int, pack_x: bool, pack_y: bool, size: int, depth: int
) -> tuple[int, int]:
    """Tiles of ``rows`` by ``columns`` of a task: down and across.

    Where the right factor is packed and the left one stays in the cache, columns are cut, and each
    task packs its own. Else tasks are rows and all or many columns, and what is packed is packed
    for all tasks beforehand.
    """
    row_tiles, column_tiles = -(-p.m // rows), -(-p.n // columns)
    rt, ct = row_tiles, column_tiles
    wanted = min(p.work // limits.GEMM_TASK, limits.GEMM_TASKS)
    if pack_x:
        rt = _even(row_tiles, max(1, limits.GEMM_BLOCK // (depth * size * rows)))
    own = pack_y and not pack_x and p.m * p.k * size <= limits.GEMM_NEAR
    if own:
        ct = _even(column_tiles, max(1, limits.GEMM_PANEL // (p.k * columns * size)))
    elif pack_y:
        wanted = min(wanted, limits.GEMM_TASKS_PACKED)
    while True:
        tasks = p.batches * -(-row_tiles // rt) * -(-column_tiles // ct)
        short = tasks < 4
        least = (4 if pack_y and not own and not short else 2) * limits.GEMM_ROWS
        tall = rt > 1 and rt * rows >= least
        broad = ct > 1 and (own or short or ct * columns >= 4 * limits.GEMM_ROWS)
        if own:
            tall = tall and short and not broad
        if tasks >= wanted or not (tall or broad):
            return rt, ct
        rows_first = not own and (pack_y or rt * rows * 4 >= ct * columns)
        if tall and (rows_first or not broad):
            rt = _even(row_tiles, -(-rt // 2))
        else:
            ct = _even(column_tiles, -(-ct // 2))


def _even(total: int, most: int) -> int:
    """The length of parts, at most ``most``, into which ``total`` is cut evenly."""
    return -(-total // -(-total // most))


def tile(p: Problem, width: int) -> tuple[int, int]:
    """Rows and vectors of the tile that takes the least time."""
    registers = v.target().registers
    vectors = -(-p.n // width)
    best, found = float("inf"), (1, 1)
    for across in range(1, min(vectors, 8) + 1):
        for rows in range(1, min(p.m, 16) + 1):
            if rows * across + across + 1 > registers:
                break
            time, kinds = 0.0, 0
            for h, hs in _parts(p.m, rows):
                for c, cs in _parts(vectors, across):
                    step = max(h * c, h + c, 10) + 0.25 * h + 0.5 * c
                    time += hs * cs * (p.k * step + 10 + 2 * h * c + 3 * h)
                    kinds += 1
            time *= 1 + 0.04 * kinds  # each kind of tile is code to compile
            if time < best * 0.985:  # narrow tiles make more tasks
                best, found = time, (rows, across)
    rows, across = found
    return _even(p.m, rows), _even(vectors, across)


def _parts(total: int, part: int) -> list[tuple[int, int]]:
    """The (length, number) of even parts and of the last one."""
    even = _even(total, part)
    whole, rest = divmod(total, even)
    return [(even, whole), (rest, 1)] if rest else [(even, whole)]
