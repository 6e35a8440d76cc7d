"""NumPy's index language: ``x[...]`` with ints, slices, None, Ellipsis, masks, index tensors.

Ints and ranges are one ``slice``, and where needed one ``flip`` and one ``reshape``. All index
tensors together are one ``take`` along one axis, into which the axes that they index are merged.
"""

from __future__ import annotations

from math import prod
from typing import Any

from numpy import ascontiguousarray, ndarray

import fx.prims.indexing as prims
import fx.prims.shape as shape_prims
from fx import limits
from fx.config import modes
from fx.levels import live
from fx.ops.indexing.language import (
    BASIC,
    FULL,
    Normal,
    flattened,
)
from fx.ops.indexing.positions import has_place, has_tensor, positioned
from fx.ops.indexing.views import fixed, view
from fx.prims.fused import fuse, of_reference
from fx.tensor import Tensor


class _Here:
    """Stands for an index tensor in a pattern."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "i"


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
    if kind in BASIC or (kind is tuple and BASIC.issuperset(map(type, index))):
        if kind is int or not live or modes.stage is None:
            return view(x, index)
        found = positioned(x, index)
        if found is index or not has_tensor(found):
            return view(x, found)
        return at_positions(x, index=found)  # type: ignore[no-any-return]
    if kind is Tensor and index._a.dtype.kind in "iu" and index.ndim and x.ndim:
        return _rows(x, index)
    if live and modes.stage is not None:
        found = positioned(x, index)
        if found is not index or has_place(index):
            found = found if type(found) is tuple else (found,)
            return at_positions(x, index=found) if has_tensor(found) else view(x, found)  # type: ignore[no-any-return]
    entries = index if isinstance(index, tuple) else (index,)
    tensors = []
    for e in entries:
        if type(e) is Tensor:
            if type(e._a) is not ndarray or not e._a.ndim or e._a.dtype.kind not in "biu":
                break
            tensors.append(e)
        elif type(e) not in BASIC:
            break
    else:
        if len(tensors) == len(entries) < len(_EVERYWHERE):
            pattern = _EVERYWHERE[len(entries)]
        else:
            pattern = fixed(tuple([_HERE if type(e) is Tensor else e for e in entries]))
        return _gathered(x, *tensors, pattern=pattern)
    return _advanced(x, entries)


def _rows(x: Tensor, index: Tensor) -> Tensor:
    """``x[i]`` for a tensor of integers."""
    if type(x) is Tensor and type(x._a) is not type(index._a):  # another device
        return _advanced(x, (index,))
    try:
        return prims.take(x, index, axis=0)
    except IndexError:
        Normal(x, (index,)).explain()
        raise


def _at_positions(x: Tensor, *, index: Any) -> Tensor:
    """What lies at positions that became tensors (``positions.py``)."""
    return _advanced(x, index)


at_positions: Any = _at_positions  # fx.writing notes that it gives a view


def lying_at(x: ndarray, *, index: Any) -> Any:
    """A view that lies in memory as what is at some positions does."""
    plain = [e if not isinstance(e, Tensor) else slice(e.shape[0]) if e.ndim else 0 for e in index]
    return x[tuple(plain)]


# index tensors ----------------------------------------------------------------------------------

_HERE: Any = _Here()
_EVERYWHERE = [(_HERE,) * n for n in range(8)]  # patterns of tensors alone


def _filled(pattern: tuple[Any, ...], found: Any) -> tuple[Any, ...]:
    """An index with what was found, tensors or arrays, where its pattern has places for them."""
    each = iter(found)
    return tuple([next(each) if e is _HERE else e for e in pattern])


def _whole(x: ndarray, *found: ndarray, pattern: tuple[Any, ...]) -> Any:
    """NumPy's own indexing of a small array."""
    if x.size > limits.INDEX_WHOLE:
        return None
    try:
        index = found if len(found) == len(pattern) else _filled(pattern, found)
        return ascontiguousarray(x[index])
    except (IndexError, ValueError):
        return None


def _in_steps(x: Tensor, *found: Tensor, pattern: tuple[Any, ...]) -> Tensor:
    return _advanced(x, _filled(pattern, found))


_steps_back = of_reference(_in_steps)


def _gathered_vjp(needs: Any, x: Tensor, *found: Tensor, pattern: tuple[Any, ...]) -> Any:
    shape = x._shape
    wanted = (True, *[None] * len(found))

    def pullback(ct: Tensor) -> Any:  # linear in x, so that zeros may stand for it
        back = _steps_back(wanted, prims.zeros(ct, shape), *found, pattern=pattern)
        return back(ct)

    return pullback


_gathered = fuse("gathered", cpu=_whole, reference=_in_steps, vjp=_gathered_vjp, torch_name="Index")


def _advanced(x: Tensor, given: tuple[Any, ...]) -> Tensor:
    index = Normal(x, given)
    x, entries = index.x, index.entries
    if not index.tensors:  # what looked like an index tensor was an int
        return view(x, tuple(entries))
    # ints and slices first, while the index tensors stand for whole axes
    y = view(x, tuple([FULL if isinstance(e, Tensor) else e for e in entries if e is not None]))
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
            out = shape_prims.transposed(out, axes)
    shape = (*sides[:before], *block, *sides[before:])
    return out if shape == out.shape else shape_prims.reshaped(out, shape)


def _merged(y: Tensor, at: list[int], indices: list[Tensor]) -> tuple[Tensor, Tensor, int]:
    """One axis in place of the axes ``at``, the index into it, and where it is."""
    first = at[0]
    if len(at) == 1:
        return y, indices[0], first
    if at[-1] - first != len(at) - 1:
        y = shape_prims.transposed(y, (*at, *[a for a in range(y.ndim) if a not in at]))
        first = 0
    end = first + len(at)
    sides = y._shape[first:end]
    y = shape_prims.reshaped(y, (*y._shape[:first], prod(sides), *y._shape[end:]))
    return y, flattened(indices, sides), first
