"""Passes: pure functions from graph to graph, each in a file of its own."""

from fx.graph.passes.control_flow import control
from fx.graph.passes.dead_code import dce, dead_inputs
from fx.graph.passes.decomposition import decompose
from fx.graph.passes.folding import fold
from fx.graph.passes.inlining import inline
from fx.graph.passes.recomputation import recompute
from fx.graph.passes.simplification import simplify
from fx.graph.passes.strength_reduction import strength
from fx.graph.passes.subexpressions import cse

__all__ = [
    "control", "cse", "dce", "dead_inputs", "decompose", "fold", "inline", "recompute", "simplify",
    "strength",
]  # fmt: skip
