"""NumPy's averages and order statistics of what is not NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fx import dtypes
from fx.ops.convert import as_tensor
from fx.ops.indexing.searching import where
from fx.ops.numpy_names.statistics import Axis, shares
from fx.ops.operands import argument, cast, floating
from fx.ops.pointwise import elementwise
from fx.ops.reductions import counting, cumulative, reduction
from fx.ops.reductions.masked import flag
from fx.ops.shapes.manipulation import ravel, reshape
from fx.tensor import Tensor


def _kept(name: str, a: Any, instead: Any) -> tuple[Tensor, Tensor]:
    """The elements with ``instead`` for NaN, and which are no NaN."""
    x = argument(name, a)
    good = x == x
    return where(good, x, as_tensor(instead, dtype=x.dtype)), good


def nanmax(a: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The largest element that is not NaN; NaN where all are.

    Example:
        >>> import fx
        >>> fx.nanmax(fx.tensor([1.0, float("nan"), 3.0]))
        tensor(3.)
    """
    return _nan_extreme("nanmax", a, axis, keepdims, -float("inf"), reduction.max)


def nanmin(a: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The smallest element that is not NaN; NaN where all are.

    Example:
        >>> import fx
        >>> fx.nanmin(fx.tensor([1.0, fx.nan, 3.0]))
        tensor(1.)
    """
    return _nan_extreme("nanmin", a, axis, keepdims, float("inf"), reduction.min)


def _nan_extreme(
    name: str, a: Any, axis: Axis, keepdims: Any, worst: float, find: Callable[..., Tensor]
) -> Tensor:
    keepdims = flag(name, keepdims)
    x = argument(name, a)
    if x.dtype not in dtypes.FLOATING:
        return find(x, axis, keepdims=keepdims)
    filled, good = _kept(name, x, worst)
    out = find(filled, axis, keepdims=keepdims)
    return where(reduction.any(good, axis, keepdims=keepdims), out, float("nan"))


def nanargmax(a: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The place of the largest element that is not NaN; -1 where all are.

    Example:
        >>> import fx
        >>> fx.nanargmax(fx.tensor([1.0, fx.nan, 3.0]))
        tensor(2)
    """
    keepdims = flag("nanargmax", keepdims)
    return _nan_place("nanargmax", a, axis, keepdims, -float("inf"), reduction.argmax)


def nanargmin(a: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The place of the smallest element that is not NaN; -1 where all are.

    Example:
        >>> import fx
        >>> fx.nanargmin(fx.tensor([fx.nan, 2.0, 3.0]))
        tensor(1)
    """
    keepdims = flag("nanargmin", keepdims)
    return _nan_place("nanargmin", a, axis, keepdims, float("inf"), reduction.argmin)


def _nan_place(
    name: str, a: Any, axis: int | None, keepdims: bool, worst: float, find: Callable[..., Tensor]
) -> Tensor:
    x = argument(name, a)
    if x.dtype not in dtypes.FLOATING:
        return find(x, axis, keepdims=keepdims)
    filled, good = _kept(name, x, worst)
    # an infinity that is there comes before a NaN that became one
    place = find(filled, axis, keepdims=keepdims)
    first = reduction.argmax(cast(good, dtypes.int8), axis, keepdims=keepdims)
    best = (reduction.max if worst < 0 else reduction.min)(filled, axis, keepdims=keepdims)
    place = where(best == worst, first, place)
    return where(reduction.any(good, axis, keepdims=keepdims), place, -1)


def nanprod(a: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The product of what is not NaN.

    Example:
        >>> import fx
        >>> fx.nanprod(fx.tensor([2.0, fx.nan, 3.0]))
        tensor(6.)
    """
    keepdims = flag("nanprod", keepdims)
    return reduction.prod(_kept("nanprod", a, 1)[0], axis, keepdims=keepdims)


def nancumsum(a: Any, axis: int | None = None) -> Tensor:
    """The sums up to each place of what is not NaN.

    Example:
        >>> import fx
        >>> fx.nancumsum(fx.tensor([2.0, fx.nan, 3.0]))
        tensor([2., 2., 5.])
    """
    x = _kept("nancumsum", a, 0)[0]
    return cumulative.cumulative_sum(ravel(x) if axis is None else x, axis or 0)


def nancumprod(a: Any, axis: int | None = None) -> Tensor:
    """The products up to each place of what is not NaN.

    Example:
        >>> import fx
        >>> fx.nancumprod(fx.tensor([2.0, fx.nan, 3.0]))
        tensor([2., 2., 6.])
    """
    x = _kept("nancumprod", a, 1)[0]
    return cumulative.cumulative_prod(ravel(x) if axis is None else x, axis or 0)


def nanvar(a: Any, axis: Axis = None, ddof: float = 0, keepdims: bool = False) -> Tensor:
    """The variance of what is not NaN: the sum of squares over the count less ``ddof``.

    Example:
        >>> import fx
        >>> fx.nanvar(fx.tensor([1.0, fx.nan, 3.0]))
        tensor(1.)
    """
    if not isinstance(ddof, int | float):
        raise TypeError(f"nanvar: the argument after the axis is ddof, a number, got {ddof!r:.40}")
    keepdims = flag("nanvar", keepdims)
    x = floating("nanvar", a)
    filled, good = _kept("nanvar", x, 0)
    count = cast(reduction.sum(cast(good, dtypes.int64), axis, keepdims=True), x.dtype)
    centre = reduction.sum(filled, axis, keepdims=True) / count
    away = where(good, x - centre, 0.0)
    total = reduction.sum(away * away, axis, keepdims=keepdims)
    count = reshape(count, total.shape) - ddof
    return where(count > 0, total / count, float("nan"))


def nanstd(a: Any, axis: Axis = None, ddof: float = 0, keepdims: bool = False) -> Tensor:
    """The root of ``nanvar``.

    Example:
        >>> import fx
        >>> fx.nanstd(fx.tensor([1.0, fx.nan, 3.0]))
        tensor(1.)
    """
    if not isinstance(ddof, int | float):
        raise TypeError(f"nanstd: the argument after the axis is ddof, a number, got {ddof!r:.40}")
    keepdims = flag("nanstd", keepdims)
    return elementwise.sqrt(nanvar(a, axis, ddof, keepdims))


def nanquantile(
    a: Any, q: Any, axis: int | None = None, *, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """``quantile`` of what is not NaN.

    Example:
        >>> import fx
        >>> fx.nanquantile(fx.tensor([1.0, fx.nan, 3.0]), 0.5)
        tensor(2.)
    """
    return counting.nanquantile(a, q, axis, keepdims, interpolation=method)


def nanpercentile(
    a: Any, q: Any, axis: int | None = None, *, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """``nanquantile`` of ``q`` in percent.

    Example:
        >>> import fx
        >>> fx.nanpercentile(fx.tensor([1.0, fx.nan, 3.0]), 50)
        tensor(2.)
    """
    return nanquantile(a, shares("nanpercentile", a, q), axis, method=method, keepdims=keepdims)


def nanmedian(a: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The middle element of what is not NaN, or the mean of the middle two.

    Example:
        >>> import fx
        >>> fx.nanmedian(fx.tensor([1.0, fx.nan, 3.0, 2.0]))
        tensor(2.)
    """
    return nanquantile(a, 0.5, axis, keepdims=keepdims)
