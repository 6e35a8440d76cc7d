"""Transforms of rows, in which the lanes of vectors are points of one."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from fx.backends.cpu.llvm import ir as v
from fx.backends.cpu.llvm.any_size.fourier.butterflies import Pair
from fx.backends.cpu.llvm.any_size.fourier.stage import Stage
from fx.backends.cpu.llvm.any_size.fourier.tables import (
    CROSS,
    FIRST,
    N1,
    N2,
    N2_UP,
    REAL,
    SECOND,
    STARTS,
    VECTORS,
)
from fx.backends.cpu.llvm.any_size.fourier.words import (
    BEFORE_IN,
    BEFORE_OUT,
    COMPLEX,
    FORM,
    FROM_HALF,
    KIND_IN,
    OUT,
    REALS,
    TO_HALF,
    X,
)


class Rows(Stage):
    """A row at a time, in two halves."""

    def long(self) -> None:
        """A task is a row; in memory lie two buffers and the matrix between the halves."""
        b, w, t = self.b, self.w, self.t

        def row(i: Any) -> None:
            source = v.at(b, w[X], b.mul(i, w[BEFORE_IN]), self.kind)
            target = v.at(b, w[OUT], b.mul(i, w[BEFORE_OUT]), self.kind)
            back = b.icmp_signed("==", w[FORM], v.const(FROM_HALF))
            with b.if_then(back):
                self._halves(source, target, back=True)
            source = b.select(back, target, source)
            size = b.mul(v.larger(b, t[N1], t[N2]), v.const(2 * self.width))
            buffers = [v.at(b, self.memory, b.mul(size, v.const(k)), self.kind) for k in range(3)]
            first, other, between = buffers
            v.loop(b, 0, t[VECTORS], lambda j: self._first(source, j, first, other, between, False))
            v.loop(b, 0, self._others(), lambda k: self._second(between, k, first, target))
            with b.if_then(b.icmp_signed("==", w[FORM], v.const(TO_HALF))):
                self._halves(target, target, back=False)

        self.tasks(row)

    def first(self) -> None:
        """A task is a vector of columns of a row, to its matrix."""
        b, t = self.b, self.t
        size = b.mul(t[N1], v.const(2 * self.width))
        buffers = self.memory, v.at(b, self.memory, size, self.kind)

        def task(i: Any) -> None:
            row, j = self.split(i, t[VECTORS])
            source = v.at(b, self.w[X], b.mul(row, self.w[BEFORE_IN]), self.kind)
            self._first(source, j, *buffers, self._matrix(self.w[OUT], row), True)

        self.tasks(task)

    def second(self) -> None:
        """A task is a vector of the other half."""
        b, count = self.b, self._others()

        def task(i: Any) -> None:
            row, k = self.split(i, count)
            target = v.at(b, self.w[OUT], b.mul(row, self.w[BEFORE_OUT]), self.kind)
            self._second(self._matrix(self.w[X], row), k, self.memory, target)

        self.tasks(task)

    def to_half(self) -> None:
        """A task is a row of the transform of pairs, perhaps in place."""
        self._half_rows(back=False)

    def from_half(self) -> None:
        """A task is a row of half a spectrum."""
        self._half_rows(back=True)

    def _half_rows(self, back: bool) -> None:
        b, w = self.b, self.w

        def row(i: Any) -> None:
            source = v.at(b, w[X], b.mul(i, w[BEFORE_IN]), self.kind)
            target = v.at(b, w[OUT], b.mul(i, w[BEFORE_OUT]), self.kind)
            self._halves(source, target, back)

        self.tasks(row)

    def _others(self) -> Any:
        """How many vectors N1 lines are."""
        b, t = self.b, self.t
        return b.udiv(b.add(t[N1], v.const(self.width - 1)), v.const(self.width))

    def _matrix(self, base: Any, row: Any) -> Any:
        """Where the matrix of a row is."""
        size = self.b.mul(self._others(), self.t[N2_UP])
        return self.at(base, self.b.mul(row, size))

    def _first(
        self, source: Any, j: Any, buffer: Any, other: Any, between: Any, large: bool
    ) -> None:
        """Columns of the matrix (N1, N2), from a vector j on; times roots, and transposed.

        ``between`` is (vectors of N1, N2_UP, 2, width). Where the table is that of a large size the
        roots are products of two.
        """
        b, t, width = self.b, self.t, self.width
        start = b.mul(j, v.const(width))
        count = b.sub(t[N2], start)

        def load(kind: int) -> None:
            each = v.const(1 if kind == REALS else 2)
            base = v.at(b, source, b.mul(start, each), self.kind)
            step = b.mul(t[N2], each)

            def lines(short: Any) -> None:
                def one(i: Any) -> None:
                    at = v.at(b, base, b.mul(i, step), self.kind)
                    self.put_swapped(self.read(kind, at, None, short), self.at(buffer, i))

                v.loop(b, 0, t[N1], one, name="line")

            self.whole_or_short(count, lines)

        self.by_kind(KIND_IN, load, (COMPLEX, REALS))
        found = self.transformed(buffer, other, FIRST)
        roots = self.part_of_table(CROSS)
        if not large:
            roots = self.at(roots, b.mul(j, t[N1]))
        starts = v.at(b, self.part_of_table(STARTS), b.mul(b.mul(j, t[N1]), v.const(2)), self.kind)
        last = b.sub(t[N1], v.const(1))

        def square(first: Any) -> None:
            lanes = []
            for i in range(width):
                k = v.smaller(b, b.add(first, v.const(i)), last)
                root = self.element(self.at(roots, k))
                if large:
                    root = self.times(
                        root, self.root(v.at(b, starts, b.mul(k, v.const(2)), self.kind), 0)
                    )
                lanes.append(self.times(self.element(self.at(found, k)), root))
            vector = b.udiv(first, v.const(width))
            into = self.at(between, b.add(b.mul(vector, t[N2_UP]), start))
            for part in (0, 1):
                for i, line in enumerate(v.transpose(b, [x[part] for x in lanes])):
                    at = self.at(into, i)
                    v.store(b, line, v.at(b, at, part * width, self.kind))

        v.loop(b, 0, t[N1], square, step=width, name="square")

    def _second(self, between: Any, k: Any, buffer: Any, target: Any) -> None:
        """Rows of the matrix that is between, a vector of them; to their places in the result."""
        b, t, width = self.b, self.t, self.width
        here = self.at(between, b.mul(k, t[N2_UP]))
        found = self.transformed(here, buffer, SECOND)
        start = b.mul(k, v.const(width))
        base = v.at(b, target, b.mul(start, v.const(2)), self.kind)

        def lines(short: Any) -> None:
            def one(i: Any) -> None:
                at = v.at(b, base, b.mul(b.mul(i, t[N1]), v.const(2)), self.kind)
                self.put_beside(self.swapped(self.at(found, i)), at, short)

            v.loop(b, 0, t[N2], one, name="line")

        self.whole_or_short(b.sub(t[N1], start), lines)

    def _halves(self, source: Any, target: Any, back: bool) -> None:
        """Half a spectrum of the transform of pairs, or that of pairs of it; a row."""
        b, width = self.b, self.width
        n = b.mul(self.t[N1], self.t[N2])
        roots = self.part_of_table(REAL)
        scalar = lambda at, i: v.load(b, v.at(b, at, i, self.kind), self.kind)
        twice = b.mul(n, v.const(2))
        low, high = self.outer_ends(
            (scalar(source, 0), scalar(source, 1)), scalar(source, twice) if back else None, back
        )
        for at, value in [(0, low)] + ([] if back else [(twice, high)]):
            v.store(b, value[0], v.at(b, target, at, self.kind))
            v.store(b, value[1], v.at(b, target, v.add(b, at, 1), self.kind))
        last = b.udiv(n, v.const(2))  # pairs

        def some(i: Any) -> None:
            first = b.add(i, v.const(1))
            there = b.mul(b.sub(b.sub(n, i), v.const(width)), v.const(2))
            here = b.mul(first, v.const(2))
            root = self.element(self.at(roots, b.udiv(i, v.const(width))))

            def vectors(short: Any) -> None:
                x = self.beside(v.at(b, source, here, self.kind), short)
                y = self._mirrored(v.at(b, source, there, self.kind), short)
                x, y = self.ends(x, y, root, back)
                self.put_beside(x, v.at(b, target, here, self.kind), short)
                self._put_mirrored(y, v.at(b, target, there, self.kind), short)

            self.whole_or_short(b.sub(last, i), vectors)

        v.loop(b, 0, last, some, step=width, name="pairs")

    def _last_masks(self, count: Any) -> list[Any]:
        if count is None:
            return [None, None]
        b, width = self.b, self.width
        off = b.sub(v.const(2 * width), b.mul(count, v.const(2)))
        ones = v.constant(ir.VectorType(v.i1, width), 1)
        return [b.xor(v.first_lanes(b, n, width), ones) for n in (off, b.sub(off, v.const(width)))]

    def _mirrored(self, at: Any, count: Any) -> Pair:
        """As ``beside`` the last ones, from behind."""
        b, width = self.b, self.width
        places = (at, v.at(b, at, width, self.kind))
        low, high = [
            v.load(b, p, self.kind, width, mask) for p, mask in zip(places, self._last_masks(count))
        ]
        order = [*range(2 * width - 2, -1, -2)]
        return v.shuffle(b, low, high, order), v.shuffle(b, low, high, [i + 1 for i in order])

    def _put_mirrored(self, x: Pair, at: Any, count: Any) -> None:
        b, width = self.b, self.width
        order = [width - 1 - i // 2 + width * (i % 2) for i in range(2 * width)]
        for i, mask in enumerate(self._last_masks(count)):
            lanes = v.shuffle(b, x[0], x[1], order[i * width : (i + 1) * width])
            v.store(b, lanes, v.at(b, at, i * width, self.kind), mask)
