"""Derivatives of gamma samples in their shape parameter, by implicit reparameterisation.

A sample z of shape a is where the distribution function P(a, z) has a value that does not depend on
a, so dz/da = -(dP/da) / p(z). The density's own derivative is p(t) (log t - psi(a)), whose integral
over all t is 0; with t = z exp(s) and L = log z - psi(a), either side gives

    d(log z)/da = -int_{s<0} w(s) (L + s) ds = int_{s>0} w(s) (L + s) ds,
    w(s) = exp(a s - z (exp(s) - 1)).

The side on which w falls from s = 0 on is taken: above for z >= a, below for z < a. It is cut where
w is about exp(-40) and summed by Gauss and Legendre's rule.

Source: Figurnov, Mohamed and Mnih, "Implicit reparameterization gradients", NeurIPS 2018.
"""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import fx
from fx.random.gammas import loggamma
from fx.tensor import Tensor

_POINTS, _CUT = 64, 40.0


@cache
def _rule() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Places and weights on (0, 1)."""
    places, weights = np.polynomial.legendre.leggauss(_POINTS)
    return (places + 1) / 2, weights / 2


def slope(a: Tensor, log: Tensor) -> Tensor:
    """d(log z)/da of gamma samples.

    Args:
        a: shape parameters.
        log: the logarithms of the samples, of the same shape.
    """
    z = log.exp()
    above = z >= a
    side = fx.where(above, 1.0, -1.0).to(z.dtype)
    # above, exp(s) - 1 - s is at least s^2 / 2; below, u - 1 + exp(-u) at least u^2 / (2 + u)
    far, near = _CUT / z, _CUT / a
    upper = fx.minimum((2 * far).sqrt(), 1.2 * fx.log1p(far) + 1.5)
    lower = fx.minimum((near + (near * near + 8 * near).sqrt()) / 2, near + z / a)
    reach = fx.where(above, upper, lower).detach()
    places, weights = (fx.tensor(v, dtype=z.dtype) for v in _rule())
    s = (side * reach)[..., None] * places  # (..., points)
    weight = (a[..., None] * s - z[..., None] * fx.expm1(s)).exp()
    middle = (log - fx.digamma(a))[..., None]
    return side * reach * (weight * (middle + s) * weights).sum(-1)


@fx.custom_jvp
def _reparameterised(a: Tensor, log: Tensor) -> Tensor:
    return log + 0 * a


@_reparameterised.defjvp
def _(primals: Any, tangents: Any) -> Any:
    a, log = primals
    out = _reparameterised(a, log)
    return out, slope(a, out) * tangents[0]


def log_gamma_samples(key: Tensor, a: Tensor, shape: Any) -> Tensor:
    """Logarithms of gamma samples of scale 1 that are differentiable in ``a``."""
    drawn = loggamma(key, a.detach(), shape, a.dtype)
    return _reparameterised(fx.broadcast_to(a, drawn.shape), drawn)


__all__ = ["log_gamma_samples", "slope"]
