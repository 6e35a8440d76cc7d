"""The derivative of a graph as graphs: forward, backward, and the latter in two halves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fx.dtypes import INEXACT
from fx.errors import BackwardError
from fx.graph.bodies import closed, extract, live_nodes
from fx.graph.cost import cheap
from fx.graph.ir import Graph, Node, Value
from fx.graph.manager import optimize
from fx.graph.staging import stage
from fx.levels import Tracer, live
from fx.tensor import Tensor
from fx.transforms.reverse import vjp


class Split:
    """A graph's derivative as two graphs.

    Attributes:
        forward: gives the results, then what ``kept`` points at.
        backward: takes some of the arguments (``inputs``), what was kept, and the cotangents of
            the results ``cotangents``; gives the wanted gradients.
    """

    __slots__ = ("backward", "cotangents", "forward", "inputs", "kept")

    def __init__(
        self, forward: Graph, kept: list[int], inputs: list[int], backward: Graph, cts: list[int]
    ) -> None:
        self.forward = forward
        self.kept = kept
        self.inputs = inputs
        self.backward = backward
        self.cotangents = cts


def split_of(graph: Graph, wanted: tuple[bool, ...]) -> Split:
    """The derivative of a graph by the wanted inputs."""
    key = ("vjp", wanted)
    found = graph.cache.get(key)
    if found is None:
        found = graph.cache[key] = _split(graph, wanted)
    return found  # type: ignore[no-any-return]


def _joint(graph: Graph, wanted: tuple[bool, ...]) -> tuple[Graph, list[int]]:
    """Results and gradients in one graph, which takes arguments and cotangents."""
    active = [i for i, w in enumerate(wanted) if w]
    floating = [i for i, v in enumerate(graph.outputs) if v.spec.dtype in INEXACT]

    def both(*xs: Tensor) -> list[Tensor]:
        args, cts = xs[: len(wanted)], xs[len(wanted) :]

        def of_active(*moved: Tensor) -> Any:
            new = list(args)
            for i, x in zip(active, moved):
                new[i] = x
            outs = graph.run(*new)
            return [outs[i] for i in floating], outs

        _, pullback, outs = vjp(of_active, *[args[i] for i in active], has_aux=True)
        return [*outs, *pullback(list(cts))]

    specs = [v.spec for v in graph.inputs] + [graph.outputs[i].spec for i in floating]
    joint, captured = stage(both, specs, graph.name)
    if any(isinstance(x, Tracer) and x.level not in live for x in captured):
        raise BackwardError("what it runs again on the way back reads values that it was given")
    joint = closed(joint, captured)
    return optimize(joint, keep_derivatives=True), floating


def _split(graph: Graph, wanted: tuple[bool, ...]) -> Split:
    joint, floating = _joint(graph, wanted)
    count, results = len(wanted), len(graph.outputs)
    primals, cts = joint.inputs[:count], joint.inputs[count:]
    outs, grads = joint.outputs[:results], joint.outputs[results:]
    late: set[Value] = set(cts)
    first: list[Node] = []
    second: list[Node] = []
    for node in joint.nodes:
        if any(v in late for v in node.inputs):
            late.update(node.outs)
            second.append(node)
        else:
            first.append(node)
    asked = {v for node in second for v in node.inputs} | set(grads)
    asked = {v for v in asked if v.constant is None and v not in late}
    rerun = _recomputed(first, primals, set(outs), asked)
    again = {v for node in rerun for v in node.outs}
    used = asked.union(*[node.inputs for node in rerun]) - again
    order = [*primals, *[v for node in first for v in node.outs]]
    taken = [i for i, v in enumerate(primals) if v in used]
    kept = [v for v in order[count:] if v in used]

    given = list(outs)
    places = {v: i for i, v in enumerate(given)}
    for v in kept:
        if v not in places:
            places[v] = len(given)
            given.append(v)
    backward = Graph(
        [*[primals[i] for i in taken], *kept, *cts],
        [*rerun, *second],
        grads,
        f"{graph.name} backward",
    )
    forward = Graph(primals, first, given, graph.name)
    return Split(forward, [places[v] for v in kept], taken, backward, floating)


def halves_of(backward: Graph, first: tuple[bool, ...]) -> tuple[Graph, Graph, list[int]]:
    """A graph in two: the results ``first``, then the others.

    The first also gives what the second takes behind the inputs ``taken``.
    """
    key = ("halves", first)
    found = backward.cache.get(key)
    if found is None:
        wanted = [v for v, is_first in zip(backward.outputs, first) if is_first]
        others = [v for v, is_first in zip(backward.outputs, first) if not is_first]
        ahead = live_nodes(backward, wanted)
        made = {v for node in ahead for v in node.outs}
        rest = live_nodes(backward, others, made)
        used = {v for node in rest for v in node.inputs}.union(others)
        taken = [i for i, v in enumerate(backward.inputs) if v in used]
        carried = [v for node in ahead for v in node.outs if v in used]
        found = backward.cache[key] = (
            extract(backward.inputs, ahead, [*wanted, *carried], f"{backward.name}, of inputs"),
            extract(
                [*[backward.inputs[i] for i in taken], *carried], rest, others,
                f"{backward.name}, of weights",
            ),
            taken,
        )  # fmt: skip
    return found  # type: ignore[no-any-return]


def _recomputed(
    nodes: list[Node], primals: Sequence[Value], outs: set[Value], asked: set[Value]
) -> list[Node]:
    """The nodes that the backward graph runs again instead of having their results kept.

    They are cheap, and read nothing but arguments, what is kept anyway and one another.
    """
    known = set(primals)
    able: list[Node] = []
    for node in nodes:
        fresh = not any(v in outs for v in node.outs)
        if fresh and cheap(node) and all(v.constant is not None or v in known for v in node.inputs):
            known.update(node.outs)
            able.append(node)
        else:
            known.update([v for v in node.outs if v in asked])
    useful = set(asked)
    rerun = []
    for node in reversed(able):
        if any(v in useful for v in node.outs):
            rerun.append(node)
            useful.update(node.inputs)
    return rerun[::-1]
