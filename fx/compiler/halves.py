"""Long reductions in two steps: chunks of rows give partial results, which the second step joins.

The chunks depend on sizes alone, so the result has the same bits on any number of threads, and no
lane adds up more than a few thousand numbers one after the other.

A reduction over the outer loops of a nest, such as the sum of a matrix over its rows, is a *sink*
of a nest that goes through the matrix row by row: each task adds its rows up in a row of its own.
"""

from __future__ import annotations

from math import prod
from typing import Any

from fx import limits
from fx.compiler.copying import Copy, Draft
from fx.compiler.extents import larger, smaller
from fx.compiler.maps import Form, add, strides_of
from fx.compiler.nest import Nest, canonical
from fx.compiler.plan import plan_of
from fx.compiler.target import Target
from fx.graph.ir import Value, input_value
from fx.spec import TensorSpec

Parts = tuple[Nest, list[Value], list[Value]]


def halves(nest: Nest, reads: list[Value], writes: list[Value], target: Target) -> list[Parts]:
    """The nest itself, or two that do the same one after the other."""
    whole = [(nest, reads, writes)]
    sizes = nest.sizes
    if not nest.rows or nest.sinks or prod(sizes) <= limits.HALVES_CHUNK or not simple(nest):
        return whole
    plan = plan_of(nest, target)
    length = prod([sizes[d] for d in nest.rows])
    wide = not plan.in_rows and sizes[plan.vector] >= limits.HALVES_COLUMNS
    if wide and length > limits.HALVES_ROWS:
        host = Draft()
        host.nest.sizes = [sizes[d] for d in (*nest.rows, *nest.outer)]
        host.nest.outer = list(range(len(nest.rows)))
        host.nest.rows = list(range(len(nest.rows), len(sizes)))
        second = sunk(host, nest, reads, writes)
        return [host.parts(), *halves(*second.parts(), target)]
    # a long row is added up in stretches
    most = limits.HALVES_LONG if plan.in_rows else limits.HALVES_ADDS
    few = plan.items < limits.HALVES_TASKS and plan.cost > limits.HALVES_WORK
    if length <= most and not few:
        return whole
    d = max(nest.rows, key=lambda d: (sizes[d], d))
    inner = length // sizes[d]
    columns = 1 if plan.in_rows else prod(sizes) // length
    size = max(limits.HALVES_LEAST, min(limits.HALVES_CHUNK // (inner * columns), most // inner))
    if plan.in_rows and d == plan.vector:
        lane = plan.lanes * plan.unroll
        size = max(1, size // lane) * lane
    if size >= sizes[d]:
        return whole
    begun, rest = _split(nest, reads, writes, d, size, plan.in_rows)
    return [begun, *halves(*rest, target)]


def simple(nest: Nest) -> bool:
    """Whether no element of a row needs the result of a reduction."""
    phases = nest.phases()
    if not any(e.kind == "reduce" for e in nest.exprs):
        return False
    if any(e.kind == "reduce" and phases[i] > 1 for i, e in enumerate(nest.exprs)):
        return False
    return not any(_in_row(nest, form) and phases[e] for _, form, e in nest.outputs)


def _in_row(nest: Nest, form: Form) -> bool:
    return any(d in nest.rows for d, _ in form[1])


def _split(
    nest: Nest, reads: list[Value], writes: list[Value], d: int, size: int, in_rows: bool
) -> tuple[Parts, Parts]:
    """Chunks of ``size`` iterations of the loop ``d``, which are joined by a second nest."""
    sizes = nest.sizes
    chunks = -(-sizes[d] // size)
    chunk = len(sizes)

    def chunked(form: Form) -> Form:
        for loop, c in form[1]:
            if loop == d:
                return add(form, (0, ((chunk, c * size),)))
        return form

    first = Draft()
    first.nest.sizes = [*sizes, chunks]
    first.nest.sizes[d] = size
    first.nest.outer, first.nest.rows = [chunk, *nest.outer], list(nest.rows)
    if sizes[d] % size:
        first.nest.ragged = (d, chunk, sizes[d])
    copy = Copy(nest, reads, first, chunked)
    outer = [sizes[o] for o in nest.outer]
    shape = (*outer, chunks) if in_rows else (chunks, *outer)
    loops = (*nest.outer, chunk) if in_rows else (chunk, *nest.outer)
    place: Form = (0, tuple(sorted(zip(loops, strides_of(shape)))))
    partials: dict[int, Value] = {}
    for i, e in enumerate(nest.exprs):
        if e.kind == "reduce":
            partials[i] = input_value(TensorSpec(shape, e.dtype))
            first.output(partials[i], place, copy.expr(i))
    for w, form, i in nest.outputs:
        if _in_row(nest, form):
            first.output(writes[w], chunked(form), copy.expr(i))
    second = _joined(nest, reads, writes, partials, place, [*sizes, chunks], chunk)
    return first.parts(), second.parts()


def _joined(
    nest: Nest,
    reads: list[Value],
    writes: list[Value],
    partials: dict[int, Value],
    place: Form,
    sizes: list[int],
    chunk: int,
) -> Draft:
    """What follows the reductions of a nest, once their partial results are known."""
    second = Draft()
    second.nest.sizes = sizes
    second.nest.outer, second.nest.rows = list(nest.outer), [chunk]
    copy = Copy(nest, reads, second)
    for i, partial in partials.items():
        e = nest.exprs[i]
        load = second.nest.expr("load", "", (), (second.read(partial), place), e.dtype)
        if sizes[chunk] > 1:
            load = second.nest.expr("reduce", e.name, (load,), (), e.dtype)
        copy.place[i] = load
    for w, form, i in nest.outputs:
        if not _in_row(nest, form):
            second.output(writes[w], form, copy.expr(i))
    canonical(second.nest)
    return second


def sunk(
    host: Draft,
    nest: Nest,
    reads: list[Value],
    writes: list[Value],
    instead: dict[Any, int] | None = None,
) -> Draft:
    """Move the reductions of a nest into a host whose outer loops are its rows; what follows them.

    Args:
        host: a nest whose rows have the sizes of the outer loops of ``nest``, and the other way
            round, in the same order.
        nest: single reductions over its rows; it is not changed.
        reads, writes: its values.
        instead: what the host computes already, as for ``Copy``.
    """
    sizes = nest.sizes
    number = dict(zip((*nest.rows, *nest.outer), (*host.nest.outer, *host.nest.rows)))

    def turned(form: Form) -> Form:
        return form[0], tuple(sorted([(number[d], c) for d, c in form[1]]))

    copy = Copy(nest, reads, host, turned, instead)
    rows = prod([sizes[d] for d in nest.rows])
    if not host.nest.share:
        share = larger(limits.SINK_ROWS, -(-rows // limits.SINK_TASKS))
        host.nest.share = smaller(limits.HALVES_ADDS, share)
    chunks = -(-rows // host.nest.share)
    outer = [sizes[d] for d in nest.outer]
    shape = (chunks, *outer)
    inside: Form = (0, tuple(sorted(zip(host.nest.rows, strides_of(outer)))))
    partials: dict[int, Value] = {}
    for i, e in enumerate(nest.exprs):
        if e.kind == "reduce":
            partials[i] = input_value(TensorSpec(shape, e.dtype))
            operand = copy.expr(e.args[0])
            host.nest.sinks.append((host.write(partials[i]), inside, operand, e.name))
    for w, form, i in nest.outputs:
        if _in_row(nest, form):
            host.output(writes[w], turned(form), copy.expr(i))
    chunk = len(sizes)
    place: Form = (0, tuple(sorted(zip((chunk, *nest.outer), strides_of(shape)))))
    return _joined(nest, reads, writes, partials, place, [*sizes, chunks], chunk)
