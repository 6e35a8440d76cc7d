"""``conv`` and ``conv_input_grad`` with output channels in lanes and a block of places in registers.

A tile is up to 14 places times two vectors of channels; for each source channel and tap it loads two
vectors of packed weights and, for each place, one number that it multiplies both with.
"""

from __future__ import annotations

from math import prod
from typing import Any

from llvmlite import ir

from fx.backends.cpu.llvm.conv.emit import (
    I64, PTR, Emitter, Index, Target, host, internal, kernel, table,
)  # fmt: skip
from fx.backends.cpu.llvm.conv.packing import WeightLayout, by_block, emit_planes, emit_weights
from fx.backends.cpu.llvm.conv.plan import Block, Ints, Job, Phase, Tiles, cut, tiles
from fx.backends.cpu.llvm.step import Step
from fx.graph.ir import Value, input_value
from fx.spec import TensorSpec


def steps(job: Job, x: Value, w: Value, out: Value, lines: tuple[str, ...]) -> list[Step]:
    """The steps that compute ``out`` from planes ``x`` and weights ``w``."""
    target = host()
    itemsize = x.spec.dtype.itemsize
    layout = WeightLayout(job, itemsize, target)
    packed = input_value(TensorSpec((layout.size,), x.spec.dtype))
    return [
        PackStep(job, layout, target, w, packed, lines),
        TapsStep(job, layout, target, (x, w, packed), out, lines),
    ]


class PackStep(Step):
    """Weights into the layout of ``WeightLayout``."""

    def __init__(
        self, job: Job, layout: WeightLayout, target: Target, w: Value, packed: Value,
        lines: tuple[str, ...],
    ) -> None:  # fmt: skip
        self.job, self.layout, self.target = job, layout, target
        self.name = "conv: pack weights"
        self.reads, self.writes = (w,), (packed,)
        self.tasks = job.groups * layout.per_group
        self.cost = w.spec.size * 0.5
        kind = (job.groups, job.K, job.M, job.window, job.transposed)
        self.key = ("conv pack", job.dtype, kind, tuple([p.taps for p in job.phases]))
        self.lines = lines

    def emit(self, module: Any, name: str) -> Any:
        return emit_weights(module, name, self.job, self.layout, self.target)


class TapsStep(Step):
    """The convolution itself; see the module and ``plan``."""

    def __init__(
        self, job: Job, layout: WeightLayout, target: Target,
        reads: tuple[Value, Value, Value], out: Value, lines: tuple[str, ...],
    ) -> None:  # fmt: skip
        self.job, self.layout, self.target = job, layout, target
        self.name = "conv: input gradient" if job.transposed else "conv"
        self.reads, self.writes, self.lines = reads, (out,), lines
        self.positions = min((target.registers - 4) // 2, 16)
        itemsize = reads[0].spec.dtype.itemsize
        units = job.groups * layout.per_group
        self.cut = cut(job, units, self.positions, itemsize)
        cut_ = self.cut
        self.tasks = job.samples * job.counts[0] * cut_.bands * cut_.strips * cut_.parts
        self.scratch = cut_.scratch * itemsize + target.bytes
        taps = sum([p.counts[0] * p.counts[1] * p.counts[2] * len(p.taps) for p in job.phases])
        lanes = target.bytes // itemsize
        work = job.samples * job.groups * job.K * taps * layout.lanes / lanes
        self.cost = work / 3 + out.spec.size * 0.1
        self.key = ("conv taps", job, cut_)

    def emit(self, module: Any, name: str) -> Any:
        return _Emission(self, module, name).function


class _Emission:
    def __init__(self, step: TapsStep, module: Any, name: str) -> None:
        self.step, self.module, self.name = step, module, name
        self.job, self.layout, self.target, self.cut = step.job, step.layout, step.target, step.cut
        job, cut_ = self.job, self.cut
        self.made: dict[Any, Any] = {}
        self.pack = emit_planes(
            module, f"{name}_planes", job.dtype, job.source, cut_.plane, cut_.channel_step,
            self.target,
        )  # fmt: skip
        self.tables = []
        for i, phase in enumerate(job.phases):
            offsets = [(d * cut_.plane[1] + h) * cut_.plane[2] + w for d, h, w in phase.offsets]
            self.tables.append(table(module, f"{name}_taps{i}", offsets or [0]))
        self.function = kernel(module, name, 4)
        self.body()

    # the kernel ---------------------------------------------------------------------------------

    def body(self) -> None:
        e = self.e = Emitter(self.function, self.job.dtype)
        begin, end, scratch, self.x, self.w, self.packed, self.y = self.function.args
        self.scratch = scratch
        job = self.job
        if job.transposed and job.pads:
            # zeros that pad a cotangent must not meet weights that are not finite
            units = job.groups * self.layout.per_group

            def gather(u: Any, seen: Any) -> Any:
                flag = e.load(e.at(self.packed, e.add(self.layout.flags, u)))
                return (e.b.fadd(seen, flag),)

            (seen,) = e.loop(0, units, gather, (ir.Constant(e.scalar, 0.0),))
            exact = e.b.fcmp_unordered("uno", seen, seen)
            with e.b.if_else(exact) as (then, other):
                with then:
                    slow = self.exact()
                    e.b.call(slow, list(self.function.args))
                with other:
                    e.loop(begin, end, self.task)
        else:
            e.loop(begin, end, self.task)
        e.b.ret_void()

    def task(self, index: Any) -> None:
        e, job, cut_ = self.e, self.job, self.cut
        rest, part = e.divmod(index, cut_.parts)
        rest, strip = e.divmod(rest, cut_.strips)
        rest, band = e.divmod(rest, cut_.bands)
        n, d = e.divmod(rest, job.counts[0])
        units = job.groups * self.layout.per_group
        u0 = e.divmod(e.mul(part, units), cut_.parts)[0]
        u1 = e.divmod(e.mul(e.add(part, 1), units), cut_.parts)[0]
        g0 = e.divmod(u0, self.layout.per_group)[0]
        g1 = e.add(e.divmod(e.sub(u1, 1), self.layout.per_group)[0], 1)
        h0, w0 = e.mul(band, cut_.rows), e.mul(strip, cut_.columns)
        volume = job.source[0] * job.source[1] * job.source[2]
        channel = e.mul(e.add(e.mul(n, job.groups), g0), job.K * volume)
        start = [
            e.i(e.add(e.mul(at, s), lo)) for at, s, lo in zip((d, h0, w0), job.step, job.low)
        ]
        channels = e.i(e.mul(e.sub(g1, g0), job.K))
        e.b.call(self.pack, [e.at(self.x, channel), self.scratch, channels, *start])

        def unit(u: Any) -> None:
            g, b = e.divmod(u, self.layout.per_group)
            planes = e.at(self.scratch, e.mul(e.sub(g, g0), job.K * self.cut.channel_step))

            def of(block: Block) -> None:
                self.block(block, planes, n, g, b, d, h0, w0)

            by_block(e, self.layout, b, of)

        e.loop(u0, u1, unit)

    def block(
        self, block: Block, planes: Any, n: Index, g: Index, b: Index, d: Index, h0: Index,
        w0: Index,
    ) -> None:  # fmt: skip
        """All tiles of a band for one block of channels."""
        e, job, cut_ = self.e, self.job, self.cut
        width = self.layout.whole.width
        before = e.add(e.mul(g, self.layout.lanes), e.mul(b, width))
        volume = job.out[0] * job.out[1] * job.out[2]
        channel = e.add(e.mul(e.add(e.mul(n, job.groups), g), job.M), e.mul(b, width))
        to = e.at(self.y, e.mul(channel, volume))
        for f, phase in enumerate(job.phases):
            weights = e.mul(before, job.K * len(phase.taps))
            weights = e.at(self.packed, e.add(self.layout.starts[f], weights))
            if cut_.strips > 1:
                wide = self.step.positions
                whole, rest = divmod(phase.counts[2], wide)
                tiles_ = Tiles(((1, phase.counts[1]),), ((wide, whole), (rest or 1, rest and 1)))
            else:
                tiles_ = tiles(phase.counts, self.step.positions)
            h1 = e.least(e.add(h0, cut_.rows), phase.counts[1])
            w1 = e.least(e.add(w0, cut_.columns), phase.counts[2])

            def taps_of(f: int) -> list[Any]:
                return [self.tables[f], e.i(len(job.phases[f].taps))]

            def at_depth(
                phase: Phase = phase, f: int = f, weights: Any = weights, tiles_: Tiles = tiles_,
                h1: Index = h1, w1: Index = w1,
            ) -> None:  # fmt: skip
                row_edge = 0
                for rows, row_count in tiles_.rows:
                    next_edge = row_edge + rows * row_count
                    last_row = e.least(h1, next_edge)

                    def row(h: Index, rows: int = rows) -> None:
                        edge = 0
                        for columns, count in tiles_.columns:
                            function = self.tile(block, rows, columns)
                            next_ = edge + columns * count

                            def column(
                                w: Index, function: Any = function, h: Index = h
                            ) -> None:
                                r, c = e.sub(h, h0), e.sub(w, w0)
                                r, c = e.mul(r, job.step[1]), e.mul(c, job.step[2])
                                place = [
                                    e.add(e.mul(at, s), first)
                                    for at, s, first in zip((d, h, w), job.spread, phase.first)
                                ]
                                y = e.add(
                                    e.mul(e.add(e.mul(place[0], job.out[1]), place[1]), job.out[2]),
                                    place[2],
                                )
                                x = e.at(planes, e.add(e.mul(r, cut_.plane[2]), c))
                                e.b.call(function, [x, weights, e.at(to, y), *taps_of(f)])

                            if count:
                                e.loop(e.most(w0, edge), e.least(w1, next_), column, step=columns)
                            edge = next_

                    e.loop(e.most(h0, row_edge), last_row, row, step=rows)
                    row_edge = next_edge

            if phase.counts[0] < job.counts[0]:
                with e.b.if_then(e.b.icmp_signed("<", e.i(d), e.i(phase.counts[0]))):
                    at_depth()
            else:
                at_depth()

    # a tile -------------------------------------------------------------------------------------

    def tile(self, block: Block, rows: int, columns: int) -> Any:
        """``(planes, weights, out, table, taps)``: rows * columns outputs of a block of channels."""
        key = (block, rows, columns)
        if key in self.made:
            return self.made[key]
        job, cut_ = self.job, self.cut
        name = f"{self.name}_tile{len(self.made)}"
        function = self.made[key] = internal(self.module, name, [PTR, PTR, PTR, PTR, I64])
        e = Emitter(function, job.dtype)
        x, w, y, offsets, taps = function.args
        pitch, lanes = cut_.plane[2], block.lanes
        places = [
            r * job.step[1] * pitch + c * job.step[2] for r in range(rows) for c in range(columns)
        ]
        outs = [
            r * job.spread[1] * job.out[2] + c * job.spread[2]
            for r in range(rows)
            for c in range(columns)
        ]
        zero = [e.zero(lanes)] * (block.vectors * len(places))

        def tap(x: Any, w: Any, sums: list[Any]) -> list[Any]:
            weights = [e.load(e.at(w, v * lanes), lanes) for v in range(block.vectors)]
            new = list(sums)
            for p, place in enumerate(places):
                value = e.splat(e.load(e.at(x, place)), lanes)
                for v, weight in enumerate(weights):
                    i = p * block.vectors + v
                    new[i] = e.muladd(value, weight, sums[i])
            return new

        def channel(c: Any, w: Any, *sums: Any) -> list[Any]:
            plane = e.at(x, e.mul(c, cut_.channel_step))

            def one(t: Any, w: Any, *sums: Any) -> list[Any]:
                entry = e.b.gep(offsets, [e.i(t)], source_etype=I64)
                offset = e.b.load(entry, typ=I64, align=8)
                return [e.at(w, block.width), *tap(e.at(plane, offset), w, list(sums))]

            return e.loop(0, taps, one, (w, *sums))

        if len(job.phases) == 1:
            taps = len(job.phases[0].taps)
        _, *sums = e.loop(0, job.K, channel, (w, *zero))
        count, volume = len(outs), prod(job.out)
        held = e.room(lanes * count)
        dense = outs == list(range(count))
        rows_ = None if dense else e.room(lanes * count)
        for v in range(block.vectors):
            for p in range(count):
                e.store(sums[p * block.vectors + v], e.at(held, p * lanes))
            valid = min(lanes, block.valid - v * lanes)
            to, to_step = e.at(y, v * lanes * volume), volume
            if not dense:
                to, to_step = rows_, count
            for p in range(0, count, lanes):
                some = min(lanes, count - p)
                e.turn(
                    lanes, e.at(held, p * lanes), lanes, some, lanes,
                    e.at(to, p), to_step, valid, some,
                )  # fmt: skip
            if not dense:
                e.loop(0, valid, lambda m, v=v: self.spread(
                    e, e.at(rows_, e.mul(m, count)), rows, columns,
                    e.at(y, e.mul(e.add(m, v * lanes), volume)),
                ))  # fmt: skip
        e.b.ret_void()
        return function

    def spread(self, e: Emitter, from_: Any, rows: int, columns: int, to: Any) -> None:
        """One channel of a tile whose outputs do not lie side by side."""
        job, lanes = self.job, self.target.bytes // e.itemsize
        s = job.spread[2]
        for r in range(rows):
            line = e.at(to, r * job.spread[1] * job.out[2])
            if s > 4:
                for c in range(columns):
                    e.store(e.load(e.at(from_, r * columns + c)), e.at(line, c * s))
                continue
            for first in range(0, columns * s, lanes):  # places of the output
                mask = [int(i % s == 0 and i < columns * s) for i in range(first, first + lanes)]
                source = e.load_first(
                    e.at(from_, r * columns + first // s), lanes, columns - first // s
                )
                places = [(first + i) // s - first // s for i in range(lanes)]
                wide = e.shuffle(source, None, places)
                kind = ir.VectorType(ir.IntType(1), lanes)
                e.store_where(wide, e.at(line, first), ir.Constant(kind, mask))

    # weights that are not finite ----------------------------------------------------------------

    def exact(self) -> Any:
        """The kernel's tasks number by number: only what an output really reads is multiplied."""
        job, cut_ = self.job, self.cut
        kinds = [a.type for a in self.function.args]
        function = internal(self.module, f"{self.name}_exact", kinds)
        e = Emitter(function, job.dtype)
        begin, end, _, x, w, _, y = function.args
        units = job.groups * self.layout.per_group
        tables = []
        for f, phase in enumerate(job.phases):
            rows = [(*offset, t) for offset, t in zip(phase.offsets, phase.taps)]
            numbers = [i for row in rows for i in row]
            tables.append(table(self.module, f"{self.name}_exact{f}", numbers or [0]))

        def output(n: Index, o: Index, f: int, place: tuple[Index, ...]) -> None:
            phase = job.phases[f]
            g, m = e.divmod(o, job.M)

            def tap(i: Any, k: Any, total: Any) -> Any:
                entry = e.at(tables[f], e.mul(i, 4), I64)
                at, ok = [], None
                for j, size in enumerate(job.source):
                    off = e.b.load(e.at(entry, j, I64), typ=I64, align=8)
                    at.append(e.i(e.add(e.mul(place[j], job.step[j]), job.low[j], off)))
                    inside = e.b.icmp_unsigned("<", at[-1], e.i(size))
                    ok = inside if ok is None else e.b.and_(ok, inside)
                t = e.b.load(e.at(entry, 3, I64), typ=I64, align=8)
                before = e.b.block
                yes, after = e.b.append_basic_block("in"), e.b.append_basic_block("on")
                e.b.cbranch(ok, yes, after)
                e.b.position_at_end(yes)
                from_ = e.add(e.mul(e.add(e.mul(n, job.groups), g), job.K), k)
                row = e.mul(e.add(e.mul(e.add(e.mul(g, job.K), k), job.M), m), job.window)
                for size, a in zip(job.source, at):
                    from_ = e.add(e.mul(from_, size), a)
                weight = e.load(e.at(w, e.add(row, t)))
                more = e.muladd(e.load(e.at(x, from_)), weight, total)
                e.b.branch(after)
                e.b.position_at_end(after)
                sum_ = e.b.phi(e.scalar)
                sum_.add_incoming(total, before)
                sum_.add_incoming(more, yes)
                return (sum_,)

            def over(k: Any, total: Any) -> Any:
                return e.loop(0, len(phase.taps), lambda i, t: tap(e.i(i), k, t), (total,))

            (total,) = e.loop(0, job.K, over, (ir.Constant(e.scalar, 0.0),))
            put = [e.add(e.mul(p, s), r) for p, s, r in zip(place, job.spread, phase.first)]
            to = e.add(e.mul(e.mul(n, job.groups * job.M), 1), o)
            for size, at in zip(job.out, put):
                to = e.add(e.mul(to, size), at)
            e.store(total, e.at(y, to))

        def task(index: Any) -> None:
            rest, part = e.divmod(index, cut_.parts)
            rest, strip = e.divmod(rest, cut_.strips)
            rest, band = e.divmod(rest, cut_.bands)
            n, d = e.divmod(rest, job.counts[0])
            u0 = e.divmod(e.mul(part, units), cut_.parts)[0]
            u1 = e.divmod(e.mul(e.add(part, 1), units), cut_.parts)[0]
            h0, w0 = e.mul(band, cut_.rows), e.mul(strip, cut_.columns)
            first = self.channel_of(e, u0)
            last = self.channel_of(e, u1)
            for f, phase in enumerate(job.phases):
                bound = e.least(e.add(d, 1), phase.counts[0])
                h1 = e.least(e.add(h0, cut_.rows), phase.counts[1])
                w1 = e.least(e.add(w0, cut_.columns), phase.counts[2])
                e.loop(first, last, lambda o, f=f, bound=bound, h1=h1, w1=w1: e.loop(
                    d, bound, lambda z: e.loop(
                        h0, h1, lambda h: e.loop(
                            w0, w1, lambda c: output(n, o, f, (z, h, c))
                        ) and None
                    ) and None
                ) and None)  # fmt: skip

        e.loop(begin, end, task)
        e.b.ret_void()
        return function

    def channel_of(self, e: Emitter, unit: Index) -> Index:
        """The first output channel of a unit."""
        g, b = e.divmod(unit, self.layout.per_group)
        return e.add(e.mul(g, self.job.M), e.mul(b, self.layout.whole.width))


