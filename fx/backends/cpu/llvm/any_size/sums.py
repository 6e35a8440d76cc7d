"""Sums along rows and down columns of dense arrays, with accumulators in float64.

On a CPU that converts half a vector at a time conversions cost more than the memory, so four
numbers of float32 are added up before float64 takes them. Which four depends on their places along
the axis alone, never on how it lies or how long a vector is: of each whole block of 64 those 16
apart, as (x[i] + x[i + 16]) + (x[i + 32] + x[i + 48]); float64 takes the others one by one. From
there on the order does not show, since a sum of float32 is rounded once. ``near`` says how many
numbers along the axis lie in such blocks. A sum of float64 has the blocks that its caller makes, so
that no accumulator takes up more than a few hundred numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from llvmlite import ir

from fx.backends.cpu.llvm import ir as v
from fx.backends.cpu.llvm.any_size import APART, BLOCK, LINES, MOST_APART
from fx.backends.cpu.llvm.any_size.blocks import Rows

_FOUR = range(BLOCK // APART)
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
    """The accumulators of ``_VECTORS`` vectors, and what is done with them.

    Args:
        r: the rows that are added up.
        apart: how many places each element lies behind the one before.
    """

    def __init__(self, r: Rows, apart: int = 1) -> None:
        self.r, self.b, self.apart = r, r.b, apart
        self.kind = ir.VectorType(v.f64, r.width)
        self.start = [v.zeros(v.f64, r.width)] * _VECTORS
        self.step = _VECTORS * r.width

    def vector(self, base: Any, i: Any, count: Any, k: int) -> Any:
        """Vector ``k`` from element ``i`` on: all of it, or what ``count`` leaves."""
        b, width = self.b, self.r.width
        mask = None
        if count is not None:
            mask = v.first_lanes(b, b.sub(count, v.const(k * width)), width)
        i = b.add(i, v.const(k * width))
        if self.apart == 1:
            return self.r.load(base, i, mask).v
        return self.gathered(self.r.row(base, i, v.const(self.apart)), mask)

    def gathered(self, base: Any, mask: Any) -> Any:
        """Elements that lie apart: of whole vectors, none of which goes beyond the last of them."""
        b, width, step = self.b, self.r.width, self.apart
        if mask is not None:
            places = v.numbers(v.i64, [step * j for j in range(width)])
            return v.gather(b, base, places, mask, ir.VectorType(self.r.kind, width))
        end = step * (width - 1) + 1
        found = None
        for k in range(step):
            first = min(k * width, end - width)
            part = self.r.load(base, v.const(first)).v
            if found is None:
                found = part
            inside = range(k * width, (k + 1) * width)  # of which this vector has those needed
            lanes = [width + step * j - first if step * j in inside else j for j in range(width)]
            if k == 0:
                lanes = [n - width if n >= width else n for n in lanes]
            found = v.shuffle(b, found, part, lanes)
        return found

    def added(self, base: Any, i: Any, count: Any, sums: Any) -> list[Any]:
        """``sums`` and the elements from ``i`` on: all that fit, or ``count`` of them."""
        return [
            self.b.fadd(total, self.widened(self.vector(base, i, count, k)))
            for k, total in enumerate(sums)
        ]

    def widened(self, x: Any) -> Any:
        """In float64."""
        return x if self.r.size == 8 else self.b.fpext(x, self.kind)

    def tree(self, terms: Sequence[Any]) -> Any:
        """The sum of vectors, pairs with pairs."""
        while len(terms) > 1:
            pairs = zip(terms[::2], terms[1::2], strict=True)
            terms = [self.b.fadd(x, y) for x, y in pairs]
        return terms[0]

    def within(self, near: Any, start: Any, count: Any) -> Any:
        """How many of ``count`` places from ``start`` on lie in blocks."""
        return v.larger(self.b, v.const(0), v.smaller(self.b, self.b.sub(near, start), count))

    def put(self, total: Any, kind: Any, out: Any, at: Any, mask: Any = None) -> None:
        """Store a scalar, or the lanes of a vector where the mask is on, as ``kind``."""
        b = self.b
        one = mask is None
        if kind is v.f32:
            total = b.fptrunc(total, kind if one else ir.VectorType(kind, total.type.count))
        at = v.at(b, out, at, kind)
        if one:
            b.store(total, at, align=v.size_of(kind))
        else:
            v.store(b, total, at, mask)


def _total(s: _Sums, x: Any, count: Any, begun: Any, apart: Any) -> list[Any]:
    """Vectors whose lanes are the sum of ``count`` elements, the first ``begun`` in blocks.

    ``apart`` is 16 elements, or 16 rows where what is added up is several axes.
    """
    r, b = s.r, s.r.b
    sums = s.start

    def each(low: Any, high: Any, sums: Any, vectors: int, masked: bool, name: str) -> list[Any]:
        step = vectors * r.width
        left = lambda i: b.sub(count, i) if masked else None
        return v.loop(b, low, high, lambda i, *t: s.added(x, i, left(i), t), sums, step, name)

    def rounded(low: Any, step: int) -> Any:
        return b.add(low, b.mul(b.udiv(b.sub(count, low), v.const(step)), v.const(step)))

    if r.size == 4:
        whole = b.mul(apart, v.const(len(_FOUR)))

        def block(q: ir.Value, *sums: ir.Value) -> list[ir.Value]:
            at = b.mul(q, whole)

            def tree(i: ir.Value, total: ir.Value) -> list[ir.Value]:
                for k in range(0, APART, r.width):
                    places = [b.add(b.add(at, i), b.mul(apart, v.const(j))) for j in _FOUR]
                    terms = [s.vector(x, b.add(p, v.const(k)), None, 0) for p in places]
                    total = b.fadd(total, s.widened(s.tree(terms)))
                return [total]

            return v.loop(b, v.const(0), apart, tree, sums, APART, "tree")

        turns = b.udiv(begun, whole)
        sums = v.loop(b, v.const(0), turns, block, sums[:1], name="block") + sums[1:]
    whole = rounded(begun, s.step)
    sums = each(begun, whole, sums, _VECTORS, False, "vectors")
    if r.size == 4:  # in any order
        sums, begun = [s.tree(sums)], whole
        whole = rounded(begun, r.width)
        sums = each(begun, whole, sums, 1, False, "vector")
    return each(whole, count, sums, len(sums), True, "tail")


def _rows(
    r: Rows, kind: ir.Type, task: ir.Value, x: ir.Value, out: ir.Value, n: ir.Value,
    chunk: ir.Value, chunks: ir.Value, near: ir.Value, apart: ir.Value, pitch: ir.Value,
    step: int = 1,
) -> None:  # fmt: skip
    """out[task] is the sum of chunk ``task % chunks`` of row ``task // chunks`` of n elements.

    Rows lie ``pitch`` places apart, and their elements ``step``.
    """
    b, s = r.b, _Sums(r, step)
    row = b.sdiv(task, chunks)
    first = b.mul(b.sub(task, b.mul(row, chunks)), chunk)
    x = r.row(r.row(x, row, pitch), first, v.const(step))
    count = v.smaller(b, b.sub(n, first), chunk)
    sums = _total(s, x, count, s.within(near, first, count) if r.size == 4 else v.const(0), apart)
    total = v.sums_of_lanes(b, [s.tree(sums)])
    s.put(b.extract_element(total, ir.Constant(v.i32, 0)), kind, out, task)


def _lines(
    r: Rows, kind: ir.Type, task: ir.Value, x: ir.Value, out: ir.Value, n: ir.Value,
    near: ir.Value, rows: ir.Value, pitch: ir.Value,
) -> None:  # fmt: skip
    """Sums of a few rows of n elements, whose lanes are added up together."""
    b, s = r.b, _Sums(r)
    first = b.mul(task, v.const(LINES))
    totals = []
    for k in range(LINES):
        row = v.smaller(b, b.add(first, v.const(k)), b.sub(rows, v.const(1)))
        totals.append(s.tree(_total(s, r.row(x, row, pitch), n, near, v.const(APART))))
    mask = v.first_lanes(b, v.smaller(b, b.sub(rows, first), v.const(LINES)), LINES)
    s.put(v.sums_of_lanes(b, totals), kind, out, first, mask)


def _columns(
    r: Rows, kind: ir.Type, task: ir.Value, x: ir.Value, out: ir.Value, n: ir.Value,
    inner: ir.Value, period: ir.Value, chunk: ir.Value, chunks: ir.Value, blocks: ir.Value,
    near: ir.Value,
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
    count = v.smaller(b, b.sub(n, start), chunk)
    elements = b.mul(count, inner)
    rows = b.udiv(elements, period)
    whole = b.mul(rows, period)
    columns = b.sub(period, first)
    out_at = b.add(b.mul(line, period), first)
    apart = b.mul(inner, v.const(APART))  # elements, of whole periods
    begun = v.const(0)
    if r.size == 4:
        begun = b.mul(s.within(near, start, count), inner)  # elements

    def sums_of(count: Any, vectors: int) -> list[Any]:
        def trees(i: ir.Value, *sums: ir.Value) -> list[ir.Value]:
            places = [b.add(i, b.mul(apart, v.const(k))) for k in _FOUR]
            return [
                b.fadd(t, s.widened(s.tree([s.vector(x, p, count, k) for p in places])))
                for k, t in enumerate(sums)
            ]

        def block(i: ir.Value, *sums: ir.Value) -> list[ir.Value]:
            at = b.mul(i, b.mul(apart, v.const(len(_FOUR))))
            rows = b.udiv(apart, period)
            turn = lambda q, *t: trees(b.add(at, b.mul(q, period)), *t)
            return v.loop(b, v.const(0), rows, turn, sums, name="trees")

        def row(i: ir.Value, *sums: ir.Value) -> list[ir.Value]:
            return s.added(x, b.mul(i, period), count, sums)

        def few(i: ir.Value, total: ir.Value) -> list[ir.Value]:
            places = [b.mul(b.add(i, v.const(k)), period) for k in _FOUR]
            terms = [s.widened(s.vector(x, p, count, 0)) for p in places]
            return [b.fadd(total, s.tree(terms))]

        found, gone = s.start[:vectors], v.const(0)
        if r.size == 4:
            steps = b.udiv(begun, b.mul(apart, v.const(len(_FOUR))))
            found = v.loop(b, v.const(0), steps, block, found, name="block")
            gone = b.udiv(begun, period)
            if vectors == 1:  # of which one a turn would wait for the one before
                whole = b.add(gone, b.and_(b.sub(rows, gone), v.const(-len(_FOUR))))
                found = v.loop(b, gone, whole, few, found, len(_FOUR), "rows")
                gone = whole
        found = v.loop(b, gone, rows, row, found, name="row")
        return found + s.start[vectors:]

    done = b.function.append_basic_block("sums")
    fewer = range(1, _VECTORS)
    ways = [
        (b.icmp_signed(">=", columns, v.const(s.step)), None, _VECTORS),
        *[(b.icmp_signed("<=", columns, v.const(k * r.width)), columns, k) for k in fewer],
        (None, columns, _VECTORS),
    ]
    found = []
    for test, some, vectors in ways:
        if test is not None:
            mine, others = (b.function.append_basic_block("way") for _ in range(2))
            b.cbranch(test, mine, others)
            b.position_at_end(mine)
        found.append((sums_of(some, vectors), b.block))
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
    inner: ir.Value, chunk: ir.Value, chunks: ir.Value, near: ir.Value,
) -> None:  # fmt: skip
    """The same of rows of ``inner`` elements each, whose sums lie in memory while they grow.

    Memory is read in as many streams as there are rows in a group; a block of columns that went
    down by itself would touch another page with each row.
    """
    b, s = r.b, _Sums(r)
    one = b.sdiv(task, chunks)
    start = b.mul(b.sub(task, b.mul(one, chunks)), chunk)
    x = r.row(x, b.add(b.mul(one, n), start), inner)
    out = v.at(b, out, b.mul(task, inner), v.f64)
    rows = v.smaller(b, b.sub(n, start), chunk)
    at = lambda i: v.at(b, out, i, v.f64)
    r.each(inner, lambda i, mask: v.store(b, v.zeros(v.f64, r.width), at(i), mask))

    def group(first: ir.Value, trees: Sequence[Sequence[int]]) -> None:
        """Add rows so far behind ``first``; those of a tree before float64 takes them."""
        lines = [[r.row(x, b.add(first, v.const(k)), inner) for k in tree] for tree in trees]

        def columns(i: ir.Value, mask: Any) -> None:
            found = [s.tree([r.load(line, i, mask).v for line in tree]) for tree in lines]
            before = v.load(b, at(i), v.f64, r.width, mask)
            v.store(b, b.fadd(before, s.tree([s.widened(t) for t in found])), at(i), mask)

        r.each(inner, columns)

    begun = v.const(0)
    if r.size == 4:
        begun = s.within(near, start, rows)
        side = _GROUP // len(_FOUR)
        trees = [[k + APART * j for j in _FOUR] for k in range(side)]

        def block(i: ir.Value) -> None:
            v.loop(b, i, b.add(i, v.const(APART)), lambda q: group(q, trees), step=side)

        v.loop(b, v.const(0), begun, block, step=BLOCK, name="block")
    whole = b.add(begun, b.mul(b.udiv(b.sub(rows, begun), v.const(_GROUP)), v.const(_GROUP)))
    each = [[k] for k in range(_GROUP)]
    v.loop(b, begun, whole, lambda i: group(i, each), step=_GROUP, name="group")
    v.loop(b, whole, rows, lambda i: group(i, each[:1]), name="row")


_FUNCTIONS: dict[str, tuple[str, Callable[..., None]]] = {
    "rows": ("aaiiiiii", _rows),
    **{f"rows{step}": ("aaiiiiii", partial(_rows, step=step)) for step in range(2, MOST_APART + 1)},
    "lines": ("aaiiii", _lines),
    "columns": ("aaiiiiiii", _columns),
    "wide": ("aaiiiii", _wide_columns),  # to float64
}
