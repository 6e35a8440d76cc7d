"""Convolutions with few output channels a group (depthwise above all): output columns in lanes.

A tile is some rows of one vector of columns for all output channels of the group. Planes are copied
into zero-padded planes, where each tap of a vector of outputs is a vector at a constant offset.
"""

from __future__ import annotations

from math import prod
from typing import Any

from llvmlite import ir

from fx import limits
from fx.backends.cpu.llvm.conv.emit import Emitter
from fx.backends.cpu.llvm.conv.exact import Region, emit_exact
from fx.backends.cpu.llvm.conv.packing import emit_planes
from fx.backends.cpu.llvm.conv.plan import Batch, Ints, Job, tap_ranges
from fx.backends.cpu.llvm.ir import Index, const, i32, i64, kernel, table, target
from fx.compiler.step import Step
from fx.dtypes import as_dtype
from fx.graph.ir import Value


def suits(job: Job) -> bool:
    """Whether a ``conv`` or ``conv_input_grad`` is done faster this way.

    With more output channels a group, idle columns at the end of rows waste more than idle
    channels do.
    """
    if job.window > limits.CONV_LINES_TAPS or job.step[2] > limits.CONV_LINES_STEP:
        return False
    lanes = target().vector_bytes // as_dtype(job.dtype).itemsize
    long = job.counts[2]
    used = long / (-(-long // lanes) * lanes)
    return job.M <= 2 or (lanes // 2 >= job.M and used >= 1.7 * job.M / lanes)


def suits_weights(job: Job) -> bool:
    """Whether the weight gradient of a ``conv`` is done faster this way."""
    return suits(job) and job.M <= 4 and job.groups * job.M * job.K >= 8


def _rows(job: Job) -> int:
    wanted = (4, 2, 2)[job.M - 1] if job.M < 4 else 1  # so that no sum waits for the last product
    return max(1, min(wanted, *[p.counts[1] for p in job.phases]))


class LinesStep(Step):
    """``conv`` or ``conv_input_grad``; a task is a band of one group of one sample."""

    def __init__(
        self, job: Job, batch: Batch, x: Value, w: Value, out: Value, lines: tuple[str, ...]
    ) -> None:
        self.job, self.target = job, target()
        self.name = "conv by lines: input gradient" if job.transposed else "conv by lines"
        self.reads, self.writes, self.lines = (x, w), (out,), lines
        size = x.spec.dtype.itemsize
        self.lanes = self.target.vector_bytes // size
        self.tall = _rows(job)
        rows = job.counts[1]
        while (
            rows > 4 * self.tall
            and prod(self.plane(rows)) * job.K * size > limits.CONV_LINES_PLANES
        ):
            rows = -(-rows // (2 * self.tall)) * self.tall
        self.rows = rows
        self.bands = -(-job.counts[1] // rows)
        self.tasks = batch.samples * job.groups * job.counts[0] * self.bands
        room = job.K * prod(self.plane(rows)) + (job.step[2] + 1) * self.lanes
        self.scratch = room * size
        taps = sum([prod(p.counts) * len(p.taps) for p in job.phases])
        work = job.samples * job.groups * job.K * job.M * taps
        self.cost = work / self.lanes * 0.6 + (x.spec.size + out.spec.size) * 0.1
        self.key = ("conv lines", job, rows)

    def plane(self, rows: int) -> Ints:
        """Sizes of a padded plane for so many rows of outputs."""
        job = self.job
        high = (rows - 1) * job.step[1] + job.span[1]
        return (job.span[0], high, (job.counts[2] - 1) * job.step[2] + job.span[2])

    def task(self, e: Emitter, index: Any) -> tuple[Index, Index, Index, Index]:
        """Sample, group, depth and first row of a task."""
        rest, band = e.split(index, self.bands)
        rest, d = e.split(rest, self.job.counts[0])
        n, g = e.split(rest, self.job.groups)
        return n, g, d, e.times(band, self.rows)

    def emit(self, module: Any, name: str) -> Any:
        return _Lines(self, module, name).function


class _Lines:
    def __init__(self, step: LinesStep, module: Any, name: str) -> None:
        self.step, self.job = step, step.job
        job = self.job
        self.plane = step.plane(step.rows)
        pack = emit_planes(
            module, f"{name}_planes", job.dtype, job.source, self.plane, prod(self.plane),
            step.target,
        )  # fmt: skip
        self.channel_step = job.window * (1 if job.transposed else job.K)  # in the weights
        self.tables, self.ranges = [], []
        for i, phase in enumerate(job.phases if step.tall == 1 else ()):
            places = [(d * self.plane[1] + h) * self.plane[2] + w for d, h, w in phase.offsets]
            told = [n for pair in zip(places, phase.taps) for n in pair]
            self.tables.append(table(module, f"{name}_taps{i}", told or [0]))
        for i, phase in enumerate(job.phases):
            told = [n for pair in tap_ranges(job, phase) for n in pair]
            self.ranges.append(table(module, f"{name}_rows{i}", told))
        self.function = kernel(module, name, 3)
        e = self.e = Emitter(self.function, job.dtype)
        begin, end, scratch, x, self.w, self.y = self.function.args
        volume = prod(job.source)

        def task(index: Any) -> None:
            n, g, d, h0 = step.task(e, index)
            from_ = e.at(x, e.times(e.times(e.add(e.times(n, job.groups), g), job.K), volume))
            start = [
                const(e.add(e.times(at, s), lo)) for at, s, lo in zip((d, h0, 0), job.step, job.low)
            ]
            e.b.call(pack, [from_, scratch, const(job.K), *start])
            for f in range(len(job.phases)):
                self.phase(f, scratch, n, g, d, h0)

        if job.transposed and job.pads:
            bad = self.not_finite()
            with e.b.if_else(bad) as (then, other):
                with then:

                    def region(e: Emitter, index: Any, samples: Any) -> Region:
                        n, g, d, h0 = step.task(e, index)
                        first = e.times(g, job.M)
                        rows = (h0, e.add(h0, step.rows))
                        channels = (first, e.add(first, job.M))
                        return Region((n, e.add(n, 1)), d, rows, (0, job.counts[2]), channels)

                    exact = emit_exact(module, f"{name}_exact", job, region)
                    e.b.call(exact, [begin, end, x, self.w, self.y, const(0)])
                with other:
                    e.loop(begin, end, task)
        else:
            e.loop(begin, end, task)
        e.b.ret_void()

    def not_finite(self) -> Any:
        """Whether a weight is not finite."""
        e, job, lanes = self.e, self.job, self.step.lanes
        count = job.groups * job.K * job.M * job.window

        def over(size: int) -> Any:
            def more(i: Any, bad: Any) -> Any:
                value = e.load(e.at(self.w, i), size)
                return (e.b.fadd(bad, e.b.fsub(value, value)),)

            return more

        whole = count // lanes * lanes
        (many,) = e.loop(0, whole, over(lanes), (e.zero(lanes),), step=lanes)
        (one,) = e.loop(whole, count, over(1), (e.kind(0.0),))
        for i in range(lanes):
            one = e.b.fadd(one, e.b.extract_element(many, ir.Constant(i32, i)))
        return e.b.fcmp_unordered("uno", one, one)

    def phase(self, f: int, planes: Any, n: Index, g: Index, d: Index, h0: Index) -> None:
        """The outputs of one phase in a task's band."""
        e, job, lanes = self.e, self.job, self.step.lanes
        phase = job.phases[f]
        h1 = e.smaller(e.add(h0, self.step.rows), phase.counts[1])
        if phase.counts[0] < job.counts[0]:
            inside = e.b.icmp_signed("<", const(d), const(phase.counts[0]))
            h1 = e.b.select(inside, const(h1), const(h0))
        long, step = phase.counts[2], job.step[2]
        volume = prod(job.out)
        first = e.times(e.add(e.times(n, job.groups), g), job.M)
        place = e.add(e.times(d, job.spread[0]), phase.first[0])
        tall = self.step.tall
        full = e.add(h0, e.times(e.split(const(e.sub(h1, h0)), tall)[0], tall))

        def rows(h: Index, count: int) -> None:
            line = e.at(planes, e.times(e.times(e.sub(h, h0), job.step[1]), self.plane[2]))
            entry = e.at(self.ranges[f], e.times(h if job.span[0] == 1 else d, 2), i64)
            at = e.add(e.times(h, job.spread[1]), phase.first[1])
            to = e.add(e.times(e.add(e.times(place, job.out[1]), at), job.out[2]), phase.first[2])

            def piece(c: Index, some: int) -> None:
                x = e.at(line, e.times(c, step))
                if tall == 1:
                    sums = self.sums_by_rows(f, x, g, entry)
                else:
                    sums = self.sums(phase, x, g, count)
                for (m, r), value in sums.items():
                    out = e.add(e.times(e.add(first, m), volume), to, e.times(c, job.spread[2]))
                    out = e.add(out, r * job.spread[1] * job.out[2])
                    e.store_apart(value, e.at(self.y, out), job.spread[2], some)

            whole = long // lanes * lanes
            e.loop(0, whole, lambda c: piece(c, lanes), step=lanes)
            if long > whole:  # the last vector may repeat some columns, with the same results
                piece(max(0, long - lanes), min(long, lanes))

        e.loop(h0, full, lambda h: rows(h, tall), step=tall)
        if tall > 1:
            e.loop(full, h1, lambda h: rows(h, 1))

    def sums_by_rows(self, f: int, x: Any, g: Index, entry: Any) -> dict[tuple[int, int], Any]:
        """``sums`` of one row, with a loop over the rows of taps that do not lie in padding."""
        e, job, lanes = self.e, self.job, self.step.lanes
        phase = job.phases[f]
        if not phase.taps:
            return {(m, 0): e.zero(lanes) for m in range(job.M)}
        first = e.b.load(entry, typ=i64, align=8)
        last = e.add(first, e.b.load(e.at(entry, 1, i64), typ=i64, align=8))
        row = [i for i, o in enumerate(phase.offsets) if o[:2] == phase.offsets[0][:2]]
        shifts = [phase.offsets[i][2] - phase.offsets[0][2] for i in row]
        taps = [phase.taps[i] - phase.taps[0] for i in row]

        def channel(k: Any, *held: Any) -> list[Any]:
            plane = e.at(x, e.times(k, prod(self.plane)))
            weights = e.at(self.w, e.times(self.base(g, k), job.window))

            def some(t: Any, *sums: Any) -> list[Any]:
                told = e.at(self.tables[f], e.times(t, 2), i64)
                line = e.at(plane, e.b.load(told, typ=i64, align=8))
                own = e.at(weights, e.b.load(e.at(told, 1, i64), typ=i64, align=8))
                new = list(sums)
                for shift, tap in zip(shifts, taps):
                    value = e.apart(e.at(line, shift), job.step[2], lanes)
                    for m in range(job.M):
                        weight = e.load(e.at(own, self.channel_step * m + tap))
                        new[m] = e.multiply_add(value, e.splat(weight, lanes), new[m])
                return new

            return e.loop(first, last, some, held, step=len(row))

        found = e.sums(job.K, channel, job.M, lanes, len(phase.taps))
        return {(m, 0): value for m, value in enumerate(found)}

    def base(self, g: Index, k: Index) -> Index:
        """The row of weights of the first output channel of a group and source channel k."""
        e, job = self.e, self.job
        if job.transposed:
            return e.times(e.add(e.times(g, job.K), k), job.M)
        return e.add(e.times(e.times(g, job.M), job.K), k)

    def sums(self, phase: Any, x: Any, g: Index, rows: int) -> dict[tuple[int, int], Any]:
        """A vector of outputs for each channel and each of some rows."""
        e, job, lanes = self.e, self.job, self.step.lanes
        keys = [(m, r) for m in range(job.M) for r in range(rows)]
        if not phase.taps:
            return {key: e.zero(lanes) for key in keys}

        def channel(k: Any, *held: Any) -> list[Any]:
            plane = e.at(x, e.times(k, prod(self.plane)))
            sums = dict(zip(keys, held))
            seen: dict[int, Any] = {}
            weights = e.at(self.w, e.times(self.base(g, k), job.window))
            for offset, tap in zip(phase.offsets, phase.taps):
                for r in range(rows):
                    high = offset[0] * self.plane[1] + offset[1] + r * job.step[1]
                    at = high * self.plane[2] + offset[2]
                    if at not in seen:
                        seen[at] = e.apart(e.at(plane, at), job.step[2], lanes)
                for m in range(job.M):
                    weight = e.load(e.at(weights, self.channel_step * m + tap))
                    wide = e.splat(weight, lanes)
                    for r in range(rows):
                        high = offset[0] * self.plane[1] + offset[1] + r * job.step[1]
                        at = high * self.plane[2] + offset[2]
                        sums[m, r] = e.multiply_add(seen[at], wide, sums[m, r])
            return [sums[key] for key in keys]

        found = e.sums(job.K, channel, len(keys), lanes, len(phase.taps))
        return dict(zip(keys, found))


class LinesGradStep(Step):
    """``conv_weight_grad``; a task is the weights of one output and one source channel."""

    def __init__(
        self, job: Job, batch: Batch, x: Value, g: Value, out: Value, lines: tuple[str, ...]
    ) -> None:
        self.job, self.batch, self.target = job, batch, target()
        self.name = "conv by lines: weight gradient"
        self.reads, self.writes, self.lines = (x, g, *batch.reads), (out,), lines
        size = x.spec.dtype.itemsize
        self.lanes = self.target.vector_bytes // size
        self.plane: Ints = tuple(
            [(n - 1) * s + span if i else span
             for i, (n, s, span) in enumerate(zip(job.out, job.step, job.span))]
        )  # fmt: skip
        self.tasks = job.groups * job.M * job.K
        self.scratch = (prod(self.plane) + (job.step[2] + 1) * self.lanes) * size
        work = self.tasks * job.samples * job.window * prod(job.out)
        self.cost = work / self.lanes * 0.6
        self.key = ("conv lines weights", job, batch.samples)

    def emit(self, module: Any, name: str) -> Any:
        job, plane, lanes = self.job, self.plane, self.lanes
        pack = emit_planes(
            module, f"{name}_planes", job.dtype, job.source, plane, prod(plane), self.target
        )
        function = kernel(module, name, len(self.reads) + 1)
        e = Emitter(function, job.dtype)
        begin, end, scratch, x, g, *words, out = function.args
        samples = e.samples(self.batch, words)
        volume, long = prod(job.source), job.out[2]
        (phase,) = job.phases
        offsets = [(d * plane[1] + h) * plane[2] + w for d, h, w in phase.offsets]
        sums = limits.CONV_LINES_SUMS
        runs = [offsets[i : i + sums] for i in range(0, len(offsets), sums)]

        def task(index: Any) -> None:
            o, k = e.split(index, job.K)
            group = e.split(o, job.M)[0]
            held = e.room(len(offsets) * lanes)
            for i in range(len(offsets)):
                e.store(e.zero(lanes), e.at(held, i * lanes))

            def depth(n: Any, d: Any) -> None:
                plane = e.add(e.times(n, job.groups), group)
                from_ = e.times(e.add(e.times(plane, job.K), k), volume)
                start = [const(e.add(e.times(d, job.step[0]), job.low[0])), const(job.low[1])]
                e.b.call(pack, [e.at(x, from_), scratch, const(1), *start, const(job.low[2])])
                at = e.add(e.times(e.add(e.times(n, job.groups * job.M), o), job.out[0]), d)
                cotangents = e.at(g, e.times(at, job.out[1] * long))
                for i, run in enumerate(runs):
                    self.band(e, scratch, cotangents, run, e.at(held, i * sums * lanes))

            e.loop(0, samples, lambda n: e.loop(
                0, job.out[0], lambda d: depth(n, d)) and None)  # fmt: skip

            def total(i: Any) -> None:
                value = e.load(e.at(held, e.times(i, lanes)), lanes)
                size = lanes
                while size > 1:
                    size //= 2
                    low = e.shuffle(value, value, range(size))
                    value = e.b.fadd(low, e.shuffle(value, value, range(size, 2 * size)))
                one = e.b.extract_element(value, ir.Constant(i32, 0))
                e.store(one, e.at(out, e.add(e.times(index, job.window), i)))

            e.loop(0, len(offsets), total)

        e.loop(begin, end, task)
        e.b.ret_void()
        return function

    def band(self, e: Emitter, planes: Any, g: Any, offsets: list[int], held: Any) -> None:
        """Add the products of a plane of cotangents to the sums of some taps."""
        job, plane, lanes, long = self.job, self.plane, self.lanes, self.job.out[2]
        homes = [e.at(held, i * lanes) for i in range(len(offsets))]

        def row(r: Any, *sums: Any) -> list[Any]:
            line = e.at(planes, e.times(r, job.step[1] * plane[2]))
            vectors = e.at(g, e.times(r, long))

            def piece(c: Index, count: int, sums: Any) -> list[Any]:
                ct = e.load_first(e.at(vectors, c), lanes, count)
                at = e.at(line, e.times(c, job.step[2]))
                new = []
                for offset, held in zip(offsets, sums):
                    value = e.apart(e.at(at, offset), job.step[2], lanes)
                    if count < lanes:  # what lies behind the row meets zeros; it must be finite
                        places = [*range(count), *[lanes] * (lanes - count)]
                        value = e.shuffle(value, e.zero(lanes), places)
                    new.append(e.multiply_add(value, ct, held))
                return new

            whole = long // lanes * lanes
            found = e.loop(0, whole, lambda c, *s: piece(c, lanes, s), sums, step=lanes)
            return piece(whole, long - whole, found) if long > whole else found

        found = e.loop(0, job.out[1], row, [e.load(home, lanes) for home in homes])
        for value, home in zip(found, homes):
            e.store(value, home)
