"""Whose gradients are averaged over ranks, for passes that do not go to ``grad``.

``DistributedDataParallel`` hears of a gradient in ``grad`` by the hooks of its parameters. What a
pass of ``torch.distributed.autograd`` brings lies in its context, which looks here.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary, ref

from fx.tape import Leaf

_averaging: WeakKeyDictionary[Leaf, tuple[Any, int]] = WeakKeyDictionary()


def enter(reducer: Any, leaves: list[Leaf]) -> None:
    """Let ``reducer.ready_in(context, i)`` hear of a gradient at the ``i``-th leaf."""
    for i, leaf in enumerate(leaves):
        _averaging[leaf] = ref(reducer), i


def tell(context: Any, leaves: list[Leaf]) -> None:
    """The gradients of these leaves are in a context."""
    for leaf in leaves:
        reducer, i = _averaging.get(leaf, (None, 0))
        found = None if reducer is None else reducer()
        if found is not None:
            found.ready_in(context, i)
