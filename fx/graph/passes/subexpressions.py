"""Common subexpressions: what is computed twice in the same way is computed once."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from fx import limits
from fx.graph.ir import Graph, Rewriter, Value
from fx.graph.passes.effects import is_effectful
from fx.graph.passes.rewriting import finish
from fx.primitive import registry


def key_of(param: Any) -> Hashable:
    """A key that tells parameters apart which Python calls equal: 1, 1.0 and True; 0.0 and -0.0.

    NaN equals itself here. What cannot be hashed stands for itself alone.
    """
    kind = type(param)
    if kind is int or kind is str or param is None:
        return param  # type: ignore[no-any-return]
    if kind is tuple or kind is list:
        return (kind, *[key_of(p) for p in param])
    if kind is bool:
        return (bool, param)
    if kind is float or kind is complex:
        return (kind, repr(param))
    if kind is dict:
        return (dict, *[(key_of(k), key_of(v)) for k, v in param.items()])
    if isinstance(param, np.generic):
        return (kind, param.tobytes())
    try:
        hash(param)
    except TypeError:
        return (kind, id(param))
    return (kind, param)


def params_key(params: dict[str, Any]) -> Hashable:
    """The key of all parameters of a node."""
    return tuple([(name, key_of(params[name])) for name in sorted(params)]) if params else ()


def constant_key(value: Value) -> Hashable:
    """The key of a constant: its bits where they are few, else which tensor it is."""
    spec, tensor = value.spec, value.constant
    if spec.nbytes <= limits.EQUAL_CONSTANTS and spec.device == "cpu":
        return (spec, tensor._a.tobytes())  # type: ignore[union-attr]
    return (spec, id(tensor))


def cse(graph: Graph) -> Graph:
    """The graph with one node for all that apply a primitive to the same values in the same way.

    Equal constants become one value as well. Nodes with effects stay.

    Example:
        >>> import fx
        >>> from fx.graph.passes import cse
        >>> graph = fx.make_graph(lambda x: fx.sin(x) * fx.sin(x))(fx.ones(3))
        >>> cse(graph).nodes
        (<node sin>, <node multiply>)
    """
    rewriter = Rewriter(graph)
    env = rewriter.env
    number: dict[Value, int] = {v: i for i, v in enumerate(graph.inputs)}
    known: dict[Hashable, Any] = {}
    constants: dict[Hashable, Value] = {}

    def unify(value: Value) -> None:
        if value not in number:
            first = constants.setdefault(constant_key(value), value)
            if first is value:
                number[value] = len(number)
            else:
                env[value] = first

    for node in graph.nodes:
        primitive = node.primitive
        for value in node.inputs:
            if value.constant is not None and value not in env:
                unify(value)
        new = rewriter.keep(node)
        for value in new.outs:
            number[value] = len(number)
        places = [number[v] for v in new.inputs]
        if primitive.commutative:
            places.sort()
        # a name as the first part keeps the keys of creation primitives apart from all others
        key = (id(primitive), *places, params_key(node.params))
        first = known.get(key)
        if first is None:
            if registry.get(primitive.name) is primitive and not is_effectful(node):
                known[key] = new
        else:
            rewriter.nodes.pop()
            env.update(zip(node.outs, first.outs))
    for value in graph.outputs:
        if value.constant is not None and value not in env:
            unify(value)
    return finish(rewriter)
