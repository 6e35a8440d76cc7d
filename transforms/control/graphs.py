"""Graphs made from a body's graph: its specs, its forward derivative, its batched form.

Each is staged by running the body's graph on the tracers of the transform, and kept in the graph's
cache. The specs that count are those of the arguments: a body that was staged for float64 serves
float32 as well where its primitives do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fx.dtypes import INEXACT
from fx.graph.bodies import Specs, closed, distinct, live_nodes, used_inputs
from fx.graph.ir import Graph, Node, Rewriter
from fx.graph.passes.effects import effectful
from fx.graph.staging import stage
from fx.levels import Level
from fx.prims.creation import zeros_like_spec
from fx.spec import TensorSpec
from fx.tensor import Tensor
from fx.transforms._arguments import leave
from fx.transforms.batching import BatchTracer, Lanes, batch_tracer, lanes_to
from fx.transforms.forward import JVPTracer, jvp_tracer

Flags = tuple[bool, ...]


def specs_of(args: Iterable[Tensor]) -> Specs:
    """The spec of each tensor."""
    return tuple([x.spec for x in args])


def derive(
    function: Callable[..., Sequence[Tensor]],
    specs: Sequence[TensorSpec],
    name: str,
    effects: bool = True,
) -> Graph:
    """Stage a function that takes nothing from outside but constants of the graphs it runs.

    What no output needs is left out, save nodes with effects if ``effects``: a loop in it might
    never end on the zeros that stand for what is not needed.
    """
    graph, captured = stage(function, specs, name)
    nodes = live_nodes(graph, graph.outputs)
    if len(nodes) < len(graph.nodes):
        if effects:
            nodes = live_nodes(graph, graph.outputs, effects=effectful(graph))
        graph = Graph(graph.inputs, nodes, graph.outputs, name)
    return closed(graph, captured)


# which values a property spreads to ---------------------------------------------------------------


def spread_smooth(graph: Graph, specs: Sequence[TensorSpec], flags: Sequence[bool]) -> Flags:
    """Which outputs may have a derivative where ``flags`` says which inputs do."""
    env = {v for v, f in zip(graph.inputs, flags) if f}
    for node in graph.nodes:
        if node.primitive.differentiable and not env.isdisjoint(node.inputs):
            env.update([v for v in node.outs if v.spec.dtype.kind not in "biu"])
    return tuple([v in env for v in graph.outputs])


def spread_lanes(graph: Graph, flags: Sequence[bool], number: int) -> Flags:
    """Which outputs differ from lane to lane where ``flags`` says which inputs do."""
    env = {v for v, f in zip(graph.inputs, flags) if f}
    for node in graph.nodes:
        if not env.isdisjoint(node.inputs) and not _joins_lanes(node, number):
            env.update(node.outs)
    return tuple([v in env for v in graph.outputs])


def _is_collective(node: Node) -> bool:
    return getattr(node.primitive.spec, "__module__", "") == "fx.prims.collective"


def _joins_lanes(node: Node, number: int) -> bool:
    """Whether a node gives every lane of the level the same."""
    return (
        _is_collective(node)
        and node.params["axis"] == number
        and node.primitive.name in ("psum", "pmax", "pmin", "all_gather", "pbroadcast")
    )


def fixpoint(
    carries: int, flags: Sequence[bool], spread: Callable[[Sequence[bool]], Sequence[bool]]
) -> tuple[Flags, Flags]:
    """The flags of a body's inputs and outputs once what its carries hand on has settled.

    Args:
        carries: the first so many inputs are handed on from the first outputs.
        flags: of the inputs, at the start.
        spread: the flags of the outputs for flags of the inputs.
    """
    now = list(flags)
    while True:
        outs = tuple(spread(now))
        grown = [a or b for a, b in zip(now, outs[:carries])]
        if grown == now[:carries]:
            return tuple(now), outs
        now[:carries] = grown


# derivatives and lanes ----------------------------------------------------------------------------


def jvp_graph(graph: Graph, specs: Specs, moving: Flags, wanted: Flags) -> tuple[Graph, Flags]:
    """The graph of values and tangents.

    Args:
        graph: what to differentiate.
        specs: of its inputs.
        moving: the inputs that have a tangent; the tangents follow the inputs.
        wanted: the outputs whose tangent is made of zeros if it has none.

    Returns:
        the graph, whose outputs are the values followed by tangents, and which outputs have one.
    """
    key = ("jvp", specs, moving, wanted)
    found = graph.cache.get(key)
    if found is None:
        pushed: list[bool] = []

        def run(*xs: Tensor) -> list[Tensor]:
            tangents = iter(xs[len(specs) :])
            with Level("jvp") as level:
                number = level.number
                outs = graph.run(
                    *[jvp_tracer(number, x, next(tangents)) if m else x for x, m in zip(xs, moving)]
                )
                values, moved = [], []
                for out, want in zip([leave(o, number) for o in outs], wanted):
                    at = isinstance(out, JVPTracer) and out.level == number
                    values.append(out.value if at else out)
                    if at or want:
                        moved.append(out.tangent if at else zeros_like_spec(out.spec))
                    pushed.append(at or want)
            return [*values, *moved]

        extra = [s for s, m in zip(specs, moving) if m]
        derived = derive(run, (*specs, *extra), f"jvp of {graph.name}")
        found = graph.cache[key] = derived, tuple(pushed)
    return found  # type: ignore[no-any-return]


def is_linear(both: Graph, moving: Flags, fixed: Iterable[int], count: int) -> bool:
    """Whether the tangents of a ``jvp_graph`` depend on no value that has one, nor on ``fixed``.

    They are then computed on their own, so that a linear function is seen to be one.
    """
    asked = used_inputs(both, both.outputs[count:])
    if not both.outputs[count:]:
        return False
    values = {both.inputs[i] for i, m in enumerate(moving) if m}
    return asked.isdisjoint(values | {both.inputs[i] for i in fixed})


def tangents_alone(both: Graph, inputs: tuple[int, ...], count: int) -> Graph:
    """The part of a ``jvp_graph`` that computes the tangents, from some of its inputs."""
    key = ("tangents alone", inputs, count)
    found = both.cache.get(key)
    if found is None:
        found = both.cache[key] = distinct(both, inputs, both.outputs[count:], False)
    return found  # type: ignore[no-any-return]


def values_alone(both: Graph, inputs: int, count: int) -> Graph:
    """The part of a ``jvp_graph`` that computes the values, as they are pushed (see ``split``)."""
    key = ("values alone", inputs, count)
    found = both.cache.get(key)
    if found is None:
        found = both.cache[key] = distinct(both, range(inputs), both.outputs[:count])
    return found  # type: ignore[no-any-return]


def batched_graph(
    graph: Graph, specs: Specs, mapped: Flags, forced: Flags, level: Any
) -> tuple[Graph, Flags]:
    """The graph of all lanes of ``level``, which lie along axis 0 of whatever is mapped.

    Args:
        graph: of one lane.
        specs: of its inputs, of one lane.
        mapped: the inputs that differ from lane to lane.
        forced: the outputs that get lanes even if they are the same for all.
        level: the running ``vmap``.

    Returns:
        the graph, and which outputs have lanes.
    """
    joined = any(_names_level(node, level.number) for node in graph.nodes)
    key = ("lanes", specs, mapped, forced, level.size, level.number if joined else None)
    found = graph.cache.get(key)
    if found is None:
        size = level.size
        lanes: list[bool] = []

        def run(*xs: Tensor) -> list[Tensor]:
            with Lanes(size, level.axis_name, None) as inner:
                number = inner.number
                one = _renumbered(graph, level.number, number) if joined else graph
                outs = one.run(
                    *[batch_tracer(number, x, 0) if m else x for x, m in zip(xs, mapped)]
                )
                values = []
                for out, force in zip([leave(o, number) for o in outs], forced):
                    at = isinstance(out, BatchTracer) and out.level == number
                    lanes.append(at or force)
                    if at:
                        out = lanes_to(out.value, out.dim, 0, size)
                    elif force:
                        out = lanes_to(out, None, 0, size)
                    values.append(out)
            return values

        wide = [s.with_(shape=(size, *s.shape)) if m else s for s, m in zip(specs, mapped)]
        derived = derive(run, wide, f"lanes of {graph.name}")
        found = graph.cache[key] = derived, tuple(lanes)
    return found  # type: ignore[no-any-return]


def _names_level(node: Node, number: int) -> bool:
    """Whether a node, or a body in its parameters, reaches across the lanes of a level."""
    if _is_collective(node):
        return node.params["axis"] == number  # type: ignore[no-any-return]
    return any(_names_level(n, number) for g in bodies(node) for n in g.nodes)


def bodies(node: Node) -> list[Graph]:
    """The graphs among a node's parameters."""
    out = []
    for p in node.params.values():
        out += [g for g in (p if isinstance(p, tuple) else (p,)) if isinstance(g, Graph)]
    return out


def _renumbered(graph: Graph, old: int, new: int) -> Graph:
    """The graph with the collectives of one level moved to another."""

    def moved(p: Any) -> Any:
        if isinstance(p, Graph):
            return _renumbered(p, old, new)
        return tuple([moved(g) for g in p]) if isinstance(p, tuple) else p

    rewriter = Rewriter(graph)
    for node in graph.nodes:
        if not _names_level(node, old):
            rewriter.keep(node)
            continue
        if _is_collective(node):
            params = {**node.params, "axis": new}
        else:
            params = {k: moved(p) for k, p in node.params.items()}
        inputs = [rewriter.get(v) for v in node.inputs]
        made = Node(node.primitive, inputs, params, [v.spec for v in node.outs], node.line)
        rewriter.nodes.append(made)
        rewriter.env.update(zip(node.outs, made.outs))
    return rewriter.done()


def is_smooth(x: Any) -> bool:
    """Whether a tensor or spec has a dtype with derivatives."""
    return x.dtype in INEXACT
