"""Blocks of rows of vectors: each lane is a problem of its own, nothing goes across lanes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from fx.backends.cpu.llvm import ir as v
from fx.backends.cpu.llvm.any_size.gemm import Tiles
from fx.backends.cpu.llvm.vecmath import exponential
from fx.backends.cpu.llvm.vecmath.algebra import Num
from fx.backends.cpu.llvm.vecmath.outlined import outlined

_SUMS = 4  # that one pass over a column has at once


class Lanes(Tiles):
    """What emits a kernel of such blocks; a row of one has ``pitch`` numbers."""

    b: Any
    pitch: Any

    def vectors(self, lanes: ir.Value, body: Callable[[ir.Value], None]) -> None:
        """``body(i)`` for the first lane of each vector."""
        v.loop(self.b, v.const(0), lanes, body, step=self.width, name="vector")

    def rows_of_vectors(
        self, rows: ir.Value, lanes: ir.Value, body: Callable[[ir.Value, ir.Value], None]
    ) -> None:
        """``body(row, i)`` for the vectors of each row."""
        each = lambda r: self.vectors(lanes, lambda i: body(r, i))
        v.loop(self.b, v.const(0), rows, each, name="row")

    def fill(self, at: ir.Value, lanes: ir.Value, number: float) -> None:
        """A number in every lane."""
        self.vectors(lanes, lambda i: self.put(self.full(number), at, 0, i))

    def get(self, base: ir.Value, row: Any, i: ir.Value) -> Num:
        """A vector of scratch."""
        return Num(self.b, v.load(self.b, self._spot(base, row, i), self.kind, self.width))

    def put(self, x: Num, base: ir.Value, row: Any, i: ir.Value) -> None:
        """A vector to scratch."""
        v.store(self.b, x.v, self._spot(base, row, i))

    def _spot(self, base: ir.Value, row: Any, i: ir.Value) -> ir.Value:
        terms: Sequence[Any] = [(i, 1)] if row == 0 and isinstance(row, int) else [
            (row, self.pitch), (i, 1)
        ]  # fmt: skip
        return self._at(self.b, base, *terms)

    def number(self, x: ir.Value) -> Num:
        """A scalar in every lane."""
        return Num(self.b, v.splat(self.b, x, self.width))

    def full(self, number: float) -> Num:
        """A number in every lane."""
        return Num(self.b, v.zeros(self.kind, self.width)).full(number)

    def exp(self, x: Num) -> Num:
        """e ** x."""
        return outlined("exp", exponential.exp, x)  # type: ignore[no-any-return]

    def divided(self, x: ir.Value, y: ir.Value) -> tuple[ir.Value, ir.Value]:
        """``x // y, x % y``."""
        found = self.b.udiv(x, y)
        return found, self.b.sub(x, self.b.mul(found, y))

    def up(self, x: ir.Value, y: ir.Value) -> ir.Value:
        """``ceil(x / y)``."""
        b = self.b
        return b.udiv(b.sub(b.add(x, y), v.const(1)), y)

    def folded(
        self, count: ir.Value, start: Num, body: Callable[..., Num], join: Callable[..., Num]
    ) -> Num:
        """``x = body(r, x)`` over the rows, several at once that are joined in the end."""
        b = self.b
        whole = b.mul(b.udiv(count, v.const(_SUMS)), v.const(_SUMS))
        several = lambda r, *xs: [body(b.add(r, v.const(i)), Num(b, x)).v for i, x in enumerate(xs)]
        state = v.loop(b, v.const(0), whole, several, [start.v] * _SUMS, _SUMS, "several")
        rest = lambda r, x: [body(r, Num(b, x)).v]
        state[:1] = v.loop(b, whole, count, rest, state[:1], name="rest")
        found = [Num(b, x) for x in state]
        while len(found) > 1:
            found = [join(x, y) for x, y in zip(found[::2], found[1::2])]
        return found[0]

    def back_to_rows(self, x: Any, count: Any, at: Any, row: Any, live: Any) -> None:
        """``at[i, c] = x[c, i]`` for c below ``count``, by squares; x has whole vectors."""
        b, side = self.b, min(self.width, 8)
        whole = b.mul(b.udiv(count, v.const(side)), v.const(side))

        def square(i: ir.Value, c: ir.Value) -> None:
            lines = [
                v.load(b, self._at(b, x, (b.add(c, v.const(l)), self.pitch), (i, 1)),
                       self.kind, side) for l in range(side)
            ]  # fmt: skip
            for l, line in enumerate(v.transpose(b, lines)):
                with b.if_then(b.icmp_signed("<", b.add(i, v.const(l)), live), likely=True):
                    v.store(b, line, self._at(b, at, (b.add(i, v.const(l)), row), (c, 1)))

        def group(i: ir.Value) -> None:
            v.loop(b, v.const(0), whole, lambda c: square(i, c), step=side, name="square")

        v.loop(b, v.const(0), live, group, step=side, name="group")

        def single(i: ir.Value) -> None:
            def one(c: ir.Value) -> None:
                found = b.load(self._at(b, x, (c, self.pitch), (i, 1)), typ=self.kind,
                               align=v.size_of(self.kind))  # fmt: skip
                b.store(found, self._at(b, at, (i, row), (c, 1)), align=v.size_of(self.kind))

            v.loop(b, whole, count, one, name="one")

        v.loop(b, v.const(0), live, single, name="single")
