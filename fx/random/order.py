"""Samplers that shuffle and choose: permutation, choice."""

from __future__ import annotations

from math import prod
from typing import Any

import fx.prims.cumulative as cumulative
import fx.prims.draws as draws
import fx.prims.elementwise as elementwise
import fx.prims.indexing as indexing
import fx.prims.shape as shape_prims
import fx.prims.sorting as sorting
from fx import dtypes
from fx.errors import ShapeError
from fx.ops.axes import normal_axis
from fx.ops.operands import argument, cast, floating
from fx.prims.creation import constant_like
from fx.prims.fused import fuse
from fx.random.arguments import Shape, is_high
from fx.random.discrete import randint
from fx.random.keys import as_key, sample_shape
from fx.state import free_value
from fx.tensor import Tensor


def permutation(key: Tensor, x: Any, axis: int = 0, independent: bool = False) -> Tensor:
    """A random order: of range(n) for an int n, of the slices along an axis for a tensor.

    The order is that of random words, one a place, of 44 bits or more: no order is likelier than
    another by what could be measured.

    Args:
        key: uint32 (6,).
        x: an int n, or a tensor with an axis to shuffle.
        axis: the axis to shuffle.
        independent: whether each line along ``axis`` is shuffled on its own.

    Returns:
        int64 (n,) for an int; else the shape and dtype of ``x``.

    Raises:
        AxisError: if ``x`` has no such axis.
        DTypeError, ShapeError: if ``key`` is no key.

    Example:
        >>> import fx
        >>> fx.random.permutation(fx.random.key(0), 5)
        tensor([1, 4, 3, 0, 2])
    """
    key = as_key("permutation", key)
    x = _whole(x)
    if isinstance(x, int):
        if x < 0:
            raise ShapeError(f"permutation: n must not be negative, got {x}")
        return draws.random_permutation(key, shape=(x,))
    x = argument("permutation", x)
    axis = normal_axis("permutation", axis, x._shape)
    n = x._shape[axis]
    if not independent:
        return indexing.take(x, draws.random_permutation(key, shape=(n,)), axis=axis)
    others = [i for i in range(x.ndim) if i != axis]
    orders = draws.random_permutation(key, shape=(*[x._shape[i] for i in others], n))
    back = shape_prims.inverse_permutation((*others, axis))
    return indexing.take_along_axis(x, shape_prims.transposed(orders, back), axis=axis)


def choice(
    key: Tensor,
    a: Any,
    shape: Shape = (),
    replace: bool = True,
    p: Any = None,
    axis: int = 0,
    mode: str | None = None,
) -> Tensor:
    """Slices of ``a`` along an axis, or numbers below an int ``a``, picked at random.

    Args:
        key: uint32 (6,).
        a: an int n, which stands for range(n), or a tensor.
        shape: how many to pick, in which shape.
        replace: whether one may be picked again.
        p: (n,) weights >= 0, which need not sum to 1; None for equal ones. Without replacement
            each pick is made among what is left, in proportion to the weights.
        axis: the axis of ``a``.
        mode: ``"high"`` makes picks by weight without replacement in float64, whatever the dtype of
            ``p``, as those with replacement are. ``"low"`` or None does not.

    Returns:
        ``a`` with ``axis`` replaced by ``shape``.

    Raises:
        ValueError: if there is nothing to pick from, or not enough without replacement.
        ShapeError: if ``p`` is not (n,).
        AxisError: if ``a`` has no such axis.

    Example:
        >>> import fx
        >>> fx.random.choice(fx.random.key(0), fx.tensor([10, 20, 30]), 4)
        tensor([30, 10, 30, 20])
    """
    key = as_key("choice", key)
    shape = sample_shape("choice", shape)
    high = is_high("choice", mode)
    a = _whole(a)
    if isinstance(a, int):
        n, items = a, None
    else:
        items = argument("choice", a)
        axis = normal_axis("choice", axis, items._shape)
        n = items._shape[axis]
    count = prod(shape)
    if n <= 0 and count:
        raise ValueError(f"choice: nothing to pick {count} from")
    if not replace and count > n:
        raise ValueError(f"choice: cannot pick {count} of {n} without replacement")
    if p is None:
        index = randint(key, shape, 0, max(n, 1)) if replace else _first(key, n, shape)
    else:
        weights = floating("choice", p)
        if weights._shape != (n,):
            raise ShapeError(f"choice: p must have shape ({n},), got {weights.shape}")
        weights = cast(weights, dtypes.float64) if high else weights
        index = weighted(key, weights, count, replace)
        index = shape_prims.reshaped(index, shape)
    return index if items is None else indexing.take(items, index, axis=axis)


def _whole(x: Any) -> Any:
    """An integer scalar as an int; all else as it is."""
    if getattr(x, "shape", None) == () and getattr(x, "dtype", None) in dtypes.INTEGRAL:
        return x.__index__()
    return x


def _first(key: Tensor, n: int, shape: tuple[int, ...]) -> Tensor:
    """The first places of a permutation of range(n)."""
    order = draws.random_permutation(key, shape=(n,))
    some = shape_prims.slice(order, start=(0,), stop=(prod(shape),), step=(1,))
    return shape_prims.reshaped(some, shape)


def weighted(key: Tensor, weights: Tensor, count: int, replace: bool) -> Tensor:
    """``count`` places of each row of ``weights`` (*A, n) floating, picked by weight: int64.

    With replacement by inversion of the cumulative sum. Without, the first arrivals of independent
    exponential clocks, whose order is that of successive picks among what is left.
    """
    rows = weights._shape[:-1]
    axis = len(rows)
    if not replace:
        ones = draws.random_draw(
            key, family="exponential", shape=weights._shape, dtype=weights._dtype
        )
        speed = elementwise.divide(weights, ones)
        return sorting.top_k_indices(speed, k=count, axis=axis, largest=True)
    u = draws.random_draw(key, family="uniform", shape=(*rows, count), dtype=dtypes.float64)
    return at_shares(weights, u)


def at_shares(weights: Tensor, u: Tensor) -> Tensor:
    """The places (*A, m) where the shares ``u`` of all weights (*A, n), in their order, fall."""
    return _at_shares(free_value(weights), u)  # type: ignore[no-any-return]


def _places_at_shares(weights: Tensor, u: Tensor) -> Tensor:
    axis, n = weights.ndim - 1, weights._shape[-1]
    wide = cast(weights, dtypes.float64)
    totals = cumulative.cumsum(wide, axis=axis, reverse=False)  # (*A, n)
    last = shape_prims.slice(
        totals,
        start=(*[0] * axis, n - 1),
        stop=(*weights._shape[:-1], n),
        step=(1,) * (axis + 1),
    )
    place = sorting.searchsorted(totals, elementwise.multiply(u, last), side="right")
    return elementwise.minimum(place, constant_like(n - 1, place))


_at_shares = fuse(  # where the shares u (*A, count) of all weights (*A, n) fall: int64
    "places_at_shares", reference=_places_at_shares
)
