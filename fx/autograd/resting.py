"""Leaves at rest: what tensors gathered that require grad no more.

``requires_grad_(False)`` leaves ``x.grad`` and the hooks of ``x`` where they are, and
``requires_grad_()`` goes on with them. A tensor that requires no grad has no node, so its leaf
waits here, as long as the tensor lives.
"""

from __future__ import annotations

from typing import Any
from weakref import ref

from fx.config import modes
from fx.tape import Leaf

leaves: dict[
    int, tuple[Any, Leaf]
] = {}  # by the id of the tensor: a weak reference to it, its leaf


def rest(x: Any, leaf: Leaf) -> None:
    """Keep the leaf of a tensor that will require grad no more, if there is anything in it."""
    if leaf.grad is None and leaf.extra is None:
        return
    number = id(x)

    def gone(_: Any) -> None:
        leaves.pop(number, None)

    leaves[number] = ref(x, gone), leaf


def woken(x: Any) -> Leaf | None:
    """The leaf of a tensor that is about to require grad again; None if none waits."""
    found = leaves.pop(id(x), None)
    return None if found is None else found[1]


def at_rest(x: Any) -> Leaf | None:
    """The leaf that waits for a tensor; None if there is none, as nearly always."""
    if not leaves:
        return None
    found = leaves.get(id(x))
    if found is None:
        return None
    if modes.stage is not None:
        modes.stage.give_up("it reads the gradient of a tensor that requires grad no more")
    return found[1]
