"""Bodies: parts of graphs as graphs of their own, and what a graph gives for other specs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from fx.config import modes
from fx.errors import BackwardError
from fx.graph.ir import Graph, Node, Rewriter, Value, constant_value, input_value
from fx.graph.passes.effects import effectful
from fx.levels import Tracer
from fx.spec import TensorSpec
from fx.tensor import Tensor

Specs = tuple[TensorSpec, ...]


def out_specs(graph: Graph, specs: Sequence[TensorSpec]) -> Specs:
    """The specs of the outputs for inputs of ``specs``, by the spec rules of the nodes."""
    device = specs[0].device if specs else "cpu"
    if all(v.spec == s for v, s in zip(graph.inputs, specs)):
        return graph.specs
    env = dict(zip(graph.inputs, specs))

    def known(value: Value) -> TensorSpec:
        if value.constant is not None:
            return TensorSpec(value.spec.shape, value.spec.dtype, device)
        return env[value]

    for node in graph.nodes:
        params = {**node.params, "device": device} if "device" in node.params else node.params
        found = node.primitive.spec(*[known(v) for v in node.inputs], **params)
        env.update(zip(node.outs, found if node.primitive.multiple else (found,)))
    return tuple([known(v) for v in graph.outputs])


def extract(
    inputs: Sequence[Value], nodes: Iterable[Node], outputs: Sequence[Value], name: str
) -> Graph:
    """A graph of its own from nodes of another; ``inputs`` may be results of nodes left out."""
    env = {v: input_value(v.spec) for v in inputs}
    fresh = list(env.values())
    made = []
    for node in nodes:
        old = [env.get(v, v) for v in node.inputs]
        new = Node(node.primitive, old, node.params, [v.spec for v in node.outs], node.line)
        made.append(new)
        for a, b in zip(node.outs, new.outs):
            env.setdefault(a, b)
    return Graph(fresh, made, [env.get(v, v) for v in outputs], name)


def live_nodes(
    graph: Graph,
    outputs: Iterable[Value],
    stops: Iterable[Value] = (),
    effects: Collection[Node] = (),
) -> list[Node]:
    """The nodes that ``outputs`` and ``effects`` need, in order; ``stops`` are there already."""
    ends = set(stops)
    wanted = {v for v in outputs if v not in ends}
    kept = []
    for node in reversed(graph.nodes):
        if node in effects or not wanted.isdisjoint(node.outs):
            kept.append(node)
            wanted.update([v for v in node.inputs if v not in ends])
    return kept[::-1]


def used_inputs(graph: Graph, outputs: Iterable[Value]) -> set[Value]:
    """The inputs that ``outputs`` depend on."""
    outputs = list(outputs)
    used = set(outputs)
    for node in live_nodes(graph, outputs):
        used.update(node.inputs)
    return used.intersection(graph.inputs)


def distinct(
    graph: Graph, inputs: Iterable[int], outputs: Sequence[Value], effects: bool = True
) -> Graph:
    """The part of a graph that some outputs need, on some of its inputs, common work done once.

    With ``effects`` what has any stays, as often as it is there, where it needs those inputs alone.
    """
    places = list(inputs)
    lasting = _effects_on(graph, places) if effects else ()
    nodes = live_nodes(graph, outputs, effects=lasting)
    env = {graph.inputs[i]: input_value(graph.inputs[i].spec) for i in places}
    known: dict[Any, Node] = {}
    made = []
    for node in nodes:
        ins = tuple([env.get(v, v) for v in node.inputs])
        key = (node.primitive, ins, _key(node.params))
        new = None if node in lasting else known.get(key)
        if new is None:
            specs = [v.spec for v in node.outs]
            new = known[key] = Node(node.primitive, ins, node.params, specs, node.line)
            made.append(new)
        env.update(zip(node.outs, new.outs))
    fresh = [env[graph.inputs[i]] for i in places]
    return Graph(fresh, made, [env.get(v, v) for v in outputs], graph.name)


def _effects_on(graph: Graph, places: Sequence[int]) -> dict[Node, None]:
    """The nodes with effects that depend on no input but those at ``places``."""
    found = effectful(graph)
    others = set(graph.inputs).difference([graph.inputs[i] for i in places])
    if found and others:
        for node in graph.nodes:
            if not others.isdisjoint(node.inputs):
                others.update(node.outs)
                found.pop(node, None)
    return found


def _key(params: dict[str, Any]) -> Any:
    return tuple([(k, params[k]) for k in sorted(params)])


def closed(graph: Graph, captured: Sequence[Tensor]) -> Graph:
    """The graph with the tensors that it takes last as constants: what rules made of nothing.

    Raises:
        BackwardError: if a rule reads what is no constant; a function that is staged is told.
    """
    if not captured:
        return graph
    if any(isinstance(x, Tracer) for x in captured):
        why = (
            "a derivative rule in it reads a value of the function around the one that has the "
            "rule; make that an argument"
        )
        if modes.stage is None:
            raise BackwardError(why)
        modes.stage.gives_up(why)
    rewriter = Rewriter(graph)
    count = len(graph.inputs) - len(captured)
    for value, x in zip(graph.inputs[count:], captured):
        rewriter.replace(value, constant_value(x))
    for node in graph.nodes:
        rewriter.keep(node)
    done = rewriter.done()
    return Graph(graph.inputs[:count], done.nodes, done.outputs, graph.name)
