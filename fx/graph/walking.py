"""The interpreter: one node after the other, on tensors of any level or on arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from fx.graph.ir import Graph, Value

Run = Callable[[Sequence[Any]], list[Any]]


class Values(NamedTuple):
    """What a graph is run on.

    Args:
        kernel: ``(primitive) -> function`` of such values and the parameters of a node.
        constant: ``(value) -> what stands for it``.
        kind: the class that every result has; others are made it by ``settled``. None for any.
        settled: ``(result) -> result`` of that class.
    """

    kernel: Callable[[Any], Callable[..., Any]]
    constant: Callable[[Value], Any]
    kind: type | None = None
    settled: Callable[[Any], Any] = lambda result: result


TENSORS = Values(lambda primitive: primitive, lambda value: value.constant)


def runner(graph: Graph, on: Values) -> Run:
    """A function from a list of values, one an input, to the list of results."""
    found: Run | None = graph.cache.get(on)
    if found is None:
        found = graph.cache[on] = _written(graph, on)
    return found


def _written(graph: Graph, on: Values) -> Run:
    """The nodes on numbered places, which are emptied after the last use of what lies there."""
    places: dict[Value, int] = {v: i for i, v in enumerate(graph.inputs)}
    constants = graph.constants()
    for value in (*constants, *[v for node in graph.nodes for v in node.outs]):
        places[value] = len(places)
    used = {*graph.outputs, *constants}
    program = []
    for node in reversed(graph.nodes):
        over = [v for v in dict.fromkeys((*node.outs, *node.inputs)) if v not in used]
        used.update(over)
        ins, outs, last = [tuple([places[v] for v in of]) for of in (node.inputs, node.outs, over)]
        primitive = node.primitive
        take = _taking(ins)
        program.append((on.kernel(primitive), take, outs, last, node.params, primitive.multiple))
    program.reverse()
    results = [places[v] for v in graph.outputs]
    begun = [on.constant(v) for v in constants]
    begun += [None] * (len(places) - len(graph.inputs) - len(begun))
    kind, settled = on.kind, on.settled

    def run(values: Sequence[Any]) -> list[Any]:
        held = [*values, *begun]
        for kernel, take, outs, last, params, multiple in program:
            found = kernel(*take(held), **params)
            if multiple:
                for i, x in zip(outs, found):
                    held[i] = x if kind is None or type(x) is kind else settled(x)
            else:
                held[outs[0]] = found if kind is None or type(found) is kind else settled(found)
            for i in last:
                held[i] = None
        return [held[i] for i in results]

    return run


def _taking(places: tuple[int, ...]) -> Callable[[list[Any]], Sequence[Any]]:
    """What takes the values at some places out of a list, in C."""
    if len(places) > 1:
        return itemgetter(*places)
    return itemgetter(slice(places[0], places[0] + 1) if places else slice(0))
