"""Shapes: axes, pieces, broadcasts and padding by the names of ``jax.lax``."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

import fx
from fx.dtypes import as_dtype
from fx.errors import ArgumentError
from fx.lax.slices import slice_in_dim
from fx.ops.operands import argument
from fx.tensor import Tensor


def reshape(operand: Any, new_sizes: Sequence[int], dimensions: Any = None) -> Tensor:
    """The same elements in another shape, the axes first in the order ``dimensions``."""
    x = argument("reshape", operand)
    x = x if dimensions is None else fx.permute_dims(x, tuple(dimensions))
    return fx.reshape(x, tuple(new_sizes))


def transpose(operand: Any, permutation: Sequence[int]) -> Tensor:
    """Axes in another order."""
    return fx.permute_dims(operand, tuple(permutation))


def rev(operand: Any, dimensions: Sequence[int]) -> Tensor:
    """Elements in reverse order along axes."""
    return fx.flip(operand, axis=tuple(dimensions))


def concatenate(operands: Sequence[Any], dimension: int) -> Tensor:
    """Tensors joined along an axis."""
    return fx.concat(list(operands), axis=dimension)


def stack(arrays: Sequence[Any], axis: int = 0) -> Tensor:
    """Tensors joined along a new axis."""
    return fx.stack(list(arrays), axis=axis)


def split(operand: Any, sizes: Sequence[int], axis: int = 0) -> list[Tensor]:
    """Parts of the given sizes along an axis."""
    x, parts, start = argument("split", operand), [], 0
    for size in sizes:
        parts.append(slice_in_dim(x, start, start + size, axis=axis))
        start += size
    return parts


def squeeze(array: Any, dimensions: Sequence[int]) -> Tensor:
    """Without axes of size 1."""
    return fx.squeeze(array, axis=tuple(dimensions))


def expand_dims(array: Any, dimensions: Sequence[int]) -> Tensor:
    """With new axes of size 1, at places of the result."""
    x = argument("expand_dims", array)
    rank = x.ndim + len(tuple(dimensions))
    for d in sorted(d % rank for d in dimensions):
        x = fx.expand_dims(x, axis=d)
    return x


def collapse(operand: Any, start_dimension: int, stop_dimension: int | None = None) -> Tensor:
    """Axes ``start_dimension`` up to ``stop_dimension`` as one."""
    x = argument("collapse", operand)
    start, stop, _ = builtins.slice(start_dimension, stop_dimension).indices(x.ndim)
    return fx.reshape(x, (*x.shape[:start], math.prod(x.shape[start:stop]), *x.shape[stop:]))


def broadcast(operand: Any, sizes: Sequence[int]) -> Tensor:
    """Repeated along new leading axes."""
    x = argument("broadcast", operand)
    return fx.broadcast_to(x, (*sizes, *x.shape))


def broadcast_in_dim(
    operand: Any, shape: Sequence[int], broadcast_dimensions: Sequence[int]
) -> Tensor:
    """Repeated to a shape, of which axis ``broadcast_dimensions[i]`` is axis i of the operand."""
    x = argument("broadcast_in_dim", operand)
    sizes = [1] * len(shape)
    for i, d in enumerate(broadcast_dimensions):
        sizes[d] = x.shape[i]
    return fx.broadcast_to(fx.reshape(x, tuple(sizes)), tuple(shape))


def broadcast_to_rank(x: Any, rank: int) -> Tensor:
    """With leading axes of size 1, up to ``rank`` in all."""
    x = argument("broadcast_to_rank", x)
    return fx.reshape(x, (*[1] * (rank - x.ndim), *x.shape))


def broadcast_like(arr: Any, like_arr: Any) -> Tensor:
    """Repeated to the shape of another tensor."""
    return fx.broadcast_to(argument("broadcast_like", arr), argument("like", like_arr).shape)


def iota(dtype: Any, size: int) -> Tensor:
    """0, 1 ... size - 1."""
    return fx.arange(size, dtype=as_dtype(dtype))


def broadcasted_iota(dtype: Any, shape: Sequence[int], dimension: int) -> Tensor:
    """The number of each element along an axis."""
    return broadcast_in_dim(iota(dtype, shape[dimension]), shape, (dimension,))


def pad(operand: Any, padding_value: Any, padding_config: Sequence[tuple[int, int, int]]) -> Tensor:
    """With elements before, behind and between along each axis; negative ones are cut off."""
    x = argument("pad", operand)
    value = argument("pad", padding_value, x).astype(x.dtype)
    for axis, (low, high, inside) in enumerate(padding_config):
        x = fx.moveaxis(x, axis, 0)
        if x.shape[0] + builtins.max(x.shape[0] - 1, 0) * inside + low + high < 0:
            raise ArgumentError(
                f"lax.pad: nothing is left of axis {axis}, of {x.shape[0]} elements"
            )
        n, rest = x.shape[0], x.shape[1:]
        if inside and n > 1:
            between = fx.broadcast_to(value, (n, inside, *rest))
            x = fx.reshape(fx.concat([x[:, None], between], axis=1), (n * (inside + 1), *rest))
            x = x[: n + (n - 1) * inside]
        ends = [fx.broadcast_to(value, (builtins.max(k, 0), *rest)) for k in (low, high)]
        x = fx.concat([ends[0], x, ends[1]], axis=0)
        start, stop = builtins.max(-low, 0), x.shape[0] - builtins.max(-high, 0)
        x = fx.moveaxis(x[start : builtins.max(start, stop)], 0, axis)
    return x
