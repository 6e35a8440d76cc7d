"""The kernel of a product: tasks, packing and tiles put together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from llvmlite import ir

from fx.backends.cpu.llvm import ir as v
from fx.backends.cpu.llvm.gemm.frame import Frame
from fx.backends.cpu.llvm.gemm.micro import Left, Right, Tile, accumulate
from fx.backends.cpu.llvm.gemm.pack import pack_across, pack_lines, side
from fx.backends.cpu.llvm.gemm.plan import Plan
from fx.backends.cpu.llvm.gemm.problem import Problem

Part = tuple[int, ir.Value, ir.Value]  # a size of tiles; the first and the one after the last


class Kernel(Frame):
    """A product in tiles."""

    def __init__(self, p: Problem, plan: Plan, shape: tuple[int, ...], epilogue: Any) -> None:
        super().__init__(p, plan.width, shape, epilogue)
        self.plan = plan
        width, rows, across = plan.width, plan.rows, plan.across
        vectors = -(-p.n // width)
        self.row_total = -(-p.m // rows)
        self.column_total = -(-vectors // across)
        self.row_tasks = -(-self.row_total // plan.row_tiles)
        self.column_tasks = -(-self.column_total // plan.column_tiles)
        steps = -(-p.k // plan.depth)
        self.parts = parts_of(p, plan)
        self.tasks = self.parts * p.batches * self.row_tasks * self.column_tasks
        self.last_rows = p.m - rows * (self.row_total - 1)
        self.last_count = vectors - across * (self.column_total - 1)
        self.tail = p.n - width * (vectors - 1)
        self.depths = plan.split or steps  # of a task, at most
        narrow = v.memory_type(p.out) != self.kind
        self.partial = self.depths > 1 and (narrow or epilogue is not None)
        # scratch: the panel of y, the block of x, sums of a task that are not finished
        self.wide = across * width
        own = plan.pack_y and not plan.shared
        self.panel = plan.column_tiles * self.wide * p.k if own else 0
        self.block = plan.row_tiles * rows * plan.depth + width if plan.pack_x else 0
        self.sums = 0
        if self.partial:
            self.sums = plan.row_tiles * rows * plan.column_tiles * self.wide
        self.held = 0  # a tile on its way through an epilogue that is emitted once a row
        if epilogue is not None and not epilogue.light:
            self.held = rows * self.wide
        self.panel, self.block = [-(-n // 16) * 16 for n in (self.panel, self.block)]
        self.scratch = (self.panel + self.block + self.sums + self.held) * self.size

    def task(self, t: ir.Value) -> None:
        """One task."""
        b, p, plan = self.b, self.p, self.plan
        part, t = v.split(b, t, self.tasks // self.parts)
        panel, row = v.split(b, t, self.row_tasks)
        batch, column = v.split(b, panel, self.column_tasks)
        x, y = self._bases(batch)
        first_row, last_row = self._range(row, plan.row_tiles, self.row_total)
        first_column, last_column = self._range(column, plan.column_tiles, self.column_total)
        wide = self.wide
        if plan.shared:
            y = v.at(b, y, v.times(b, first_column, wide * p.k), self.kind)
        else:
            skip = v.times(b, first_column, wide * p.y.column)
            y = v.at(b, y, skip, self.y_kind)
            if plan.pack_y:
                self.pack_y(y, self._scratch(0), first_column, last_column)
                y = self._scratch(0)
        line = v.add(b, v.times(b, batch, p.m), v.times(b, first_row, plan.rows))
        x = v.at(b, x, v.times(b, first_row, plan.rows * p.x.row), self.x_kind)

        def depth(d: ir.Value) -> None:
            skip = v.times(b, d, plan.depth)
            count = v.const(p.k)
            if plan.depth < p.k:
                count = v.smaller(b, v.const(plan.depth), b.sub(count, skip))
            base = v.at(b, x, v.times(b, skip, p.x.column), self.x_kind)
            if plan.pack_x:
                self._pack_x(base, first_row, last_row, count)
                base = self._scratch(self.panel)
            step = wide if plan.pack_y else p.y.row
            here = v.at(b, y, v.times(b, skip, step), self.kind)
            tiles = lambda c, size, r, rows: self._tile(
                d, count, base, here, line, b.sub(r, first_row), rows,
                b.sub(c, first_column), size, v.times(b, c, wide),
            )  # fmt: skip
            self._each(self._column_parts(first_column, last_column), lambda c, size: self._each(
                self._row_parts(first_row, last_row), lambda r, rows: tiles(c, size, r, rows)
            ))  # fmt: skip

        begin, end = v.const(0), v.const(-(-p.k // plan.depth))
        if plan.split:  # the sums of each part are a matrix of their own
            line = v.add(b, line, v.times(b, part, p.m))
            begin = v.times(b, part, plan.split)
            end = v.smaller(b, v.add(b, begin, plan.split), end)
        self.first, self.last = begin, v.add(b, end, -1)
        if plan.split == 1:
            depth(begin)
        else:
            v.loop(b, begin, end, depth, name="depth")

    def _bases(self, batch: ir.Value) -> tuple[ir.Value, ir.Value]:
        p = self.p
        if self.plan.shared:
            return self.bases(batch, packed_batches(p, self.column_total * self.wide), 0, self.kind)
        return self.bases(batch, [of_y for _, _, of_y in p.batch], p.y.offset, self.y_kind)

    def _scratch(self, offset: int) -> ir.Value:
        return v.at(self.b, self.scratch_at, offset, self.kind)

    def _range(self, i: ir.Value, length: int, total: int) -> tuple[ir.Value, ir.Value]:
        if length >= total:
            return v.const(0), v.const(total)
        first = v.times(self.b, i, length)
        return first, v.smaller(self.b, v.add(self.b, first, length), v.const(total))

    def _each(self, parts: Sequence[Part], body: Callable[[ir.Value, int], None]) -> None:
        for size, first, last in parts:
            v.loop(self.b, first, last, lambda i, size=size: body(i, size), name="tile")

    def _row_parts(self, first: ir.Value, last: ir.Value) -> list[Part]:
        return self._parts(first, last, self.row_total, self.plan.rows, self.last_rows)

    def _column_parts(self, first: ir.Value, last: ir.Value) -> list[Part]:
        masked = self.tail < self.plan.width
        code = (-1 if masked else 1) * self.last_count  # negative: with a mask
        return self._parts(first, last, self.column_total, self.plan.across, code)

    def _parts(
        self, first: ir.Value, last: ir.Value, total: int, usual: int, final: int
    ) -> list[Part]:
        """The tiles of the usual size, and the last one of all where it differs."""
        if final == usual:
            return [(usual, first, last)]
        parts: list[Part] = []
        edge = v.const(total - 1)
        if total > 1:
            parts.append((usual, first, v.smaller(self.b, last, edge)))
        if isinstance(first, ir.Constant):
            begin = v.const(max(first.constant, total - 1))
        else:
            begin = self.b.select(self.b.icmp_signed(">", first, edge), first, edge)
        parts.append((final, begin, last))
        return parts

    def pack_y(self, y: ir.Value, panel: ir.Value, first: ir.Value, last: ir.Value) -> None:
        """Column tiles of the right factor, the first of which ``y`` is at."""
        b, p, plan = self.b, self.p, self.plan
        wide = self.wide

        def sliver(c: ir.Value, size: int) -> None:
            lanes = size * plan.width if size > 0 else (-size - 1) * plan.width + self.tail
            i = b.sub(c, first)
            source = v.at(b, y, v.times(b, i, wide * p.y.column), self.y_kind)
            target = v.at(b, panel, v.times(b, i, wide * p.k), self.kind)
            count = v.const(p.k)
            if p.y.column == 1:
                pack_lines(b, p.y.dtype, source, p.y.row, count, target, lanes, wide, plan.width)
                return

            step = side(self.kind, plan.width)

            def across(start: ir.Value, live: int = step, padded: int = step) -> None:
                skip = v.times(b, start, p.y.column)
                pack_across(
                    b, p.y.dtype, v.at(b, source, skip, self.y_kind), p.y.column, count, p.k,
                    v.at(b, target, start, self.kind), live, padded, wide, plan.width,
                )  # fmt: skip

            whole = lanes // step * step
            v.loop(b, 0, whole, across, step=step, name="vector")
            padded = -(-lanes // plan.width) * plan.width
            if whole < padded:
                across(v.const(whole), lanes - whole, padded - whole)

        self._each(self._column_parts(first, last), sliver)

    def _pack_x(self, x: ir.Value, first: ir.Value, last: ir.Value, count: ir.Value) -> None:
        b, p, plan = self.b, self.p, self.plan
        least = p.k - (self.depths - 1) * plan.depth

        def sliver(r: ir.Value, rows: int) -> None:
            i = b.sub(r, first)
            source = v.at(b, x, v.times(b, i, plan.rows * p.x.row), self.x_kind)
            target = v.at(
                b, self._scratch(self.panel), v.times(b, i, plan.rows * plan.depth), self.kind
            )
            if p.x.column == 1:
                pack_across(
                    b, p.x.dtype, source, p.x.row, count, least, target, rows, rows, rows,
                    plan.width,
                )  # fmt: skip
            else:
                pack_lines(b, p.x.dtype, source, p.x.column, count, target, rows, rows, plan.width)

        self._each(self._row_parts(first, last), sliver)

    def _tile(
        self, d: ir.Value, count: ir.Value, x: ir.Value, y: ir.Value, line: ir.Value,
        r: ir.Value, rows: int, c: ir.Value, size: int, column: ir.Value,
    ) -> None:  # fmt: skip
        """One tile: row tile ``r`` and column tile ``c`` of the task."""
        b, p, plan, kind = self.b, self.p, self.plan, self.kind
        width, wide = plan.width, self.wide
        tile = Tile(rows, abs(size), width if size > 0 else self.tail, width)
        if plan.pack_x:
            left = Left(1, rows)
            x = v.at(b, x, v.times(b, r, plan.rows * plan.depth), kind)
        else:
            left = Left(p.x.row, p.x.column)
            x = v.at(b, x, v.times(b, r, plan.rows * p.x.row), kind)
        if plan.pack_y:
            right = Right(wide, True)
            y = v.at(b, y, v.times(b, c, wide * p.k), kind)
        else:
            right = Right(p.y.row, False)
            y = v.at(b, y, v.times(b, c, wide), kind)
        line = v.add(b, line, v.times(b, r, plan.rows))
        sums = accumulate(b, kind, tile, left, right, x, y, count)
        if self.depths > 1:
            sums = self._partial_sums(tile, sums, d, *self._partial_at(r, c, line, column))
            with b.if_then(b.icmp_signed("==", d, self.last)):
                self._finish(tile, sums, line, column)
        else:
            self._finish(tile, sums, line, column)

    def _partial_sums(
        self, tile: Tile, sums: list[ir.Value], d: ir.Value, address: ir.Value, pitch: int
    ) -> list[ir.Value]:
        """The sums with those of the depths before; kept in memory unless they are finished."""
        b, kind = self.b, self.kind
        places = [
            (v.at(b, address, r * pitch + c * tile.width, kind), tile.mask(b, c))
            for r in range(tile.rows)
            for c in range(tile.across)
        ]
        first, further, go = b.block, b.append_basic_block("further"), b.append_basic_block("go")
        b.cbranch(b.icmp_signed("==", d, self.first), go, further)
        b.position_at_end(further)
        added = [
            b.fadd(v.load(b, at, kind, tile.width, mask), x)
            for x, (at, mask) in zip(sums, places, strict=True)
        ]
        b.branch(go)
        b.position_at_end(go)
        found = []
        for x, y in zip(sums, added, strict=True):
            phi = b.phi(x.type)
            phi.add_incoming(x, first)
            phi.add_incoming(y, further)
            found.append(phi)
        with b.if_then(b.icmp_signed("!=", d, self.last)):
            for x, (at, mask) in zip(found, places, strict=True):
                v.store(b, x, at, mask)
        return found

    def _partial_at(
        self, r: ir.Value, c: ir.Value, line: ir.Value, column: ir.Value
    ) -> tuple[ir.Value, int]:
        """Where the unfinished sums of a tile lie, and how far apart their rows are."""
        b, p, plan = self.b, self.p, self.plan
        if not self.partial:
            return v.at(b, self.writes[0], v.add(b, v.times(b, line, p.n), column), self.kind), p.n
        pitch = plan.column_tiles * self.wide
        place = v.add(b, v.times(b, r, plan.rows * pitch), v.times(b, c, self.wide))
        return v.at(b, self._scratch(self.panel + self.block), place, self.kind), pitch

    def _finish(self, tile: Tile, sums: list[ir.Value], line: ir.Value, column: ir.Value) -> None:
        """Store finished sums, or what the epilogue makes of them."""
        b, width = self.b, tile.width
        if self.epilogue is None or self.epilogue.light:
            for i, x in enumerate(sums):
                r, c = divmod(i, tile.across)
                lane = v.add(b, column, c * width)
                self.finish(x, v.add(b, line, r), lane, tile.mask(b, c))
            return
        held = self._scratch(self.panel + self.block + self.sums)
        for i, x in enumerate(sums):
            v.store(b, x, v.at(b, held, i * width, self.kind))

        def row(r: ir.Value) -> None:
            def one(c: ir.Value, mask: ir.Value | None) -> None:
                place = v.add(b, v.times(b, r, tile.across * width), v.times(b, c, width))
                x = v.load(b, v.at(b, held, place, self.kind), self.kind, width)
                self.finish(x, v.add(b, line, r), v.add(b, column, v.times(b, c, width)), mask)

            whole = tile.across - (tile.tail < width)
            v.loop(b, 0, whole, lambda c: one(c, None), name="column")
            if whole < tile.across:
                one(v.const(whole), tile.mask(b, whole))

        v.loop(b, 0, tile.rows, row, name="row")


class Packing(Kernel):
    """A kernel that packs the right factor for all tasks of a product: a task is a column tile."""

    def __init__(self, p: Problem, plan: Plan) -> None:
        super().__init__(p, plan, (), None)
        self.matrices = prod([size for size, _, of_y in p.batch if of_y])
        self.elements = self.matrices * self.column_total * self.wide * p.k
        self.tasks = self.matrices * self.column_total
        self.scratch = 0

    def task(self, t: ir.Value) -> None:
        """One column tile of one matrix."""
        b, p = self.b, self.p
        rest, column = v.split(b, t, self.column_total)
        offset = v.add(b, v.const(p.y.offset), v.times(b, column, self.wide * p.y.column))
        sizes = [(size, of_y) for size, _, of_y in p.batch if of_y]
        for i in range(len(sizes) - 1, -1, -1):
            place = rest
            if i > 0:
                rest, place = v.split(b, rest, sizes[i][0])
            offset = v.add(b, offset, v.times(b, place, sizes[i][1]))
        y = v.at(b, self.x_at, offset, self.y_kind)
        target = v.at(b, self.writes[0], v.times(b, t, self.wide * p.k), self.kind)
        self.pack_y(y, target, column, v.add(b, column, 1))


class Totals(Frame):
    """A kernel that adds up the parts of a product whose sums were split."""

    def __init__(self, p: Problem, plan: Plan, shape: tuple[int, ...], epilogue: Any) -> None:
        super().__init__(p, plan.width, shape, epilogue)
        self.plan = plan
        self.parts = parts_of(p, plan)
        self.rows = -(-p.m // 8)
        self.tasks = -(-p.m // self.rows)
        self.scratch = 0

    def task(self, t: ir.Value) -> None:
        """Some rows."""
        b, p, width, kind = self.b, self.p, self.width, self.kind
        first = v.times(b, t, self.rows)
        last = v.smaller(b, v.add(b, first, self.rows), v.const(p.m))
        whole = p.n // width * width

        def row(r: ir.Value) -> None:
            def one(j: ir.Value, mask: ir.Value | None = None) -> None:
                place = v.at(b, self.x_at, v.add(b, v.times(b, r, p.n), j), kind)

                def add(i: ir.Value, x: ir.Value) -> list[ir.Value]:
                    at = v.at(b, place, v.times(b, i, p.m * p.n), kind)
                    return [b.fadd(x, v.load(b, at, kind, width, mask))]

                start = v.load(b, place, kind, width, mask)
                (x,) = v.loop(b, 1, self.parts, add, [start], name="part")
                self.finish(x, r, j, mask)

            v.loop(b, 0, whole, one, step=width, name="column")
            if whole < p.n:
                one(v.const(whole), v.first_lanes(b, p.n - whole, width))

        v.loop(b, first, last, row, name="row")


def parts_of(p: Problem, plan: Plan) -> int:
    """The number of parts that sums are split into."""
    return -(-p.k // (plan.depth * plan.split)) if plan.split else 1


def packed_batches(p: Problem, columns: int) -> list[int]:
    """The stride of each axis of batches in the packed right factors."""
    strides, step = [], columns * p.k
    for size, _, of_y in reversed(p.batch):
        strides.append(step if of_y else 0)
        step *= size if of_y else 1
    return strides[::-1]
