"""Statistics: means, variances and quantiles along axes.

``axis`` is an int, a tuple of ints or None for all axes; ``dim`` and ``keepdim`` are PyTorch's
words for ``axis`` and ``keepdims``.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

import fx.prims.compare as compare
import fx.prims.elementwise as elementwise
import fx.prims.reduction as prims
import fx.prims.shape as shape_prims
from fx import dtypes
from fx.dtypes import as_dtype
from fx.errors import ShapeError
from fx.ops.autocasting import in_float32
from fx.ops.axes import Axis, normal_axes, reduced_axes
from fx.ops.convert import as_tensor
from fx.ops.indexing.views import along
from fx.ops.operands import argument, averaged, cast, floating, public
from fx.ops.pointwise.composed import lerp
from fx.ops.reductions.masked import flag, mask_of
from fx.ops.reductions.ordering import ranked_of
from fx.ops.reductions.reduction import sum, total
from fx.primitive import Rule
from fx.prims.axes import check_ordered
from fx.prims.creation import constant_like
from fx.prims.fused import along as fused_along
from fx.prims.fused import fuse
from fx.prims.lengths import deviation, root
from fx.prims.norms import variance
from fx.quick import quick
from fx.staged_number import StagedNumber
from fx.tensor import Tensor

# means and variances ----------------------------------------------------------------------------


def _count(shape: tuple[int, ...], axes: tuple[int, ...]) -> int:
    if len(axes) == 1:
        return shape[axes[0]]
    return prod(shape) if len(axes) == len(shape) else prod([shape[a] for a in axes])


def mean(
    x: Any,
    axis: Axis = None,
    keepdims: bool = False,
    dtype: Any = None,
    *,
    dim: Axis = None,
    keepdim: bool = False,
    where: Any = None,
) -> Tensor:
    """The arithmetic mean along axes; NaN of nothing.

    Args:
        x: a floating tensor of any shape; float16 and bfloat16 are added up in float32.
        axis: the axes to reduce, all of them for None.
        keepdims: keep the reduced axes, with size 1.
        dtype: the dtype to compute in.
        dim, keepdim: PyTorch's words for ``axis`` and ``keepdims``.
        where: bool, broadcast to ``x``: what counts.

    Raises:
        DTypeError: for integers and bool.
        AxisError: if an axis is out of range.

    Example:
        >>> import fx
        >>> fx.mean(fx.tensor([[1.0, 2.0], [3.0, 4.0]]), axis=0)
        tensor([2., 3.])
    """
    if dtype is not None or type(x) is not Tensor or x._a.dtype.kind != "f":
        x = averaged("mean", x, dtype)
    if keepdims is not False:
        keepdims = flag("mean", keepdims)
    axes = normal_axes("mean", axis if dim is None else dim, x._shape)
    if where is not None:
        return _under_mask("mean", x, axes, keepdims or keepdim, where)
    return _mean(x, axes, keepdims or keepdim)


def mean_of(
    x: Any,
    dim: Axis = None,
    keepdim: bool = False,
    dtype: Any = None,
    *,
    axis: Axis = None,
    keepdims: bool = False,
) -> Tensor:
    """``mean`` by PyTorch's rule: an empty tuple of axes names all of them."""
    if dtype is not None or type(x) is not Tensor or x._a.dtype.kind != "f":
        x = averaged("mean", x, dtype)
    axes = reduced_axes("mean", axis if dim is None else dim, x._shape)
    return _mean(x, axes, keepdims or keepdim)


def _mean(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    given = x._dtype
    if given.itemsize == 2:  # the sum may leave the range of float16
        return compare.astype(_mean(cast(x, dtypes.float32), axes, keepdims), dtype=given)
    return _average_of(x, axes, keepdims, float(_count(x._shape, axes)))  # type: ignore[no-any-return]


def _average_in_steps(x: Tensor, *, axes: tuple[int, ...], keepdims: bool, count: float) -> Tensor:
    return prims.sum(x, axes=axes, keepdims=keepdims) / count


def _average_kernel(x: np.ndarray, *, axes: tuple[int, ...], keepdims: bool, count: float) -> Any:
    out = prims.sum.cpu(x, axes=axes, keepdims=keepdims)
    return np.divide(out, count, out) if type(out) is np.ndarray else out / x.dtype.type(count)


def _average_vjp(
    needs: Any, x: Tensor, *, axes: tuple[int, ...], keepdims: bool, count: float
) -> Any:
    shape = x._shape
    return lambda ct: (prims.spread_back(ct / count, shape, axes, keepdims),)


_average = fuse("mean", cpu=_average_kernel, reference=_average_in_steps, vjp=_average_vjp)
_average_of = quick(_average, "axes", "keepdims", "count")


def _spread(
    of: Rule, name: str, x: Any, axes: tuple[int, ...], correction: float, keepdims: bool,
    dtype: Any = None,
) -> Tensor:  # fmt: skip
    """The variance or the deviation ``of``, computed in at least float32."""
    x = averaged(name, x, dtype)
    freedom = max(float(_count(x._shape, axes) - correction), 0.0)
    given = x._dtype
    if given.kind == "c":
        return _of_complex(of, x, axes, freedom, keepdims)
    if given.itemsize == 2:
        return cast(of(cast(x, dtypes.float32), axes, keepdims, freedom), given)
    return of(x, axes, keepdims, freedom)  # type: ignore[no-any-return]


def _of_complex(
    of: Rule, x: Tensor, axes: tuple[int, ...], freedom: float, keepdims: bool
) -> Tensor:
    square = elementwise.square(elementwise.abs(x - _mean(x, axes, True)))
    found = prims.sum(square, axes=axes, keepdims=keepdims) / freedom
    return root(found) if of is _deviation_of else found


def _correction(name: str, correction: Any, ddof: Any) -> float:
    """What is subtracted from the count.

    Raises:
        TypeError: if it is no number: NumPy has ``dtype`` in its place.
    """
    found = correction if ddof is None else ddof
    if isinstance(found, bool | int | float | np.number) or type(found) is StagedNumber:
        return found  # type: ignore[return-value]
    raise TypeError(
        f"{name}: the argument after the axis is correction, a number, got {found!r:.60}; "
        f"write correction= (or ddof=), dtype= and keepdims= by name"
    )


def _under_mask(
    name: str, x: Tensor, axes: tuple[int, ...], keepdims: bool, where: Any, correction: float = 0
) -> Tensor:
    """The mean, variance or deviation of the elements where a mask holds."""
    given = x._dtype
    if given.itemsize == 2:
        wide = cast(x, dtypes.float32)
        return cast(_under_mask(name, wide, axes, keepdims, where, correction), given)
    mask = mask_of(name, x, where)
    held = compare.where(mask, x, constant_like(0.0, x))
    count = sum(cast(mask, x._dtype), axes, True)
    out = sum(held, axes, True) / count
    if name != "mean":
        apart = compare.where(mask, x - out, constant_like(0.0, x))
        square = elementwise.square(elementwise.abs(apart))
        freedom = elementwise.maximum(count - correction, constant_like(0.0, count))
        out = sum(square, axes, True) / freedom
        out = root(out) if name == "std" else out
    if keepdims:
        return out
    return shape_prims.reshaped(out, tuple([n for i, n in enumerate(x._shape) if i not in axes]))


_variance_of = quick(variance, "axes", "keepdims", "freedom")
_deviation_of = quick(deviation, "axes", "keepdims", "freedom")


def var(
    x: Any,
    axis: Axis = None,
    correction: float = 0.0,
    keepdims: bool = False,
    *,
    dim: Axis = None,
    keepdim: bool = False,
    dtype: Any = None,
    ddof: float | None = None,
    where: Any = None,
) -> Tensor:
    """The variance along axes: the mean squared distance from the mean.

    Args:
        x: a floating tensor of any shape; float16 and bfloat16 are computed in float32.
        axis: the axes to reduce, all of them for None.
        correction: subtracted from the count in the divisor; 1 gives the unbiased estimate, which
            is the default of the method ``x.var()`` as in PyTorch.
        keepdims: keep the reduced axes, with size 1.
        dim, keepdim: PyTorch's words for ``axis`` and ``keepdims``.
        dtype: the dtype to compute in.
        ddof: NumPy's word for ``correction``.
        where: bool, broadcast to ``x``: what counts.

    Raises:
        DTypeError: for integers and bool.
        AxisError: if an axis is out of range.

    Example:
        >>> import fx
        >>> fx.var(fx.tensor([1.0, 3.0]))
        tensor(1.)
    """
    x = argument("var", x)
    if ddof is not None or type(correction) not in (int, float):
        correction = _correction("var", correction, ddof)
    if keepdims is not False:
        keepdims = flag("var", keepdims)
    axes = normal_axes("var", axis if dim is None else dim, x._shape)
    if where is not None:
        x = averaged("var", x, dtype)
        return _under_mask("var", x, axes, keepdims or keepdim, where, correction)
    return _spread(_variance_of, "var", x, axes, correction, keepdims or keepdim, dtype)


def std(
    x: Any,
    axis: Axis = None,
    correction: float = 0.0,
    keepdims: bool = False,
    *,
    dim: Axis = None,
    keepdim: bool = False,
    dtype: Any = None,
    ddof: float | None = None,
    where: Any = None,
) -> Tensor:
    """The standard deviation along axes, the root of ``var``; its gradient is 0 where it is 0.

    Example:
        >>> import fx
        >>> fx.std(fx.tensor([1.0, 5.0]), correction=0)
        tensor(2.)
    """
    x = argument("std", x)
    if ddof is not None or type(correction) not in (int, float):
        correction = _correction("std", correction, ddof)
    if keepdims is not False:
        keepdims = flag("std", keepdims)
    axes = normal_axes("std", axis if dim is None else dim, x._shape)
    if where is not None:
        x = averaged("std", x, dtype)
        return _under_mask("std", x, axes, keepdims or keepdim, where, correction)
    return _spread(_deviation_of, "std", x, axes, correction, keepdims or keepdim, dtype)


def var_mean(
    x: Any, axis: Axis = None, correction: float = 0.0, keepdims: bool = False, *,
    dim: Axis = None, keepdim: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The variance and the mean along axes; see ``var``.

    Example:
        >>> import fx
        >>> fx.var_mean(fx.tensor([1.0, 3.0]))
        (tensor(1.), tensor(2.))
    """
    x = argument("var_mean", x)
    axes = reduced_axes("var_mean", axis if dim is None else dim, x._shape)
    keep = keepdims or keepdim
    spread = _spread(_variance_of, "var_mean", x, axes, correction, keep)
    return spread, _mean(x, axes, keep)


def std_mean(
    x: Any, axis: Axis = None, correction: float = 0.0, keepdims: bool = False, *,
    dim: Axis = None, keepdim: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The standard deviation and the mean along axes; see ``std``.

    Example:
        >>> import fx
        >>> fx.std_mean(fx.tensor([1.0, 3.0]))
        (tensor(1.), tensor(2.))
    """
    x = argument("std_mean", x)
    axes = reduced_axes("std_mean", axis if dim is None else dim, x._shape)
    keep = keepdims or keepdim
    spread = _spread(_deviation_of, "std_mean", x, axes, correction, keep)
    return spread, _mean(x, axes, keep)


_total = total(prims.sum, dtypes.int64, reduced_axes)  # by PyTorch's rules


def nansum(
    x: Any, axis: Axis = None, keepdims: bool = False, *,
    dim: Axis = None, keepdim: bool = False, dtype: Any = None,
) -> Tensor:  # fmt: skip
    """The sum along axes of what is not NaN, in ``dtype`` if one is given.

    Example:
        >>> import fx
        >>> fx.nansum(fx.tensor([1.0, float("nan"), 2.0]))
        tensor(3.)
    """
    keepdims = flag("nansum", keepdims)
    x = argument("nansum", x) if dtype is None else cast(argument("nansum", x), as_dtype(dtype))
    axis, keep = axis if dim is None else dim, keepdims or keepdim
    if x._dtype.kind in "biu":
        return _total(x, axis, keep)
    return _known_total(x, axes=reduced_axes("nansum", axis, x._shape), keepdims=keep)  # type: ignore[no-any-return]


def _known_total_in_steps(x: Tensor, *, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    known = compare.where(x != x, constant_like(0, x), x)
    return prims.sum(known, axes=axes, keepdims=keepdims)  # type: ignore[no-any-return]


_known_total = fused_along("nansum", _known_total_in_steps, "x>r", torch_name="Nansum")


def nanmean(
    x: Any, axis: Axis = None, keepdims: bool = False, *,
    dim: Axis = None, keepdim: bool = False, dtype: Any = None,
) -> Tensor:  # fmt: skip
    """The mean along axes of what is not NaN, in ``dtype`` if one is given; NaN where all is.

    Example:
        >>> import fx
        >>> fx.nanmean(fx.tensor([1.0, float("nan"), 3.0]))
        tensor(2.)
    """
    keepdims = flag("nanmean", keepdims)
    x = averaged("nanmean", x if dtype is None else cast(argument("nanmean", x), as_dtype(dtype)))
    axes = reduced_axes("nanmean", axis if dim is None else dim, x._shape)
    keep = keepdims or keepdim
    return nansum(x, axes, keep) / cast(sum(x == x, axes, keep), x._dtype)


# order statistics -------------------------------------------------------------------------------


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


__all__ = public(globals(), but=("lines", "mean_of"))
