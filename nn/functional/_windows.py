"""Sizes of sliding windows: what users may write, as tuples with one entry a spatial dimension."""

from __future__ import annotations

from typing import Any

import fx.prims.shape as shape_prims
from fx.errors import ShapeError
from fx.ops.axes import integers
from fx.ops.operands import argument
from fx.tensor import Tensor

Ints = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]


def entries(function: str, name: str, value: Any, rank: int, least: int = 1) -> Ints:
    """``value`` as one int a spatial dimension, none below ``least``.

    Raises:
        ShapeError: naming the function, the argument, and what it was.
    """
    if type(value) is int:
        out: Ints = (value,) * rank
    elif isinstance(value, tuple | list):
        out = integers(function, name, value)
        if len(out) == 1:
            out = out * rank
    else:
        out = integers(function, name, value) * rank
    if len(out) != rank or min(out) < least:
        raise ShapeError(
            f"{function}: {name} must be an int or {rank} ints, each at least {least}; got {value}"
        )
    return out


def batched(function: str, input: Any, rank: int, layout: str) -> tuple[Tensor, bool]:
    """The input with a batch axis, and whether it came without one.

    Raises:
        ShapeError: if it has neither ``rank + 1`` nor ``rank + 2`` axes.
    """
    x = argument(function, input)
    shape = x._shape
    if len(shape) == rank + 2:
        return x, False
    if len(shape) != rank + 1:
        raise ShapeError(
            f"{function} takes an input (batch, channels, {layout}) or (channels, {layout}), got "
            f"shape {shape}; add an axis with x[None] or x.unsqueeze(1)"
        )
    return shape_prims.reshaped(x, (1, *shape)), True


def unbatched(x: Tensor, single: bool) -> Tensor:
    """``x`` without the batch axis that ``batched`` put on."""
    return shape_prims.reshaped(x, x._shape[1:]) if single else x


def key(value: Any) -> Any:
    """An argument as what a cache can look up."""
    if type(value) is int or value is None:
        return value
    if isinstance(value, list):
        value = tuple(value)
    try:
        hash(value)
    except TypeError:
        raise ShapeError(
            f"a size of windows, their step, padding or dilation must be an int or a tuple of "
            f"ints, got {type(value).__name__}; write int(...)"
        ) from None
    return value


LAYOUTS = ("", "length", "height, width", "depth, height, width")
