"""Dead code: nodes and inputs that no output needs."""

from __future__ import annotations

from fx.graph.ir import Graph, Value
from fx.graph.passes.effects import is_effectful


def dce(graph: Graph) -> Graph:
    """The graph without the nodes that neither an output nor an effect needs.

    Example:
        >>> import fx
        >>> from fx.graph.passes import dce
        >>> graph = fx.make_graph(lambda x: (fx.sin(x), fx.cos(x))[1])(fx.ones(3))
        >>> dce(graph).nodes
        (<node cos>,)
    """
    needed: set[Value] = set(graph.outputs)
    kept = []
    for node in reversed(graph.nodes):
        if not needed.isdisjoint(node.outs) or is_effectful(node):
            needed.update(node.inputs)
            kept.append(node)
    if len(kept) == len(graph.nodes):
        return graph
    kept.reverse()
    return Graph(graph.inputs, kept, graph.outputs, graph.name)


def dead_inputs(graph: Graph) -> tuple[int, ...]:
    """The positions of the inputs that no node that is needed and no output uses.

    Example:
        >>> import fx
        >>> from fx.graph.passes import dead_inputs
        >>> dead_inputs(fx.make_graph(lambda x, y: y * 2)(fx.ones(3), fx.ones(3)))
        (0,)
    """
    used = set(dce(graph).uses())
    return tuple([i for i, value in enumerate(graph.inputs) if value not in used])
