"""Functions of one float64 in Numba: log, exp and the normal quantile of ``_formulas``.

They branch nowhere, and take numbers apart by their bits.
"""

import numpy as np
from numba import float64, int64

from fx.backends.cpu import _formulas
from fx.backends.cpu._formulas import LN2_HIGH as _LN2_HIGH
from fx.backends.cpu._formulas import LN2_LOW as _LN2_LOW
from fx.backends.cpu.irregular.language import inline

_log_of_parts, _center, _middle, _far = map(
    inline, (_formulas.log_of_parts64, _formulas.center64, _formulas.middle64, _formulas.far64)
)
_EXPONENT_OF_ONE = np.int64(0x3FF0000000000000)
_BITS_OF_SQRT_HALF = np.int64(0x3FE6A09E00000000)
_MANTISSA = np.int64(0x000FFFFFFFFFFFFF)


@inline
def log64(x):
    """log x of a normal positive float64, within one unit in the last place."""
    bits = np.float64(x).view(np.int64) + (_EXPONENT_OF_ONE - _BITS_OF_SQRT_HALF)
    k = np.float64((bits >> np.int64(52)) - np.int64(1023))
    m = np.int64((bits & _MANTISSA) + _BITS_OF_SQRT_HALF).view(np.float64)
    return _log_of_parts(k, m - 1.0)


@inline
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


@inline
def normal_of(high, low):
    """A standard normal float64 from 64 bits, as precise in the tails as at the center."""
    x = (high << 32) | low
    y = x ^ (x >> 63)  # x, or -1 - x where it is negative
    q = (float64(x) + 0.5) * 2.0**-64
    tail = (float64(np.int64(0x7FFFFFFFFFFFFFFF) - y) + 0.5) * 2.0**-64
    center = _center(q)
    t = np.sqrt(-log64(tail))
    outer = _middle(t) if t <= 5.0 else _far(t)
    outer = -outer if q < 0.0 else outer
    return center if abs(q) <= 0.425 else outer
