"""How an operation on a mesh goes: by which cuts, chosen for the fewest bytes that are sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from fx.distributed.placements import REPLICATE, Partial, Placement, Placements, Shard
from fx.distributed.redistribution import cost
from fx.prims.factors import Factors, alike

Shape = tuple[int, ...]
_PLUS = Partial("sum")


class Way:
    """How an operation goes along one axis of the mesh: by a factor, by addends, or whole."""

    __slots__ = ("letter", "operands", "results")

    def __init__(
        self, operands: Sequence[Placement], results: Sequence[Placement], letter: str = ""
    ) -> None:
        self.operands, self.results, self.letter = operands, results, letter


# an operand: the shape of the whole, the bytes of an element, and where it lies, None on any mesh
Side = tuple[Shape, int, Placements | None]


def choice(
    told: Factors, sides: tuple[Side, ...], wanted: tuple[Shape, ...], mesh: Shape
) -> tuple[Way, ...]:
    """For each axis of the mesh the way for which the fewest bytes are sent; the first of equals.

    A cut that no operand has is not considered: it would come out of addends for half the bytes of
    a whole, but who uses the result would gather it again. All ranks choose alike, since they ask
    for nothing but shapes and placements; so a choice is kept for the next call that asks for them.

    Args:
        told: what may be cut together.
        sides: the operands.
        wanted: the shapes of the results.
        mesh: its sizes.
    """
    # what parts are computed with has no say in it
    key = told.operands, told.results, told.op, told.linear, told.added, None, told.places
    return _choice(key, sides, wanted, mesh)


@lru_cache(4096)
def _choice(
    key: tuple[Any, ...], sides: tuple[Side, ...], wanted: tuple[Shape, ...], mesh: Shape
) -> tuple[Way, ...]:
    told = Factors(*key)
    chosen: list[Way] = []
    for m, count in enumerate(mesh):
        now = [REPLICATE if p is None else p[m] for _, _, p in sides]
        sizes = [_bytes_here(side, mesh, m) for side in sides]
        best: Way | None = None
        least = 0.0
        for way in _ways(told, now, [n for n, _, _ in sides], wanted, [*chosen], mesh, m):
            price = sum(
                [cost(p, q, count, n) for p, q, n in zip(now, way.operands, sizes, strict=True)]
            )
            if best is None or price < least:
                best, least = way, price
        assert best is not None
        chosen.append(best)
    return tuple(chosen)


def _bytes_here(side: Side, mesh: Shape, m: int) -> float:
    """The bytes of what the other axes of the mesh leave of an operand."""
    shape, itemsize, placements = side
    size = float(itemsize)
    for n in shape:
        size *= n
    for k, (p, count) in enumerate(zip(placements or (), mesh)):
        if k != m and p.is_shard():
            size /= count
    return size


def _ways(
    told: Factors,
    now: Sequence[Placement],
    shapes: Sequence[Shape],
    wanted: Sequence[Shape],
    before: Sequence[Way],
    mesh: Shape,
    m: int,
) -> Iterator[Way]:
    whole = Way([REPLICATE] * len(now), [REPLICATE] * len(wanted))
    if all(p.is_replicate() for p in now):
        yield whole
        return
    if any(isinstance(p, Partial) and p != _PLUS for p in now):
        linear: tuple[Any, ...] = ()
    else:
        linear = told.linear
    for letter in told.letters():
        if letter == told.places and not now[1].is_replicate():
            continue  # to look up in parts all places are needed: whose own are cut keep the cut
        if _may_cut(told, letter, now, shapes, wanted, before, mesh, m):
            yield _by_factor(told, letter)
    for group in linear:
        if any(now[i] == _PLUS for i in group):
            placed = [_PLUS if i in group else REPLICATE for i in range(len(now))]
            yield Way(placed, [_PLUS] * len(wanted))
    yield whole


def _by_factor(told: Factors, letter: str) -> Way:
    summed = told.summed(letter)
    operands = [
        Shard(names.index(letter)) if letter in names
        else Partial(told.op) if summed and i in told.added
        else REPLICATE
        for i, names in enumerate(told.operands)
    ]  # fmt: skip
    results = [
        Shard(names.index(letter)) if letter in names
        else Partial(told.op) if summed
        else REPLICATE
        for names in told.results
    ]  # fmt: skip
    return Way(operands, results, letter)


def _may_cut(
    told: Factors,
    letter: str,
    now: Sequence[Placement],
    shapes: Sequence[Shape],
    wanted: Sequence[Shape],
    before: Sequence[Way],
    mesh: Shape,
    m: int,
) -> bool:
    """Whether an operand is cut along a factor, and so all that have it can be."""
    sides = [*zip(told.operands, shapes), *zip(told.results, wanted)]
    sizes = [n for names, shape in sides for c, n in zip(names, shape) if c == letter]
    counts = [n for w, n in zip(before, mesh) if w.letter == letter] + [mesh[m]]
    total = int(np.prod(counts))
    held = any(
        p == Shard(d)
        for p, names in zip(now, told.operands)
        for d, c in enumerate(names)
        if c == letter
    )
    if not held:
        return False
    partly = 0 < sum(letter in names for names in told.results) < len(told.results)
    if partly and sizes[0] % total:
        return False  # a part without an element knows nothing of the other results
    same = all(n == sizes[0] for n in sizes)
    return same or (len(counts) == 1 and alike(sizes, total)) or not any(n % total for n in sizes)
