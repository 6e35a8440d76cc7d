"""Layer normalisation, fused."""

from __future__ import annotations

import fx.backends.cpu.fused as cpu
import fx.prims.elementwise as elementwise
from fx.prims.fused import fuse
from fx.prims.reduction import sum


def _count(shape):
    n = 1
    for side in shape:
        n *= side
    return n


def standardised(x, axes, eps):
    """x with mean 0 and variance 1 over ``axes``, and what it was multiplied with for that."""
    count = _count([x.shape[i] for i in axes])
    centred = x - sum(x, axes=axes, keepdims=True) / count
    variance = sum(elementwise.square(centred), axes=axes, keepdims=True) / count
    scale = elementwise.rsqrt(variance + eps)
    return centred * scale, scale


def _last_axes(x, like):
    return tuple(range(x.ndim - like.ndim, x.ndim))


def _layer_norm(x, weight, bias, *, eps):
    return standardised(x, _last_axes(x, weight), eps)[0] * weight + bias


def _layer_norm_grad(ct, x, weight, *, eps):
    axes = _last_axes(x, weight)
    lead = tuple(range(x.ndim - weight.ndim))
    count = _count(weight.shape)
    y, scale = standardised(x, axes, eps)  # (..., *sizes)
    g = ct * weight
    mean = lambda a: sum(a, axes=axes, keepdims=True) / count
    dx = (g - mean(g) - y * mean(g * y)) * scale
    return dx, sum(ct * y, axes=lead, keepdims=False), sum(ct, axes=lead, keepdims=False)


layer_norm_grad = fuse("layer_norm_grad", cpu=cpu.layer_norm_grad, reference=_layer_norm_grad)
layer_norm = fuse(  # x (..., *sizes), weight and bias (*sizes)
    "layer_norm", cpu=cpu.layer_norm, reference=_layer_norm, torch_name="NativeLayerNorm",
    vjp=lambda needs, x, weight, bias, *, eps: lambda ct: layer_norm_grad(ct, x, weight, eps=eps),
)  # fmt: skip
