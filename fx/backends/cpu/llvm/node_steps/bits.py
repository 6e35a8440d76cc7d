"""The bits of an array read as another dtype, which are a copy of its bytes."""

from __future__ import annotations

from fx.backends.cpu.llvm.ir import Frame, copy
from fx.backends.cpu.llvm.node_steps.kernel import SpecialStep, has_elements
from fx.compiler.step import Step
from fx.graph.ir import Node


def bitcast(node: Node) -> Step | None:
    """out = x, byte by byte."""
    if not has_elements(node):
        return None
    nbytes = node.out.spec.nbytes

    def body(frame: Frame) -> None:
        with frame.tasks():
            copy(frame.b, frame.writes[0], frame.reads[0], nbytes)

    return SpecialStep(node, body, cost=nbytes / 10)
