"""What a node is to the scheduler: a view, elementwise, a reduction, or a kernel of its own."""

from __future__ import annotations

from fx.compiler import pairs
from fx.compiler.maps import VIEWS
from fx.compiler.plan import HEAVY, weight
from fx.compiler.target import Target
from fx.dtypes import COMPLEX
from fx.graph.ir import Graph, Node, Value

# loose_max: where one of two is NaN it gives either
REDUCTIONS = frozenset(("sum", "prod", "max", "min", "any", "all", "loose_max"))


def from_reductions(graph: Graph) -> set[Value]:
    """What is computed from a reduction, element by element."""
    found: set[Value] = set()
    for node in graph.nodes:
        if node.primitive.name in REDUCTIONS:
            found.add(node.outs[0])
        elif len(node.outs) == 1 and node.outs[0].spec.size > 1:
            size = node.outs[0].spec.size
            if any(v in found and v.spec.size == size for v in node.inputs):
                found.add(node.outs[0])
    return found


def cheap(node: Node) -> bool:
    """Whether computing it again costs less than reading it."""
    v = node.outs[0]
    if node.primitive.name in ("pad", "concatenate"):
        return False
    if node.primitive.name in ("full", "iota"):
        return True
    if weight(node.primitive.name) >= HEAVY:
        return False
    size = v.spec.size
    large = {u for u in node.inputs if u.spec.size * 4 > size and u.spec.size > 1}
    return len(large) <= 1 if size > 1 else weight(node.primitive.name) <= 2


def is_alias(node: Node) -> bool:
    """Whether a view's result is the memory of its argument, in the same order."""
    name, params = node.primitive.name, node.params
    x, out = node.inputs[0].spec, node.outs[0].spec
    if name in ("reshape", "stop_gradient"):
        return True
    if x.size != out.size:
        return False
    if name in ("broadcast_to", "slice"):
        return True
    if name == "transpose":
        moved = [a for a in params["axes"] if x.shape[a] != 1]
        return moved == sorted(moved)
    return all(x.shape[a] == 1 for a in params["axes"])  # flip


def kind_of(node: Node, target: Target) -> str:
    """``view``, ``pointwise``, ``reduction`` or ``opaque``."""
    name = node.primitive.name
    values = (*node.inputs, *node.outs)
    if len(node.outs) != 1 or any(not v.spec.size for v in values):
        return "view" if name in ("reshape", "stop_gradient") else "opaque"
    if name in VIEWS:
        return "view"
    complex_ = any(v.spec.dtype in COMPLEX for v in values)
    if name in REDUCTIONS:
        return "opaque" if complex_ and name not in ("sum", "any", "all") else "reduction"
    if name in ("full", "iota"):
        return "pointwise"
    if name == "pad":
        return "opaque" if any(node.params["inside"]) else "pointwise"
    if name == "concatenate":
        return "pointwise" if len(node.inputs) <= 8 else "opaque"
    if complex_:
        return "pointwise" if name in pairs.KNOWN else "opaque"
    dtypes = [v.spec.dtype for v in node.inputs]
    known = target.has_element(name, dtypes, node.outs[0].spec.dtype, node.params)
    return "pointwise" if known else "opaque"
