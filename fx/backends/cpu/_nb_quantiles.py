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

from fx.backends.cpu import _formulas
from fx.backends.cpu._formulas import LN2_HIGH as _LN2_HIGH
from fx.backends.cpu._formulas import LN2_LOW as _LN2_LOW

_inline = njit(inline="always", error_model="numpy")
_log_of_parts64, _center64, _middle64, _far64, _log_of_parts32, _center32, _outer32 = map(
    _inline,
    (
        _formulas.log_of_parts64,
        _formulas.center64,
        _formulas.middle64,
        _formulas.far64,
        _formulas.log_of_parts32,
        _formulas.center32,
        _formulas.outer32,
    ),
)

# float64 ----------------------------------------------------------------------------------------

_EXPONENT_OF_ONE = np.int64(0x3FF0000000000000)
_BITS_OF_SQRT_HALF = np.int64(0x3FE6A09E00000000)
_MANTISSA = np.int64(0x000FFFFFFFFFFFFF)


@njit(inline="always", error_model="numpy")
def log64(x):
    """log x of a normal positive float64, within one unit in the last place."""
    bits = np.float64(x).view(np.int64) + (_EXPONENT_OF_ONE - _BITS_OF_SQRT_HALF)
    k = np.float64((bits >> np.int64(52)) - np.int64(1023))
    m = np.int64((bits & _MANTISSA) + _BITS_OF_SQRT_HALF).view(np.float64)
    return _log_of_parts64(k, m - 1.0)


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
    center = _center64(q)
    t = np.sqrt(-log64(tail))
    middle, far = _middle64(t), _far64(t)
    outer = middle if t <= 5.0 else far
    outer = -outer if q < 0.0 else outer
    return center if abs(q) <= 0.425 else outer


# float32 ----------------------------------------------------------------------------------------

_EXPONENT_OF_ONE32 = np.int32(0x3F800000)
_BITS_OF_SQRT_HALF32 = np.int32(0x3F3504F3)
_MANTISSA32 = np.int32(0x007FFFFF)
_SPLIT, _ONE = np.float32(0.425), np.float32(1.0)


@njit(inline="always", error_model="numpy")
def log32(x):
    """log x of a normal positive float32, within one unit in the last place."""
    bits = int32(np.float32(x).view(np.int32) + (_EXPONENT_OF_ONE32 - _BITS_OF_SQRT_HALF32))
    k = float32(int32(bits >> int32(23)) - int32(127))
    m = np.int32((bits & _MANTISSA32) + _BITS_OF_SQRT_HALF32).view(np.float32)
    return _log_of_parts32(k, m - _ONE)


@njit(inline="always", error_model="numpy")
def normal_quantile32(q, tail):
    """The same in float32, for tail = 1/2 - |q| >= 1.4e-11."""
    center = _center32(q)
    outer = _outer32(np.sqrt(-log32(tail)))
    outer = -outer if q < 0 else outer
    return center if abs(q) <= _SPLIT else outer
