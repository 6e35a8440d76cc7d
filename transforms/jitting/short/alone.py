"""Results in memory of their own, where a program may write.

Two results that are equal are computed once, and ``x * 1`` is x: their arrays are one. PyTorch has
two there: the views of a program that has not written yet are found by their memory
(``fx/writing/finding.py``), and what NumPy writes into an argument is in that alone. What the
function itself gives as views stays one memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fx.config import writing
from fx.tensor import Tensor, new_tensor


def base_of(value: Any) -> Any:
    """What a value is a view of."""
    while value.node is not None and getattr(value.node.primitive, "is_view", False):
        value = value.node.inputs[0]
    return value


def shared_outputs(values: Sequence[Any], outputs: Sequence[Any]) -> set[int]:
    """The places of results that lie in memory of others only since a graph was optimised.

    Args:
        values: the results as they were staged.
        outputs: the same of the optimised graph, and more.
    """
    found: set[int] = set()
    known: dict[Any, Any] = {}
    if not writing.enabled:
        return found
    for i, (value, output) in enumerate(zip(values, outputs)):
        given, before = base_of(output), base_of(value)
        if given.node is None:
            apart = before.node is not None or given.constant is not None
        else:
            apart = known.setdefault(given, before) is not before
        if apart:
            found.add(i)
    return found


def alone(results: list[Any], values: Sequence[Any], given: Sequence[Any]) -> list[Any]:
    """The same of the tensors of one call: copies of what lies in memory of others.

    Args:
        results: of the call.
        values: as they were staged; None for those that are no arrays, or views taken anew.
        given: the arguments, and what was taken from outside.
    """
    if not writing.enabled:
        return results
    from fx.writing.layouts import owner_of

    def memory(x: Any) -> Any:
        return owner_of(x._a) if type(x) is Tensor and hasattr(x._a, "base") else None

    known = {id(owner): None for owner in map(memory, given) if owner is not None}
    out = []
    for x, value in zip(results, values, strict=True):
        owner = None if value is None else memory(x)
        if owner is not None:
            before = base_of(value)
            before = None if before.node is None else before  # one of the arguments
            if known.setdefault(id(owner), before) is not before:
                node, x = x._node, new_tensor(x._a.copy())
                x._node = node
        out.append(x)
    return out
