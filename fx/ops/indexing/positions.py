"""Positions: indices that a program gets from a number which is not known while it is staged.

``cache[:, pos] = k`` and ``x[:, pos : pos + 4]`` would be programs of their own for each ``pos`` if
that were asked for its value. Where the shape does not depend on it the number becomes a tensor of
indices instead, an input of one program:

    [:, pos]                 [:, wrapped(pos)]
    [:, pos : pos + 4]       [:, wrapped(pos + [0, 1, 2, 3])]

What remains assumed is that the position lies inside, and how long a slice is. A slice that begins
at a known place, ``[:, :pos]``, is one of plain numbers, and only its length is asked for: nothing
but shapes comes of that, so that one program may serve all lengths
(``transforms/jitting/README.md``).
"""

from __future__ import annotations

import math
from typing import Any

import fx.prims.indexing as prims
import fx.prims.shape as shape_prims
from fx.dtypes import int64
from fx.graph.staging import is_staged
from fx.prims.creation import iota
from fx.slotted import slotted
from fx.staged_number import Length, StagedNumber
from fx.tensor import Tensor

_BASIC = (int, slice, type(Ellipsis))  # as type() says it, so that no staged number is one


def positioned(x: Tensor, index: Any) -> Any:
    """The index with tensors in the place of staged numbers; itself where that cannot be."""
    entries = index if type(index) is tuple else (index,)
    count = len([e for e in entries if type(e) is StagedNumber])
    cuts = len([e for e in entries if type(e) is slice and type(e.start) is StagedNumber])
    ends = len([e for e in entries if type(e) is slice and type(e.stop) is StagedNumber])
    if not (count or cuts or ends) or any(_type_of(e) is None for e in entries):
        return index
    if cuts and (cuts > 1 or count or any(type(e) is int or _is_place(e) for e in entries)):
        return index  # axes that an index drops would stand elsewhere
    if (cuts or count) and any(e is None for e in entries):
        return index
    dots = [i for i, e in enumerate(entries) if e is Ellipsis]
    axes = [i for i, e in enumerate(entries) if e is not None]
    if len(dots) > 1 or len(axes) - len(dots) > x.ndim:
        return index  # which is refused
    found: list[Any] = []
    for i, e in enumerate(entries):
        before = len([at for at in axes if at < i])
        axis = before if not dots or i <= dots[0] else x.ndim - len(axes) + before
        if type(e) is StagedNumber:
            e = _place(e, x._shape[axis])
        elif type(e) is slice and _is_staged(e):
            e = _places(e, x._shape[axis], x)
        if e is None and entries[i] is not None:
            return index
        found.append(e)
    return tuple(found)


def has_tensor(index: tuple[Any, ...]) -> bool:
    """Whether an index has a tensor among its entries."""
    return any(isinstance(e, Tensor) for e in index)


def has_place(index: Any) -> bool:
    """Whether an index is one of ints, slices and such, some of its ints tensors."""
    entries = index if type(index) is tuple else (index,)
    return all(e is None or type(e) in _BASIC or _is_place(e) for e in entries)


def _is_place(e: Any) -> bool:
    return isinstance(e, Tensor) and not e.ndim and e.dtype.kind in "iu"


def _type_of(e: Any) -> Any:
    if e is None or type(e) in _BASIC or type(e) is StagedNumber or _is_place(e):
        return type(e)
    return None


def _is_staged(e: slice) -> bool:
    return type(e.start) is StagedNumber or type(e.stop) is StagedNumber


def _is_integer(e: Any) -> bool:
    now = e.now if type(e) is StagedNumber else e
    return type(now) is int


def _place(e: StagedNumber, n: int) -> Tensor | None:
    """The tensor of a position; None where it lies outside, which is said elsewhere."""
    if not _is_integer(e) or not e.known(Within(-n, n)):
        return None
    return prims.wrap_index(e.in_dtype(int64), size=n)


@slotted(frozen=True)
class Within:
    """Whether a number lies between two, the second among them or not: assumed of other calls."""

    low: int
    high: float

    def __call__(self, now: int) -> bool:
        return self.low <= now < self.high


def _places(e: slice, n: int, x: Tensor) -> Any:
    """The tensor of the positions that a slice names, or another slice."""
    start, stop = e.start, e.stop
    if e.step is not None and not (type(e.step) is int and e.step == 1):
        return None
    start = 0 if start is None else start
    stop = n if stop is None else stop
    if not (_is_integer(start) and _is_integer(stop)):
        return None
    start, stop = _bound(start, n), _bound(stop, n)
    length = stop - start
    if type(length) is StagedNumber:
        length = length.known(Length(n)) if is_staged(x) else int(length)
    if type(start) is not StagedNumber or length <= 0:
        first = int(start)
        return slice(first, max(first + length, first))
    at = start.in_dtype(int64)
    if length > 1:
        steps = iota(
            shape=(length,), axis=0, start=0, step=1, dtype=int64, device=x.device.name
        )  # (length,)
        at = at + steps
    else:
        at = shape_prims.reshaped(at, (1,))
    return prims.wrap_index(at, size=n)


def _bound(e: Any, n: int) -> Any:
    """The end of a slice, counted from the front and inside; on which side it lies is assumed."""
    if type(e) is not StagedNumber:
        return max(min(e if e >= 0 else e + n, n), 0)
    if e.known(Within(0, n + 1)):
        return e
    if e.known(Within(-n, 0)):
        return e + n
    return n if e.known(Within(0, math.inf)) else 0  # numbers of Python have no largest
