"""Slices at places that are known, and at places that are tensors, as ``jax.lax`` cuts them."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import fx
from fx.errors import ArgumentError
from fx.lax.elements import clamp
from fx.ops.operands import argument
from fx.tensor import Tensor


def slice(
    operand: Any, start_indices: Sequence[int], limit_indices: Sequence[int], strides: Any = None
) -> Tensor:
    """Elements from starts up to limits, by strides."""
    steps = strides or [1] * len(start_indices)
    cut = builtins.map(builtins.slice, start_indices, limit_indices, steps)
    return argument("slice", operand)[tuple(cut)]  # type: ignore[no-any-return]


def slice_in_dim(
    operand: Any, start_index: int | None, limit_index: int | None, stride: int = 1, axis: int = 0
) -> Tensor:
    """``slice`` along one axis."""
    x = argument("slice_in_dim", operand)
    cut = builtins.slice(start_index, limit_index, stride)
    return x[(builtins.slice(None),) * (axis % x.ndim) + (cut,)]  # type: ignore[no-any-return]


def index_in_dim(operand: Any, index: int, axis: int = 0, keepdims: bool = True) -> Tensor:
    """One place of an axis, which stays as 1 with ``keepdims``."""
    x = argument("index_in_dim", operand)
    index = index % x.shape[axis]
    out = slice_in_dim(x, index, index + 1, axis=axis)
    return out if keepdims else fx.squeeze(out, axis=axis)


def _places(x: Tensor, starts: Sequence[Any], sizes: Sequence[int]) -> list[Tensor]:
    """Of each axis the indices of a slice, which is moved to lie inside."""
    found = []
    for n, start, size in zip(x.shape, starts, sizes, strict=True):
        if size > n:
            raise ArgumentError(f"lax: a slice of {size} elements of an axis of {n}")
        start = argument("dynamic_slice", start, x).astype(fx.int64)
        start = fx.where(start < 0, start + n, start)
        found.append(clamp(0, start, n - size) + fx.arange(size, device=x.device))
    return found


def dynamic_slice(operand: Any, start_indices: Sequence[Any], slice_sizes: Sequence[int]) -> Tensor:
    """The slice of the given sizes that begins at indices known when it runs.

    It is moved to lie inside of the operand.

    Example:
        >>> import fx
        >>> import fx.lax
        >>> fx.lax.dynamic_slice(fx.arange(5), (fx.tensor(4),), (2,))
        tensor([3, 4])
    """
    x = argument("dynamic_slice", operand)
    for axis, places in enumerate(_places(x, list(start_indices), slice_sizes)):
        x = fx.take(x, places, axis=axis)
    return x


def dynamic_update_slice(operand: Any, update: Any, start_indices: Sequence[Any]) -> Tensor:
    """``operand`` with ``update`` in place of the slice that begins at ``start_indices``."""
    x, update = argument("dynamic_update_slice", operand), argument("dynamic_update_slice", update)
    places = _places(x, list(start_indices), update.shape)
    spread = [
        fx.reshape(p, tuple(-1 if i == axis else 1 for i in range(x.ndim)))
        for axis, p in enumerate(places)
    ]
    return x.at[tuple(spread)].set(update) if spread else update.astype(x.dtype)  # type: ignore[no-any-return]


def _along(x: Tensor, axis: int, start: Any) -> list[Any]:
    return [start if i == axis % x.ndim else 0 for i in range(x.ndim)]


def dynamic_slice_in_dim(operand: Any, start_index: Any, slice_size: int, axis: int = 0) -> Tensor:
    """``dynamic_slice`` along one axis."""
    x = argument("dynamic_slice_in_dim", operand)
    sizes = list(x.shape)
    sizes[axis] = slice_size
    return dynamic_slice(x, _along(x, axis, start_index), sizes)


def dynamic_index_in_dim(operand: Any, index: Any, axis: int = 0, keepdims: bool = True) -> Tensor:
    """One place of an axis, known when it runs."""
    out = dynamic_slice_in_dim(operand, index, 1, axis)
    return out if keepdims else fx.squeeze(out, axis=axis)


def dynamic_update_slice_in_dim(operand: Any, update: Any, start_index: Any, axis: int) -> Tensor:
    """``dynamic_update_slice`` along one axis."""
    x = argument("dynamic_update_slice_in_dim", operand)
    return dynamic_update_slice(x, update, _along(x, axis, start_index))


def dynamic_update_index_in_dim(operand: Any, update: Any, index: Any, axis: int) -> Tensor:
    """``operand`` with ``update`` at one place of an axis."""
    x, update = argument("update", operand), argument("update", update)
    update = update if update.ndim == x.ndim else fx.expand_dims(update, axis=axis)
    return dynamic_update_slice_in_dim(x, update, index, axis)
