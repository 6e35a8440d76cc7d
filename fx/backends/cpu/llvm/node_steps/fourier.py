"""Fourier transforms: the calls of their plan, one step each."""

from __future__ import annotations

from typing import Any

from fx.backends.cpu.llvm import externals
from fx.backends.cpu.llvm.any_size.fourier import tables
from fx.backends.cpu.llvm.any_size.fourier.plans import BETWEEN, PLANS, READ, Call
from fx.backends.cpu.llvm.ir import Frame
from fx.backends.cpu.llvm.node_steps.calls import call
from fx.backends.cpu.llvm.node_steps.kernel import SpecialStep
from fx.compiler.step import Step
from fx.dtypes import real_of
from fx.graph.ir import Node, input_value
from fx.spec import TensorSpec


def planned(node: Node) -> list[Step] | None:
    """The steps of a transform; None where pocketfft does it."""
    plan = PLANS[node.primitive.name](node.inputs[0].spec, **node.params)
    if plan is None:
        return None
    real = real_of(node.out.spec.dtype)
    values = {READ: node.inputs[0]}
    steps: list[Step] = []
    for i, one in enumerate(plan.calls):
        source, target = one.stages[0].source, one.stages[-1].target
        given = values[source]
        if target == BETWEEN:
            made = input_value(TensorSpec((plan.between,), real))
        else:
            made = node.out if i == len(plan.calls) - 1 else input_value(node.out.spec)
        values[target] = made
        steps.append(SpecialStep(
            node, _body(one), tasks=one.tasks, cost=one.tasks * one.price, scratch=one.room,
            inplace=((0, 0),) if source == target else (), key=i, reads=(given,), writes=(made,),
        ))  # fmt: skip
    return steps


def _body(one: Call) -> Any:
    def body(frame: Frame) -> None:
        def table(*of: Any) -> Any:
            return externals.declare(frame.b.module, tables.name_of(*of))

        ends = frame.reads[0], frame.writes[0]
        call(frame, one.kernel, one.words(*ends, table, frame.scratch, 0, 1))

    return body
