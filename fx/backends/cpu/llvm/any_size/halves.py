"""Products of 16-bit numbers of any size by the tiles of the CPU; ``gemm/amx.py`` has the tiles.

    out[b0, b1, i, j] = sum over l of x[b0, b1, i, l] * y[b0, b1, l, j] (+ bias[j])

Sums are float32 and rounded once. ``small`` packs both factors and multiplies, on one thread;
``pack`` and ``product`` are the two halves of that, in tasks.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from fx.backends.cpu.llvm import ir as v
from fx.backends.cpu.llvm.gemm import amx
from fx.backends.cpu.llvm.gemm.amx import LINES, SIDE

_BLOCK = SIDE * LINES  # rows and columns of a block


def emit(module: ir.Module, dtype: Any, name: str) -> None:
    """Add the kernel ``small``, ``pack`` or ``product``."""
    _Kernel(module, dtype, name)


class _Kernel:
    def __init__(self, module: ir.Module, dtype: Any, name: str) -> None:
        self.dtype, self.kind = dtype, v.memory_type(dtype)
        kinds = [v.pointer, v.i64, v.i64, v.pointer]
        function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), name)
        self.b = ir.IRBuilder(function.append_basic_block("entry"))
        self.table, self.begin, self.end, _ = function.args
        self.held = self.b.alloca(ir.ArrayType(v.i8, amx.HELD))
        self.held.align = 64
        self.flag = self.b.alloca(v.i32)
        getattr(self, name)()
        self.b.ret_void()

    def _words(self, letters: str) -> list[Any]:
        b = self.b
        kinds = [v.pointer if letter == "a" else v.i64 for letter in letters]
        return [
            b.load(v.at(b, self.table, i, v.i64), typ=kind, align=8) for i, kind in enumerate(kinds)
        ]

    def _up(self, n: Any, step: int) -> Any:
        return self.b.udiv(self.b.add(n, v.const(step - 1)), v.const(step))

    def _panel(self, k: Any) -> Any:
        """The bytes of a panel."""
        return self.b.mul(self._up(k, amx.DEEP), v.const(amx.TILE * amx.planes(self.dtype)))

    # packing ------------------------------------------------------------------------------------

    def pack(self) -> None:
        """A task is a panel: ``source target flags lines k line step right b1 s0 s1``."""
        b = self.b
        source, target, flags, lines, k, line, step, right, b1, s0, s1 = self._words(
            "aaa" + "i" * 8
        )
        count = self._up(lines, LINES)

        def task(t: Any) -> None:
            batch = b.udiv(t, count)
            i = b.sub(t, b.mul(batch, count))
            outer = b.udiv(batch, b1)
            inner = b.sub(batch, b.mul(outer, b1))
            at = v.at(b, source, b.add(b.mul(outer, s0), b.mul(inner, s1)), self.kind)
            self._pack(right, at, target, flags, t, i, lines, k, line, step)

        v.loop(b, self.begin, self.end, task, name="task")

    def _pack(
        self, right: Any, source: Any, target: Any, flags: Any, t: Any, i: Any, *sizes: Any
    ) -> None:
        """Panel ``i`` of a factor to place ``t``; ``right`` says of which, known now or later."""
        b = self.b
        lines, k, line, step = sizes
        first = b.mul(i, v.const(LINES))
        source = v.at(b, source, b.mul(first, line), self.kind)
        target = v.at(b, target, b.mul(t, self._panel(k)), v.i8)
        words = source, target, b.sub(lines, first), k, line, step
        if isinstance(right, bool):
            flag = amx.pack(b, self.dtype, right, *words)
        else:
            with b.if_else(b.icmp_signed("!=", right, v.const(0))) as sides:
                for side, which in zip(sides, (True, False)):
                    with side:
                        b.store(amx.pack(b, self.dtype, which, *words), self.flag)
            flag = b.load(self.flag, typ=v.i32)
        b.store(flag, v.at(b, flags, t, v.i32))

    # products -----------------------------------------------------------------------------------

    def product(self) -> None:
        """A task is ``down`` by ``across`` blocks of one matrix.

        ``x y x_flags y_flags out bias m n k down across b1 x0 x1 y0 y1``; the last four say how
        many matrices of packed panels lie between two of the batch.
        """
        b = self.b
        words = self._words("aaaaaaiiiiiiiiii")
        x, y, x_flags, y_flags, out, bias, m, n, k, down, across, b1, x0, x1, y0, y1 = words
        row_blocks, column_blocks = self._up(m, _BLOCK), self._up(n, _BLOCK)
        row_tasks = b.udiv(b.sub(b.add(row_blocks, down), v.const(1)), down)
        column_tasks = b.udiv(b.sub(b.add(column_blocks, across), v.const(1)), across)
        each = b.mul(row_tasks, column_tasks)
        panel = self._panel(k)
        amx.begin(b)

        def task(t: Any) -> None:
            batch = b.udiv(t, each)
            rest = b.sub(t, b.mul(batch, each))
            column = b.udiv(rest, row_tasks)
            row = b.sub(rest, b.mul(column, row_tasks))
            outer = b.udiv(batch, b1)
            inner = b.sub(batch, b.mul(outer, b1))
            factors = []
            for base, flags, s0, s1, lines in (
                (x, x_flags, x0, x1, m), (y, y_flags, y0, y1, n)
            ):  # fmt: skip
                matrix = b.add(b.mul(outer, s0), b.mul(inner, s1))
                first = b.mul(matrix, self._up(lines, LINES))
                factors += [v.at(b, base, b.mul(first, panel), v.i8), v.at(b, flags, first, v.i32)]
            target = v.at(b, out, b.mul(batch, b.mul(m, n)), self.kind)
            r0, c0 = b.mul(row, down), b.mul(column, across)
            r1 = v.smaller(b, b.add(r0, down), row_blocks)
            c1 = v.smaller(b, b.add(c0, across), column_blocks)
            self._blocks(*factors, target, bias, m, n, k, (r0, r1), (c0, c1))

        v.loop(b, self.begin, self.end, task, name="task")
        amx.end(b)

    def small(self) -> None:
        """One task: ``x y out bias scratch m n k x_row x_step y_row y_step``.

        ``scratch`` takes the panels of both factors, and before them a flag of each.
        """
        b = self.b
        x, y, out, bias, scratch, m, n, k, *strides = self._words("aaaaaiiiiiii")
        x_row, x_step, y_row, y_step = strides
        rows, columns, panel = self._up(m, LINES), self._up(n, LINES), self._panel(k)
        flags = scratch
        head = b.and_(b.add(b.mul(b.add(rows, columns), v.const(4)), v.const(63)), v.const(-64))
        left = v.at(b, scratch, head, v.i8)
        right = v.at(b, left, b.mul(rows, panel), v.i8)
        y_flags = v.at(b, flags, rows, v.i32)
        v.loop(b, 0, rows, lambda i: self._pack(
            False, x, left, flags, i, i, m, k, x_row, x_step
        ), name="left")  # fmt: skip
        v.loop(b, 0, columns, lambda i: self._pack(
            True, y, right, y_flags, i, i, n, k, y_step, y_row
        ), name="right")  # fmt: skip
        amx.begin(b)
        ends = [(v.const(0), self._up(size, _BLOCK)) for size in (m, n)]
        self._blocks(left, flags, right, y_flags, out, bias, m, n, k, *ends)
        amx.end(b)

    def _blocks(
        self, x: Any, x_flags: Any, y: Any, y_flags: Any, out: Any, bias: Any, m: Any, n: Any,
        k: Any, rows: Any, columns: Any,
    ) -> None:  # fmt: skip
        """The blocks of some rows and columns: products, then what is stored of them."""
        b, panel, deep = self.b, self._panel(k), self._up(k, amx.DEEP)

        def one(r: Any, c: Any) -> None:
            places, counts = [], []
            for i, lines in ((r, m), (c, n)):
                first = b.mul(i, v.const(SIDE))
                places.append(first)
                counts.append(b.sub(self._up(lines, LINES), first))
            left = v.at(b, x, b.mul(places[0], panel), v.i8)
            right = v.at(b, y, b.mul(places[1], panel), v.i8)
            down, across = [v.smaller(b, count, v.const(SIDE)) for count in counts]
            odd = None
            if amx.planes(self.dtype) > 1:
                odd = self._flagged((x_flags, places[0], down), (y_flags, places[1], across))
            code = b.add(b.mul(b.sub(down, v.const(1)), v.const(SIDE)), b.sub(across, v.const(1)))
            done = b.append_basic_block("done")
            if odd is not None:
                code = b.select(odd, v.const(SIDE * SIDE), code)
            switch = b.switch(code, done)
            for number in range(SIDE * SIDE + (odd is not None)):
                case = b.append_basic_block("case")
                switch.add_case(v.const(number), case)
                b.position_at_end(case)
                if number < SIDE * SIDE:
                    i, j = divmod(number, SIDE)
                    amx.block(b, self.dtype, i + 1, j + 1, left, right, deep, panel, self.held)
                else:
                    self._by_vectors(left, right, deep, panel, down, across)
                b.branch(done)
            b.position_at_end(done)
            self._store(out, bias, m, n, r, c)

        v.loop(b, *columns, lambda c: v.loop(b, *rows, lambda r: one(r, c), name="row"),
               name="column")  # fmt: skip

    def _flagged(self, *sides: Any) -> Any:
        """Whether a panel of a block has a number that tiles cannot multiply."""
        b = self.b
        found = None
        for flags, first, count in sides:
            last = b.sub(b.add(first, count), v.const(1))
            for i in (first, last):
                flag = b.load(v.at(b, flags, i, v.i32), typ=v.i32, align=4)
                found = flag if found is None else b.or_(found, flag)
        return b.icmp_signed("!=", found, ir.Constant(v.i32, 0))

    def _by_vectors(self, x: Any, y: Any, deep: Any, panel: Any, down: Any, across: Any) -> None:
        b = self.b

        def one(i: Any, j: Any) -> None:
            left = v.at(b, x, b.mul(i, panel), v.i8)
            right = v.at(b, y, b.mul(j, panel), v.i8)
            place = b.add(b.mul(i, v.const(LINES * _BLOCK)), b.mul(j, v.const(LINES)))
            amx.by_vectors(b, left, right, deep, v.at(b, self.held, place, v.f32))

        v.loop(b, v.const(0), down, lambda i: v.loop(
            b, v.const(0), across, lambda j: one(i, j), name="across"
        ), name="down")  # fmt: skip

    def _store(self, out: Any, bias: Any, m: Any, n: Any, r: Any, c: Any) -> None:
        """The sums of a block, rounded, and the bias added before where there is one."""
        b = self.b
        first_row, first = b.mul(r, v.const(_BLOCK)), b.mul(c, v.const(_BLOCK))
        rows = v.smaller(b, b.sub(m, first_row), v.const(_BLOCK))
        left = b.sub(n, first)
        vectors = v.smaller(b, self._up(left, LINES), v.const(SIDE))
        target = v.at(b, out, b.add(b.mul(first_row, n), first), self.kind)
        adding = b.icmp_unsigned("!=", bias, ir.Constant(v.pointer, None))
        floats = ir.VectorType(v.f32, LINES)

        def column(j: Any) -> None:
            place = b.mul(j, v.const(LINES))
            mask = v.first_lanes(b, b.sub(left, place), LINES)
            at = v.at(b, bias, b.add(first, place), self.kind)
            line = v.load(b, b.select(adding, at, self.held), self.kind, LINES, mask)
            added = v.widen(b, line, self.dtype)

            def row(i: Any) -> None:
                held = b.add(b.mul(i, v.const(_BLOCK)), place)
                x = b.load(v.at(b, self.held, held, v.f32), typ=floats, align=4)
                x = b.select(adding, b.fadd(x, added), x)
                at = v.at(b, target, b.add(b.mul(i, n), place), self.kind)
                v.store(b, amx.rounded(b, x, self.dtype), at, mask)

            v.loop(b, v.const(0), rows, row, name="line")

        v.loop(b, v.const(0), vectors, column, name="vector")
