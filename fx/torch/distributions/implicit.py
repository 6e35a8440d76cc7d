"""Gamma samples that are differentiable in their shape, by implicit reparameterisation.

A sample z of shape a is where the distribution function P(a, z) has a value that does not depend on
a; ``fx/prims/slopes.py`` has the slope of its logarithm, and the source.
"""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from typing import Any

import fx
from fx.prims.slopes import gamma_log_slope
from fx.random.gammas import loggamma
from fx.tensor import Tensor


@fx.custom_jvp
def _reparameterised(a: Tensor, log: Tensor) -> Tensor:
    return log + 0 * a


@_reparameterised.defjvp
def _(primals: Any, tangents: Any) -> Any:
    a, log = primals
    out = _reparameterised(a, log)
    return out, gamma_log_slope(a, out, fx.digamma(a)) * tangents[0]


def log_gamma_samples(key: Tensor, a: Tensor, shape: Any) -> Tensor:
    """Logarithms of gamma samples of scale 1 that are differentiable in ``a``."""
    drawn = loggamma(key, a.detach(), shape, a.dtype)
    return _reparameterised(fx.broadcast_to(a, drawn.shape), drawn)


__all__ = ["log_gamma_samples"]
