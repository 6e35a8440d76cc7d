"""The distributions that need a varying number of words: gamma and Poisson.

Attempt t of element i reads block i of the key derived with t, so that an element depends on its
key and its place alone, never on how many attempts its neighbours needed.
"""

import numpy as np
from numba import int64

from fx.backends.cpu.irregular.language import FLOAT64S, INT, UINT32S, expanded, inline, offset
from fx.backends.cpu.irregular.philox import derived, open_unit, state, words
from fx.backends.cpu.irregular.quantiles import exp64, log64, normal_of

_KEY = 6
HALF_LOG_TAU = 0.9189385332046727  # log(2 pi) / 2


@inline
def states_of(keys, row):
    """The state of a row's key, and those of its first two attempts."""
    own = state(offset(keys, row * _KEY))
    return own, derived(own, 0), derived(own, 1)


@expanded
def accepted(attempt, states, i, parameter):
    """What the first attempt gives that is not rejected, which a negative number says."""
    own, first, second = states
    found = attempt(words(first, i), parameter)
    tried = int64(0)
    while found < 0.0:
        tried += 1
        found = attempt(words(second if tried == 1 else derived(own, tried), i), parameter)
    return found


def gamma(begin, end, keys: UINT32S, shapes: FLOAT64S, out: FLOAT64S, n: INT, step: INT,
          logarithm: INT):  # fmt: skip
    """Standard gamma variates, or their logarithms.

    Source: Marsaglia and Tsang, "A simple method for generating gamma variables", ACM TOMS 26
    (2000). A shape a < 1 uses gamma(a + 1) * u ** (1 / a), with u from block i of the key itself.
    A task is an element: keys (rows, 6), shapes (rows * n) or, with a ``step`` of 0, (1).
    """
    row = begin // n
    states = states_of(keys, row)
    for at in range(begin, end):
        if at // n != row:
            row = at // n
            states = states_of(keys, row)
        i = at - row * n
        a = shapes[at * step]
        if not (a > 0.0 and a < np.inf):
            out[at] = (-np.inf if logarithm else 0.0) if a == 0.0 else np.inf if a > 0.0 else np.nan
            continue
        d = (a if a >= 1.0 else a + 1.0) - 1.0 / 3.0
        v = accepted(_gamma_attempt, states, i, d)
        boost = 0.0
        if a < 1.0:
            w0, w1, _, _ = words(states[0], i)
            boost = log64(open_unit(w0, w1)) / a
        if logarithm:
            out[at] = log64(d * v) + boost
        else:
            out[at] = d * v * exp64(boost) if a < 1.0 else d * v


@inline
def _gamma_attempt(block, d):
    """What the variate is over d, or -1 where the attempt is rejected."""
    x = normal_of(block[0], block[1])
    root = 1.0 + x / np.sqrt(9.0 * d)
    if root <= 0.0:
        return -1.0
    v = root * root * root
    square = x * x
    u = open_unit(block[2], block[3])
    squeezed = u < 1.0 - 0.0331 * square * square
    if squeezed or log64(u) < 0.5 * square + d * (1.0 - v + log64(v)):
        return v
    return -1.0


def poisson(begin, end, keys: UINT32S, rates: FLOAT64S, out: FLOAT64S, n: INT, step: INT):
    """Poisson variates; NaN for a rate that is negative or not finite.

    Sources: below 10 sequential inversion of one uniform; from 10 on the transformed rejection
    PTRS of Hoermann, "The transformed rejection method for generating Poisson random variables",
    Insurance: Mathematics and Economics 12 (1993).
    A task is an element: keys (rows, 6), rates (rows * n) or, with a ``step`` of 0, (1).
    """
    row = begin // n
    states = states_of(keys, row)
    for at in range(begin, end):
        if at // n != row:
            row = at // n
            states = states_of(keys, row)
        i = at - row * n
        rate = rates[at * step]
        if rate >= 10.0 and rate < np.inf:
            out[at] = accepted(_poisson_attempt, states, i, rate)
        elif rate >= 0.0 and rate < 10.0:
            w0, w1, _, _ = words(states[0], i)
            out[at] = _invert(rate, open_unit(w0, w1))
        else:
            out[at] = np.nan


@inline
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


@inline
def _poisson_attempt(block, rate):
    """The proposal of one attempt, or -1 where it is rejected."""
    u, v = open_unit(block[0], block[1]) - 0.5, open_unit(block[2], block[3])
    b = 0.931 + 2.53 * np.sqrt(rate)
    a = -0.059 + 0.02483 * b
    distance = 0.5 - abs(u)
    k = np.floor((2.0 * a / distance + b) * u + rate + 0.43)
    if distance >= 0.07 and v <= 0.9277 - 3.6224 / (b - 2.0):
        return k
    if k < 0.0 or (distance < 0.013 and v > distance):
        return -1.0
    scaled = log64(v * (1.1239 + 1.1328 / (b - 3.4)) / (a / (distance * distance) + b))
    if scaled <= k * log64(rate) - rate - log_factorial(k):
        return k
    return -1.0


@inline
def log_factorial(k):
    """log k! of a whole k >= 0: a product to 15, Stirling's series beyond."""
    if k < 16.0:
        product, factor = 1.0, 2.0
        while factor <= k:
            product *= factor
            factor += 1.0
        return log64(product)
    x = k + 1.0
    r = 1.0 / (x * x)
    series = (8.333333333333333e-02 - r * (2.777777777777778e-03 - r * 7.936507936507937e-04)) / x
    return (x - 0.5) * log64(x) - x + HALF_LOG_TAU + series
