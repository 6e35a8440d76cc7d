"""log and its relatives: log2, log10, log1p, and the logarithm in double-double.

x = m * 2 ** e with m around 1; log m is a minimax polynomial in f = m - 1 for float32, in
s = f / (2 + f) for float64, and e * log 2 is added in two parts.
"""

from __future__ import annotations

import math
from typing import Any

from fx.backends.cpu.llvm.ir import element_of, f32, f64
from fx.backends.cpu.llvm.vecmath.algebra import Num, estrin, polynomial
from fx.backends.cpu.llvm.vecmath.exponential import exp

_INF = math.inf
# log(1 + f) = f - f * f / 2 + f ** 3 * p(f)
_P32 = (
    3.3333224e-01, -2.4999687e-01, 2.0010039e-01, -1.6685498e-01, 1.4010967e-01, -1.2114804e-01,
    1.3962305e-01, -1.3192667e-01,
)  # fmt: skip
# log((1 + s) / (1 - s)) = 2 * s + s ** 3 * p(s * s)
_P64 = (
    0.6666666666666735, 0.3999999999940749, 0.2857142874414186, 0.22222198378417038,
    0.18183575168876595, 0.15313755670088303, 0.14799067018916753,
)  # fmt: skip
_LOW_END = {32: 0x3F2AAAAB, 64: 0x3FE6A09E00000000}  # 2/3 and sqrt(1/2): mantissas begin there
_MANTISSA = {32: 23, 64: 52}
_LN2 = {32: (0.693359375, -2.12194440e-4), 64: (0.6931471803691238, 1.9082149292705877e-10)}


def split(x: Num) -> tuple[Num, Num]:
    """e and m with x = m * 2 ** e, for a positive finite x; m is around 1."""
    w = x.width
    tiny = x < (2.0**-126 if w == 32 else 2.0**-1022)
    lift = 2.0 ** _MANTISSA[w]
    e, m = normal_parts(tiny.pick(x * lift, x), _LOW_END[w])
    return tiny.pick(e - float(_MANTISSA[w]), e), m


def normal_parts(x: Num, low_end: int) -> tuple[Num, Num]:
    """``split`` of a normal number, with mantissas from that of these bits to twice it."""
    bits, place = x.bits() - low_end, _MANTISSA[x.width]
    m = ((bits & ((1 << place) - 1)) + low_end).as_float()
    return (bits >> place).to_float(element_of(x.type)), m


def outside(x: Num, y: Num) -> Num:
    """y where x is positive and finite; else the logarithm of 0, inf, NaN or a negative number."""
    ordinary = (x > 0.0) & (x < _INF)
    edge = x.eq(0.0).pick(-_INF, (x < 0.0).pick(math.nan, x))
    return ordinary.pick(y, edge)


def log_of_parts(e: Num, f: Num, more: Any = 0.0) -> Num:
    """log((1 + f) * 2 ** e), to which ``more`` is added."""
    high, low = _LN2[f.width]
    if f.width == 32:
        p = polynomial(f, _P32)
        y = (f * f).mad(f.mad(p, -0.5), e.mad(low, more))
        return e.mad(high, f + y)
    s = f / (2.0 + f)
    z = s * s
    r = z * estrin(z, _P64)
    half = 0.5 * (f * f)
    return e.mad(high, -((half - s.mad(half + r, e.mad(low, more))) - f))


def _pair_of_parts(f: Num) -> tuple[Num, Num]:
    """log(1 + f), and what rounding took from its last sum."""
    if f.width == 32:
        rest = (f * f) * f.mad(polynomial(f, _P32), -0.5)
    else:
        s = f / (2.0 + f)
        z = s * s
        half = 0.5 * (f * f)
        rest = s.mad(half + z * estrin(z, _P64), -half)
    y = f + rest
    return y, (f - y) + rest


def log_of_parts_short(e: Num, f: Num) -> Num:
    """The same of a float64 -1/3 <= f <= 1/3, to an error of 2 ** -27 or so."""
    short = f.to(f32)
    cube = (short * short * short * polynomial(short, _P32)).to(f64)
    return e.mad(math.log(2), (f * f).mad(-0.5, f) + cube)


def log(x: Num) -> Num:
    """The natural logarithm.

    At most 0.81 ulp in float32, 0.77 in float64.
    """
    e, m = split(x)
    return outside(x, log_of_parts(e, m - 1.0))


def log1p(x: Num) -> Num:
    """log(1 + x), precise around 0.

    At most 0.92 ulp in float32, 0.82 in float64.
    """
    u = 1.0 + x
    w = x.width
    shift = (u.bits() - _LOW_END[w]) & ~((1 << _MANTISSA[w]) - 1)  # e, where exponents stand
    e = (shift >> _MANTISSA[w]).to_float(element_of(x.type))
    scale = (x > 1e30).pick(0.0, (x.full(1.0).bits() - shift).as_float())  # 2 ** -e
    part, one = (x.bits() - shift).as_float(), scale - 1.0
    f = part + one  # (1 + x) / 2 ** e - 1
    rest = f - one
    lost = (one - (f - rest)) + (part - rest)
    y = (abs(x) < 1e-30).pick(x, log_of_parts(e, f, lost - lost * f))
    edge = x.eq(-1.0).pick(-_INF, (x < -1.0).pick(math.nan, x))
    return ((x > -1.0) & (x < _INF)).pick(y, edge)


# log((1 + s) / (1 - s)) = 2 * s + s ** 3 * (2 / 3 + s * s * p(s * s))
_PAIR = (
    0.39999999999999986, 0.2857142857144218, 0.22222222218112497, 0.18181818811376366,
    0.1538456029947742, 0.133362030390588, 0.11676858553000573, 0.1197392740268057,
)  # fmt: skip


def log_pair(x: Num) -> tuple[Num, Num]:
    """log x of a positive finite float64 as a sum of two, to about 70 bits."""
    e, m = split(x)
    n = m - 1.0
    d = 1.0 + m
    d_low = m - (d - 1.0)
    inverse = 1.0 / d
    s = n * inverse
    s_low = ((-s).fma(d, n) - s * d_low) * inverse
    z = s * s
    z_low = s.fma(s, -z) + 2.0 * (s * s_low)
    tail = z * polynomial(z, _PAIR)
    c = tail + 2.0 / 3.0
    c_low = (2.0 / 3.0 - c) + tail + 3.700743415417188e-17
    u = s * z
    u_low = s.fma(z, -u) + (s * z_low + s_low * z)
    v = u * c
    v_low = u.fma(c, -v) + (u * c_low + u_low * c)
    two = s + s
    y = two + v
    y_low = ((two - y) + v) + (s_low + s_low + v_low)
    high, low = _LN2[64]
    big = e * high
    out = big + y
    return out, (big - out) + y + (y_low + e * low)


# log to a base of e, and of 2: times a whole number the first part of that is exact
_BASES = {
    2: {
        32: (1.4426950216293335, 1.925963033500011e-08, 1.0, 0.0),
        64: (1.4426950408889634, 2.0355273740931033e-17, 1.0, 0.0),
    },
    10: {
        32: (0.4342944920063019, -1.0103049952192578e-08, 0.301025390625, 4.605039066518657e-06),
        64: (0.4342944819032518, 1.098319650216765e-17, 0.30102999566361177, 3.694239077158931e-13),
    },
}


def _in_base(x: Num, base: int) -> Num:
    """The logarithm of m as a sum of two, times that of e, and the exponent's before it."""
    e, m = split(x)
    y, low = _pair_of_parts(m - 1.0)
    by, by_low, two, two_low = _BASES[base][x.width]
    p = y * by
    p_low = y.fma(by, -p) + y.mad(by_low, low * by)
    first = e * two
    out = first + p
    part = out - first
    rest = (first - (out - part)) + (p - part)
    return outside(x, out + (rest + e.mad(two_low, p_low)))


def log2(x: Num) -> Num:
    """The logarithm to base 2.

    At most 0.89 ulp in float32, 0.84 in float64; exact for powers of 2.
    """
    return _in_base(x, 2)


def log10(x: Num) -> Num:
    """The logarithm to base 10.

    At most 0.87 ulp in float32, 0.69 in float64.
    """
    return _in_base(x, 10)


def logit(x: Num) -> Num:
    """log(x / (1 - x)), precise around 1 / 2 by what rounding took from the quotient.

    At most 1.5 ulp in float32 and float64.
    """
    w, rest = x.width, 1.0 - x
    inverse = 1.0 / rest
    ratio = x * inverse
    low = ((-ratio).fma(rest, x) - ratio * ((1.0 - rest) - x)) * inverse
    e, m = split(ratio)
    shift = (ratio.bits() - _LOW_END[w]) & ~((1 << _MANTISSA[w]) - 1)  # e, where exponents stand
    scale = (x.full(1.0).bits() - shift).as_float()
    ordinary = (ratio > 1e-30) & (ratio < 1e30)
    return outside(ratio, log_of_parts(e, (m - 1.0) + ordinary.pick(low * scale, 0.0)))


def softplus(x: Num) -> Num:
    """log(1 + e ** x) without overflow.

    At most 1.72 ulp in float32, 1.62 in float64.
    """
    return (x < 0.0).pick(0.0, x) + log1p(exp(-abs(x)))


def logaddexp(x: Num, y: Num) -> Num:
    """log(e ** x + e ** y) without overflow.

    The error is that of the sum of an argument and a logarithm: next to 0, less than 2 ulp of the
    argument. Only the last sum of float32 is in float64.
    """
    gap = x - y
    v = exp(-abs(gap))
    half = v > (1 / 3 if x.width == 32 else math.sqrt(2) - 1)  # 1 + v = (1 + f) * 2 there
    f = half.pick(v * 0.5 - 0.5, v)
    larger = (gap > 0.0).pick(x, y)
    if x.width == 32:
        wide = larger.to(f64)
        wide = wide + half.pick(wide.full(math.log(2)), 0.0)
        out = (wide + log_of_parts(f.full(0.0), f).to(f64)).to(f32)
    else:
        out = larger + log_of_parts(half.pick(f.full(1.0), 0.0), f)
    out = x.eq(y).pick(x + math.log(2), out)  # gap is NaN for two infinities
    return out
