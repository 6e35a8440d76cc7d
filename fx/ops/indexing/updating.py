"""Updated copies of a tensor: ``set``, ``add`` and their kin at an index.

The axes from the first to the last that the index touches are merged into one, the places are
computed along it, and one ``scatter`` does the rest; axes outside are carried along whole.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

import fx.prims.compare as compare
import fx.prims.elementwise as elementwise
import fx.prims.indexing as prims
import fx.prims.shape as shape_prims
from fx import dtypes
from fx.errors import DTypeError, ShapeError
from fx.ops.convert import as_tensor
from fx.ops.indexing.language import Normal, bounds, out_of_range, shown
from fx.ops.indexing.putting import putting
from fx.prims.creation import constant, iota
from fx.prims.families import broadcast_shapes
from fx.staged_number import StagedNumber
from fx.tape import CELL
from fx.tensor import Tensor

_ELEMENTWISE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "set": lambda x, v: v,
    "add": elementwise.add,
    "mul": elementwise.multiply,
    "min": elementwise.minimum,
    "max": elementwise.maximum,
}


def updated(
    mode: str, x: Tensor, index: Any, value: Any, of_value: Callable[..., Any] | None = None
) -> Tensor:
    value = cast_to(x, value, mode)
    if of_value is not None:
        value = of_value(value)
    given = index if isinstance(index, tuple) else (index,)
    rows = _rows(index, x)
    if rows is not None:
        updates = _broadcast(value, (*rows.shape, *x._shape[1:]), mode, given)
        try:
            return prims.scatter(x, rows, updates, axis=0, mode=mode)
        except IndexError:
            Normal(x, given).explain()
            raise
    mask = _mask(given, x, value)
    if mask is not None:
        _broadcast(value, x._shape[mask.ndim :], mode, given)
        ones = (1,) * (x.ndim - mask.ndim)
        there = shape_prims.reshaped(mask, (*mask.shape, *ones)) if ones else mask
        changed = _ELEMENTWISE[mode](x, value)
        return compare.where(there, changed, x)
    normal = Normal(x, given)
    whole = _Region(normal, given)
    updates = whole.arrange(_broadcast(value, whole.shape, mode, given))
    if whole.is_all:
        merged = normal.x.shape
        out = _ELEMENTWISE[mode](normal.x, shape_prims.reshaped(updates, merged))
    else:
        low, high = whole.low, whole.high
        sides = normal.x.shape
        line = (*sides[:low], prod(sides[low : high + 1]), *sides[high + 1 :])
        out = shape_prims.reshaped(normal.x, line)
        try:
            out = prims.scatter(out, whole.places(), updates, axis=low, mode=mode)
        except IndexError:
            normal.explain()
            raise
    return out if out.shape == x._shape else shape_prims.reshaped(out, x._shape)


def _put_in_steps(x: Tensor, value: Tensor, *, index: Any) -> Tensor:
    return updated("set", x, index, value)


put = putting(_put_in_steps)


def _rows(index: Any, x: Tensor) -> Tensor | None:
    """The index as a tensor, where it is one int or one tensor of integers, for the first axis."""
    if type(index) is int and x.ndim:
        n = x._shape[0]
        if not -n <= index < n:
            raise out_of_range(index, 0, x.shape)
        return constant(index % n, dtypes.int64, x.device.name)
    if type(index) is Tensor and x.ndim and dtypes.is_integral(index.dtype):
        return index if index.device.name == x.device.name else None
    return None


class _Region:
    """The elements that an index names, laid out for a scatter.

    The updates of a scatter have the shape (*axes before, *places, *axes after); the places run
    over the block of the index tensors and the slices from the first to the last axis touched.
    """

    def __init__(self, index: Normal, given: tuple[Any, ...]) -> None:
        self.index = index
        sides = index.x.shape
        self.parts: list[Any] = []  # an axis each: int, tensor, or (start, step, count)
        self.block = index.block(given) if index.tensors else ()
        shape: list[int] = []  # the result's axes other than the block
        self.sliced: list[int] = []  # the axes of x that stay axes
        touched: list[int] = []
        before = kept_before = None
        for e in index.entries:
            axis = len(self.parts)
            if e is None:
                shape.append(1)
                continue
            if isinstance(e, slice):
                start, _, step, count = bounds(e, sides[axis])
                shape.append(count)
                self.sliced.append(axis)
                self.parts.append((start, step, count))
                if count != sides[axis] or step != 1:
                    touched.append(axis)
                continue
            touched.append(axis)
            if before is None:
                before, kept_before = len(shape), len(self.sliced)
            if isinstance(e, int):
                n = sides[axis]
                if not -n <= e < n:
                    raise out_of_range(e, axis, sides)
                self.parts.append(e % n)
            else:
                self.parts.append(None)
        if index.separated and index.tensors:
            before = kept_before = 0
        before, self.kept_before = before or 0, kept_before or 0
        self.shape = (*shape[:before], *self.block, *shape[before:])
        self.is_all = not touched
        self.low, self.high = (touched[0], touched[-1]) if touched else (0, -1)
        places = index.indices(combined=self.low != self.high)
        for (_, axis, _, _), place in zip(index.tensors, places, strict=True):
            self.parts[axis] = place

    def arrange(self, value: Tensor) -> Tensor:
        """Values in the shape of the result as updates of the scatter."""
        sides = [self.parts[a][2] for a in self.sliced]
        shape = (*sides[: self.kept_before], *self.block, *sides[self.kept_before :])
        if shape != value._shape:  # the axes of None
            value = shape_prims.reshaped(value, shape)
        lead = sum(a < self.low for a in self.sliced)
        if self.block and lead > self.kept_before:  # the block stands in front of the axes before
            width = len(self.block)
            order = (*range(width, width + lead), *range(width), *range(width + lead, len(shape)))
            value = shape_prims.transposed(value, order)
        return value

    def places(self) -> Tensor:
        """The index of each update along the merged axis."""
        axes = range(self.low, self.high + 1)
        inside = [a for a in self.sliced if a in axes]
        lead = sum(a < self.low for a in self.sliced)
        block_at = max(self.kept_before - lead, 0)
        rank, width = len(inside) + len(self.block), len(self.block)
        device = self.index.x.device.name
        stride, offset, out = 1, 0, None
        for a in reversed(axes):
            part, n = self.parts[a], self.index.x.shape[a]
            if isinstance(part, int):
                offset += part * stride
            else:
                if isinstance(part, tuple):
                    start, step, count = part
                    position = inside.index(a)
                    position += width if position >= block_at else 0
                    shape = tuple(count if i == position else 1 for i in range(rank))
                    place = iota(
                        shape=shape,
                        axis=position,
                        start=start * stride,
                        step=step * stride,
                        dtype=dtypes.int64,
                        device=device,
                    )
                else:
                    ones = (1,) * (width - part.ndim)
                    behind = (1,) * (rank - width - block_at)
                    shape = ((1,) * block_at) + ones + part.shape + behind
                    place = shape_prims.reshaped(part, shape) if shape != part.shape else part
                    if stride != 1:
                        place = place * stride
                out = place if out is None else out + place
            stride *= n
        if out is None:
            return constant(offset, dtypes.int64, device)
        return out + offset if offset else out


def _mask(given: tuple[Any, ...], x: Tensor, value: Tensor) -> Tensor | None:
    """The mask that is the whole index, where each element it selects gets the same value."""
    if len(given) != 1 or not isinstance(given[0], Tensor | np.ndarray):
        return None
    mask = given[0]
    rank = mask.ndim
    if mask.dtype != dtypes.bool_ or mask.shape != x._shape[:rank] or not rank:
        return None
    if value.ndim > x.ndim - rank:
        return None
    mask = as_tensor(mask, device=x.device)
    return mask.read() if mask.level == CELL else mask


def cast_to(x: Tensor, value: Any, mode: str) -> Tensor:
    """``value`` in the dtype of ``x``.

    Raises:
        DTypeError: if that would lose its kind, or a Python number does not fit.
    """
    own = x._dtype
    if type(value) is Tensor and value._dtype is own:
        return value
    now = value.now if type(value) is StagedNumber else value
    if type(now) in (bool, int, float, complex):
        kind = dtypes.result_dtype_with_scalar(own, now)
    else:
        value = as_tensor(value, device=None if isinstance(value, Tensor) else x.device)
        kind = value._dtype
    if dtypes.kind_rank(kind) > dtypes.kind_rank(own):
        raise DTypeError(
            f"x.at[...].{_PUBLIC[mode]}: a value of {kind.name} does not fit a tensor of "
            f"{own.name}; write x.astype(fx.{kind.name}).at[...].{_PUBLIC[mode]}(v)"
        )
    return as_tensor(value, own, x.device, f"x.at[...].{_PUBLIC[mode]}")


_PUBLIC = {"set": "set", "add": "add", "mul": "multiply", "min": "min", "max": "max"}


def _broadcast(value: Tensor, shape: tuple[int, ...], mode: str, given: Any) -> Tensor:
    """``value`` in the shape of ``x[index]``; axes of 1 in front may be too many, as in NumPy."""
    extra = value.ndim - len(shape)
    if extra > 0 and value._shape[:extra] == (1,) * extra:
        value = shape_prims.reshaped(value, value._shape[extra:])
    try:
        fits = broadcast_shapes("at", value._shape, shape) == shape
    except ShapeError:
        fits = False
    if not fits:
        raise ShapeError(
            f"x.at[{shown(given)}].{_PUBLIC[mode]}: a value of shape {value.shape} does not "
            f"broadcast to {shape}, the shape of x[{shown(given)}]"
        )
    return value if value._shape == shape else shape_prims.stretched(value, shape)
