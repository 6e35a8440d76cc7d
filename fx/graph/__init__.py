"""The Graph IR: what ``jit`` stages a function into, and what passes rewrite."""

from typing import Any

from fx.errors import GraphError
from fx.graph.ir import Graph, Node, Rewriter, Value, constant_value, input_value
from fx.graph.manager import optimize, pipeline, register_pass, unregister_pass

__all__ = [
    "Graph", "Node", "Value", "Rewriter", "constant_value", "input_value",
    "optimize", "pipeline", "register_pass", "unregister_pass", "validate", "GraphError",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "validate":  # loaded when first used
        from fx.graph.validation import validate

        globals()[name] = validate
        return validate
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
