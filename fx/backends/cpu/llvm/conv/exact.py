"""The convolution of weights that are not all finite, number by number.

The fast kernels of ``conv_input_grad`` multiply zeros that pad a cotangent; with an infinity among
the weights that would be NaN where the true gradient is not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from llvmlite import ir

from fx.backends.cpu.llvm.conv.emit import Emitter
from fx.backends.cpu.llvm.conv.plan import Job
from fx.backends.cpu.llvm.ir import Index, const, i64, internal, pointer, table


class Region(NamedTuple):
    """What a task computes: an output depth, and samples, rows, columns, channels [first, last)."""

    samples: tuple[Index, Index]
    d: Index
    rows: tuple[Index, Index]
    columns: tuple[Index, Index]
    channels: tuple[Index, Index]


def emit_exact(
    module: Any, name: str, job: Job, region: Callable[[Emitter, Any, Any], Region]
) -> Any:
    """``name(begin, end, x, w, y, samples)``: a kernel's tasks, only with what each output reads.

    ``region(e, task, samples)`` says what a task computes; its rows and columns may go past the
    last ones.
    """
    one = _emit_output(module, f"{name}_output", job)
    function = internal(module, name, [i64, i64, pointer, pointer, pointer, i64])
    e = Emitter(function, job.dtype)
    begin, end, x, w, y, samples = function.args
    tables = []
    for f, phase in enumerate(job.phases):
        rows = [(*offset, t) for offset, t in zip(phase.offsets, phase.taps)]
        tables.append(table(module, f"{name}{f}", [i for row in rows for i in row] or [0]))

    def output(n: Index, o: Index, f: int, place: tuple[Index, ...]) -> None:
        phase = job.phases[f]
        to = e.add(e.times(n, job.groups * job.M), o)
        for size, at, s, first in zip(job.out, place, job.spread, phase.first):
            to = e.add(e.times(to, size), e.times(at, s), first)
        reads = [const(e.add(e.times(at, s), lo)) for at, s, lo in zip(place, job.step, job.low)]
        numbers = [const(n), const(o), *reads, const(len(phase.taps))]
        e.b.call(one, [x, w, e.at(y, to), tables[f], *numbers])

    def task(index: Any) -> None:
        at = region(e, index, samples)
        for f, phase in enumerate(job.phases):
            depth = e.smaller(e.add(at.d, 1), phase.counts[0])
            h1 = e.smaller(at.rows[1], phase.counts[1])
            w1 = e.smaller(at.columns[1], phase.counts[2])

            def plane(o: Any, f: int = f, depth: Index = depth, h1: Any = h1, w1: Any = w1) -> None:
                def row(z: Any, h: Any) -> None:
                    e.loop(
                        *at.samples,
                        lambda n: e.loop(
                            at.columns[0], w1, lambda c: output(n, o, f, (z, h, c))
                        ) and None,
                    )  # fmt: skip

                e.loop(at.d, depth, lambda z: e.loop(at.rows[0], h1, lambda h: row(z, h)) and None)

            e.loop(*at.channels, plane)

    e.loop(begin, end, task)
    e.b.ret_void()
    return function


def _emit_output(module: Any, name: str, job: Job) -> Any:
    """``name(x, w, out, taps, n, o, d, h, w, count)``: one output, whose window is at (d, h, w).

    A tap is four numbers: its place in the window, and which weight it is.
    """
    function = internal(module, name, [pointer] * 4 + [i64] * 6)
    e = Emitter(function, job.dtype)
    x, w, out, taps, n, o, *place, count = function.args
    g, m = e.split(o, job.M)

    def tap(i: Any, k: Any, total: Any) -> Any:
        entry = e.at(taps, e.times(i, 4), i64)
        at, ok = [], None
        for j, size in enumerate(job.source):
            off = e.b.load(e.at(entry, j, i64), typ=i64, align=8)
            at.append(const(e.add(place[j], off)))
            inside = e.b.icmp_unsigned("<", at[-1], const(size))
            ok = inside if ok is None else e.b.and_(ok, inside)
        t = e.b.load(e.at(entry, 3, i64), typ=i64, align=8)
        before = e.b.block
        yes, after = e.b.append_basic_block("in"), e.b.append_basic_block("on")
        e.b.cbranch(ok, yes, after)
        e.b.position_at_end(yes)
        from_ = e.add(e.times(e.add(e.times(n, job.groups), g), job.K), k)
        row = e.times(e.add(e.times(e.add(e.times(g, job.K), k), job.M), m), job.window)
        for size, a in zip(job.source, at):
            from_ = e.add(e.times(from_, size), a)
        weight = e.load(e.at(w, e.add(row, t)))
        more = e.multiply_add(e.load(e.at(x, from_)), weight, total)
        e.b.branch(after)
        e.b.position_at_end(after)
        sum_ = e.b.phi(e.kind)
        sum_.add_incoming(total, before)
        sum_.add_incoming(more, yes)
        return (sum_,)

    def over(k: Any, total: Any) -> Any:
        return e.loop(0, count, lambda i, t: tap(i, k, t), (total,))

    (total,) = e.loop(0, job.K, over, (ir.Constant(e.kind, 0.0),))
    e.store(total, out)
    e.b.ret_void()
    return function
