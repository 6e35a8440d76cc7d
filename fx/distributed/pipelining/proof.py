"""What an order does, without computing: that it is whole, that it ends, and how long it takes.

``prove`` refuses an order that would hang, or would leave something out, and names the action.
Every action starts as soon as its rank is free and what it needs is there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from fx.distributed.pipelining.actions import (
    COMPUTES,
    FORWARD,
    FULL,
    INPUT,
    RECV_B,
    RECV_F,
    SEND_B,
    SEND_F,
    WEIGHT,
    Action,
    Order,
    homes,
    with_messages,
)
from fx.errors import ArgumentError

COSTS = {FORWARD: 1.0, FULL: 2.0, INPUT: 1.0, WEIGHT: 1.0}


class Proof(NamedTuple):
    """What is known of an order.

    Attributes:
        ends: when each action is through; where it is ``B``, the same of ``I``.
        span: when the last one is.
        idle: for each rank, how much of the span it does nothing.
        live: for each rank, of how many micro-batches it holds activations at most, stage by stage
            counted; from ``F`` to ``B`` or ``W``.
    """

    ends: dict[Action, float]
    span: float
    idle: list[float]
    live: list[int]


def prove(
    order: Order, stages: int, microbatches: int, cost: Callable[[Action], float] | None = None
) -> Proof:
    """Run an order with messages by the times that its actions take.

    Without ``cost`` passes take the times ``COSTS`` and messages none.

    Raises:
        ArgumentError: if something is missing or there twice, comes before what it needs, or waits
            for ever; naming the actions.
    """
    home = homes(order)
    _complete(order, stages, microbatches)
    cost = cost or (lambda action: COSTS.get(action.kind, 0.0))
    ends: dict[Action, float] = {}
    clock = [0.0] * len(order)
    busy = [0.0] * len(order)
    at = [0] * len(order)
    moved = True
    while moved:
        moved = False
        for rank, actions in enumerate(order):
            while at[rank] < len(actions):
                action = actions[at[rank]]
                needs = _needs(action, stages, home)
                if not all(n in ends for n in needs):
                    break
                taken = cost(action)
                ends[action] = max([clock[rank], *[ends[n] for n in needs]]) + taken
                if action.kind in COMPUTES:  # messages pass while the rank goes on
                    clock[rank] = ends[action]
                    busy[rank] += taken
                if action.kind == FULL:
                    ends[Action(action.stage, INPUT, action.microbatch)] = ends[action]
                at[rank] += 1
                moved = True
    waiting = [
        f"rank {r} at {a[i]}, which needs "
        + ", ".join([str(n) for n in _needs(a[i], stages, home) if n not in ends])
        for r, (a, i) in enumerate(zip(order, at))
        if i < len(a)
    ]
    if waiting:
        raise ArgumentError(f"the schedule waits for ever: {'; '.join(waiting)}")
    span = max(clock, default=0.0)
    return Proof(ends, span, [span - b for b in busy], [_live(a) for a in order])


def _needs(action: Action, stages: int, home: Mapping[int, int]) -> list[Action]:
    """What must be through before an action."""
    s, kind, m = action
    if kind == FORWARD:
        if s == 0:
            return []
        return [Action(s, RECV_F, m) if home[s] != home[s - 1] else Action(s - 1, FORWARD, m)]
    if kind in (FULL, INPUT):
        own = [Action(s, FORWARD, m)]
        if s == stages - 1:
            return own
        if home[s] != home[s + 1]:
            return [*own, Action(s, RECV_B, m)]
        return [*own, Action(s + 1, INPUT, m)]
    if kind == WEIGHT:
        return [Action(s, INPUT, m)]
    if kind == SEND_F:
        return [Action(s, FORWARD, m)]
    if kind == RECV_F:
        return [Action(s - 1, SEND_F, m)]
    if kind == SEND_B:
        return [Action(s, INPUT, m)]
    return [Action(s + 1, SEND_B, m)]


def _complete(order: Order, stages: int, microbatches: int) -> None:
    """Refuse what is missing, and what is there twice."""
    seen = Counter([a for actions in order for a in actions])
    twice = [str(a) for a, count in seen.items() if count > 1]
    if twice:
        raise ArgumentError(f"the schedule does {', '.join(twice)} more than once")
    strange = [a for a in seen if a.stage >= stages or a.microbatch >= microbatches]
    if strange:
        raise ArgumentError(
            f"the schedule has {strange[0]}, and there are {stages} stages and {microbatches} "
            f"microbatches"
        )
    trains = any(a.kind in (FULL, INPUT, WEIGHT) for a in seen)
    for s in range(stages):
        for m in range(microbatches):
            kinds = [k for k in COMPUTES if Action(s, k, m) in seen]
            allowed = [[FORWARD, FULL], [FORWARD, INPUT, WEIGHT]] if trains else [[FORWARD]]
            if kinds not in allowed:
                raise ArgumentError(
                    f"the schedule does {' and '.join(kinds) or 'nothing'} for microbatch {m} in "
                    f"stage {s}; expected {' or '.join(map(' and '.join, allowed))}"
                )
    computes = [[a for a in actions if a.kind in COMPUTES] for actions in order]
    expected = {a for actions in with_messages(computes) for a in actions}
    if expected != set(seen):
        missing = sorted([str(a) for a in expected - set(seen)])
        more = sorted([str(a) for a in set(seen) - expected])
        raise ArgumentError(
            "the messages of the schedule are not those of its stages: "
            + "; ".join(
                [f"{', '.join(names)} {what}" for names, what in
                 ((missing, "missing"), (more, "for nobody")) if names]
            )
        )  # fmt: skip


def _live(actions: Iterable[Action]) -> int:
    """How many activations are held at most."""
    held = most = 0
    for action in actions:
        held += {FORWARD: 1, FULL: -1, WEIGHT: -1}.get(action.kind, 0)
        most = max(most, held)
    return most
