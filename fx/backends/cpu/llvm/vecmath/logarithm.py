"""log and its relatives: log2, log10, log1p."""

from __future__ import annotations

import math

from fx.backends.cpu.llvm.vecmath.algebra import Num, estrin, polynomial
from fx.backends.cpu.llvm.vecmath.types import element_of

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
    bits = tiny.pick(x * lift, x).bits() - _LOW_END[w]
    m = ((bits & ((1 << _MANTISSA[w]) - 1)) + _LOW_END[w]).as_float()
    e = (bits >> _MANTISSA[w]).to_float(element_of(x.type))
    return tiny.pick(e - float(_MANTISSA[w]), e), m


def outside(x: Num, y: Num) -> Num:
    """y where x is positive and finite; else the logarithm of 0, inf, NaN or a negative number."""
    ordinary = (x > 0.0) & (x < _INF)
    edge = x.eq(0.0).pick(-_INF, (x < 0.0).pick(math.nan, x))
    return ordinary.pick(y, edge)


def log_of_parts(e: Num, f: Num) -> Num:
    """log((1 + f) * 2 ** e)."""
    high, low = _LN2[f.width]
    if f.width == 32:
        p = polynomial(f, _P32)
        y = (f * f).mad(f.mad(p, -0.5), e * low)
        return e.mad(high, f + y)
    s = f / (2.0 + f)
    z = s * s
    r = z * estrin(z, _P64)
    half = 0.5 * (f * f)
    return e.mad(high, -((half - s.mad(half + r, e * low)) - f))


def log(x: Num) -> Num:
    """The natural logarithm."""
    e, m = split(x)
    return outside(x, log_of_parts(e, m - 1.0))
