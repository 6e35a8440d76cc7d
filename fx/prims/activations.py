"""Functions of elements in several operations, fused: activations and losses of pairs."""

from __future__ import annotations

from math import nan, pi, sqrt

import fx.prims.elementwise as elementwise
import fx.prims.special as special
from fx.prims.compare import logical_and, where
from fx.prims.creation import constant_like
from fx.prims.fused import elements
from fx.tensor import Tensor

_CUBIC = 0.044715


def _like(value, x):
    """A number in the dtype of x; compilers give it as a tensor, so that one kernel serves all."""
    return value if isinstance(value, Tensor) else constant_like(value, x)


# smooth ones ------------------------------------------------------------------------------------


def _gelu_tanh(x):
    inner = (x + x * x * x * _CUBIC) * sqrt(2.0 / pi)
    return x * 0.5 * (elementwise.tanh(inner) + 1.0)


def _softplus(x, *, beta, threshold):
    scaled = x * beta
    return where(scaled > threshold, x, elementwise.softplus(scaled) / beta)


gelu = elements("gelu", lambda x: x * 0.5 * (special.erf(x * sqrt(0.5)) + 1.0))
gelu_tanh = elements("gelu_tanh", _gelu_tanh)
silu = elements("silu", lambda x: x * elementwise.sigmoid(x))
mish = elements("mish", lambda x: x * elementwise.tanh(elementwise.softplus(x)))
softplus = elements("smooth_ramp", _softplus, ["beta", "threshold"], torch_name="Softplus")
logsigmoid = elements("logsigmoid", lambda x: -elementwise.softplus(-x), torch_name="LogSigmoid")
tanhshrink = elements("tanhshrink", lambda x: x - elementwise.tanh(x))
softsign = elements("softsign", lambda x: x / (1.0 + elementwise.abs(x)))
gated = elements("gated", lambda x, gate: x * elementwise.sigmoid(gate), torch_name="Glu")


# pieces -----------------------------------------------------------------------------------------


def _bent(x, *, steep, scale, inner):
    """scale * x where positive, steep * (exp(inner * x) - 1) elsewhere."""
    negative = x <= 0
    # the branch that is not taken must not overflow, or its gradient would be 0 * inf
    low = where(negative, x, constant_like(0.0, x))
    return where(negative, elementwise.expm1(low * inner) * steep, x * scale)


def _clamped(x, *, low, high):
    return where(x >= high, _like(high, x), where(x <= low, _like(low, x), x))


def _hardsigmoid(x):
    below = where(x > -3.0, (x + 3.0) / 6.0, constant_like(0.0, x))
    above = where(x >= 3.0, constant_like(1.0, x), constant_like(nan, x))
    return where(x < 3.0, below, above)


def _hardswish(x):
    inside = logical_and(x > -3.0, x < 3.0)
    middle = where(inside, x, constant_like(0.0, x))  # no infinity, whose slope is NaN
    outside = where(x <= -3.0, x * 0.0, x)
    return where(inside, middle * (middle + 3.0) / 6.0, outside)


def _inside(x, width):
    return logical_and(x >= -width, x <= width)


def _softshrink(x, *, width):
    moved = where(x > 0, x - width, x + width)
    return where(_inside(x, width), constant_like(0.0, x), moved)


bent = elements("bent", _bent, ["steep", "scale", "inner"], torch_name="Elu")
leaky_relu = elements("leaky_relu", lambda x, *, slope: where(x > 0, x, x * slope), ["slope"])
prelu = elements("prelu", lambda x, slope: where(x > 0, x, x * slope), torch_name="PreluKernel")
clamped = elements("clamped", _clamped, ["low", "high"], torch_name="Hardtanh")
hardsigmoid = elements("hardsigmoid", _hardsigmoid)
hardswish = elements("hardswish", _hardswish)
hardshrink = elements(
    "hardshrink",
    lambda x, *, width: where(_inside(x, width), constant_like(0.0, x), x), ["width"],
)  # fmt: skip
softshrink = elements("softshrink", _softshrink, ["width"])
above = elements(  # a NaN is not at most the threshold, and stays
    "threshold", lambda x, *, at, value: where(x <= at, _like(value, x), x), ["at", "value"]
)


# losses of pairs --------------------------------------------------------------------------------


def _bowl(away, far, difference, steepness):
    """``far`` where it is away, ``steepness * difference**2`` elsewhere, also where that is NaN.

    Away the square, which may be infinite, is that of 0: its slope must not be 0 * inf.
    """
    small = where(away, constant_like(0.0, difference), difference)
    return where(away, far, elementwise.square(small) * steepness)


def _smooth_l1(x, y, *, beta):
    d = elementwise.abs(x - y)
    return _bowl(d >= beta, d - beta * 0.5, x - y, 0.5 / beta)


def _huber(x, y, *, delta):
    d = elementwise.abs(x - y)
    return _bowl(d > delta, (d - delta * 0.5) * delta, x - y, 0.5)


squared_error = elements(
    "squared_error", lambda x, y: elementwise.square(x - y), torch_name="MseLoss"
)
absolute_error = elements("absolute_error", lambda x, y: elementwise.abs(x - y))
smooth_l1 = elements("smooth_l1", _smooth_l1, ["beta"], torch_name="SmoothL1Loss")
huber = elements("huber", _huber, ["delta"], torch_name="HuberLoss")
logistic_loss = elements(
    "logistic_loss", lambda x, y: (1.0 - y) * x + elementwise.softplus(-x),
    torch_name="BinaryCrossEntropyWithLogits",
)  # fmt: skip
