"""Fusion: a layer and the batch norm behind it as one layer, for inference."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, TypeVar

from fx.nn.parameter import Parameter
from fx.ops.making.creation import ones_like, zeros_like
from fx.ops.pointwise.elementwise import rsqrt
from fx.tensor import Tensor

Layer = TypeVar("Layer")

__all__ = [
    "fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights",
]  # fmt: skip


def fuse_conv_bn_eval(conv: Layer, bn: Any, transpose: bool = False) -> Layer:
    """A copy of a convolution that also does what the batch norm behind it does.

    Args:
        conv: a convolution, in evaluation mode.
        bn: a batch norm with running statistics, in evaluation mode.
        transpose: whether the convolution is a transposed one.

    Raises:
        AssertionError: if one of them is in training mode.
        ValueError: if the batch norm has no running statistics.

    Example:
        >>> import fx
        >>> conv, bn = fx.nn.Conv2d(1, 2, 3).eval(), fx.nn.BatchNorm2d(2).eval()
        >>> fused = fx.nn.utils.fuse_conv_bn_eval(conv, bn)
        >>> x = fx.ones((1, 1, 4, 4))
        >>> fx.max(fx.abs(fused(x) - bn(conv(x)))).item() < 1e-6
        True
    """
    return _fused(conv, bn, lambda *given: fuse_conv_bn_weights(*given, transpose))


def fuse_linear_bn_eval(linear: Layer, bn: Any) -> Layer:
    """A copy of a linear layer that also does what the batch norm behind it does.

    Args:
        linear: in evaluation mode.
        bn: a batch norm with running statistics, in evaluation mode; of as many features as
            ``linear`` gives, or of one.

    Raises:
        AssertionError: if one of them is in training mode, or their sizes do not fit.
        ValueError: if the batch norm has no running statistics.
    """
    features = linear.out_features  # type: ignore[attr-defined]
    assert bn.num_features in (features, 1), (
        f"To fuse, linear.out_features == bn.num_features or bn.num_features == 1; got {features} "
        f"and {bn.num_features}"
    )
    return _fused(linear, bn, fuse_linear_bn_weights)


def _fused(layer: Any, bn: Any, weights: Any) -> Any:
    assert not (layer.training or bn.training), "Fusion only for eval!"
    if bn.running_mean is None or bn.running_var is None:
        raise ValueError("Only support fusing BatchNorm with track_running_stats=True")
    out = deepcopy(layer)
    out.weight, out.bias = weights(
        layer.weight, layer.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return out


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of the one layer.

    Args:
        conv_w, conv_b: of the convolution; the bias may be None.
        bn_rm, bn_rv: the running mean and variance (channels,).
        bn_eps: what the batch norm adds to the variance.
        bn_w, bn_b: factor and offset of the batch norm, or None.
        transpose: whether the convolution is a transposed one.
    """
    bias = zeros_like(bn_rm) if conv_b is None else conv_b
    factor = rsqrt(bn_rv + bn_eps)
    factor = factor if bn_w is None else bn_w * factor
    offset = zeros_like(bn_rm) if bn_b is None else bn_b
    shape = [1] * conv_w.ndim
    shape[1 if transpose else 0] = -1
    weight = conv_w * factor.to(conv_w.dtype).reshape(shape)
    bias = ((bias - bn_rm) * factor + offset).to(conv_w.dtype)
    return _learned(weight, conv_w), _learned(bias, conv_w if conv_b is None else conv_b)


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of the one layer; the arguments are those of ``fuse_conv_bn_weights``."""
    bias = zeros_like(bn_rm) if linear_b is None else linear_b
    factor = (ones_like(bn_rm) if bn_w is None else bn_w) * rsqrt(bn_rv + bn_eps)
    offset = zeros_like(bn_rm) if bn_b is None else bn_b
    weight = linear_w * factor.to(linear_w.dtype).reshape(-1, 1)
    bias = ((bias - bn_rm) * factor + offset).to(linear_w.dtype)
    return _learned(weight, linear_w), _learned(bias, linear_w if linear_b is None else linear_b)


def _learned(value: Tensor, like: Tensor) -> Parameter:
    return Parameter(value.detach(), like.requires_grad)
