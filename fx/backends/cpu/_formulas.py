"""The formulas of Philox, of log and of the normal quantile, for whoever draws random numbers.

They serve NumPy's arrays and numbers, Numba (``irregular``) and what emits LLVM's IR alike. Those
of floats are made of +, -, *, / and sqrt alone, which IEEE 754 rounds exactly, so that all who
evaluate them as they stand get the same bits, whatever the vectors and the platform. What takes
numbers apart into bits is written where it is done.

Sources: Philox 4x32-10 is of Salmon et al. (see ``philox``); log is the argument reduction and the
minimax polynomial of FDLIBM (Sun, 1993) and of its single precision sibling; the normal quantiles
are algorithm AS 241, PPND7 and PPND16, of Wichura, "The percentage points of the normal
distribution", Applied Statistics 37 (1988).
"""

import numpy as np

_M0, _M1, _W0, _W1 = 0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85
_LOW = 0xFFFFFFFF


def philox(c0, c1, c2, c3, k0, k1):
    """A block of a counter and a key: words held in 64 bits, or plain ints."""
    for _ in range(10):
        p0, p1 = c0 * _M0, c2 * _M1
        c0, c1, c2, c3 = (
            ((p1 >> 32) & _LOW) ^ c1 ^ k0, p1 & _LOW, ((p0 >> 32) & _LOW) ^ c3 ^ k1, p0 & _LOW
        )  # fmt: skip
        k0, k1 = (k0 + _W0) & _LOW, (k1 + _W1) & _LOW
    return c0, c1, c2, c3


# float64 ----------------------------------------------------------------------------------------

LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10


def log_of_parts64(k, f):
    """log of 2 ** k * (1 + f), sqrt(1/2) - 1 <= f < sqrt(2) - 1."""
    s = f / (2.0 + f)
    z = s * s
    r = z * (6.666666666666735130e-01 + z * (3.999999999940941908e-01 + z * (
        2.857142874366239149e-01 + z * (2.222219843214978396e-01 + z * (
            1.818357216161805012e-01 + z * (
                1.531383769920937332e-01 + z * 1.479819860511658591e-01))))))  # fmt: skip
    half = 0.5 * f * f
    return k * LN2_HIGH - ((half - (s * (half + r) + k * LN2_LOW)) - f)


def center64(q):
    """The normal quantile of 1/2 + q for abs(q) <= 0.425."""
    r = 0.180625 - q * q
    return q * (
        (((((((2.5090809287301226727e3 * r + 3.3430575583588128105e4) * r
              + 6.7265770927008700853e4) * r + 4.5921953931549871457e4) * r
            + 1.3731693765509461125e4) * r + 1.9715909503065514427e3) * r
          + 1.3314166789178437745e2) * r + 3.3871328727963666080e0)
        / (((((((5.2264952788528545610e3 * r + 2.8729085735721942674e4) * r
                + 3.9307895800092710610e4) * r + 2.1213794301586595867e4) * r
              + 5.3941960214247511077e3) * r + 6.8718700749205790830e2) * r
            + 4.2313330701600911252e1) * r + 1.0))  # fmt: skip


def middle64(t):
    """Its distance from 0 for t = sqrt(-log(tail)) <= 5."""
    r = t - 1.6
    return (
        (((((((7.74545014278341407640e-4 * r + 2.27238449892691845833e-2) * r
              + 2.41780725177450611770e-1) * r + 1.27045825245236838258e0) * r
            + 3.64784832476320460504e0) * r + 5.76949722146069140550e0) * r
          + 4.63033784615654529590e0) * r + 1.42343711074968357734e0)
        / (((((((1.05075007164441684324e-9 * r + 5.47593808499534494600e-4) * r
                + 1.51986665636164571966e-2) * r + 1.48103976427480074590e-1) * r
              + 6.89767334985100004550e-1) * r + 1.67638483018380384940e0) * r
            + 2.05319162663775882187e0) * r + 1.0))  # fmt: skip


def far64(t):
    """The same for t > 5."""
    r = t - 5.0
    return (
        (((((((2.01033439929228813265e-7 * r + 2.71155556874348757815e-5) * r
              + 1.24266094738807843860e-3) * r + 2.65321895265761230930e-2) * r
            + 2.96560571828504891230e-1) * r + 1.78482653991729133580e0) * r
          + 5.46378491116411436990e0) * r + 6.65790464350110377720e0)
        / (((((((2.04426310338993978564e-15 * r + 1.42151175831644588870e-7) * r
                + 1.84631831751005468180e-5) * r + 7.86869131145613259100e-4) * r
              + 1.48753612908506148525e-2) * r + 1.36929880922735805310e-1) * r
            + 5.99832206555887937690e-1) * r + 1.0))  # fmt: skip


# float32 ----------------------------------------------------------------------------------------

_F = np.float32
_LN2_HIGH32, _LN2_LOW32 = _F(6.9313812256e-01), _F(9.0580006145e-06)
_L1, _L2, _L3, _L4 = _F(0.66666662693), _F(0.40000972152), _F(0.28498786688), _F(0.24279078841)
_ONE, _TWO, _HALF = _F(1.0), _F(2.0), _F(0.5)
_OFFSET, _SHIFT = _F(0.180625), _F(1.6)
_A = tuple(map(_F, (3.3871327179e0, 5.0434271938e1, 1.5929113202e2, 5.9109374720e1)))
_B = tuple(map(_F, (1.7895169469e1, 7.8757757664e1, 6.7187563600e1)))
_C = tuple(map(_F, (1.4234372777e0, 2.7568153900e0, 1.3067284816e0, 1.7023821103e-1)))
_D = tuple(map(_F, (7.3700164250e-1, 1.2021132975e-1)))


def log_of_parts32(k, f):
    """``log_of_parts64`` in float32."""
    s = f / (_TWO + f)
    z = s * s
    r = z * (_L1 + z * (_L2 + z * (_L3 + z * _L4)))
    half = _HALF * f * f
    return k * _LN2_HIGH32 - ((half - (s * (half + r) + k * _LN2_LOW32)) - f)


def center32(q):
    """``center64`` in float32."""
    r = _OFFSET - q * q
    return (
        q * (((_A[3] * r + _A[2]) * r + _A[1]) * r + _A[0])
        / (((_B[2] * r + _B[1]) * r + _B[0]) * r + _ONE)
    )  # fmt: skip


def outer32(t):
    """The quantile's distance from 0 for t = sqrt(-log(tail)), in float32."""
    r = t - _SHIFT
    return (((_C[3] * r + _C[2]) * r + _C[1]) * r + _C[0]) / ((_D[1] * r + _D[0]) * r + _ONE)
