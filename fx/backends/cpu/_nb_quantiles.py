"""Numba functions of one float: log, exp and the normal quantile, from exactly rounded operations.

They use +, -, *, / and sqrt alone, which IEEE 754 rounds exactly, and no libm: a value does not
depend on its place in an array, on the vector width, or on the platform. No function branches, so
loops over them vectorise.

Sources: log and exp are the argument reductions and minimax polynomials of FDLIBM (Sun, 1993) and
its single precision sibling; the normal quantiles are algorithm AS 241, PPND7 and PPND16, of
Wichura, "The percentage points of the normal distribution", Applied Statistics 37 (1988).
"""

import numpy as np
from numba import float32, int32, int64, njit

# float64 ----------------------------------------------------------------------------------------

_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_EXPONENT_OF_ONE = np.int64(0x3FF0000000000000)
_BITS_OF_SQRT_HALF = np.int64(0x3FE6A09E00000000)
_MANTISSA = np.int64(0x000FFFFFFFFFFFFF)


@njit(inline="always", error_model="numpy")
def log64(x):
    """log x of a normal positive float64, within one unit in the last place."""
    bits = np.float64(x).view(np.int64) + (_EXPONENT_OF_ONE - _BITS_OF_SQRT_HALF)
    k = np.float64((bits >> np.int64(52)) - np.int64(1023))
    m = np.int64((bits & _MANTISSA) + _BITS_OF_SQRT_HALF).view(np.float64)
    f = m - 1.0  # sqrt(1/2) - 1 <= f < sqrt(2) - 1
    s = f / (2.0 + f)
    z = s * s
    r = z * (6.666666666666735130e-01 + z * (3.999999999940941908e-01 + z * (
        2.857142874366239149e-01 + z * (2.222219843214978396e-01 + z * (
            1.818357216161805012e-01 + z * (
                1.531383769920937332e-01 + z * 1.479819860511658591e-01))))))  # fmt: skip
    half = 0.5 * f * f
    return k * _LN2_HIGH - ((half - (s * (half + r) + k * _LN2_LOW)) - f)


@njit(inline="always", error_model="numpy")
def exp64(x):
    """exp x of a float64; 0 below -745.2 and inf above 709.8."""
    x = min(max(x, -800.0), 800.0)
    k = np.floor(x * 1.44269504088896338700 + 0.5)
    high = x - k * _LN2_HIGH
    low = k * _LN2_LOW
    r = high - low
    t = r * r
    c = r - t * (1.66666666666666019037e-01 + t * (-2.77777777770155933842e-03 + t * (
        6.61375632143793436117e-05 + t * (
            -1.65339022054652515390e-06 + t * 4.13813679705723846039e-08))))  # fmt: skip
    y = 1.0 - ((low - (r * c) / (2.0 - c)) - high)
    half = int64(k) >> 1  # 2 ** k in two factors, neither of which overflows
    rest = int64(k) - half
    a = np.int64((half + np.int64(1023)) << np.int64(52)).view(np.float64)
    b = np.int64((rest + np.int64(1023)) << np.int64(52)).view(np.float64)
    return y * a * b


@njit(inline="always", error_model="numpy")
def normal_quantile64(q, tail):
    """The x with P(X <= x) = 1/2 + q for a standard normal X; tail = 1/2 - |q| > 1e-300."""
    r = 0.180625 - q * q
    center = q * (
        (((((((2.5090809287301226727e3 * r + 3.3430575583588128105e4) * r
              + 6.7265770927008700853e4) * r + 4.5921953931549871457e4) * r
            + 1.3731693765509461125e4) * r + 1.9715909503065514427e3) * r
          + 1.3314166789178437745e2) * r + 3.3871328727963666080e0)
        / (((((((5.2264952788528545610e3 * r + 2.8729085735721942674e4) * r
                + 3.9307895800092710610e4) * r + 2.1213794301586595867e4) * r
              + 5.3941960214247511077e3) * r + 6.8718700749205790830e2) * r
            + 4.2313330701600911252e1) * r + 1.0))  # fmt: skip
    t = np.sqrt(-log64(tail))
    r = t - 1.6
    middle = (
        (((((((7.74545014278341407640e-4 * r + 2.27238449892691845833e-2) * r
              + 2.41780725177450611770e-1) * r + 1.27045825245236838258e0) * r
            + 3.64784832476320460504e0) * r + 5.76949722146069140550e0) * r
          + 4.63033784615654529590e0) * r + 1.42343711074968357734e0)
        / (((((((1.05075007164441684324e-9 * r + 5.47593808499534494600e-4) * r
                + 1.51986665636164571966e-2) * r + 1.48103976427480074590e-1) * r
              + 6.89767334985100004550e-1) * r + 1.67638483018380384940e0) * r
            + 2.05319162663775882187e0) * r + 1.0))  # fmt: skip
    r = t - 5.0
    far = (
        (((((((2.01033439929228813265e-7 * r + 2.71155556874348757815e-5) * r
              + 1.24266094738807843860e-3) * r + 2.65321895265761230930e-2) * r
            + 2.96560571828504891230e-1) * r + 1.78482653991729133580e0) * r
          + 5.46378491116411436990e0) * r + 6.65790464350110377720e0)
        / (((((((2.04426310338993978564e-15 * r + 1.42151175831644588870e-7) * r
                + 1.84631831751005468180e-5) * r + 7.86869131145613259100e-4) * r
              + 1.48753612908506148525e-2) * r + 1.36929880922735805310e-1) * r
            + 5.99832206555887937690e-1) * r + 1.0))  # fmt: skip
    outer = middle if t <= 5.0 else far
    outer = -outer if q < 0.0 else outer
    return center if abs(q) <= 0.425 else outer


# float32 ----------------------------------------------------------------------------------------

_F = np.float32
_LN2_HIGH32, _LN2_LOW32 = _F(6.9313812256e-01), _F(9.0580006145e-06)
_L1, _L2, _L3, _L4 = _F(0.66666662693), _F(0.40000972152), _F(0.28498786688), _F(0.24279078841)
_ONE, _TWO, _HALF = _F(1.0), _F(2.0), _F(0.5)
_EXPONENT_OF_ONE32 = np.int32(0x3F800000)
_BITS_OF_SQRT_HALF32 = np.int32(0x3F3504F3)
_MANTISSA32 = np.int32(0x007FFFFF)
_SPLIT, _OFFSET, _SHIFT = _F(0.425), _F(0.180625), _F(1.6)
_A = tuple(map(_F, (3.3871327179e0, 5.0434271938e1, 1.5929113202e2, 5.9109374720e1)))
_B = tuple(map(_F, (1.7895169469e1, 7.8757757664e1, 6.7187563600e1)))
_C = tuple(map(_F, (1.4234372777e0, 2.7568153900e0, 1.3067284816e0, 1.7023821103e-1)))
_D = tuple(map(_F, (7.3700164250e-1, 1.2021132975e-1)))


@njit(inline="always", error_model="numpy")
def log32(x):
    """log x of a normal positive float32, within one unit in the last place."""
    bits = int32(np.float32(x).view(np.int32) + (_EXPONENT_OF_ONE32 - _BITS_OF_SQRT_HALF32))
    k = float32(int32(bits >> int32(23)) - int32(127))
    m = np.int32((bits & _MANTISSA32) + _BITS_OF_SQRT_HALF32).view(np.float32)
    f = m - _ONE
    s = f / (_TWO + f)
    z = s * s
    r = z * (_L1 + z * (_L2 + z * (_L3 + z * _L4)))
    half = _HALF * f * f
    return k * _LN2_HIGH32 - ((half - (s * (half + r) + k * _LN2_LOW32)) - f)


@njit(inline="always", error_model="numpy")
def normal_quantile32(q, tail):
    """The same in float32, for tail = 1/2 - |q| >= 1.4e-11."""
    r = _OFFSET - q * q
    center = (
        q * (((_A[3] * r + _A[2]) * r + _A[1]) * r + _A[0])
        / (((_B[2] * r + _B[1]) * r + _B[0]) * r + _ONE)
    )  # fmt: skip
    r = np.sqrt(-log32(tail)) - _SHIFT
    outer = (((_C[3] * r + _C[2]) * r + _C[1]) * r + _C[0]) / ((_D[1] * r + _D[0]) * r + _ONE)
    outer = -outer if q < 0 else outer
    return center if abs(q) <= _SPLIT else outer
