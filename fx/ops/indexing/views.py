"""Views: ``x[...]`` with ints, slices, None and Ellipsis.

For plain arrays this is NumPy's own indexing: one kernel and one node, whatever is in the index.
To transforms it is at most one ``slice``, one ``flip`` and one ``reshape``; so it is to the
pullback, which works them out when it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from numpy import asarray, ndarray

import fx.prims.shape as prims
from fx.config import modes
from fx.ops.indexing.language import FULL, bounds, out_of_range, skipped_axes, too_many
from fx.prims.fused import fuse
from fx.tape import CELL, attach, record_each
from fx.tensor import Tensor, _blank, new_tensor

Index = Any  # an int, a slice, None, an Ellipsis, or a tuple of them


def view(x: Tensor, index: Index) -> Tensor:
    """``x[index]``, for an index of ints, slices, None and Ellipsis alone.

    Raises:
        IndexingError: for what is out of range, too many indices, or a slice that is none.
    """
    held: Any = x if type(x) is Tensor or x.level != CELL else x.read()
    if type(held) is Tensor:
        array = held._a
        if type(array) is ndarray:
            try:
                found = array[index]
            except (IndexError, TypeError, ValueError):
                found = None
            if found is None:
                return _steps(x, index=index)  # which says what is wrong
            out = _blank()
            out._a = found if type(found) is ndarray else element(array, index)
            out._node = out._noted = None
            if held._node is not None and modes.record0:
                attach(indexed, back_of(array.shape, fixed(index)), (held._node,), out)
            if _note is not None and (held is not x or _note_plain) and modes.views:
                return _note(x, out, index)
            return out
    out = indexed(x, index=index)
    if _note is not None and modes.views:
        return _note(x, out, index)
    return out


_note: Callable[[Tensor, Tensor, Index], Tensor] | None = None  # of a cell, or a tracer
_note_plain = False  # of any tensor


share: Callable[[Any, Any], Any] | None = None  # notes that a tensor is of a cell (fx.writing)


def note_views(note: Callable[[Tensor, Tensor, Index], Tensor], plain: bool = False) -> None:
    """Have each view noted that is made while ``modes.views`` says so (fx.writing)."""
    global _note, _note_plain
    _note, _note_plain = note, plain


def element(array: Any, index: Index) -> Any:
    """One element, in its place in the memory of an array."""
    return array[(*index, ...) if type(index) is tuple else (index, ...)]


def cut_array(array: Any, *, index: Index) -> Any:
    """``array[index]``, also of one element a view."""
    found = array[index]
    return found if type(found) is ndarray else element(array, index)


def along(x: Tensor, axis: int, start: int, stop: int, step: int = 1) -> Tensor:
    """The slice start:stop:step along one axis, 0 <= start <= stop <= size."""
    return view(x, (*_FULL[axis], slice(start, stop, step)))


def pieces(x: Tensor, axis: int, places: Iterable[tuple[int, int]]) -> tuple[Tensor, ...]:
    """The slices between pairs of places along one axis."""
    before = _FULL[axis]
    return _views(x, [(*before, slice(a, b)) for a, b in places])


def rows(x: Tensor, axis: int) -> tuple[Tensor, ...]:
    """The slices along one axis, without it."""
    before = _FULL[axis]
    return _views(x, [(*before, i) for i in range(x._shape[axis])])


_FULL = [(FULL,) * n for n in range(65)]  # the axes before the one that is cut


def _views(x: Tensor, indices: Sequence[Index]) -> tuple[Tensor, ...]:
    """A view for each index, all in range and made of plain ints."""
    if type(x) is not Tensor or type(x._a) is not ndarray:
        return tuple([view(x, index) for index in indices])
    array = x._a
    if array.ndim == 1 and indices and type(indices[0][-1]) is int:
        indices = [(*index, ...) for index in indices]  # elements in their places
    outs = tuple([new_tensor(asarray(array[index])) for index in indices])
    if x._node is not None and modes.record0:
        shape = x._a.shape
        record_each(indexed, x, [back_of(shape, index) for index in indices], outs)
    if _note is not None and _note_plain and modes.views:
        return tuple([_note(x, out, index) for out, index in zip(outs, indices)])
    return outs


# in steps ---------------------------------------------------------------------------------------


class _Plan(NamedTuple):
    """What an index means for a shape, step by step; None where there is nothing to do."""

    cut: dict[str, Any] | None  # of `slice`: start, stop, step, drop
    flips: tuple[int, ...]
    kept: tuple[int, ...]  # the shape after these
    shape: tuple[int, ...] | None  # with the axes of the Nones
    asked: tuple[int, ...]  # the sizes of the axes of which an index means other parts at others


def _plan(shape: tuple[int, ...], index: Index) -> _Plan:
    entries = index if type(index) is tuple else (index,)
    rank = len(shape)
    start, stop, step, drop, flips = [0] * rank, list(shape), [1] * rank, [], []
    kept: list[int] = []
    out: list[int] = []
    asked: list[int] = []
    sliced = False
    axis = 0
    for e in entries:
        if e is None:
            out.append(1)
        elif e is Ellipsis:
            skipped = skipped_axes(entries, rank)
            if skipped < 0:
                raise too_many(entries, shape)
            kept += shape[axis : axis + skipped]
            out += shape[axis : axis + skipped]
            axis += skipped
        elif axis >= rank:
            raise too_many(entries, shape)
        elif type(e) is slice:
            count = n = shape[axis]
            if e != FULL:
                a, b, s, count = bounds(e, n)
                if not (count and _fits(e, n)):
                    asked.append(n)
                if s < 0:
                    a, b, s = a + (count - 1) * s, a + 1, -s
                    if count > 1:
                        flips.append(len(kept))
                if a or b != n or s != 1:
                    start[axis], stop[axis], step[axis] = a, b, s
                    sliced = True
            kept.append(count)
            out.append(count)
            axis += 1
        else:
            i, n = e, shape[axis]
            if i < 0:
                i += n
            if not 0 <= i < n:
                raise out_of_range(e, axis, shape)
            start[axis], stop[axis] = i, i + 1
            drop.append(axis)
            sliced = True
            axis += 1
    kept += shape[axis:]
    cut = {"start": tuple(start), "stop": tuple(stop), "step": tuple(step), "drop": tuple(drop)}
    return _Plan(
        cut if sliced else None,
        tuple(flips),
        tuple(kept),
        (*out, *shape[axis:]) if None in entries else None,
        tuple(asked),
    )


def _fits(e: slice, n: int) -> bool:
    """Whether a slice is not cut at the ends of an axis, so that it is a sum of the size."""
    ends = [k for k in (e.start, e.stop) if k is not None]
    return e.step in (None, 1) and all(type(k) is int and -n <= k <= n for k in ends)


def _steps(x: Tensor, *, index: Index) -> Tensor:
    plan = _plan(x._shape, index)
    if modes.stage is not None:
        modes.stage.was_told(plan.asked)
    if plan.cut is not None:
        x = prims.slice(x, **plan.cut)
    if plan.flips:
        x = prims.flip(x, axes=plan.flips)
    if plan.shape is not None:
        x = prims.reshaped(x, plan.shape)
    return x


def _back(ct: Tensor, shape: tuple[int, ...], index: Index) -> Tensor:
    """A cotangent of the view in its place among zeros."""
    plan = _plan(shape, index)
    if plan.shape is not None:
        ct = prims.reshaped(ct, plan.kept)
    if plan.flips:
        ct = prims.flip(ct, axes=plan.flips)
    return ct if plan.cut is None else prims.slice_transpose(ct, shape, **plan.cut)


_FIXED = frozenset((int, type(None)))


def fixed(index: Index) -> Index:
    """The index with plain ints in its slices: a bound may be a cell, which holds another later."""
    if type(index) is int:
        return index
    entries = index if type(index) is tuple else (index,)
    for e in entries:
        if type(e) is slice and not _FIXED.issuperset((type(e.start), type(e.stop), type(e.step))):
            return tuple([_fixed_slice(e) if type(e) is slice else e for e in entries])
    return index


def _fixed_slice(e: slice) -> slice:
    return slice(*[b if b is None else b.__index__() for b in (e.start, e.stop, e.step)])


def _vjp(needs: Any, x: Tensor, *, index: Index) -> Any:
    return back_of(x._shape, fixed(index))


def back_of(shape: tuple[int, ...], index: Index) -> Any:
    return lambda ct: (_back(ct, shape, index),)


def _kernel(x: ndarray, *, index: Index) -> Any:
    try:
        return x[index]
    except (IndexError, TypeError, ValueError):
        return None


indexed = fuse("view", cpu=_kernel, reference=_steps, vjp=_vjp, torch_name="Slice")
