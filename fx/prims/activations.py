"""Activation functions of several operations, fused."""

from __future__ import annotations

from math import pi, sqrt

import fx.prims.elementwise as elementwise
import fx.prims.special as special
from fx.prims.fused import elements

_CUBIC = 0.044715


def _gelu_tanh(x):
    inner = (x + x * x * x * _CUBIC) * sqrt(2.0 / pi)
    return x * 0.5 * (elementwise.tanh(inner) + 1.0)


gelu = elements("gelu", lambda x: x * 0.5 * (special.erf(x * sqrt(0.5)) + 1.0))
gelu_tanh = elements("gelu_tanh", _gelu_tanh)
silu = elements("silu", lambda x: x * elementwise.sigmoid(x))
