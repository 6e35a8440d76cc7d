"""The orders of the schedules: when each rank computes which stage for which micro-batch.

``p`` ranks, ``v`` stages in each, ``m`` micro-batches. Stage ``s`` is in rank ``s % p``, but in the
V of ``zbv`` rank ``r`` has stages ``r`` and ``2p - 1 - r``.

Each knows its micro-batches and nothing of time: the way forward as one sequence, the way back as
another, and how many of the first come before the second begins. From then on they take turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fx.distributed.pipelining.actions import FORWARD, FULL, INPUT, WEIGHT, Action, Order
from fx.errors import ArgumentError

Pairs = Sequence[tuple[int, int]]  # of stage and micro-batch


def gpipe(p: int, v: int, m: int) -> Order:
    """All forward, then all backward (Huang et al. 2019)."""
    _one_stage(v, "ScheduleGPipe")
    return looped_bfs(p, 1, m, turned=False)


def looped_bfs(p: int, v: int, m: int, turned: bool = True) -> Order:
    """GPipe with several stages a rank, the earliest first (Lamy-Poirier 2022)."""
    back = range(m)[::-1] if turned else range(m)
    return [
        [Action(s, FORWARD, i) for s in range(r, p * v, p) for i in range(m)]
        + [Action(s, FULL, i) for s in range(r, p * v, p)[::-1] for i in back]
        for r in range(p)
    ]


def one_f_one_b(p: int, v: int, m: int) -> Order:
    """A backward pass as soon as can be, so that ``p - r`` micro-batches are held (PipeDream)."""
    _one_stage(v, "Schedule1F1B")
    if m < p:
        raise ArgumentError(
            f"Number of microbatches ({m}) must be greater than or equal to the number of stages "
            f"({p})."
        )
    return [
        list(_in_turns([(r, i) for i in range(m)], [(r, i) for i in range(m)], p - r - 1))
        for r in range(p)
    ]


def interleaved(p: int, v: int, m: int) -> Order:
    """1F1B with several stages a rank (Narayanan et al. 2021): bubbles are ``v`` times smaller."""
    size = _round(p, m, "Interleaved 1F1B")
    warm = lambda r: (v - 1) * size + 2 * (p - 1 - r)
    return [list(_in_turns(*_rounds(p, v, m, size, r), warm(r))) for r in range(p)]


def interleaved_zero_bubble(p: int, v: int, m: int) -> Order:
    """The same, where weights wait: rank ``r`` is ``r`` micro-batches late with them (ZB-H1)."""
    size = _round(p, m, "Zero bubble")
    warm = lambda r: (v - 1) * size + (p - 1 - r)
    return [list(_in_turns(*_rounds(p, v, m, size, r), warm(r), late=r)) for r in range(p)]


def zbv(p: int, v: int, m: int) -> Order:
    """Two stages a rank in a V; no bubble where F, I and W take as long (Qi et al. 2023, 6)."""
    if v != 2:
        raise ArgumentError(f"ZBV requires exactly 2 stages per rank, but got {v}.")
    enough = max(2 * p - 1, m)  # an order of fewer is one of these, without those that are not
    return [[a for a in _of_the_v(p, enough, r) if a.microbatch < m] for r in range(p)]


def _one_stage(v: int, name: str) -> None:
    if v != 1:
        raise ArgumentError(f"{name}: one stage a rank, got {v}")


def _round(p: int, m: int, name: str) -> int:
    """How many micro-batches a rank takes through one stage before it goes on with the next."""
    rounds = max(1, m // p)
    if m % rounds:
        raise ArgumentError(
            f"{name} requires the number of microbatches to be a multiple of the number of rounds "
            f"({rounds}), but got {m}."
        )
    return m // rounds


def _rounds(p: int, v: int, m: int, size: int, r: int) -> tuple[Pairs, Pairs]:
    """The ways forward and back of a rank: rounds of micro-batches, each through all stages."""
    forward, back = [], []
    for first in range(0, m, size):
        batches = range(first, first + size)
        forward += [(s, i) for s in range(r, p * v, p) for i in batches]
        back += [(s, i) for s in range(r, p * v, p)[::-1] for i in batches]
    return forward, back


def _in_turns(forward: Pairs, back: Pairs, warm: int, late: int | None = None) -> Iterator[Action]:
    """``warm`` steps forward, then one forward and one back, then the rest of the way back.

    With ``late`` the way back is in halves, and the weights come that many steps behind.
    """
    warm = min(warm, len(forward))
    ahead = [Action(s, FORWARD, i) for s, i in forward]
    yield from ahead[:warm]
    rest = iter(ahead[warm:])
    for n, (s, i) in enumerate(back):
        yield from [a for a in [next(rest, None)] if a is not None]
        if late is None:
            yield Action(s, FULL, i)
            continue
        yield Action(s, INPUT, i)
        if n >= late:
            yield Action(back[n - late][0], WEIGHT, back[n - late][1])
    if late is not None:
        yield from [Action(s, WEIGHT, i) for s, i in back[len(back) - min(late, len(back)) :]]


class _Counter:
    """The actions of one stage, each kind counting its micro-batches by itself."""

    def __init__(self, stage: int) -> None:
        self.stage = stage
        self.done = dict.fromkeys((FORWARD, INPUT, WEIGHT), 0)

    def next(self, kinds: str) -> list[Action]:
        listed = [Action(self.stage, kind, self.done[kind]) for kind in kinds]
        for kind in kinds:
            self.done[kind] += 1
        return listed


def _of_the_v(p: int, m: int, r: int) -> list[Action]:
    down, up = _Counter(r), _Counter(2 * p - 1 - r)  # the two arms of the V
    listed: list[Action] = []
    for _ in range(2 * (p - r) - 1):
        listed += down.next("F")
    for _ in range(r):
        listed += up.next("F") + down.next("F")
    for _ in range(p - r):
        listed += up.next("FIW")
    while up.done[FORWARD] < m:
        listed += down.next("F") if down.done[FORWARD] < m else []
        listed += down.next("IW") + up.next("FIW")
    for _ in range(r):
        listed += down.next("I") + up.next("I")
    while down.done[INPUT] < m:
        listed += down.next("IW")
    for arm in (up, down):
        while arm.done[WEIGHT] < m:
            listed += arm.next("W")
    return listed
