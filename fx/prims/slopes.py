"""Slopes of special functions in their orders, by quadrature and by series.

The gamma distribution's function P(a, z) and its density p have, with t = z exp(s) and
L = log z - digamma(a),

    -(dP/da) / (z p(z)) = -int_{s<0} w(s) (L + s) ds = int_{s>0} w(s) (L + s) ds,
    w(s) = exp(a s - z (exp(s) - 1)),

since the density's own derivative is p(t) (log t - digamma(a)), whose integral over all t is 0.
The side on which w falls from s = 0 on is taken: above for z >= a, below for z < a. It is cut where
w is about exp(-40) and summed by Gauss and Legendre's rule. At a sample z this is d(log z)/da at a
fixed value of P, the derivative of the sample.

The beta distribution's I(a, b, x) likewise, in s = logit t - logit x:

    (dI/da) / (x^a (1 - x)^b / B(a, b)) = int_{s<0} w(s) (log t - digamma(a) + digamma(a + b)) ds,
    log w(s) = a s - (a + b) (softplus(u + s) - softplus(u)), u = logit x.

Source: Figurnov, Mohamed and Mnih, "Implicit reparameterization gradients", NeurIPS 2018. Hurwitz's
zeta function in s: the derivative of Euler and Maclaurin's sum.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from fx.prims.compare import greater_equal, less, stop_gradient, where
from fx.prims.creation import constant_like, constants_like
from fx.prims.elementwise import (
    exp,
    expm1,
    log,
    log1p,
    maximum,
    minimum,
    sigmoid,
    softplus,
    sqrt,
)  # fmt: skip
from fx.prims.reduction import sum as total
from fx.prims.shape import reshape
from fx.tensor import Tensor

_POINTS, _CUT = 64, 40.0


@cache
def _rule() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Places and weights on (0, 1)."""
    places, weights = np.polynomial.legendre.leggauss(_POINTS)
    return (places + 1) / 2, weights / 2


def gamma_log_slope(a: Tensor, log_z: Tensor, digamma: Tensor) -> Tensor:
    """d(log z)/da of gamma samples z.

    Args:
        a: positive shapes.
        log_z: the logarithms of the samples, of the same shape.
        digamma: that of ``a``.
    """
    z = exp(log_z)
    above = greater_equal(z, a)
    side = where(above, constant_like(1.0, z), constant_like(-1.0, z))
    # above, exp(s) - 1 - s is at least s^2 / 2; below, u - 1 + exp(-u) at least u^2 / (2 + u)
    far, near = _CUT / z, _CUT / a
    upper = minimum(sqrt(far * 2.0), log1p(far) * 1.2 + 1.5)
    lower = minimum((near + sqrt(near * near + near * 8.0)) * 0.5, near + z / a)
    reach = stop_gradient(where(above, upper, lower)) * side
    along = (*z.shape, 1)
    places, weights = (constants_like(v, z) for v in _rule())
    s = reshape(reach, shape=along) * places  # (..., points)
    w = exp(reshape(a, shape=along) * s - reshape(z, shape=along) * expm1(s))
    middle = reshape(log_z - digamma, shape=along)
    return reach * total(w * (middle + s) * weights, axes=(z.ndim,), keepdims=False)


def beta_slope(a: Tensor, b: Tensor, log_x: Tensor, log_rest: Tensor, mean: Tensor) -> Tensor:
    """dI/da of the incomplete beta function, over x^a (1 - x)^b / B(a, b).

    Args:
        a, b: positive parameters.
        log_x, log_rest: log(x) and log(1 - x), of the same shape.
        mean: that of log t, digamma(a) - digamma(a + b).
    """
    u = log_x - log_rest
    above = less(a * exp(log_rest), b * exp(log_x))  # beyond the mode in s: the other end is near
    side = where(above, constant_like(-1.0, u), constant_like(1.0, u))
    first, both = where(above, b, a), a + b
    u = u * side
    level = softplus(u)
    # log w is concave and grows: from its asymptote on Newton's steps stay below where it is -40
    s = stop_gradient(-(both * level + _CUT) / first)
    for _ in range(8):
        value = first * s - both * (softplus(u + s) - level) + _CUT
        s = stop_gradient(s - value / (first - both * sigmoid(u + s)))
    along = (*u.shape, 1)
    places, weights = (constants_like(v, u) for v in _rule())
    lift = lambda x: reshape(x, shape=along)
    middle = maximum(s, constant_like(-8.0, s))
    out = constant_like(0.0, u)
    for start, end in ((s * 0.0, middle), (middle, s)):
        length = end - start
        at = lift(start) + lift(length) * (places * places)  # (..., points)
        w = exp(lift(first) * at - lift(both) * (softplus(lift(u) + at) - lift(level)))
        logs = -softplus(lift(side) * -(lift(u) + at))  # log t
        summed = total(w * (logs - lift(mean)) * (places * weights), axes=(u.ndim,), keepdims=False)
        out = out - length * 2.0 * summed
    return out * side


_TERMS = 12  # before the tail, of which the coefficients B_2k / (2k)! follow
_TAIL = (
    1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000,
    1 / 74724249600, -3617 / 10670622842880000,
)  # fmt: skip


def zeta_order_slope(s: Tensor, q: Tensor) -> Tensor:
    """The slope of the sum over k of (q + k)^-s in s, for s > 1 and q > 0."""
    out = constant_like(0.0, s) * s
    for k in range(_TERMS):
        step = log(q + float(k))
        out = out - step * exp(-s * step)
    step = log(q + float(_TERMS))
    end, inverse = exp(-s * step), exp(-step)
    over = 1.0 / (s - 1.0)
    out = out - end * ((q + float(_TERMS)) * over * (step + over) + step * 0.5)
    rising, logs, power = (
        s,
        1.0 / s - step,
        end * inverse,
    )  # s (s + 1) ... and its logarithm's slope
    for k, coefficient in enumerate(_TAIL):
        out = out + power * rising * logs * coefficient
        one, two = s + float(2 * k + 1), s + float(2 * k + 2)
        rising, power = rising * one * two, power * (inverse * inverse)
        logs = logs + 1.0 / one + 1.0 / two
    return out
