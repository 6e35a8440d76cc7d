"""Numba kernels of the distributions that need a varying number of words: gamma and Poisson.

Attempt t of element i reads block i of the key derived with t, so an element's value depends on its
key and its place alone, never on how many attempts its neighbours needed.
"""

import numpy as np
from numba import float64, njit, uint32, uint64

from fx.backends.cpu._nb_draws import normal_of, open_unit
from fx.backends.cpu._nb_philox import _DERIVE, _block, _state
from fx.backends.cpu._nb_quantiles import exp64, log64

_32 = np.uint64(32)
_ZERO = np.uint32(0)


@njit(inline="always")
def _attempt_state(state, attempt):
    """The state of the key derived with ``attempt`` from a key in ``state``."""
    a, b, c, d = _block(uint32(attempt), _DERIVE, state[2], state[3], state[0], state[1])
    return _block(c, d, _ZERO, _ZERO, a, b)


@njit(inline="always")
def _words(state, i):
    """Block i of a state: four words."""
    return _block(uint32(i), uint32(uint64(i) >> _32), state[2], state[3], state[0], state[1])


@njit(cache=True, nogil=True, error_model="numpy")
def gamma(keys, shapes, out, logarithm):
    """Standard gamma variates, or their logarithms.

    Source: Marsaglia and Tsang, "A simple method for generating gamma variables", ACM TOMS 26
    (2000). A shape a < 1 uses gamma(a + 1) * u ** (1 / a), with u from block i of the key itself.
    keys (rows, 6); shapes (rows * n) or (1) float64; out (rows, n) float64.
    """
    rows, n = out.shape
    step = 1 if shapes.size > 1 else 0
    pending = np.empty(n, np.int64)
    for row in range(rows):
        own = _state(keys[row])
        count = 0
        for i in range(n):
            a = shapes[(row * n + i) * step]
            if a > 0.0 and a < np.inf:
                pending[count] = i
                count += 1
            elif a == 0.0:
                out[row, i] = -np.inf if logarithm else 0.0
            else:
                out[row, i] = np.inf if a > 0.0 else np.nan
        attempt = 0
        while count:
            state = _attempt_state(own, attempt)
            attempt += 1
            left = 0
            for j in range(count):
                i = pending[j]
                a = shapes[(row * n + i) * step]
                d = (a if a >= 1.0 else a + 1.0) - 1.0 / 3.0
                w0, w1, w2, w3 = _words(state, i)
                x = normal_of(w0, w1)
                root = 1.0 + x / np.sqrt(9.0 * d)
                v = root * root * root
                square = x * x
                u = open_unit(w2, w3, True)
                accepted = root > 0.0 and (
                    u < 1.0 - 0.0331 * square * square
                    or log64(u) < 0.5 * square + d * (1.0 - v + log64(v))
                )
                if not accepted:
                    pending[left] = i
                    left += 1
                    continue
                boost = 0.0
                if a < 1.0:
                    w0, w1, w2, w3 = _words(own, i)
                    boost = log64(open_unit(w0, w1, True)) / a
                if logarithm:
                    out[row, i] = log64(d * v) + boost
                else:
                    out[row, i] = d * v * exp64(boost) if a < 1.0 else d * v
            count = left


@njit(inline="always", error_model="numpy")
def _log_factorial(k, table):
    """log k! of a whole k >= 0: a table to 15, Stirling's series beyond."""
    if k < 16.0:
        return table[int(k)]
    x = k + 1.0
    r = 1.0 / (x * x)
    series = (8.333333333333333e-02 - r * (2.777777777777778e-03 - r * 7.936507936507937e-04)) / x
    return (x - 0.5) * log64(x) - x + 0.9189385332046727 + series


@njit(cache=True, nogil=True, error_model="numpy")
def poisson(keys, rates, factorials, out):
    """Poisson variates as float64; NaN for a rate that is negative or not finite.

    Sources: below 10 sequential inversion of one uniform; from 10 on the transformed rejection
    PTRS of Hoermann, "The transformed rejection method for generating Poisson random variables",
    Insurance: Mathematics and Economics 12 (1993).
    keys (rows, 6); rates (rows * n) or (1) float64; factorials (16) log k!; out (rows, n).
    """
    rows, n = out.shape
    step = 1 if rates.size > 1 else 0
    pending = np.empty(n, np.int64)
    for row in range(rows):
        own = _state(keys[row])
        count = 0
        for i in range(n):
            rate = rates[(row * n + i) * step]
            if rate >= 10.0 and rate < np.inf:
                pending[count] = i
                count += 1
            elif rate >= 0.0 and rate < 10.0:
                w0, w1, w2, w3 = _words(own, i)
                out[row, i] = _invert(rate, open_unit(w0, w1, True))
            else:
                out[row, i] = np.nan
        attempt = 0
        while count:
            state = _attempt_state(own, attempt)
            attempt += 1
            left = 0
            for j in range(count):
                i = pending[j]
                rate = rates[(row * n + i) * step]
                w0, w1, w2, w3 = _words(state, i)
                k = _transformed(
                    rate, open_unit(w0, w1, True) - 0.5, open_unit(w2, w3, True), factorials
                )
                if k < 0.0:
                    pending[left] = i
                    left += 1
                else:
                    out[row, i] = k
            count = left


@njit(inline="always", error_model="numpy")
def _invert(rate, u):
    """The smallest k with P(X <= k) >= u."""
    k = 0.0
    mass = exp64(-rate)
    total = mass
    while u > total and k < 200.0:
        k += 1.0
        mass *= rate / k
        total += mass
    return k


@njit(inline="always", error_model="numpy")
def _transformed(rate, u, v, factorials):
    """The proposal of one attempt, or -1 where it is rejected."""
    b = 0.931 + 2.53 * np.sqrt(rate)
    a = -0.059 + 0.02483 * b
    distance = 0.5 - abs(u)
    k = np.floor((2.0 * a / distance + b) * u + rate + 0.43)
    if distance >= 0.07 and v <= 0.9277 - 3.6224 / (b - 2.0):
        return float64(k)
    if k < 0.0 or (distance < 0.013 and v > distance):
        return -1.0
    scaled = log64(v * (1.1239 + 1.1328 / (b - 3.4)) / (a / (distance * distance) + b))
    if scaled <= k * log64(rate) - rate - _log_factorial(k, factorials):
        return float64(k)
    return -1.0
