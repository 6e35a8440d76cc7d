"""Running a body's graph on bare arrays, many times over: what the CPU kernels loop over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numpy import asarray, ndarray

from fx.graph.ir import Graph, Value

Run = Callable[[list[Any]], list[Any]]


def runner(graph: Graph) -> Run:
    """A function from a list of arrays, one an input, to the list of results."""
    found: Run | None = graph.cache.get("runner")
    if found is None:
        found = graph.cache["runner"] = _registers(graph)
    return found


def _registers(graph: Graph) -> Run:
    """The kernels of the nodes one after the other, on numbered places."""
    places: dict[Value, int] = {v: i for i, v in enumerate(graph.inputs)}
    constants: list[Any] = []
    for value in graph.constants():
        places[value] = len(places)
        constants.append(value.constant._a)  # type: ignore[union-attr]
    program = []
    for node in graph.nodes:
        for value in node.outs:
            places[value] = len(places)
        kernel = node.primitive.cpu
        ins = tuple([places[v] for v in node.inputs])
        outs = tuple([places[v] for v in node.outs])
        program.append((kernel, ins, outs, node.params, node.primitive.multiple))
    results = tuple([places[v] for v in graph.outputs])
    rest = [None] * (len(places) - len(graph.inputs) - len(constants))

    def run(arrays: list[Any]) -> list[Any]:
        held = [*arrays, *constants, *rest]
        for kernel, ins, outs, params, multiple in program:
            found = kernel(*[held[i] for i in ins], **params)
            if multiple:
                for i, a in zip(outs, found):
                    held[i] = a if type(a) is ndarray else asarray(a)
            else:
                held[outs[0]] = found if type(found) is ndarray else asarray(found)
        return [held[i] for i in results]

    return run


def fits(graph: Graph, arrays: Sequence[Any]) -> bool:
    """Whether arrays have the shapes and dtypes that a graph was staged for."""
    return all(
        a.shape == v.spec.shape and a.dtype == v.spec.dtype for v, a in zip(graph.inputs, arrays)
    )
