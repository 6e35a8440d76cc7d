"""Cumulative operations along an axis, and differences of neighbours."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

import fx.prims.compare as compare
import fx.prims.cumulative as prims
import fx.prims.elementwise as elementwise
import fx.prims.shape as shape_prims
from fx.dtypes import bool_, int64, uint64
from fx.ops.axes import integer, normal_axis, required_axis
from fx.ops.indexing.views import along
from fx.ops.operands import (
    accumulator,
    argument,
    cast,
    floating,
    of_scalar,
    promoted,
    public,
    requested,
)
from fx.ops.reductions.found import Found, found
from fx.primitive import Primitive
from fx.prims.axes import check_ordered
from fx.prims.creation import full
from fx.quick import quick
from fx.tensor import Tensor

_QUICK = {prim: quick(prim, "axis", "reverse") for prim in (prims.cumsum, prims.cumprod)}


def _accumulate(
    name: str, prim: Primitive, x: Any, axis: int | None, dtype: Any, initial: int | None = None,
    unsigned: Any = uint64,
) -> Tensor:  # fmt: skip
    x = requested(argument(name, x), dtype)
    if dtype is None and x._dtype.kind in "biu":
        x = cast(x, accumulator(x._dtype, unsigned))
    if axis is not None and initial is None and not x._shape:
        again = partial(_accumulate, name, prim, unsigned=unsigned)
        return of_scalar(again, x, axis, dtype)  # type: ignore[no-any-return]
    at = required_axis(name, axis, x._shape)
    out = _QUICK[prim](x, at, False)
    if initial is None:
        return out
    shape = (*x._shape[:at], 1, *x._shape[at + 1 :])
    first = full(shape=shape, value=initial, dtype=x._dtype, device=x.device.name)
    return shape_prims.concatenate(first, out, axis=at)


def _in_a_row(name: str, x: Any) -> Tensor:
    x = argument(name, x)
    return x if x.ndim == 1 else shape_prims.reshaped(x, (prod(x._shape),))


def cumulative_sum(
    x: Any,
    axis: int | None = None,
    dtype: Any = None,
    include_initial: bool = False,
    *,
    dim: int | None = None,
) -> Tensor:
    """The sums of the first 1, 2, … elements along an axis.

    Args:
        x: a tensor with at least one axis. Bool and small integers are added up in 64 bits.
        axis: the axis; None is enough where there is only one.
        dtype: the dtype to compute in.
        include_initial: put the sum of nothing, 0, first.
        dim: PyTorch's word for ``axis``.

    Raises:
        AxisError: if the axis is out of range, or None is not enough.

    Source: Python Array API standard 2024.12, ``cumulative_sum``.

    Example:
        >>> import fx
        >>> fx.cumulative_sum(fx.tensor([1, 2, 3]), include_initial=True)
        tensor([0, 1, 3, 6])
    """
    initial = 0 if include_initial else None
    axis = axis if dim is None else dim
    return _accumulate("cumulative_sum", prims.cumsum, x, axis, dtype, initial)


def cumulative_prod(
    x: Any,
    axis: int | None = None,
    dtype: Any = None,
    include_initial: bool = False,
    *,
    dim: int | None = None,
) -> Tensor:
    """The products of the first 1, 2, … elements along an axis; see ``cumulative_sum``.

    Source: Python Array API standard 2024.12, ``cumulative_prod``.

    Example:
        >>> import fx
        >>> fx.cumulative_prod(fx.tensor([1, 2, 3]))
        tensor([1, 2, 6])
    """
    initial = 1 if include_initial else None
    axis = axis if dim is None else dim
    return _accumulate("cumulative_prod", prims.cumprod, x, axis, dtype, initial)


def cumsum(x: Any, axis: int | None = None, dtype: Any = None, *, dim: int | None = None) -> Tensor:
    """``cumulative_sum`` by PyTorch's name, which adds unsigned integers up in int64.

    Without an axis the elements are taken in C order, as in NumPy.

    Example:
        >>> import fx
        >>> fx.cumsum(fx.tensor([[1, 2], [3, 4]]), axis=0)
        tensor([[1, 2],
                [4, 6]])
    """
    axis = axis if dim is None else dim
    if axis is None:
        x = _in_a_row("cumsum", x)
    return _accumulate("cumsum", prims.cumsum, x, axis, dtype, unsigned=int64)


def cumprod(
    x: Any, axis: int | None = None, dtype: Any = None, *, dim: int | None = None
) -> Tensor:
    """``cumulative_prod`` by PyTorch's name, which multiplies unsigned integers in int64.

    Example:
        >>> import fx
        >>> fx.cumprod(fx.tensor([1.0, 2.0, 3.0]), axis=0)
        tensor([1., 2., 6.])
    """
    axis = axis if dim is None else dim
    if axis is None:
        x = _in_a_row("cumprod", x)
    return _accumulate("cumprod", prims.cumprod, x, axis, dtype, unsigned=int64)


def cummax(x: Any, axis: int | None = None, *, dim: int | None = None) -> Found:
    """The largest element so far along an axis and its (latest) place: ``(values, indices)``.

    Example:
        >>> import fx
        >>> fx.cummax(fx.tensor([1, 3, 2]), axis=0).values
        tensor([1, 3, 3])
    """
    x = argument("cummax", x)
    check_ordered("cummax", x)
    axis = axis if dim is None else dim
    if axis is not None and not x._shape:
        return of_scalar(cummax, x, axis)  # type: ignore[no-any-return]
    at = required_axis("cummax", axis, x._shape)
    return found("cummax", prims.cummax(x, axis=at, reverse=False))


def cummin(x: Any, axis: int | None = None, *, dim: int | None = None) -> Found:
    """The smallest element so far along an axis and its (latest) place: ``(values, indices)``.

    Example:
        >>> import fx
        >>> fx.cummin(fx.tensor([3, 1, 2]), axis=0).values
        tensor([3, 1, 1])
    """
    x = argument("cummin", x)
    check_ordered("cummin", x)
    axis = axis if dim is None else dim
    if axis is not None and not x._shape:
        return of_scalar(cummin, x, axis)  # type: ignore[no-any-return]
    at = required_axis("cummin", axis, x._shape)
    return found("cummin", prims.cummin(x, axis=at, reverse=False))


def logcumsumexp(x: Any, axis: int | None = None, *, dim: int | None = None) -> Tensor:
    """log of the cumulative sum of exp(x) along an axis, without overflow.

    Example:
        >>> import fx
        >>> fx.logcumsumexp(fx.tensor([0.0, 0.0]), axis=0)
        tensor([0.0000, 0.6931])
    """
    x = floating("logcumsumexp", x)
    axis = axis if dim is None else dim
    if axis is not None and not x._shape:
        return of_scalar(logcumsumexp, x, axis)  # type: ignore[no-any-return]
    at = required_axis("logcumsumexp", axis, x._shape)
    return prims.logcumsumexp(x, axis=at, reverse=False)


def diff(
    x: Any,
    n: int = 1,
    axis: int = -1,
    prepend: Any = None,
    append: Any = None,
    *,
    dim: int | None = None,
) -> Tensor:
    """The n-th differences of neighbours along an axis.

    Args:
        x: a tensor with at least one axis.
        n: how often neighbours are subtracted; 0 gives ``x``.
        axis: the axis.
        prepend, append: tensors put before and after ``x`` along the axis first.
        dim: PyTorch's word for ``axis``.

    Raises:
        AxisError: if the axis is out of range.
        ValueError: if ``n`` is negative.

    Source: Python Array API standard 2024.12, ``diff``.

    Example:
        >>> import fx
        >>> fx.diff(fx.tensor([1, 4, 9, 16]), n=2)
        tensor([2, 2])
    """
    n = integer("diff", "n", n)
    if n < 0:
        raise ValueError(f"diff: n must not be negative, got {n}")
    x = argument("diff", x)
    at = normal_axis("diff", axis if dim is None else dim, x._shape)
    parts = [p for p in (prepend, x, append) if p is not None] if n else [x]
    if len(parts) > 1:
        x = shape_prims.concatenate(*promoted("diff", *parts), axis=at)
    for _ in range(min(n, x._shape[at])):  # by then nothing is left
        size = x._shape[at]
        after, before = along(x, at, min(1, size), size), along(x, at, 0, max(size - 1, 0))
        subtract = compare.logical_xor if x._dtype == bool_ else elementwise.subtract
        x = subtract(after, before)
    return x


__all__ = public(globals())
