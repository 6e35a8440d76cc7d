"""NumPy's ``where=`` and ``initial=`` of reductions, and what stands in the place of a flag."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fx.prims.compare as compare
import fx.prims.elementwise as elementwise
from fx import dtypes
from fx.errors import DTypeError
from fx.ops.axes import Axis, reduced_axes
from fx.ops.operands import argument
from fx.ops.shapes.broadcasting import broadcast_to
from fx.prims.creation import constant_like, full
from fx.tensor import Tensor

_ONTO = {
    "sum": elementwise.add,
    "prod": elementwise.multiply,
    "max": elementwise.maximum,
    "min": elementwise.minimum,
}


def flag(name: str, keepdims: Any) -> bool:
    """``keepdims`` where it is not False.

    Raises:
        TypeError: if it is no truth value: NumPy has ``dtype`` in its place.
    """
    if isinstance(keepdims, bool | np.bool_ | int):
        return bool(keepdims)
    raise TypeError(
        f"{name}: the argument after the axis is keepdims, True or False, got {keepdims!r:.60}; "
        f"write keepdims= or dtype= by name"
    )


def mask_of(name: str, x: Tensor, where: Any) -> Tensor:
    """``where`` in the shape of ``x``.

    Raises:
        DTypeError: if it is not bool.
        ShapeError: if it does not broadcast to ``x``.
    """
    mask = argument(name, where)
    if mask.dtype != dtypes.bool_:
        raise DTypeError(f"{name}: where must be bool, got {mask.dtype.name}; write m != 0")
    return mask if mask.shape == x.shape else broadcast_to(mask, x.shape)


def reduced(
    name: str, reduce: Callable[..., Tensor], x: Any, axis: Axis, keepdims: bool, where: Any,
    initial: Any, **options: Any,
) -> Tensor:  # fmt: skip
    """A reduction of the elements where a mask holds, and of a number that comes first.

    Args:
        name: "sum", "prod", "max", "min", "any" or "all".
        reduce: the plain one, ``(x, axis, keepdims)``.
        where: bool, broadcast to ``x``, or None.
        initial: the number, or None. The largest and smallest of elements under a mask need one.
    """
    x = argument(name, x)
    if where is not None:
        mask = mask_of(name, x, where)
        if name in ("max", "min") and initial is None:
            raise ValueError(f"{name}: where= may leave nothing, so write initial= as well")
        neutral = initial if name in ("max", "min") else name in ("prod", "all")
        x = compare.where(mask, x, constant_like(_fitting(name, neutral, x), x))
    if initial is None:
        return reduce(x, axis, keepdims, **options)
    if name not in _ONTO:
        raise TypeError(f"{name} takes no initial")
    if not x.numel() and name in ("max", "min"):  # type: ignore[operator]
        empty = _shape_of(x.shape, axis, keepdims)
        value = _fitting(name, initial, x)
        return full(shape=empty, value=value, dtype=x.dtype, device=x.device.name)
    out = reduce(x, axis, keepdims, **options)
    return _ONTO[name](out, constant_like(_fitting(name, initial, out), out))


def _fitting(name: str, value: Any, x: Tensor) -> Any:
    number = value.item() if hasattr(value, "item") else value
    if not isinstance(number, bool | int | float | complex):
        raise TypeError(f"{name}: initial must be one number, got {value!r:.60}")
    if x.dtype == dtypes.bool_:
        return bool(number)
    if x.dtype in dtypes.INTEGRAL:
        if number != int(number):
            raise DTypeError(f"{name}: initial {number} is no {x.dtype.name}")
        return int(number)
    return number


def _shape_of(shape: tuple[int, ...], axis: Axis, keepdims: bool) -> tuple[int, ...]:
    """The shape of a reduction."""
    axes = tuple(range(len(shape))) if axis is None else reduced_axes("axis", axis, shape)
    return tuple([1 if i in axes else n for i, n in enumerate(shape) if keepdims or i not in axes])
