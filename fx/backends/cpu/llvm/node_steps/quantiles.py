"""log and the normal quantile as the samplers compute them, by the formulas of ``_formulas``.

Nothing is fused, so that samples do not depend on who draws them.
"""

from __future__ import annotations

from fx.backends.cpu import _formulas as formulas
from fx.backends.cpu.llvm.ir import f32, f64
from fx.backends.cpu.llvm.vecmath.algebra import Int, Num


def log64(x: Num) -> Num:
    """log x of a normal positive float64."""
    shifted = x.bits() + (0x3FF0000000000000 - 0x3FE6A09E00000000)
    k = ((shifted >> 52) - 1023).to_float(f64)
    m = ((shifted & 0x000FFFFFFFFFFFFF) + 0x3FE6A09E00000000).as_float()
    return formulas.log_of_parts64(k, m - 1.0)


def log32(x: Num) -> Num:
    """log x of a normal positive float32."""
    shifted = x.bits() + (0x3F800000 - 0x3F3504F3)
    k = ((shifted >> 23) - 127).to_float(f32)
    m = ((shifted & 0x007FFFFF) + 0x3F3504F3).as_float()
    return formulas.log_of_parts32(k, m - 1.0)


def normal64(q: Num, tail: Num) -> Num:
    """The x with P(X <= x) = 1/2 + q; tail = 1/2 - |q|."""
    t = (-log64(tail)).sqrt()
    outer = (t <= 5.0).pick(formulas.middle64(t), formulas.far64(t))
    outer = (q < 0.0).pick(-outer, outer)
    return (abs(q) <= 0.425).pick(formulas.center64(q), outer)


def normal32(q: Num, tail: Num) -> Num:
    """The same in float32."""
    outer = formulas.outer32((-log32(tail)).sqrt())
    outer = (q < 0.0).pick(-outer, outer)
    return (abs(q) <= 0.425).pick(formulas.center32(q), outer)


# bits to numbers --------------------------------------------------------------------------------


def uniform32(w: Int) -> Num:
    """[0, 1) in steps of 2 ** -24, from words as i32."""
    return w.lshr(8).to_float(f32) * 2.0**-24


def uniform64(high: Int, low: Int) -> Num:
    """[0, 1) in steps of 2 ** -53, from words in i64."""
    return ((high << 21) | low.lshr(11)).to_float(f64) * 2.0**-53


def normal32_of(w: Int) -> Num:
    """A standard normal, from words as i32."""
    y = w ^ (w >> 31)
    q = (w.to_float(f32) + 0.5) * 2.0**-32
    tail = ((0x7FFFFFFF - y).to_float(f32) + 0.5) * 2.0**-32
    return normal32(q, tail)


def normal64_of(high: Int, low: Int) -> Num:
    """A standard normal, from words in i64."""
    x = (high << 32) | low
    y = x ^ (x >> 63)
    q = (x.to_float(f64) + 0.5) * 2.0**-64
    tail = ((0x7FFFFFFFFFFFFFFF - y).to_float(f64) + 0.5) * 2.0**-64
    return normal64(q, tail)


def open_unit(high: Int, low: Int | None) -> Num:
    """A float64 in (0, 1), from words in i64: 52 bits, or 32 without a low half."""
    if low is None:
        return (high.to_float(f64) + 0.5) * 2.0**-32
    return (((high << 20) | low.lshr(12)).to_float(f64) + 0.5) * 2.0**-52


def exponential(u: Num) -> Num:
    """-log u."""
    return -log64(u)


def gumbel(u: Num) -> Num:
    """-log(-log u)."""
    return -log64(-log64(u))


def laplace(u: Num) -> Num:
    """log 2u below the median, -log 2(1 - u) above it."""
    other = 1.0 - u
    size = log64(2.0 * (other < u).pick(other, u))
    return (u < 0.5).pick(size, -size)


def logistic(u: Num) -> Num:
    """log(u / (1 - u))."""
    return log64(u / (1.0 - u))
