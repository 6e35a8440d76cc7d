"""log and the normal quantile as the eager samplers compute them, to the bit.

The formulas and their order of operations are those of ``fx.backends.cpu._nb_quantiles``, where
their sources are; nothing is fused, so that samples do not depend on who draws them.
"""

from __future__ import annotations

from fx.backends.cpu.llvm.ir import f32, f64
from fx.backends.cpu.llvm.vecmath.algebra import Int, Num

_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_LOG64 = (
    6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01,
    2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01,
    1.479819860511658591e-01,
)  # fmt: skip
_LOG32 = (0.66666662693, 0.40000972152, 0.28498786688, 0.24279078841)


def _horner(x: Num, coefficients: tuple[float, ...]) -> Num:
    """c[0] + x * (c[1] + x * ...), each operation rounded."""
    total: Num = x.full(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = x * total + c
    return total


def log64(x: Num) -> Num:
    """log x of a normal positive float64."""
    shifted = x.bits() + (0x3FF0000000000000 - 0x3FE6A09E00000000)
    k = ((shifted >> 52) - 1023).to_float(f64)
    m = ((shifted & 0x000FFFFFFFFFFFFF) + 0x3FE6A09E00000000).as_float()
    return _log(k, m - 1.0, _LOG64, _LN2_HIGH, _LN2_LOW)


def log32(x: Num) -> Num:
    """log x of a normal positive float32."""
    shifted = x.bits() + (0x3F800000 - 0x3F3504F3)
    k = ((shifted >> 23) - 127).to_float(f32)
    m = ((shifted & 0x007FFFFF) + 0x3F3504F3).as_float()
    return _log(k, m - 1.0, _LOG32, 6.9313812256e-01, 9.0580006145e-06)


def _log(k: Num, f: Num, coefficients: tuple[float, ...], high: float, low: float) -> Num:
    s = f / (2.0 + f)
    z = s * s
    r = z * _horner(z, coefficients)
    half = 0.5 * f * f
    return k * high - ((half - (s * (half + r) + k * low)) - f)


def _ratio(x: Num, above: tuple[float, ...], below: tuple[float, ...]) -> Num:
    return _horner(x, above) / _horner(x, below)


_CENTER = (
    3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
    1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
    3.3430575583588128105e4, 2.5090809287301226727e3,
)  # fmt: skip
_CENTER_BELOW = (
    1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3,
    2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4,
    5.2264952788528545610e3,
)  # fmt: skip
_MIDDLE = (
    1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0,
    3.64784832476320460504e0, 1.27045825245236838258e0, 2.41780725177450611770e-1,
    2.27238449892691845833e-2, 7.74545014278341407640e-4,
)  # fmt: skip
_MIDDLE_BELOW = (
    1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
    1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4,
    1.05075007164441684324e-9,
)  # fmt: skip
_FAR = (
    6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0,
    2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
    2.71155556874348757815e-5, 2.01033439929228813265e-7,
)  # fmt: skip
_FAR_BELOW = (
    1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
    7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7,
    2.04426310338993978564e-15,
)  # fmt: skip


def normal64(q: Num, tail: Num) -> Num:
    """The x with P(X <= x) = 1/2 + q; tail = 1/2 - |q|."""
    center = q * _ratio(0.180625 - q * q, _CENTER, _CENTER_BELOW)
    t = (-log64(tail)).sqrt()
    middle = _ratio(t - 1.6, _MIDDLE, _MIDDLE_BELOW)
    far = _ratio(t - 5.0, _FAR, _FAR_BELOW)
    outer = (t <= 5.0).pick(middle, far)
    outer = (q < 0.0).pick(-outer, outer)
    return (abs(q) <= 0.425).pick(center, outer)


_A = (3.3871327179e0, 5.0434271938e1, 1.5929113202e2, 5.9109374720e1)
_B = (1.0, 1.7895169469e1, 7.8757757664e1, 6.7187563600e1)
_C = (1.4234372777e0, 2.7568153900e0, 1.3067284816e0, 1.7023821103e-1)
_D = (1.0, 7.3700164250e-1, 1.2021132975e-1)


def normal32(q: Num, tail: Num) -> Num:
    """The same in float32."""
    r = 0.180625 - q * q
    center = q * _horner(r, _A) / _horner(r, _B)
    outer = _ratio((-log32(tail)).sqrt() - 1.6, _C, _D)
    outer = (q < 0.0).pick(-outer, outer)
    return (abs(q) <= 0.425).pick(center, outer)


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
