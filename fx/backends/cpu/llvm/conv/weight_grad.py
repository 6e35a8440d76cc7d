"""``conv_weight_grad`` with output channels in lanes and a block of weights in registers.

A task owns some channels of the weights and a part of the samples. Band by band it copies the input
into padded planes and the cotangent into [place][channel]; then, for each block of weights (some
source channels times some taps), it goes over all places of the band: two vectors of cotangents
times one number of the planes for each weight. The parts of the samples are summed by a step of
their own, in a fixed order: bits do not depend on the number of threads.
"""

from __future__ import annotations

from math import prod
from typing import Any

from fx.backends.cpu.llvm.conv.emit import Emitter
from fx.backends.cpu.llvm.conv.grad_plan import GradCut, grad_cut
from fx.backends.cpu.llvm.conv.packing import WeightLayout, by_block, emit_planes
from fx.backends.cpu.llvm.conv.plan import Batch, Block, Ints, Job, split
from fx.backends.cpu.llvm.conv.transpose import turn
from fx.backends.cpu.llvm.ir import Index, Machine, const, i64, internal, kernel, pointer, target
from fx.compiler.step import Step
from fx.graph.ir import Value, input_value
from fx.spec import TensorSpec


def steps(
    job: Job, batch: Batch, window: Ints, dilation: Ints, x: Value, g: Value, out: Value,
    lines: tuple[str, ...],
) -> list[Step]:  # fmt: skip
    """The steps that compute ``out`` from inputs ``x`` and cotangents ``g``; job is ``conv``'s."""
    machine = target()
    itemsize = x.spec.dtype.itemsize
    layout = WeightLayout(job, itemsize, machine)
    units = job.groups * layout.per_group
    width = layout.whole.width if layout.count else layout.last.width  # type: ignore[union-attr]
    cut_ = grad_cut(job, window, dilation, units, width, itemsize)
    partial = input_value(TensorSpec((batch.room(cut_.sums * layout.flags),), x.spec.dtype))
    return [
        GradStep(job, batch, layout, cut_, machine, (x, g), partial, lines),
        SumStep(job, layout, cut_, machine, partial, out, lines),
    ]


class GradStep(Step):
    """Sums over parts of the samples, in the layout of packed weights."""

    def __init__(
        self, job: Job, batch: Batch, layout: WeightLayout, cut: GradCut, target: Machine,
        reads: tuple[Value, Value], out: Value, lines: tuple[str, ...],
    ) -> None:  # fmt: skip
        self.job, self.batch = job, batch
        self.layout, self.cut, self.target = layout, cut, target
        self.name = "conv: weight gradient"
        self.reads, self.writes, self.lines = (*reads, *batch.reads), (out,), lines
        self.tasks = cut.sums * job.groups * layout.per_group * cut.parts
        itemsize = reads[0].spec.dtype.itemsize
        lanes = target.vector_bytes // itemsize
        self.planes = 0 if cut.direct else cut.together * cut.sample_step + lanes
        self.places = cut.together * cut.rows * job.out[2]
        width = layout.whole.width
        self.scratch = (self.planes + (self.places + lanes) * width) * itemsize
        work = job.samples * prod(job.out) * job.window * job.groups * job.K * layout.lanes
        self.cost = work / lanes / 3
        self.key = ("conv weight grad", job, cut, batch.samples)

    def emit(self, module: Any, name: str) -> Any:
        return _Emission(self, module, name).function


class SumStep(Step):
    """The sum of all parts, in the layout of weights."""

    def __init__(
        self, job: Job, layout: WeightLayout, cut: GradCut, target: Machine, partial: Value,
        out: Value, lines: tuple[str, ...],
    ) -> None:  # fmt: skip
        self.job, self.layout, self.cut, self.target = job, layout, cut, target
        self.name = "conv: sum weight gradients"
        self.reads, self.writes, self.lines = (partial,), (out,), lines
        self.tasks = job.groups * layout.per_group
        self.cost = partial.spec.size * 0.3
        kind = (job.dtype, job.groups, job.K, job.M, job.window)
        self.key = ("conv weight sum", kind, cut.sums)

    def emit(self, module: Any, name: str) -> Any:
        return _emit_sum(module, name, self)


def _emit_sum(module: Any, name: str, step: SumStep) -> Any:
    job, layout = step.job, step.layout
    function = kernel(module, name, 2)
    e = Emitter(function, job.dtype)
    begin, end, _, partial, out = function.args
    columns = job.K * job.window
    lanes_ = layout.whole.lanes
    held = e.room(lanes_ * lanes_)

    def task(u: Any) -> None:
        g, b = e.split(u, layout.per_group)

        def of(block: Block) -> None:
            lanes = block.lanes
            width = layout.whole.width
            before = e.add(e.times(g, layout.lanes), e.times(b, width))
            source = e.at(partial, e.times(before, columns))
            channel = e.add(e.times(g, job.M), e.times(b, width))
            to = e.at(out, e.times(channel, columns))

            def square(j: Any) -> None:
                count = e.smaller(e.sub(columns, j), lanes)
                for v in range(block.vectors):
                    m = v * lanes
                    from_ = e.at(source, e.add(e.times(j, block.width), m))
                    from_step = block.width
                    if step.cut.sums > 1:

                        def row(i: Any, from_: Any = from_) -> None:
                            at = e.at(from_, e.times(i, block.width))
                            total = e.load(at, lanes)
                            for s in range(1, step.cut.sums):
                                more = e.load(e.at(at, s * layout.flags), lanes)
                                total = e.b.fadd(total, more)
                            e.store(total, e.at(held, e.times(i, lanes)))

                        e.loop(0, count, row)
                        from_, from_step = held, lanes
                    to_ = e.at(to, e.add(j, m * columns))
                    valid = min(lanes, block.valid - m)
                    turn(e, lanes, from_, from_step, count, lanes, to_, columns, valid, count)

            e.loop(0, columns, square, step=lanes)

        by_block(e, layout, b, of)

    e.loop(begin, end, task)
    e.b.ret_void()
    return function


class _Emission:
    def __init__(self, step: GradStep, module: Any, name: str) -> None:
        self.step, self.module, self.name = step, module, name
        self.job, self.layout, self.cut, self.target = step.job, step.layout, step.cut, step.target
        job, cut = self.job, self.cut
        self.made: dict[Any, Any] = {}
        if not cut.direct:
            self.pack = emit_planes(
                module, f"{name}_planes", job.dtype, job.source, cut.plane, cut.channel_step,
                self.target,
            )  # fmt: skip
        self.function = kernel(module, name, len(step.reads) + 1)
        e = self.e = Emitter(self.function, job.dtype)
        begin, end, self.scratch, self.x, self.g, *words, self.out = self.function.args
        self.samples = e.samples(step.batch, words)
        e.loop(begin, end, self.task)
        e.b.ret_void()

    def task(self, index: Any) -> None:
        e, job, cut, layout = self.e, self.job, self.cut, self.layout
        rest, part = e.split(index, cut.parts)
        s, u = e.split(rest, job.groups * layout.per_group)
        g, b = e.split(u, layout.per_group)
        k0 = e.times(part, cut.part)
        k1 = e.smaller(e.add(k0, cut.part), job.K)
        stacks = e.split(e.add(self.samples, cut.together - 1), cut.together)[0]
        bands = e.times(stacks, job.out[0] * cut.bands)
        first = e.split(e.times(s, bands), cut.sums)[0]
        last = e.split(e.times(e.add(s, 1), bands), cut.sums)[0]

        def of(block: Block) -> None:
            self.owned(block, s, g, b, k0, k1, first, last)

        by_block(e, layout, b, of)

    def owned(
        self, block: Block, s: Index, g: Index, b: Index, k0: Index, k1: Index, first: Index,
        last: Index,
    ) -> None:  # fmt: skip
        """The sums of one task: its block of channels, source channels k0 to k1."""
        e, job, cut, layout = self.e, self.job, self.cut, self.layout
        before = e.add(e.times(g, layout.lanes), e.times(b, layout.whole.width))
        own = e.add(e.times(s, layout.flags), e.times(before, job.K * job.window))
        sums = e.at(self.out, own)  # [k][tap][block]
        count = job.window * block.width
        lanes = block.lanes

        e.loop(
            e.times(k0, count), e.times(k1, count),
            lambda i: e.store(e.zero(lanes), e.at(sums, i)), step=lanes,
        )  # fmt: skip
        places = e.at(self.scratch, self.step.planes)
        lay_out = self.cotangents(block)
        x_volume, g_volume = prod(job.source), prod(job.out)
        channel = e.add(e.times(g, job.M), e.times(b, layout.whole.width))

        def band(i: Any) -> None:
            rest, h = e.split(i, cut.bands)
            stack, d = e.split(rest, job.out[0])
            n0 = e.times(stack, cut.together)
            n1 = e.smaller(e.add(n0, cut.together), self.samples)
            h0 = e.times(h, cut.rows)
            rows = e.sub(e.smaller(e.add(h0, cut.rows), job.out[1]), h0)
            start = [
                const(e.add(e.times(at, st), lo))
                for at, st, lo in zip((d, h0, 0), job.step, job.low)
            ]

            def plane(n: Index) -> Any:
                at = e.times(e.add(e.times(e.add(e.times(n, job.groups), g), job.K), k0), x_volume)
                return e.at(self.x, at)

            def sample(n: Any) -> None:
                j = e.sub(n, n0)
                if not cut.direct:
                    to = e.at(self.scratch, e.times(j, cut.sample_step))
                    e.b.call(self.pack, [plane(n), to, const(e.sub(k1, k0)), *start])
                at = e.times(e.add(e.times(n, job.groups * job.M), channel), g_volume)
                at = e.add(at, e.times(e.add(e.times(d, job.out[1]), h0), job.out[2]))
                to = e.at(places, e.times(j, cut.rows * job.out[2] * block.width))
                e.b.call(lay_out, [e.at(self.g, at), to, const(e.times(rows, job.out[2]))])

            e.loop(n0, n1, sample)
            planes = self.scratch
            if cut.direct:
                _, high, wide = job.source
                at = e.add(e.times(e.add(e.times(start[0], high), start[1]), wide), start[2])
                planes = e.at(plane(n0), at)
            count = const(e.sub(n1, n0))
            self.weights(block, sums, planes, places, count, const(rows), h0, k0, k1)

        e.loop(first, last, band)

    def weights(
        self, block: Block, sums: Any, planes: Any, places: Any, samples: Any, rows: Any,
        h0: Index, k0: Index, k1: Index,
    ) -> None:  # fmt: skip
        """Go over the blocks of weights of channels k0 to k1 with one band, rows from h0 on."""
        e, job, cut = self.e, self.job, self.cut
        most = (self.target.registers - 4) // block.vectors
        KD, KH, KW = cut.window
        dil = cut.dilation
        runs = split(KW, most)
        wide = runs[0][0]
        # one size of channel block where that is possible, so that there is less code
        channels = max(1, most // wide)
        if cut.part % channels and cut.part > channels:
            even = [c for c in range(channels, channels // 2, -1) if cut.part % c == 0]
            channels = even[0] if even else channels
        channels = min(channels, cut.part)

        def blocks_of(size: int, start: Index, stop: Index) -> None:
            high = split(KH, max(1, most // (size * wide)))

            def one(k: Any) -> None:
                plane = e.at(planes, e.times(e.sub(k, k0), cut.channel_step))

                def depth(z: Index) -> None:
                    h_edge = 0
                    for taps_h, h_count in high:
                        h_next = h_edge + taps_h * h_count

                        def row(h: Index, taps_h: int = taps_h) -> None:
                            skipped, left = 0, rows
                            if taps_h == 1 and job.pads:
                                skipped, left = self.seen(h, h0, rows)
                            begin = e.times(skipped, job.step[1] * cut.plane[2])
                            held = e.at(places, e.times(skipped, job.out[2] * block.width))
                            w_edge = 0
                            for taps_w, w_count in runs:
                                w_next = w_edge + taps_w * w_count
                                function = self.micro(block, size, taps_h, taps_w)

                                def run(w: Index, function: Any = function) -> None:
                                    at = e.add(
                                        e.times(z, dil[0] * cut.plane[1]), e.times(h, dil[1])
                                    )
                                    at = e.add(e.times(at, cut.plane[2]), e.times(w, dil[2]), begin)
                                    tap = e.add(e.times(e.add(e.times(z, KH), h), KW), w)
                                    to = e.times(e.add(e.times(k, job.window), tap), block.width)
                                    arrays = [e.at(plane, at), held, e.at(sums, to)]
                                    e.b.call(function, [*arrays, samples, const(left)])

                                e.loop(w_edge, w_next, run, step=taps_w)
                                w_edge = w_next

                        e.loop(h_edge, h_next, row, step=taps_h)
                        h_edge = h_next

                e.loop(0, KD, depth)

            e.loop(start, stop, one, step=size)

        # a part may have fewer channels than the others, and a block fewer than fit
        rest = e.split(e.sub(k1, k0), channels)[1] if channels > 1 else 0
        whole = e.sub(k1, rest)
        blocks_of(channels, k0, whole)
        if not (isinstance(rest, int) and rest == 0) and (cut.part % channels or job.K % cut.part):
            leftovers = {cut.part % channels, (job.K % cut.part) % channels} - {0}
            size = leftovers.pop() if len(leftovers) == 1 else 1
            blocks_of(size, whole, k1)

    def seen(self, h: Index, h0: Index, rows: Any) -> tuple[Index, Index]:
        """Of a band's rows: how many lie before those that tap row h sees of the input, and those.

        The others see padding, where nothing is to be added.
        """
        e, job = self.e, self.job
        step = job.step[1]
        at = e.add(job.low[1], e.times(h, self.cut.dilation[1]))  # where output row 0 reads
        first = e.split(e.larger(e.add(e.times(at, -1), step - 1), 0), step)[0]
        last = e.split(e.larger(e.add(e.times(at, -1), job.source[1] - 1 + step), 0), step)[0]
        first = e.smaller(e.larger(e.sub(first, h0), 0), rows)
        last = e.smaller(e.larger(e.sub(last, h0), first), rows)
        return first, e.sub(last, first)

    def micro(self, block: Block, channels: int, high: int, wide: int) -> Any:
        """``(planes, places, sums, samples, rows)``: add a band to a block of weights."""
        key = (block, channels, high, wide)
        if key in self.made:
            return self.made[key]
        job, cut = self.job, self.cut
        function = self.made[key] = internal(
            self.module, f"{self.name}_block{len(self.made)}", [pointer, pointer, pointer, i64, i64]
        )
        e = Emitter(function, job.dtype)
        x, g, sums, samples, rows = function.args
        lanes, width = block.lanes, block.width
        items = [(c, h, w) for c in range(channels) for h in range(high) for w in range(wide)]
        offsets = [
            c * cut.channel_step + h * cut.dilation[1] * cut.plane[2] + w * cut.dilation[2]
            for c, h, w in items
        ]
        homes = [
            (c * job.window + h * cut.window[2] + w) * width + v * lanes
            for c, h, w in items
            for v in range(block.vectors)
        ]
        long = job.out[2]

        def sample(n: Any, *totals: Any) -> Any:
            planes = e.at(x, e.times(n, cut.sample_step))
            places = e.at(g, e.times(n, cut.rows * long * width))

            def row(r: Any, *totals: Any) -> Any:
                line = e.at(planes, e.times(r, job.step[1] * cut.plane[2]))
                vectors = e.at(places, e.times(r, long * width))

                def place(q: Any, *totals: Any) -> Any:
                    at = e.at(line, e.times(q, job.step[2]))
                    from_ = e.at(vectors, e.times(q, width))
                    ct = [e.load(e.at(from_, v * lanes), lanes) for v in range(block.vectors)]
                    new = []
                    for i, offset in enumerate(offsets):
                        value = e.splat(e.load(e.at(at, offset)), lanes)
                        for v in range(block.vectors):
                            new.append(e.multiply_add(value, ct[v], totals[i * block.vectors + v]))
                    return new

                return e.loop(0, long, place, totals)

            return e.loop(0, rows, row, totals)

        found = e.loop(0, samples, sample, [e.load(e.at(sums, h), lanes) for h in homes])
        for value, home in zip(found, homes):
            e.store(value, e.at(sums, home))
        e.b.ret_void()
        return function

    def cotangents(self, block: Block) -> Any:
        """``(from, to, count)``: ``count`` places of a block's channels into [place][channel]."""
        key = ("cotangents", block)
        if key in self.made:
            return self.made[key]
        job = self.job
        function = self.made[key] = internal(
            self.module, f"{self.name}_block{len(self.made)}", [pointer, pointer, i64]
        )
        e = Emitter(function, job.dtype)
        from_, to, count = function.args
        lanes, volume = block.lanes, prod(job.out)

        def square(j: Any) -> None:
            wanted = e.smaller(e.sub(count, j), lanes)
            for m in range(0, block.width, lanes):
                turn(
                    e, lanes, e.at(from_, e.add(m * volume, j)), volume,
                    min(lanes, block.valid - m), wanted,
                    e.at(to, e.add(e.times(j, block.width), m)), block.width, wanted, lanes,
                )  # fmt: skip

        e.loop(0, count, square, step=lanes)
        e.b.ret_void()
        return function
