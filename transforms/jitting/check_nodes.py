"""The first node of a compiled graph that computes something else than its primitive does.

Each graph that a call goes through is run node by node, by the primitives' own kernels. Where the
compiled code gives the same for every node, the function itself must do something else by now than
what was staged: then it is staged again, and the first node that is another one is named.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fx.dtypes import FLOATING
from fx.graph.ir import Graph, Node
from fx.tensor import Tensor, new_tensor
from fx.transforms.jitting.call import run_arrays
from fx.transforms.jitting.progress import Call
from fx.transforms.jitting.signature import Signature


def first_difference(jitted: Any, args: Any, kwargs: Any) -> str:
    """A sentence about the first node that differs, its line and both values; "" if none does."""
    signature = Signature(jitted, args, kwargs)
    program = jitted._find(signature, args)
    call = Call(jitted, program, signature)
    call._to_the_end()
    for segment in call.segments():
        found = _of_kernels(segment.graph, [call.get(v) for v in segment.needs])
        if found:
            return found
    from fx.transforms.jitting import shared
    from fx.transforms.jitting.function import Jitted

    again = Jitted(jitted.function, jitted.static_argnums, jitted.static_argnames)
    shared.forget(again)
    again_program = again._find(signature, args)
    fresh = Call(again, again_program, signature)
    fresh._to_the_end()
    old = [node for s in call.segments() for node in s.nodes]
    new = [node for s in fresh.segments() for node in s.nodes]
    for before, now in zip(old, new):
        if _differ(before, now):
            return (
                f"every node computes what it should, but the function does something else now, "
                f"since it reads what is not guarded: at {now.line} it does {_shown(now)}; "
                f"compiled was {_shown(before)} of {before.line}"
            )
    if len(old) != len(new):
        extra = (old if len(old) > len(new) else new)[min(len(old), len(new))]
        return (
            f"every node computes what it should, but the function does "
            f"{'fewer' if len(old) > len(new) else 'more'} operations now, since it reads what is "
            f"not guarded: the first one is {_shown(extra)} at {extra.line}"
        )
    return ""


def _of_kernels(graph: Graph, inputs: list[Tensor]) -> str:
    """The first node whose compiled value is another than that of its primitive."""
    from fx.transforms.jitting.check import TOLERANCE, alike, two

    made = [(node, v) for node in graph.nodes for v in node.outs]
    results = Graph(graph.inputs, graph.nodes, [v for _, v in made], graph.name).run(*inputs)
    expected = [(node, v, x) for (node, v), x in zip(made, results)]
    values: dict[Any, Any] = {**dict(zip(graph.inputs, inputs)), **{v: x for _, v, x in expected}}

    def differs(entry: tuple[Node, Any, Any]) -> str:
        node, value, x = entry
        alone = Graph(graph.inputs, graph.nodes, [value], graph.name)
        array = run_arrays(alone, [np.array(t._a) for t in inputs])[0]
        compiled, eager = new_tensor(array), x
        pair = [(t.dtype.name, np.array(t._a)) for t in (compiled, eager)]
        scale = max(
            [_largest(v.constant if v.constant is not None else values[v]) for v in node.inputs],
            default=0.0,
        )
        if alike(*pair, TOLERANCE.get(pair[0][0], 0.0) * scale):
            return ""
        return f"the first node that differs is {_shown(node)} at {node.line}: {two(*pair)}"

    return next(filter(None, map(differs, expected)), "")


def _largest(x: Tensor) -> float:
    """The largest value of a floating tensor: what rounding is relative to."""
    a = np.array(x._a)
    if x.dtype not in FLOATING or not a.size:
        return 0.0
    return float(np.abs(np.nan_to_num(a.astype(np.float64), posinf=0, neginf=0)).max())


def _differ(a: Node, b: Node) -> bool:
    if a.primitive is not b.primitive or [v.spec for v in a.outs] != [v.spec for v in b.outs]:
        return True
    plain = {k: v for k, v in a.params.items() if not isinstance(v, Graph | tuple)}
    if any(repr(b.params.get(k)) != repr(v) for k, v in plain.items()):
        return True
    for x, y in zip(a.inputs, b.inputs):
        if (x.constant is None) != (y.constant is None):
            return True
        if x.constant is not None and y.constant is not None:
            one, other = np.asarray(x.array), np.asarray(y.array)
            if one.shape != other.shape or one.tobytes() != other.tobytes():
                return True
    return False


def _shown(node: Node) -> str:
    """A node in words: its primitive, the specs of its operands, and constants."""
    parts = [
        repr(v.array.item()) if v.constant is not None and not v.spec.shape else repr(v.spec)
        for v in node.inputs
    ]
    return f"{node.primitive.name}({', '.join(parts)})"
