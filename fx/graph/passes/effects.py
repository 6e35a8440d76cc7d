"""What has effects, and what may be an error for some values."""

from __future__ import annotations

from typing import Any

from fx.dtypes import INTEGRAL
from fx.graph.ir import Graph, Node
from fx.graph.printing import subgraphs


def effect_of(node: Node) -> Any:
    """The order of effects in which the node itself takes part; "" for one that has none."""
    effect = getattr(node.primitive, "effectful", "")
    return effect(**node.params) if callable(effect) else effect


def effects_of(node: Node) -> tuple[Any, ...]:
    """The orders in which the node and the graphs in its parameters take part."""
    found = effect_of(node)
    orders = {found: None} if found else {}
    for _, nested in subgraphs(node.params):
        orders.update(dict.fromkeys(effects_in(nested)))
    return tuple(orders)


def effects_in(graph: Graph) -> tuple[Any, ...]:
    """The orders in which nodes of the graph take part, first come."""
    found = graph.cache.get("effects")
    if found is None:
        orders = dict.fromkeys([o for node in graph.nodes for o in effects_of(node)])
        found = graph.cache["effects"] = tuple(orders)
    return found  # type: ignore[no-any-return]


def is_effectful(node: Node) -> bool:
    """Whether running the node does something besides computing its results."""
    return bool(effects_of(node))


def effectful(graph: Graph) -> dict[Node, None]:
    """The nodes of the graph that have effects, in order."""
    return dict.fromkeys([node for node in graph.nodes if is_effectful(node)])


def has_effects(graph: Graph) -> bool:
    """Whether a node of the graph is effectful."""
    return bool(effects_in(graph))


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
