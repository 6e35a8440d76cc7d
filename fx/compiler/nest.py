"""Nest: what one loop kernel computes, as hash-consed expressions over its loops.

A nest runs its ``outer`` loops and, for each of their iterations, the ``rows`` loops over which it
reduces. It knows no graph values: reads and writes are numbered, so that equal nests share code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fx.compiler.maps import Form
from fx.dtypes import ALL, float64

NAMES = {dtype: dtype.name for dtype in ALL}  # asking NumPy takes microseconds


class Expr:
    """One expression of a nest.

    Attributes:
        kind: ``load``, ``const``, ``index``, ``inside``, ``op`` or ``reduce``.
        name: the primitive of an ``op`` or ``reduce``; of a load from complex numbers the part.
        args: positions of other expressions in ``nest.exprs``; a load's only one is its guard.
        data: a load's ``(read, form)``; a constant's bytes; an index's form (an i64); for
            ``inside`` a ``(form, low, high)``: low <= form < high; the params of an ``op``.
        dtype: of the value.
    """

    __slots__ = ("args", "data", "dtype", "kind", "name")

    def __init__(self, kind: str, name: str, args: tuple[int, ...], data: Any, dtype: Any) -> None:
        self.kind = kind
        self.name = name
        self.args = args
        self.data = data
        self.dtype = dtype

    def key(self) -> tuple[Any, ...]:
        """What it is, hashable."""
        return self.kind, self.name, self.args, self.data, self.dtype

    def __repr__(self) -> str:
        return f"{self.kind} {self.name}{self.args} {self.data}"


class Nest:
    """Loops and what they compute.

    Attributes:
        sizes: iterations of each loop.
        outer: the loops of which each iteration is independent, outermost first.
        rows: the loops that reductions run over, outermost first.
        exprs: every expression after its arguments.
        outputs: ``(write, form, expression)``; a form without rows is written once a row.
        reads: ``(dtype, elements)`` of each array that is read.
        writes: the same of each array that is written.
        ragged: ``(loop, chunk loop, total)``: of the iterations of ``loop`` only those run whose
            number, counted over all chunks, is below ``total``.
        sinks: ``(write, form, expression, name)``: each task combines the values of its rows by the
            reduction ``name`` into a row of its own of that write, where ``form`` is the place.
        share: iterations of the outer loops that one task takes, for sinks; else 0.
        plan: the plan that was made for it, once it does not change any more.
    """

    __slots__ = (
        "exprs", "outer", "outputs", "plan", "ragged", "reads", "rows", "share", "sinks", "sizes",
        "table", "writes",
    )  # fmt: skip

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.outer: list[int] = []
        self.rows: list[int] = []
        self.exprs: list[Expr] = []
        self.table: dict[Any, int] = {}
        self.outputs: list[tuple[int, Form, int]] = []
        self.reads: list[tuple[Any, int]] = []
        self.writes: list[tuple[Any, int]] = []
        self.ragged: tuple[int, int, int] | None = None
        self.sinks: list[tuple[int, Form, int, str]] = []
        self.share = 0
        self.plan: Any = None

    def expr(self, kind: str, name: str, args: Sequence[int], data: Any, dtype: Any) -> int:
        """The position of an expression, equal ones being one."""
        key = kind, name, tuple(args), data, dtype
        found = self.table.get(key)
        if found is None:
            found = self.table[key] = len(self.exprs)
            self.exprs.append(Expr(kind, name, tuple(args), data, dtype))
        return found

    def constant(self, value: Any, dtype: Any) -> int:
        """A scalar constant."""
        return self.expr("const", "", (), np.asarray(value, dtype=dtype).tobytes(), dtype)

    def op(self, name: str, args: Sequence[int], dtype: Any, params: Any = ()) -> int:
        """A primitive on expressions."""
        return self.expr("op", name, args, params, dtype)

    def key(self) -> Any:
        """What the code depends on."""
        return (
            tuple(self.sizes), tuple(self.outer), tuple(self.rows), self.ragged,
            tuple([(e.kind, e.name, e.args, e.data, NAMES[e.dtype])
                   for e in self.exprs]),
            tuple(self.outputs), tuple(self.sinks), self.share,
            tuple([(NAMES[d], n) for d, n in (*self.reads, *self.writes)]),
        )  # fmt: skip

    def __str__(self) -> str:
        """The loops, then a line an expression; ``r`` are arrays that are read, ``w`` written."""
        loops = [f"i{d} < {self.sizes[d]}" for d in self.outer]
        rows = [f"i{d} < {self.sizes[d]}" for d in self.rows]
        lines = [f"for {', '.join(loops) or 'once'}" + f"; row {', '.join(rows)}" * bool(rows)]
        for i, e in enumerate(self.exprs):
            args = ", ".join([f"e{a}" for a in e.args])
            form = form_of(e)
            told = f"{e.kind} {e.name}({args})" if e.kind in ("op", "reduce") else e.kind
            if e.kind == "load":
                told = (
                    f"r{e.data[0]}{'.' * bool(e.name)}{e.name}[{written(form)}]"
                    + f" if {args}" * bool(args)
                )
            elif form is not None:
                told += f" {written(form)}"
            elif e.kind == "const":
                told = f"{np.frombuffer(e.data, e.dtype)[0]}"
            lines.append(f"    e{i} = {told}: {NAMES[e.dtype]}")
        lines += [f"    w{w}[{written(f)}] = e{e}" for w, f, e in self.outputs]
        lines += [f"    w{w}[task, {written(f)}] {name}= e{e}" for w, f, e, name in self.sinks]
        return "\n".join(lines)

    def forms(self) -> list[Form]:
        """Every affine function of the loops in it."""
        found = [f for _, f, _ in self.outputs] + [f for _, f, _, _ in self.sinks]
        for e in self.exprs:
            form = form_of(e)
            if form is not None:
                found.append(form)
        return found

    def loops_of(self) -> list[frozenset[int]]:
        """For each expression the loops that it depends on; a reduction depends on no rows."""
        rows = frozenset(self.rows)
        found: list[frozenset[int]] = []
        for e in self.exprs:
            form = form_of(e)
            own = frozenset([d for d, _ in form[1]]) if form is not None else frozenset()
            for a in e.args:
                own |= found[a]
            found.append(own - rows if e.kind == "reduce" else own)
        return found

    def phases(self) -> list[int]:
        """For each expression how many passes over a row must have run before it is known."""
        found: list[int] = []
        for e in self.exprs:
            phase = max([found[a] for a in e.args], default=0)
            found.append(phase + (e.kind == "reduce"))
        return found


def written(form: Form) -> str:
    """A form as text, such as ``70*i0 + i1``."""
    terms = [f"{c}*i{d}" if c != 1 else f"i{d}" for d, c in form[1]]
    return " + ".join([*terms, *([str(form[0])] if form[0] or not terms else ())])


def form_of(e: Expr) -> Any:
    """The affine function in an expression, a ``Form``, or None."""
    if e.kind == "load":
        return e.data[1]
    if e.kind == "index":
        return e.data
    return e.data[0] if e.kind == "inside" else None


def with_form(e: Expr, form: Form) -> Any:
    """The data of an expression with another form."""
    if e.kind == "load":
        return (e.data[0], form)
    return form if e.kind == "index" else (form, *e.data[1:])


def rewrite(nest: Nest, change: Callable[[Form], Form]) -> None:
    """Replace every form."""
    exprs, nest.exprs, nest.table = nest.exprs, [], {}
    place: list[int] = []
    for e in exprs:
        form = form_of(e)
        data = e.data if form is None else with_form(e, change(form))
        place.append(nest.expr(e.kind, e.name, [place[a] for a in e.args], data, e.dtype))
    nest.outputs = [(w, change(f), place[e]) for w, f, e in nest.outputs]
    nest.sinks = [(w, change(f), place[e], name) for w, f, e, name in nest.sinks]


def canonical(nest: Nest, resolve: Callable[[Form], Form] = lambda form: form) -> None:
    """Order the loops by how far apart they reach, join those that can be, number them anew.

    Args:
        nest: is changed.
        resolve: what becomes of each form first.
    """
    weights = [(bytes_, dict(resolve(form)[1])) for bytes_, form in accesses(nest)]
    outer = _ordered(nest, nest.outer, weights)
    rows = _ordered(nest, nest.rows, weights)
    sizes = list(nest.sizes)
    strides = [dict(terms) for terms in {resolve(f)[1] for f in nest.forms()}]
    for loops in (outer, rows):
        _join(sizes, loops, strides)
    number = {d: i for i, d in enumerate((*outer, *rows))}

    def change(form: Form) -> Form:
        constant, terms = resolve(form)
        return constant, tuple(sorted([(number[d], c) for d, c in terms if d in number]))

    rewrite(nest, change)
    nest.sizes = [sizes[d] for d in (*outer, *rows)]
    nest.outer = list(range(len(outer)))
    nest.rows = list(range(len(outer), len(number)))


def accesses(nest: Nest) -> list[tuple[float, Form]]:
    """Forms of loads and stores, with the bytes that they move."""
    found = []
    for w, form, _ in nest.outputs:
        found.append((1.5 * nest.writes[w][1] * nest.writes[w][0].itemsize, form))
    for e in nest.exprs:
        if e.kind == "load":
            dtype, n = nest.reads[e.data[0]]
            found.append((n * dtype.itemsize * (0.5 if e.name else 1.0), e.data[1]))
    return found


def _ordered(
    nest: Nest, loops: list[int], weights: list[tuple[float, dict[int, int]]]
) -> list[int]:
    """Loops of one iteration left out; those with the longest strides first.

    The loop along which most bytes lie side by side is innermost; the others lie as in the largest
    array.
    """
    loops = [d for d in loops if nest.sizes[d] > 1]
    if len(loops) < 2:
        return loops
    near = dict.fromkeys(loops, 0.0)
    for bytes_, terms in weights:
        for d, c in terms.items():
            if d in near and abs(c) == 1:
                near[d] += bytes_
    _, best = max(weights, key=lambda w: (len([d for d in w[1] if d in near]), w[0]))
    order = sorted(loops, key=lambda d: (-abs(best.get(d, 0)), d))
    inner = max(order, key=lambda d: (near[d], order.index(d)))
    order.remove(inner)
    return [*order, inner]


def _join(sizes: list[int], loops: list[int], strides: list[dict[int, int]]) -> None:
    """Join neighbouring loops that every access walks as one: the inner one takes both."""
    for i in range(len(loops) - 2, -1, -1):
        a, b = loops[i], loops[i + 1]
        n = sizes[b]
        if all(terms.get(a, 0) == terms.get(b, 0) * n for terms in strides):
            sizes[b] = sizes[a] * n
            del loops[i]


def mixed(dtype: Any, source: Any) -> bool:
    """Whether a reduction to ``dtype`` has more digits than its elements, of ``source``."""
    return bool(dtype == float64 and source != float64)
