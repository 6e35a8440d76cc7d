"""Flat nests: elementwise work on arrays of one length, whose code serves every length.

Kernels of one body but different lengths share a function of the module, and several arrays can be
the tasks of one step: the parameters of a model are updated in one kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

from llvmlite import ir

from fx import limits
from fx.backends.cpu.llvm.ir import const, i64, kernel, larger, pointer, smaller, times, void
from fx.compiler.nest import NAMES, Nest, form_of
from fx.compiler.plan import Plan
from fx.compiler.step import Step
from fx.graph.ir import Value

_LINE = (0, ((0, 1),))
_SCALAR: tuple[int, tuple[()]] = (0, ())


def is_flat(nest: Nest) -> bool:
    """Whether it has one loop, along which every array lies as it is or does not depend on it."""
    if nest.rows or len(nest.sizes) != 1:
        return False
    for e in nest.exprs:
        if e.kind not in ("load", "const", "op") or (e.kind == "load" and e.args):
            return False
        if form_of(e) not in (None, _LINE, _SCALAR):
            return False
    return all(form == _LINE for _, form, _ in nest.outputs)


def flat_key(nest: Nest) -> Any:
    """What the code of a flat nest depends on: everything but its length."""
    return (
        tuple([(e.kind, e.name, e.args, e.data, NAMES[e.dtype]) for e in nest.exprs]),
        tuple(nest.outputs),
        tuple([NAMES[d] for d, _ in (*nest.reads, *nest.writes)]),
    )


class FlatStep(Step):
    """Flat nests of one body, one after the other.

    Args:
        plan: of one of them.
        parts: for each the values that it reads and those that it writes.
        name: for listings.
        lines: the user's lines that asked for it.
        root: the value whose memory another one is.
    """

    def __init__(
        self,
        plan: Plan,
        parts: Sequence[tuple[Sequence[Value], Sequence[Value]]],
        name: str,
        lines: Sequence[str] = (),
        root: Callable[[Value], Value] = lambda v: v,
    ) -> None:
        self.plan, self.parts = plan, list(parts)
        self.nest = nest = plan.nest
        self.lengths = [writes[0].spec.size for _, writes in parts]
        self.body = flat_key(nest)
        total = sum(self.lengths)
        self.cost = 20.0 + (plan.cost - 20.0) * total / nest.sizes[0]
        step = plan.lanes * plan.unroll
        each = max(self.cost / total, 1e-3)  # nanoseconds an element
        self.chunk = max(step, int(limits.TASK / each) // step * step)
        counts = [-(-n // self.chunk) for n in self.lengths]
        self.starts = [sum(counts[:i]) for i in range(len(counts))]
        self.tasks = sum(counts)
        self.counts = counts
        places: dict[Value, int] = {}
        for reads, _ in parts:
            for v in reads:
                places.setdefault(root(v), len(places))
        self.places = [[places[root(v)] for v in reads] for reads, _ in parts]
        self.reads = tuple(places)
        self.writes = tuple([v for _, writes in parts for v in writes])
        self.name, self.lines = name, tuple(lines)
        self.scratch = 0
        self.key = (
            "flat", self.body, tuple(self.lengths), self.chunk, tuple(map(tuple, self.places))
        )  # fmt: skip
        self.inplace = self._inplace()

    def _inplace(self) -> tuple[tuple[int, int], ...]:
        used: dict[int, int] = {}
        for places in self.places:
            for p in places:
                used[p] = used.get(p, 0) + 1
        pairs = []
        width = len(self.nest.writes)
        loads = [e.data for e in self.nest.exprs if e.kind == "load"]
        lines = {read for read, form in loads if form == _LINE}
        lines -= {read for read, form in loads if form != _LINE}  # its first element, for all
        for k, places in enumerate(self.places):
            for w, (dtype, _) in enumerate(self.nest.writes):
                for r, p in enumerate(places):
                    same = self.nest.reads[r][0].itemsize == dtype.itemsize
                    if r in lines and same and used[p] == 1:
                        pairs.append((k * width + w, p))
        return tuple(pairs)

    def emit(self, module: Any, name: str) -> Any:
        """Add the kernel to ``module``, and its body where that is not there yet."""
        count = len(self.reads) + len(self.writes)
        function = kernel(module, name, count)
        body = self._body(module)
        b = ir.IRBuilder(function.append_basic_block())
        begin, end = function.args[:2]
        arrays = function.args[3:]
        width = len(self.nest.writes)
        for k, (n, start, tasks) in enumerate(zip(self.lengths, self.starts, self.counts)):
            first, last = begin, end
            if start:
                first, last = b.sub(begin, const(start)), b.sub(end, const(start))
            mine = [arrays[p] for p in self.places[k]]
            w = len(self.reads) + k * width
            mine += arrays[w : w + width]
            if len(self.parts) > 1:
                first = larger(b, first, 0)
                last = smaller(b, last, tasks)
                inside = b.icmp_signed("<", first, last)
                with b.if_then(inside):
                    self._call(b, body, first, last, n, mine)
            else:
                self._call(b, body, first, last, n, mine)
        b.ret_void()
        return function

    def _call(self, b: Any, body: Any, first: Any, last: Any, n: int, arrays: list[Any]) -> None:
        low = times(b, first, self.chunk)
        high = smaller(b, times(b, last, self.chunk), n)
        b.call(body, [low, high, *arrays])

    def _body(self, module: Any) -> Any:
        from fx.backends.cpu.llvm.loops.emit import Kernel

        name = f"fx.flat.{blake2b(repr(self.body).encode(), digest_size=12).hexdigest()}"
        found = module.globals.get(name)
        if found is None:
            count = len(self.nest.reads) + len(self.nest.writes)
            kind = ir.FunctionType(void, [i64, i64, *[pointer] * count])
            found = ir.Function(module, kind, name)
            found.linkage = "internal"
            found.attributes.add("nounwind")
            found.attributes.add("noinline")
            args = found.args
            Kernel(self.plan, found, (args[0], args[1], None, *args[2:])).run_range()
        return found


def merged(steps: list[Step], root: Callable[[Value], Value]) -> list[Step]:
    """Small flat steps of one body, whose results no step reads, as tasks of one step."""
    read = {root(v) for s in steps for v in s.reads}
    found: dict[Any, list[int]] = {}
    for i, s in enumerate(steps):
        if (
            isinstance(s, FlatStep)
            and sum(s.lengths) <= limits.FLAT_TOGETHER
            and read.isdisjoint(s.writes)
        ):
            found.setdefault(s.body, []).append(i)
    out: list[Step | None] = list(steps)
    for places in found.values():
        for k in range(0, len(places), limits.FLAT_PARTS):
            some = places[k : k + limits.FLAT_PARTS]
            if len(some) < 2:
                continue
            group = [steps[i] for i in some]
            parts = [p for s in group for p in s.parts]  # type: ignore[attr-defined]
            lines = sorted({line for s in group for line in s.lines})
            largest = max(group, key=lambda s: sum(s.lengths))  # type: ignore[attr-defined]
            for i in some:
                out[i] = None
            out[some[-1]] = FlatStep(largest.plan, parts, group[0].name, lines, root)  # type: ignore[attr-defined]
    return [s for s in out if s is not None]
