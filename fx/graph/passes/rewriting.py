"""Rewriting: what the passes share beside ``Rewriter``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fx.frames import is_of_handler
from fx.graph.ir import Graph, Node, Rewriter, Value, input_value
from fx.graph.printing import subgraphs
from fx.tensor import Tensor, new_tensor


def finish(rewriter: Rewriter) -> Graph:
    """The new graph; the old one itself where nothing changed, so that a fixpoint is seen."""
    graph = rewriter.graph
    if not rewriter.env and len(rewriter.nodes) == len(graph.nodes):
        return graph
    return rewriter.done()


def own_inputs(graph: Graph) -> Graph:
    """The graph with new inputs in place of those that are results of nodes of another graph.

    Such a graph is a part that was cut out of a whole. A rule that asks what an input was made of
    must not be told about what lies outside.
    """
    if all(v.node is None and v.constant is None for v in graph.inputs):
        return graph
    rewriter = Rewriter(graph)
    inputs = []
    for value in graph.inputs:
        inputs.append(value)
        if value.node is not None or value.constant is not None:
            inputs[-1] = input_value(value.spec)
            rewriter.replace(value, inputs[-1])
    for node in graph.nodes:
        rewriter.keep(node)
    done = rewriter.done()
    return Graph(inputs, done.nodes, done.outputs, graph.name)


def run_primitive(primitive: Any, arrays: Sequence[Any], params: dict[str, Any]) -> Any:
    """The arrays that a primitive gives for known ones on the CPU; None where its kernel refuses.

    The kernel is called itself: a pass may run while a function is staged, and binding would stage.
    """
    try:
        with np.errstate(all="ignore"):
            found = primitive.cpu(*arrays, **params)
    except Exception as error:  # it is raised when the program runs, if it gets there
        if is_of_handler(error):
            raise
        return None
    return [np.asarray(a) for a in (found if primitive.multiple else (found,))]


def tensor_of(array: Any) -> Tensor:
    """A tensor that owns its array: a view of another one would keep that alive."""
    array = np.asarray(array)
    if array.base is not None:
        array = array.copy()
    return new_tensor(np.asarray(array, order="C"))


def copy_node(node: Node, inputs: tuple[Value, ...], params: dict[str, Any] | None = None) -> Node:
    """The same application on other values, or with other parameters."""
    return Node(
        node.primitive,
        inputs,
        node.params if params is None else params,
        [v.spec for v in node.outs],
        node.line,
    )


def map_nested(graph: Graph, function: Callable[[Graph], Graph]) -> Graph:
    """The graph with ``function`` applied to each graph among the parameters of its nodes."""
    if not any(subgraphs(node.params) for node in graph.nodes):
        return graph
    rewriter = Rewriter(graph)
    changed = False
    for node in graph.nodes:
        params = _mapped_params(node.params, function) if subgraphs(node.params) else node.params
        if params is node.params:
            rewriter.keep(node)
            continue
        changed = True
        inputs = tuple([rewriter.get(v) for v in node.inputs])
        new = copy_node(node, inputs, params)
        rewriter.nodes.append(new)
        rewriter.env.update(zip(node.outs, new.outs))
    return rewriter.done() if changed else graph


def _mapped_params(params: dict[str, Any], function: Callable[[Graph], Graph]) -> dict[str, Any]:
    changed = False
    out = {}
    for name, value in params.items():
        if isinstance(value, Graph):
            new: Any = function(value)
        elif isinstance(value, tuple) and any(isinstance(g, Graph) for g in value):
            new = tuple([function(g) if isinstance(g, Graph) else g for g in value])
            if all(a is b for a, b in zip(new, value)):
                new = value
        else:
            new = value
        changed |= new is not value
        out[name] = new
    return out if changed else params
