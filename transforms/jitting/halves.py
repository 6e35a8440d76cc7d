"""The way back of a compiled call in two: cotangents of some leaves, then those of others."""

from __future__ import annotations

from collections.abc import Sequence

from fx.prims.complex import repaired
from fx.tape import Select
from fx.tensor import Tensor
from fx.transforms.jitting.call import GraphPullback


def first_half(
    outs: Sequence[Tensor], cts: Sequence[Tensor], inputs: Sequence[Tensor]
) -> list[Tensor | None] | None:
    """The cotangents of ``inputs``, so that a later ``backward(outs, cts)`` gives only the rest.

    Args:
        outs: all results that have a cotangent, of one call of a compiled function.
        cts: their cotangents, in PyTorch's pairing.
        inputs: leaves.

    Returns:
        one entry an input, None for what no result depends on; None, and nothing is changed,
        where the results are not those of one compiled call on leaves alone.
    """
    places = [x._node for x in outs]
    nodes = {place.of for place in places if type(place) is Select}
    if len(nodes) != 1 or any(type(place) is not Select for place in places):
        return None
    (node,) = nodes
    pullback = getattr(node.pullback, "bare", None)
    if type(pullback) is not GraphPullback:
        return None
    leaves = [x._node for x in inputs]
    bundle: list[Tensor | None] = [None] * len(node.specs)
    for place, ct in zip(places, cts):
        before, ct = bundle[place.index], repaired(ct) if ct.dtype.kind == "c" else ct
        bundle[place.index] = ct if before is None else before + ct
    first = frozenset([i for i, p in enumerate(node.parents) if p is not None and p in leaves])
    halves = pullback.halves(bundle, first)
    if halves is None:
        return None
    grads, node.pullback = halves
    found: list[Tensor | None] = []
    for leaf in leaves:
        total: Tensor | None = None
        for i in first:
            if node.parents[i] is leaf and grads[i] is not None:
                total = grads[i] if total is None else total + grads[i]
        found.append(repaired(total) if total is not None and total.dtype.kind == "c" else total)
    node.parents = tuple([None if i in first else p for i, p in enumerate(node.parents)])
    return found
