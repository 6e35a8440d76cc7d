"""Kinds: what passes know about primitives beyond their rules, by name."""

from __future__ import annotations

from functools import cache
from typing import Any

from fx.graph.ir import Graph, Node
from fx.graph.printing import subgraphs
from fx.primitive import registry

# of one argument, each element of the result a function of the element in the same place
UNARY = frozenset(
    (
        "abs", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "astype",
        "bitwise_not", "ceil", "conj", "cos", "cosh", "digamma", "erf", "erfc", "erfinv",
        "exp", "exp2", "expm1", "floor", "isfinite", "isinf", "isnan", "lgamma", "log",
        "log10", "log1p", "log2", "logical_not", "negative", "part", "reciprocal", "relu",
        "round", "rsqrt", "sigmoid", "sign", "signbit", "sin", "sinh", "softplus", "sqrt",
        "square", "stop_gradient", "tan", "tanh", "trigamma", "trunc",
    )
)  # fmt: skip
# of several arguments, which broadcast
BROADCASTING = frozenset(
    (
        "add", "arctan2", "bitwise_and", "bitwise_or", "bitwise_xor", "copysign", "divide",
        "equal", "floor_divide", "fmod", "greater", "greater_equal", "hypot", "left_shift",
        "less", "less_equal", "logaddexp", "logical_and", "logical_or", "logical_xor",
        "maximum", "minimum", "multiply", "nextafter", "not_equal", "polygamma", "power",
        "remainder", "right_shift", "subtract", "where",
    )
)  # fmt: skip
# f(x, y) has the bits of f(y, x)
COMMUTATIVE = frozenset(
    (
        "add", "multiply", "equal", "not_equal", "logical_and", "logical_or", "logical_xor",
        "bitwise_and", "bitwise_or", "bitwise_xor",
    )
)  # fmt: skip
# of which every argument is read once, in order, and may be handed on without a copy
VIEWS = frozenset(
    (
        "reshape", "transpose", "broadcast_to", "slice", "stop_gradient",
    )
)  # fmt: skip
CREATION = frozenset(("full", "iota"))


@cache
def _members(names: frozenset[str], count: int) -> frozenset[Any]:
    return frozenset([registry[n] for n in names if n in registry])


def members(names: frozenset[str]) -> frozenset[Any]:
    """The registered primitives of those names."""
    return _members(names, len(registry))


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
