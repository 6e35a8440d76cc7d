"""This CPU as a target for graphs with sizes that are known when they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from fx import limits
from fx.backends.cpu.lapack.plans import PLANS
from fx.backends.cpu.llvm import conv
from fx.backends.cpu.llvm.control_steps import scan_of_any_length
from fx.backends.cpu.llvm.loops.step import LoopStep
from fx.backends.cpu.llvm.node_steps import lapack
from fx.backends.cpu.llvm.node_steps.calls import (
    first,
    random_bits,
    random_draw,
    scan,
    searchsorted,
)
from fx.backends.cpu.llvm.node_steps.extremes import place
from fx.backends.cpu.llvm.node_steps.indexing import take, take_along_axis, wrap_index
from fx.backends.cpu.llvm.node_steps.scattering import scatter, scatter_along_axis
from fx.backends.cpu.llvm.sized.products import product
from fx.backends.cpu.llvm.this_cpu import this_cpu
from fx.compiler.extents import NoExtentsError, Sizes, is_known
from fx.compiler.plan import Plan
from fx.compiler.step import Step
from fx.compiler.target import Target
from fx.graph.ir import Node, Value


def _along_axis(node: Node, sizes: Sizes) -> Any:
    return conv.unpool(node, sizes) or scatter_along_axis(node, sizes)


_KERNELS: dict[str, Callable[[Node, Sizes], Any]] = {
    "argmax": place,
    "argmin": place,
    "argsort": first,
    "conv": conv.conv,
    "conv_input_grad": conv.conv_input_grad,
    "conv_weight_grad": conv.conv_weight_grad,
    "matmul": product,
    "max_pool": conv.pool,
    "random_bits": random_bits,
    "random_draw": random_draw,
    "scan": scan_of_any_length,
    "scatter": scatter,
    "scatter_along_axis": _along_axis,
    "searchsorted": searchsorted,
    "take": take,
    "take_along_axis": take_along_axis,
    "top_k_indices": first,
    "window_sum": conv.pool,
    "window_sum_transpose": conv.window_sum_transpose,
    "verified": lapack.verified,
    "wrap_index": wrap_index,
    **dict.fromkeys(PLANS, lapack.planned),
    **dict.fromkeys(("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp", "recurrence"), scan),
}


def target_for(sizes: Sizes) -> Target:
    """This CPU, for graphs with sizes that are known when they run."""
    plain = this_cpu()

    def depends(node: Node) -> bool:
        specs = [v.spec.shape for v in (*node.inputs, *node.outs)]
        return sizes.touch(specs) or sizes.touch(list(node.params.values()))

    def knows(made: Any) -> bool:
        """Whether what steps read and write is of known sizes, and lies at known places.

        Also what they read a part of, and what the operations between do: a product reads slices
        from where they lie, and its steps do not say where they begin.
        """
        steps = [made] if isinstance(made, Step) else made
        seen = {v for step in steps for v in step.reads}
        values = [v for step in steps for v in (*step.reads, *step.writes)]
        if sizes.touch([v.spec.shape for v in values]):
            return False
        waiting = [v for step in steps for v in step.writes]
        while waiting:
            value = waiting.pop()
            if value in seen or value.node is None:
                continue
            seen.add(value)
            if depends(value.node):
                return False
            waiting += value.node.inputs
        return True

    def maker(name: str, makers: Sequence[Callable[[Node], Any]]) -> Callable[[Node], Any]:
        own = _KERNELS.get(name)

        def steps(node: Node) -> Any:
            if not depends(node):
                for make in makers:
                    found = make(node)
                    if found is not None and knows(found):
                        return found
                    if found is not None:
                        break
                else:
                    return None
            return None if own is None else own(node, sizes)

        return steps

    def known_product(node: Node, epilogue: Any) -> Any:
        found = None if depends(node) else plain.products["matmul"](node, epilogue)
        return found if found is not None and knows(found) else None

    def loop(
        plan: Plan, reads: Sequence[Value], writes: Sequence[Value], name: str, lines: Sequence[str]
    ) -> Step:
        if not _sized(plan):
            return plain.loop(plan, reads, writes, name, lines)
        if plan.untiled and prod(plan.nest.sizes) >= limits.SIZED_UNTILED:
            raise NoExtentsError(f"{name}: what lies across is transposed in tiles")
        return LoopStep(plan, (*reads, sizes.words), writes, name, lines, sizes.places)

    return replace(
        plain, kernels={name: [maker(name, makers)] for name, makers in plain.kernels.items()},
        products={"matmul": known_product}, loop=loop,
    )  # fmt: skip


def _sized(plan: Plan) -> bool:
    nest = plan.nest
    numbers = [c for form in nest.forms() for c in (form[0], *[c for _, c in form[1]])]
    numbers += [n for e in nest.exprs if e.kind == "inside" for n in e.data[1:]]
    numbers += [*nest.sizes, *[n for _, n in (*nest.reads, *nest.writes)], nest.share]
    return not is_known(*numbers, plan.tasks, plan.scratch, *(nest.ragged or ()))
