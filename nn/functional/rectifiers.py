"""Activation functions that are pieced together, gated, or shrink towards zero."""

from __future__ import annotations

from typing import Any

import fx.prims.activations as prims
import fx.prims.shape as shape_prims
from fx.errors import DTypeError, ShapeError
from fx.nn.functional._narrow import narrow, widened
from fx.ops.autocasting import in_half
from fx.ops.axes import normal_axis
from fx.ops.operands import argument, floating, number_or_partner
from fx.ops.pointwise import torch_names
from fx.random import next_key, uniform
from fx.tensor import Tensor
from fx.writing.inplace import may_write


@may_write
def threshold(input: Any, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """``x`` where it is above ``threshold``, ``value`` elsewhere.

    Example:
        >>> import fx
        >>> fx.nn.functional.threshold(fx.tensor([0.0, 2.0]), 1.0, 9.0)
        tensor([9., 2.])
    """
    x = argument("threshold", input)
    at = number_or_partner("threshold", "threshold", threshold, x)
    return prims.above(x, at=at, value=number_or_partner("threshold", "value", value, x))


@may_write
def celu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """``x`` where positive, ``alpha * (exp(x / alpha) - 1)`` elsewhere.

    Raises:
        RuntimeError: if ``alpha`` is 0.

    Source: Barron, "Continuously differentiable exponential linear units", 2017.

    Example:
        >>> import fx
        >>> fx.nn.functional.celu(fx.tensor([-1.0, 2.0]), alpha=2.0)
        tensor([-0.7869,  2.0000])
    """
    x = floating("celu", input)
    if alpha == 0:
        raise RuntimeError("celu: alpha cannot be 0; write celu(x, alpha=1.0)")
    if narrow(x):
        return widened(celu, x, alpha)
    return prims.bent(x, steep=alpha, scale=1.0, inner=1.0 / alpha)


@may_write
def selu(input: Any, inplace: bool = False) -> Tensor:
    """``1.0507 * elu(x, alpha=1.6733)``: means 0 and variances 1 are a fixed point of it.

    Source: Klambauer et al., "Self-normalizing neural networks", 2017.

    Example:
        >>> import fx
        >>> fx.nn.functional.selu(fx.tensor([-1.0, 2.0]))
        tensor([-1.1113,  2.1014])
    """
    x = floating("selu", input)
    if narrow(x):
        return widened(selu, x)
    return prims.bent(x, steep=_ALPHA * _SCALE, scale=_SCALE, inner=1.0)


_ALPHA, _SCALE = 1.6732632423543772, 1.0507009873554805


@in_half
def prelu(input: Any, weight: Any) -> Tensor:
    """``x`` where positive, ``weight * x`` elsewhere.

    Args:
        input: any shape; with two axes or more the second is the channels.
        weight: (1,) or (), one slope for all, or (channels,).

    Raises:
        ShapeError: if ``weight`` has neither one entry nor one a channel.
        DTypeError: if the dtypes differ.

    Source: He et al., "Delving deep into rectifiers", 2015.

    Example:
        >>> import fx
        >>> fx.nn.functional.prelu(fx.tensor([-1.0, 2.0]), fx.tensor([0.25]))
        tensor([-0.2500,  2.0000])
    """
    x, w = floating("prelu", input), argument("prelu", weight)
    channels = x._shape[1] if x.ndim > 1 else 1
    if w.ndim > 1 or w.size + 0 not in (1, channels):
        raise ShapeError(
            f"prelu: the weight must have one entry or {channels}, one for each channel of the "
            f"input {x.shape}, got shape {w.shape}"
        )
    if w._dtype != x._dtype:
        raise DTypeError(
            f"prelu: input and weight must have one dtype, got {x.dtype.name} and "
            f"{w.dtype.name}; write x.astype(weight.dtype)"
        )
    line = (w.size + 0, *[1] * max(x.ndim - 2, 0)) if w.size + 0 > 1 else (1,) * min(x.ndim, 1)
    return prims.prelu(x, shape_prims.reshaped(w, line))


@may_write
def rrelu(
    input: Any,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """``x`` where positive, ``a * x`` elsewhere, with ``a`` drawn from [lower, upper).

    Args:
        input: any shape.
        lower, upper: the range of the slopes.
        training: False takes their mean instead of drawing.

    Raises:
        ValueError: if ``lower`` is above ``upper``.

    Source: Xu et al., "Empirical evaluation of rectified activations in convolutional network",
    2015.

    Example:
        >>> import fx
        >>> fx.nn.functional.rrelu(fx.tensor([-6.0, 2.0]), 0.0, 1.0)
        tensor([-3.,  2.])
    """
    x = floating("rrelu", input)
    if lower > upper:
        raise ValueError(
            f"rrelu: lower bound should be less than or equal to the upper bound, got {lower} and "
            f"{upper}"
        )
    if not training:
        return prims.leaky_relu(x, slope=(lower + upper) / 2)
    slopes = uniform(next_key(device=x.device), x._shape, lower, upper, x._dtype)
    return prims.prelu(x, slopes)


@may_write
def hardsigmoid(input: Any, inplace: bool = False) -> Tensor:
    """``min(max(x + 3, 0), 6) / 6``.

    Example:
        >>> import fx
        >>> fx.nn.functional.hardsigmoid(fx.tensor([-4.0, 0.0, 4.0]))
        tensor([0.0000, 0.5000, 1.0000])
    """
    x = floating("hardsigmoid", input)
    if narrow(x):
        return widened(hardsigmoid, x)
    return prims.hardsigmoid(x)


@may_write
def hardswish(input: Any, inplace: bool = False) -> Tensor:
    """``x * hardsigmoid(x)``.

    Source: Howard et al., "Searching for MobileNetV3", 2019.

    Example:
        >>> import fx
        >>> fx.nn.functional.hardswish(fx.tensor([1.5, 4.0]))
        tensor([1.1250, 4.0000])
    """
    x = floating("hardswish", input)
    if narrow(x):
        return widened(hardswish, x)
    return prims.hardswish(x)


@may_write
def mish(input: Any, inplace: bool = False) -> Tensor:
    """``x * tanh(softplus(x))``.

    Source: Misra, "Mish: a self regularized non-monotonic activation function", 2019.

    Example:
        >>> import fx
        >>> fx.nn.functional.mish(fx.tensor([-1.0, 2.0]))
        tensor([-0.3034,  1.9440])
    """
    x = floating("mish", input)
    if narrow(x):
        return widened(mish, x)
    return prims.mish(x)


def glu(input: Any, dim: int = -1) -> Tensor:
    """The first half along an axis, times the sigmoid of the second half.

    Raises:
        ShapeError: if the axis has an odd size.
        AxisError: if ``dim`` is out of range.

    Source: Dauphin et al., "Language modeling with gated convolutional networks", 2016.

    Example:
        >>> import fx
        >>> fx.nn.functional.glu(fx.tensor([3.0, 4.0, 0.0, 0.0]))
        tensor([1.5000, 2.0000])
    """
    x = floating("glu", input)
    axis = normal_axis("glu", dim, x._shape)
    n = x._shape[axis]
    if n % 2:
        raise ShapeError(
            f"glu: halving dimension must be even, but dimension {axis} is size {n} in an input "
            f"of shape {x.shape}"
        )
    if narrow(x):
        return widened(glu, x, axis)
    start, stop, ones = [0] * x.ndim, list(x._shape), (1,) * x.ndim
    stop[axis] = start[axis] = n // 2
    zero = (0,) * x.ndim
    first = shape_prims.slice(x, start=zero, stop=tuple(stop), step=ones)
    second = shape_prims.slice(x, start=tuple(start), stop=x._shape, step=ones)
    return prims.gated(first, second)


def hardshrink(input: Any, lambd: float = 0.5) -> Tensor:
    """``x`` outside of [-lambd, lambd], and 0 inside.

    Example:
        >>> import fx
        >>> fx.nn.functional.hardshrink(fx.tensor([-1.0, 0.25, 2.0]))
        tensor([-1.,  0.,  2.])
    """
    return torch_names.hardshrink(input, lambd)


def softshrink(input: Any, lambd: float = 0.5) -> Tensor:
    """``x`` brought nearer to 0 by ``lambd``, and 0 where it is nearer already.

    Raises:
        ValueError: if ``lambd`` is negative.

    Example:
        >>> import fx
        >>> fx.nn.functional.softshrink(fx.tensor([-1.0, 0.25, 2.0]))
        tensor([-0.5000,  0.0000,  1.5000])
    """
    x = floating("softshrink", input)
    if lambd < 0:
        raise ValueError(
            f"softshrink: lambda must be greater or equal to 0, but found to be {lambd}"
        )
    return prims.softshrink(x, width=lambd)


def tanhshrink(input: Any) -> Tensor:
    """``x - tanh(x)``.

    Example:
        >>> import fx
        >>> fx.nn.functional.tanhshrink(fx.tensor([0.0, 2.0]))
        tensor([0.0000, 1.0360])
    """
    x = floating("tanhshrink", input)
    return prims.tanhshrink(x)


def softsign(input: Any) -> Tensor:
    """``x / (1 + |x|)``.

    Example:
        >>> import fx
        >>> fx.nn.functional.softsign(fx.tensor([-1.0, 3.0]))
        tensor([-0.5000,  0.7500])
    """
    x = floating("softsign", input)
    return widened(softsign, x) if narrow(x) else prims.softsign(x)
