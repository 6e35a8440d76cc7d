"""Pooling: maxima, averages, and averages of an asked-for output size."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import fx.prims.compare as compare
import fx.prims.indexing as indexing
import fx.prims.pooling as pool_prims
import fx.prims.reduction as reduction
import fx.prims.shape as shape_prims
from fx.errors import ShapeError
from fx.nn.functional._windows import LAYOUTS, Ints, Pairs, batched, entries, key, unbatched
from fx.ops.convert import as_tensor
from fx.prims.creation import constant_like
from fx.tensor import Tensor


def max_pool1d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The maximum of each window of one spatial dimension; see ``max_pool2d``.

    Example:
        >>> import fx
        >>> fx.nn.functional.max_pool1d(fx.tensor([[[1.0, 3.0, 2.0, 0.0]]]), 2)
        tensor([[[3., 2.]]])
    """
    return _max_pool(
        "max_pool1d", 1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices
    )


def max_pool2d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The maximum of each window of two spatial dimensions.

    Args:
        input: (batch, channels, height, width), or without the batch axis.
        kernel_size: the size of the window; an int or one a dimension, as the three that follow.
        stride: its step, ``kernel_size`` unless told.
        padding: how many places that never win are on both sides; at most half the window.
        dilation: the step between the elements of a window.
        ceil_mode: whether a last window that is only partly inside counts.
        return_indices: whether the places of the maxima are given too.

    Returns:
        the maxima (batch, channels, out_height, out_width), or a pair of them and of their places,
        int64, flat over the spatial dimensions.

    Raises:
        ShapeError: if sizes do not fit.

    Example:
        >>> import fx
        >>> fx.nn.functional.max_pool2d(fx.arange(16.0).reshape(1, 1, 4, 4), 2)
        tensor([[[[ 5.,  7.],
                  [13., 15.]]]])
    """
    return _max_pool(
        "max_pool2d", 2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices
    )


def max_pool3d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The maximum of each window of three spatial dimensions; see ``max_pool2d``.

    Example:
        >>> import fx
        >>> fx.nn.functional.max_pool3d(fx.ones((1, 1, 4, 4, 4)), 2).shape
        (1, 1, 2, 2, 2)
    """
    return _max_pool(
        "max_pool3d", 3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices
    )


def _max_pool(
    name: str,
    rank: int,
    input: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    return_indices: bool,
) -> Any:
    x, single = batched(name, input, rank, LAYOUTS[rank])
    window, strides, steps, pads, _ = _plan(
        name, x.shape, key(kernel_size), key(stride), key(padding), key(dilation), ceil_mode
    )
    values, indices = pool_prims.max_pool(
        x, window=window, stride=strides, padding=pads, dilation=steps
    )
    values = unbatched(values, single)
    return (values, unbatched(indices, single)) if return_indices else values


@lru_cache(maxsize=512)
def _plan(
    name: str,
    shape: Ints,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
) -> tuple[Ints, Ints, Ints, Pairs, Ints]:
    """Window, stride, dilation, the padding on both sides (what ceil mode adds included), sizes."""
    rank = len(shape) - 2
    window = entries(name, "kernel_size", kernel_size, rank)
    strides = window if stride in (None, ()) else entries(name, "stride", stride, rank)
    steps = entries(name, "dilation", dilation, rank)
    lows = entries(name, "padding", padding, rank, least=0)
    pads, outs = [], []
    for n, k, s, p, d in zip(shape[2:], window, strides, lows, steps, strict=True):
        reach = d * (k - 1) + 1
        if 2 * p > reach:
            raise ShapeError(
                f"{name}: padding {lows} should be at most half of the window {window} (with its "
                f"dilation {steps})"
            )
        room = n + 2 * p - reach
        if room < 0:
            raise ShapeError(
                f"{name}: a window {window} with dilation {steps} does not fit into an input of "
                f"shape {shape} with padding {lows}"
            )
        out = room // s + 1
        high = p
        if ceil_mode and room % s and out * s < n + p:  # one more, that starts inside
            high = out * s + reach - n - p
            out += 1
        pads.append((p, high))
        outs.append(out)
    return window, strides, steps, tuple(pads), tuple(outs)


def avg_pool1d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of each window of one spatial dimension; see ``avg_pool2d``.

    Example:
        >>> import fx
        >>> fx.nn.functional.avg_pool1d(fx.tensor([[[1.0, 3.0, 2.0, 0.0]]]), 2)
        tensor([[[2., 1.]]])
    """
    return _avg_pool(
        "avg_pool1d", 1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None
    )


def avg_pool2d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window of two spatial dimensions.

    Args:
        input: (batch, channels, height, width), or without the batch axis.
        kernel_size: the size of the window; an int or one a dimension, as the two that follow.
        stride: its step, ``kernel_size`` unless told.
        padding: how many zeros are on both sides; at most half the window.
        ceil_mode: whether a last window that is only partly inside counts.
        count_include_pad: whether padded zeros count in the divisor.
        divisor_override: divide by this instead.

    Returns:
        (batch, channels, out_height, out_width).

    Raises:
        ShapeError: if sizes do not fit.
        ValueError: if ``divisor_override`` is 0.

    Example:
        >>> import fx
        >>> fx.nn.functional.avg_pool2d(fx.arange(16.0).reshape(1, 1, 4, 4), 2)
        tensor([[[[ 2.5000,  4.5000],
                  [10.5000, 12.5000]]]])
    """
    return _avg_pool(
        "avg_pool2d",
        2,
        input,
        kernel_size,
        stride,
        padding,
        ceil_mode,
        count_include_pad,
        divisor_override,
    )


def avg_pool3d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window of three spatial dimensions; see ``avg_pool2d``.

    Example:
        >>> import fx
        >>> fx.nn.functional.avg_pool3d(fx.ones((1, 1, 4, 4, 4)), 2).shape
        (1, 1, 2, 2, 2)
    """
    return _avg_pool(
        "avg_pool3d",
        3,
        input,
        kernel_size,
        stride,
        padding,
        ceil_mode,
        count_include_pad,
        divisor_override,
    )


def _avg_pool(
    name: str,
    rank: int,
    input: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Tensor:
    x, single = batched(name, input, rank, LAYOUTS[rank])
    window, strides, steps, pads, outs = _plan(
        name, x.shape, key(kernel_size), key(stride), key(padding), 1, ceil_mode
    )
    total = pool_prims.window_sum(x, window=window, stride=strides, padding=pads, dilation=steps)
    if divisor_override is not None:
        if not divisor_override:
            raise ValueError(f"{name}: divisor_override must not be 0")
        return unbatched(total / divisor_override, single)
    lows = tuple([low for low, _ in pads])
    counts = _counts(x.shape[2:], window, strides, lows, outs, count_include_pad)
    divisor: Any = prod([c[0] for c in counts])
    if any(len(set(c)) > 1 for c in counts):
        divisor = as_tensor(1, dtype=x.dtype, device=x.device)
        for i, c in enumerate(counts):
            line = as_tensor(list(c), dtype=x.dtype, device=x.device)
            divisor = divisor * shape_prims.reshape(line, shape=(len(c), *[1] * (rank - 1 - i)))
    return unbatched(total / divisor, single)


@lru_cache(maxsize=256)
def _counts(
    sizes: Ints, window: Ints, strides: Ints, lows: Ints, outs: Ints, padded: bool
) -> tuple[Ints, ...]:
    """How many elements of each window count, by dimension; what ceil mode added never does."""
    out = []
    for n, k, s, p, m in zip(sizes, window, strides, lows, outs, strict=True):
        first, end = (-p, n + p) if padded else (0, n)
        starts = [i * s - p for i in range(m)]
        out.append(tuple([min(a + k, end) - max(a, first) for a in starts]))
    return tuple(out)


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


def adaptive_avg_pool3d(input: Any, output_size: Any) -> Tensor:
    """Means of windows of three spatial dimensions; see ``adaptive_avg_pool2d``.

    Example:
        >>> import fx
        >>> fx.nn.functional.adaptive_avg_pool3d(fx.ones((1, 2, 4, 4, 4)), (1, 2, None)).shape
        (1, 2, 1, 2, 4)
    """
    return _adaptive_avg_pool("adaptive_avg_pool3d", 3, input, output_size)


def _adaptive_avg_pool(name: str, rank: int, input: Any, output_size: Any) -> Tensor:
    x, single = batched(name, input, rank, LAYOUTS[rank])
    sizes = x.shape[2:]
    wanted = output_size if isinstance(output_size, tuple | list) else (output_size,) * rank
    if len(wanted) != rank:
        raise ShapeError(f"{name}: output_size must be an int or {rank} ints, got {output_size}")
    outs = entries(
        name, "output_size", [n if w is None else w for n, w in zip(sizes, wanted)], rank
    )
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
    mask = shape_prims.reshape(mask, shape=(*mask.shape, *ones))
    total = compare.where(mask, seen, constant_like(0, x))
    total = reduction.sum(total, axes=(axis + 1,), keepdims=False)
    divisor = as_tensor(counts, dtype=x.dtype, device=x.device)
    return total / shape_prims.reshape(divisor, shape=(m, *ones))


@lru_cache(maxsize=256)
def _uneven(n: int, m: int) -> tuple[list[list[int]], list[list[bool]], list[int]]:
    """The places that each of m windows over n elements sees, which of them count, how many."""
    spans = [(i * n // m, -(-(i + 1) * n // m)) for i in range(m)]
    most = max(b - a for a, b in spans)
    places = [[min(a + k, n - 1) for k in range(most)] for a, _ in spans]
    inside = [[a + k < b for k in range(most)] for a, b in spans]
    return places, inside, [b - a for a, b in spans]
