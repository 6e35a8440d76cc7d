"""Passes: pure functions from graph to graph, each in a file of its own, loaded when first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fx.graph.passes.control_flow import control
    from fx.graph.passes.dead_code import dce, dead_inputs
    from fx.graph.passes.decomposition import decompose
    from fx.graph.passes.folding import fold
    from fx.graph.passes.inlining import inline
    from fx.graph.passes.recomputation import recompute
    from fx.graph.passes.simplification import simplify
    from fx.graph.passes.strength_reduction import strength
    from fx.graph.passes.subexpressions import cse

_HOMES = {
    "control": "control_flow",
    "cse": "subexpressions",
    "dce": "dead_code",
    "dead_inputs": "dead_code",
    "decompose": "decomposition",
    "fold": "folding",
    "inline": "inlining",
    "recompute": "recomputation",
    "simplify": "simplification",
    "strength": "strength_reduction",
}
__all__ = [
    "control", "cse", "dce", "dead_inputs", "decompose", "fold", "inline", "recompute", "simplify",
    "strength",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
    return found
