"""Normalisation of single samples: instance norm, root mean square, and neighbouring channels."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import fx.prims.elementwise as elementwise
import fx.prims.lengths as lengths
import fx.prims.norms as norms
import fx.prims.pooling as pool_prims
import fx.prims.reduction as reduction
import fx.prims.shape as shape_prims
from fx._namespace import finfo
from fx.errors import ShapeError
from fx.nn.functional._narrow import narrow, widened
from fx.nn.functional.normalization import _followed, batch_norm
from fx.ops.axes import integer, integers
from fx.ops.operands import floating
from fx.state import rebind_all
from fx.tensor import Tensor


def instance_norm(
    input: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: Any = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise each channel of each sample over all positions.

    Args:
        input: (batch, channels, ...).
        running_mean: (channels,) or None. A Buffer is rebound where ``use_input_stats``: it follows
            the mean over the samples; else it is what is subtracted.
        running_var: (channels,) or None; the same for the variance (unbiased).
        weight: (channels,), the factor after normalising, or None.
        bias: (channels,), added after that, or None.
        use_input_stats: whether the statistics of ``input`` itself are used.
        momentum: the weight of the new statistics in the running ones.
        eps: added to the variance.

    Raises:
        ValueError: if there is only one position, or ``use_input_stats=False`` without statistics.
        InPlaceError: if a running statistic that is to follow is a plain tensor.
        ShapeError: if a channel vector does not have one entry a channel.

    Source: Ulyanov et al., "Instance normalization", 2016.

    Example:
        >>> import fx
        >>> fx.nn.functional.instance_norm(fx.tensor([[[1.0, 3.0]]]), eps=0.0)
        tensor([[[-1.,  1.]]])
    """
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    x = floating("instance_norm", input)
    if x.ndim < 2:
        raise ShapeError(f"instance_norm takes an input (batch, channels, ...), got {x.shape}")
    channels, count = x._shape[1], prod(x._shape[2:])
    if count == 1:
        raise ShapeError(
            f"instance_norm: expected more than 1 spatial element when training, got input size "
            f"{x.shape}"
        )
    vectors = {"running_mean": running_mean, "running_var": running_var, "weight": weight}
    for name, v in {**vectors, "bias": bias}.items():
        if v is not None and getattr(v, "shape", None) != (channels,):
            raise ShapeError(
                f"instance_norm: {name} must have shape ({channels},), one entry for each channel "
                f"of the input {x.shape}, got {getattr(v, 'shape', v)}"
            )
    if narrow(x):
        given = (running_mean, running_var, weight, bias, True, momentum, eps)
        return widened(instance_norm, x, *given)
    mean, centred, variance = norms.centred_and_variance(x, tuple(range(2, x.ndim)))
    followed = []
    for name, cell, value, factor in (
        ("running_mean", running_mean, mean, 1.0),
        ("running_var", running_var, variance, count / max(count - 1, 1)),
    ):
        if cell is not None and prod(x._shape):  # else nothing came that it could follow
            over_samples = reduction.sum(value.detach(), axes=(0,), keepdims=False) / x._shape[0]
            followed += _followed(name, cell, over_samples, momentum, factor)
    rebind_all(followed)
    line = (channels, *[1] * (x.ndim - 2))
    scale = elementwise.rsqrt(variance + eps)
    if weight is not None:
        scale = scale * shape_prims.reshaped(weight, line)
    out = centred * scale
    return out if bias is None else out + shape_prims.reshaped(bias, line)


def rms_norm(
    input: Any, normalized_shape: Sequence[int] | int, weight: Any = None, eps: float | None = None
) -> Tensor:
    """Divide by the root of the mean of the squares over the last axes.

    Args:
        input: (..., *normalized_shape).
        normalized_shape: the sizes of the axes to normalise over.
        weight: of ``normalized_shape``, the factor after normalising, or None.
        eps: added to the mean; unless told the machine epsilon of the dtype it is computed in.

    Raises:
        ShapeError: if the input does not end in ``normalized_shape``.

    Source: Zhang and Sennrich, "Root mean square layer normalization", 2019.

    Example:
        >>> import fx
        >>> fx.nn.functional.rms_norm(fx.tensor([1.0, 7.0]), (2,))
        tensor([0.2000, 1.4000])
    """
    x = floating("rms_norm", input)
    sizes = integers("rms_norm", "normalized_shape", normalized_shape)
    first = x.ndim - len(sizes)
    if not sizes or first < 0 or x._shape[first:] != sizes:
        raise ShapeError(
            f"rms_norm: an input of shape {x.shape} does not end in normalized_shape {sizes}"
        )
    if weight is not None and getattr(weight, "shape", None) != sizes:
        raise ShapeError(
            f"rms_norm: weight must have normalized_shape {sizes}, got "
            f"{getattr(weight, 'shape', weight)}"
        )
    if narrow(x):
        return widened(rms_norm, x, sizes, weight, eps)
    axes = tuple(range(first, x.ndim))
    out = lengths.by_root_mean_square(x, axes=axes, eps=finfo(x._dtype).eps if eps is None else eps)
    return out if weight is None else out * weight


def local_response_norm(
    input: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """Divide by a power of the mean square of neighbouring channels.

    ``x / (k + alpha * m) ** beta``, where m is the sum of the squares of ``size`` channels around
    each, those beyond the ends being 0, divided by ``size``.

    Args:
        input: (batch, channels, ...), with at least three axes.
        size: how many channels, the channel itself included.
        alpha, beta, k: the factor, the power and what is added.

    Raises:
        ShapeError: for fewer than three axes, or ``size`` below 1.

    Source: Krizhevsky et al., "ImageNet classification with deep convolutional neural networks",
    2012.

    Example:
        >>> import fx
        >>> fx.nn.functional.local_response_norm(fx.ones((1, 2, 1)), 2, alpha=2.0, beta=1.0)
        tensor([[[0.5000],
                 [0.3333]]])
    """
    x = floating("local_response_norm", input)
    size = integer("local_response_norm", "size", size)
    if x.ndim < 3 or size < 1:
        raise ShapeError(
            f"local_response_norm: expected an input (batch, channels, ...) with at least 3 axes "
            f"and size of at least 1, got shape {x.shape} and size {size}"
        )
    if not x.size:
        return x
    if narrow(x):
        return widened(local_response_norm, x, size, alpha, beta, k)
    lead = x._shape[:2]
    squares = shape_prims.reshaped(elementwise.square(x), (lead[0], 1, lead[1], prod(x._shape[2:])))
    total = pool_prims.window_sum(
        squares,
        window=(size, 1),
        stride=(1, 1),
        padding=((size // 2, (size - 1) // 2), (0, 0)),
        dilation=(1, 1),
    )
    total = shape_prims.reshaped(total, x._shape)
    return x / (total * (alpha / size) + k) ** beta
