"""x ** y."""

from __future__ import annotations

import math

from fx.backends.cpu.llvm.vecmath.algebra import Num
from fx.backends.cpu.llvm.vecmath.exponential import exp
from fx.backends.cpu.llvm.vecmath.logarithm import log_of_parts, split
from fx.backends.cpu.llvm.vecmath.types import F32, F64

_INF = math.inf


def power(x: Num, y: Num) -> Num:
    """x to the power y, as C's pow."""
    a = abs(x)
    if x.width == 32:
        e, m = split(a.to(F64))
        e, a64 = e, a.to(F64)
        logarithm = a64.eq(0.0).pick(-_INF, (a64 < _INF).pick(log_of_parts(e, m - 1.0), a64))
        size = exp(y.to(F64) * logarithm).to(F32)
    else:
        e, m = split(a)
        logarithm = a.eq(0.0).pick(-_INF, (a < _INF).pick(log_of_parts(e, m - 1.0), a))
        size = exp(y * logarithm)
    whole = y.call("floor").eq(y)
    half = y * 0.5
    odd = whole & half.call("floor").ne(half)
    out = (a.eq(1.0) & ~y.isnan()).pick(1.0, size)
    out = odd.pick(out.copysign(x), out)
    out = ((x < 0.0) & (a < _INF) & ~whole).pick(math.nan, out)
    return (y.eq(0.0) | x.eq(1.0)).pick(1.0, out)
