"""Ordering: effects keep their order in compiled code, as edges of data.

Compilers may run nodes in any order in which every value is there before it is read. So each order
of effects (prints; messages between ranks) has a *token*, a bool that nobody looks at: whoever has
an effect takes the token of the one before, and gives one to the next.

    psum(x); y = scan(body with a psum); print(y)

    x, t   = psum_after(x, t)          t: messages
    y, t   = scan(..., t)              its body hands the token on from run to run
    p      = debug_print_after(y, p)   p: prints
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from fx.dtypes import bool_
from fx.graph.ir import Graph, Node, Rewriter, Value, constant_value, input_value
from fx.graph.passes.effects import effect_of, effects_in, effects_of, has_effects
from fx.graph.printing import subgraphs
from fx.primitive import NOT_DIFFERENTIABLE, Primitive
from fx.prims.creation import constant

Tokens = dict[Any, Value]  # by order


def ordered(graph: Graph) -> Graph | None:
    """The graph in which every effect has a token to wait for.

    None where a graph in the parameters of a node has effects, and is no loop or branch.
    """
    token = constant_value(constant(False, bool_))
    try:
        return _chained(graph, dict.fromkeys(effects_in(graph), token))[0]
    except _Unknown:
        return None


class _Unknown(Exception):
    """Nobody knows how a token goes through a node."""


def _chained(graph: Graph, tokens: Tokens) -> tuple[Graph, Tokens]:
    """The graph with tokens, and the last ones."""
    tokens = dict(tokens)
    rewriter = Rewriter(graph)
    for node in graph.nodes:
        orders = effects_of(node)
        if not orders:
            rewriter.keep(node)
            continue
        inputs = [rewriter.get(v) for v in node.inputs]
        given = [tokens[o] for o in orders]
        if effect_of(node):
            if len(orders) > 1 or any(has_effects(g) for _, g in subgraphs(node.params)):
                raise _Unknown
            specs = [v.spec for v in (*node.outs, *given)]
            twin = after(node.primitive)
            new = Node(twin, [*inputs, *given], node.params, specs, node.line)
            outs, left = new.outs[:-1], new.outs[-1:]
        else:
            through = _THROUGH.get(node.primitive.name)
            if through is None:
                raise _Unknown
            new, outs, left = through(node, inputs, orders, given)
        rewriter.nodes.append(new)
        rewriter.env.update(zip(node.outs, outs, strict=True))
        tokens.update(zip(orders, left))
    return rewriter.done(), tokens


@cache
def after(primitive: Primitive) -> Primitive:
    """A primitive that takes a token as its last argument and gives it as its last result."""

    def run(*arrays: Any, **params: Any) -> tuple[Any, ...]:
        found = primitive.cpu(*arrays[:-1], **params)
        return (*(found if primitive.multiple else (found,)), arrays[-1])

    def spec(*specs: Any, **params: Any) -> tuple[Any, ...]:
        found = primitive.spec(*specs[:-1], **params)
        return (*(found if primitive.multiple else (found,)), specs[-1])

    def batch(*args: Any, **params: Any) -> Any:
        raise NotImplementedError  # compiled code has no lanes

    return Primitive(
        f"{primitive.name}_after", cpu=run, spec=spec, batch=batch,
        multiple=True, effectful=primitive.effectful, differentiable=False,
        jvp=NOT_DIFFERENTIABLE, vjp=NOT_DIFFERENTIABLE, sample=None,
    )  # fmt: skip


# loops and branches -------------------------------------------------------------------------------


def _body(graph: Graph, orders: Sequence[Any], at: int, out_at: int | None) -> Graph:
    """A body that takes tokens as inputs from ``at`` on, and gives them from ``out_at`` on."""
    key = ("ordered", tuple(orders), at, out_at)
    found = graph.cache.get(key)
    if found is None:
        given = [input_value(constant(False, bool_).spec) for _ in orders]
        done, left = _chained(graph, dict(zip(orders, given)))
        inputs = [*graph.inputs[:at], *given, *graph.inputs[at:]]
        outputs = list(done.outputs)
        if out_at is not None:
            outputs[out_at:out_at] = [left[o] for o in orders]
        found = graph.cache[key] = Graph(inputs, done.nodes, outputs, graph.name)
    return found  # type: ignore[no-any-return]


def _insert(xs: Sequence[Any], at: int, more: Sequence[Any]) -> list[Any]:
    return [*xs[:at], *more, *xs[at:]]


def _loop(node: Node, inputs: list[Value], orders: Any, given: list[Value]) -> Any:
    """Tokens are the last carries."""
    params, n = dict(node.params), len(orders)
    at = params["carries"]
    params["carries"] = at + n
    params["body"] = _body(params["body"], orders, at, at)
    if "condition" in params:
        params["condition"] = _body(params["condition"], orders, at, None)
    specs = _insert([v.spec for v in node.outs], at, [t.spec for t in given])
    new = Node(node.primitive, _insert(inputs, at, given), params, specs, node.line)
    return new, [*new.outs[:at], *new.outs[at + n :]], new.outs[at : at + n]


def _branches(node: Node, inputs: list[Value], orders: Any, given: list[Value]) -> Any:
    """Tokens are the first operands, and the first results."""
    n = len(orders)
    params = {"branches": tuple([_body(g, orders, 0, 0) for g in node.params["branches"]])}
    specs = [v.spec for v in (*given, *node.outs)]
    new = Node(node.primitive, _insert(inputs, 1, given), params, specs, node.line)
    return new, new.outs[n:], new.outs[:n]


_THROUGH = {"scan": _loop, "while": _loop, "cond": _branches}
