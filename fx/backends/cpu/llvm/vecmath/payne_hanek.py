"""The remainder of a huge angle by pi / 2, with 190 bits of 2 / pi where they count.

Source: Payne and Hanek, "Radian reduction for trigonometric functions", SIGNUM Newsletter 18
(1983).
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from fx.backends.cpu.llvm.ir import f64, i64
from fx.backends.cpu.llvm.vecmath.algebra import Int, Num

_WORDS = 21  # 64 zeros, then 2 / pi
_I128 = ir.IntType(128)
_PI_2 = (1.5707963267948966, 6.123233995736766e-17)


def two_over_pi(bits: int) -> int:
    """floor(2 / pi * 2 ** bits), from Machin's formula in integers."""
    guard = bits + 32

    def inverse_arctan(n: int) -> int:  # arctan(1 / n)
        term = total = (1 << guard) // n
        k, sign = 1, -1
        while term:
            term //= n * n
            k += 2
            total += sign * (term // k)
            sign = -sign
        return total

    pi = 4 * (4 * inverse_arctan(5) - inverse_arctan(239))
    return (1 << (guard + bits + 1)) // pi


def remainder(x: Num) -> tuple[Num, Num, Num]:
    """r in [-pi/4, pi/4], what rounding took from it, and k modulo 4 where x = k * pi/2 + r.

    Holds for finite scalars |x| >= 2 ** 40; r is NaN for infinities and NaN.
    """
    return _reduce(x.b, x)


def _table(module: Any) -> Any:
    name = "fx.two_over_pi"
    table = module.globals.get(name)
    if table is None:
        value = two_over_pi(64 * (_WORDS - 1))
        words = [value >> (64 * i) & (2**64 - 1) for i in reversed(range(_WORDS))]
        kind = ir.ArrayType(i64, _WORDS)
        table = ir.GlobalVariable(module, kind, name)
        table.linkage = "internal"
        table.global_constant = True
        table.initializer = ir.Constant(kind, words)
    return table


def _reduce(b: Any, x: Num) -> tuple[Num, Num, Num]:
    bits = x.bits()
    exponent = bits.lshr(52) & 2047
    inside = exponent.below(2047) & ~exponent.below(1023 + 40)
    exponent = inside.pick(exponent, 1023 + 40)
    m = (bits & (2**52 - 1)) | 2**52  # |x| = m * 2 ** (exponent - 1075)
    # what lies 2 bits and more above the point of m * 2 / pi gives whole turns
    first = exponent - (1075 + 2 - 64)
    word, shift = first.lshr(6), first & 63
    table = _table(b.module)

    def load(i: int) -> Int:
        at = b.gep(table, [i64(0), (word + i).v], source_etype=ir.ArrayType(i64, _WORDS))
        return Int(b, b.load(at, typ=i64))

    def fraction(i: int) -> Int:  # 64 bits of 2 / pi, from bit `first` + 64 * i on
        a, c = load(i), load(i + 1)
        return (a << shift) | shift.eq(0).pick(0, c.lshr((64 - shift) & 63))

    def wide(i: Int) -> Int:
        return Int(b, b.zext(i.v, _I128))

    def low_word(i: Int) -> Int:
        return Int(b, b.trunc(i.v, i64))

    low = wide(m) * wide(fraction(2))
    middle = wide(m) * wide(fraction(1)) + low.lshr(64)
    high = m * fraction(0) + low_word(middle.lshr(64))
    # the top two bits are the quadrant, the others the fraction of the next
    whole = (wide(high) << 64) | wide(low_word(middle))
    part = (whole << 2) | wide(low_word(low).lshr(62))
    negative = part < 0
    k = high.lshr(62) + Int(b, b.zext(negative.v, i64))
    size = negative.pick(0 - part, part)
    zeros = Int(b, b.ctlz(size.v, ir.Constant(ir.IntType(1), 0)))
    top = low_word((size << zeros).lshr(64))
    # top * 2 ** (-64 - zeros) * pi / 2 in pairs of numbers
    big = top.lshr(11).to_float(f64) * 2048.0
    rest = (top & 2047).to_float(f64)
    p = big * _PI_2[0]
    p_low = big.fma(_PI_2[0], -p) + (big * _PI_2[1] + rest * _PI_2[0])
    scale = ((1023 - 64 - low_word(zeros)) << 52).as_float()
    r = p + p_low
    minus = bits < 0
    sign = (negative ^ minus).pick(-scale, scale)
    r, low = r * sign, ((p - r) + p_low) * sign
    k = minus.pick(0 - k, k) & 3
    r = inside.pick(r, float("nan"))
    return r, low, k.to_float(f64)
