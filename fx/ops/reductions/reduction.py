"""Reductions: sums, extrema, truth and places along axes.

``axis`` is an int, a tuple of ints or None for all axes; ``dim`` and ``keepdim`` are PyTorch's
words for ``axis`` and ``keepdims``.

Source: Python Array API standard 2024.12, "Statistical functions" and "Utility functions".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod as product
from typing import Any, NamedTuple

import fx.prims.reduction as prims
import fx.prims.shape as shape_prims
from fx import dtypes
from fx.ops.autocasting import in_float32
from fx.ops.axes import ALL_AXES, Axis, normal_axes, normal_axis, reduced_axes
from fx.ops.operands import (
    accumulator,
    argument,
    cast,
    floating,
    of_scalar,
    ordered,
    public,
    requested,
    truth,
)  # fmt: skip
from fx.ops.pointwise import complex_rows
from fx.ops.reductions.found import shown
from fx.ops.reductions.masked import flag, reduced
from fx.primitive import Primitive, Rule
from fx.quick import quick
from fx.tensor import Tensor

_TOTAL_DOC = """The {word} of the elements along axes.

    Args:
        x: a tensor of any shape. Bool and small integers are added up in 64 bits.
        axis: the axes to reduce, all of them for None.
        keepdims: keep the reduced axes, with size 1.
        dtype: the dtype to compute in.
        dim, keepdim: PyTorch's words for ``axis`` and ``keepdims``.
        where: bool, broadcast to ``x``: what counts.
        initial: a number that comes first.

    Raises:
        AxisError: if an axis is out of range.

    Example:
        >>> import fx
        >>> fx.{word}(fx.tensor([[1, 2], [3, 4]]), axis=1)
        tensor([{result}])
    """


def total(
    prim: Primitive, unsigned: Any = dtypes.uint64, axes_of: Callable[..., Any] = normal_axes
) -> Callable[..., Tensor]:
    """The function of a sum or product.

    Args:
        prim: what adds up or multiplies.
        unsigned: what unsigned integers are added up in.
        axes_of: ``normal_axes`` or ``reduced_axes``: what an empty tuple of axes names.
    """
    name, fast = prim.name, quick(prim, "axes", "keepdims")

    def function(
        x: Any,
        axis: Axis = None,
        keepdims: bool = False,
        dtype: Any = None,
        *,
        dim: Axis = None,
        keepdim: bool = False,
        where: Any = None,
        initial: Any = None,
    ) -> Tensor:
        if keepdims is not False:
            keepdims = flag(name, keepdims)
        if where is not None or initial is not None:
            axis, keep = axis if dim is None else dim, keepdims or keepdim
            return reduced(name, function, x, axis, keep, where, initial, dtype=dtype)
        if type(x) is not Tensor:
            x = argument(name, x)
        if dtype is not None:
            x = requested(x, dtype)
        elif x._a.dtype.kind in "biu" if type(x) is Tensor else x._dtype.kind in "biu":
            x = cast(x, accumulator(x._dtype, unsigned))
        if dim is not None:
            axis = dim
        return fast(x, axes_of(name, axis, x._shape), keepdims or keepdim)

    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    return function


sum = total(prims.sum)
prod = in_float32(total(prims.prod))
sum.__doc__ = _TOTAL_DOC.format(word="sum", result="3, 7")
prod.__doc__ = _TOTAL_DOC.format(word="prod", result=" 2, 12")


# extrema and truth ------------------------------------------------------------------------------

_REDUCED_DOC = """{sentence}

    Args:
        x: a tensor of any shape.
        axis: the axes to reduce, all of them for None.
        keepdims: keep the reduced axes, with size 1.
        dim, keepdim: PyTorch's words for ``axis`` and ``keepdims``.
        where: bool, broadcast to ``x``: what counts.
        initial: a number that comes first; ``max`` and ``min`` need one beside ``where``.

    Raises:
        AxisError: if an axis is out of range.{more}

    Example:
        >>> import fx
        >>> fx.{name}(fx.tensor({value}), axis=0)
        tensor({result})
    """


def _reduction(
    name: str,
    prim: Primitive,
    sentence: str,
    more: str,
    example: Any,
    axes_of: Callable[..., Any] = normal_axes,
) -> Any:
    check = argument if name in ("any", "all") else ordered
    fast = quick(prim, "axes", "keepdims")

    def function(
        x: Any,
        axis: Axis = None,
        keepdims: bool = False,
        *,
        dim: Axis = None,
        keepdim: bool = False,
        where: Any = None,
        initial: Any = None,
    ) -> Tensor:
        if keepdims is not False:
            keepdims = flag(name, keepdims)
        if where is not None or initial is not None:
            axis, keep = axis if dim is None else dim, keepdims or keepdim
            return reduced(prim.name, function, x, axis, keep, where, initial)
        if type(x) is not Tensor or x._a.dtype.kind == "c":
            x = check(name, x)
        if dim is not None:
            axis = dim
        shape = x._a.shape if type(x) is Tensor else x._shape
        axes = ALL_AXES[len(shape)] if axis is None else axes_of(name, axis, shape)
        return fast(x, axes, keepdims or keepdim)

    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    doc = _REDUCED_DOC.format(
        sentence=sentence, more=more, name=name, value=example[0], result=example[1]
    )
    function.__doc__ = doc
    return function


_EMPTY = (
    "\n        ShapeError: if there is nothing to reduce.\n        DTypeError: for complex ``x``."
)
_LARGEST = (
    prims.max,
    "The largest element along axes; NaN wins. Elements that tie share the gradient.",
    _EMPTY,
    ("[1, 3, 2]", "3"),
)
_SMALLEST = (
    prims.min,
    "The smallest element along axes; NaN wins. Elements that tie share the gradient.",
    _EMPTY,
    ("[1, 3, 2]", "1"),
)
max, amax = _reduction("max", *_LARGEST), _reduction("amax", *_LARGEST, reduced_axes)
min, amin = _reduction("min", *_SMALLEST), _reduction("amin", *_SMALLEST, reduced_axes)
any = _reduction(
    "any", prims.any, "Whether some element is not 0, along axes.", "", ("[0, 3]", "True")
)
all = _reduction(
    "all", prims.all, "Whether every element is not 0, along axes.", "", ("[0, 3]", "False")
)


class MinMax(NamedTuple):
    """What ``aminmax`` returns."""

    min: Tensor
    max: Tensor

    def __repr__(self) -> str:
        return shown(self, "aminmax", "MinMax")


def aminmax(
    x: Any, axis: Axis = None, keepdims: bool = False, *, dim: Axis = None, keepdim: bool = False
) -> MinMax:
    """The smallest and the largest element along axes, as ``(min, max)``.

    Example:
        >>> import fx
        >>> fx.aminmax(fx.tensor([3, 1, 2]))
        MinMax(min=tensor(1), max=tensor(3))
    """
    x = ordered("aminmax", x)
    axes = reduced_axes("aminmax", axis if dim is None else dim, x._shape)
    keep = keepdims or keepdim
    return MinMax(min(x, axes, keep), max(x, axes, keep))


def count_nonzero(
    x: Any, axis: Axis = None, keepdims: bool = False, *, dim: Axis = None, keepdim: bool = False
) -> Tensor:
    """How many elements are not 0, along axes: int64.

    Example:
        >>> import fx
        >>> fx.count_nonzero(fx.tensor([0.0, 2.0, 3.0]))
        tensor(2)
    """
    return sum(
        truth(argument("count_nonzero", x)), axis if dim is None else dim, keepdims or keepdim
    )


def logsumexp(
    x: Any, axis: Axis = None, keepdims: bool = False, *, dim: Axis = None, keepdim: bool = False
) -> Tensor:
    """log(sum(exp(x))) along axes, without overflow.

    Args:
        x: a tensor of any shape; integers and bool become the default floating dtype.
        axis: the axes to reduce, all of them for None.
        keepdims: keep the reduced axes, with size 1.
        dim, keepdim: PyTorch's words for ``axis`` and ``keepdims``.

    Raises:
        AxisError: if an axis is out of range.

    Example:
        >>> import fx
        >>> fx.logsumexp(fx.tensor([0.0, 0.0]))
        tensor(0.6931)
    """
    x = floating("logsumexp", x)
    axes = reduced_axes("logsumexp", axis if dim is None else dim, x._shape)
    if x._dtype in dtypes.COMPLEX:
        return complex_rows.logsumexp(x, axes, keepdims or keepdim)
    return prims.logsumexp(x, axes=axes, keepdims=keepdims or keepdim)


# places -----------------------------------------------------------------------------------------


def _place(name: str, fast: Rule, x: Any, axis: int | None, keepdims: bool) -> Tensor:
    x = ordered(name, x)
    shape = x._shape
    if axis is not None:
        if not shape:
            return of_scalar(partial(_place, name, fast), x, axis, keepdims)  # type: ignore[no-any-return]
        return fast(x, normal_axis(name, axis, shape), keepdims)  # type: ignore[no-any-return]
    out: Tensor = fast(shape_prims.reshaped(x, (product(shape),)), 0, False)
    return shape_prims.reshaped(out, (1,) * len(shape)) if keepdims else out


argmax_along, argmin_along = (  # (x, axis, keepdims)
    quick(prims.argmax, "axis", "keepdims"), quick(prims.argmin, "axis", "keepdims"),
)  # fmt: skip


def argmax(
    x: Any,
    axis: int | None = None,
    keepdims: bool = False,
    *,
    dim: int | None = None,
    keepdim: bool = False,
) -> Tensor:
    """The first place of the largest element along an axis: int64.

    Args:
        x: a tensor of any shape; NaN counts as the largest.
        axis: the axis to search; None searches the flattened tensor.
        keepdims: keep the searched axis, with size 1.
        dim, keepdim: PyTorch's words for ``axis`` and ``keepdims``.

    Raises:
        AxisError: if the axis is out of range.
        ShapeError: if there is nothing to search.

    Example:
        >>> import fx
        >>> fx.argmax(fx.tensor([[1, 5], [7, 2]]), axis=1)
        tensor([1, 0])
    """
    return _place("argmax", argmax_along, x, axis if dim is None else dim, keepdims or keepdim)


def argmin(
    x: Any,
    axis: int | None = None,
    keepdims: bool = False,
    *,
    dim: int | None = None,
    keepdim: bool = False,
) -> Tensor:
    """The first place of the smallest element along an axis: int64; see ``argmax``.

    Example:
        >>> import fx
        >>> fx.argmin(fx.tensor([3, 1, 2]))
        tensor(1)
    """
    return _place("argmin", argmin_along, x, axis if dim is None else dim, keepdims or keepdim)


__all__ = public(globals(), but=("total", "argmax_along", "argmin_along"))
