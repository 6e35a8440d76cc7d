"""Long reductions in two steps: chunks of rows give partial results, which the second step joins.

The chunks depend on sizes alone, so the result has the same bits on any number of threads, and no
lane adds up more than a few thousand numbers one after the other.
"""

from __future__ import annotations

from math import prod
from typing import Any

from fx.backends.cpu.llvm.loops.maps import Form, add, strides_of
from fx.backends.cpu.llvm.loops.nest import Nest, canonical, form_of, with_form
from fx.backends.cpu.llvm.loops.plan import Plan
from fx.graph.ir import Value, input_value
from fx.spec import TensorSpec

_CHUNK = 1 << 15  # elements of a chunk, at least
_ADDS = 2048  # numbers that a lane adds up one after the other, at most
_WORK = 60_000.0  # nanoseconds from which more tasks are worth a second step
_TASKS = 8


def halves(
    nest: Nest, reads: list[Value], writes: list[Value]
) -> list[tuple[Nest, list[Value], list[Value]]]:
    """The nest itself, or two that do the same one after the other."""
    sizes = nest.sizes
    if not nest.rows:
        return [(nest, reads, writes)]
    phases = nest.phases()
    rows = set(nest.rows)
    in_row = [any(d in rows for d, _ in f[1]) for _, f, _ in nest.outputs]
    reductions = [i for i, e in enumerate(nest.exprs) if e.kind == "reduce"]
    length = prod([sizes[d] for d in nest.rows])
    total = prod(sizes)
    if total <= _CHUNK or not reductions or any(phases[i] > 1 for i in reductions):
        return [(nest, reads, writes)]
    if any(full and phases[e] for full, (_, _, e) in zip(in_row, nest.outputs)):
        return [(nest, reads, writes)]
    plan = Plan(nest)
    lane = plan.lanes * plan.unroll if plan.in_rows else 1
    few = plan.tasks < _TASKS and plan.cost > _WORK
    if length <= _ADDS * lane and not few:
        return [(nest, reads, writes)]
    d = max(nest.rows, key=lambda d: (sizes[d], d))
    inner = length // sizes[d]
    columns = 1 if plan.in_rows else total // length
    most = max(1, _ADDS * lane // inner)
    size = max(1, _CHUNK // (inner * columns))
    size = min(size, most)
    if plan.in_rows and d == plan.vector:
        size = max(1, size // lane) * lane
    if size >= sizes[d]:
        return [(nest, reads, writes)]
    return _split(nest, reads, writes, d, size, plan.in_rows, reductions, in_row)


def _split(
    nest: Nest,
    reads: list[Value],
    writes: list[Value],
    d: int,
    size: int,
    in_rows: bool,
    reductions: list[int],
    in_row: list[bool],
) -> list[tuple[Nest, list[Value], list[Value]]]:
    sizes = nest.sizes
    chunks = -(-sizes[d] // size)
    chunk = len(sizes)
    first = _Copy(nest)
    first.nest.sizes = [*sizes, chunks]
    first.nest.sizes[d] = size
    first.nest.outer, first.nest.rows = [chunk, *nest.outer], list(nest.rows)
    if sizes[d] % size:
        first.nest.ragged = (d, chunk, sizes[d])

    def chunked(form: Form) -> Form:
        for loop, c in form[1]:
            if loop == d:
                return add(form, (0, ((chunk, c * size),)))
        return form

    first.change = chunked
    outer_sizes = [sizes[o] for o in nest.outer]
    shape = (*outer_sizes, chunks) if in_rows else (chunks, *outer_sizes)
    loops = (*nest.outer, chunk) if in_rows else (chunk, *nest.outer)
    place: Form = (0, tuple(sorted(zip(loops, strides_of(shape)))))
    partials: list[Value] = []
    for i in reductions:
        e = nest.exprs[i]
        partials.append(input_value(TensorSpec(shape, e.dtype)))
        first.output(partials[-1], place, first.expr(i))
    second = _Copy(nest)
    second.nest.sizes = [*sizes, chunks]
    second.nest.outer, second.nest.rows = list(nest.outer), [chunk]
    for i, partial in zip(reductions, partials):
        e = nest.exprs[i]
        read = second.read(partial)
        load = second.nest.expr("load", "", (), (read, place), e.dtype)
        second.place[i] = second.nest.expr("reduce", e.name, (load,), (), e.dtype)
    for full, (w, form, i) in zip(in_row, nest.outputs):
        copy = first if full else second
        copy.output(writes[w], copy.change(form), copy.expr(i))
    found = []
    for copy in (first, second):
        copy.finish(reads)
        found.append((copy.nest, copy.reads, copy.writes))
    canonical(second.nest)
    return found


class _Copy:
    """Copies some expressions of a nest into another one."""

    def __init__(self, source: Nest) -> None:
        self.source = source
        self.nest = Nest()
        self.place: dict[int, int] = {}
        self.reads: list[Value] = []
        self.writes: list[Value] = []
        self.known: dict[Any, int] = {}
        self.change: Any = lambda form: form

    def read(self, value: Any, spec: Any = None) -> int:
        """The number of a read: of a value, or of a read of the source."""
        found = self.known.get(value)
        if found is None:
            found = self.known[value] = len(self.reads)
            self.reads.append(value)
            if isinstance(value, int):
                self.nest.reads.append(self.source.reads[value])
            else:
                self.nest.reads.append((value.spec.dtype, value.spec.size))
        return found

    def output(self, value: Value, form: Form, e: int) -> None:
        """Store an expression."""
        self.nest.outputs.append((len(self.writes), form, e))
        self.nest.writes.append((value.spec.dtype, value.spec.size))
        self.writes.append(value)

    def expr(self, i: int) -> int:
        """The copy of an expression and of what it needs."""
        todo = [i]
        while todo:
            j = todo[-1]
            e = self.source.exprs[j]
            missing = [a for a in e.args if a not in self.place] if j not in self.place else []
            if missing:
                todo += missing
                continue
            todo.pop()
            if j in self.place:
                continue
            form = form_of(e)
            data = e.data if form is None else with_form(e, self.change(form))
            if e.kind == "load":
                data = (self.read(data[0]), data[1])
            self.place[j] = self.nest.expr(
                e.kind, e.name, [self.place[a] for a in e.args], data, e.dtype
            )
        return self.place[i]

    def finish(self, values: list[Value]) -> None:
        """Replace numbers of reads of the source by its values."""
        self.reads = [values[v] if isinstance(v, int) else v for v in self.reads]
