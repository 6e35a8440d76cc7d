"""What has effects."""

from __future__ import annotations

from fx.graph.ir import Graph, Node
from fx.graph.printing import subgraphs


def is_effectful(node: Node) -> bool:
    """Whether running the node does something besides computing its results."""
    if getattr(node.primitive, "effectful", False):
        return True
    return any(has_effects(nested) for _, nested in subgraphs(node.params))


def has_effects(graph: Graph) -> bool:
    """Whether a node of the graph is effectful."""
    found = graph.cache.get("effects")
    if found is None:
        found = graph.cache["effects"] = any(is_effectful(node) for node in graph.nodes)
    return bool(found)
