"""LoopStep: a nest as a step of a schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fx.compiler.plan import Plan
from fx.compiler.step import Step
from fx.graph.ir import Value


class LoopStep(Step):
    """One fused loop nest.

    Args:
        plan: of the nest that it runs.
        reads: the values of the nest's reads; with ``sizes`` one more, the words that hold them.
        writes: the values of the nest's writes.
        name: for listings.
        lines: the user's lines that asked for it.
        sizes: where the words hold the sizes that are known when it runs.
    """

    def __init__(
        self,
        plan: Plan,
        reads: Sequence[Value],
        writes: Sequence[Value],
        name: str,
        lines: Sequence[str] = (),
        sizes: Mapping[str, int] | None = None,
    ) -> None:
        self.plan, self.nest = plan, plan.nest
        self.reads, self.writes = tuple(reads), tuple(writes)
        self.name, self.lines = name, tuple(lines)
        self.tasks, self.cost, self.scratch = plan.tasks, plan.cost, plan.scratch
        self.key = ("loop", plan.nest.key())
        self.inplace = inplace(plan)
        self.sizes = sizes

    def emit(self, module: Any, name: str) -> Any:
        """Add the kernel to ``module``."""
        from fx.backends.cpu.llvm.loops.emit import emit

        return emit(self.plan, module, name, self.sizes)


def inplace(plan: Plan) -> tuple[tuple[int, int], ...]:
    """Pairs of a write and a read that is used only at the element that is being written.

    Where several passes go over a row, the write must be one of the last pass.
    """
    nest = plan.nest
    forms: dict[int, set[Any]] = {}
    for e in nest.exprs:
        if e.kind == "load":
            forms.setdefault(e.data[0], set()).add((e.data[1], bool(e.args)))
    pairs = []
    for write, form, stored in nest.outputs:
        if plan.passes > 1 and plan.phases[stored] < plan.passes - 1:
            continue
        dtype, n = nest.writes[write]
        for read, found in forms.items():
            other, m = nest.reads[read]
            if dtype.itemsize == other.itemsize and n == m and found == {(form, False)}:
                pairs.append((write, read))
    return tuple(pairs)
