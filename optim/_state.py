"""State of optimizers as it is saved and loaded: in PyTorch's form, from either library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from itertools import chain
from typing import Any

from fx.dtypes import FLOATING, float32
from fx.errors import StateError
from fx.ops.making.interop import tensor
from fx.optim._held import States
from fx.optim._rule import Rule, begun
from fx.prims.compare import astype
from fx.state import Cell
from fx.tensor import Tensor


def number_of(p: Any, numbers: Mapping[int, int]) -> Any:
    """The key of state in a state dict: a parameter's number, or what is no parameter itself."""
    return numbers[id(p)] if isinstance(p, Tensor) else p


def saved(held: Any, rule: Rule | None, values: Mapping[int, Tensor]) -> Any:
    """The state of a parameter as a state dict has it: values of this moment, by ids of cells."""
    if isinstance(held, Cell):
        found = values.get(id(held))
        return held.detach() if found is None else found
    if isinstance(held, list | tuple):
        return type(held)([saved(x, None, values) for x in held])
    if not isinstance(held, dict):
        return held
    unsaved, whole = ((), ()) if rule is None else (rule.unsaved, rule.whole)
    return {
        k: int(saved(v, None, values)) if k in whole else saved(v, None, values)
        for k, v in held.items()
        if k not in unsaved
    }


def restored(
    state: Mapping[Any, Any],
    found: Sequence[Mapping[str, Any]],
    groups: Sequence[Mapping[str, Any]],
    rule: Rule | None,
    make: Any,
) -> States:
    """The state of an optimizer from that of a state dict.

    Args:
        state: the state by number.
        found: the groups in the state dict.
        groups: those of the optimizer, with parameters.
        rule: of the optimizer, None if it keeps state in its own way.
        make: what the state of a parameter is kept in.

    Raises:
        StateError: if the shape of a slot does not match.
    """
    out = States((), make)
    owners = [(p, i) for i, g in enumerate(groups) for p in g["params"]]
    owner = dict(zip(chain.from_iterable(g["params"] for g in found), owners, strict=True))
    together: dict[Any, dict[str, Cell]] = {}  # equal counts of a group are one, and so one clock
    for number, held in state.items():
        if number not in owner:
            out[number] = held
            continue
        p, i = owner[number]
        if rule is None:
            out[p] = {k: option(v) for k, v in held.items()}
            continue
        names = [k for k in rule.counts(groups[i]) if k in held]
        counts = {k: _own(held[k]) for k in names}
        key = (i, *[(k, float(v)) for k, v in counts.items()])
        if key not in together:
            together[key] = {k: _count(k, v) for k, v in counts.items()}
        slots = {k: _slot(k, v, p, rule, groups[i]) for k, v in held.items() if k not in names}
        out[p] = {**together[key], **{k: v for k, v in slots.items() if v is not None}}
    return out


def _own(value: Any) -> Tensor:
    """A value as a tensor that nobody else can change."""
    return value.detach() if isinstance(value, Tensor) else tensor(value)


def _count(name: str, value: Tensor) -> Cell:
    return Cell(value if value.dtype in FLOATING else astype(value, dtype=float32), name=name)


def _slot(name: str, value: Any, p: Cell, rule: Rule, group: Any) -> Any:
    if value is None or isinstance(value, str | bool):
        return value
    x = _own(value)
    expected = p.shape
    if name in rule.slots(group, p):
        expected = begun(rule, name, p, group).shape
    elif x.shape == ():
        expected = ()
    if x.shape != expected:
        raise StateError(
            f"loaded state dict holds {name} of shape {x.shape} for a parameter of shape {p.shape}"
            + ("" if expected == p.shape else f", where {expected} was expected")
        )
    return Cell(x if x.dtype == p.dtype else astype(x, dtype=p.dtype), name=name)


def option(value: Any) -> Any:
    """An option or a piece of state from a state dict; tensors of either library as ours."""
    if isinstance(value, Tensor):
        return value.detach()
    if isinstance(value, list | tuple):
        return type(value)([option(x) for x in value])
    if hasattr(value, "__dlpack__"):
        return tensor(value)
    return deepcopy(value)
