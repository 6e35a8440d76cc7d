"""Convolutions over 1, 2 and 3 spatial dimensions, and transposed ones."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import fx.prims.convolution as conv_prims
import fx.prims.shape as shape_prims
from fx.config import modes
from fx.errors import ShapeError
from fx.nn.functional._windows import LAYOUTS, Ints, Pairs, batched, entries, key, unbatched
from fx.ops.autocasting import in_half, lowered
from fx.ops.operands import argument
from fx.prims.creation import constant_like
from fx.tensor import Tensor


def conv1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlation over one spatial dimension; see ``conv2d``.

    Example:
        >>> import fx
        >>> x = fx.tensor([[[1.0, 2.0, 4.0]]])
        >>> fx.nn.functional.conv1d(x, fx.tensor([[[-1.0, 1.0]]]))
        tensor([[[1., 2.]]])
    """
    return _conv("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlation over two spatial dimensions.

    Args:
        input: (batch, in_channels, height, width), or without the batch axis.
        weight: (out_channels, in_channels // groups, kernel_height, kernel_width).
        bias: (out_channels,) or None.
        stride: the step of the window; an int or one a dimension, as the three that follow.
        padding: zeros on both sides, or ``"valid"`` (none) or ``"same"`` (as many as keep the size;
            the odd one at the end).
        dilation: the step between the taps of the kernel.
        groups: the channels are cut into so many groups that do not see each other.

    Returns:
        (batch, out_channels, out_height, out_width), where
        ``out = (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1``.

    Raises:
        ShapeError: if channels, groups or sizes do not fit.
        ValueError: for ``padding="same"`` with a stride.

    Example:
        >>> import fx
        >>> x = fx.ones((1, 1, 3, 3))
        >>> fx.nn.functional.conv2d(x, fx.ones((1, 1, 2, 2)))
        tensor([[[[4., 4.],
                  [4., 4.]]]])
    """
    return _conv("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlation over three spatial dimensions; see ``conv2d``.

    Example:
        >>> import fx
        >>> fx.nn.functional.conv3d(fx.ones((1, 1, 2, 2, 2)), fx.ones((1, 1, 2, 2, 2))).shape
        (1, 1, 1, 1, 1)
    """
    return _conv("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


@in_half
def conv_tbc(input: Any, weight: Any, bias: Any, pad: int = 0) -> Tensor:
    """``conv1d`` of sequences whose axes are (time, batch, channels).

    Args:
        input: (time, batch, in_channels).
        weight: (kernel, in_channels, out_channels).
        bias: (out_channels,).
        pad: zeros on both sides.

    Returns:
        (out_time, batch, out_channels).

    Example:
        >>> import fx
        >>> x, weight = fx.ones((5, 2, 3)), fx.ones((2, 3, 4))
        >>> fx.nn.functional.conv_tbc(x, weight, fx.zeros(4)).shape
        (4, 2, 4)
    """
    x, w = argument("conv_tbc", input), argument("conv_tbc", weight)
    if x.ndim != 3 or w.ndim != 3:
        raise ShapeError(
            f"conv_tbc takes an input (time, batch, in channels) and a weight (kernel, in "
            f"channels, out channels), got {x.shape} and {w.shape}"
        )
    x, w = [shape_prims.transposed(v, axes) for v, axes in ((x, (1, 2, 0)), (w, (2, 1, 0)))]
    out = _conv("conv_tbc", 1, x, w, bias, 1, pad, 1, 1)  # (batch, channels, time)
    return shape_prims.transposed(out, (2, 0, 1))


def _conv(
    name: str,
    rank: int,
    input: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Tensor:
    if modes.autocast is not None:
        input, weight, bias = lowered(input, weight, bias)
    x, single = batched(name, input, rank, LAYOUTS[rank])
    w = argument(name, weight)
    strides, pads, steps = _conv_plan(
        name, x._shape, w._shape, key(stride), key(padding), key(dilation), groups
    )
    out = conv_prims.convolved(x, w, strides, pads, steps, groups)
    if bias is not None:
        out = _biased(name, out, bias, rank)
    return unbatched(out, True) if single else out  # type: ignore[no-any-return]


@lru_cache(maxsize=512)
def _conv_plan(
    name: str, x: Ints, w: Ints, stride: Any, padding: Any, dilation: Any, groups: int
) -> tuple[Ints, Pairs, Ints]:
    """Stride, padding and dilation of a convolution of shapes x and w, once they are checked."""
    rank = len(x) - 2
    if len(w) != rank + 2:
        layout = LAYOUTS[rank].replace(", ", ", kernel ")
        raise ShapeError(
            f"{name} takes a weight (out channels, in channels // groups, kernel {layout}), got "
            f"shape {w}"
        )
    if groups < 1 or x[1] != w[1] * groups or w[0] % groups:
        raise ShapeError(
            f"{name}: an input of shape {x} has {x[1]} channels, but a weight of shape {w} with "
            f"groups={groups} takes {w[1] * groups}"
        )
    strides = entries(name, "stride", stride, rank)
    steps = entries(name, "dilation", dilation, rank)
    pads = _padding(name, padding, rank, w[2:], strides, steps)
    for size, kernel, step, (low, high) in zip(x[2:], w[2:], steps, pads, strict=True):
        if size + low + high < step * (kernel - 1) + 1:
            raise ShapeError(
                f"{name}: a kernel {w[2:]} with dilation {steps} does not fit into an input of "
                f"shape {x} with padding {padding}; pad it or take a smaller kernel"
            )
    return strides, pads, steps


def _padding(name: str, padding: Any, rank: int, kernel: Any, strides: Any, steps: Any) -> Pairs:
    if not isinstance(padding, str):
        return tuple([(p, p) for p in entries(name, "padding", padding, rank, least=0)])
    if padding == "valid":
        return ((0, 0),) * rank
    if padding != "same":
        raise ValueError(f"{name}: padding must be ints, 'same' or 'valid', got {padding!r}")
    if max(strides) > 1:
        raise ValueError(
            f"{name}: padding='same' is not supported for strided convolutions, got stride "
            f"{strides}; give the padding as numbers"
        )
    totals = [d * (k - 1) for d, k in zip(steps, kernel, strict=True)]
    return tuple([(t // 2, t - t // 2) for t in totals])


def _biased(name: str, out: Tensor, bias: Any, rank: int) -> Tensor:
    """``out`` (batch, channels, ...) plus a bias (channels,)."""
    b = argument(name, bias)
    if b._shape != (out._shape[1],):
        raise ShapeError(
            f"{name}: the bias must have shape ({out.shape[1]},), one a channel, got {b.shape}"
        )
    if b._dtype is out._dtype:
        return conv_prims.biased(out, b)  # type: ignore[no-any-return]
    return out + shape_prims.reshaped(b, (out._shape[1], *[1] * rank))


@in_half
def conv_transpose1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """Transposed convolution over one spatial dimension; see ``conv_transpose2d``.

    Example:
        >>> import fx
        >>> x = fx.tensor([[[1.0, 2.0]]])
        >>> fx.nn.functional.conv_transpose1d(x, fx.tensor([[[1.0, 10.0]]]), stride=2)
        tensor([[[ 1., 10.,  2., 20.]]])
    """
    return _conv_transpose(
        "conv_transpose1d", 1, input, weight, bias, stride, padding, output_padding, groups,
        dilation,
    )  # fmt: skip


@in_half
def conv_transpose2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """The transpose of ``conv2d`` as a linear map: it spreads each input over a kernel.

    Args:
        input: (batch, in_channels, height, width), or without the batch axis.
        weight: (in_channels, out_channels // groups, kernel_height, kernel_width).
        bias: (out_channels,) or None.
        stride: the step between the places over which neighbouring inputs are spread.
        padding: how much is cut off on both sides of the result.
        output_padding: how much the result is longer at the end; less than stride or dilation.
        groups: the channels are cut into so many groups that do not see each other.
        dilation: the step between the taps of the kernel.

    Returns:
        (batch, out_channels, out_height, out_width), where ``out = (size - 1) * stride -
        2 * padding + dilation * (kernel - 1) + output_padding + 1``.

    Raises:
        ShapeError: if channels, groups or sizes do not fit.

    Example:
        >>> import fx
        >>> x = fx.ones((1, 2, 4, 4))
        >>> fx.nn.functional.conv_transpose2d(x, fx.ones((2, 3, 2, 2)), stride=2).shape
        (1, 3, 8, 8)
    """
    return _conv_transpose(
        "conv_transpose2d", 2, input, weight, bias, stride, padding, output_padding, groups,
        dilation,
    )  # fmt: skip


@in_half
def conv_transpose3d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """Transposed convolution over three spatial dimensions; see ``conv_transpose2d``.

    Example:
        >>> import fx
        >>> x = fx.ones((1, 1, 2, 2, 2))
        >>> fx.nn.functional.conv_transpose3d(x, fx.ones((1, 1, 2, 2, 2))).shape
        (1, 1, 3, 3, 3)
    """
    return _conv_transpose(
        "conv_transpose3d", 3, input, weight, bias, stride, padding, output_padding, groups,
        dilation,
    )  # fmt: skip


def _conv_transpose(
    name: str,
    rank: int,
    input: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
) -> Tensor:
    x, single = batched(name, input, rank, LAYOUTS[rank])
    w = argument(name, weight)
    sizes, strides, pads, steps, zeros = _transpose_plan(
        name,
        x.shape,
        w._shape,
        key(stride),
        key(padding),
        key(output_padding),
        groups,
        key(dilation),
    )
    out = conv_prims.conv_input_grad(
        x, w, input_size=sizes, stride=strides, padding=pads, dilation=steps, groups=groups,
    )  # fmt: skip
    if any(zeros):
        none = (0,) * (rank + 2)
        out = shape_prims.pad(out, constant_like(0, out), low=none, high=zeros, inside=none)
    if bias is not None:
        out = _biased(name, out, bias, rank)
    return unbatched(out, single)


@lru_cache(maxsize=512)
def _transpose_plan(
    name: str,
    x: Ints,
    w: Ints,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
) -> tuple[Ints, Ints, Pairs, Ints, Ints]:
    """Sizes, stride, padding and dilation of the convolution to transpose, and zeros behind it."""
    rank = len(x) - 2
    if len(w) != rank + 2 or groups < 1 or x[1] != w[0] or w[0] % groups:
        raise ShapeError(
            f"{name}: an input of shape {x} has {x[1]} channels, which does not fit a weight of "
            f"shape {w} with groups={groups}; expected (in channels, out channels // groups, "
            f"kernel sizes)"
        )
    strides = entries(name, "stride", stride, rank)
    steps = entries(name, "dilation", dilation, rank)
    cuts = entries(name, "padding", padding, rank, least=0)
    longer = entries(name, "output_padding", output_padding, rank, least=0)
    if any(e >= max(s, d) for e, s, d in zip(longer, strides, steps, strict=True)):
        raise ShapeError(
            f"{name}: output_padding {longer} must be smaller than stride {strides} or dilation "
            f"{steps}"
        )
    # what is longer at the end uncovers part of what the padding cuts off there; past that, zeros
    sizes, pads, zeros = [], [], [0, 0]
    for n, k, s, d, p, e in zip(x[2:], w[2:], strides, steps, cuts, longer, strict=True):
        sizes.append((n - 1) * s - 2 * p + d * (k - 1) + 1 + min(e, p))
        pads.append((p, max(p - e, 0)))
        zeros.append(max(e - p, 0))
    if min(sizes) < 1:
        raise ShapeError(
            f"{name}: an input of shape {x} and a kernel {w[2:]} with padding {cuts} leave "
            f"nothing: the result would have sizes {tuple(sizes)}"
        )
    return tuple(sizes), strides, tuple(pads), steps, tuple(zeros)
