"""What kernels of rows are written with: their words, passes over a row, sums over its lanes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from fx import limits
from fx.backends.cpu.llvm import ir as v
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
        self.width = v.target().vector_bytes // self.size
        self.stretch = limits.SUM_VECTORS * self.width  # elements
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

    def sums(self, n: ir.Value, body: Body, count: int = 1) -> list[Num]:
        """The sums, in every lane, of what ``body(i, mask, *sums)`` adds to ``count`` of them."""
        return self.totals(self.stretches(n, body, self.nothing(count)))

    def nothing(self, count: int) -> list[Num]:
        """What ``count`` sums begin as: vectors of float64."""
        return [Num(self.b, v.zeros(v.f64, self.width))] * count

    def stretches(self, n: ir.Value, body: Body, sums: Sequence[Num]) -> list[Num]:
        """``sums``, vectors of float64, and what ``body(i, mask, *sums)`` adds to each.

        ``body`` sees sums of its own dtype, over so few vectors that they lose next to nothing.
        """
        b, step = self.b, self.stretch

        def part(first: ir.Value, *carried: ir.Value) -> list[ir.Value]:
            last = v.smaller(b, b.add(first, v.const(step)), n)
            return self.joined(carried, self.added(first, last, body, len(sums)))

        found = v.loop(b, v.const(0), n, part, [x.v for x in sums], step, "stretch")
        return [Num(b, x) for x in found]

    def added(self, first: ir.Value, last: ir.Value, body: Body, count: int) -> list[Num]:
        """What ``body`` adds to ``count`` sums over a stretch, vectors in turn to one and another.

        An addition takes longer than a load: a sum by itself would wait for the one before it.
        """
        b, both = self.b, 2 * self.width
        pairs = b.add(first, b.and_(b.sub(last, first), v.const(-both)))

        def pair(i: ir.Value, *carried: ir.Value) -> list[ir.Value]:
            state = [Num(b, x) for x in carried]
            even = body(i, None, *state[:count]) or ()
            odd = body(b.add(i, v.const(self.width)), None, *state[count:]) or ()
            return [x.v for x in (*even, *odd)]

        start = [self.full(0.0).v] * (2 * count)
        state = v.loop(b, first, pairs, pair, start, step=both, name="pairs")
        found = [Num(b, x) + Num(b, y) for x, y in zip(state, state[count:])]
        return self.each(last, body, found, pairs)

    def joined(self, sums: Sequence[ir.Value], terms: Sequence[Num]) -> list[ir.Value]:
        """Sums of float64 with what was added up in the dtype of the kernel."""
        b = self.b
        kind = ir.VectorType(v.f64, self.width)
        wide = [x.v if self.size == 8 else b.fpext(x.v, kind) for x in terms]
        return [b.fadd(x, y) for x, y in zip(sums, wide, strict=True)]

    def totals(self, sums: Sequence[Num]) -> list[Num]:
        """The sum of the lanes of vectors of float64, as numbers in every lane."""
        b = self.b
        found = []
        for x in sums:
            total = b.extract_element(v.sums_of_lanes(b, [x.v]), ir.Constant(v.i32, 0))
            found.append(self.spread(total if self.size == 8 else b.fptrunc(total, self.kind)))
        return found

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
