"""Composite primitives as the reductions and elementwise nodes that loops are made of."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from fx.backends.cpu.llvm.loops.reduce import REDUCTIONS
from fx.dtypes import FLOATING
from fx.graph.ir import Graph, Node, Rewriter, Value, constant_value
from fx.primitive import registry
from fx.tensor import new_tensor


def decompose(graph: Graph) -> Graph:
    """The graph with softmax, log_softmax, logsumexp, sum_to and reductions of one written out."""
    if not any(_rule(n) for n in graph.nodes):
        return graph
    rewriter = Rewriter(graph)
    for node in graph.nodes:
        rule = _rule(node)
        if rule is None:
            rewriter.keep(node)
        else:
            inputs = [rewriter.get(v) for v in node.inputs]
            rewriter.replace(node.outs[0], rule(_Writer(rewriter, node), *inputs, **node.params))
    return decompose(rewriter.done())  # what was written out may reduce axes of size 1


def _rule(node: Node) -> Callable[..., Value] | None:
    """What writes a node out; None if it stays as it is."""
    name = node.primitive.name
    rule = _rules().get(name)
    if name in REDUCTIONS:
        shape = node.inputs[0].spec.shape
        rule = _of_one if all(shape[a] == 1 for a in node.params["axes"]) else None
    return rule if rule is not None and node.inputs[0].spec.size else None


class _Writer:
    """Adds nodes in the place of one."""

    def __init__(self, rewriter: Rewriter, node: Node) -> None:
        self.rewriter, self.node, self.line = rewriter, node, node.line

    def __getattr__(self, name: str) -> Callable[..., Value]:
        primitive = registry[name]
        return lambda *inputs, **params: self.rewriter.add(
            primitive, *inputs, line=self.line, **params
        )

    def number(self, value: float, like: Value) -> Value:
        """A scalar of the dtype of ``like``."""
        return constant_value(new_tensor(np.asarray(value, dtype=like.spec.dtype)))


def _softmax(w: _Writer, x: Value, *, axis: int) -> Value:
    dtype = x.spec.dtype
    x = _wide(w, x)
    e = w.exp(w.subtract(x, w.max(x, axes=(axis,), keepdims=True)))
    total = w.sum(e, axes=(axis,), keepdims=True)
    return _narrow(w, w.multiply(e, w.reciprocal(total)), dtype)


def _log_softmax(w: _Writer, x: Value, *, axis: int) -> Value:
    dtype = x.spec.dtype
    x = _wide(w, x)
    centred = w.subtract(x, w.max(x, axes=(axis,), keepdims=True))
    total = w.sum(w.exp(centred), axes=(axis,), keepdims=True)
    return _narrow(w, w.subtract(centred, w.log(total)), dtype)


def _logsumexp(w: _Writer, x: Value, *, axes: tuple[int, ...], keepdims: bool) -> Value:
    dtype = x.spec.dtype
    shape = _kept(x, axes) if not keepdims else None
    x = _wide(w, x)
    top = w.max(x, axes=axes, keepdims=True)
    top = w.where(w.isfinite(top), top, w.number(0.0, top))
    total = w.sum(w.exp(w.subtract(x, top)), axes=axes, keepdims=True)
    out = _narrow(w, w.add(w.log(total), top), dtype)
    return out if shape is None else w.reshape(out, shape=shape)


def _sum_to(w: _Writer, x: Value, *, shape: tuple[int, ...]) -> Value:
    lead = len(x.spec.shape) - len(shape)
    axes = tuple(range(lead)) + tuple(
        [i + lead for i, n in enumerate(shape) if n == 1 and x.spec.shape[i + lead] != 1]
    )
    out = w.sum(x, axes=axes, keepdims=True) if axes else x
    return out if out.spec.shape == shape else w.reshape(out, shape=shape)


def _of_one(w: _Writer, x: Value, *, axes: tuple[int, ...], keepdims: bool) -> Value:
    """A reduction over axes of size 1."""
    if w.node.outs[0].spec.dtype != x.spec.dtype:  # any, all
        x = w.astype(x, dtype=w.node.outs[0].spec.dtype)
    return x if keepdims or not axes else w.reshape(x, shape=_kept(x, axes))


def _kept(x: Value, axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([n for i, n in enumerate(x.spec.shape) if i not in axes])


def _wide(w: _Writer, x: Value) -> Value:
    if x.spec.dtype in FLOATING and x.spec.dtype.itemsize == 2:
        return w.astype(x, dtype=np.dtype("float32"))
    return x


def _narrow(w: _Writer, x: Value, dtype: Any) -> Value:
    return x if x.spec.dtype == dtype else w.astype(x, dtype=dtype)


@cache
def _rules() -> dict[str, Callable[..., Value]]:
    return {
        "softmax": _softmax,
        "log_softmax": _log_softmax,
        "logsumexp": _logsumexp,
        "sum_to": _sum_to,
    }
