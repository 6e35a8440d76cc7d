"""Validation: what must hold for every graph, before and after every pass."""

from __future__ import annotations

from typing import Any

from fx.errors import FxError, GraphError
from fx.graph.ir import Graph, Node, Value
from fx.graph.printing import subgraphs


def validate(graph: Graph) -> Graph:
    """Check a graph and the graphs nested in it; the graph itself.

    Every value is an input, a constant or the result of an earlier node; no value has two owners;
    the specs of results are those of the spec rules; sizes among the parameters are plain ints.

    Args:
        graph: to check.

    Raises:
        GraphError: naming the first node that is wrong, and why.

    Example:
        >>> import fx
        >>> from fx.graph.validation import validate
        >>> validate(fx.make_graph(fx.sin)(fx.ones(3))).nodes
        (<node sin>,)
    """
    known: set[Value] = set()
    for i, value in enumerate(graph.inputs):
        if value.node is not None or value.constant is not None:
            raise GraphError(f"{graph.name}: input {i} is {value!r}, not an input value")
        if value in known:
            raise GraphError(f"{graph.name}: input {i} is the same value as an earlier one")
        known.add(value)
    seen: set[Node] = set()
    for i, node in enumerate(graph.nodes):
        where = f"{graph.name}: node {i} ({node.primitive.name}{_at(node)})"
        if node in seen:
            raise GraphError(f"{where} stands there twice")
        seen.add(node)
        for k, value in enumerate(node.inputs):
            if value.constant is None and value not in known:
                raise GraphError(f"{where} takes as argument {k} {_stranger(value, graph)}")
        for k, value in enumerate(node.outs):
            if value.node is not node or value.position != k:
                raise GraphError(f"{where}: its result {k} says that it belongs to {value.node!r}")
        known.update(node.outs)
        _check_specs(node, where)
        _check_numbers(node, where)
        for _, nested in subgraphs(node.params):
            validate(nested)
    for i, value in enumerate(graph.outputs):
        if value.constant is None and value not in known:
            raise GraphError(f"{graph.name}: output {i} is {_stranger(value, graph)}")
    return graph


def _check_specs(node: Node, where: str) -> None:
    try:
        found: Any = node.primitive.spec(*[v.spec for v in node.inputs], **node.params)
    except FxError as error:
        raise GraphError(f"{where}: its spec rule refuses its arguments: {error}") from error
    wanted = tuple(found) if node.primitive.multiple else (found,)
    specs = tuple([v.spec for v in node.outs])
    if wanted != specs:
        raise GraphError(f"{where}: its results are {specs}, its spec rule says {wanted}")


def _check_numbers(node: Node, where: str) -> None:
    """Compilers decide by ``type(n) is int``: what ``x.size`` gives is another type."""
    for name, value in node.params.items():
        for n in value if isinstance(value, tuple) else (value,):
            if isinstance(n, int) and type(n) not in (int, bool):
                raise GraphError(f"{where}: {name} holds a {type(n).__name__}, expected an int")


def _stranger(value: Value, graph: Graph) -> str:
    if value.node is None:
        return f"{value!r}, which is no input of this graph"
    if value.node in set(graph.nodes):
        return f"{value!r} before it is computed: nodes must stand after those that they use"
    return f"{value!r}, whose node is not in this graph"


def _at(node: Node) -> str:
    return f", {node.line}" if node.line else ""
