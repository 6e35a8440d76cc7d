"""Searching: places in sorted sequences and of what is true, where.

Source: Python Array API standard 2024.12, "Searching functions".
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy import ndarray

import fx.prims.compare as compare
import fx.prims.indexing as indexing
import fx.prims.shape as shape_prims
import fx.prims.sorting as prims
from fx.dtypes import int32
from fx.errors import BatchedValueError, DeviceError, ShapeError
from fx.ops.indexing import sized
from fx.ops.indexing.language import places_of
from fx.ops.indexing.views import along
from fx.ops.operands import (
    SCALARS,
    argument,
    boolean,
    cast,
    common_dtype,
    operands,
    public,
    truth,
)
from fx.prims.axes import check_ordered
from fx.prims.creation import constant
from fx.quick import quick
from fx.tensor import Tensor, new_tensor

# binary search ----------------------------------------------------------------------------------


def searchsorted(
    sorted_sequence: Any,
    values: Any,
    side: str = "left",
    sorter: Any = None,
    *,
    right: bool = False,
    out_int32: bool = False,
) -> Tensor:
    """Where ``values`` would be put into a sorted sequence to keep it sorted.

    Args:
        sorted_sequence: (n,), or (*rows, n) sorted along the last axis.
        values: of any shape, or (*rows, m) to search row by row.
        side: ``"left"`` for the first such place, ``"right"`` for the last.
        sorter: the order in which ``sorted_sequence`` is sorted, as ``argsort`` gives it.
        right: PyTorch's word for ``side="right"``.
        out_int32: whether the result is int32 instead of int64.

    Raises:
        ShapeError: if the rows differ.
        ValueError: for another ``side``.

    Example:
        >>> import fx
        >>> fx.searchsorted(fx.tensor([1, 3, 5]), fx.tensor([3, 4]))
        tensor([1, 2])
    """
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: side must be 'left' or 'right', got {side!r}")
    sequence, wanted = operands("searchsorted", sorted_sequence, values)
    check_ordered("searchsorted", sequence)
    if sorter is not None:
        order = argument("searchsorted", sorter)
        sequence = indexing.take_along_axis(sequence, order, axis=max(sequence.ndim - 1, 0))
    out: Tensor = _searched(sequence, wanted, "right" if right else side)
    return cast(out, int32) if out_int32 else out


_searched = quick(prims.searchsorted, "side", tensors=2)


def bucketize(x: Any, boundaries: Any, *, right: bool = False, out_int32: bool = False) -> Tensor:
    """The number of the bucket of each element, between sorted boundaries (n,).

    Example:
        >>> import fx
        >>> fx.bucketize(fx.tensor([0.5, 2.5]), fx.tensor([1.0, 2.0]))
        tensor([0, 2])
    """
    return searchsorted(boundaries, x, right=right, out_int32=out_int32)


# places that depend on values -------------------------------------------------------------------


def true_places(name: str, mask: Tensor) -> Tensor:
    """Where a mask is true, in its flattened axes: (count,) int64.

    Raises:
        BatchedValueError: inside ``vmap``, where the count differs from lane to lane.
        DeviceError: on ``meta``.
    """
    try:
        return places_of(mask)
    except (BatchedValueError, DeviceError) as error:
        raise type(error)(
            f"{name} of {mask!r}: the number of results depends on the values, which are not known "
            f"here; write fx.where(mask, x, 0), or a reduction such as fx.count_nonzero(x)"
        ) from None


def nonzero(x: Any, *, size: int | None = None, fill_value: Any = None) -> tuple[Tensor, ...]:
    """The places of what is not 0, one int64 tensor (count,) an axis, in C order.

    The method ``x.nonzero()`` gives one tensor (count, ndim), as PyTorch does.

    Args:
        x: a tensor with at least one axis.
        size: how many places are given, as in JAX: the first ones, and then ``fill_value``. No
            value is asked for under ``jit`` then.
        fill_value: 0 unless told; a number, or one an axis.

    Raises:
        ShapeError: for a tensor without axes.
        BatchedValueError: inside ``vmap``, where the count differs from lane to lane.

    Example:
        >>> import fx
        >>> fx.nonzero(fx.tensor([0, 5, 6]))
        (tensor([1, 2]),)
    """
    if size is not None:
        return sized.nonzero("nonzero", x, size, fill_value)
    x = argument("nonzero", x)
    if not x.ndim:
        raise ShapeError("nonzero: a tensor of shape () has no places; write fx.reshape(x, (1,))")
    return _coordinates(true_places("nonzero", truth(x)), x._shape)


def _coordinates(flat: Tensor, shape: tuple[int, ...]) -> tuple[Tensor, ...]:
    """Places in flattened axes as one tensor an axis."""
    out = []
    for i, n in enumerate(shape):
        behind = prod(shape[i + 1 :])
        place = flat // behind if behind > 1 else flat
        out.append(place % n if i else place)
    return tuple(out)


def argwhere(x: Any, *, size: int | None = None, fill_value: Any = None) -> Tensor:
    """The places of what is not 0: (count, ndim) int64, in C order; ``size`` as of ``nonzero``.

    Example:
        >>> import fx
        >>> fx.argwhere(fx.tensor([[0, 1], [2, 0]]))
        tensor([[0, 1],
                [1, 0]])
    """
    if size is not None:
        columns = list(sized.nonzero("argwhere", x, size, fill_value))
        return shape_prims.concatenate(
            *[shape_prims.reshaped(c, (*c.shape, 1)) for c in columns], axis=1
        )
    x = argument("argwhere", x)
    if type(x) is Tensor and type(x._a) is ndarray:
        return new_tensor(_true_places(x._a))
    flat = true_places("nonzero", truth(x))
    columns = [shape_prims.reshaped(c, (*c.shape, 1)) for c in _coordinates(flat, x._shape)]
    if not columns:
        return along(shape_prims.reshaped(flat, (*flat._shape, 1)), 1, 0, 0)
    return shape_prims.concatenate(*columns, axis=1)


def _true_places(x: np.ndarray) -> np.ndarray:
    """Where x is not 0, in C order: int64 (count, ndim)."""
    if x.dtype.kind == "V":
        x = x.astype(np.float32)
    columns = x.nonzero() if x.ndim else ()
    if not columns:
        return np.zeros((int(bool(x)), 0), np.int64)
    out = np.empty((columns[0].size, x.ndim), np.int64)
    for i, column in enumerate(columns):
        out[:, i] = column
    return out


# selection --------------------------------------------------------------------------------------


def where(
    condition: Any, x: Any = None, y: Any = None, *, size: int | None = None, fill_value: Any = None
) -> Any:
    """``x`` where the condition holds, ``y`` elsewhere; of one argument, ``nonzero``.

    A derivative passes only to what was chosen.

    Args:
        condition: a bool tensor.
        x, y: tensors or Python scalars, promoted to a common dtype; the shapes of all three
            broadcast.
        size, fill_value: as of ``nonzero``, for one argument.

    Raises:
        DTypeError: if the condition is not bool.
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> import fx
        >>> fx.where(fx.tensor([True, False]), fx.tensor([1.0, 2.0]), 0)
        tensor([1., 0.])
    """
    if x is None or y is None:
        if x is y:
            return nonzero(condition, size=size, fill_value=fill_value)
        raise TypeError("where takes a condition, or a condition and two values")
    if type(condition) is type(x) is type(y) is Tensor and x._a.dtype is y._a.dtype:
        return compare.chosen(boolean("where", condition), x, y)
    condition = boolean("where", condition)
    if type(x) in SCALARS and type(y) in SCALARS:  # on the device of the condition
        dtype = common_dtype("where", (x, y))
        x, y = [constant(v, dtype, condition.device.name) for v in (x, y)]
    else:
        x, y = operands("where", x, y)
    return compare.where(condition, x, y)


__all__ = public(globals(), but=("true_places",))
