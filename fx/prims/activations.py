"""Activation functions of several operations, fused."""

from __future__ import annotations

from math import pi, sqrt

import fx.backends.cpu.fused as cpu
import fx.prims.elementwise as elementwise
import fx.prims.special as special
from fx.prims.fused import fuse

_CUBIC = 0.044715


def _activation(name, reference, slope, kernel, gradient_kernel):
    """A fused function of one argument; ``slope(x)`` is its derivative."""
    gradient = fuse(f"{name}_grad", cpu=gradient_kernel, reference=lambda ct, x: ct * slope(x))
    return fuse(
        name, cpu=kernel, reference=reference,
        vjp=lambda needs, x: lambda ct: (gradient(ct, x),),
    )  # fmt: skip


def _gelu(x):
    return x * 0.5 * (special.erf(x * sqrt(0.5)) + 1.0)


def _gelu_slope(x):
    density = elementwise.exp(elementwise.square(x) * -0.5) * (1.0 / sqrt(2.0 * pi))
    return (special.erf(x * sqrt(0.5)) + 1.0) * 0.5 + x * density


def _bent(x):
    return elementwise.tanh((x + x * x * x * _CUBIC) * sqrt(2.0 / pi))


def _gelu_tanh(x):
    return x * 0.5 * (_bent(x) + 1.0)


def _gelu_tanh_slope(x):
    t = _bent(x)
    inner = (elementwise.square(x) * (3.0 * _CUBIC) + 1.0) * sqrt(2.0 / pi)
    return (t + 1.0) * 0.5 + x * 0.5 * (1.0 - t * t) * inner


def _silu_slope(x):
    s = elementwise.sigmoid(x)
    return s * (x * (1.0 - s) + 1.0)


gelu = _activation("gelu", _gelu, _gelu_slope, cpu.gelu, cpu.gelu_grad)
gelu_tanh = _activation(
    "gelu_tanh", _gelu_tanh, _gelu_tanh_slope, cpu.gelu_tanh, cpu.gelu_tanh_grad
)
silu = _activation(
    "silu", lambda x: x * elementwise.sigmoid(x), _silu_slope, cpu.silu, cpu.silu_grad
)
