"""Passes: pure functions from graph to graph, each alone in its file; ``manager.py`` runs them."""

from fx.graph.passes.control import control
from fx.graph.passes.cse import cse
from fx.graph.passes.dce import dce, dead_inputs
from fx.graph.passes.decompose import decompose
from fx.graph.passes.fold import fold
from fx.graph.passes.inline import inline
from fx.graph.passes.recompute import recompute
from fx.graph.passes.simplify import simplify
from fx.graph.passes.strength import strength

__all__ = [
    "control", "cse", "dce", "dead_inputs", "decompose", "fold", "inline", "recompute", "simplify", "strength"
]  # fmt: skip
