"""exp and its relatives: exp2, expm1, sigmoid, tanh, sinh, cosh.

exp(x) = 2 ** k * e ** r with k = round(x / log 2) and |r| <= log(2) / 2; k * log 2 is subtracted in
two parts (Cody and Waite), and e ** r is a minimax polynomial of its own for each precision.
"""

from __future__ import annotations

import math
from typing import Any

from llvmlite import ir

from fx.backends.cpu.llvm.ir import i32, intrinsic, lanes_of, target
from fx.backends.cpu.llvm.vecmath.algebra import Int, Num, estrin, polynomial

LOG2E = math.log2(math.e)
# e ** r = 1 + r + r * r * q(r)
_Q32 = (5.0e-01, 1.6666542e-01, 4.166628e-02, 8.3667105e-03, 1.3946667e-03)
_Q64 = (
    0.5, 0.16666666666666677, 0.0416666666666667, 0.008333333333321436, 0.001388888888886647,
    0.00019841269886672415, 2.480158736128792e-05, 2.755724361014522e-06, 2.755724212977329e-07,
    2.5109261483148414e-08, 2.0924639005217516e-09,
)  # fmt: skip
_ROUND = {32: 12582912.0, 64: 6755399441055744.0}  # adding it leaves a whole number: 1.5 * 2 ** p
_LN2 = {32: (0.693359375, -2.12194440e-4), 64: (0.693145751953125, 1.4286068203094172e-06)}
_MANTISSA = {32: 23, 64: 52}
_BIAS = {32: 127, 64: 1023}


def whole_part(x: Num, scale: float) -> tuple[Num, Int]:
    """x * scale rounded to a whole number, as a number and as an integer; NaN gives any integer."""
    magic = _ROUND[x.width]
    shifted = x.mad(scale, magic)
    return shifted - magic, shifted.bits() - x.full(magic).bits()


def power_of_two(k: Int) -> Num:
    """2 ** k for an exponent k of normal numbers."""
    return ((k + _BIAS[k.width]) << _MANTISSA[k.width]).as_float()


def scaled(y: Num, k: Int) -> Num:
    """y * 2 ** k, rounded once, for k as far as twice the exponents of normal numbers."""
    half = k >> 1
    return y * power_of_two(half) * power_of_two(k - half)


def scaled_by(y: Num, k: Num) -> Num:
    """``scaled`` for a whole number, in one instruction where there is one."""
    lanes, width = lanes_of(y.type), y.width
    bits = (lanes or 0) * width
    machine = target()
    if not (machine.has("avx512f") and bits == 512) and not (
        machine.has("avx512f", "avx512vl") and bits in (128, 256)
    ):
        magic = _ROUND[width]
        return scaled(y, (k + magic).bits() - y.full(magic).bits())
    b = y.b
    mask = ir.Constant(ir.IntType(max(8, lanes)), -1)
    args = [y.v, k.v, y.v, mask] + ([ir.Constant(i32, 4)] if bits == 512 else [])
    name = f"x86.avx512.mask.scalef.p{'s' if width == 32 else 'd'}"
    return Num(b, intrinsic(b, name, y.type, args, str(bits)))


def reduced(x: Num) -> tuple[Num, Num, Num, Int]:
    """r, r * r * q(r) = e ** r - 1 - r, and k, for x = r + k * log 2; k as an integer, too."""
    k, exponent = whole_part(x, LOG2E)
    high, low = _LN2[x.width]
    r = k.mad(-low, k.mad(-high, x))
    return r, (r * r) * _q(r), k, exponent


def _q(r: Num) -> Num:
    return polynomial(r, _Q32) if r.width == 32 else estrin(r, _Q64)


def exp(x: Num) -> Num:
    """e ** x.

    At most 0.99 ulp in float32, 1.01 in float64.
    """
    low, high = (-104.0, 89.0) if x.width == 32 else (-746.0, 710.0)
    # scaling down to 0 is a slow assist of the CPU: a masked softmax took six times as long
    none = x < low
    r, rest, k, _ = reduced(none.pick(0.0, x.smaller(high)))
    return none.pick(0.0, scaled_by(1.0 + (r + rest), k))


def exp_of_pair(x: Num, low: Num) -> Num:
    """e ** (x + low) for a float64 and what its rounding left."""
    r, _, k, _ = reduced(x.larger(-746.0).smaller(710.0))
    r = r + low
    return scaled_by(1.0 + (r + (r * r) * _q(r)), k)


def exp_parts(x: Num, more: Any = 0.0) -> tuple[Num, Num, Num, Int]:
    """y, what rounding took from it, and k, twice, for e ** (x + more) = y * 2 ** k, unlimited."""
    p, lost, k, exponent = _grown_by(x, more)
    y = 1.0 + p
    return y, ((1.0 - y) + p) + lost, k, exponent


def exp2(x: Num) -> Num:
    """2 ** x.

    At most 1.01 ulp in float32, 1.00 in float64.
    """
    low, high = (-151.0, 129.0) if x.width == 32 else (-1076.0, 1025.0)
    x = x.larger(low).smaller(high)
    k, _ = whole_part(x, 1.0)
    t = x - k  # exact
    high, low = (
        (0.6931472, -1.9046542e-09) if x.width == 32 else (math.log(2), 2.3190468138462996e-17)
    )
    r = t * high
    rest = t.mad(low, (r * r) * _q(r))
    return scaled_by(1.0 + (r + rest), k)


def _grown_by(x: Num, more: Any = 0.0) -> tuple[Num, Num, Num, Int]:
    """e ** r - 1, what rounding took from it, and k, for x + more = r + k * log 2 as above."""
    k, exponent = whole_part(x, LOG2E)
    high, low = _LN2[x.width]
    first = k.mad(-high, x)  # exact
    r = k.mad(-low, first)
    rest = (r * r) * _q(r)
    p = r + rest
    lost = k.mad(-low, first - r) + more  # from r
    return p, ((r - p) + rest) + lost.mad(p, lost), k, exponent


def grown(x: Num) -> tuple[Num, Num]:
    """expm1(x) for x with e ** x far from overflow, and what rounding took from it."""
    p, lost, _, k = _grown_by(x)
    s = power_of_two(k)
    larger, q = s - 1.0, s * p
    y = larger + q
    part = y - larger
    low = (larger - (y - part)) + (q - part)
    return y, s.mad(lost, low)


def expm1(x: Num) -> Num:
    """e ** x - 1, precise around 0.

    At most 1.30 ulp in float32, 1.52 in float64.
    """
    low, high = (-20.0, 89.0) if x.width == 32 else (-40.0, 710.0)
    r, rest, _, k = reduced(x.larger(low).smaller(high))
    s = power_of_two(k - 1)  # half of it: 2 ** k overflows before e ** x does
    y = s.mad(rest, s.mad(r, s - 0.5))
    return (abs(x) < 1e-20).pick(x, y + y)


def sigmoid(x: Num) -> Num:
    """1 / (1 + e ** -x), precise in both tails.

    At most 1.50 ulp in float32, 1.50 in float64.
    """
    a = -abs(x)
    r, rest, k, _ = reduced(a.larger(-104.0 if x.width == 32 else -746.0))
    p = r + rest
    y = 1.0 + p
    small = scaled_by(y, k)
    d = 1.0 + small
    inverse = 1.0 / d
    # what rounding took: from y = e ** r, from d and from 1 / d, relative to them
    c = (p - (y - 1.0)) * p.mad(p - 1.0, 1.0)
    c = c + inverse.mad(-(small - (d - 1.0)), inverse.fma(-d, 1.0))
    return (x < 0.0).pick(small.mad(inverse, small * inverse * c), inverse)


def tanh(x: Num) -> Num:
    """The hyperbolic tangent.

    At most 0.90 ulp in float32, 0.97 in float64.
    """
    a = abs(x).smaller(10.0 if x.width == 32 else 20.0)
    t, low = grown(a + a)
    d = t + 2.0
    more = (t.larger(2.0) - d) + t.smaller(2.0) + low  # of t + 2
    inverse = 1.0 / d
    y = t * inverse
    return inverse.mad(y.fma(-d, t) + (low - y * more), y).copysign(x)


def _halves(a: Num) -> tuple[Num, Num, Num, Num, Num]:
    """y = e ** r, z = e ** -a / 2 ** k, what rounding took from each, and k; a = r + k * log 2."""
    y, low, k, exponent = exp_parts(a.smaller(90.0 if a.width == 32 else 711.0))
    i = 1.0 / y
    i_low = i * (i.fma(-y, 1.0) - i * low)
    most = 2 * _MANTISSA[a.width]  # beyond, z is nothing beside y
    square = power_of_two(-2 * (exponent < most // 2).pick(exponent, most // 2))
    return y, low, i * square, i_low * square, k


# sinh x = x + x ** 3 * p(x * x) for |x| <= 1
_SINH32 = (1.6666667e-01, 8.3333505e-03, 1.9836066e-04, 2.8174395e-06)
_SINH64 = (
    0.16666666666666666, 0.008333333333333333, 0.0001984126984126959, 2.7557319224120245e-06,
    2.5052108345641085e-08, 1.6059050705915008e-10, 7.646476358283487e-13, 2.8483983624278064e-15,
)  # fmt: skip


def sinh(x: Num) -> Num:
    """The hyperbolic sine.

    At most 0.80 ulp in float32, 0.80 in float64.
    """
    w = x * x
    near = (w * x).mad(polynomial(w, _SINH32 if x.width == 32 else _SINH64), x)
    a = abs(x)
    y, low, z, z_low, k = _halves(a)
    d = y - z
    far = scaled_by(d + (((y - d) - z) + (low - z_low)), k - 1.0).copysign(x)
    return (a < 1.0).pick(near, far)


def cosh(x: Num) -> Num:
    """The hyperbolic cosine.

    At most 0.71 ulp in float32, 0.69 in float64.
    """
    y, low, z, z_low, k = _halves(abs(x))
    s = y + z
    return scaled_by(s + (((y - s) + z) + (low + z_low)), k - 1.0)
