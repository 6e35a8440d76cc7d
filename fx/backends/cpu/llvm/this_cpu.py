"""What the compiler is told about this CPU (``fx/compiler/target.py``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from fx import limits
from fx.backends.cpu.llvm import control_steps, conv, gemm, node_steps
from fx.backends.cpu.llvm.ir import Machine, target
from fx.backends.cpu.llvm.loops.epilogue import NestEpilogue
from fx.backends.cpu.llvm.loops.flat import FlatStep, is_flat, merged
from fx.backends.cpu.llvm.loops.step import LoopStep
from fx.backends.cpu.llvm.vecmath.table import supported
from fx.compiler.extents import is_known
from fx.compiler.plan import Plan
from fx.compiler.step import Step
from fx.compiler.target import Target
from fx.graph.ir import Node, Value


def this_cpu(exact: bool = False) -> Target:
    """This CPU, or the machine that is emitted for, within the limits.

    Args:
        exact: whether what is shorter than a vector is code of its own length, which is made for
            what runs many times in one call.
    """
    return _told_of(target(), exact)


@cache
def _told_of(machine: Machine, exact: bool) -> Target:
    return Target(
        vector_bytes=machine.vector_bytes,
        near=machine.near,
        far=machine.far,
        has_element=supported,
        kernels=_kernels(),
        products={"matmul": gemm.product},
        epilogue=NestEpilogue,
        loop=_loop,
        together=merged,
        exact=exact,
    )


limits.on_change(_told_of.cache_clear)


def _kernels() -> dict[str, list[Callable[[Node], Any]]]:
    found: dict[str, list[Callable[[Node], Any]]] = {}
    for room in (control_steps, gemm, conv, node_steps):
        for primitive, builder in room.STEPS.items():
            found.setdefault(primitive, []).append(builder)
    return found


def _loop(
    plan: Plan, reads: Sequence[Value], writes: Sequence[Value], name: str, lines: Sequence[str]
) -> Step:
    of_a_length = plan.target.exact and bool(plan.nest.sizes) and plan.nest.sizes[0] <= plan.lanes
    if is_flat(plan.nest) and is_known(*plan.nest.sizes) and not of_a_length:
        return FlatStep(plan, [(reads, writes)], name, lines)
    return LoopStep(plan, reads, writes, name, lines)
