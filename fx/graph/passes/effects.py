"""What has effects, and what may be an error for some values."""

from __future__ import annotations

from fx.dtypes import INTEGRAL
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


def may_fail(node: Node) -> bool:
    """Whether running the node is an error for some integers, or never ends."""
    primitive = node.primitive
    if primitive.name == "while":
        return True
    if primitive.partial and any(v.spec.dtype in INTEGRAL for v in node.inputs):
        from fx.graph.key import foldable

        last = node.inputs[-1]
        known = primitive.kind == "elementwise" and last.constant is not None and foldable(last)
        return not known or not (last.array > 0).all()
    return any(can_fail(nested) for _, nested in subgraphs(node.params))


def can_fail(graph: Graph) -> bool:
    """Whether ``may_fail`` holds for a node of the graph."""
    found = graph.cache.get("fails")
    if found is None:
        found = graph.cache["fails"] = any(map(may_fail, graph.nodes))
    return bool(found)
