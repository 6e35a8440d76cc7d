"""Results whose size a value decides, in a size that is told: JAX's ``size=`` and ``fill_value=``.

Nothing is asked for under ``jit`` and ``vmap`` then.
"""

from __future__ import annotations

from math import prod
from typing import Any

import fx.prims.compare as compare
import fx.prims.cumulative as cumulative
import fx.prims.indexing as indexing
import fx.prims.shape as shape_prims
import fx.prims.sorting as sorting
from fx import dtypes
from fx.errors import ShapeError
from fx.ops.axes import integer
from fx.ops.convert import as_tensor
from fx.ops.operands import argument, cast, iota, truth
from fx.prims.creation import constant_like, full
from fx.tensor import Tensor


def _size(name: str, size: Any) -> int:
    found = integer(name, "size", size)
    if found < 0:
        raise ShapeError(f"{name}: size must not be negative, got {found}")
    return found


def first_true(mask: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The first places where a vector of truth values is true, and which of them there are.

    Returns:
        int64 (size,), 0 where there is none, and bool (size,).
    """
    (n,) = mask.shape
    numbers = iota(size, mask)
    if n == 0:
        return numbers * 0, numbers < 0
    ranks = cumulative.cumsum(cast(mask, dtypes.int64), axis=0, reverse=False)
    places = sorting.searchsorted(ranks, numbers + 1, side="left")
    found = numbers < ranks[n - 1]
    return compare.where(found, cast(places, dtypes.int64), constant_like(0, numbers)), found


def nonzero(name: str, x: Any, size: Any, fill_value: Any) -> tuple[Tensor, ...]:
    """The places of what is not 0, one int64 tensor (size,) an axis, in C order.

    Args:
        fill_value: what stands in the place of those that there are not: 0 unless told, a number,
            or one an axis.
    """
    x, count = argument(name, x), _size(name, size)
    shape = x.shape or (1,)
    mask = shape_prims.reshaped(truth(x), (prod(shape),))
    flat, found = first_true(mask, count)
    fills = fill_value if isinstance(fill_value, tuple | list) else (fill_value,) * len(shape)
    if len(fills) != len(shape):
        raise ShapeError(f"{name}: fill_value must be one number, or one for each of {shape}")
    out = []
    for i, (n, fill) in enumerate(zip(shape, fills, strict=True)):
        behind = prod(shape[i + 1 :])
        place = flat // behind if behind > 1 else flat
        place = place % n if i and n else place
        out.append(compare.where(found, place, as_tensor(fill or 0, dtypes.int64, x.device)))
    return tuple(out)


def unique(x: Any, size: Any, fill_value: Any, return_inverse: bool, return_counts: bool) -> Any:
    """The unique elements, from the smallest on, in a vector of a size that is told.

    Args:
        fill_value: what stands behind the last; the smallest unless told.
    """
    x, count = argument("unique", x), _size("unique", size)
    n = prod(x.shape)
    line = shape_prims.reshaped(x, (n,))
    if n == 0:
        if count and fill_value is None:
            raise ShapeError("unique: nothing is unique in no elements; write fill_value=")
        values = full(shape=(count,), value=fill_value or 0, dtype=x.dtype, device=x.device.name)
        nothing = iota(0, x)
        more = [nothing] * return_inverse + [iota(count, x) * 0] * return_counts
        return (values, *more) if more else values
    order = sorting.argsort(line, axis=0, descending=False)
    ranked = indexing.taken(line, order, 0)
    before, after = ranked[: n - 1], ranked[1:]
    differs = compare.not_equal(before, after)
    if x.dtype in dtypes.INEXACT:  # NaN is one value
        differs = differs & ~((before != before) & (after != after))
    first = full(shape=(1,), value=True, dtype=dtypes.bool_, device=x.device.name)
    starts = shape_prims.concatenate(first, differs, axis=0)
    places, found = first_true(starts, count)
    values = indexing.taken(ranked, places, 0)
    fill = ranked[0] if fill_value is None else as_tensor(fill_value, x.dtype, x.device)
    out = [compare.where(found, values, fill)]
    if return_inverse:
        classes = cumulative.cumsum(cast(starts, dtypes.int64), axis=0, reverse=False) - 1
        inverse = (classes * 0).at[order].set(classes)
        out.append(shape_prims.reshaped(inverse, x.shape))
    if return_counts:
        nexts, there = first_true(starts, count + 1)
        nexts = compare.where(there, nexts, constant_like(n, nexts))[1:]
        out.append(compare.where(found, nexts - places, constant_like(0, places)))
    return tuple(out) if len(out) > 1 else out[0]
