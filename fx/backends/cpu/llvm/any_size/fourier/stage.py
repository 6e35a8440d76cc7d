"""Stages: their words, and what they load, store and do to half spectra."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from fx.backends.cpu.llvm import ir as v
from fx.backends.cpu.llvm.any_size.fourier.butterflies import Complex, Pair
from fx.backends.cpu.llvm.any_size.fourier.tables import (
    WORDS,
)
from fx.backends.cpu.llvm.any_size.fourier.words import (
    CHUNK,
    COMPLEX,
    INVERSE,
    POINTERS,
    REALS,
    ROOM,
    SCALE,
    SCRATCH,
    STACK,
    TABLE,
)

FUNCTION = ir.FunctionType(v.void, [v.pointer, v.i64, v.i64, v.pointer])


class Stage(Complex):
    """The words of a stage, and of its table; loads and stores of whole or short vectors."""

    def __init__(
        self, module: ir.Module, kind: ir.Type, width: int, run_passes: Any, name: str
    ) -> None:
        self.run_passes = run_passes
        function = self.function = ir.Function(module, FUNCTION, f"stage.{name}")
        function.linkage = "internal"
        function.attributes.add("noinline")
        super().__init__(ir.IRBuilder(function.append_basic_block("entry")), kind, width)
        b = self.b
        words, self.begin, self.end, _ = function.args
        self.w = [
            b.load(v.at(b, words, i, v.i64), typ=v.pointer if i in POINTERS else v.i64, align=8)
            for i in range(CHUNK + 1)
        ]
        table = self.w[TABLE]
        self.t = [b.load(v.at(b, table, i, v.i64), typ=v.i64, align=8) for i in range(len(WORDS))]
        scale = b.load(self.w[SCALE], typ=v.f64, align=8)
        self.scale = v.splat(b, scale if kind is v.f64 else b.fptrunc(scale, kind), width)
        self.swap = b.mul(self.w[INVERSE], v.const(width))
        share = b.mul(b.mul(b.udiv(self.begin, self.w[CHUNK]), self.w[ROOM]), v.const(16))
        start = b.add(b.ptrtoint(v.at(b, self.w[SCRATCH], share, v.i8), v.i64), v.const(63))
        given = b.inttoptr(b.and_(start, v.const(-64)), v.pointer)
        none = b.icmp_signed("==", b.ptrtoint(self.w[SCRATCH], v.i64), v.const(0))
        self.memory = b.select(none, v.room(b, v.i8, STACK), given)

    def part_of_table(self, word: int) -> Any:
        """The address of what a word of the table tells of."""
        return v.at(self.b, self.w[TABLE], self.t[word], v.i8)

    def transformed(self, source: Any, other: Any, plan: int) -> Any:
        """The elements after all passes, in one of the two buffers."""
        return self.b.call(
            self.run_passes, [source, other, self.w[TABLE], self.part_of_table(plan)]
        )

    def tasks(self, body: Callable[[Any], None]) -> None:
        """``body(task)`` for each; the kernel ends behind them."""
        v.loop(self.b, self.begin, self.end, body, name="task")
        self.b.ret_void()

    def whole_or_short(self, count: Any, body: Callable[[Any], None]) -> None:
        """``body(None)`` for a whole vector of lanes, or ``body(count)`` for fewer."""
        with self.b.if_else(self.b.icmp_signed(">=", count, v.const(self.width))) as (all_, some):
            with all_:
                body(None)
            with some:
                body(count)

    # what lies beside each other ------------------------------------------------------------------

    def _masks(self, count: Any) -> list[Any]:
        if count is None:
            return [None, None]
        twice = self.b.mul(count, v.const(2))
        return [
            v.first_lanes(self.b, n, self.width)
            for n in (twice, self.b.sub(twice, v.const(self.width)))
        ]

    def beside(self, at: Any, count: Any) -> Pair:
        """Complex numbers that lie one after the other; zeros after ``count``, if that is given."""
        b, width = self.b, self.width
        places = (at, v.at(b, at, width, self.kind))
        low, high = [
            v.load(b, p, self.kind, width, mask) for p, mask in zip(places, self._masks(count))
        ]
        return (
            v.shuffle(b, low, high, range(0, 2 * width, 2)),
            v.shuffle(b, low, high, range(1, 2 * width, 2)),
        )

    def put_beside(self, x: Pair, at: Any, count: Any) -> None:
        """Complex numbers one after the other, or the first ``count`` of them."""
        b, width = self.b, self.width
        order = [i // 2 + width * (i % 2) for i in range(2 * width)]
        for i, mask in enumerate(self._masks(count)):
            lanes = v.shuffle(b, x[0], x[1], order[i * width : (i + 1) * width])
            v.store(b, lanes, v.at(b, at, i * width, self.kind), mask)

    def reals(self, at: Any, count: Any) -> Any:
        """Real numbers that lie one after the other."""
        mask = None if count is None else v.first_lanes(self.b, count, self.width)
        return v.load(self.b, at, self.kind, self.width, mask)

    def zero(self) -> Any:
        """A zero in every lane."""
        return self.number(0.0)

    def read(self, kind: int, at: Any, after: Any, count: Any) -> Pair:
        """Points of adjacent columns, from an address."""
        if kind == COMPLEX:
            return self.beside(at, count)
        real = self.reals(at, count)
        if kind == REALS:
            return real, self.zero()
        return real, self.reals(v.at(self.b, at, after, self.kind), count)

    def put_swapped(self, x: Pair, at: Any) -> None:
        """An element, its parts changed for an inverse."""
        b, width = self.b, v.const(self.width)
        v.store(b, x[0], v.at(b, at, self.swap, self.kind))
        v.store(b, x[1], v.at(b, at, b.sub(width, self.swap), self.kind))

    def swapped(self, at: Any) -> Pair:
        """An element whose parts are changed back, times the scale."""
        b, width = self.b, v.const(self.width)
        real = v.load(b, v.at(b, at, self.swap, self.kind), self.kind, self.width)
        imaginary = v.load(
            b, v.at(b, at, b.sub(width, self.swap), self.kind), self.kind, self.width
        )
        return b.fmul(real, self.scale), b.fmul(imaginary, self.scale)

    def split(self, i: Any, count: Any) -> tuple[Any, Any]:
        """``i // count, i % count``."""
        found = self.b.udiv(i, count)
        return found, self.b.sub(i, self.b.mul(found, count))

    def by_kind(self, word: int, body: Callable[[int], None], kinds: tuple[int, ...]) -> None:
        """``body(kind)`` of the one that a word says."""
        for kind in kinds:
            with self.b.if_then(self.b.icmp_signed("==", self.w[word], v.const(kind))):
                body(kind)

    # half spectra ---------------------------------------------------------------------------------

    def ends(self, x: Pair, y: Pair, root: Pair, back: bool) -> tuple[Pair, Pair]:
        """Points k and h - k of half a spectrum, of the transform of pairs; or these of those.

        ``root`` is -i exp(-2 pi i k / 2h).
        """
        b = self.b
        total = b.fadd(x[0], y[0]), b.fsub(x[1], y[1])
        apart = b.fsub(x[0], y[0]), b.fadd(x[1], y[1])
        turned = self.times(apart, (root[0], b.fneg(root[1])) if back else root)
        up = self.add(total, turned)
        down = b.fsub(total[0], turned[0]), b.fsub(turned[1], total[1])
        if back:
            return up, down
        half = self.number(0.5)
        return tuple([tuple([b.fmul(p, half) for p in z]) for z in (up, down)])  # type: ignore

    def outer_ends(self, x: Pair, y: Any, back: bool) -> tuple[Pair, Pair]:
        """The first and the last point of half a spectrum; or of both the first point of pairs."""
        b = self.b
        if back:
            found = b.fadd(x[0], y), b.fsub(x[0], y)
            return found, found
        nothing = v.constant(x[0].type, 0.0)
        return (b.fadd(x[0], x[1]), nothing), (b.fsub(x[0], x[1]), nothing)
