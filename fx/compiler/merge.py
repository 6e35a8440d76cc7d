"""Merging: kernels that go through the same data become one.

Two nests with the same loops share what they read. A reduction over the rows of a matrix becomes a
sink of a nest that goes through the same matrix row by row: the gradients of a layer norm are one
kernel. The scalars of a program are computed together.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from fx import limits
from fx.compiler.copying import Copy, Draft
from fx.compiler.halves import simple, sunk
from fx.compiler.maps import Form, strides_of
from fx.compiler.nest import Nest, rewrite
from fx.graph.ir import Value


class Kernel:
    """A nest on its way to a step.

    Attributes:
        nest, reads, writes: what it computes.
        names: the primitives in it.
        lines: the user's lines that asked for it.
        after: kernels that run right after it.
    """

    __slots__ = ("after", "lines", "names", "nest", "reads", "writes")

    def __init__(
        self, nest: Nest, reads: list[Value], writes: list[Value], names: set[str], lines: set[str]
    ) -> None:
        self.nest, self.reads, self.writes = nest, reads, writes
        self.names, self.lines = names, lines
        self.after: list[Kernel] = []

    def all_writes(self) -> list[Value]:
        """What it and the kernels after it write."""
        return [*self.writes, *[v for k in self.after for v in k.all_writes()]]


def merge(units: list[Any], root: Callable[[Value], Value]) -> list[Any]:
    """Merge kernels of a schedule; other units, which have ``reads`` and ``writes``, stay."""
    return _Merger(units, root).run()


class _Merger:
    def __init__(self, units: list[Any], root: Callable[[Value], Value]) -> None:
        self.units: list[Any] = list(units)
        self.root = root
        self.written: dict[Value, int] = {}  # by root value, the position of the unit
        self.readers: dict[Value, list[int]] = {}
        for i, unit in enumerate(self.units):
            self._enter(i, unit)

    def _enter(self, i: int, unit: Any) -> None:
        for v in unit.all_writes() if isinstance(unit, Kernel) else unit.writes:
            self.written[v] = i
        for v in self._reads(unit):
            self.readers.setdefault(v, []).append(i)

    def _reads(self, unit: Any) -> list[Value]:
        reads = list(unit.reads)
        if isinstance(unit, Kernel):
            reads += [v for k in unit.after for v in k.reads]
        return [self.root(v) for v in reads]

    def run(self) -> list[Any]:
        """All of it."""
        scalars: list[int] = []
        for j in range(len(self.units)):
            unit = self.units[j]
            if not isinstance(unit, Kernel):
                continue
            if not unit.nest.sizes:
                for i in scalars[-limits.MERGE_TRIES :]:
                    if self.units[i] is not None and self._try(i, j):
                        break
                if self.units[j] is not None:
                    scalars.append(j)
                continue
            tried: set[int] = set()
            for i in self._neighbours(j):
                if i not in tried:
                    tried.add(i)
                    free = isinstance(self.units[i], Kernel)
                    if free and self._try(i, j) and self.units[j] is None:
                        break
        return [u for u in self.units if u is not None]

    def _neighbours(self, j: int) -> list[int]:
        """Kernels that share large reads with the one at ``j``, the nearest first."""
        found: list[int] = []
        for v in self._reads(self.units[j]):
            if v.spec.nbytes >= limits.MERGE_BYTES:
                readers = self.readers[v]
                at = [i for i in readers[-limits.MERGE_READERS :] if i < j][-limits.MERGE_TRIES :]
                if v in self.written:
                    at.append(self.written[v])
                found += [i for i in at if i != j and self.units[i] is not None]
        return sorted(set(found), reverse=True)

    def _try(self, i: int, j: int) -> bool:
        """Merge the kernels at ``i`` and ``j`` (i < j) if that is possible."""
        a, b = self.units[i], self.units[j]
        if len(a.nest.exprs) + len(b.nest.exprs) > limits.MERGE_EXPRS:
            return False
        if len(a.reads) + len(b.reads) + len(a.writes) + len(b.writes) > limits.MERGE_ARRAYS:
            return False
        wanted = [self.written.get(v, -1) for v in self._reads(b)]
        if all(p <= i for p in wanted):  # all that b reads is there when a runs
            place, gone = i, j
        elif all(
            p >= j
            for v in a.all_writes()
            for p in self.readers.get(v, ())
            if p != i and self.units[p] is not None
        ):  # nobody reads what a writes before b runs
            place, gone = j, i
        else:
            return False
        made = joined(a, b, self.root)
        if made is None:
            return False
        self.units[gone] = None
        self.units[place] = made
        self._enter(place, made)
        return True


def without_unread(
    units: list[Any], outputs: set[Value], root: Callable[[Value], Value]
) -> list[Any]:
    """The units without the stores of what was read by a kernel that has become part of its own."""
    read = set(outputs)
    for unit in units:
        todo = [unit]
        while todo:
            some = todo.pop()
            read.update(map(root, some.reads))
            todo += some.after if isinstance(some, Kernel) else ()
    for unit in units:
        if isinstance(unit, Kernel) and not read.issuperset(unit.writes):
            _keep(unit, read, root)
    return units


def _keep(kernel: Kernel, read: set[Value], root: Callable[[Value], Value]) -> None:
    """Store nothing but what is read, and what sinks write."""
    nest = kernel.nest
    target = Draft(root=root)
    out = target.nest
    out.sizes, out.outer, out.rows = nest.sizes, nest.outer, nest.rows
    out.ragged, out.share = nest.ragged, nest.share
    copy = Copy(nest, kernel.reads, target)
    for w, form, e in nest.outputs:
        if kernel.writes[w] in read:
            target.output(kernel.writes[w], form, copy.expr(e))
    for w, form, e, name in nest.sinks:
        out.sinks.append((target.write(kernel.writes[w]), form, copy.expr(e), name))
    kernel.nest, kernel.reads, kernel.writes = target.parts()


def joined(a: Kernel, b: Kernel, root: Callable[[Value], Value]) -> Kernel | None:
    """One kernel that does ``a``, then ``b``; None where their loops do not fit."""
    if b.after or b.nest.sinks:
        if a.after or a.nest.sinks or {root(v) for v in b.reads} & set(a.all_writes()):
            return None
        a, b = b, a  # nothing of the one is read by the other
    late = {v for k in a.after for v in k.all_writes()}
    if any(root(v) in late for v in b.reads):
        return None
    return _side_by_side(a, b, root) or _crossed(a, b, root) or _crossed(b, a, root, swapped=True)


def _stored(draft: Draft) -> dict[Any, int]:
    """What a nest stores: its expressions by value and form."""
    return {(draft.root(draft.writes[w]), form): e for w, form, e in draft.nest.outputs}


def _fresh(a: Kernel, root: Callable[[Value], Value]) -> Draft:
    """A copy of a kernel's nest that may be changed."""
    draft = Draft(_copied(a.nest), a.reads, a.writes, root)
    return draft


def _copied(nest: Nest) -> Nest:
    out = Nest()
    out.sizes, out.outer, out.rows = list(nest.sizes), list(nest.outer), list(nest.rows)
    out.exprs, out.table = list(nest.exprs), dict(nest.table)
    out.outputs, out.sinks = list(nest.outputs), list(nest.sinks)
    out.reads, out.writes = list(nest.reads), list(nest.writes)
    out.ragged, out.share = nest.ragged, nest.share
    return out


def _shape(nest: Nest, loops: list[int]) -> list[int]:
    return [nest.sizes[d] for d in loops]


def _sound(b: Kernel, copy: Copy, a_writes: set[Value], root: Callable[[Value], Value]) -> bool:
    """Whether each load of ``b`` from what ``a`` writes was replaced by its expression."""
    return not any(root(v) in a_writes for v in copy.draft.reads)


def _side_by_side(a: Kernel, b: Kernel, root: Callable[[Value], Value]) -> Kernel | None:
    """Both in the same loops."""
    nest, other = _copied(a.nest), _copied(b.nest)
    if bool(nest.rows) != bool(other.rows):  # (n * k) elements beside rows: loops (n) and rows (k)
        whole, plain = (nest, other) if nest.rows else (other, nest)
        if not _with_rows(plain, _shape(whole, whole.outer), _shape(whole, whole.rows)):
            return None
    unlike = not other.rows and not nest.rows and len(nest.outer) != len(other.outer)
    if unlike and not _unfold(nest, other.sizes) and not _unfold(other, nest.sizes):
        return None
    if _shape(nest, nest.outer) != _shape(other, other.outer):
        return None
    if _shape(nest, nest.rows) != _shape(other, other.rows):
        return None
    if nest.sizes and not _related(a, b, nest, other, root):
        return None
    number = dict(zip((*other.outer, *other.rows), (*nest.outer, *nest.rows)))

    def renamed(form: Form) -> Form:
        return form[0], tuple(sorted([(number[d], c) for d, c in form[1]]))

    draft = Draft(nest, a.reads, a.writes, root)
    copy = Copy(other, b.reads, draft, renamed, _stored(draft))
    for w, form, e in other.outputs:
        draft.output(b.writes[w], renamed(form), copy.expr(e))
    if not _sound(b, copy, set(a.writes), root) or not _bearable(draft.nest):
        return None
    made = Kernel(*draft.parts(), a.names | b.names, a.lines | b.lines)
    made.after = list(a.after)
    return made


def _related(a: Kernel, b: Kernel, nest: Nest, other: Nest, root: Callable[[Value], Value]) -> bool:
    """Whether they read one array at the same places, or one reads there what the other writes."""
    mine = {(root(a.reads[e.data[0]]), e.data[1]) for e in nest.exprs if e.kind == "load"}
    mine |= {(root(a.writes[w]), form) for w, form, _ in nest.outputs}
    for e in other.exprs:
        if e.kind == "load":
            v = root(b.reads[e.data[0]])
            if v.spec.nbytes >= limits.MERGE_BYTES and (v, e.data[1]) in mine:
                return True
    return False


def _crossed(
    a: Kernel, b: Kernel, root: Callable[[Value], Value], swapped: bool = False
) -> Kernel | None:
    """Reductions of ``b`` over what are the outer loops of ``a``, as sinks of ``a``.

    With x (n, k): ``a`` goes through x row by row, outer (n), rows (k) or none; ``b`` sums its
    columns, outer (k), rows (n). As a sink of ``a`` each task adds its rows to a row (k) of its
    own, and ``second`` adds up what the tasks have, (tasks, k) -> (k).
    """
    if b.nest.sinks or b.after or not b.nest.rows or not simple(b.nest):
        return None
    if swapped and {root(v) for v in a.reads} & set(b.writes):
        return None  # b runs first, and a needs its results
    outer, rows = _shape(b.nest, b.nest.rows), _shape(b.nest, b.nest.outer)
    if prod(outer) < limits.MERGE_ROWS or prod(rows) < limits.MERGE_COLUMNS:
        return None
    nest = _copied(a.nest)
    if not nest.rows and not _with_rows(nest, outer, rows):
        return None
    if _shape(nest, nest.outer) != outer or _shape(nest, nest.rows) != rows:
        return None
    draft = Draft(nest, a.reads, a.writes, root)
    number = dict(zip((*b.nest.rows, *b.nest.outer), (*nest.outer, *nest.rows)))
    turned = _copied(b.nest)
    rewrite(turned, lambda f: (f[0], tuple(sorted([(number[d], c) for d, c in f[1]]))))
    if not _related(a, b, nest, turned, root):
        return None
    second = sunk(draft, b.nest, b.reads, b.writes, _stored(draft))
    if any(root(v) in set(a.writes) for v in (*draft.reads, *second.reads)):
        return None
    made = Kernel(*draft.parts(), a.names | b.names, a.lines | b.lines)
    made.after = [*a.after, Kernel(*second.parts(), b.names, b.lines)]
    return made


def _with_rows(nest: Nest, outer: list[int], rows: list[int]) -> bool:
    """Make the last loops of an elementwise nest its rows; False where the sizes do not fit."""
    sizes = [*outer, *rows]
    if _shape(nest, nest.outer) != sizes and not _unfold(nest, sizes):
        return False
    nest.rows, nest.outer = nest.outer[len(outer) :], nest.outer[: len(outer)]
    return True


def _bearable(nest: Nest) -> bool:
    """Whether its rows are short enough for one task, if they are passed over several times."""
    length = prod(_shape(nest, nest.rows))
    return (
        length <= limits.LONG_ROW or not any(e.kind == "reduce" for e in nest.exprs) or simple(nest)
    )


def _unfold(nest: Nest, sizes: list[int]) -> bool:
    """Replace the only loop by several of the given sizes."""
    if nest.rows or len(nest.outer) != 1 or prod(sizes) != nest.sizes[0] or len(sizes) < 2:
        return False
    strides = strides_of(sizes)

    def unfolded(form: Form) -> Form:
        for _, c in form[1]:
            return form[0], tuple([(d, c * s) for d, s in enumerate(strides)])
        return form

    nest.sizes, nest.outer = list(sizes), list(range(len(sizes)))
    rewrite(nest, unfolded)
    return True
