"""The error function and its relatives."""

from __future__ import annotations

import math

from fx.backends.cpu.llvm.ir import f32, f64
from fx.backends.cpu.llvm.vecmath.algebra import Num, estrin, polynomial, rarely
from fx.backends.cpu.llvm.vecmath.exponential import (
    LOG2E,
    exp_of_pair,
    exp_parts,
    power_of_two,
    reduced,
    scaled_by,
    whole_part,
)
from fx.backends.cpu.llvm.vecmath.logarithm import (
    log,
    log1p,
    log_of_parts,
    log_of_parts_short,
    normal_parts,
    split,
)

# erf x = x + x * p(x * x) for |x| <= 0.95 and 0.9
_NEAR = {
    32: (
        1.2837917e-01, -3.7612632e-01, 1.12836726e-01, -2.6858104e-02, 5.1977974e-03,
        -8.1059657e-04, 8.215424e-05,
    ),
    64: (
        0.1283791670955126, -0.3761263890318373, 0.1128379167095382, -0.0268661706448288,
        0.005223977621820394, -0.0008548326767346813, 0.00012055321485877897,
        -1.4925309919261787e-05, 1.645536405092424e-06, -1.6276851369048122e-07,
        1.40531698878721e-08, -8.497784908724309e-10,
    ),
}  # fmt: skip
# erf x = 1 - exp(-p(x)) for 0.9 <= x <= 3.95
_FAR32 = (
    1.7750908e-04, 1.1277494e+00, 6.3705987e-01, 1.0403724e-01, -2.2277026e-02, 3.0555907e-03,
    -1.9717985e-04,
)  # fmt: skip
# (2 + x) * exp(x * x) * erfc x = p((x - 2) / (x + 2)) for 0.9 <= x <= 6, erf x to 2 ** -58
_FAR64 = (
    1.0215827052420237, -0.6871606844138028, 0.2794720925553041, -0.03644223151844284,
    -0.02151066184954807, 0.006479186544547152, 0.0030906180164799193, -0.0008373282754371798,
    -0.0006633813374226985, 3.380519805852183e-05, 0.00014659052196376864, 4.5940783838599155e-05,
)  # fmt: skip
# (1 + 2 * x) * exp(x * x) * erfc x = p((x - 4) / (x + 4)) for 0 <= x <= 28, and to 31 bits to 10
_TAIL = (
    1.2329951186255526, -0.1396211168405629, 0.015379652102619924, 0.06809705425473522,
    -0.10103906603630879, 0.0937328349968648, -0.06633036581241702, 0.03716751556131122,
    -0.016197734049913294, 0.005031969767360603, -0.000757773395874158, -0.0001992555764566247,
    0.00015062243748109282, -2.4402906362992e-05, -1.1225200900955313e-05, 5.7172520667505185e-06,
    3.0183419196688923e-07, -8.342227554334618e-07, 6.24920314614088e-08, 1.1457540313900377e-07,
    -7.817517894392851e-09, -1.3398891287386637e-08, -1.716232295040732e-09,
)  # fmt: skip
_TAIL_SHORT = (
    1.232995118714497, -0.13962113044940547, 0.015379632147970938, 0.06809782213087426,
    -0.10103786413274428, 0.09372141374179961, -0.06635424331103018, 0.03722173710726026,
    -0.01602552565086871, 0.005042866513805277, -0.0011359255569115215, -0.0006415160973866332,
)  # fmt: skip
# exp r = p(r) for |r| <= log(2) / 2, to 34 bits
_EXP_SHORT = (
    0.9999999999595158, 0.9999999999797647, 0.500000010781411, 0.16666666891209153,
    0.04166621809479358, 0.008333266066259564, 0.0013948592779495662, 0.00019915884136910002,
)  # fmt: skip
# erfinv x = x * p(w - 3.25) for w = -log(1 - x * x) <= 6.5, x * p(w - 11.625) to 16.75, to 29 bits
_INVERSE_NEAR_SHORT = (
    1.6835786578970162, 0.23861648559075851, -0.006294204216273898, -0.0006495530616701903,
    0.00017776648787485748, -1.4772290105109267e-05, -1.0084550696668567e-06,
    3.9293688166280597e-07, -3.295427299045037e-08, -2.990575274362989e-09, 9.68894243239475e-10,
    -5.286509938176122e-11, -1.023863111164019e-11, 1.3058208759185391e-12,
)  # fmt: skip
_INVERSE_MIDDLE_SHORT = (
    3.244393014062807, 0.14763285824319475, -0.0030911160629733207, 0.00012499979265506692,
    -5.9601826681296176e-06, 2.74380071486981e-07, -8.246180560633197e-09, -3.6376278436764244e-10,
    9.686467758363291e-11, -1.2752577085842653e-11, 1.3860573667750776e-12, -7.76058297358479e-14,
)  # fmt: skip
# erfinv x = x * p(w - 3.125) for w < 6.25, x * p(sqrt(w) - 3.25) for w < 16 and
# x * p(sqrt(w) - 5) beyond, to 2 ** -55
_INVERSE_NEAR = (
    1.6536545626831027, 0.24015818242558826, -0.006033670871427754, -0.000740702534153955,
    0.00018673420802425695, -1.3882523395790955e-05, -1.3654691844354653e-06,
    4.234788190767002e-07, -2.907038277442876e-08, -4.112661977093705e-09,
    1.0512183982156328e-09, -5.414239029139372e-11, -1.2976958229105075e-11,
    2.6303546712824216e-12, -8.117009564959512e-14, -3.998979795747067e-14,
    6.594700802051546e-15, -4.286315428775753e-17, -1.300391115943769e-16,
    1.575958829788548e-17, 1.1444124252767733e-18, -3.5754160478973545e-19,
    -1.009080358540645e-21, 3.3755957890041026e-21,
)  # fmt: skip
_INVERSE_MIDDLE = (
    3.0838856104922208, 1.0052589676941657, 0.005370914553570906, -0.0037512085082629125,
    0.002491442097018464, -0.0016882755342526622, 0.0009532893630733271,
    -0.0003550378308173137, 2.40312631458509e-05, 6.828724872820514e-05,
    -4.731901562138962e-05, 1.2464433417345321e-05, 2.925824268824518e-06,
    -3.9840780013472215e-06, 1.4985458316672052e-06, -3.026479757879262e-08,
    -2.7118646787259537e-07, 1.339413204653737e-07, 6.342253004371238e-10,
    -1.6187090116225775e-08,
)  # fmt: skip
_INVERSE_FAR = (
    4.849906401408584, 1.010300464864545, -0.00013871931838015705, -0.0002150301198061446,
    7.599527809599986e-05, -1.9681771078015525e-05, 4.526052542856729e-06,
    -9.930264028608975e-07, 2.290526975773303e-07, -6.756894671608118e-08,
    2.9019065131603497e-08, -1.5222975573511935e-08, 7.820649665893466e-09,
    -3.5202941942183112e-09, 1.3168279127811465e-09, -3.930351764531368e-10,
    6.909751957283433e-11, 2.0673214203061003e-11, -2.0281458970538575e-11,
    4.666215647172212e-12,
)  # fmt: skip

# sqrt(pi) * a * erfcx a = p(1 / a ** 2) for a >= 28
_TAIL_FAR = (1.0, -0.5, 0.75, -1.875, 6.5625, -29.53125, 162.421875, -1055.7421875)
# erfcinv y = p((sqrt(w) - 16.8) / 11) for w = -log(y * (2 - y)) >= 5.8 ** 2
_INVERSE_TAIL = (
    16.71952225677054, 11.033282828396803, -0.015460199936626003, 0.007366586321299296,
    -0.003473190386865257, 0.001568685661704355, -0.0006434539149639351, 0.00020695486289075415,
    -1.3472378836055693e-05, -6.159686179913036e-05, 8.1351324251222e-05,
    -7.724410571311556e-05, 6.469511046657561e-05, -5.122443832372193e-05,
    3.872145506822337e-05, -2.573147519575789e-05, 1.761246369873819e-05,
    -2.1888599084313453e-05, 1.767078102682153e-05, 1.3731540013319674e-05,
    -1.4683466557075537e-05, -4.3383334398208594e-05, 3.7848198231688105e-05,
    5.737199581622926e-05, -4.859899509607932e-05, -6.386156387546084e-05,
    5.128432840983297e-05, 4.853711897773905e-05, -3.747952859182846e-05,
    -2.5881019313521768e-05, 1.9213300496464775e-05, 8.37650339303267e-06,
    -6.011539699304325e-06, -1.348543731873749e-06, 9.345156369084118e-07,
)  # fmt: skip


def _near(x: Num) -> Num:
    return x.mad((polynomial if x.width == 32 else estrin)(x * x, _NEAR[x.width]), x)


def _tail(a: Num) -> Num:
    """erfc a of a float64 0 <= a <= 28, with what rounding takes on the way."""
    square = a * a
    y, y_low, k, _ = exp_parts(-square, -a.fma(a, -square))
    more = a + 4.0
    d = a.mad(2.0, 1.0)
    inverse = 1.0 / (more * d)
    u = (a - 4.0) * (d * inverse)
    first, rest = u.full(_TAIL[0]), u * estrin(u, _TAIL[1:])
    n = first + rest
    over = more * inverse  # 1 / d
    v = n * over
    lacks = v.fma(-d, n) + (((first - n) + rest) - v * (a.mad(2.0, -d) + 1.0))
    out = y * v
    return scaled_by(out + (y.fma(v, -out) + y_low.mad(v, y * (lacks * over))), k)


def _erfc_beside_one(a: Num) -> Num:
    """erfc a of a float64 0.9 <= a <= 6, to what matters beside 1."""
    square = a * a
    inverse = 1.0 / (a + 2.0)
    u = (a - 2.0) * inverse
    v = u.mad(estrin(u, _FAR64[1:]), _FAR64[0]) * inverse
    y, y_low, _, k = exp_parts(-square, -a.fma(a, -square))
    return y.mad(v, y_low * v) * power_of_two(k)


def erf(x: Num) -> Num:
    """2 / sqrt(pi) times the integral of exp(-t * t) from 0 to x.

    At most 1.26 ulp in float32, 1.15 in float64.
    """
    a = abs(x)
    if x.width == 32:
        r, rest, _, k = reduced(-polynomial(a.smaller(3.95), _FAR32))
        far = (1.0 + (r + rest)).mad(-power_of_two(k), 1.0)
        limit = 0.95
    else:
        far = 1.0 - _erfc_beside_one(a.smaller(6.0))
        limit = 0.9
    return (a < limit).pick(_near(x), far.copysign(x))


def erfc(x: Num) -> Num:
    """1 - erf(x), precise where that is small.

    At most 0.52 ulp in float32, 1.25 in float64.
    """
    if x.width == 32:
        return _erfc32(x)
    a = abs(x)
    tail = _tail(a.smaller(28.0))
    far = (x < 0.0).pick(2.0 - tail, tail)
    near = (x < 0.25).pick(1.0 - _near(x), 0.5 - (_near(x) + -0.5))
    return (a < 0.5).pick(near, far)


def _erfc32(x: Num) -> Num:
    """``_tail`` in float64, with one quotient, which is a float32's made exact by a step."""
    short = abs(x).smaller(11.0)
    a = short.to(f64)
    below = (a + 4.0) * a.mad(2.0, 1.0)
    inverse = (1.0 / ((short + 4.0) * short.mad(2.0, 1.0))).to(f64)
    inverse = inverse * (2.0 - below * inverse)
    p = estrin((a - 4.0) * a.mad(2.0, 1.0) * inverse, _TAIL_SHORT)
    k, exponent = whole_part(a * a, -LOG2E)  # the square is exact
    e = polynomial(k.mad(-math.log(2), -(a * a)), _EXP_SHORT) * power_of_two(exponent)
    tail = e * p * ((a + 4.0) * inverse)
    return (x.to(f64) < 0.0).pick(2.0 - tail, tail).to(f32)


def erfinv(x: Num) -> Num:
    """The y with erf(y) = x.

    At most 0.53 ulp in float32, 3.30 in float64.
    """
    a = abs(x)
    y = _erfinv32(x) if x.width == 32 else _erfinv64(x)
    return (a < 1.0).pick(y, a.eq(1.0).pick(x * math.inf, math.nan))


def _erfinv32(x: Num) -> Num:
    """What carries the result is float64, small terms are float32."""
    wide = x.to(f64)
    e, m = normal_parts(1.0 - wide * wide, 0x3FE5555555555555)
    w = -log_of_parts_short(e, m - 1.0)

    def piece(t: Num, c: tuple[float, ...]) -> Num:
        y = polynomial(t.to(f32), c[4:]).to(f64)
        for lower in reversed(c[:4]):
            y = y.mad(t, lower)
        return y

    near = piece(w - 3.25, _INVERSE_NEAR_SHORT)
    (y,) = rarely(w > 6.5, lambda: [piece(w - 11.625, _INVERSE_MIDDLE_SHORT)], near)
    return (wide * y).to(f32)


def _erfinv64(x: Num) -> Num:
    a = abs(x)
    e, m = split((1.0 - a) * (1.0 + a))
    w = -log_of_parts(e, m - 1.0)
    return x * _over(w)


def _over(w: Num) -> Num:
    """erfinv x / x for w = -log(1 - x * x)."""

    def beyond() -> list[Num]:
        root = w.sqrt()
        middle, far = estrin(root - 3.25, _INVERSE_MIDDLE), estrin(root - 5.0, _INVERSE_FAR)
        return [(w < 16.0).pick(middle, far)]

    return rarely(w >= 6.25, beyond, estrin(w - 3.125, _INVERSE_NEAR))[0]


def _slow_tail(a: Num) -> Num:
    """erfcx a of a float64 a >= 0."""
    low = a.smaller(28.0)
    near = polynomial((low - 4.0) / (low + 4.0), _TAIL) / low.mad(2.0, 1.0)
    inverse = 1.0 / a
    far = inverse * polynomial(inverse * inverse, _TAIL_FAR) * (1.0 / math.sqrt(math.pi))
    return (a < 28.0).pick(near, far)


def _exp_of_square(a: Num, scale: float) -> Num:
    """exp(scale * a * a) of a float64 of moderate size, for a power of two or its negative."""
    square = a * a
    low = a.fma(a, -square)
    return exp_of_pair(square * scale, low * scale)


def erfcx(x: Num) -> Num:
    """exp(x * x) * erfc(x); float32 goes by float64.

    At most 0.51 ulp in float32, 3.7 in float64, for positive arguments.
    """
    wide = x.to(f64)
    a = abs(wide)
    tail = _slow_tail(a)
    below = 2.0 * _exp_of_square(a.smaller(40.0), 1.0) - tail
    return (wide < 0.0).pick(below, tail).to(x.scalar)


def log_ndtr(x: Num) -> Num:
    """The logarithm of the area under the standard normal curve up to x.

    At most 0.51 ulp in float32, 4.0 in float64.
    """
    wide = x.to(f64)
    a = abs(wide)
    slow = _slow_tail(a * math.sqrt(0.5))
    tail = slow * _exp_of_square(a.smaller(60.0), -0.5)  # erfc(a / sqrt(2))
    far = wide < -1.0
    near = log1p((wide < 0.0).pick(tail * 0.5 - 1.0, tail * -0.5))
    return far.pick(log(slow * 0.5) - wide * wide * 0.5, near).to(x.scalar)


def _erfcinv(y: Num) -> Num:
    """``erfcinv`` of a float64."""
    b = (y > 1.0).pick(2.0 - y, y)  # exact, as is 1 - b above 1 / 2
    e, m = split(b * (2.0 - b))
    w = -log_of_parts(e, m - 1.0)
    (found,) = rarely(
        w >= 33.64,
        lambda: [estrin((w.sqrt() - 16.8) / 11.0, _INVERSE_TAIL)],
        (1.0 - b) * _over(w),
    )
    edge = b.eq(0.0).pick(b.full(math.inf), math.nan)
    found = (b > 0.0).pick(found, edge)
    return (y > 1.0).pick(-found, found)


def erfcinv(x: Num) -> Num:
    """The y with erfc(y) = x; float32 goes by float64.

    At most 0.51 ulp in float32, 4.6 in float64.
    """
    return _erfcinv(x.to(f64)).to(x.scalar)


def ndtri(x: Num) -> Num:
    """Where the area under the standard normal curve reaches x; float32 goes by float64.

    At most 0.51 ulp in float32, 3.8 in float64.
    """
    return (_erfcinv(x.to(f64) * 2.0) * -math.sqrt(2.0) + 0.0).to(x.scalar)  # not -0.0
