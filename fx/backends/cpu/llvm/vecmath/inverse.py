"""Inverse trigonometric and hyperbolic functions."""

from __future__ import annotations

import math
from typing import Any

from fx.backends.cpu.llvm.ir import f32, f64
from fx.backends.cpu.llvm.vecmath.algebra import Mask, Num, estrin, polynomial
from fx.backends.cpu.llvm.vecmath.logarithm import log1p, log_of_parts, split

_INF = math.inf
_HALF_PI, _HALF_PI_LOW = 1.5707963267948966, 6.123233995736766e-17
# pi / 2 as a number of each precision and what that leaves
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
# arctan x = x + x ** 3 * p(x * x) for |x| <= 1 in float32, |x| <= 1/2 in float64 (to 2 ** -57.8)
_ATAN = {
    32: (
        -3.3333302e-01, 1.9998638e-01, -1.4265245e-01, 1.0957578e-01, -8.419463e-02,
        5.8234602e-02, -3.1455748e-02, 1.1064462e-02, -1.8272172e-03,
    ),
    64: (
        -0.33333333333333, 0.19999999999907003, -0.1428571427668148, 0.1111111067105743,
        -0.0909089650407394, 0.07692077641899057, -0.06663845916233306, 0.05858521841457327,
        -0.05122935906034736, 0.04188965955680245, -0.027472384431529363, 0.010141759121215198,
    ),
}  # fmt: skip
# 1 / (2 * sqrt z) for 1/16 <= z <= 1/4, to a tenth
_INVERSE_ROOT = (2.2, -5.3)


def _p(z: Num, table: dict[int, tuple[float, ...]]) -> Num:
    return (polynomial if z.width == 32 else estrin)(z, table[z.width])


def _arcsin_parts(a: Num) -> tuple[Num, Num]:
    """For 0 <= a <= 1: t and what it lacks to arcsin t, where t is a or sqrt((1 - a) / 2)."""
    near = a < 0.5
    z = near.pick(a * a, 0.5 - 0.5 * a)
    root = z.sqrt()
    lost = root.fma(-root, z) * polynomial(z, _INVERSE_ROOT)
    t = near.pick(a, root)
    return t, (t * z).mad(_p(z, _ASIN), near.pick(0.0, lost))


def _beside(high: Num, low: Num, x: Num, rest: Num) -> Num:
    """high + low + x + rest for a high that is 0 or at least |x|."""
    y = high + x
    return y + (((high - y) + x) + (rest + low))


def arcsin(x: Num) -> Num:
    """The inverse sine: [-1, 1] -> [-pi/2, pi/2].

    At most 0.70 ulp in float32, 0.79 in float64.
    """
    a = abs(x)
    near = a < 0.5
    t, rest = _arcsin_parts(a)
    high, low = _PI_2[x.width]
    by = near.pick(x.full(1.0), -2.0)
    zero = x.full(0.0)
    return _beside(near.pick(zero, high), near.pick(zero, low), t * by, rest * by).copysign(x)


def arccos(x: Num) -> Num:
    """The inverse cosine: [-1, 1] -> [0, pi].

    At most 0.97 ulp in float32, 1.00 in float64.
    """
    a = abs(x)
    near, left = a < 0.5, x < 0.0
    t, rest = _arcsin_parts(a)
    high, low = _PI_2[x.width]
    by = near.pick(x.full(1.0), 2.0).copysign(near.pick(-x, x))
    of_left, zero = left.pick(x.full(1.0), 0.0), x.full(0.0)
    right = near.pick(zero + 1.0, of_left + of_left)  # right angles before it
    return _beside(right * high, right * low, t * by, rest * by)


def _angle(y: Num, x: Num, left: Any = None) -> Num:
    """arctan(y / x) in [0, pi/2] for y, x >= 0, not both infinite or zero; where left, pi - it.

    The angle is that of a right angle's multiple or half of it, and of t beside it, which stands
    on either side; what rounding takes from t and from the sum is added last.
    """
    steep = y > x
    small, large = steep.pick(x, y), steep.pick(y, x)
    high, low = _PI_2[y.width]
    right = steep.pick(y.full(1.0), 0.0)
    back = steep
    if left is not None:
        back = steep ^ left
        right = left.pick(2.0 - right, right)
    n, d, d_low = small, large, None
    if y.width == 64:
        wide = small > large * 0.5
        n, d = wide.pick(small - large, small), wide.pick(small + large, large)  # n is exact
        d_low = wide.pick((large - d) + small, 0.0)
        right = right + wide.pick(back.pick(y.full(-0.5), 0.5), 0.0)
    n = back.pick(-n, n)
    inverse = 1.0 / d
    t = n * inverse
    lacks = t.fma(-d, n)
    if d_low is not None:
        lacks = lacks - t * d_low
    z = t * t
    lost = (lacks * inverse) * z.mad(-0.5, 1.0)
    rest = (t * z).mad(_p(z, _ATAN), lost)
    first, more = right * high, right * low
    if left is not None and y.width == 64:
        more = more + right.fma(high, -first)  # of 3 pi / 4
    return _beside(first, more, t, rest)


def arctan(x: Num) -> Num:
    """The inverse tangent: the line -> (-pi/2, pi/2).

    At most 1.05 ulp in float32, 0.86 in float64.
    """
    a = abs(x)
    return _angle(a.smaller(1e30 if x.width == 32 else 1e300), x.full(1.0)).copysign(x)


def arctan2(y: Num, x: Num) -> Num:
    """The angle of the point (x, y), in [-pi, pi], as C's atan2.

    At most 1.00 ulp in float32, 0.90 in float64.
    """
    a, b = abs(y), abs(x)
    both = a.eq(b) & (a.eq(0.0) | a.eq(_INF))
    # 0 / 0 is the angle of the x axis, as that of a finite number beside an infinity
    flat = (both & a.eq(0.0)) | (b.eq(_INF) & (a < _INF))
    a, b = _comparable(both.pick(1.0, a), both.pick(1.0, b))
    left = Mask(x.b, (x.bits() < 0).v)
    out = _angle(flat.pick(0.0, a), flat.pick(1.0, b), left).copysign(y)
    return (x.isnan() | y.isnan()).pick(math.nan, out)


# numbers above the first are scaled by the second, two below the third by the fourth, then cut
_SCALES = {
    32: (2.0**90, 2.0**-60, 2.0**10, 2.0**60, 2.0**120),
    64: (2.0**1000, 2.0**-60, 1.0, 2.0**100, 2.0**1020),
}


def _comparable(a: Num, b: Num) -> tuple[Num, Num]:
    """The two in a range where sums, products and inverses are finite and normal."""
    most, down, least, up, limit = _SCALES[a.width]
    big = (a > most) | (b > most)
    small = (a < least) & (b < least)
    scale = big.pick(down, small.pick(up, a.full(1.0)))
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
