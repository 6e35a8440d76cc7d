"""What kernels of rows are written with: their words, and passes over a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from fx.backends.cpu.llvm import ir as v
from fx.backends.cpu.llvm.vecmath.algebra import Num

Body = Callable[..., Sequence[Num] | None]


class Rows:
    """One kernel; a task is a row, or what ``emit`` makes of it.

    Args:
        module: where it is added.
        dtype: of the numbers, float32 or float64.
        name: of the kernel.
        words: one letter a word: ``a`` for an array, ``i`` for an int.
        emit: ``emit(rows, task, *words)`` emits one task.
    """

    def __init__(
        self, module: ir.Module, dtype: Any, name: str, words: str, emit: Callable[..., None]
    ) -> None:
        self.kind = v.memory_type(dtype)
        self.size = v.size_of(self.kind)
        self.width = v.target().vector_bytes // self.size
        kinds = [v.pointer, v.i64, v.i64, v.pointer]
        function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), name)
        b = self.b = ir.IRBuilder(function.append_basic_block("entry"))
        table, begin, end, _ = function.args
        found: list[Any] = []
        for i, kind in enumerate(words):
            at = v.at(b, table, i, v.i64)
            found.append(b.load(at, typ=v.i64 if kind == "i" else v.pointer, align=8))
        v.loop(b, begin, end, lambda task: emit(self, task, *found), name="task")
        b.ret_void()

    def row(self, base: ir.Value, i: ir.Value, n: ir.Value) -> ir.Value:
        """The address of row ``i`` of ``n`` elements."""
        return v.at(self.b, base, self.b.mul(i, n), self.kind)

    def load(self, base: ir.Value, i: ir.Value, mask: ir.Value | None = None) -> Num:
        """A vector from element ``i`` on; zeros where the mask is off."""
        at = v.at(self.b, base, i, self.kind)
        return Num(self.b, v.load(self.b, at, self.kind, self.width, mask))

    # passes -------------------------------------------------------------------------------------

    def each(
        self, n: ir.Value, body: Body, start: Sequence[Num] = (), first: ir.Value | None = None
    ) -> list[Num]:
        """``carried = body(i, mask, *carried)`` for each vector of ``n`` elements, the last masked.

        What is carried is vectors, and starts as ``start``; the elements are those from ``first``,
        a whole number of vectors, on.
        """
        b, width = self.b, self.width
        whole = b.sub(n, b.and_(n, v.const(width - 1)))
        first = v.const(0) if first is None else first

        def turn(masked: bool) -> Callable[..., list[ir.Value]]:
            def inner(i: ir.Value, *carried: ir.Value) -> list[ir.Value]:
                mask = v.first_lanes(b, b.sub(n, i), width) if masked else None
                found = body(i, mask, *[Num(b, x) for x in carried])
                return [x.v for x in found or ()]

            return inner

        state = [x.v for x in start]
        state = v.loop(b, first, whole, turn(False), state, step=width, name="vectors")
        state = v.loop(b, whole, n, turn(True), state, step=width, name="tail")
        return [Num(b, x) for x in state]
