"""Gradients of leaves: how many are set at once, and what tensors have that require grad no more.

``requires_grad_(False)`` leaves ``x.grad`` and the hooks of ``x`` where they are, and
``requires_grad_()`` goes on with them, and with what was computed before: a generator's loss goes
through a critic that is frozen meanwhile. A tensor that requires no grad has no node, so its leaf
waits here, as long as the tensor lives.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import repeat
from typing import Any
from weakref import ref

from fx.away import Away, gradient_of
from fx.commit import Stores
from fx.config import modes
from fx.dtypes import INEXACT
from fx.errors import DTypeError
from fx.tape import Leaf, asleep
from fx.tensor import Tensor

# by the id of the tensor: a weak reference to it, its leaf, and how often a stage has asked for it
leaves: dict[int, list[Any]] = {}
# by the id of a tensor: the programs that were compiled while no gradient of it waited, weakly
without: dict[int, dict[int, Any]] = {}
_PATIENCE = 4  # a step that begins with zero_grad asks once


def check_differentiable(x: Tensor) -> None:
    """Refuse what cannot require grad.

    Raises:
        DTypeError: if it is neither floating nor complex.
    """
    if x.dtype not in INEXACT:
        raise DTypeError(
            f"only floating and complex tensors can require gradients, got {x.spec!r}; "
            f"write x = x.astype(fx.float32).requires_grad_()"
        )


def rest(x: Any, leaf: Leaf) -> None:
    """Keep the leaf of a tensor that will require grad no more: what was computed before has it.

    A backward pass adds nothing to it meanwhile.
    """
    x = _place(x)
    number = id(x)

    def gone(_: Any, forget: Any = leaves.pop, woken: Any = asleep.discard) -> None:
        forget(number, None)  # at exit modules are empty
        woken(leaf)

    leaves[number] = [ref(x, gone), leaf, 0]
    asleep.add(leaf)
    if leaf.grad is not None:
        tell(x)


def _place(x: Any) -> Any:
    """Under what the leaf of a tensor waits: of one that is written, the cell behind it."""
    return x.resting if x.written else x


def moved(x: Any, cell: Any) -> None:
    """What waits for a tensor waits for the cell that holds its values from now on."""
    found = leaves.pop(id(x), None)
    if found is not None:
        rest(cell, found[1])


def tell(x: Any) -> None:
    """A gradient waits for a tensor from now on: what was compiled without one is dropped."""
    for held in without.pop(id(_place(x)), {}).values():
        program = held()
        if program is not None and program.guards is not None:
            program.guards.death.note(None)


def woken(x: Any) -> Leaf | None:
    """The leaf of a tensor that is about to require grad again; None if none waits."""
    found = leaves.pop(id(_place(x)), None)
    if found is None:
        return None
    asleep.discard(found[1])
    return found[1]  # type: ignore[no-any-return]


def at_rest(x: Any) -> Leaf | None:
    """The leaf that waits for a tensor; None if there is none, as nearly always."""
    stage = modes.stage
    if stage is None and not leaves:
        return None
    x = _place(x)
    found = leaves.get(id(x))
    if stage is None:
        return None if found is None else found[1]
    if found is None or found[1].grad is None:
        _note(stage, x)
        return None if found is None else found[1]
    found[2] += 1
    if found[2] < _PATIENCE:
        stage.postpone()
    stage.give_up("it reads the gradient of a tensor that requires grad no more")


def _note(stage: Any, x: Any) -> None:
    """What is staged depends on that no gradient waits for a tensor."""
    while stage is not None:
        program = getattr(stage, "program", None)
        if program is not None:
            without.setdefault(id(x), {})[id(program)] = ref(program)
        stage = stage.outer


def plan_gradients(stores: Stores, pairs: Sequence[tuple[Tensor, Tensor | None]]) -> bool:
    """List the stores of gradients; False where each must be set itself."""
    if modes.stage is not None:
        return False
    for owner, grad in pairs:
        leaf = owner._node or at_rest(owner)
        if leaf is None and grad is None:
            continue
        if type(leaf) is not Leaf or not (grad is None or type(grad) is Tensor):
            return False
        if type(leaf.grad) is Away:
            gradient_of(leaf)
        stores.add(leaf, "grad", grad)
    return True


def set_gradients(pairs: Sequence[tuple[Tensor, Tensor | None]]) -> None:
    """Set gradients, all at once: what interrupts it finds each as before, or each after.

    They are of the shapes and dtypes of their owners.
    """
    stores = Stores()
    if plan_gradients(stores, pairs):
        stores.commit()
        return
    for owner, grad in pairs:
        owner.grad = grad  # type: ignore[attr-defined]


def drop_gradients(owners: Sequence[Tensor]) -> None:
    """Set gradients to None, all at once."""
    found = [node for x in owners if (node := x._node or at_rest(x)) is not None]
    if modes.stage is None and all(type(leaf) is Leaf for leaf in found):
        before = [leaf.grad for leaf in found]  # held until the end, which may run anything
        if not any(type(grad) is Away for grad in before):
            deque(map(setattr, found, _GRAD, _NONE), 0)
            return
    set_gradients([(x, None) for x in owners])


_GRAD, _NONE = repeat("grad"), repeat(None)
