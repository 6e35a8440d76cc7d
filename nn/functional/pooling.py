"""Pooling: maxima and averages of windows."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import fx.prims.pooling as pool_prims
import fx.prims.shape as shape_prims
from fx.errors import ShapeError
from fx.nn.functional._windows import LAYOUTS, Ints, Pairs, batched, entries, key, unbatched
from fx.ops.autocasting import in_float32
from fx.ops.convert import as_tensor
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


@in_float32
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
        name, x._shape, key(kernel_size), key(stride), key(padding), key(dilation), ceil_mode
    )
    if rank == 1 and not return_indices and type(x) is Tensor and x._node is None:
        how = {"window": window, "stride": strides, "padding": pads, "dilation": steps}
        values = pool_prims.max_pool_values(x, **how)  # nobody asks for places
        return unbatched(values, single) if single else values
    values, indices = pool_prims.pooled(x, window, strides, pads, steps)
    if single:
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
        if room <= -s or (room < 0 and not ceil_mode):
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
        "avg_pool2d", 2, input, kernel_size, stride, padding, ceil_mode, count_include_pad,
        divisor_override,
    )  # fmt: skip


@in_float32
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
        "avg_pool3d", 3, input, kernel_size, stride, padding, ceil_mode, count_include_pad,
        divisor_override,
    )  # fmt: skip


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
    window, strides, steps, pads, count = _averages(
        name, x._shape, key(kernel_size), key(stride), key(padding), ceil_mode, count_include_pad
    )
    if divisor_override is not None:
        count = divisor_override
        if not count:
            raise ValueError(f"{name}: divisor_override must not be 0")
    if type(count) is int:
        out = pool_prims.averaged(x, window, strides, pads, steps, count)
    else:
        out = pool_prims.summed(x, window, strides, pads, steps) / _divisor(x, count)
    return unbatched(out, True) if single else out  # type: ignore[no-any-return]


def _divisor(x: Tensor, count: Any) -> Any:
    """The counts of windows as a tensor, if they are told by dimension."""
    if type(count) is not tuple:
        return count
    divisor: Any = as_tensor(1, dtype=x.dtype, device=x.device)
    for i, c in enumerate(count):
        line = as_tensor(list(c), dtype=x.dtype, device=x.device)
        divisor = divisor * shape_prims.reshaped(line, (len(c), *[1] * (len(count) - 1 - i)))
    return divisor


@lru_cache(maxsize=256)
def _averages(
    name: str, shape: Ints, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool,
    padded: bool,
) -> tuple[Ints, Ints, Ints, Pairs, int | tuple[Ints, ...]]:  # fmt: skip
    """Window, stride, dilation and padding, and how many elements of a window count."""
    how = _plan(name, shape, kernel_size, stride, padding, 1, ceil_mode)
    window, strides, steps, pads, outs = how
    return window, strides, steps, pads, _counts(shape[2:], window, strides, pads, outs, padded)


def _counts(
    sizes: Ints, window: Ints, strides: Ints, pads: Pairs, outs: Ints, padded: bool
) -> int | tuple[Ints, ...]:
    """How many elements of a window count; by dimension where windows differ.

    What ceil mode added never does.
    """
    out = []
    for n, k, s, (p, _), m in zip(sizes, window, strides, pads, outs, strict=True):
        first, end = (-p, n + p) if padded else (0, n)
        starts = [i * s - p for i in range(m)]
        out.append(tuple([min(a + k, end) - max(a, first) for a in starts]))
    if all(len(set(c)) == 1 for c in out):
        return prod([c[0] for c in out])
    return tuple(out)
