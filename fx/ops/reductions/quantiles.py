"""Order statistics: quantiles and medians along axes."""

from __future__ import annotations

from math import prod
from typing import Any

import fx.prims.compare as compare
import fx.prims.elementwise as elementwise
import fx.prims.shape as shape_prims
from fx import dtypes
from fx.errors import ShapeError
from fx.ops.autocasting import in_float32
from fx.ops.axes import Axis, normal_axes
from fx.ops.convert import as_tensor
from fx.ops.indexing.views import along
from fx.ops.operands import cast, floating, public
from fx.ops.pointwise.composed import lerp
from fx.ops.reductions.ordering import ranked_of
from fx.prims.axes import check_ordered
from fx.prims.creation import constant_like
from fx.tensor import Tensor


def lines(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """``x`` with ``axes`` (sorted) as one last axis: (*kept, n)."""
    kept = [i for i in range(x.ndim) if i not in axes]
    if axes != tuple(range(len(kept), x.ndim)):
        x = shape_prims.transposed(x, (*kept, *axes))
    if len(axes) == 1:
        return x
    n = prod(x._shape[len(kept) :])
    return shape_prims.reshaped(x, (*x._shape[: len(kept)], n))


def _at(rows: Tensor, *places: Tensor) -> list[Tensor]:
    """What rows (*K, n) have at whole places (*Q) of their order: (*K, *Q); NaN if there is one."""
    kept, shape = rows._shape[:-1], places[0]._shape
    flat = [shape_prims.reshaped(cast(p, dtypes.int64), (prod(p._shape),)) for p in places]
    ranks = flat[0] if len(flat) == 1 else shape_prims.concatenate(*flat, axis=0)
    axis, count = len(kept), flat[0]._shape[0]
    values, _ = ranked_of(
        rows, shape_prims.stretched(ranks, (*kept, *ranks._shape)), axis, "last", False
    )
    return [
        shape_prims.reshaped(along(values, axis, i * count, (i + 1) * count), (*kept, *shape))
        for i in range(len(flat))
    ]


def _interpolated(rows: Tensor, place: Tensor, interpolation: str) -> Tensor:
    """Values of rows (*K, n) at fractional places (*Q) of their order: (*K, *Q)."""
    if interpolation in _ROUNDED:
        return _at(rows, _ROUNDED[interpolation](place))[0]
    low = elementwise.floor(place)
    below, above = _at(rows, low, elementwise.ceil(place))
    weight = cast(place - low, rows._dtype) if interpolation == "linear" else 0.5
    if interpolation == "midpoint":
        weight = compare.where(place == low, constant_like(0.0, rows), constant_like(0.5, rows))
    return lerp(below, above, weight)


_ROUNDED = {"lower": elementwise.floor, "higher": elementwise.ceil, "nearest": elementwise.round}


@in_float32
def quantile(
    x: Any,
    q: Any,
    axis: Axis = None,
    keepdims: bool = False,
    interpolation: str = "linear",
    *,
    dim: Axis = None,
    keepdim: bool = False,
) -> Tensor:
    """The ``q``-quantiles along axes; NaN where an element is NaN.

    Args:
        x: a floating tensor of any shape; integers become the default floating dtype.
        q: a number in [0, 1] or a tensor (n,) of them, whose axis comes first in the result.
        axis: the axes to reduce, all of them for None.
        keepdims: keep the reduced axes, with size 1.
        interpolation: between two elements, ``"linear"``, ``"lower"``, ``"higher"``,
            ``"nearest"`` or ``"midpoint"``.
        dim, keepdim: PyTorch's words for ``axis`` and ``keepdims``.

    Raises:
        ValueError: for a ``q`` outside [0, 1], or another ``interpolation``.
        ShapeError: if there is nothing to reduce.

    Example:
        >>> import fx
        >>> fx.quantile(fx.tensor([1.0, 2.0, 4.0]), 0.75)
        tensor(3.)
    """
    x = floating("quantile", x)
    check_ordered("quantile", x)
    known = (*_ROUNDED, "linear", "midpoint")
    if type(interpolation) is not str or interpolation not in known:
        raise ValueError(
            f"quantile: interpolation must be linear, lower, higher, nearest or midpoint, "
            f"got {interpolation!r}"
        )
    if isinstance(q, float | int) and not 0 <= q <= 1:
        raise ValueError(f"quantile: q must lie in [0, 1], got {q}")
    axes = normal_axes("quantile", axis if dim is None else dim, x._shape)
    n = prod([x._shape[a] for a in axes])
    if n == 0:
        raise ShapeError(f"quantile: shape {x.shape} has no element along axes {axes}")
    rows = lines(x, axes)
    last = rows.ndim - 1
    place = as_tensor(q, dtype=dtypes.float64, device=x.device) * float(n - 1)
    out = _interpolated(rows, place, interpolation)  # (*kept, *Q)
    if place.ndim:
        out = shape_prims.transposed(out, (last, *range(last)))  # (n_q, *kept)
    if keepdims or keepdim:
        kept = tuple([1 if i in axes else s for i, s in enumerate(x._shape)])
        out = shape_prims.reshaped(out, (*place.shape, *kept))
    return out


def median(
    x: Any, axis: Axis = None, keepdims: bool = False, *, dim: Axis = None, keepdim: bool = False
) -> Tensor:
    """The median along axes; of an even number of elements the mean of the two in the middle.

    The method ``x.median()`` gives the lower of the two, as PyTorch does.

    Example:
        >>> import fx
        >>> fx.median(fx.tensor([1.0, 5.0, 2.0, 3.0]))
        tensor(2.5000)
    """
    return quantile(x, 0.5, axis if dim is None else dim, keepdims or keepdim)


__all__ = public(globals(), but=("lines",))
