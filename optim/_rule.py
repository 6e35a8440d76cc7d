"""Rule: one optimizer's arithmetic on one parameter, and the pure form made of it.

A rule knows nothing of parameter groups or cells: the stateful ``Optimizer`` and the pure form both
run it. What depends on the step count alone is computed once a step, not once a parameter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fx import tree
from fx.dtypes import FLOATING, float32, float64
from fx.errors import DTypeError
from fx.ops.convert import as_tensor
from fx.prims.compare import astype
from fx.prims.creation import constant, full
from fx.state import Cell
from fx.tensor import Tensor

Options = Mapping[str, Any]
Slots = dict[str, Tensor]


class Rule(NamedTuple):
    """The arithmetic of an optimizer.

    Args:
        check: refuses bad options.
        slots: ``(options) -> names``; what is kept for each parameter, zeros of its shape at first.
        counts: ``(options) -> bool``; whether the number of steps matters.
        scalars: ``(step, options) -> dict``; float64 scalars of the step that begins, from its
            number (from 1) as a float64 tensor; they are handed to ``update`` in the parameter's
            dtype.
        update: ``(parameter, gradient, slots, scalars, options) -> (parameter, slots)``.
        elementwise: whether each element of the results depends on that element alone; then all
            parameters are updated in one native call.
    """

    check: Callable[[Options], None]
    slots: Callable[[Options], tuple[str, ...]]
    counts: Callable[[Options], bool]
    scalars: Callable[[Tensor, Options], dict[str, Any]]
    update: Callable[..., tuple[Tensor, Slots]]
    elementwise: bool = False


class Clock:
    """The step that begins: its number and the scalars that follow from it, a dtype at a time."""

    __slots__ = ("_found", "_options", "_rule", "step")

    def __init__(self, rule: Rule, options: Options, before: Tensor | None) -> None:
        self._rule = rule
        self._options = options
        self._found: dict[Any, dict[str, Any]] = {}
        self.step = None if before is None else before + 1

    def scalars(self, dtype: Any) -> dict[str, Any]:
        """The scalars in ``dtype``."""
        if self.step is None:
            return {}
        found = self._found.get(dtype)
        if found is None:
            if float64 not in self._found:
                step = astype(self.step, dtype=float64)
                self._found[float64] = self._rule.scalars(step, self._options)
            found = {k: astype(v, dtype=dtype) for k, v in self._found[float64].items()}
            self._found[dtype] = found
        return found


def first_step(device: Any) -> Tensor:
    """The step count before the first step."""
    return constant(0.0, float32, str(device))


def zeros(like: Tensor) -> Tensor:
    """A slot at first."""
    return full(shape=like.shape, value=0, dtype=like.dtype, device=like.device.name)


class State(NamedTuple):
    """The state of a pure optimizer: a pytree.

    ``step`` counts the steps made, a scalar, or None where the count does not matter; ``slots``
    holds, by PyTorch's names, pytrees of the structure of the parameters.
    """

    step: Any
    slots: dict[str, Any]


class Pure(NamedTuple):
    """An optimizer as two functions.

    ``init(params) -> state`` and ``update(grads, state, params) -> (params, state)``, where
    ``params`` and ``grads`` are pytrees of one structure (a Module is one).
    """

    init: Callable[[Any], State]
    update: Callable[[Any, State, Any], tuple[Any, State]]


def pure(name: str, rule: Rule, options: Options) -> Pure:
    """The pure form of a rule with fixed options."""
    rule.check(options)

    def init(params: Any) -> State:
        leaves, treedef = tree.flatten(params)
        values = [_value(name, x) for x in leaves]
        device = values[0].device if values else "cpu"
        step = first_step(device) if rule.counts(options) else None
        slots = {
            slot: tree.unflatten(treedef, [zeros(x) for x in values])
            for slot in rule.slots(options)
        }
        return State(step, slots)

    def update(grads: Any, state: State, params: Any) -> tuple[Any, State]:
        leaves, treedef = tree.flatten(params)
        slopes = tree.flatten_up_to(treedef, grads)
        held = {slot: tree.flatten_up_to(treedef, x) for slot, x in state.slots.items()}
        clock = Clock(rule, options, state.step)
        new: list[Tensor] = []
        renewed: dict[str, list[Tensor]] = {slot: [] for slot in held}
        for i, (leaf, slope) in enumerate(zip(leaves, slopes, strict=True)):
            x, g = _value(name, leaf), _value(name, slope)
            own = {slot: listed[i] for slot, listed in held.items()}
            x, own = rule.update(x, g, own, clock.scalars(x.dtype), options)
            new.append(x)
            for slot, value in own.items():
                renewed[slot].append(value)
        slots = {slot: tree.unflatten(treedef, listed) for slot, listed in renewed.items()}
        return tree.unflatten(treedef, new), State(clock.step, slots)

    return Pure(init, update)


def _value(name: str, leaf: Any) -> Tensor:
    if isinstance(leaf, Cell):
        return leaf.read()
    x = as_tensor(leaf)
    if x.dtype not in FLOATING:
        raise DTypeError(
            f"{name} updates floating tensors, got a leaf {x.spec!r}; keep integers out of params"
        )
    return x


def check_positive(name: str, options: Options, *keys: str) -> None:
    """Refuse negative numbers among ``options``.

    Raises:
        ValueError: naming the option.
    """
    for key in keys:
        value = options[key]
        if not isinstance(value, Tensor) and not value >= 0.0:
            raise ValueError(f"{name}: invalid {key} {value}; it must not be negative")
