"""Copies into the layouts that convolution kernels read: padded planes, and channels in lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from fx.backends.cpu.llvm.conv.emit import Emitter
from fx.backends.cpu.llvm.conv.plan import Block, Ints, Job, blocks
from fx.backends.cpu.llvm.conv.transpose import turn
from fx.backends.cpu.llvm.ir import Index, Machine, const, i1, i32, i64, internal, kernel, pointer


def emit_planes(
    module: Any, name: str, dtype: str, source: Ints, plane: Ints, channel_step: int,
    target: Machine, exact: bool = False,
) -> Any:  # fmt: skip
    """``name(from, to, channels, d, h, w)``: copy channels into zero-padded planes.

    ``from`` is the first channel's input plane, ``to`` where the first padded plane comes to lie;
    (d, h, w) is the place in the input of its first element. Up to one vector of zeros follows
    the last plane, unless ``exact``.
    """
    function = internal(module, name, [pointer, pointer, i64, i64, i64, i64])
    e = Emitter(function, dtype)
    from_, to, channels, d0, h0, w0 = function.args
    depth, height, width = source
    lanes = target.vector_bytes // e.itemsize
    numbers = ir.Constant(ir.VectorType(i32, lanes), list(range(lanes)))

    def row(i: Any, h: Any, channel: Any, d: Any, d_ok: Any) -> None:
        """Padded row h of a plane of which ``channel`` is the input."""
        b = e.b
        at = e.add(h0, h)
        inside = b.and_(d_ok, b.icmp_unsigned("<", at, const(height)))
        limit = b.select(inside, ir.Constant(i32, width), ir.Constant(i32, 0))
        limits = e.splat(limit, lanes)
        line = e.at(channel, e.add(e.times(d, height * width), e.times(at, width), w0))
        first = e.splat(b.trunc(w0, i32), lanes)

        def piece(j: Index) -> None:
            place = e.splat(b.trunc(const(j), i32), lanes)
            mask = b.icmp_unsigned("<", b.add(b.add(first, place), numbers), limits)
            value = e.load(e.at(line, j), lanes, mask)
            if exact and isinstance(j, int) and j + lanes > plane[2]:
                kind = ir.VectorType(i1, lanes)
                some = ir.Constant(kind, [int(j + k < plane[2]) for k in range(lanes)])
                e.store(value, e.at(i, j), some)
            else:
                e.store(value, e.at(i, j))

        if plane[2] <= 4 * lanes:
            for j in range(0, plane[2], lanes):
                piece(j)
        else:
            whole = plane[2] // lanes * lanes
            e.loop(0, whole, lambda j: piece(j), step=lanes)
            if plane[2] > whole:
                piece(whole)

    def one_depth(c: Any, z: Any) -> None:
        channel = e.at(from_, e.times(c, depth * height * width))
        d = e.add(d0, z)
        d_ok = e.b.icmp_unsigned("<", const(d), const(depth))
        start = e.at(to, e.add(e.times(c, channel_step), e.times(z, plane[1] * plane[2])))

        def one_row(h: Any) -> None:
            row(e.at(start, e.times(h, plane[2])), const(h), channel, d, d_ok)

        e.loop(0, plane[1], one_row)

    e.loop(0, channels, lambda c: e.loop(0, plane[0], lambda z: one_depth(c, z)) and None)
    e.b.ret_void()
    return function


class WeightLayout:
    """Where packed weights lie: [phase][group][block][k][tap of the phase][channel of the block].

    Attributes:
        whole, last: the blocks of a group (see ``blocks``), ``count`` of the whole ones.
        per_group: blocks of a group.
        lanes: channels of a group with the idle ones.
        starts: the first element of each phase.
        size: elements in all.
    """

    def __init__(self, job: Job, itemsize: int, target: Machine) -> None:
        self.count, self.whole, self.last = blocks(job.M, itemsize, target)
        self.per_group = self.count + (self.last is not None)
        self.lanes = self.count * self.whole.width + (self.last.width if self.last else 0)
        self.starts = []
        at = 0
        for phase in job.phases:
            self.starts.append(at)
            at += job.groups * job.K * len(phase.taps) * self.lanes
        self.flags = at  # then, for each block, whether a weight is not finite
        self.size = at + job.groups * self.per_group


def emit_weights(module: Any, name: str, job: Job, layout: WeightLayout, target: Machine) -> Any:
    """The kernel of the step that packs weights; a task is one block of one group."""
    function = kernel(module, name, 2)
    e = Emitter(function, job.dtype)
    begin, end, _, w, out = function.args
    T = job.window
    where = {t: (f, i) for f, p in enumerate(job.phases) for i, t in enumerate(p.taps)}

    def start_of(block: Block, tap: int) -> int:
        phase, place = where[tap]
        return layout.starts[phase] + place * block.width

    def steps_of(tap: int) -> int:
        return len(job.phases[where[tap][0]].taps)

    def one_block(block: Block, g: Any, b: Any) -> Any:
        """Pack one block, square by square of channels and taps (or k and taps)."""
        lanes = block.lanes
        before = e.add(e.times(g, layout.lanes), e.times(b, layout.whole.width))  # channels
        channel = e.times(b, layout.whole.width)
        if job.transposed:
            base = e.times(e.add(e.times(g, job.K * job.M), channel), T)
        else:
            base = e.times(e.add(e.times(g, job.M), channel), job.K * T)
        source = e.at(w, base)
        parts = [(v * lanes, min(lanes, block.valid - v * lanes)) for v in range(block.vectors)]

        if not job.transposed:  # [m][k, tap] -> [k, tap][m]
            columns = job.K * T
            to = e.at(out, e.times(before, columns))

            def square(j: Any) -> None:
                count = e.smaller(e.sub(columns, j), lanes)
                for m, valid in parts:
                    turn(
                        e, lanes, e.at(source, e.add(m * columns, j)), columns, valid, count,
                        e.at(to, e.add(e.times(j, block.width), m)), block.width, count, lanes,
                    )  # fmt: skip

            e.loop(0, columns, square, step=lanes)
            return
        if T == 1:  # [k][m] -> [k][m]

            def straight(k: Any) -> None:
                for m, valid in parts:
                    value = e.load_first(e.at(source, e.add(m, e.times(k, job.M))), lanes, valid)
                    to = e.add(e.times(before, job.K), e.times(k, block.width), m)
                    e.store(value, e.at(out, to))

            if 0 in where:
                e.loop(0, job.K, straight)
            return

        # [k][m][tap] -> [k][tap of the phase][m], by way of squares on the stack
        held = e.room(lanes * lanes)

        def one_k(k: Any) -> None:
            for m, valid in parts:
                for j in range(0, T, lanes):
                    count = min(lanes, T - j)
                    from_ = e.at(source, e.add(e.times(k, job.M * T), m * T + j))
                    turn(e, lanes, from_, T, valid, count, held, lanes, count, lanes)
                    for t in range(j, j + count):
                        if t not in where:
                            continue
                        taps = steps_of(t)
                        to = e.add(
                            start_of(block, t) + m,
                            e.times(before, job.K * taps), e.times(k, block.width * taps),
                        )  # fmt: skip
                        e.store(e.load(e.at(held, (t - j) * lanes), lanes), e.at(out, to))

        e.loop(0, job.K, one_k)

    def check(g: Any, b: Any) -> Any:
        """0 if all weights of a block are finite, else NaN."""
        lanes = target.vector_bytes // e.itemsize
        channel = e.times(b, layout.whole.width)
        count = e.times(e.smaller(e.sub(job.M, channel), layout.whole.width), T)

        def row(k: Any, bad: Any) -> Any:
            at = e.add(e.times(e.add(e.times(g, job.K), k), job.M), channel)
            from_ = e.at(w, e.times(at, T))
            whole = e.times(e.split(count, lanes)[0], lanes)

            def over(size: int) -> Any:
                def more(i: Any, bad: Any) -> Any:
                    value = e.load(e.at(from_, i), size)
                    return (e.b.fadd(bad, e.b.fsub(value, value)),)

                return more

            (many,) = e.loop(0, whole, over(lanes), (bad[0],), step=lanes)
            (one,) = e.loop(whole, count, over(1), (bad[1],))
            return many, one

        def pair(k: Any, many: Any, one: Any) -> Any:
            return row(k, (many, one))

        many, one = e.loop(0, job.K, pair, (e.zero(lanes), ir.Constant(e.kind, 0.0)))
        for i in range(lanes):
            one = e.b.fadd(one, e.b.extract_element(many, ir.Constant(i32, i)))
        return one

    def task(u: Any) -> None:
        g, b = e.split(u, layout.per_group)
        by_block(e, layout, b, lambda block: one_block(block, g, b))
        if job.transposed and job.pads:
            e.store(check(g, b), e.at(out, e.add(layout.flags, u)))
        else:
            e.store(ir.Constant(e.kind, 0.0), e.at(out, e.add(layout.flags, u)))

    e.loop(begin, end, task)
    e.b.ret_void()
    return function


def by_block(e: Emitter, layout: WeightLayout, b: Index, of: Callable[[Block], None]) -> None:
    """Call ``of(block)`` for the block that number b of a group is."""
    if layout.last is None:
        of(layout.whole)
    elif layout.count == 0:
        of(layout.last)
    else:
        is_last = e.b.icmp_signed("==", const(b), const(layout.count))
        with e.b.if_else(is_last) as (then, other):
            with then:
                of(layout.last)
            with other:
                of(layout.whole)
