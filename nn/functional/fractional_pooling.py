"""Fractional max pooling: windows at random places, for a ratio that need not be an integer."""

from __future__ import annotations

from math import prod
from typing import Any

import fx.prims.compare as compare
import fx.prims.elementwise as elementwise
import fx.prims.indexing as indexing
import fx.prims.reduction as reduction
import fx.prims.shape as shape_prims
from fx.dtypes import float32, int64
from fx.errors import ShapeError
from fx.nn.functional._windows import LAYOUTS, Ints, batched, entries, unbatched
from fx.ops.autocasting import in_float32
from fx.ops.operands import argument, cast, iota
from fx.random import next_key, uniform
from fx.tensor import Tensor


@in_float32
def fractional_max_pool2d(
    input: Any,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Any = None,
) -> Any:
    """Maxima of windows whose places are drawn, for an asked-for output size.

    Args:
        input: (batch, channels, height, width), or without the batch axis.
        kernel_size: the size of the window; an int or one a dimension, as the two that follow.
        output_size: the sizes of the result, or
        output_ratio: these as parts of the sizes of the input, in (0, 1).
        return_indices: whether the places of the maxima are given too.
        _random_samples: (batch, channels, 2), in [0, 1), instead of drawing them.

    Returns:
        (batch, channels, *output_size), or a pair of it and of places, int64, flat over the
        spatial dimensions.

    Raises:
        ValueError: if neither ``output_size`` nor ``output_ratio`` is given.
        ShapeError: if sizes do not fit.

    Source: Graham, "Fractional max-pooling", 2014.

    Example:
        >>> import fx
        >>> fx.nn.functional.fractional_max_pool2d(fx.ones((1, 3, 9, 9)), 2, (5, 6)).shape
        (1, 3, 5, 6)
    """
    return _fractional(
        2, input, kernel_size, output_size, output_ratio, return_indices, _random_samples
    )


@in_float32
def fractional_max_pool3d(
    input: Any,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Any = None,
) -> Any:
    """Maxima of windows of three spatial dimensions; see ``fractional_max_pool2d``.

    Example:
        >>> import fx
        >>> x = fx.ones((1, 3, 8, 8, 8))
        >>> fx.nn.functional.fractional_max_pool3d(x, 2, output_ratio=0.5).shape
        (1, 3, 4, 4, 4)
    """
    return _fractional(
        3, input, kernel_size, output_size, output_ratio, return_indices, _random_samples
    )


def _fractional(
    rank: int,
    input: Any,
    kernel_size: Any,
    output_size: Any,
    output_ratio: Any,
    return_indices: bool,
    samples: Any,
) -> Any:
    name = f"fractional_max_pool{rank}d"
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    x, single = batched(name, input, rank, LAYOUTS[rank])
    sizes = x.shape[2:]
    window = entries(name, "kernel_size", kernel_size, rank)
    if output_size is None:
        many = isinstance(output_ratio, tuple | list)
        ratios = tuple(output_ratio) if many else (output_ratio,) * rank
        if len(ratios) != rank:
            raise ShapeError(f"{name}: output_ratio must be a number or {rank}, got {output_ratio}")
        output_size = [int(n * r) for n, r in zip(sizes, ratios, strict=True)]
    outs = entries(name, "output_size", output_size, rank)
    if any(m + k - 1 > n for n, k, m in zip(sizes, window, outs, strict=True)):
        raise ShapeError(
            f"{name}: {outs} windows of {window} do not fit into an input of shape {x.shape}; "
            f"output_size + kernel_size - 1 must be at most the size"
        )
    wide = cast(x, float32) if x.dtype.itemsize == 2 else x
    drawn = (*x.shape[:2], rank)
    if samples is None:
        samples = uniform(next_key(device=x.device), drawn, 0.0, 1.0, wide.dtype)
    else:
        samples = cast(argument(name, samples), wide.dtype)
        if samples._shape != drawn:
            raise ShapeError(
                f"{name}: _random_samples must have shape {drawn}, got {samples.shape}"
            )
    values, places = _maxima(x, compare.stop_gradient(samples), window, outs)
    values = unbatched(values, single)
    return (values, unbatched(places, single)) if return_indices else values


def _starts(sample: Tensor, n: int, window: int, count: int) -> Tensor:
    """Where each of ``count`` windows begins, int64 (batch, channels, count).

    Steps are of two sizes, in an order that ``sample`` (batch, channels) draws.
    """
    last = n - window
    if count == 1:
        return shape_prims.stretched(iota(1, sample, start=last), (*sample._shape, 1))
    alpha = last / (count - 1)
    u = shape_prims.reshaped(sample, (*sample._shape, 1))
    steps = cast(iota(count, sample), sample._dtype)
    at = cast(elementwise.floor((steps + u) * alpha), int64)
    at = at - cast(elementwise.floor(u * alpha), int64)
    final = iota(count, sample) == count - 1
    return compare.where(final, iota(1, sample, start=last), at)


def _maxima(x: Tensor, samples: Tensor, window: Ints, outs: Ints) -> tuple[Tensor, Tensor]:
    rank, lead, sizes = len(outs), x._shape[:2], x._shape[2:]
    flat = None
    for i, (n, k, m) in enumerate(zip(sizes, window, outs, strict=True)):
        # PyTorch's order of samples: the last axis first for two axes, the first first for three
        j = rank - 1 - i if rank == 2 else i
        sample = shape_prims.slice(
            samples, start=(0, 0, j), stop=(*lead, j + 1), step=(1, 1, 1), drop=(2,)
        )
        starts = shape_prims.reshaped(_starts(sample, n, k, m), (*lead, m, 1))
        at = starts + iota(k, x)  # (batch, channels, m, k)
        line = [1] * (2 + 2 * rank)
        line[:2], line[2 + 2 * i], line[3 + 2 * i] = lead, m, k
        part = shape_prims.reshaped(at, tuple(line)) * prod(sizes[i + 1 :])
        flat = part if flat is None else flat + part
    assert flat is not None
    axes = (0, 1, *range(2, 2 + 2 * rank, 2), *range(3, 3 + 2 * rank, 2))
    flat = shape_prims.transposed(flat, axes)  # (batch, channels, *outs, *window)
    volume, count = prod(window), prod(outs)
    flat = shape_prims.reshaped(flat, (*lead, count * volume))
    seen = indexing.take_along_axis(shape_prims.reshaped(x, (*lead, prod(sizes))), flat, axis=2)
    seen = shape_prims.reshaped(seen, (*lead, count, volume))
    flat = shape_prims.reshaped(flat, seen.shape)
    best = reduction.argmax(compare.stop_gradient(seen), axis=3, keepdims=True)
    values, places = [indexing.take_along_axis(v, best, axis=3) for v in (seen, flat)]
    shape = (*lead, *outs)
    return shape_prims.reshaped(values, shape), shape_prims.reshaped(places, shape)
