"""Statistics: means, variances, quantiles and norms along axes.

``axis`` is an int, a tuple of ints or None for all axes; ``dim`` and ``keepdim`` are PyTorch's words
for ``axis`` and ``keepdims``.
"""

from __future__ import annotations

from math import floor, isinf, prod
from typing import Any

import fx.prims.compare as compare
import fx.prims.elementwise as elementwise
import fx.prims.indexing as indexing
import fx.prims.reduction as prims
import fx.prims.shape as shape_prims
import fx.prims.sorting as sorting
from fx import dtypes
from fx.errors import DTypeError, ShapeError
from fx.ops.axes import Axis, normal_axes
from fx.ops.operands import argument, cast, floating, operands, public, requested
from fx.prims.creation import constant_like
from fx.tensor import Tensor

# means and variances ----------------------------------------------------------------------------


def averaged(name: str, x: Any, dtype: Any = None) -> Tensor:
    """``x`` in a dtype that has a mean.

    Raises:
        DTypeError: for integers and bool.
    """
    x = requested(argument(name, x), dtype)
    if x.dtype.kind in "biu":
        raise DTypeError(
            f"{name} takes a floating dtype, got {x.dtype.name}; "
            f"write fx.{name}(x.astype(fx.float32)) or fx.{name}(x, dtype=fx.float32)"
        )
    return x


def _count(shape: tuple[int, ...], axes: tuple[int, ...]) -> int:
    return prod([shape[a] for a in axes])


def mean(
    x: Any,
    axis: Axis = None,
    keepdims: bool = False,
    dtype: Any = None,
    *,
    dim: Axis = None,
    keepdim: bool = False,
) -> Tensor:
    """The arithmetic mean along axes; NaN of nothing.

    Args:
        x: a floating tensor of any shape; float16 and bfloat16 are added up in float32.
        axis: the axes to reduce, all of them for None.
        keepdims: keep the reduced axes, with size 1.
        dtype: the dtype to compute in.
        dim, keepdim: PyTorch's words for ``axis`` and ``keepdims``.

    Raises:
        DTypeError: for integers and bool.
        AxisError: if an axis is out of range.

    Example:
        >>> import fx
        >>> fx.mean(fx.tensor([[1.0, 2.0], [3.0, 4.0]]), axis=0)
        tensor([2., 3.])
    """
    x = averaged("mean", x, dtype)
    axes = normal_axes("mean", axis if dim is None else dim, x.shape)
    return _mean(x, axes, keepdims or keepdim)


def _mean(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    given = x.dtype
    if given.itemsize == 2:  # the sum may leave the range of float16
        return compare.astype(_mean(cast(x, dtypes.float32), axes, keepdims), dtype=given)
    return prims.sum(x, axes=axes, keepdims=keepdims) / float(_count(x.shape, axes))


def _moments(
    name: str, x: Any, axis: Axis, correction: float, keepdims: bool, dtype: Any
) -> tuple[Tensor, Tensor]:
    """The variance and the mean, in at least float32."""
    x = averaged(name, x, dtype)
    axes = normal_axes(name, axis, x.shape)
    if x.dtype.itemsize == 2:
        x = cast(x, dtypes.float32)
    center = _mean(x, axes, True)
    gap = x - center
    square = elementwise.square(gap if x.dtype.kind != "c" else elementwise.abs(gap))
    freedom = float(_count(x.shape, axes) - correction)
    spread = prims.sum(square, axes=axes, keepdims=keepdims) / (freedom if freedom > 0 else 0.0)
    if not keepdims:
        center = shape_prims.reshape(center, shape=spread.shape)
    return spread, center


def _result_dtype(x: Any, dtype: Any) -> Any:
    found = x.dtype if dtype is None else dtypes.as_dtype(dtype)
    return dtypes.real_of(found)


def root(x: Tensor) -> Tensor:
    """The square root, whose derivative at 0 is taken to be 0 (a subgradient)."""
    if type(x) is Tensor and x._node is None:
        return elementwise.sqrt(x)
    zero = x == 0
    safe = compare.where(zero, constant_like(1.0, x), x)
    return compare.where(zero, x, elementwise.sqrt(safe))


def var(
    x: Any,
    axis: Axis = None,
    correction: float = 0.0,
    keepdims: bool = False,
    *,
    dim: Axis = None,
    keepdim: bool = False,
    dtype: Any = None,
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

    Raises:
        DTypeError: for integers and bool.
        AxisError: if an axis is out of range.

    Example:
        >>> import fx
        >>> fx.var(fx.tensor([1.0, 3.0]))
        tensor(1.)
    """
    x = argument("var", x)
    out, _ = _moments("var", x, axis if dim is None else dim, correction, keepdims or keepdim, dtype)
    return cast(out, _result_dtype(x, dtype))


def std(
    x: Any,
    axis: Axis = None,
    correction: float = 0.0,
    keepdims: bool = False,
    *,
    dim: Axis = None,
    keepdim: bool = False,
    dtype: Any = None,
) -> Tensor:
    """The standard deviation along axes, the root of ``var``; its gradient is 0 where it is 0.

    Example:
        >>> import fx
        >>> fx.std(fx.tensor([1.0, 5.0]), correction=0)
        tensor(2.)
    """
    x = argument("std", x)
    out, _ = _moments("std", x, axis if dim is None else dim, correction, keepdims or keepdim, dtype)
    return cast(root(out), _result_dtype(x, dtype))


def var_mean(
    x: Any, axis: Axis = None, correction: float = 0.0, keepdims: bool = False, *,
    dim: Axis = None, keepdim: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The variance and the mean along axes, for one computation of the mean; see ``var``.

    Example:
        >>> import fx
        >>> fx.var_mean(fx.tensor([1.0, 3.0]))
        (tensor(1.), tensor(2.))
    """
    x = argument("var_mean", x)
    keep = keepdims or keepdim
    spread, center = _moments("var_mean", x, axis if dim is None else dim, correction, keep, None)
    return cast(spread, dtypes.real_of(x.dtype)), cast(center, x.dtype)


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
    keep = keepdims or keepdim
    spread, center = _moments("std_mean", x, axis if dim is None else dim, correction, keep, None)
    return cast(root(spread), dtypes.real_of(x.dtype)), cast(center, x.dtype)


__all__ = public(globals(), but=("averaged", "root"))
