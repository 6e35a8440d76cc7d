"""Matrix products of any size: tiles of 6 rows by 4 vectors (2 where registers are few).

    out[b0, b1, i, j] = sum over l of x[b0, b1, i, l] * y[b0, b1, l, j] (+ bias[j])

A right factor whose rows are not dense, or that is too large to be read with a stride, is packed
by each task, a tile of columns and ``EAGER_GEMM_DEPTH`` steps of k at a time: lines of the width of
a tile, in the cache of the thread that reads them.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from fx import limits
from fx.backends.cpu.llvm import ir as v

ROWS = 6
# the words of a product
(X, Y, OUT, M, N, K, X_ROW, X_STEP, Y_ROW, Y_STEP, B0, B1, X0, X1, Y0, Y1,
 DOWN, ACROSS, ROW_TASKS, COLUMN_TASKS, PACKS, BIAS) = range(22)  # fmt: skip


def across() -> int:
    """How many vectors a tile is wide."""
    return 4 if v.target().registers >= 32 else 2


def wide(size: int) -> int:
    """How many columns of elements of ``size`` bytes a tile has."""
    return across() * v.target().vector_bytes // size


def emit(module: ir.Module, dtype: Any, name: str) -> None:
    """Add the kernel ``product``."""
    getattr(Tiles(module, dtype), name)()


class Tiles:
    """Packing and products of one dtype in a module."""

    def __init__(self, module: ir.Module, dtype: Any) -> None:
        self.module = module
        self.kind = v.memory_type(dtype)
        self.width = v.target().vector_bytes // v.size_of(self.kind)
        self.across = across()
        self.wide = self.across * self.width

    def _kernel(self, name: str) -> tuple[ir.IRBuilder, Any, list[ir.Value]]:
        function = ir.Function(
            self.module,
            ir.FunctionType(ir.VoidType(), [v.pointer, v.i64, v.i64, v.pointer]),
            name,
        )
        b = ir.IRBuilder(function.append_basic_block("entry"))
        words, begin, end, _ = function.args
        found = []
        for i in range(BIAS + 1):
            kind = v.pointer if i in (X, Y, OUT, BIAS) else v.i64
            found.append(b.load(v.at(b, words, i, v.i64), typ=kind, align=8))
        return b, (begin, end), found

    def _at(self, b: ir.IRBuilder, base: ir.Value, *terms: Any) -> ir.Value:
        """The address of an element: pairs of indices and strides."""
        total = None
        for i, stride in terms:
            term = b.mul(i, stride if isinstance(stride, ir.Value) else v.const(stride))
            total = term if total is None else b.add(total, term)
        return v.at(b, base, total, self.kind)

    # packing ------------------------------------------------------------------------------------

    def _pack(self, b: Any, source: Any, target: Any, w: Any, count: Any, live: Any) -> None:
        """A tile of columns of y, ``live`` of them, and ``count`` rows, as lines of the target."""
        dense = b.icmp_signed("==", w[Y_STEP], v.const(1))
        with b.if_else(dense) as (then, otherwise):
            with then:
                self._pack_lines(b, source, target, w[Y_ROW], count, live)
            with otherwise:
                self.across_lines(b, source, w[Y_STEP], v.const(1), target, self.wide, count, live)

    def _up(self, b: ir.IRBuilder, n: ir.Value, step: int) -> ir.Value:
        return b.udiv(b.add(n, v.const(step - 1)), v.const(step))

    def _pack_lines(
        self, b: Any, source: Any, target: Any, row: Any, count: Any, live: Any
    ) -> None:
        masks = [
            v.first_lanes(b, b.sub(live, v.const(i * self.width)), self.width)
            for i in range(self.across)
        ]

        def line(_: Any, source: Any, target: Any) -> list[Any]:
            for i, mask in enumerate(masks):
                x = v.load(
                    b, v.at(b, source, i * self.width, self.kind), self.kind, self.width, mask
                )
                v.store(b, x, v.at(b, target, i * self.width, self.kind))
            return [v.at(b, source, row, self.kind), v.at(b, target, self.wide, self.kind)]

        v.loop(b, v.const(0), count, line, [source, target], name="line")

    def across_lines(
        self, b: Any, source: Any, line: Any, step: Any, target: Any, pitch: Any, count: Any,
        live: Any,
    ) -> None:  # fmt: skip
        """``target[l, j] = source[j, l]`` for l below ``count`` and j below ``live``, by squares.

        ``line`` is from one j of the source to the next, ``step`` from one l, 1 where squares are
        to pay; rows of the target are ``pitch`` apart and whole vectors long: past the last live
        line they repeat it.
        """
        side = min(self.width, 8)
        last = b.sub(live, v.const(1))
        dense = b.icmp_signed("==", step, v.const(1))
        whole = b.select(dense, b.mul(b.udiv(count, v.const(side)), v.const(side)), v.const(0))

        def group(j: Any) -> None:
            lines = [
                self._at(b, source, (v.smaller(b, b.add(j, v.const(i)), last), line))
                for i in range(side)
            ]
            to = v.at(b, target, j, self.kind)

            def square(l: Any) -> None:
                rows = [v.load(b, v.at(b, x, l, self.kind), self.kind, side) for x in lines]
                for i, row in enumerate(v.transpose(b, rows)):
                    v.store(b, row, self._at(b, to, (b.add(l, v.const(i)), pitch)))

            v.loop(b, v.const(0), whole, square, step=side, name="square")

            def single(l: Any) -> None:
                at = self._at(b, to, (l, pitch))
                for i, x in enumerate(lines):
                    one = b.load(
                        self._at(b, x, (l, step)), typ=self.kind, align=v.size_of(self.kind)
                    )
                    b.store(one, v.at(b, at, i, self.kind), align=v.size_of(self.kind))

            v.loop(b, whole, count, single, name="single")

        v.loop(b, v.const(0), self.whole(b, live), group, step=side, name="group")

    def whole(self, b: Any, n: Any) -> Any:
        """The lanes of the vectors that ``n`` numbers take."""
        return b.mul(self._up(b, n, self.width), v.const(self.width))

    # products -----------------------------------------------------------------------------------

    def product(self) -> None:
        """A task is ``DOWN`` tiles by ``ACROSS`` tiles of one matrix."""
        area = self.area()
        b, (begin, end), w = self._kernel("product")
        packs = b.icmp_signed("!=", w[PACKS], v.const(0))
        panel = v.room(b, self.kind, limits.EAGER_GEMM_DEPTH * self.wide)
        per_matrix = b.mul(w[ROW_TASKS], w[COLUMN_TASKS])
        down, across = b.mul(w[DOWN], v.const(ROWS)), b.mul(w[ACROSS], v.const(self.wide))
        nothing = ir.Constant(v.pointer, None)

        def task(t: Any) -> None:
            batch = b.udiv(t, per_matrix)
            rest = b.sub(t, b.mul(batch, per_matrix))
            column = b.udiv(rest, w[ROW_TASKS])
            row = b.sub(rest, b.mul(column, w[ROW_TASKS]))
            b0 = b.udiv(batch, w[B1])
            b1 = b.sub(batch, b.mul(b0, w[B1]))
            i, j = b.mul(row, down), b.mul(column, across)
            x = self._at(b, w[X], (b0, w[X0]), (b1, w[X1]), (i, w[X_ROW]))
            y = self._at(b, w[Y], (b0, w[Y0]), (b1, w[Y1]), (j, w[Y_STEP]))
            out = self._at(b, w[OUT], (b.add(b.mul(batch, w[M]), i), w[N]), (j, 1))
            m = v.smaller(b, b.sub(w[M], i), down)
            n = v.smaller(b, b.sub(w[N], j), across)
            added = b.icmp_unsigned("!=", w[BIAS], nothing)
            bias = b.select(added, v.at(b, w[BIAS], j, self.kind), nothing)

            def depth(d: Any) -> None:
                count = v.smaller(b, b.sub(w[K], d), v.const(limits.EAGER_GEMM_DEPTH))
                more = b.icmp_signed("!=", d, v.const(0))
                last = b.icmp_signed("<=", w[K], b.add(d, v.const(limits.EAGER_GEMM_DEPTH)))
                left = [self._at(b, x, (d, w[X_STEP])), w[X_ROW], w[X_STEP]]
                right, width = self._at(b, y, (d, w[Y_ROW])), v.const(self.wide)
                ends = b.and_(added, last)

                def tile(c: Any) -> None:
                    live = v.smaller(b, b.sub(n, c), width)
                    self._pack(b, self._at(b, right, (c, w[Y_STEP])), panel, w, count, live)
                    there = b.select(ends, v.at(b, bias, c, self.kind), nothing)
                    b.call(area, [
                        *left, panel, width, width, v.at(b, out, c, self.kind), w[N], m, live,
                        count, more, there,
                    ])  # fmt: skip

                with b.if_else(packs) as (packed, lying):
                    with packed:
                        v.loop(b, v.const(0), n, tile, step=self.wide, name="tile")
                    with lying:
                        b.call(area, [
                            *left, right, w[Y_ROW], width, out, w[N], m, n, count, more,
                            b.select(ends, bias, nothing),
                        ])  # fmt: skip

            v.loop(b, v.const(0), w[K], depth, step=limits.EAGER_GEMM_DEPTH, name="depth")

        v.loop(b, begin, end, task, name="task")
        b.ret_void()

    def area(self) -> ir.Function:
        """A product in tiles, without packing and without blocks of k.

            void area(x, row, step, y, line, tile, out, pitch, m, n, k, more, bias)

        ``out`` (m, n), whose rows are ``pitch`` apart, becomes x (m, k) @ y (k, n), and keeps what
        it had if ``more``. Strides are counted in elements: ``row`` and ``step`` of x, ``line`` of
        y, ``tile`` from a tile of columns of y to the next. ``bias`` (n,) may be null.
        """
        tiles = [self._tile(self.across, False)]
        tiles += [self._tile(count, True) for count in range(1, self.across + 1)]
        p, i = v.pointer, v.i64
        kinds = [p, i, i, p, i, i, p, i, i, i, i, v.i1, p]
        function = ir.Function(self.module, ir.FunctionType(ir.VoidType(), kinds), "area")
        function.linkage = "internal"
        function.attributes.add("noinline")
        x, x_row, x_step, y, line, tile, out, pitch, m, n, k, more, bias = function.args
        b = ir.IRBuilder(function.append_basic_block("entry"))
        nothing = ir.Constant(p, None)
        added = b.icmp_unsigned("!=", bias, nothing)

        def columns(j: Any, y: Any) -> list[Any]:
            live = v.smaller(b, b.sub(n, j), v.const(self.wide))
            full = b.icmp_signed("==", live, v.const(self.wide))
            target = v.at(b, out, j, self.kind)
            for_these = b.select(added, v.at(b, bias, j, self.kind), nothing)
            done = b.append_basic_block("columns.done")
            code = b.select(full, v.const(0), self._up(b, live, self.width))
            switch = b.switch(code, done)
            for number, function in enumerate(tiles):
                case = b.append_basic_block("tiles")
                switch.add_case(v.const(number), case)
                b.position_at_end(case)

                def rows(r: Any, function: Any = function) -> None:
                    b.call(function, [
                        self._at(b, x, (r, x_row)), y, self._at(b, target, (r, pitch)), k, x_row,
                        x_step, line, pitch, live, b.sub(m, r), more, for_these,
                    ])  # fmt: skip

                v.loop(b, v.const(0), m, rows, step=ROWS, name="rows")
                b.branch(done)
            b.position_at_end(done)
            return [v.at(b, y, tile, self.kind)]

        v.loop(b, v.const(0), n, columns, [y], step=self.wide, name="columns")
        b.ret_void()
        return function

    def _tile(self, count: int, masked: bool) -> ir.Function:
        """A tile of ``count`` vectors, the last with ``live`` lanes left, and up to 6 rows.

        Rows that are not there repeat the last one and are stored where nobody looks.
        """
        kinds = [v.pointer, v.pointer, v.pointer, *[v.i64] * 7, v.i1, v.pointer]
        name = f"tile{count}{'_masked' if masked else ''}"
        function = ir.Function(self.module, ir.FunctionType(ir.VoidType(), kinds), name)
        function.linkage = "internal"
        function.attributes.add("noinline")
        x, y, out, steps, x_row, x_step, line, pitch, live, rows, more, bias = function.args
        b = ir.IRBuilder(function.append_basic_block("entry"))
        kind, width = self.kind, self.width
        nowhere = b.alloca(ir.ArrayType(kind, self.wide))
        nowhere.align = 64
        masks: list[Any] = [None] * count
        if masked:
            masks[-1] = v.first_lanes(b, b.sub(live, v.const((count - 1) * width)), width)
        last = b.sub(rows, v.const(1))
        lines, places = [], []
        for r in range(ROWS):
            there = b.icmp_signed("<", v.const(r), rows)
            lines.append(self._at(b, x, (b.select(there, v.const(r), last), x_row)))
            row = b.select(there, self._at(b, out, (v.const(r), pitch)), nowhere)
            places += [v.at(b, row, c * width, kind) for c in range(count)]
        start = [v.zeros(kind, width)] * (ROWS * count)

        def step(_: Any, place: Any, y: Any, *sums: Any) -> list[Any]:
            ys = [
                v.load(b, v.at(b, y, c * width, kind), kind, width, masks[c]) for c in range(count)
            ]
            new = []
            for r in range(ROWS):
                address = v.at(b, lines[r], place, kind)
                scalar = b.load(address, align=v.size_of(kind), typ=kind)
                spread = v.splat(b, scalar, width)
                new += [v.multiply_add(b, spread, ys[c], sums[r * count + c]) for c in range(count)]
            return [b.add(place, x_step), v.at(b, y, line, kind), *new]

        state = v.loop(b, v.const(0), steps, step, [v.const(0), y, *start], name="k")
        sums = self._with_before(b, state[2:], places, masks, more)
        sums = self._with_bias(b, sums, bias, masks)
        for i, (value, at) in enumerate(zip(sums, places, strict=True)):
            v.store(b, value, at, masks[i % count])
        b.ret_void()
        return function

    def _with_bias(self, b: ir.IRBuilder, sums: Any, bias: ir.Value, masks: Any) -> list[ir.Value]:
        """The sums, and the bias added where there is one."""
        kind, width = self.kind, self.width
        first, adding = b.block, b.append_basic_block("adding")
        stored = b.append_basic_block("stored")
        b.cbranch(b.icmp_unsigned("!=", bias, ir.Constant(v.pointer, None)), adding, stored)
        b.position_at_end(adding)
        line = [
            v.load(b, v.at(b, bias, c * width, kind), kind, width, mask)
            for c, mask in enumerate(masks)
        ]
        added = [b.fadd(x, line[i % len(masks)]) for i, x in enumerate(sums)]
        b.branch(stored)
        b.position_at_end(stored)
        return _either(b, (sums, first), (added, adding))

    def _with_before(
        self, b: ir.IRBuilder, sums: Any, places: Any, masks: Any, more: ir.Value
    ) -> list[ir.Value]:
        """The sums, and those over the depths before added where there are any."""
        first, further = b.block, b.append_basic_block("further")
        go = b.append_basic_block("go")
        b.cbranch(more, further, go)
        b.position_at_end(further)
        before = [
            v.load(b, at, self.kind, self.width, masks[i % len(masks)])
            for i, at in enumerate(places)
        ]
        added = [b.fadd(x, y) for x, y in zip(before, sums, strict=True)]
        b.branch(go)
        b.position_at_end(go)
        return _either(b, (sums, first), (added, further))


def _either(b: ir.IRBuilder, *ways: tuple[Any, ir.Block]) -> list[ir.Value]:
    """The values of the block that one came from."""
    found = []
    for values in zip(*[values for values, _ in ways], strict=True):
        phi = b.phi(values[0].type)
        for value, (_, block) in zip(values, ways, strict=True):
            phi.add_incoming(value, block)
        found.append(phi)
    return found
