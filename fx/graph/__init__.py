"""The Graph IR: what ``jit`` stages a function into, and what passes rewrite."""

from fx.graph.ir import Graph, Node, Rewriter, Value, constant_value, input_value
from fx.graph.manager import optimize, pipeline, register_pass, unregister_pass
from fx.graph.validate import GraphError, validate

__all__ = [
    "Graph", "Node", "Value", "Rewriter", "constant_value", "input_value",
    "optimize", "pipeline", "register_pass", "unregister_pass", "validate", "GraphError",
]  # fmt: skip
