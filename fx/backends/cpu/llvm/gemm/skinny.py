"""Products of few rows, which are bound by memory: dot products, and sums of rows.

Where a row of the transposed right factor is dense, an element of the result is a dot product of
two dense rows (``Dots``). Where a row of the right factor itself is dense and the factor is larger
than the caches, the rows are added up, several at a time, from the first column to the last
(``Sums``): memory is read in the order in which it lies.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from llvmlite import ir

from fx import limits
from fx.backends.cpu.llvm import ir as v
from fx.backends.cpu.llvm.gemm.frame import Frame
from fx.backends.cpu.llvm.gemm.problem import Problem


class SkinnyPlan(NamedTuple):
    """How a product of few rows is cut.

    ``kind`` is "dots" or "sums". A task has ``columns`` columns. ``rows`` by ``across`` dot
    products are computed at once, each in ``deep`` sums; ``deep`` rows are added at once.
    """

    kind: str
    width: int
    rows: int
    across: int
    deep: int
    columns: int
    shared: bool = False


def skinny_plan(p: Problem) -> SkinnyPlan | None:
    """A plan, if the product is better off here than in tiles."""
    memory = p.y.dtype.itemsize
    width = v.target().vector_bytes // v.size_of(v.compute_type(p.y.dtype))
    if p.y.row == 1 and (p.y.column != 1 or p.n == 1) and p.k > 1:
        # transposing a square costs about as much as 16 dot products of as many elements
        if p.m <= limits.SKINNY_ROWS and (p.m == 1 or 6 * p.m <= p.k):
            rows = min(p.m, 4)
            across = min(4, width, 1 << (p.n - 1).bit_length())
            deep = max(1, min(-(-10 // (rows * across)), p.k // width))
            columns = _evenly(p.n, max(1, limits.SKINNY_TASK // (p.k * memory)), width)
            return SkinnyPlan("dots", width, rows, across, deep, columns)
        return None
    if (
        p.y.column == 1
        and p.m <= 8
        and p.k * p.n * memory > limits.SKINNY_LARGE
        and p.k >= limits.SKINNY_STEPS <= p.n // width
    ):
        # some pages of each row
        columns = _evenly(p.n, limits.SKINNY_COLUMNS * (1 + (p.n >= limits.SKINNY_WIDE)), width)
        deep = min(8, max(2, (v.target().registers - 4) // p.m))
        return SkinnyPlan("sums", width, p.m, 1, deep, columns)
    return None


def _evenly(total: int, most: int, width: int) -> int:
    """About equal parts, whole vectors, of ``most`` or a little more."""
    part = -(-total // -(-total // most))
    return -(-part // width) * width


class Skinny(Frame):
    """What both have in common: a task is some columns of one product of the batch."""

    def __init__(self, p: Problem, plan: SkinnyPlan, shape: tuple[int, ...], epilogue: Any) -> None:
        super().__init__(p, plan.width, shape, epilogue)
        self.plan = plan
        self.cuts = -(-p.n // plan.columns)
        self.tasks = p.batches * self.cuts
        # sums of whole vectors, and the left factor where its rows are not dense
        self.lanes = plan.width if plan.kind == "dots" else plan.columns + plan.width
        self.copied = plan.kind == "dots" and p.x.column != 1
        self.scratch = p.m * self.lanes * self.size + (p.m * p.k * self.size) * self.copied

    def task(self, t: ir.Value) -> None:
        """Emit one task."""
        b, p = self.b, self.p
        batch, cut = v.split(b, t, self.cuts)
        x, y = self.bases(batch, [of_y for _, _, of_y in p.batch], p.y.offset, self.y_kind)
        first = v.times(b, cut, self.plan.columns)
        last = v.smaller(b, v.add(b, first, self.plan.columns), v.const(p.n))
        self.columns(x, y, v.times(b, batch, p.m), first, last)

    def columns(self, x: ir.Value, y: ir.Value, line: ir.Value, first: Any, last: Any) -> None:
        """Emit the columns of a task."""
        raise NotImplementedError


class Dots(Skinny):
    """Elements as dot products of dense rows."""

    def columns(self, x: ir.Value, y: ir.Value, line: ir.Value, first: Any, last: Any) -> None:
        """A vector of columns at a time: sums go to scratch memory and from there to ``finish``."""
        b, p, plan, width = self.b, self.p, self.plan, self.width
        x_row, x_dtype = p.x.row, p.x.dtype
        if self.copied:
            x, x_row, x_dtype = self._copy(x), p.k, None

        def vector(j: ir.Value) -> None:
            known = isinstance(j, ir.Constant)
            left = v.const(p.n - j.constant) if known else b.sub(v.const(p.n), j)
            groups = v.smaller(
                b, v.const(width // plan.across), v.split(b, v.add(b, left, plan.across - 1),
                                                          plan.across)[0],
            )  # fmt: skip

            def group(g: ir.Value) -> None:
                place = v.times(b, g, plan.across)
                rows = []
                for c in range(plan.across):
                    column = v.smaller(b, v.add(b, v.add(b, j, place), c), v.const(p.n - 1))
                    rows.append(v.at(b, y, v.times(b, column, p.y.column), self.y_kind))

                def tile(r: ir.Value, count: int) -> None:
                    kind = self.x_kind if x_dtype else self.kind
                    base = v.at(b, x, v.times(b, r, x_row), kind)
                    found = self._dots(base, x_row, x_dtype, count, rows)
                    for i, sums in enumerate(found):
                        to = v.add(b, v.times(b, v.add(b, r, i), width), place)
                        v.store(b, sums, v.at(b, self.scratch_at, to, self.kind))

                whole = p.m // plan.rows * plan.rows
                v.loop(b, 0, whole, lambda r: tile(r, plan.rows), step=plan.rows, name="rows")
                if whole < p.m:
                    tile(v.const(whole), p.m - whole)

            v.loop(b, 0, groups, group, name="group")
            mask = None if p.n % width == 0 else v.first_lanes(
                b, v.smaller(b, left, v.const(width)), width
            )  # fmt: skip

            def row(r: ir.Value) -> None:
                source = v.at(b, self.scratch_at, v.times(b, r, width), self.kind)
                self.finish(
                    v.load(b, source, self.kind, width), v.add(b, line, r), j, mask
                )  # fmt: skip

            v.loop(b, 0, p.m, row, name="row")

        v.loop(b, first, last, vector, step=width, name="vector")

    def _copy(self, x: ir.Value) -> ir.Value:
        """The left factor with dense rows, in the type in which it is computed."""
        b, p = self.b, self.p
        target = v.at(b, self.scratch_at, p.m * self.lanes, self.kind)

        def row(r: ir.Value) -> None:
            def step(i: ir.Value) -> None:
                source = v.add(b, v.times(b, r, p.x.row), v.times(b, i, p.x.column))
                value = b.load(
                    v.at(b, x, source, self.x_kind), align=v.size_of(self.x_kind), typ=self.x_kind
                )
                to = v.at(b, target, v.add(b, v.times(b, r, p.k), i), self.kind)
                b.store(v.widen(b, value, p.x.dtype), to, align=self.size)

            v.loop(b, 0, p.k, step, name="copy")

        v.loop(b, 0, p.m, row, name="copy")
        return target

    def _dots(
        self, x: ir.Value, x_row: int, x_dtype: Any, count: int, ys: list[ir.Value]
    ) -> list[ir.Value]:
        """For each of ``count`` rows of x a vector of its products with the rows ``ys``."""
        b, p, width, deep = self.b, self.p, self.width, self.plan.deep
        kind = self.x_kind if x_dtype else self.kind
        across = len(ys)

        def step(i: ir.Value, sums: list[ir.Value], parts: int, mask: Any) -> list[ir.Value]:
            new = list(sums)
            for part in range(parts):
                k = v.add(b, i, part * width)
                right = [
                    v.widen(b, v.load(b, v.at(b, y, k, self.y_kind), self.y_kind, width, mask),
                            p.y.dtype)
                    for y in ys
                ]  # fmt: skip
                for r in range(count):
                    address = v.at(b, x, v.add(b, k, r * x_row), kind)
                    left = v.load(b, address, kind, width, mask)
                    left = v.widen(b, left, x_dtype) if x_dtype else left
                    for c in range(across):
                        at = (part * count + r) * across + c
                        new[at] = v.multiply_add(b, left, right[c], new[at])
            return new

        turn = deep * width
        whole, vectors = p.k // turn * turn, p.k // width * width
        sums = [v.zeros(self.kind, width)] * (deep * count * across)
        sums = v.loop(
            b, 0, whole, lambda i, *s: step(i, list(s), deep, None), sums, step=turn, name="k"
        )
        sums = v.loop(
            b, whole, vectors, lambda i, *s: step(i, list(s), 1, None), sums, step=width, name="k"
        )
        if vectors < p.k:
            sums = step(v.const(vectors), sums, 1, v.first_lanes(b, p.k - vectors, width))
        found = []
        for r in range(count):
            row = []
            for c in range(across):
                parts = [sums[(part * count + r) * across + c] for part in range(deep)]
                while len(parts) > 1:
                    parts = [*parts[2:], b.fadd(parts[0], parts[1])]
                row.append(parts[0])
            found.append(v.sums_of_lanes(b, row))
        return found


class Sums(Skinny):
    """Rows of the right factor, each times an element of the left one, added up."""

    def columns(self, x: ir.Value, y: ir.Value, line: ir.Value, first: Any, last: Any) -> None:
        """Some rows at a time, from the first column of the task to the last."""
        b, p, plan, width = self.b, self.p, self.plan, self.width
        tail = p.n % width
        stop = v.smaller(b, last, v.const(p.n - tail)) if tail else last
        y = v.at(b, y, first, self.y_kind)
        count = b.sub(stop, first)

        def some(k: ir.Value, deep: int, fresh: bool) -> None:
            scalars = [
                [self._spread(x, r, v.add(b, k, d)) for d in range(deep)] for r in range(p.m)
            ]
            row = v.at(b, y, v.times(b, k, p.y.row), self.y_kind)

            def vector(j: ir.Value, mask: ir.Value | None = None) -> None:
                ys = []
                for d in range(deep):
                    at = v.at(b, row, v.add(b, j, d * p.y.row), self.y_kind)
                    ys.append(v.widen(b, v.load(b, at, self.y_kind, width, mask), p.y.dtype))
                for r in range(p.m):
                    to = v.at(b, self.scratch_at, v.add(b, j, r * self.lanes), self.kind)
                    total = v.zeros(self.kind, width)
                    for d in range(deep):
                        total = v.multiply_add(b, scalars[r][d], ys[d], total)
                    if not fresh:  # last: a shorter chain of additions loses fewer digits
                        total = b.fadd(v.load(b, to, self.kind, width), total)
                    v.store(b, total, to)

            v.loop(b, 0, count, vector, step=width, name="vector")
            if tail:
                with b.if_then(b.icmp_signed("==", last, v.const(p.n))):
                    vector(count, v.first_lanes(b, tail, width))

        rest = p.k % plan.deep or plan.deep
        some(v.const(0), rest, True)
        v.loop(b, rest, p.k, lambda k: some(k, plan.deep, False), step=plan.deep, name="k")
        for r in range(p.m):
            source = v.at(b, self.scratch_at, r * self.lanes, self.kind)
            self.finish_row(source, v.add(b, line, r), first, last)

    def _spread(self, x: ir.Value, r: int, k: ir.Value) -> ir.Value:
        b, p = self.b, self.p
        place = v.add(b, v.times(b, k, p.x.column), r * p.x.row)
        kind = self.x_kind
        scalar = b.load(v.at(b, x, place, kind), align=v.size_of(kind), typ=kind)
        return v.splat(b, v.widen(b, scalar, p.x.dtype), self.width)
