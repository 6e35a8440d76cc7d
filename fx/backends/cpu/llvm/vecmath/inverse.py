"""Inverse trigonometric and hyperbolic functions."""

from __future__ import annotations

import math

from fx.backends.cpu.llvm.ir import f32, f64
from fx.backends.cpu.llvm.vecmath.algebra import Num, estrin, polynomial
from fx.backends.cpu.llvm.vecmath.logarithm import log1p, log_of_parts, split

_INF = math.inf
_HALF_PI, _HALF_PI_LOW = 1.5707963267948966, 6.123233995736766e-17
# pi / 2 and pi / 4 as a number of each precision and what that leaves
_PI_2 = {32: (1.5707963705062866, -4.371139e-08), 64: (_HALF_PI, _HALF_PI_LOW)}
# arcsin x = x + x ** 3 * p(x * x) for |x| <= 1/2
_ASIN = {
    32: (1.6666754e-01, 7.4952416e-02, 4.5477115e-02, 2.414752e-02, 4.22187e-02),
    64: (
        0.16666666666665383, 0.07500000000343036, 0.04464285682348704, 0.030381959331000158,
        0.02237175353193994, 0.017359770937668325, 0.013884600467141224, 0.012173264556839078,
        0.006510922539352898, 0.019573705473442792, -0.016293745019569393, 0.03195873324975944,
    ),
}  # fmt: skip
# arctan x = x + x ** 3 * p(x * x) for |x| <= 1 in float32, |x| <= sqrt(2) - 1 in float64
_ATAN = {
    32: (
        -3.3333302e-01, 1.9998638e-01, -1.4265245e-01, 1.0957578e-01, -8.419463e-02,
        5.8234602e-02, -3.1455748e-02, 1.1064462e-02, -1.8272172e-03,
    ),
    64: (
        -0.33333333333333326, 0.1999999999999767, -0.14285714285388132, 0.11111111088184848,
        -0.09090908144763996, 0.07692282763630875, -0.06666226826174161, 0.058770224304500136,
        -0.05218408206086744, 0.04503563942387053, -0.033474771723687104, 0.015195449662303928,
    ),
}  # fmt: skip


def _p(z: Num, table: dict[int, tuple[float, ...]]) -> Num:
    return (polynomial if z.width == 32 else estrin)(z, table[z.width])


def _arcsin_parts(a: Num) -> tuple[Num, Num, Num]:
    """For 0 <= a <= 1: t and t ** 3 * p(t * t), where t is a or sqrt((1 - a) / 2); and that z."""
    z = (a < 0.5).pick(a * a, 0.5 - 0.5 * a)
    t = (a < 0.5).pick(a, z.sqrt())
    return t, (t * z) * _p(z, _ASIN), z


def arcsin(x: Num) -> Num:
    """The inverse sine: [-1, 1] -> [-pi/2, pi/2].

    At most 1.59 ulp in float32, 1.66 in float64.
    """
    a = abs(x)
    t, rest, _ = _arcsin_parts(a)
    high, low = _PI_2[x.width]
    far = high - ((t + t) + ((rest + rest) - low))
    return (a < 0.5).pick(t + rest, far).copysign(x)


def arccos(x: Num) -> Num:
    """The inverse cosine: [-1, 1] -> [0, pi].

    At most 1.12 ulp in float32, 1.19 in float64.
    """
    a = abs(x)
    t, rest, _ = _arcsin_parts(a)
    high, low = _PI_2[x.width]
    near = high - (t.copysign(x) + (rest.copysign(x) - low))
    far = t + rest
    far = (x < 0.0).pick(2.0 * (high - (far - low)), far + far)
    return (a < 0.5).pick(near, far)


def _angle(y: Num, x: Num) -> Num:
    """arctan(y / x) in [0, pi/2] for y, x >= 0, not both infinite or zero."""
    steep = y > x
    small, large = steep.pick(x, y), steep.pick(y, x)
    high, low = _PI_2[y.width]
    if y.width == 32:
        t = small / large
        core = (t * (t * t)).mad(_p(t * t, _ATAN), t)
    else:
        wide = small > large * 0.41421356
        t = wide.pick(small - large, small) / wide.pick(small + large, large)
        core = (t * (t * t)).mad(_p(t * t, _ATAN), t)
        core = wide.pick(0.5 * high + (core + 0.5 * low), core)
    return steep.pick(high - (core - low), core)


def arctan(x: Num) -> Num:
    """The inverse tangent: the line -> (-pi/2, pi/2).

    At most 1.37 ulp in float32, 2.15 in float64.
    """
    a = abs(x)
    return _angle(a.smaller(1e30 if x.width == 32 else 1e300), x.full(1.0)).copysign(x)


def arctan2(y: Num, x: Num) -> Num:
    """The angle of the point (x, y), in [-pi, pi], as C's atan2.

    At most 0.50 ulp in float32, 2.19 in float64.
    """
    if x.width == 32:
        return arctan2(y.to(f64), x.to(f64)).to(f32)
    a, b = abs(y), abs(x)
    both = a.eq(b) & (a.eq(0.0) | a.eq(_INF))
    angle = _angle(*_comparable(both.pick(1.0, a), both.pick(1.0, b)))
    # 0 / 0 is the angle of the x axis
    flat = (both & a.eq(0.0)) | (b.eq(_INF) & (a < _INF))
    angle = flat.pick(0.0, angle)
    left = x.bits() < 0
    high, low = _PI_2[x.width]
    out = left.pick(2.0 * high - (angle - 2.0 * low), angle)
    out = out.copysign(y)
    return (x.isnan() | y.isnan()).pick(math.nan, out)


def _comparable(a: Num, b: Num) -> tuple[Num, Num]:
    """The two in a range where sums and products are finite and normal."""
    big = (a > 2.0**1000) | (b > 2.0**1000)
    small = (a < 2.0**-900) & (b < 2.0**-900)
    scale = big.pick(2.0**-60, small.pick(2.0**100, a.full(1.0)))
    limit = 2.0**1020
    return (a * scale).smaller(limit), (b * scale).smaller(limit)


def arcsinh(x: Num) -> Num:
    """The inverse hyperbolic sine.

    At most 0.50 ulp in float32, 1.70 in float64.
    """
    if x.width == 32:
        return arcsinh(x.to(f64)).to(f32)
    a = abs(x)
    b = a.smaller(1e150)
    z = b * b
    near = log1p(b + z / (1.0 + (z + 1.0).sqrt()))
    return (a < 1e10).pick(near, _log_twice(a)).copysign(x)


def _log_twice(a: Num) -> Num:
    """log(2 * a) for a large a."""
    e, m = split(a)
    return (a < _INF).pick(log_of_parts(e + 1.0, m - 1.0), a)


def arccosh(x: Num) -> Num:
    """The inverse hyperbolic cosine: [1, inf] -> [0, inf].

    At most 0.50 ulp in float32, 1.83 in float64.
    """
    if x.width == 32:
        return arccosh(x.to(f64)).to(f32)
    t = x.smaller(1e150) - 1.0
    near = log1p(t + (t + t + t * t).sqrt())
    return (x < 1.0).pick(math.nan, (x > 1e10).pick(_log_twice(x), near))


def arctanh(x: Num) -> Num:
    """The inverse hyperbolic tangent: [-1, 1] -> the line.

    At most 0.50 ulp in float32, 1.94 in float64.
    """
    if x.width == 32:
        return arctanh(x.to(f64)).to(f32)
    a = abs(x)
    return (0.5 * log1p((a + a) / (1.0 - a))).copysign(x)
