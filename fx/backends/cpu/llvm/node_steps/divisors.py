"""Divisors of integers, which must not be 0."""

from __future__ import annotations

from fx.backends.cpu.llvm.failures import DIVIDED
from fx.backends.cpu.llvm.ir import Frame, i64, load_item, part, store_item, turns
from fx.backends.cpu.llvm.node_steps.checked import CheckedStep
from fx.backends.cpu.llvm.node_steps.kernel import has_elements, tasks_for
from fx.compiler.step import Step
from fx.dtypes import int64
from fx.errors import DIVIDED_BY_0
from fx.graph.ir import Node


class _DivisorStep(CheckedStep):
    words = (DIVIDED,)


def divisor(node: Node) -> Step | None:
    """Integers as they are; the first task that meets a 0 tells so."""
    if not has_elements(node):
        return None
    spec = node.out.spec
    tasks = tasks_for(spec.size, spec.size)

    def body(frame: Frame) -> None:
        b = frame.b
        source, target, status = frame.reads[0], *frame.writes
        with frame.tasks() as task:
            word = b.mul(task, i64(2))
            store_item(b, i64(0), status, word, int64)
            with turns(b, *part(b, task, tasks, spec.size)) as i:
                value = load_item(b, source, i, spec.dtype)
                store_item(b, value, target, i, spec.dtype)
                with b.if_then(b.icmp_signed("==", value, value.type(0)), likely=False):
                    store_item(b, i64(DIVIDED), status, word, int64)

    return _DivisorStep(node, body, DIVIDED_BY_0, tasks=tasks, cost=float(spec.size))
