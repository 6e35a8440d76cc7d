"""Inlining: calls of jitted functions are replaced by their bodies."""

from __future__ import annotations

from fx.graph.ir import Graph, Rewriter, Value
from fx.graph.passes.rewriting import copy_node

CALL = "jit_call"  # the primitive whose parameter "graph" is what is called


def inline(graph: Graph) -> Graph:
    """The graph with the bodies of calls in place of the calls, calls within bodies too.

    The nodes of a body keep the user's lines that they had.
    """
    return _inlined(graph, {})


def _inlined(graph: Graph, done: dict[Graph, Graph]) -> Graph:
    if not any(node.primitive.name == CALL for node in graph.nodes):
        return graph
    found = done.get(graph)
    if found is not None:
        return found
    rewriter = Rewriter(graph)
    for node in graph.nodes:
        if node.primitive.name != CALL:
            rewriter.keep(node)
            continue
        body = _inlined(node.params["graph"], done)
        env: dict[Value, Value] = dict(zip(body.inputs, [rewriter.get(v) for v in node.inputs]))
        for inner in body.nodes:
            new = copy_node(inner, tuple([env.get(v, v) for v in inner.inputs]))
            rewriter.nodes.append(new)
            env.update(zip(inner.outs, new.outs))
        for out, result in zip(node.outs, body.outputs):
            rewriter.replace(out, env.get(result, result))
    done[graph] = rewriter.done()
    return done[graph]
