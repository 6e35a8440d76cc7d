"""Adaptive pooling: means and maxima of windows chosen for an asked-for output size."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import fx.prims.compare as compare
import fx.prims.indexing as indexing
import fx.prims.pooling as pool_prims
import fx.prims.reduction as reduction
import fx.prims.shape as shape_prims
from fx.dtypes import int64
from fx.errors import ShapeError
from fx.nn.functional._windows import LAYOUTS, Ints, batched, entries, unbatched
from fx.ops.autocasting import in_float32
from fx.ops.convert import as_tensor
from fx.ops.operands import cast
from fx.prims.creation import constant_like, iota
from fx.tensor import Tensor


def adaptive_avg_pool1d(input: Any, output_size: Any) -> Tensor:
    """Means of ``output_size`` windows of nearly equal size; see ``adaptive_avg_pool2d``.

    Example:
        >>> import fx
        >>> fx.nn.functional.adaptive_avg_pool1d(fx.tensor([[[1.0, 2.0, 3.0, 4.0]]]), 2)
        tensor([[[1.5000, 3.5000]]])
    """
    return _adaptive_avg_pool("adaptive_avg_pool1d", 1, input, output_size)


def adaptive_avg_pool2d(input: Any, output_size: Any) -> Tensor:
    """Means of windows that are chosen so that the result has an asked-for size.

    Window i of n covers ``floor(i * size / n)`` up to ``ceil((i + 1) * size / n)``.

    Args:
        input: (batch, channels, height, width), or without the batch axis.
        output_size: an int or one a dimension; None keeps the size of a dimension.

    Returns:
        (batch, channels, *output_size).

    Example:
        >>> import fx
        >>> fx.nn.functional.adaptive_avg_pool2d(fx.arange(16.0).reshape(1, 1, 4, 4), 1)
        tensor([[[[7.5000]]]])
    """
    return _adaptive_avg_pool("adaptive_avg_pool2d", 2, input, output_size)


@in_float32
def adaptive_avg_pool3d(input: Any, output_size: Any) -> Tensor:
    """Means of windows of three spatial dimensions; see ``adaptive_avg_pool2d``.

    Example:
        >>> import fx
        >>> fx.nn.functional.adaptive_avg_pool3d(fx.ones((1, 2, 4, 4, 4)), (1, 2, None)).shape
        (1, 2, 1, 2, 4)
    """
    return _adaptive_avg_pool("adaptive_avg_pool3d", 3, input, output_size)


def _output_sizes(name: str, sizes: Ints, output_size: Any) -> Ints:
    """The asked-for sizes, one a spatial dimension; None keeps a size."""
    rank = len(sizes)
    wanted = output_size if isinstance(output_size, tuple | list) else (output_size,) * rank
    if len(wanted) != rank:
        raise ShapeError(f"{name}: output_size must be an int or {rank} ints, got {output_size}")
    outs = [n if w is None else w for n, w in zip(sizes, wanted, strict=True)]
    if min(sizes) < 1:
        raise ShapeError(f"{name}: expected spatial sizes of at least 1, got {sizes}")
    return entries(name, "output_size", outs, rank)


def _adaptive_avg_pool(name: str, rank: int, input: Any, output_size: Any) -> Tensor:
    x, single = batched(name, input, rank, LAYOUTS[rank])
    sizes = x.shape[2:]
    outs = _output_sizes(name, sizes, output_size)
    if all(n % m == 0 for n, m in zip(sizes, outs, strict=True)):
        window = tuple([n // m for n, m in zip(sizes, outs, strict=True)])
        nothing = ((0, 0),) * rank
        ones = (1,) * rank
        total = pool_prims.window_sum(
            x, window=window, stride=window, padding=nothing, dilation=ones
        )
        return unbatched(total / prod(window), single)
    for i, (n, m) in enumerate(zip(sizes, outs, strict=True)):
        if n != m:
            x = _averaged(x, i + 2, n, m)
    return unbatched(x, single)


def _averaged(x: Tensor, axis: int, n: int, m: int) -> Tensor:
    """Axis ``axis`` of n elements averaged to m."""
    places, inside, counts = _uneven(n, m)
    ones = (1,) * (x.ndim - axis - 1)
    seen = indexing.take(x, as_tensor(places, device=x.device), axis=axis)  # (..., m, most, ...)
    mask = as_tensor(inside, device=x.device)
    mask = shape_prims.reshaped(mask, (*mask._shape, *ones))
    total = compare.where(mask, seen, constant_like(0, x))
    total = reduction.sum(total, axes=(axis + 1,), keepdims=False)
    divisor = as_tensor(counts, dtype=x._dtype, device=x.device)
    return total / shape_prims.reshaped(divisor, (m, *ones))


@lru_cache(maxsize=256)
def _uneven(n: int, m: int) -> tuple[list[list[int]], list[list[bool]], list[int]]:
    """The places that each of m windows over n elements sees, which of them count, how many.

    Shorter windows see their last place again.
    """
    spans = [(i * n // m, -(-(i + 1) * n // m)) for i in range(m)]
    most = max(b - a for a, b in spans)
    places = [[min(a + k, b - 1) for k in range(most)] for a, b in spans]
    inside = [[a + k < b for k in range(most)] for a, b in spans]
    return places, inside, [b - a for a, b in spans]


def adaptive_max_pool1d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """Maxima of ``output_size`` windows of nearly equal size; see ``adaptive_max_pool2d``.

    Example:
        >>> import fx
        >>> fx.nn.functional.adaptive_max_pool1d(fx.tensor([[[1.0, 2.0, 3.0, 0.0]]]), 2)
        tensor([[[2., 3.]]])
    """
    return _adaptive_max_pool("adaptive_max_pool1d", 1, input, output_size, return_indices)


def adaptive_max_pool2d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """Maxima of windows that are chosen so that the result has an asked-for size.

    Window i of n covers ``floor(i * size / n)`` up to ``ceil((i + 1) * size / n)``.

    Args:
        input: (batch, channels, height, width), or without the batch axis.
        output_size: an int or one a dimension; None keeps the size of a dimension.
        return_indices: whether the places of the maxima are given too.

    Returns:
        (batch, channels, *output_size), or a pair of it and of places, int64, flat over the
        spatial dimensions.

    Raises:
        ShapeError: if sizes do not fit.

    Example:
        >>> import fx
        >>> fx.nn.functional.adaptive_max_pool2d(fx.arange(16.0).reshape(1, 1, 4, 4), (1, 2))
        tensor([[[[13., 15.]]]])
    """
    return _adaptive_max_pool("adaptive_max_pool2d", 2, input, output_size, return_indices)


@in_float32
def adaptive_max_pool3d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """Maxima of windows of three spatial dimensions; see ``adaptive_max_pool2d``.

    Example:
        >>> import fx
        >>> fx.nn.functional.adaptive_max_pool3d(fx.ones((1, 2, 4, 4, 4)), (1, 2, None)).shape
        (1, 2, 1, 2, 4)
    """
    return _adaptive_max_pool("adaptive_max_pool3d", 3, input, output_size, return_indices)


def _adaptive_max_pool(
    name: str, rank: int, input: Any, output_size: Any, return_indices: bool
) -> Any:
    x, single = batched(name, input, rank, LAYOUTS[rank])
    sizes = x.shape[2:]
    outs = _output_sizes(name, sizes, output_size)
    if all(n % m == 0 for n, m in zip(sizes, outs, strict=True)):
        window = tuple([n // m for n, m in zip(sizes, outs, strict=True)])
        values, places = pool_prims.max_pool(
            x, window=window, stride=window, padding=((0, 0),) * rank, dilation=(1,) * rank
        )
    else:
        values, places = _uneven_maxima(x, outs)
    values = unbatched(values, single)
    return (values, unbatched(places, single)) if return_indices else values


def _uneven_maxima(x: Tensor, outs: Ints) -> tuple[Tensor, Tensor]:
    """Maxima of windows that differ in size, and their places flat over the spatial axes."""
    sizes, device, rank = x._shape[2:], x.device, len(outs)
    seen, flat = x, as_tensor(0, device=device)
    for i, (n, m) in enumerate(zip(sizes, outs, strict=True)):
        places, _, _ = _uneven(n, m)
        at = as_tensor(places, device=device)  # (m, most)
        seen = indexing.take(seen, at, axis=2 + 2 * i)  # (batch, channels, m, most, ..., sizes)
        line = (*at._shape, *[1] * (2 * (rank - 1 - i)))
        flat = flat + shape_prims.reshaped(at, line) * prod(sizes[i + 1 :])
    axes = (0, 1, *range(2, 2 + 2 * rank, 2), *range(3, 3 + 2 * rank, 2))
    windows = seen.shape[3::2]  # the largest window
    seen = shape_prims.transposed(seen, axes)
    seen = shape_prims.reshaped(seen, (*x._shape[:2], *outs, prod(windows)))
    best = _last_nan_or_largest(compare.stop_gradient(seen), 2 + rank)
    values = indexing.take_along_axis(seen, best, axis=2 + rank)
    flat = shape_prims.transposed(flat, tuple([a - 2 for a in axes[2:]]))
    flat = shape_prims.reshaped(flat, (*outs, prod(windows)))
    flat = shape_prims.stretched(cast(flat, best.dtype), seen.shape)
    places = indexing.take_along_axis(flat, best, axis=2 + rank)
    shape = (*x._shape[:2], *outs)
    return shape_prims.reshaped(values, shape), shape_prims.reshaped(places, shape)


def _last_nan_or_largest(x: Tensor, axis: int) -> Tensor:
    """Where the first of the largest numbers stands, or the last NaN, as in the other max pools."""
    nan = compare.isnan(x)
    order = iota(shape=x._shape, axis=axis, start=1, step=1, dtype=int64, device=x.device.name)
    last = reduction.argmax(
        compare.where(nan, order, constant_like(0, order)), axis=axis, keepdims=True
    )
    largest = reduction.argmax(x, axis=axis, keepdims=True)
    return compare.where(reduction.any(nan, axes=(axis,), keepdims=True), last, largest)
