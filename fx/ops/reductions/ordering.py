"""Order along an axis: sort, argsort, topk, kthvalue, mode.

``axis`` counts as usual; ``dim`` is PyTorch's word for it. NaN is larger than every number, and
every order is stable.

Source: Python Array API standard 2024.12, "Sorting functions".
"""

from __future__ import annotations

from functools import lru_cache, partial
from math import inf
from typing import Any

import numpy as np

import fx.prims.compare as compare
import fx.prims.creation as creation
import fx.prims.indexing as indexing
import fx.prims.reduction as reduction
import fx.prims.shape as shape_prims
import fx.prims.sorting as prims
from fx import limits
from fx.dtypes import FLOATING, int64
from fx.errors import ShapeError
from fx.levels import live
from fx.ops.axes import integer, normal_axis
from fx.ops.indexing.views import along
from fx.ops.operands import (
    iota,
    of_scalar,
    ordered,
    public,
)
from fx.ops.reductions.found import Found, found
from fx.prims.creation import constant_like
from fx.prims.cumulative import cummax
from fx.prims.fused import fuse
from fx.quick import quick
from fx.state import free_value
from fx.tensor import Tensor

# order ------------------------------------------------------------------------------------------


def argsort(
    x: Any, axis: int = -1, descending: bool = False, stable: bool = True, *, dim: int | None = None
) -> Tensor:
    """The places of the elements along an axis in sorted order: int64.

    Args:
        x: a tensor with at least one axis.
        axis: the axis.
        descending: whether the largest comes first.
        stable: accepted for the standard's sake; equal elements always keep their order.
        dim: PyTorch's word for ``axis``.

    Raises:
        AxisError: if the axis is out of range.
        DTypeError: for complex ``x``.

    Example:
        >>> import fx
        >>> fx.argsort(fx.tensor([3, 1, 2]))
        tensor([1, 2, 0])
    """
    x = ordered("argsort", x)
    if not x._shape:
        return of_scalar(argsort, x, axis if dim is None else dim)  # type: ignore[no-any-return]
    at = normal_axis("argsort", axis if dim is None else dim, x._shape)
    return prims.argsort(x, axis=at, descending=descending)


def sorted_along(name: str, x: Any, axis: int, descending: bool = False) -> Found:
    """Sorted values along an axis, and where they came from."""
    x = ordered(name, x)
    if not x._shape:
        return of_scalar(partial(sorted_along, name), x, axis)  # type: ignore[no-any-return]
    shape = x._shape
    at = normal_axis(name, axis, shape)
    return found(name, _first_of(x, shape[at], at, descending))


def _first_reference(x: Tensor, *, k: int, axis: int, largest: bool) -> tuple[Tensor, Tensor]:
    if k == x._shape[axis]:
        places = prims.argsort(x, axis=axis, descending=largest)
    else:
        places = prims.top_k_indices(x, k=k, axis=axis, largest=largest)
    return indexing.take_along_axis(x, places, axis=axis), places


def _put_back(needs: Any, shape: tuple[int, ...], axis: int, k: int) -> Any:
    """The pullback of k elements along an axis and of their places, kept axis or not."""

    def pullback(cts: Any, places: Tensor) -> Any:
        line, none = (*shape[:axis], k, *shape[axis + 1 :]), (None,) * (len(needs) - 1)
        if cts[0] is None:
            return (None, *none)
        ct, at = shape_prims.reshaped(cts[0], line), shape_prims.reshaped(places, line)
        start = indexing.zeros(ct, shape)
        return (indexing.scatter_along_axis(start, at, ct, axis=axis, mode="add"), *none)

    return pullback


def _first_vjp(needs: Any, x: Tensor, *, k: int, axis: int, largest: bool) -> Any:
    return _put_back(needs, x._shape, axis, k)


# the k first elements along an axis, the smallest or the largest, and their places
_first = fuse(
    "first", reference=_first_reference, vjp=_first_vjp, multiple=True,
    torch_name="Topk",
)  # fmt: skip
_first.saves = (1,)
_first_of = quick(_first, "k", "axis", "largest")


def sort(
    x: Any, axis: int = -1, descending: bool = False, stable: bool = True, *, dim: int | None = None
) -> Tensor:
    """The elements along an axis in sorted order; see ``argsort``.

    The method ``x.sort()`` gives ``(values, indices)``, as PyTorch does.

    Example:
        >>> import fx
        >>> fx.sort(fx.tensor([3, 1, 2]), descending=True)
        tensor([3, 2, 1])
    """
    return sorted_along("sort", x, axis if dim is None else dim, descending).values


def topk(
    x: Any,
    k: int,
    axis: int = -1,
    largest: bool = True,
    sorted: bool = True,
    *,
    dim: int | None = None,
) -> Found:
    """The k largest elements along an axis, best first, and their places.

    Args:
        x: a tensor with at least one axis.
        k: how many, at most the size of the axis.
        axis: the axis.
        largest: False for the smallest.
        sorted: accepted for PyTorch's sake; the result always is.
        dim: PyTorch's word for ``axis``.

    Returns:
        ``(values, indices)``; equal elements come lowest place first.

    Raises:
        ShapeError: if there are fewer than k elements.

    Example:
        >>> import fx
        >>> fx.topk(fx.tensor([1, 4, 3]), 2)
        Found(values=tensor([4, 3]), indices=tensor([1, 2]))
    """
    x = ordered("topk", x)
    if not x._shape:
        return of_scalar(topk, x, k, axis if dim is None else dim, largest)  # type: ignore[no-any-return]
    shape = x._shape
    at = normal_axis("topk", axis if dim is None else dim, shape)
    k = integer("topk", "k", k)
    if not 0 <= k <= shape[at]:
        raise ShapeError(
            f"topk: k={k} does not lie in 0..{x.shape[at]}, the size of axis {at} of {x.shape}"
        )
    return found("topk", _first_of(x, k, at, largest))


def without_axis(name: str, x: Tensor, places: Tensor, at: int, keepdims: bool) -> Found:
    """The elements at ``places`` (1 along the axis), with or without that axis."""
    values = indexing.take_along_axis(x, places, axis=at)
    if keepdims:
        return found(name, (values, places))
    shape = (*x._shape[:at], *x._shape[at + 1 :])
    return found(name, (shape_prims.reshaped(values, shape), shape_prims.reshaped(places, shape)))


def _extreme_along(name: str, x: Tensor, axis: int, keepdims: bool, largest: bool) -> Found:
    """The largest (or smallest) elements along an axis, and their first places."""
    x = ordered(name, x)
    of = _largest_of if largest else _smallest_of
    return found(name, of(x, axis, keepdims, largest))


def _extreme_kernel(x: np.ndarray, *, axis: int, keepdims: bool, largest: bool) -> Any:
    rows = axis == x.ndim - 1 and x.shape[axis] <= limits.EXTREME_ROW
    # a NaN is the largest and the smallest; there it is larger
    if rows and (largest or x.dtype.kind in "iu"):
        found = _first.cpu(x, k=1, axis=axis, largest=largest, drop=not keepdims)
        if found is not None:
            return found
    if not x.shape[axis] or x.dtype.kind in "cV":
        return None
    extreme, place = (reduction.max, x.argmax) if largest else (reduction.min, x.argmin)
    if x.shape[axis] <= limits.ROW_SHORT:
        return extreme.cpu(x, axes=(axis,), keepdims=keepdims), place(axis, keepdims=keepdims)
    at = place(axis, keepdims=True)
    found = np.take_along_axis(x, at, axis), at
    return found if keepdims else tuple([a.squeeze(axis) for a in found])


def _extreme_in_steps(x: Tensor, *, axis: int, keepdims: bool, largest: bool) -> Found:
    name, place = ("max", reduction.argmax) if largest else ("min", reduction.argmin)
    return without_axis(name, x, place(x, axis=axis, keepdims=True), axis, keepdims)


def _extreme_vjp(needs: Any, x: Tensor, *, axis: int, keepdims: bool, largest: bool) -> Any:
    return _put_back(needs, x._shape, axis, 1)


def _extreme(name: str, torch_name: str) -> Any:
    """The quick way of ``(x, axis, keepdims, largest)``, whose node has PyTorch's name."""
    extreme = fuse(
        name, cpu=_extreme_kernel, reference=_extreme_in_steps, vjp=_extreme_vjp, multiple=True,
        torch_name=torch_name,
    )  # fmt: skip
    extreme.saves = (1,)
    return quick(extreme, "axis", "keepdims", "largest")


_largest_of, _smallest_of = _extreme("largest", "Max"), _extreme("smallest", "Min")


def _ranked_reference(
    x: Tensor, ranks: Tensor, *, axis: int, lost: str, drop: bool
) -> tuple[Tensor, Tensor]:
    places = prims.ranked_indices(x, ranks, axis=axis, lost=lost)
    if drop:
        return without_axis("ranked", x, places, axis, False)
    return indexing.take_along_axis(x, places, axis=axis), places


def _ranked_vjp(needs: Any, x: Tensor, ranks: Tensor, *, axis: int, lost: str, drop: bool) -> Any:
    return _put_back(needs, x._shape, axis, ranks._shape[axis])


# the elements of some ranks along an axis, and their places
_ranked = fuse(
    "ranked", reference=_ranked_reference, vjp=_ranked_vjp, multiple=True, torch_name="Kthvalue",
)  # fmt: skip
_ranked.saves = (1,)
ranked_of = quick(_ranked, "axis", "lost", "drop", tensors=2)


def _of_rank(name: str, x: Tensor, rank: int, at: int, keepdims: bool, lost: str) -> Found:
    """The element of one rank along an axis, and its place."""
    shape = (*x._shape[:at], 1, *x._shape[at + 1 :])
    plain = type(x) is Tensor and type(x._a) is np.ndarray and not live
    ranks = _ranks(shape, rank) if plain else creation.filled(shape, rank, int64, x.device.name)
    return found(name, ranked_of(x, ranks, at, lost, not keepdims))


@lru_cache(64)
def _ranks(shape: tuple[int, ...], rank: int) -> Tensor:
    return creation.filled(shape, rank, int64, "cpu")  # type: ignore[no-any-return]


def _line(name: str, x: Any, axis: int) -> tuple[Tensor, int]:
    x = ordered(name, x)
    at = normal_axis(name, axis, x._shape)
    if not x._shape[at]:
        raise ShapeError(f"{name}: shape {x.shape} has no element along axis {at}")
    return x, at


def kthvalue(
    x: Any,
    k: int,
    axis: int = -1,
    keepdims: bool = False,
    *,
    dim: int | None = None,
    keepdim: bool = False,
) -> Found:
    """The k-th smallest element along an axis (k = 1 is the smallest) and its place.

    Raises:
        ShapeError: if there are fewer than k elements.

    Example:
        >>> import fx
        >>> fx.kthvalue(fx.tensor([30, 10, 20]), 2)
        Found(values=tensor(20), indices=tensor(2))
    """
    axis = axis if dim is None else dim
    if isinstance(x, Tensor) and not x.shape:
        return of_scalar(kthvalue, x, k, axis)  # type: ignore[no-any-return]
    x, at = _line("kthvalue", x, axis)
    n, k = x.shape[at], integer("kthvalue", "k", k)
    if not 1 <= k <= n:
        raise ShapeError(f"kthvalue: k={k} does not lie in 1..{n}, the size of axis {at}")
    return _of_rank("kthvalue", x, k - 1, at, keepdims or keepdim, "no")


def lower_median(x: Any, axis: int, keepdims: bool) -> Found:
    """The median along an axis, of two in the middle the lower; NaN where there is one."""
    if isinstance(x, Tensor) and not x._shape:
        return of_scalar(lower_median, x, axis, keepdims)  # type: ignore[no-any-return]
    x, at = _line("median", x, axis)
    return _of_rank("median", x, (x._shape[at] - 1) // 2, at, keepdims, "first")


def _of_equals(x: Any, value: Tensor) -> Tensor:
    """A value of one of the elements of x, with a derivative that those equal to it share."""
    if (type(x) is Tensor and x._node is None) or value._dtype not in FLOATING:
        return value
    return _shared(x, free_value(value))  # type: ignore[no-any-return]


def _elements_of(x: Tensor, value: Tensor) -> Tensor:
    """Which elements are the value."""
    missing = compare.logical_and(compare.isnan(x), compare.isnan(value))
    return compare.logical_or(compare.equal(x, value), missing)  # type: ignore[no-any-return]


def _shared_in_steps(x: Tensor, value: Tensor) -> Tensor:
    found = compare.where(_elements_of(x, value), x, constant_like(-inf, x))
    return reduction.max(found, axes=tuple(range(x.ndim)), keepdims=False)  # type: ignore[no-any-return]


def _shared_vjp(needs: Any, x: Tensor, value: Tensor) -> Any:
    def pullback(ct: Tensor) -> Any:
        found = _elements_of(x, value)
        number = reduction.sum(
            compare.astype(found, dtype=x._dtype), axes=tuple(range(x.ndim)), keepdims=False
        )
        share = compare.where(compare.isnan(value), value, ct / number)  # as a maximum's is
        return compare.where(found, share, constant_like(0.0, x)), None

    return pullback


_shared = quick(
    fuse(
        "shared", cpu=lambda x, value: value.copy(), reference=_shared_in_steps, vjp=_shared_vjp,
        torch_name="Median",
    ), tensors=2,
)  # fmt: skip


def mode(
    x: Any,
    axis: int = -1,
    keepdims: bool = False,
    *,
    dim: int | None = None,
    keepdim: bool = False,
) -> Found:
    """The most frequent element along an axis, of several the smallest, and its last place.

    Example:
        >>> import fx
        >>> fx.mode(fx.tensor([3, 1, 3, 2]))
        Found(values=tensor(3), indices=tensor(2))
    """
    axis = axis if dim is None else dim
    if isinstance(x, Tensor) and not x.shape:
        return of_scalar(mode, x, axis)  # type: ignore[no-any-return]
    x, at = _line("mode", x, axis)
    order = prims.argsort(x, axis=at, descending=False)
    values = indexing.take_along_axis(x, order, axis=at)
    n = x.shape[at]
    shape = tuple([n if i == at else 1 for i in range(x.ndim)])
    place = shape_prims.stretched(shape_prims.reshaped(iota(n, x), shape), values.shape)
    changes = compare.not_equal(along(values, at, 1, n), along(values, at, 0, n - 1))
    starts = compare.where(changes, along(place, at, 1, n), constant_like(0, place))
    first = along(place, at, 0, 1)
    begun, _ = cummax(shape_prims.concatenate(first, starts, axis=at), axis=at, reverse=False)
    longest = reduction.argmax(place - begun, axis=at, keepdims=True)
    places = indexing.take_along_axis(order, longest, axis=at)
    return without_axis("mode", x, places, at, keepdims or keepdim)


__all__ = public(globals(), but=("lower_median", "ranked_of", "sorted_along", "without_axis"))
