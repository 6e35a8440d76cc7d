"""Transforms side by side, a lane of a vector each: of columns, or of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fx.backends.cpu.llvm import ir as v
from fx.backends.cpu.llvm.any_size.fourier.butterflies import Pair
from fx.backends.cpu.llvm.any_size.fourier.stage import Stage
from fx.backends.cpu.llvm.any_size.fourier.tables import (
    FIRST,
    N1,
    REAL,
)
from fx.backends.cpu.llvm.any_size.fourier.words import (
    BEFORE_IN,
    BEFORE_OUT,
    COMPLEX,
    COUNT_IN,
    COUNT_OUT,
    FORM,
    FROM_HALF,
    KIND_IN,
    KIND_OUT,
    LINES,
    ODD_FROM_HALF,
    OUT,
    PAIRS,
    REALS,
    TO_HALF,
    X,
)


class Lanes(Stage):
    """A vector of columns, or of rows, at a time."""

    def columns(self) -> None:
        """Arrays (before, n, after): LINES columns, and tasks for each place before."""
        b, w, width = self.b, self.w, self.width
        after = w[LINES]
        vectors = b.udiv(b.add(after, v.const(width - 1)), v.const(width))

        def task(t: Any) -> None:
            before, vector = self.split(t, vectors)
            lane = b.mul(vector, v.const(width))
            count = b.sub(after, lane)

            def load(buffer: Any) -> None:
                def of(kind: int) -> None:
                    step = b.mul(after, v.const(1 if kind == REALS else 2))
                    start = b.mul(lane, v.const(2 if kind == COMPLEX else 1))
                    base = v.at(b, w[X], b.add(b.mul(before, w[BEFORE_IN]), start), self.kind)

                    def lines(short: Any) -> None:
                        def one(i: Any) -> None:
                            at = v.at(b, base, b.mul(i, step), self.kind)
                            self.put_swapped(self.read(kind, at, after, short), self.at(buffer, i))
                            beside = 1 if kind == REALS else 2
                            for k in range(beside, 2 * beside):
                                v.prefetch(b, v.at(b, at, k * width, self.kind), False)

                        v.loop(b, 0, w[COUNT_IN], one, name="line")

                    self.whole_or_short(count, lines)

                self.by_kind(KIND_IN, of, (COMPLEX, REALS, PAIRS))

            def store(buffer: Any) -> None:
                def of(kind: int) -> None:
                    step = b.mul(after, v.const(1 if kind == REALS else 2))
                    start = b.mul(lane, v.const(2 if kind == COMPLEX else 1))
                    base = v.at(b, w[OUT], b.add(b.mul(before, w[BEFORE_OUT]), start), self.kind)

                    def lines(short: Any) -> None:
                        def one(i: Any) -> None:
                            x = self.swapped(self.at(buffer, i))
                            self._write(
                                kind, x, v.at(b, base, b.mul(i, step), self.kind), after, short
                            )

                        v.loop(b, 0, w[COUNT_OUT], one, name="line")

                    self.whole_or_short(count, lines)

                self.by_kind(KIND_OUT, of, (COMPLEX, REALS, PAIRS))

            self._between(load, store)

        self.tasks(task)

    def _write(self, kind: int, x: Pair, at: Any, after: Any, count: Any) -> None:
        """Points of adjacent columns to an address."""
        if kind == COMPLEX:
            self.put_beside(x, at, count)
            return
        mask = None if count is None else v.first_lanes(self.b, count, self.width)
        v.store(self.b, x[0], at, mask)
        if kind == PAIRS:
            v.store(self.b, x[1], v.at(self.b, at, after, self.kind), mask)

    def rows(self) -> None:
        """Rows of BEFORE_IN and BEFORE_OUT numbers, LINES of which lie in one place before.

        Pairs lie as complex numbers do.
        """
        b, w, width = self.b, self.w, self.width
        vectors = b.udiv(b.add(w[LINES], v.const(width - 1)), v.const(width))

        def task(t: Any) -> None:
            before, vector = self.split(t, vectors)
            start = b.mul(before, w[LINES])
            first = b.add(start, b.mul(vector, v.const(width)))
            last = b.add(start, b.sub(w[LINES], v.const(1)))
            # behind the last row that one is done again, with the same result
            rows = [v.smaller(b, b.add(first, v.const(i)), last) for i in range(width)]
            starts, targets = [
                [v.at(b, w[base], b.mul(row, w[pitch]), self.kind) for row in rows]
                for base, pitch in ((X, BEFORE_IN), (OUT, BEFORE_OUT))
            ]
            ahead = b.mul(w[BEFORE_IN], v.const(width))

            def load(buffer: Any) -> None:
                def of(kind: int) -> None:
                    each = 1 if kind == REALS else 2
                    total = b.mul(w[COUNT_IN], v.const(each))

                    def block(i: Any) -> None:
                        def some(short: Any) -> None:
                            mask = None if short is None else v.first_lanes(b, short, width)
                            found = v.transpose(b, [
                                v.load(b, v.at(b, s, i, self.kind), self.kind, width, mask)
                                for s in starts
                            ])  # fmt: skip
                            at = self.at(buffer, b.udiv(i, v.const(each)))
                            for k in range(0, width, each):
                                other = found[k + 1] if each == 2 else self.zero()
                                self.put_swapped((found[k], other), self.at(at, k // each))

                        self.whole_or_short(b.sub(total, i), some)
                        for s, target in zip(starts, targets, strict=True):
                            v.prefetch(b, v.at(b, s, b.add(i, ahead), self.kind), False)
                            v.prefetch(b, v.at(b, target, i, self.kind), True)

                    v.loop(b, 0, total, block, step=width, name="block")

                self.by_kind(KIND_IN, of, (COMPLEX, REALS))

            def store(buffer: Any) -> None:
                def of(kind: int) -> None:
                    each = 1 if kind == REALS else 2
                    total = b.mul(w[COUNT_OUT], v.const(each))

                    def block(i: Any) -> None:
                        at = self.at(buffer, b.udiv(i, v.const(each)))
                        lanes = []
                        for k in range(width // each):
                            lanes += self.swapped(self.at(at, k))[:each]
                        lines = v.transpose(b, lanes)

                        def some(short: Any) -> None:
                            mask = None if short is None else v.first_lanes(b, short, width)
                            for target, line in zip(targets, lines, strict=True):
                                v.store(b, line, v.at(b, target, i, self.kind), mask)

                        self.whole_or_short(b.sub(total, i), some)

                    v.loop(b, 0, total, block, step=width, name="block")

                self.by_kind(KIND_OUT, of, (COMPLEX, REALS))

            self._between(load, store)

        self.tasks(task)

    def _between(self, load: Callable[[Any], None], store: Callable[[Any], None]) -> None:
        """Passes over what was loaded, and what half spectra need before or behind them."""
        b, n = self.b, self.t[N1]
        room = b.mul(b.add(n, v.const(1 + self.width)), v.const(2 * self.width))
        first, other = self.memory, v.at(b, self.memory, room, self.kind)
        load(first)
        self._if_form(FROM_HALF, lambda: self._halves(first, back=True))
        self._if_form(ODD_FROM_HALF, lambda: self._mirrored(first))
        found = self.transformed(first, other, FIRST)
        self._if_form(TO_HALF, lambda: self._halves(found, back=False))
        store(found)

    def _if_form(self, form: int, body: Callable[[], None]) -> None:
        with self.b.if_then(self.b.icmp_signed("==", self.w[FORM], v.const(form))):
            body()

    def _halves(self, buffer: Any, back: bool) -> None:
        """Half a spectrum of the transform of pairs, in place, or that of pairs of it."""
        b, n = self.b, self.t[N1]
        roots = self.part_of_table(REAL)
        get = self._parts if back else self.element
        put = self._put_parts if back else self.put
        start, end = self.at(buffer, 0), self.at(buffer, n)
        low, high = self.outer_ends(get(start), get(end)[0] if back else None, back)
        put(low, start)
        if not back:
            put(high, end)

        def pair(k: Any) -> None:
            here, there = self.at(buffer, k), self.at(buffer, b.sub(n, k))
            root = self.root(v.at(b, roots, b.mul(k, v.const(2)), self.kind), 0)
            x, y = self.ends(get(here), get(there), root, back)
            put(x, here)
            put(y, there)

        v.loop(b, 1, b.add(b.udiv(n, v.const(2)), v.const(1)), pair, name="pair")

    def _parts(self, at: Any) -> Pair:
        """An element that was loaded for an inverse, as it was."""
        return self.element(at)[::-1]

    def _put_parts(self, x: Pair, at: Any) -> None:
        self.put(x[::-1], at)

    def _mirrored(self, buffer: Any) -> None:
        """The whole spectrum of real numbers, of an odd number of points."""
        b, n = self.b, self.t[N1]
        start = self._parts(buffer)
        self._put_parts((start[0], self.zero()), buffer)

        def one(k: Any) -> None:
            real, imaginary = self._parts(self.at(buffer, k))
            self._put_parts((real, b.fneg(imaginary)), self.at(buffer, b.sub(n, k)))

        v.loop(b, 1, b.add(b.udiv(n, v.const(2)), v.const(1)), one, name="mirror")
