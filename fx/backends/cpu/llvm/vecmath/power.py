"""x ** y, and functions that are powers: hypot."""

from __future__ import annotations

import math

from fx.backends.cpu.llvm.ir import f32, f64
from fx.backends.cpu.llvm.vecmath.algebra import Num, estrin, rarely
from fx.backends.cpu.llvm.vecmath.exponential import exp_of_pair, power_of_two, whole_part
from fx.backends.cpu.llvm.vecmath.logarithm import log_pair, split

_INF = math.inf


def power(x: Num, y: Num) -> Num:
    """x to the power y, as C's pow. float32 goes by float64, float64 by pairs of numbers.

    At most 0.51 ulp in float32, 1.08 in float64.
    """
    a = abs(x)
    if x.width == 32:
        size = _exp2(y.to(f64) * _edges(a.to(f64), _log2(a)))
    else:
        high, low = log_pair(a)
        high = _edges(a, high)
        p = y * high
        rest = y.fma(high, -p) + y * low
        size = exp_of_pair(p, (abs(p) < 800.0).pick(rest, 0.0))
    whole = y.call("floor").eq(y)
    half = y * 0.5
    odd = whole & half.call("floor").ne(half)
    out = (a.eq(1.0) & ~y.isnan()).pick(1.0, size)
    out = odd.pick(out.copysign(x), out)
    out = ((x < 0.0) & (a < _INF) & ~whole).pick(math.nan, out)
    return (y.eq(0.0) | x.eq(1.0)).pick(1.0, out)


# of |x|, between which x * x, what it is rounded by and its inverse are normal numbers
_USUAL = {32: (2.0**-50, 2.0**60), 64: (2.0**-480, 2.0**500)}


def inverse_square(x: Num) -> Num:
    """1 / x**2: the square as two numbers, and a step of Newton's with what the quotient lacks.

    At most 0.51 ulp, and 0.75 of the ulp of subnormal results in float64.
    """
    a = abs(x)
    low, high = _USUAL[x.width]

    def elsewhere() -> list[Num]:
        if x.width == 32:
            wide = x.to(f64)
            return [(1.0 / (wide * wide)).to(f32)]
        c = (a <= low).pick(2.0**600, (a >= high).pick(2.0**-560, a.full(1.0)))
        quotient, lacks = _inverse_square(x * c)
        out = (abs(lacks) < 1.0).pick(quotient.fma(lacks, quotient), quotient)
        return [out * c * c]  # the first product is rounded only where the second is 0

    quotient, lacks = _inverse_square(x)
    usual = (a > low) & (a < high)
    return rarely(~usual, elsewhere, quotient.fma(lacks, quotient))[0]  # type: ignore[no-any-return]


def _inverse_square(x: Num) -> tuple[Num, Num]:
    square = x * x
    quotient = 1.0 / square
    lacks = quotient.fma(-square, 1.0)  # 1 - quotient * (square + what it was rounded by)
    return quotient, quotient.fma(-x.fma(x, -square), lacks)


def root(x: Num) -> Num:
    """The power 0.5: at -inf and -0.0 another number than the square root."""
    return x.eq(-_INF).pick(_INF, abs(x.sqrt()))


def inverse_root(x: Num) -> Num:
    """The power -0.5: a quotient, and a step of Newton's with what it lacks.

    At most 0.51 ulp.
    """
    quotient = 1.0 / root(x)
    half = x * quotient  # and what it was rounded by
    lacks = quotient.fma(-x.fma(quotient, -half), quotient.fma(-half, 1.0))
    return (abs(lacks) < 1.0).pick((quotient * 0.5).fma(lacks, quotient), quotient)


BY_NUMBER = {-2.0: inverse_square, 0.5: root, -0.5: inverse_root}  # where the exponent is known


def _edges(a: Num, logarithm: Num) -> Num:
    """The logarithm of a >= 0 where it is 0, inf or NaN as well."""
    return a.eq(0.0).pick(-_INF, (a < _INF).pick(logarithm, a))


# log2(1 + f) = f * p(f) to 2 ** -35, and 2 ** r = p(r) to 2 ** -34
_LOG2 = (
    1.4426950408973784, -0.7213475196244302, 0.4808983405248586, -0.36067396693875087,
    0.2885398202292322, -0.24043433907505948, 0.2060607489378358, -0.18079021082230498,
    0.16116769772562314, -0.1376211453339292, 0.12125140914366489, -0.16552354644906286,
    0.1647808222082426,
)  # fmt: skip
_EXP2 = (
    0.9999999999592274, 0.6931471805296286, 0.24022651216703444, 0.055504109975503514,
    0.009618025188396004, 0.0013333402177175312, 0.00015469864464527213,
    1.5321894112070696e-05,
)  # fmt: skip


def _log2(a: Num) -> Num:
    """log2 of a positive finite float32, as a float64."""
    e, m = split(a)
    f = m.to(f64) - 1.0
    return f.mad(estrin(f, _LOG2), e.to(f64))


def _exp2(t: Num) -> Num:
    """2 ** t of a float64, as a float32."""
    t = t.larger(-160.0).smaller(130.0)
    k, whole = whole_part(t, 1.0)
    return (estrin(t - k, _EXP2) * power_of_two(whole)).to(f32)


def hypot(x: Num, y: Num) -> Num:
    """sqrt(x * x + y * y) without overflow.

    At most 0.50 ulp in float32, 1.97 in float64.
    """
    a, b = abs(x), abs(y)
    if x.width == 32:
        wide, other = x.to(f64), y.to(f64)
        out = (wide * wide + other * other).sqrt().to(f32)
    else:
        high, low = (a > b).pick(a, b), (a > b).pick(b, a)
        t = low / high
        out = high.eq(0.0).pick(high, high * (1.0 + t * t).sqrt())
        out = (a.isnan() | b.isnan()).pick(math.nan, out)
    return (a.eq(_INF) | b.eq(_INF)).pick(_INF, out)
