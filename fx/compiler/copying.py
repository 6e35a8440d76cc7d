"""Copies of expressions from one nest into another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fx.compiler.maps import Form
from fx.compiler.nest import Nest, form_of, with_form
from fx.compiler.pairs import PARTS
from fx.graph.ir import Value


class Draft:
    """A nest that is being put together, with the values of its reads and writes."""

    def __init__(
        self,
        nest: Nest | None = None,
        reads: list[Value] | None = None,
        writes: list[Value] | None = None,
        root: Callable[[Value], Value] = lambda v: v,
    ) -> None:
        self.nest = Nest() if nest is None else nest
        self.reads = [] if reads is None else list(reads)
        self.writes = [] if writes is None else list(writes)
        self.root = root
        self.known = {root(v): k for k, v in enumerate(self.reads)}

    def read(self, value: Value) -> int:
        """The number of the read of a value."""
        found = self.known.get(self.root(value))
        if found is None:
            found = self.known[self.root(value)] = len(self.reads)
            self.reads.append(value)
            self.nest.reads.append((value.spec.dtype, value.spec.size))
        return found

    def output(self, value: Value, form: Form, e: int) -> None:
        """Store an expression."""
        self.nest.outputs.append((self.write(value), form, e))

    def write(self, value: Value) -> int:
        """The number of a new write."""
        self.nest.writes.append((value.spec.dtype, value.spec.size))
        self.writes.append(value)
        return len(self.writes) - 1

    def parts(self) -> tuple[Nest, list[Value], list[Value]]:
        """The nest, the values that it reads and those that it writes."""
        return self.nest, self.reads, self.writes


class Copy:
    """Copies expressions of ``source`` to a draft.

    Args:
        source: where the expressions are.
        reads: the values of its reads.
        draft: where they go.
        change: what becomes of its forms.
        instead: expressions of the draft that take the place of loads, by value and new form.
    """

    def __init__(
        self,
        source: Nest,
        reads: list[Value],
        draft: Draft,
        change: Callable[[Form], Form] = lambda form: form,
        instead: dict[Any, int] | None = None,
    ) -> None:
        self.source, self.reads, self.draft, self.change = source, reads, draft, change
        self.instead = instead or {}
        self.place: dict[int, int] = {}

    def expr(self, i: int) -> int:
        """The copy of an expression and of what it needs."""
        todo = [i]
        place, exprs, nest = self.place, self.source.exprs, self.draft.nest
        while todo:
            j = todo[-1]
            if j in place:
                todo.pop()
                continue
            e = exprs[j]
            missing = [a for a in e.args if a not in place]
            if missing:
                todo += missing
                continue
            todo.pop()
            form = form_of(e)
            data = e.data if form is None else with_form(e, self.change(form))
            if e.kind == "load":
                value = self.reads[data[0]]
                known = self.instead.get((self.draft.root(value), data[1])) if not e.args else None
                if known is not None:
                    part = nest.exprs[known].args[PARTS.index(e.name)] if e.name else known
                    place[j] = part
                    continue
                data = (self.draft.read(value), data[1])
            place[j] = nest.expr(e.kind, e.name, [place[a] for a in e.args], data, e.dtype)
        return place[i]


def with_reads(
    nest: Nest, reads: list[Value], root: Callable[[Value], Value]
) -> tuple[Nest, list[Value]]:
    """The nest with one read for what is the same memory."""
    draft = Draft(root=root)
    out = draft.nest
    out.sizes, out.outer, out.rows = nest.sizes, nest.outer, nest.rows
    copy = Copy(nest, reads, draft)
    out.outputs = [(w, form, copy.expr(e)) for w, form, e in nest.outputs]
    out.writes = nest.writes
    return out, draft.reads
