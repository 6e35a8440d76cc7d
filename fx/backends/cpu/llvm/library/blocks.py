"""What kernels of rows are written with: their words, passes over a row, sums over its lanes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from fx.backends.cpu.llvm.gemm import vectors as v
from fx.backends.cpu.llvm.vecmath.algebra import Num
from fx.backends.cpu.llvm.vecmath.outlined import outlined

Body = Callable[..., Sequence[Num] | None]


class Rows:
    """One kernel; a task is a row, or what ``emit`` makes of it.

    Args:
        module: where it is added.
        dtype: of the numbers, float32 or float64.
        name: of the kernel.
        words: one letter a word: ``a`` for an array, ``i`` for an int, ``f`` for a float.
        emit: ``emit(rows, task, *words)`` emits one task.
    """

    def __init__(
        self, module: ir.Module, dtype: Any, name: str, words: str, emit: Callable[..., None]
    ) -> None:
        self.kind = v.memory_type(dtype)
        self.size = v.size_of(self.kind)
        self.width = v.vector_bytes() // self.size
        kinds = [v.pointer, v.i64, v.i64, v.pointer]
        function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), name)
        b = self.b = ir.IRBuilder(function.append_basic_block("entry"))
        table, begin, end, _ = function.args
        found: list[Any] = []
        for i, kind in enumerate(words):
            at = v.at(b, table, i, v.i64)
            if kind == "i":
                found.append(b.load(at, typ=v.i64, align=8))
                continue
            address = b.load(at, typ=v.pointer, align=8)
            found.append(self._number(address) if kind == "f" else address)
        v.loop(b, begin, end, lambda task: emit(self, task, *found), name="task")
        b.ret_void()

    def _number(self, address: ir.Value) -> Num:
        wide = self.b.load(address, typ=v.f64, align=8)
        return self.spread(wide if self.size == 8 else self.b.fptrunc(wide, self.kind))

    # numbers ------------------------------------------------------------------------------------

    def spread(self, scalar: ir.Value) -> Num:
        """A scalar in every lane."""
        return Num(self.b, v.splat(self.b, scalar, self.width))

    def full(self, number: float) -> Num:
        """A number in every lane."""
        return Num(self.b, v.zeros(self.kind, self.width)).full(number)

    def count(self, n: ir.Value) -> Num:
        """An int as a number."""
        return self.spread(self.b.sitofp(n, self.kind))

    def call(self, name: str, formula: Any, *x: Num) -> Num:
        """A formula of ``vecmath``."""
        return outlined(name, formula, *x)  # type: ignore[no-any-return]

    def row(self, base: ir.Value, i: ir.Value, n: ir.Value) -> ir.Value:
        """The address of row ``i`` of ``n`` elements."""
        return v.at(self.b, base, self.b.mul(i, n), self.kind)

    def load(self, base: ir.Value, i: ir.Value, mask: ir.Value | None = None) -> Num:
        """A vector from element ``i`` on; zeros where the mask is off."""
        at = v.at(self.b, base, i, self.kind)
        return Num(self.b, v.load(self.b, at, self.kind, self.width, mask))

    def store(self, x: Num, base: ir.Value, i: ir.Value, mask: ir.Value | None = None) -> None:
        """A vector to element ``i`` and on."""
        v.store(self.b, x.v, v.at(self.b, base, i, self.kind), mask)

    def only(self, mask: ir.Value | None, x: Num, other: Num) -> Num:
        """x, and ``other`` in the lanes where the mask is off."""
        return x if mask is None else Num(self.b, self.b.select(mask, x.v, other.v))

    # passes -------------------------------------------------------------------------------------

    def each(self, n: ir.Value, body: Body, start: Sequence[Num] = ()) -> list[Num]:
        """``carried = body(i, mask, *carried)`` for each vector of ``n`` elements, the last masked.

        What is carried is vectors, and starts as ``start``.
        """
        b, width = self.b, self.width
        whole = b.sub(n, b.and_(n, v.const(width - 1)))

        def turn(masked: bool) -> Callable[..., list[ir.Value]]:
            def inner(i: ir.Value, *carried: ir.Value) -> list[ir.Value]:
                mask = v.first_lanes(b, b.sub(n, i), width) if masked else None
                found = body(i, mask, *[Num(b, x) for x in carried])
                return [x.v for x in found or ()]

            return inner

        state = [x.v for x in start]
        state = v.loop(b, v.const(0), whole, turn(False), state, step=width, name="vectors")
        state = v.loop(b, whole, n, turn(True), state, step=width, name="tail")
        return [Num(b, x) for x in state]

    def total(self, x: Num) -> Num:
        """The sum of the lanes, in every lane."""
        return self._over_lanes(x, lambda a, c: a + c)

    def largest(self, x: Num) -> Num:
        """The largest lane, in every lane."""
        return self._over_lanes(x, lambda a, c: a.larger(c))

    def _over_lanes(self, x: Num, join: Callable[[Num, Num], Num]) -> Num:
        step = self.width // 2
        while step:
            lanes = [i ^ step for i in range(self.width)]
            x = join(x, Num(self.b, v.shuffle(self.b, x.v, x.v, lanes)))
            step //= 2
        return x
