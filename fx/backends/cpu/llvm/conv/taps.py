"""``conv`` and ``conv_input_grad`` with output channels in lanes, a block of places in registers.

A tile is up to 14 places times two vectors of channels; for each source channel and tap it loads
two vectors of packed weights and, for each place, one number that it multiplies both with.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

from llvmlite import ir

from fx.backends.cpu.llvm.conv.emit import Emitter
from fx.backends.cpu.llvm.conv.exact import Region, emit_exact
from fx.backends.cpu.llvm.conv.packing import WeightLayout, by_block, emit_planes, emit_weights
from fx.backends.cpu.llvm.conv.plan import (
    Batch,
    Block,
    Job,
    column_profile,
    cut,
    inner_rows,
    tap_ranges,
    tiles,
)  # fmt: skip
from fx.backends.cpu.llvm.conv.transpose import turn
from fx.backends.cpu.llvm.ir import (
    Index,
    Machine,
    const,
    i64,
    internal,
    kernel,
    pointer,
    table,
    target,
)
from fx.compiler.step import Step
from fx.graph.ir import Value, input_value
from fx.spec import TensorSpec


def steps(
    job: Job, batch: Batch, x: Value, w: Value, out: Value, lines: tuple[str, ...]
) -> list[Step]:
    """The steps that compute ``out`` from planes ``x`` and weights ``w``."""
    machine = target()
    itemsize = x.spec.dtype.itemsize
    layout = WeightLayout(job, itemsize, machine)
    packed = input_value(TensorSpec((batch.room(layout.size),), x.spec.dtype))
    return [
        PackStep(job, layout, machine, w, packed, lines),
        TapsStep(job, batch, layout, machine, (x, w, packed), out, lines),
    ]


class PackStep(Step):
    """Weights into the layout of ``WeightLayout``."""

    def __init__(
        self, job: Job, layout: WeightLayout, target: Machine, w: Value, packed: Value,
        lines: tuple[str, ...],
    ) -> None:  # fmt: skip
        self.job, self.layout, self.target = job, layout, target
        self.name = "conv: pack weights"
        self.reads, self.writes = (w,), (packed,)
        self.tasks = job.groups * layout.per_group
        self.cost = w.spec.size * 0.5
        kind = (job.groups, job.K, job.M, job.window, job.transposed, job.pads)
        self.key = ("conv pack", job.dtype, kind, tuple([p.taps for p in job.phases]))
        self.lines = lines

    def emit(self, module: Any, name: str) -> Any:
        return emit_weights(module, name, self.job, self.layout, self.target)


class TapsStep(Step):
    """The convolution itself; see the module and ``plan``."""

    def __init__(
        self, job: Job, batch: Batch, layout: WeightLayout, target: Machine,
        reads: tuple[Value, Value, Value], out: Value, lines: tuple[str, ...],
    ) -> None:  # fmt: skip
        self.job, self.batch, self.layout, self.target = job, batch, layout, target
        self.name = "conv: input gradient" if job.transposed else "conv"
        self.reads, self.writes, self.lines = (*reads, *batch.reads), (out,), lines
        blocks = [layout.last] if layout.count == 0 else [layout.whole]
        vectors = max(b.vectors for b in blocks if b)
        self.positions = min((target.registers - 4) // vectors, 16)
        itemsize = reads[0].spec.dtype.itemsize
        units = job.groups * layout.per_group
        self.cut = cut(job, units, self.positions, itemsize)
        cut_ = self.cut
        stacks = -(-batch.samples // cut_.together)
        self.tasks = stacks * job.counts[0] * cut_.bands * cut_.strips * cut_.parts
        self.scratch = cut_.scratch * itemsize + target.vector_bytes
        taps = sum([p.counts[0] * p.counts[1] * p.counts[2] * len(p.taps) for p in job.phases])
        lanes = target.vector_bytes // itemsize
        work = job.samples * job.groups * job.K * taps * layout.lanes / lanes
        self.cost = work / 3 + out.spec.size * 0.1
        self.key = ("conv taps", job, cut_, batch.samples)

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
        self.ranges = [
            table(module, f"{name}_rows{i}", [n for pair in tap_ranges(job, phase) for n in pair])
            for i, phase in enumerate(job.phases)
        ]
        self.function = kernel(module, name, len(step.reads) + 1)
        self.body()

    # the kernel ---------------------------------------------------------------------------------

    def body(self) -> None:
        e = self.e = Emitter(self.function, self.job.dtype)
        begin, end, scratch, self.x, self.w, self.packed, *words, self.y = self.function.args
        self.scratch, self.samples = scratch, e.samples(self.step.batch, words)
        job = self.job
        if job.transposed and job.pads:
            # zeros that pad a cotangent must not meet weights that are not finite
            units = job.groups * self.layout.per_group

            def gather(u: Any, seen: Any) -> Any:
                flag = e.load(e.at(self.packed, e.add(self.layout.flags, u)))
                return (e.b.fadd(seen, flag),)

            (seen,) = e.loop(0, units, gather, (ir.Constant(e.kind, 0.0),))
            exact = e.b.fcmp_unordered("uno", seen, seen)
            with e.b.if_else(exact) as (then, other):
                with then:
                    slow = self.exact()
                    e.b.call(slow, [begin, end, self.x, self.w, self.y, const(self.samples)])
                with other:
                    e.loop(begin, end, self.task)
        else:
            e.loop(begin, end, self.task)
        e.b.ret_void()

    def task(self, index: Any) -> None:
        e, job, cut_ = self.e, self.job, self.cut
        rest, part = e.split(index, cut_.parts)
        rest, strip = e.split(rest, cut_.strips)
        rest, band = e.split(rest, cut_.bands)
        stack, d = e.split(rest, job.counts[0])
        n0 = e.times(stack, cut_.together)
        n1 = e.smaller(e.add(n0, cut_.together), self.samples)
        units = job.groups * self.layout.per_group
        u0 = e.split(e.times(part, units), cut_.parts)[0]
        u1 = e.split(e.times(e.add(part, 1), units), cut_.parts)[0]
        g0 = e.split(u0, self.layout.per_group)[0]
        g1 = e.add(e.split(e.sub(u1, 1), self.layout.per_group)[0], 1)
        h0, w0 = e.times(band, cut_.rows), e.times(strip, cut_.columns)
        volume = job.source[0] * job.source[1] * job.source[2]
        start = [
            const(e.add(e.times(at, s), lo)) for at, s, lo in zip((d, h0, w0), job.step, job.low)
        ]
        channels = const(e.times(e.sub(g1, g0), job.K))

        def pack(n: Index) -> None:
            channel = e.times(e.add(e.times(n, job.groups), g0), job.K * volume)
            to = e.at(self.scratch, e.times(e.sub(n, n0), cut_.sample_step))
            e.b.call(self.pack, [e.at(self.x, channel), to, channels, *start])

        def unit(u: Any) -> None:
            g, b = e.split(u, self.layout.per_group)
            planes = e.at(self.scratch, e.times(e.sub(g, g0), job.K * cut_.channel_step))

            def of(block: Block) -> None:
                def sample(n: Index) -> None:
                    own = e.at(planes, e.times(e.sub(n, n0), cut_.sample_step))
                    self.block(block, own, n, g, b, d, h0, w0)

                self.each(n0, n1, sample)

            by_block(e, self.layout, b, of)

        self.each(n0, n1, pack)
        e.loop(u0, u1, unit)

    def each(self, n0: Index, n1: Index, of: Any) -> None:
        """``of(n)`` for the samples of a stack."""
        if self.cut.together == 1:
            of(n0)
        else:
            self.e.loop(n0, n1, of)

    def block(
        self, block: Block, planes: Any, n: Index, g: Index, b: Index, d: Index, h0: Index,
        w0: Index,
    ) -> None:  # fmt: skip
        """All tiles of a band for one block of channels."""
        e, job = self.e, self.job
        width = self.layout.whole.width
        before = e.add(e.times(g, self.layout.lanes), e.times(b, width))
        volume = job.out[0] * job.out[1] * job.out[2]
        channel = e.add(e.times(e.add(e.times(n, job.groups), g), job.M), e.times(b, width))
        to = e.at(self.y, e.times(channel, volume))
        for f, phase in enumerate(job.phases):
            weights = e.times(before, job.K * len(phase.taps))
            weights = e.at(self.packed, e.add(self.layout.starts[f], weights))
            cover = partial(self.cover, block, f, planes, weights, to, d, h0, w0)
            if phase.counts[0] < job.counts[0]:
                with e.b.if_then(e.b.icmp_signed("<", const(d), const(phase.counts[0]))):
                    cover()
            else:
                cover()

    def cover(
        self, block: Block, f: int, planes: Any, weights: Any, to: Any, d: Index, h0: Index,
        w0: Index,
    ) -> None:  # fmt: skip
        """The tiles of one phase, at output depth d, in the band that begins at (h0, w0)."""
        e, job, cut_ = self.e, self.job, self.cut
        phase = job.phases[f]
        rows_of, columns_of = tiles(
            phase.counts, self.step.positions, inner_rows(job, phase),
            bands=cut_.bands > 1, strips=cut_.strips > 1,
        )  # fmt: skip
        h1 = e.smaller(e.add(h0, cut_.rows), phase.counts[1])
        w1 = e.smaller(e.add(w0, cut_.columns), phase.counts[2])
        full = len(phase.taps) * block.width
        place = [e.add(e.times(d, job.spread[0]), phase.first[0]), 0, 0]

        def row(h: Index, rows: int) -> None:
            entry = e.at(self.ranges[f], e.times(h if job.span[0] == 1 else d, 2), i64)
            first = e.b.load(entry, typ=i64, align=8)
            count = e.b.load(e.at(entry, 1, i64), typ=i64, align=8)
            taps = e.at(self.tables[f], first, i64)
            own = e.at(weights, e.times(first, block.width))
            line = e.at(planes, e.times(e.times(e.sub(h, h0), job.step[1]), cut_.plane[2]))
            at = e.add(e.times(h, job.spread[1]), phase.first[1])
            y = e.at(to, e.times(e.add(e.times(place[0], job.out[1]), at), job.out[2]))

            def tile(w: Index, function: Any) -> None:
                x = e.at(line, e.times(e.sub(w, w0), job.step[2]))
                out = e.at(y, e.add(e.times(w, job.spread[2]), phase.first[2]))
                e.b.call(function, [x, own, out, taps, count, const(full)])

            for start, columns, stop in columns_of:
                profile: tuple[range, ...] = (range(columns),)
                if columns == phase.counts[2] and len(job.phases) == 1:
                    profile = column_profile(job, phase)
                function = self.tile(block, rows, columns, profile)
                e.loop(
                    e.larger(w0, start), e.smaller(w1, stop), partial(tile, function=function),
                    step=columns,
                )  # fmt: skip

        for start, rows, stop in rows_of:
            e.loop(e.larger(h0, start), e.smaller(h1, stop), partial(row, rows=rows), step=rows)

    # a tile -------------------------------------------------------------------------------------

    def tile(self, block: Block, rows: int, columns: int, profile: tuple[range, ...]) -> Any:
        """``(planes, weights, out, taps, count, channel)``: rows * columns outputs of a block.

        The offsets of ``count`` taps are at ``taps``, the next channel ``channel`` weights on.
        ``profile``: the columns that each tap of a row of taps reaches, or one for any tap.
        """
        key = (block, rows, columns, profile)
        if key in self.made:
            return self.made[key]
        job, cut_ = self.job, self.cut
        name = f"{self.name}_tile{len(self.made)}"
        function = self.made[key] = internal(
            self.module, name, [pointer, pointer, pointer, pointer, i64, i64]
        )
        e = Emitter(function, job.dtype)
        x, w, y, offsets, taps, weights_step = function.args
        pitch, lanes = cut_.plane[2], block.lanes
        places = [
            r * job.step[1] * pitch + c * job.step[2] for r in range(rows) for c in range(columns)
        ]
        outs = [
            r * job.spread[1] * job.out[2] + c * job.spread[2]
            for r in range(rows)
            for c in range(columns)
        ]

        def tap(x: Any, w: Any, sums: list[Any], seen: range) -> list[Any]:
            weights = [e.load(e.at(w, v * lanes), lanes) for v in range(block.vectors)]
            new = list(sums)
            for p, place in enumerate(places):
                if p % columns not in seen:
                    continue
                value = e.splat(e.load(e.at(x, place)), lanes)
                for v, weight in enumerate(weights):
                    i = p * block.vectors + v
                    new[i] = e.multiply_add(value, weight, sums[i])
            return new

        def channel(c: Any, *sums: Any) -> list[Any]:
            plane = e.at(x, e.times(c, cut_.channel_step))
            own = e.at(w, e.times(c, weights_step))

            def some(t: Any, w: Any, *sums: Any) -> list[Any]:
                # each tap's offset is loaded, so that no number is held in a register for the next
                held = list(sums)
                for j, seen in enumerate(profile):
                    entry = e.at(offsets, e.add(const(t), j), i64)
                    offset = e.b.load(entry, typ=i64, align=8)
                    held = tap(e.at(plane, offset), e.at(w, j * block.width), held, seen)
                return [e.at(w, len(profile) * block.width), *held]

            return e.loop(0, taps, some, (own, *sums), step=len(profile))[1:]

        if all(n == 1 for p in job.phases for _, n in tap_ranges(job, p)):
            taps = 1
        each = max(n for p in job.phases for _, n in tap_ranges(job, p))
        sums = e.sums(job.K, channel, block.vectors * len(places), lanes, each)
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
                turn(
                    e, lanes, e.at(held, p * lanes), lanes, some, lanes,
                    e.at(to, p), to_step, valid, some,
                )  # fmt: skip
            if not dense:
                e.loop(0, valid, lambda m, v=v: self.spread(
                    e, e.at(rows_, e.times(m, count)), rows, columns,
                    e.at(y, e.times(e.add(m, v * lanes), volume)),
                ))  # fmt: skip
        e.b.ret_void()
        return function

    def spread(self, e: Emitter, from_: Any, rows: int, columns: int, to: Any) -> None:
        """One channel of a tile whose outputs do not lie side by side."""
        job, lanes = self.job, self.target.vector_bytes // e.itemsize
        for r in range(rows):
            line = e.at(to, r * job.spread[1] * job.out[2])
            for c in range(0, columns, lanes):
                count = min(lanes, columns - c)
                value = e.load_first(e.at(from_, r * columns + c), lanes, count)
                e.store_apart(value, e.at(line, c * job.spread[2]), job.spread[2], count)

    # weights that are not finite ----------------------------------------------------------------

    def exact(self) -> Any:
        """The tasks for weights that are not all finite."""
        job, cut_ = self.job, self.cut
        units = job.groups * self.layout.per_group

        def region(e: Emitter, index: Any, samples: Any) -> Region:
            rest, part = e.split(index, cut_.parts)
            rest, strip = e.split(rest, cut_.strips)
            rest, band = e.split(rest, cut_.bands)
            stack, d = e.split(rest, job.counts[0])
            n0 = e.times(stack, cut_.together)
            u0 = e.split(e.times(part, units), cut_.parts)[0]
            u1 = e.split(e.times(e.add(part, 1), units), cut_.parts)[0]
            h0, w0 = e.times(band, cut_.rows), e.times(strip, cut_.columns)
            return Region(
                (n0, e.smaller(e.add(n0, cut_.together), samples)), d,
                (h0, e.add(h0, cut_.rows)), (w0, e.add(w0, cut_.columns)),
                (self.channel_of(e, u0), self.channel_of(e, u1)),
            )  # fmt: skip

        return emit_exact(self.module, f"{self.name}_exact", job, region)

    def channel_of(self, e: Emitter, unit: Index) -> Index:
        """The first output channel of a unit."""
        g, b = e.split(unit, self.layout.per_group)
        return e.add(e.times(g, self.job.M), e.times(b, self.layout.whole.width))
