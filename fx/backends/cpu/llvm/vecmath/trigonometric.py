"""sin, cos and tan.

x = k * pi / 2 + r with |r| <= pi / 4: the subtraction is done in float64, with pi / 2 in three
parts, and what rounding took from r is kept. Beyond 2 ** 40 the lanes go one by one to the
reduction of Payne and Hanek.
"""

from __future__ import annotations

import math

from fx.backends.cpu.llvm.ir import f32, f64, i32
from fx.backends.cpu.llvm.vecmath.algebra import Int, Num, polynomial, rarely
from fx.backends.cpu.llvm.vecmath.exponential import whole_part
from fx.backends.cpu.llvm.vecmath.outlined import lane_by_lane
from fx.backends.cpu.llvm.vecmath.payne_hanek import remainder

_PI_2 = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33)
_FAR = 2.0**40
_MAGIC = 6755399441055744.0
# sin r = r + r ** 3 * p(r * r); cos r = 1 - r * r / 2 + r ** 4 * p(r * r)
_SIN = {
    32: (-1.6666655e-01, 8.332173e-03, -1.9516655e-04),
    64: (
        -0.16666666666666632, 0.008333333333322316, -0.00019841269829725194,
        2.7557313662051965e-06, -2.505075326383038e-08, 1.5896504923881374e-10,
    ),
}  # fmt: skip
_COS = {
    32: (4.1666646e-02, -1.3887362e-03, 2.4437753e-05),
    64: (
        0.0416666666666666, -0.001388888888887399, 2.4801587289394953e-05,
        -2.7557314326037363e-07, 2.087571955952611e-09, -1.1359448719474509e-11,
    ),
}  # fmt: skip


def sin(x: Num) -> Num:
    """The sine of an angle in radians.

    At most 0.80 ulp in float32, 0.79 in float64.
    """
    r, low, k = quarter(x)
    odd, turned = k & 1, (k & 2) << (x.width - 2)
    y = odd.ne(0).pick(_cos(r, low), _sin(r, low))
    return (y.bits() ^ turned).as_float()


def cos(x: Num) -> Num:
    """The cosine of an angle in radians.

    At most 0.78 ulp in float32, 0.78 in float64.
    """
    r, low, k = quarter(x)
    odd, turned = k & 1, ((k + 1) & 2) << (x.width - 2)
    y = odd.ne(0).pick(_sin(r, low), _cos(r, low))
    return (y.bits() ^ turned).as_float()


def _sin(r: Num, low: Num) -> Num:
    """The sine of r + low, low to first order."""
    return (r + _sin_rest(r, low)).copysign(r)  # for -0.0


def _sin_rest(r: Num, low: Num) -> Num:
    """What r lacks to the sine."""
    z = r * r
    return z.mad(r.mad(polynomial(z, _SIN[r.width]), -0.5 * low), low)


def _cos(r: Num, low: Num) -> Num:
    w, rest = _cos_parts(r, low)
    return w + rest


def _cos_parts(r: Num, low: Num) -> tuple[Num, Num]:
    """The cosine as 1 - r * r / 2, rounded, and what that lacks."""
    z = r * r
    rest = (z * z).mad(polynomial(z, _COS[r.width]), -(r * low))
    half = 0.5 * z
    w = 1.0 - half
    return w, ((1.0 - w) - half) + rest


def quarter(x: Num) -> tuple[Num, Num, Int]:
    """x as k * pi/2 + r + low: r in about [-pi/4, pi/4], low what rounding took from it.

    Of the integer k the low two bits count.
    """
    if x.width == 32:
        wide, _, k = _quarter64(x.to(f64), keep=False)
        r = wide.to(f32)
        return r, (wide - r.to(f64)).to(f32), k.to(i32)
    return _quarter64(x)


def _quarter64(x: Num, keep: bool = True) -> tuple[Num, Num, Int]:
    """The same of float64; low is 0 if it is not kept, and r a bit less precise."""
    k, whole = whole_part(x, 2.0 / math.pi)
    first = k.fma(-_PI_2[0], x)  # exact
    if keep:
        product = k * _PI_2[1]
        second = first - product
        part = first - second
        lost = (first - (second + part)) + (part - product)
        more = k.mad(_PI_2[2], k.fma(_PI_2[1], -product)) - lost
        r = second - more  # this way round -0.0 stays what it is
        low = (second - r) - more
    else:
        r, low = -k.fma(_PI_2[2], -k.fma(-_PI_2[1], first)), x.full(0.0)

    def huge() -> tuple[Num, Num, Int]:
        rest, low, k = lane_by_lane("remainder_pi_2", remainder, x, results=3)
        # as `whole_part` leaves integers: any multiple of 4 more or less
        return rest, low, (k + _MAGIC).bits() - x.full(_MAGIC).bits()

    r, low, whole = rarely(~(abs(x) <= _FAR), huge, r, low, whole)
    return r, low, whole


def tan(x: Num) -> Num:
    """The tangent of an angle in radians.

    At most 0.50 ulp in float32, 0.92 in float64.
    """
    if x.width == 32:
        r, low, k = _quarter64(x.to(f64), keep=False)
        s, c = _sin(r, low), _cos(r, low)
        odd = (k & 1).ne(0)
        return (odd.pick(-c, s) / odd.pick(s, c)).to(f32)
    r, low, k = _quarter64(x)
    s, s_low = _sum(r, _sin_rest(r, low))
    s = s.copysign(r)  # for -0.0
    c, c_low = _sum(*_cos_parts(r, low))
    c_low = c_low - 0.5 * r.fma(r, -(r * r))  # which rounding took from the square
    odd = (k & 1).ne(0)
    n, d = odd.pick(-c, s), odd.pick(s, c)
    inverse = 1.0 / d
    y = n * inverse
    lacks = (y.fma(-d, n) + odd.pick(-c_low, s_low)) - y * odd.pick(s_low, c_low)
    return inverse.mad(lacks, y).copysign(y)


def _sum(x: Num, y: Num) -> tuple[Num, Num]:
    """x + y and what rounding takes from it, for |x| >= |y|."""
    total = x + y
    return total, (x - total) + y
