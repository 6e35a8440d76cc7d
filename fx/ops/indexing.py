"""NumPy's index language: ``x[...]`` with ints, slices, None, Ellipsis, masks, index tensors.

Ints and ranges are one ``slice``, and where needed one ``flip`` and one ``reshape``. All index
tensors together are one ``take`` along one axis, into which the axes that they index are merged.
"""

from __future__ import annotations

from math import prod
from typing import Any

import fx.prims.indexing as prims
import fx.prims.shape as shape_prims
from fx.ops.index_language import (
    BASIC,
    FULL,
    Normal,
    bounds,
    flattened,
    out_of_range,
    skipped_axes,
    too_many,
)
from fx.tensor import Tensor


def getitem(x: Tensor, index: Any) -> Tensor:
    """``x[index]`` by NumPy's rules.

    Raises:
        IndexingError: naming the axis, the index and the shape, for what is out of range, too many
            indices, a mask that does not fit, or what is no index.

    Example:
        >>> import fx
        >>> x = fx.arange(6).reshape(2, 3)
        >>> x[:, ::-1]
        tensor([[2, 1, 0],
                [5, 4, 3]])
        >>> x[[0, 1], [2, 0]]
        tensor([2, 3])
        >>> x[x > 3]
        tensor([4, 5])
    """
    kind = type(index)
    if kind is int:
        return _row(x, index)
    entries = index if isinstance(index, tuple) else (index,)
    for e in entries:
        if type(e) not in BASIC:
            if kind is Tensor and index._a.dtype.kind in "iu" and index.ndim and x.ndim:
                return _rows(x, index)
            return _advanced(x, entries)
    return _basic(x, entries)


def _row(x: Tensor, index: int) -> Tensor:
    """``x[3]``."""
    shape = x.shape
    if not shape:
        raise too_many((index,), shape)
    n, rest = shape[0], shape[1:]
    i = index + n if index < 0 else index
    if not 0 <= i < n:
        raise out_of_range(index, 0, shape)
    step = _ONES[len(shape)]
    return shape_prims.slice(
        x, start=(i, *_ZEROS[len(rest)]), stop=(i + 1, *rest), step=step, drop=_FIRST
    )


_FIRST = (0,)
_ZEROS, _ONES = [(0,) * n for n in range(64)], [(1,) * n for n in range(64)]


def _rows(x: Tensor, index: Tensor) -> Tensor:
    """``x[i]`` for a tensor of integers."""
    if type(x) is Tensor and type(x._a) is not type(index._a):  # another device
        return _advanced(x, (index,))
    try:
        return prims.take(x, index, axis=0)
    except IndexError:
        Normal(x, (index,)).explain()
        raise


# ints, slices, None, Ellipsis -------------------------------------------------------------------


def _basic(x: Tensor, entries: tuple[Any, ...]) -> Tensor:
    """At most one ``slice``, one ``flip`` and, where there is a None, one ``reshape``."""
    shape = x.shape
    rank = len(shape)
    start, stop, step, drop, flips, out = [0] * rank, list(shape), [1] * rank, [], [], []
    sliced = reshaped = False
    axis = 0
    for e in entries:
        if e is None:
            out.append(1)
            reshaped = True
        elif e is Ellipsis:
            skipped = skipped_axes(entries, rank)
            if skipped < 0:
                raise too_many(entries, shape)
            out += shape[axis : axis + skipped]
            axis += skipped
        elif axis >= rank:
            raise too_many(entries, shape)
        elif type(e) is slice:
            if e != FULL:
                n = shape[axis]
                a, b, s, count = bounds(e, n)
                if s < 0:
                    a, b, s = a + (count - 1) * s, a + 1, -s
                    if count > 1:
                        flips.append(axis)
                if a or b != n or s != 1:
                    start[axis], stop[axis], step[axis] = a, b, s
                    sliced = True
                out.append(count)
            else:
                out.append(shape[axis])
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
    if sliced:
        x = shape_prims.slice(
            x, start=tuple(start), stop=tuple(stop), step=tuple(step), drop=tuple(drop)
        )
    if flips:
        kept = [a - len([d for d in drop if d < a]) for a in flips]
        x = shape_prims.flip(x, axes=tuple(kept))
    if reshaped:
        out += shape[axis:]
        x = shape_prims.reshape(x, shape=tuple(out))
    return x


def _advanced(x: Tensor, given: tuple[Any, ...]) -> Tensor:
    index = Normal(x, given)
    x, entries = index.x, index.entries
    if not index.tensors:  # what looked like an index tensor was an int
        return _basic(x, tuple(entries))
    # ints and slices first, while the index tensors stand for whole axes
    y = _basic(x, tuple([FULL if isinstance(e, Tensor) else e for e in entries if e is not None]))
    at: list[int] = []  # the axes of y that are indexed by tensors
    sides: list[int] = []  # the sizes of the other axes of the result, Nones among them
    before = None  # how many of these come before the index tensors
    axis = 0
    for e in entries:
        if e is None:
            sides.append(1)
            continue
        if type(e) is slice:
            sides.append(y.shape[axis])
        elif before is None:
            before = len(sides)
        if isinstance(e, Tensor):
            at.append(axis)
        if not isinstance(e, int):
            axis += 1
    block = index.block(given)
    y, idx, first = _merged(y, at, index.indices(combined=len(at) > 1))
    try:
        out = prims.take(y, idx, axis=first)  # (*y[:first], *block, *y[first + 1:])
    except IndexError:
        index.explain()
        raise
    if index.separated:
        before = 0
        if first:
            last = first + len(block)
            axes = (*range(first, last), *range(first), *range(last, out.ndim))
            out = shape_prims.transpose(out, axes=axes)
    shape = (*sides[:before], *block, *sides[before:])
    return out if shape == out.shape else shape_prims.reshape(out, shape=shape)


def _merged(y: Tensor, at: list[int], indices: list[Tensor]) -> tuple[Tensor, Tensor, int]:
    """One axis in place of the axes ``at``, the index into it, and where it is."""
    first = at[0]
    if len(at) == 1:
        return y, indices[0], first
    if at[-1] - first != len(at) - 1:
        y = shape_prims.transpose(y, axes=(*at, *[a for a in range(y.ndim) if a not in at]))
        first = 0
    end = first + len(at)
    sides = y.shape[first:end]
    y = shape_prims.reshape(y, shape=(*y.shape[:first], prod(sides), *y.shape[end:]))
    return y, flattened(indices, sides), first
