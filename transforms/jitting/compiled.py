"""From a graph to what runs it: optimised, compiled for its device, kept with the graph."""

from __future__ import annotations

import warnings
from typing import Any

from fx import limits
from fx.devices import backend
from fx.errors import CompileError
from fx.graph.ir import Graph, Node, Rewriter
from fx.graph.manager import map_nested, optimize
from fx.graph.passes.effects import effects_in, has_effects
from fx.graph.passes.ordering import ordered
from fx.prims.collective import MESSAGES
from fx.tensor import new_tensor
from fx.transforms.jitting.short.alone import base_of


def executable_of(graph: Graph, donated: tuple[int, ...] = (), optimized: bool = False) -> Any:
    """What runs ``graph`` on arrays, made at the first call.

    Args:
        graph: what to compute.
        donated: positions of inputs whose memory the results may take.
        optimized: whether the passes have been run on it.

    Where ``graph.cache["dynamic"]`` is true a program for any size may serve it.
    """
    key = ("executable", donated, limits.key())
    found = graph.cache.get(key)
    if found is None:
        whole = (
            graph
            if optimized
            else optimize(without_calls(graph), varied=graph.cache.get("varied", False))
        )
        whole.cache["dynamic"] = graph.cache.get("dynamic", False)
        whole.cache["lengths"] = graph.cache.get("lengths", ())
        bases = [base_of(v) for v in whole.outputs]
        graph.cache["fixed"] = [
            i for i, v in enumerate(bases) if v.constant is not None and v.spec.device == "cpu"
        ]
        found = graph.cache[key] = _compile(whole, donated)  # last: a signal may come at any time
    return found


def without_calls(graph: Graph) -> Graph:
    """The graph that runs and is not differentiated: calls that are there for their derivatives
    alone, as those of ``checkpoint``, whose results are their arguments, are none of it."""

    def given(node: Node) -> bool:
        return getattr(node.primitive, "gives_arguments", False)

    if any(map(given, graph.nodes)):
        rewriter = Rewriter(graph)
        for node in graph.nodes:
            if given(node):
                for out, v in zip(node.outs, node.inputs):
                    rewriter.replace(out, rewriter.get(v))
            else:
                rewriter.keep(node)
        graph = rewriter.done()
    return map_nested(graph, without_calls)


def _compile(graph: Graph, donated: tuple[int, ...]) -> Any:
    results = [v for node in graph.nodes for v in node.outs]
    devices = {v.spec.device for v in (*graph.inputs, *graph.outputs, *results)} - {"cpu"}
    if devices:
        hooks = [getattr(backend(name), "compile", None) for name in devices]
        found = hooks[0](graph) if len(hooks) == 1 and hooks[0] is not None else None
        return Interpreted(graph) if found is None else found
    if has_effects(graph):
        if MESSAGES in effects_in(graph):
            graph = backend("cpu").between_ranks().compiled(graph)
        chained = ordered(graph)
        return Interpreted(graph) if chained is None else _compile_pure(chained, donated)
    return _compile_pure(graph, donated)


def _compile_pure(graph: Graph, donated: tuple[int, ...]) -> Any:
    from fx.backends.cpu.llvm.driver import compile_graph  # LLVM loads when first needed

    try:
        return compile_graph(graph, donated=donated, dynamic=graph.cache.get("dynamic", False))
    except CompileError as error:
        warnings.warn(
            f"jit: {graph.name} runs kernel by kernel, with the same results: {error}\n"
            "This is a fault of fx; what FX_DEBUG=2 prints shows the graph for a report.",
            RuntimeWarning,
            stacklevel=2,
        )
        return Interpreted(graph)


class Interpreted:
    """Runs a graph one primitive after the other."""

    __slots__ = ("graph",)
    native = free = False

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def run(self, arrays: list[Any]) -> list[Any]:
        """The results as arrays."""
        from fx.config import modes

        saved, modes.stage = modes.stage, None
        try:
            return [x._a for x in self.graph.run(*[new_tensor(a) for a in arrays])]
        finally:
            modes.stage = saved
