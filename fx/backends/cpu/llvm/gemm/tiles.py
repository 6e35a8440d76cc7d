"""Products of 16-bit numbers in compiled graphs: calls of the kernels that eager products run.

Both factors are packed into panels, and blocks of panels are multiplied by the tiles of the CPU
(``any_size/halves.py``). What follows a product is a kernel of its own: the tiles take so much less
time than products in float32 that storing it costs less than it saves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from fx import limits
from fx.backends.cpu.llvm import ir as dialect
from fx.backends.cpu.llvm.any_size.products import blocks_of_a_task
from fx.backends.cpu.llvm.gemm import amx
from fx.backends.cpu.llvm.gemm.problem import Factor, Problem
from fx.backends.cpu.llvm.node_steps.calls import call
from fx.compiler.step import Step
from fx.dtypes import int32
from fx.graph.ir import Value, input_value
from fx.spec import TensorSpec


class TileStep(Step):
    """A kernel of ``any_size/halves.py`` on arrays of a graph.

    Args:
        name: of the step.
        kernel: ``pack`` or ``product``.
        reads, writes: its arrays, the first words.
        offset: of the elements of the first array.
        words: the numbers behind the arrays; None for an array that there is not.
        tasks, cost, line: of the step.
    """

    def __init__(
        self, name: str, kernel: str, dtype: Any, reads: Sequence[Value], writes: Sequence[Value],
        offset: int, words: Sequence[int | None], tasks: int, cost: float, line: str,
    ) -> None:  # fmt: skip
        self.name, self.kernel, self.dtype = name, kernel, dtype
        self.reads, self.writes = tuple(reads), tuple(writes)
        self.offset, self.words = offset, tuple(words)
        self.tasks, self.cost = tasks, cost
        self.key = ("tiles", kernel, dtype, offset, self.words)
        self.lines = (line,) if line else ()

    def emit(self, module: ir.Module, name: str) -> ir.Function:
        """Add what fills the table and calls the kernel."""
        frame = dialect.Frame(module, name, len(self.reads), len(self.writes))
        first, *others = frame.reads
        first = dialect.at(frame.b, first, self.offset, dialect.memory_type(self.dtype))
        words = [first, *others, *frame.writes, *self.words]
        call(frame, ("halves", self.kernel, self.dtype.name), words)
        return frame.function


def tiled(p: Problem, x: Value, y: Value, out: Value, name: str, line: str) -> list[Step] | None:
    """The steps of a product, the one that writes the result last; None where tiles do not pay."""
    dtype = p.out
    if dtype.itemsize != 2 or len(p.batch) > 2 or p.swapped or not amx.available():
        return None
    squared = amx.planes(dtype) ** 2
    if min(p.m, p.n) < amx.LINES or p.k < amx.DEEP or p.work < limits.TILES_FROM * squared:
        return None
    if not (_dense(p.x) and _dense(p.y)):
        return None
    batch = [(1, 0, 0)] * (2 - len(p.batch)) + list(p.batch)
    (b0, x0, y0), (b1, x1, y1) = batch
    steps: list[Step] = []
    packed: list[Value] = []
    apart: list[int] = []
    for right, value, lines, factor, s0, s1 in (
        (0, x, p.m, p.x, x0, x1), (1, y, p.n, p.y, y0, y1)
    ):  # fmt: skip
        p0, p1 = b0 if s0 else 1, b1 if s1 else 1  # a matrix that is shared is packed once
        tasks, panel = p0 * p1 * amx.panels(lines), amx.panel_bytes(dtype, p.k)
        panels = _temporary(tasks * panel // 2, dtype)
        flags = _temporary(tasks, int32)
        along = (factor.column, factor.row) if right else (factor.row, factor.column)
        words = (lines, p.k, *along, right, p1, s0, s1)
        steps.append(TileStep(
            f"{name}, pack", "pack", dtype, [value], [panels, flags], factor.offset, words, tasks,
            tasks * panel / 16, line,
        ))  # fmt: skip
        packed += [panels, flags]
        apart += [p1 if s0 else 0, 1 if s1 else 0]
    work = p.work * squared
    down, across = blocks_of_a_task(p.m, p.n, panel, work, b0 * b1)
    side = amx.LINES * amx.SIDE
    tasks = b0 * b1 * -(-p.m // (side * down)) * -(-p.n // (side * across))
    left, x_flags, other, y_flags = packed
    words = (None, p.m, p.n, p.k, down, across, b1, *apart)
    steps.append(TileStep(
        name, "product", dtype, [left, other, x_flags, y_flags], [out], 0, words, tasks,
        work / 1000, line,
    ))  # fmt: skip
    return steps


def _dense(f: Factor) -> bool:
    return f.row == 1 or f.column == 1


def _temporary(size: int, dtype: Any) -> Value:
    return input_value(TensorSpec((size,), dtype))
