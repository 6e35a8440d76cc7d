"""The pure face of optimizers: what ``init`` and ``update`` are, and the form made of a rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from fx import tree
from fx.dtypes import INEXACT, int64
from fx.errors import DTypeError
from fx.ops.convert import as_tensor
from fx.optim._rule import Clock, Options, Rule, begun, check_dtype, filled, first_count, updated
from fx.prims.creation import constant
from fx.state import Cell
from fx.tensor import Tensor


class State(NamedTuple):
    """The state of a pure optimizer: a pytree.

    ``counts`` holds scalars that no tensor goes into, above all the number of steps made (none
    where that does not matter); ``slots`` holds, by PyTorch's names, pytrees of the structure of
    the parameters, with an empty tensor where a leaf does not have that slot.
    """

    counts: dict[str, Any]
    slots: dict[str, Any]

    @property
    def step(self) -> Any:
        """The number of steps made, or None."""
        return self.counts.get("step")


class Pure(NamedTuple):
    """An optimizer as two functions.

    ``init(params) -> state`` and ``update(grads, state, params) -> (params, state)``, where
    ``params`` and ``grads`` are pytrees of one structure (a Module is one). Of complex parameters
    an update goes down along the conjugate of what ``fx.grad`` gives, so hand it that.
    """

    init: Callable[[Any], Any]
    update: Callable[[Any, Any, Any], tuple[Any, Any]]


class Transform(NamedTuple):
    """A change of gradients as two functions, to be chained in front of an optimizer.

    ``init(params) -> state`` and ``update(grads, state, params) -> (grads, state)``.
    """

    init: Callable[[Any], Any]
    update: Callable[[Any, Any, Any], tuple[Any, Any]]


def pure(name: str, rule: Rule, options: Options) -> Pure:
    """The pure form of a rule.

    Options that are functions are schedules; see ``schedule``.
    """
    schedules = {k: v for k, v in options.items() if callable(v)}
    if schedules:
        fixed = {k: v for k, v in options.items() if k not in schedules}
        return schedule(lambda **now: pure(name, rule, {**fixed, **now}), **schedules)
    rule.check(options)

    def init(params: Any) -> State:
        leaves, treedef = tree.flatten(params)
        values = [value_of(name, x) for x in leaves]
        for x in values:
            check_dtype(name, rule, x)
        device = values[0].device if values else "cpu"
        counts = {k: first_count(rule, k, options, device) for k in rule.counts(options)}
        owned = [rule.slots(options, x) for x in values]
        slots = {}
        for slot in dict.fromkeys(slot for own in owned for slot in own):
            first = [
                begun(rule, slot, x, options) if slot in own else filled(x, 0, (0,))
                for x, own in zip(values, owned, strict=True)
            ]
            slots[slot] = tree.unflatten(treedef, first)
        return State(counts, slots)

    def update(grads: Any, state: State, params: Any) -> tuple[Any, State]:
        leaves, treedef = tree.flatten(params)
        slopes = tree.flatten_up_to(treedef, grads)
        held = {slot: tree.flatten_up_to(treedef, x) for slot, x in state.slots.items()}
        clock = Clock(rule, options, state.counts)
        new: list[Tensor] = []
        for i, (leaf, slope) in enumerate(zip(leaves, slopes, strict=True)):
            x, g = value_of(name, leaf), value_of(name, slope)
            own = {slot: held[slot][i] for slot in rule.slots(options, x)}
            x, own = updated(rule, x, g, own, clock)
            new.append(x)
            for slot, value in own.items():
                held[slot][i] = value
        slots = {slot: tree.unflatten(treedef, listed) for slot, listed in held.items()}
        return tree.unflatten(treedef, new), State(clock.after, slots)

    return Pure(init, update)


class Scheduled(NamedTuple):
    """The state of ``schedule``: the number of steps made, int64, and the optimizer's state."""

    count: Any
    inner: Any


def schedule(make: Callable[..., Pure], **schedules: Callable[[Tensor], Any]) -> Pure:
    """An optimizer whose options follow the number of steps.

    The functions get the number of steps made before, an int64 scalar, and work under ``jit``
    without compiling again. ``pure.sgd(lr=f)`` is short for ``schedule(pure.sgd, lr=f)``; here any
    factory of optimizers will do, and further options are bound with ``functools.partial``.

    Args:
        make: gives an optimizer for options, as ``pure.adam``.
        schedules: ``count -> value`` for each option that is not constant.

    Example:
        >>> import fx
        >>> from fx.optim import pure
        >>> init, update = pure.schedule(pure.sgd, lr=lambda count: 1.0 / (1 + count))
        >>> w = fx.tensor([1.0])
        >>> state = init(w)
        >>> for _ in range(2):
        ...     w, state = update(fx.tensor([1.0]), state, w)
        >>> w
        tensor([-0.5000])
    """

    def at(count: Tensor) -> Pure:
        return make(**{k: f(count) for k, f in schedules.items()})

    def init(params: Any) -> Scheduled:
        count = constant(0, int64)
        return Scheduled(count, at(count).init(params))

    def update(grads: Any, state: Scheduled, params: Any) -> tuple[Any, Scheduled]:
        params, inner = at(state.count).update(grads, state.inner, params)
        return params, Scheduled(state.count + 1, inner)

    return Pure(init, update)


def value_of(name: str, leaf: Any) -> Tensor:
    """A leaf as a tensor.

    Raises:
        DTypeError: if it is neither floating nor complex.
    """
    if isinstance(leaf, Cell):
        return leaf.read()
    x = as_tensor(leaf)
    if x.dtype not in INEXACT:
        raise DTypeError(
            f"{name} updates floating and complex tensors, got a leaf {x.spec!r}; keep "
            f"integers out of params"
        )
    return x
