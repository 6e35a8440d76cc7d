"""Unpooling: maxima go back to the places where they were found."""

from __future__ import annotations

from math import prod
from typing import Any

import fx.prims.indexing as indexing
import fx.prims.shape as shape_prims
from fx.dtypes import INTEGRAL
from fx.errors import DTypeError, IndexingError, ShapeError
from fx.nn.functional._windows import LAYOUTS, batched, entries, unbatched
from fx.ops.autocasting import in_float32
from fx.ops.axes import integers
from fx.ops.operands import argument
from fx.tensor import Tensor


def max_unpool1d(
    input: Any,
    indices: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Tensor:
    """Undo ``max_pool1d`` as far as that can be done; see ``max_unpool2d``.

    Example:
        >>> import fx
        >>> fx.nn.functional.max_unpool1d(fx.tensor([[5.0, 7.0]]), fx.tensor([[1, 2]]), 2)
        tensor([[0., 5., 7., 0.]])
    """
    return _max_unpool("max_unpool1d", 1, input, indices, kernel_size, stride, padding, output_size)


@in_float32
def max_unpool2d(
    input: Any,
    indices: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Tensor:
    """Undo ``max_pool2d`` as far as that can be done: maxima at their places, zeros elsewhere.

    Where windows overlap and a place comes up more than once, the last one counts.

    Args:
        input: (batch, channels, height, width), or without the batch axis: the maxima.
        indices: of the same shape: their places, as ``return_indices=True`` gives them.
        kernel_size, stride, padding: those of the pooling.
        output_size: the sizes to restore, where several are possible.

    Returns:
        (batch, channels, *output_size), where by default
        ``out = (size - 1) * stride + kernel_size - 2 * padding``.

    Raises:
        ShapeError: if shapes or sizes do not fit.
        IndexingError: if an index lies outside of the result.

    Example:
        >>> import fx
        >>> x = fx.arange(16.0).reshape(1, 1, 4, 4)
        >>> values, places = fx.nn.functional.max_pool2d(x, 2, return_indices=True)
        >>> fx.nn.functional.max_unpool2d(values, places, 2)[0, 0, 1]
        tensor([0., 5., 0., 7.])
    """
    return _max_unpool("max_unpool2d", 2, input, indices, kernel_size, stride, padding, output_size)


@in_float32
def max_unpool3d(
    input: Any,
    indices: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Tensor:
    """Undo ``max_pool3d`` as far as that can be done; see ``max_unpool2d``.

    Example:
        >>> import fx
        >>> x = fx.ones((1, 1, 1, 1, 1))
        >>> fx.nn.functional.max_unpool3d(x, fx.zeros_like(x).astype(fx.int64), 2).shape
        (1, 1, 2, 2, 2)
    """
    return _max_unpool("max_unpool3d", 3, input, indices, kernel_size, stride, padding, output_size)


def _max_unpool(
    name: str,
    rank: int,
    input: Any,
    indices: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    output_size: Any,
) -> Tensor:
    x, single = batched(name, input, rank, LAYOUTS[rank])
    places = argument(name, indices)
    if places._dtype not in INTEGRAL:
        raise DTypeError(
            f"{name}: indices must be integers, got {places.dtype.name}; take them from "
            f"max_pool{rank}d(x, ..., return_indices=True)"
        )
    shape = x.shape[1:] if single else x.shape
    if places._shape != shape:
        raise ShapeError(
            f"{name}: indices must have the shape of the input, {shape}, got {places.shape}"
        )
    window = entries(name, "kernel_size", kernel_size, rank)
    strides = window if stride in (None, ()) else entries(name, "stride", stride, rank)
    pads = entries(name, "padding", padding, rank, least=0)
    usual = tuple(
        [
            (n - 1) * s + k - 2 * p
            for n, k, s, p in zip(x.shape[2:], window, strides, pads, strict=True)
        ]
    )
    outs = usual
    if output_size is not None:
        outs = integers(name, "output_size", output_size)
        outs = outs[-rank:] if len(outs) == rank + 2 else outs
        if len(outs) != rank or any(
            not u - s < n < u + s for n, u, s in zip(outs, usual, strides, strict=True)
        ):
            raise ShapeError(
                f"{name}: invalid output_size {tuple(output_size)}; each must lie between "
                f"{usual} - {strides} and {usual} + {strides}, exclusively"
            )
    if min(outs) < 0:
        raise ShapeError(
            f"{name}: output_size must contain non-negative spatial dimensions, but got {outs}"
        )
    volume = prod(outs)
    flat = (*x.shape[:2], prod(x.shape[2:]))
    into = indexing.zeros(x, (*x.shape[:2], volume))
    try:
        out = indexing.scatter_along_axis(
            into,
            shape_prims.reshaped(places, flat),
            shape_prims.reshaped(x, flat),
            axis=2,
            mode="set",
        )
    except IndexError:
        raise IndexingError(
            f"{name}: an index lies outside of the {volume} places of a result with sizes {outs}; "
            f"give the sizes that were pooled: output_size=x.shape"
        ) from None
    return unbatched(shape_prims.reshaped(out, (*x.shape[:2], *outs)), single)
