"""Copies into the layouts that convolution kernels read: padded planes, and channels in lanes."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from fx.backends.cpu.llvm.conv.emit import (
    I32, I64, PTR, Emitter, Index, Target, internal, kernel,
)  # fmt: skip
from fx.backends.cpu.llvm.conv.plan import Block, Ints, Job, blocks


def emit_planes(
    module: Any, name: str, dtype: str, source: Ints, plane: Ints, channel_step: int, target: Target
) -> Any:
    """``name(from, to, channels, d, h, w)``: copy channels into zero-padded planes.

    ``from`` is the first channel's input plane, ``to`` where the first padded plane comes to lie;
    (d, h, w) is the place in the input of its first element. Up to one vector of garbage follows
    the last plane.
    """
    function = internal(module, name, [PTR, PTR, I64, I64, I64, I64])
    e = Emitter(function, dtype)
    from_, to, channels, d0, h0, w0 = function.args
    depth, height, width = source
    lanes = target.bytes // e.itemsize
    numbers = ir.Constant(ir.VectorType(I32, lanes), list(range(lanes)))

    def row(i: Any, h: Any, channel: Any, d: Any, d_ok: Any) -> None:
        """Padded row h of a plane of which ``channel`` is the input."""
        b = e.b
        at = e.add(h0, h)
        inside = b.and_(d_ok, b.icmp_unsigned("<", at, e.i(height)))
        limit = b.select(inside, ir.Constant(I32, width), ir.Constant(I32, 0))
        limits = e.splat(limit, lanes)
        line = e.at(channel, e.add(e.mul(d, height * width), e.mul(at, width), w0))
        first = e.splat(b.trunc(w0, I32), lanes)

        def piece(j: Index) -> None:
            place = e.splat(b.trunc(e.i(j), I32), lanes)
            mask = b.icmp_unsigned("<", b.add(b.add(first, place), numbers), limits)
            e.store(e.load_where(e.at(line, j), lanes, mask), e.at(i, j))

        if plane[2] <= 4 * lanes:
            for j in range(0, plane[2], lanes):
                piece(j)
        else:
            e.loop(0, plane[2], lambda j: piece(j), step=lanes)

    def one_depth(c: Any, z: Any) -> None:
        channel = e.at(from_, e.mul(c, depth * height * width))
        d = e.add(d0, z)
        d_ok = e.b.icmp_unsigned("<", e.i(d), e.i(depth))
        start = e.at(to, e.add(e.mul(c, channel_step), e.mul(z, plane[1] * plane[2])))
        e.loop(
            0, plane[1], lambda h: row(e.at(start, e.mul(h, plane[2])), e.i(h), channel, d, d_ok)
        )

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

    def __init__(self, job: Job, itemsize: int, target: Target) -> None:
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


def emit_weights(module: Any, name: str, job: Job, layout: WeightLayout, target: Target) -> Any:
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

    def columns(block: Block, g: Any, b: Any) -> Any:
        """Pack one block: squares of channels by taps (or by k and taps) are transposed."""
        lanes = block.lanes
        before = e.add(e.mul(g, layout.lanes), e.mul(b, layout.whole.width))  # channels
        channel = e.mul(b, layout.whole.width)
        if job.transposed:
            base = e.mul(e.add(e.mul(g, job.K * job.M), channel), T)
            row_step, k_step, wide = T, job.M * T, T
        else:
            base = e.mul(e.add(e.mul(g, job.M), channel), job.K * T)
            row_step, k_step, wide = job.K * T, 0, job.K * T
        source = e.at(w, base)
        bad = e.zero(lanes)

        def checked(value: Any, bad: Any) -> Any:
            return e.b.fadd(bad, e.b.fsub(value, value))  # 0 for finite values, else NaN

        def square(j: Index, count: Index, k: Index, bad: Any) -> Any:
            for v in range(block.vectors):
                rows = []
                for m in range(lanes):
                    if v * lanes + m < block.valid:
                        at = e.add((v * lanes + m) * row_step, e.mul(k, k_step), j)
                        rows.append(e.load_first(e.at(source, at), lanes, count))
                        bad = checked(rows[-1], bad)
                    else:
                        rows.append(e.zero(lanes))
                yield from e.transpose(rows)
            yield bad

        if job.transposed and T == 1:

            def straight(k: Any, bad: Any) -> Any:
                for v in range(block.vectors):
                    at = e.at(source, e.add(v * lanes, e.mul(k, k_step)))
                    value = e.load_first(at, lanes, min(lanes, block.valid - v * lanes))
                    to = e.mul(e.add(e.mul(before, job.K), e.mul(k, block.width)), 1)
                    e.store(value, e.at(out, e.add(to, v * lanes)))
                    bad = checked(value, bad)
                return (bad,)

            if 0 in where:
                (bad,) = e.loop(0, job.K, straight, (bad,))
        elif job.transposed:

            def one_k(k: Any, bad: Any) -> Any:
                for j in range(0, T, lanes):
                    *found, bad = square(j, min(lanes, T - j), k, bad)
                    for t in range(j, min(j + lanes, T)):
                        if t not in where:
                            continue
                        taps = steps_of(t)
                        to = e.add(
                            start_of(block, t),
                            e.mul(before, job.K * taps), e.mul(k, block.width * taps),
                        )  # fmt: skip
                        for v in range(block.vectors):
                            e.store(
                                found[v * lanes + t - j], e.at(out, e.add(to, v * lanes))
                            )
                return (bad,)

            (bad,) = e.loop(0, job.K, one_k, (bad,))
        else:
            to = e.mul(before, job.K * T)

            def put(j: Index, count: Index, bad: Any) -> Any:
                *found, bad = square(j, count, 0, bad)
                for t in range(lanes if not isinstance(count, int) else min(count, lanes)):
                    for v in range(block.vectors):
                        at = e.add(to, e.mul(j, block.width), t * block.width + v * lanes)
                        e.store(found[v * lanes + t], e.at(out, at))
                return bad

            full = wide // lanes * lanes
            (bad,) = e.loop(0, full, lambda j, bad: (put(j, lanes, bad),), (bad,), step=lanes)
            if wide > full:
                bad = put(full, wide - full, bad)
        flag: Any = ir.Constant(e.scalar, 0.0)
        for i in range(lanes):
            flag = e.b.fadd(flag, e.b.extract_element(bad, ir.Constant(I32, i)))
        return flag

    def task(u: Any) -> None:
        g, b = e.divmod(u, layout.per_group)
        g, b = e.i(g), e.i(b)
        if layout.last is None:
            flag = columns(layout.whole, g, b)
        elif layout.count == 0:
            flag = columns(layout.last, g, b)
        else:
            is_last = e.b.icmp_signed("==", b, e.i(layout.count))
            with e.b.if_else(is_last) as (then, other):
                with then:
                    one = columns(layout.last, g, b)
                    one_block = e.b.block
                with other:
                    two = columns(layout.whole, g, b)
                    two_block = e.b.block
            flag = e.b.phi(e.scalar)
            flag.add_incoming(one, one_block)
            flag.add_incoming(two, two_block)
        e.store(flag, e.at(out, e.add(layout.flags, u)))

    e.loop(begin, end, task)
    e.b.ret_void()
    return function
