"""Statistics: means and variances along axes.

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
from fx.config import modes
from fx.dtypes import as_dtype
from fx.ops.axes import Axis, normal_axes, reduced_axes
from fx.ops.operands import argument, averaged, cast, public
from fx.ops.reductions.masked import flag, mask_of
from fx.ops.reductions.reduction import sum, total
from fx.primitive import Rule
from fx.prims.creation import constant_like
from fx.prims.fused import along as fused_along
from fx.prims.fused import fuse
from fx.prims.lengths import deviation, root
from fx.prims.norms import variance
from fx.quick import quick
from fx.staged_number import StagedNumber
from fx.tensor import Tensor


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
    of: Rule, name: str, x: Any, axis: Axis, correction: Any, keepdims: Any, dtype: Any = None,
    ddof: Any = None, where: Any = None, axes: tuple[int, ...] | None = None,
) -> Tensor:  # fmt: skip
    """The variance or the deviation ``of``, computed in at least float32.

    Args:
        axes: what ``axis`` says, where that is known.
    """
    if ddof is not None or type(correction) not in (int, float):
        correction = _correction(name, correction, ddof)
    if keepdims is not False:
        keepdims = flag(name, keepdims)
    x = averaged(name, x, dtype)
    if axes is None:
        axes = normal_axes(name, axis, x._shape)
    if where is not None:
        return _under_mask(name, x, axes, keepdims, where, correction)
    count = _count(x._shape, axes)
    if count <= correction and modes.stage is not None:
        modes.stage.was_told((count,))  # of a larger one the freedom is another
    freedom = max(float(count - correction), 0.0)
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
    axis, keep = axis if dim is None else dim, keepdims or keepdim
    return _spread(_variance_of, "var", x, axis, correction, keep, dtype, ddof, where)


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
    axis, keep = axis if dim is None else dim, keepdims or keepdim
    return _spread(_deviation_of, "std", x, axis, correction, keep, dtype, ddof, where)


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
    spread = _spread(_variance_of, "var_mean", x, None, correction, keep, axes=axes)
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
    spread = _spread(_deviation_of, "std_mean", x, None, correction, keep, axes=axes)
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


__all__ = public(globals(), but=("mean_of",))
