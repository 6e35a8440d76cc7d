"""Sums along rows and down columns of dense arrays, with accumulators in float64.

A sum of float32 is so the rounded true sum, whatever its length, its order and its axis; it costs
two conversions a vector, which are hidden behind the memory. A sum of float64 has the blocks that
its caller makes, so that no accumulator takes up more than a few hundred numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from fx.backends.cpu.llvm import ir as v
from fx.backends.cpu.llvm.any_size.blocks import Rows

_VECTORS = 4  # side by side, each with accumulators of its own
_GROUP = 8  # wide rows that are read side by side


def emit(module: ir.Module, dtype: Any, name: str) -> None:
    """Add a kernel."""
    words, function = _FUNCTIONS[name.partition("_")[0]]
    given = "float64" if dtype == "float64" else "float32"
    kind = _KINDS[name.partition("_to_")[2] or given]
    Rows(module, dtype, name, words, lambda r, task, *a: function(r, kind, task, *a))


def block_of(itemsize: int) -> int:
    """How many columns a task takes."""
    return _VECTORS * v.target().vector_bytes // itemsize


_KINDS = {"float32": v.f32, "float64": v.f64}


class _Sums:
    """The accumulators of ``_VECTORS`` vectors, and what is done with them."""

    def __init__(self, r: Rows) -> None:
        self.r, self.b = r, r.b
        self.kind = ir.VectorType(v.f64, r.width)
        self.start = [v.zeros(v.f64, r.width)] * _VECTORS
        self.step = _VECTORS * r.width

    def added(self, base: Any, i: Any, count: Any, sums: Any) -> list[Any]:
        """``sums`` and the elements from ``i`` on: all that fit, or ``count`` of them."""
        b, r, found = self.b, self.r, []
        for k, total in enumerate(sums):
            at = b.add(i, v.const(k * r.width))
            mask = None
            if count is not None:
                mask = v.first_lanes(b, b.sub(count, v.const(k * r.width)), r.width)
            x = r.load(base, at, mask).v
            found.append(b.fadd(total, x if r.size == 8 else b.fpext(x, self.kind)))
        return found

    def put(self, total: Any, kind: Any, out: Any, at: Any, mask: Any = None) -> None:
        """Store a scalar, or the lanes of a vector where the mask is on, as ``kind``."""
        b = self.b
        one = mask is None
        if kind is v.f32:
            total = b.fptrunc(total, kind if one else ir.VectorType(kind, self.r.width))
        at = v.at(b, out, at, kind)
        if one:
            b.store(total, at, align=v.size_of(kind))
        else:
            v.store(b, total, at, mask)


def _rows(
    r: Rows, kind: ir.Type, task: ir.Value, x: ir.Value, out: ir.Value, n: ir.Value,
    chunk: ir.Value, chunks: ir.Value,
) -> None:  # fmt: skip
    """out[task] is the sum of chunk ``task % chunks`` of row ``task // chunks`` of n elements."""
    b, s = r.b, _Sums(r)
    row = b.sdiv(task, chunks)
    first = b.mul(b.sub(task, b.mul(row, chunks)), chunk)
    x = v.at(b, r.row(x, row, n), first, r.kind)
    count = v.smaller(b, b.sub(n, first), chunk)
    whole = b.mul(b.udiv(count, v.const(s.step)), v.const(s.step))
    sums = v.loop(
        b, v.const(0), whole, lambda i, *t: s.added(x, i, None, t), s.start, s.step, "vectors"
    )
    sums = v.loop(
        b, whole, count, lambda i, *t: s.added(x, i, b.sub(count, i), t), sums, s.step, "tail"
    )
    while len(sums) > 1:
        sums = [b.fadd(a, c) for a, c in zip(sums[::2], sums[1::2], strict=True)]
    total = v.sums_of_lanes(b, sums)
    s.put(b.extract_element(total, ir.Constant(v.i32, 0)), kind, out, task)


def _columns(
    r: Rows, kind: ir.Type, task: ir.Value, x: ir.Value, out: ir.Value, n: ir.Value,
    inner: ir.Value, period: ir.Value, chunk: ir.Value, chunks: ir.Value, blocks: ir.Value,
) -> None:  # fmt: skip
    """Sums over n of x (outer, n, inner): (outer, chunks, period), of ``chunk`` rows each.

    A chunk is read as rows of ``period`` elements, a multiple of ``inner``, so that few columns
    fill a vector; where it does not go up, a last row is short. A task is a block of columns.
    """
    b, s = r.b, _Sums(r)
    line = b.sdiv(task, blocks)
    first = b.mul(b.sub(task, b.mul(line, blocks)), v.const(s.step))  # column
    one = b.sdiv(line, chunks)
    start = b.mul(b.sub(line, b.mul(one, chunks)), chunk)  # row
    begin = b.add(b.mul(b.add(b.mul(one, n), start), inner), first)
    x = v.at(b, x, begin, r.kind)
    elements = b.mul(v.smaller(b, b.sub(n, start), chunk), inner)
    rows = b.udiv(elements, period)
    whole = b.mul(rows, period)
    columns = b.sub(period, first)
    out_at = b.add(b.mul(line, period), first)

    def sums_of(count: Any, vectors: int = _VECTORS) -> list[Any]:
        def row(i: ir.Value, *sums: ir.Value) -> list[ir.Value]:
            return s.added(x, b.mul(i, period), count, sums)

        found = v.loop(b, v.const(0), rows, row, s.start[:vectors], name="row")
        return found + s.start[vectors:]

    done = b.function.append_basic_block("sums")
    ways = [
        (b.icmp_signed(">=", columns, v.const(s.step)), None, _VECTORS),
        (b.icmp_signed("<=", columns, v.const(r.width)), columns, 1),
        (None, columns, _VECTORS),
    ]
    found = []
    for test, count, vectors in ways:
        if test is not None:
            mine, others = (b.function.append_basic_block("way") for _ in range(2))
            b.cbranch(test, mine, others)
            b.position_at_end(mine)
        found.append((sums_of(count, vectors), b.block))
        b.branch(done)
        if test is not None:
            b.position_at_end(others)
    b.position_at_end(done)
    sums = []
    for k in range(_VECTORS):
        phi = b.phi(s.kind)
        for values, block in found:
            phi.add_incoming(values[k], block)
        sums.append(phi)
    short = b.sub(b.sub(elements, whole), first)
    sums = s.added(x, whole, short, sums)
    for k, total in enumerate(sums):
        mask = v.first_lanes(b, b.sub(columns, v.const(k * r.width)), r.width)
        s.put(total, kind, out, b.add(out_at, v.const(k * r.width)), mask)


def _wide_columns(
    r: Rows, kind: ir.Type, task: ir.Value, x: ir.Value, out: ir.Value, n: ir.Value,
    inner: ir.Value, chunk: ir.Value, chunks: ir.Value,
) -> None:  # fmt: skip
    """The same of rows of ``inner`` elements each, whose sums lie in memory while they grow.

    Memory is read in as many streams as there are rows in a group; a block of columns that went
    down by itself would touch another page with each row.
    """
    b, wide = r.b, ir.VectorType(v.f64, r.width)
    one = b.sdiv(task, chunks)
    start = b.mul(b.sub(task, b.mul(one, chunks)), chunk)
    x = r.row(x, b.add(b.mul(one, n), start), inner)
    out = v.at(b, out, b.mul(task, inner), v.f64)
    rows = v.smaller(b, b.sub(n, start), chunk)
    whole = b.mul(b.udiv(rows, v.const(_GROUP)), v.const(_GROUP))
    at = lambda i: v.at(b, out, i, v.f64)
    r.each(inner, lambda i, mask: v.store(b, v.zeros(v.f64, r.width), at(i), mask))

    def group(count: int) -> Callable[..., None]:
        def body(first: ir.Value) -> None:
            lines = [r.row(x, b.add(first, v.const(k)), inner) for k in range(count)]

            def columns(i: ir.Value, mask: Any) -> None:
                terms = [r.load(line, i, mask).v for line in lines]
                terms = terms if r.size == 8 else [b.fpext(t, wide) for t in terms]
                while len(terms) > 1:
                    terms = [b.fadd(s, t) for s, t in zip(terms[::2], terms[1::2], strict=True)]
                before = v.load(b, at(i), v.f64, r.width, mask)
                v.store(b, b.fadd(before, terms[0]), at(i), mask)

            r.each(inner, columns)

        return body

    v.loop(b, v.const(0), whole, group(_GROUP), step=_GROUP, name="group")
    v.loop(b, whole, rows, group(1), name="row")


_FUNCTIONS: dict[str, tuple[str, Callable[..., None]]] = {
    "rows": ("aaiii", _rows),
    "columns": ("aaiiiiii", _columns),
    "wide": ("aaiiii", _wide_columns),  # to float64
}
