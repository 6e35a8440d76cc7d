"""``schedule``: a graph as steps, fused loop kernels and the kernels of other tables."""

from __future__ import annotations

from typing import Any

from fx.backends.cpu.llvm.step import PythonStep, Schedule, Step
from fx.graph.ir import Graph, Node, Value


def schedule(graph: Graph) -> Schedule:
    """Decide which nodes of ``graph`` become which kernels, in which order.

    Args:
        graph: what to compute; nodes that no output needs are left out.

    Example:
        >>> import fx
        >>> from fx.backends.cpu.llvm.schedule import schedule
        >>> graph = fx.make_graph(lambda x: fx.exp(x) + 1)(fx.ones(3))
        >>> len(schedule(graph).steps)
        1
    """
    wanted = set(graph.outputs)
    live: list[Node] = []
    for node in reversed(graph.nodes):
        if any(v in wanted for v in node.outs):
            live.append(node)
            wanted.update(node.inputs)
    steps: list[Step] = []
    aliases: dict[Value, Value] = {}
    for node in reversed(live):
        if node.primitive.name in ("reshape", "stop_gradient"):
            aliases[node.outs[0]] = node.inputs[0]
        else:
            steps.append(python_step(node))
    return Schedule(graph, steps, aliases)


def python_step(node: Node) -> PythonStep:
    """A node by its eager kernel on NumPy arrays."""
    primitive, params = node.primitive, node.params

    def run(*arrays: Any) -> tuple[Any, ...]:
        found = primitive.kernels["cpu"](*arrays, **params)
        return tuple(found) if primitive.multiple else (found,)

    lines = (node.line,) if node.line else ()
    return PythonStep(f"python: {primitive.name}", run, node.inputs, node.outs, lines)
