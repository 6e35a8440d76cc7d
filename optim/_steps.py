"""The step of a group: what it is made from, how it is made, and the state that it begins with."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from fx.config import modes
from fx.optim import _fused
from fx.optim._held import Slots
from fx.optim._rule import Clock, Rule, begun, first_count, updated
from fx.prims.placing import placements_of, redistribute
from fx.state import Cell, lasting, rebind_all
from fx.tensor import Tensor

_slot = dict.__getitem__


class Step(NamedTuple):
    """A group's step before it is made.

    Attributes:
        ready: for each parameter that moves, its gradient, its slots by name and its clock.
        names: the slots of all; of rules that are not elementwise each parameter has its own.
        clocks: cells of counts, and the clock that says what they become.
    """

    group: dict[str, Any]
    ready: list[tuple[Cell, Tensor, dict[str, Any], Clock]]
    names: tuple[str, ...]
    clocks: list[tuple[dict[str, Cell], Clock]]


def make_steps(steps: list[Step], rule: Rule) -> None:
    """Make the steps of all groups, and let everything that they change hold it at once."""
    counts = [
        (cell, clock.after[name])
        for step in steps
        for cells, clock in step.clocks
        for name, cell in cells.items()
    ]
    if rule.elementwise and modes.stage is None and modes.journal is None:
        work: list[Any] | None = []
        for step in steps:
            found = _fused.jobs(rule, step.group, step.ready, step.names)
            if found is None:
                work = None
                break
            work += found  # type: ignore[operator]
        if work is not None and all(type(x) is Tensor for _, x in counts):
            held = [(cell, cell.holding(x)) for cell, x in counts]
            if _fused.run(work, held):
                return
    new: list[tuple[Cell, Tensor]] = []
    for step in steps:
        names = step.names
        for p, g, held_slots, clock in step.ready:
            x = p.read()
            placed = placements_of(p.value)
            if (
                placed is not None
            ):  # its slots will lie so, and what they are made from is sent once
                g = redistribute(g, mesh=placed[0], placements=placed[1])
            if not rule.elementwise:
                names = rule.slots(step.group, p)
            slots = {name: _slot(held_slots, name).read() for name in names}
            x, slots = updated(rule, x, g, slots, clock)
            new.append((p, x))
            new += [(held_slots[name], value) for name, value in slots.items()]
    rebind_all([*new, *counts])


def has_moved(cell: Cell) -> bool:
    """Whether a function that is being staged has given a cell from outside another value."""
    return modes.stage is not None and id(cell) in getattr(modes.stage, "rebound", ())


def begin_slots(
    held: Slots, names: tuple[str, ...], p: Cell, group: dict[str, Any], rule: Rule
) -> None:
    """Fill in the slots that are missing: all of them before a parameter's first step."""
    made = [name for name in names if name not in held]
    held.fill({name: made_for(p, partial(begun, rule, name, p, group), name) for name in made})


def first_counts(
    rule: Rule, group: dict[str, Any], counts: tuple[str, ...], p: Cell, steps: int
) -> dict[str, Cell]:
    """Counts of parameters that have made so many steps, none or one."""

    def begin(name: str) -> Tensor:
        first = first_count(rule, name, group, p.device)
        return first + steps if name == "step" and steps else first

    return {name: made_for(p, partial(begin, name), name) for name in counts}


def made_for(p: Cell, make: Callable[[], Tensor], name: str) -> Cell:
    """A cell that lives as long as a parameter: beyond a staged function unless that made both."""
    if modes.stage is None or modes.stage.lasts(p):
        return lasting(make, name=name)
    return Cell(make(), name=name)
