"""Axes and sizes: every way of writing them becomes plain ints in range."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from operator import index
from typing import Any

from fx.errors import AxisError, DTypeError, FxError, ShapeError

Axis = int | Sequence[int] | None

_SEVERAL = (tuple, list)
ALL_AXES = [tuple(range(n)) for n in range(65)]  # every axis of a tensor with n axes


def normal_axis(name: str, axis: Any, shape: tuple[int, ...]) -> int:
    """``axis`` counted from the front.

    Raises:
        AxisError: naming the function, the axis and the shape.
    """
    ndim = len(shape)
    if type(axis) is int and -ndim <= axis < ndim:
        return axis + ndim if axis < 0 else axis
    try:
        number = index(axis)
    except TypeError:
        raise AxisError(
            f"{name}: an axis is an int, got {axis!r} for a tensor of shape {shape}"
        ) from None
    if -ndim <= number < ndim:
        return number + ndim if number < 0 else number
    expected = f"expected {-ndim} to {ndim - 1}" if ndim else "a scalar has none"
    raise AxisError(
        f"{name}: axis {number} is out of range for shape {shape}, which has {ndim} axes; "
        f"{expected}"
    )


def ordered_axes(name: str, axis: Axis, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Axes counted from the front, in the order they were written; None means all.

    Raises:
        AxisError: if one is out of range or named twice.
    """
    if axis is None:
        return ALL_AXES[len(shape)]
    if not isinstance(axis, (tuple, list)):
        return (normal_axis(name, axis, shape),)
    axes = tuple([normal_axis(name, a, shape) for a in axis])
    if len(set(axes)) != len(axes):
        raise AxisError(f"{name}: axes {tuple(axis)} name an axis of shape {shape} twice")
    return axes


def normal_axes(name: str, axis: Axis, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Axes counted from the front and sorted, as reductions take them; None means all.

    A scalar takes 0 and -1, as in PyTorch; functions of one axis do the same with ``of_scalar``.

    Raises:
        AxisError: if one is out of range or named twice.
    """
    if axis is None:
        return ALL_AXES[len(shape)]
    if not shape:  # a scalar has one place, 0 or -1, and reducing it is reducing nothing
        ordered_axes(name, axis, (1,))
        return ()
    if type(axis) is int:
        return (normal_axis(name, axis, shape),)
    axes = ordered_axes(name, axis, shape)
    return axes if len(axes) == 1 else tuple(sorted(axes))


def reduced_axes(name: str, axis: Axis, shape: tuple[int, ...]) -> tuple[int, ...]:
    """``normal_axes`` by PyTorch's rule, where naming no axis names all of them.

    In the Array API standard ``axis=()`` reduces nothing: the functions of the standard have that.
    """
    if axis is None:
        return ALL_AXES[len(shape)]
    return normal_axes(name, axis, shape) or ALL_AXES[len(shape)]


def required_axis(name: str, axis: Any, shape: tuple[int, ...]) -> int:
    """``normal_axis`` for functions that need one: None is only understood of one axis.

    Raises:
        AxisError: if it is None and the tensor has not exactly one axis.
    """
    if axis is None:
        if len(shape) == 1:
            return 0
        raise AxisError(f"{name}: shape {shape} has {len(shape)} axes; say which with axis=")
    return normal_axis(name, axis, shape)


def new_axis(name: str, axis: Any, shape: tuple[int, ...]) -> int:
    """A place for one more axis, counted from the front: the result has ``len(shape) + 1`` axes.

    Raises:
        AxisError: if it is out of range.
    """
    number, ndim = axis if type(axis) is int else integer(name, "axis", axis), len(shape) + 1
    if -ndim <= number < ndim:
        return number + ndim if number < 0 else number
    raise AxisError(
        f"{name}: a new axis at {number} is out of range for shape {shape}; "
        f"expected {-ndim} to {ndim - 1}"
    )


def _shown(value: Any) -> str:
    """A value for a message, without reading what may be a large tensor."""
    shape = getattr(value, "shape", None)
    return f"{value!r:.60}" if shape is None else f"{type(value).__name__} of shape {shape}"


def integer(name: str, word: str, value: Any) -> int:
    """An argument that counts something, as a plain int.

    Raises:
        DTypeError: naming the function and the argument, if it is no integer.
    """
    if type(value) is int:
        return value
    try:
        return index(value)
    except FxError:  # of a tensor or a tracer, which says more
        raise
    except TypeError:
        raise DTypeError(
            f"{name}: {word} must be an int, got {_shown(value)}; write int(...) around it"
        ) from None


def integers(name: str, word: str, value: Any) -> tuple[int, ...]:
    """An argument that is one int or several, as plain ints.

    Raises:
        DTypeError: naming the function and the argument, if it is anything else.
    """
    if isinstance(value, (tuple, list)):
        return tuple([integer(name, word, n) for n in value])
    return (integer(name, word, value),)


def sizes(args: tuple[Any, ...], name: str = "shape") -> tuple[int, ...]:
    """Sizes from ``f(2, 3)`` or ``f((2, 3))``, as plain ints.

    Raises:
        DTypeError: if one of them is no integer.
    """
    if len(args) == 1 and isinstance(args[0], _SEVERAL):
        args = tuple(args[0])
    for n in args:
        if type(n) is not int:
            return tuple([integer(name, "a size", n) for n in args])
    return args


def infer_size(name: str, shape: tuple[int, ...], wanted: tuple[int, ...]) -> tuple[int, ...]:
    """``wanted`` with its one -1 replaced by the size that is left.

    Raises:
        ShapeError: if there is more than one -1, or nothing fits.
    """
    if -1 not in wanted:
        return wanted
    if len(wanted) == 1:
        return (prod(shape),)
    known = prod([n for n in wanted if n != -1])
    size = prod(shape)
    if wanted.count(-1) > 1:
        raise ShapeError(f"{name}: only one size of {wanted} may be -1")
    if known == 0 or size % known:
        raise ShapeError(
            f"{name}: {shape} has {size} elements, which no size at -1 fits into {wanted}"
        )
    return tuple([size // known if n == -1 else n for n in wanted])
