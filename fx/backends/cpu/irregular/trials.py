"""Counts of trials: binomial and multinomial.

Below a mean of 10 (of whatever is rarer, success or failure) one uniform is inverted step by step.
From there on Hoermann's transformed rejection BTRS proposes, and what it cannot settle by its
squeeze is settled by the mass itself, in Loader's form: no terms that grow with the trials cancel,
so that 2 ** 53 of them are no harder than 100. Blocks are read as in ``rejection.py``.

Sources: Hoermann, "The generation of binomial random variates", Journal of Statistical Computation
and Simulation 46 (1993); Loader, "Fast and accurate computation of binomial probabilities" (2000).
"""

import numpy as np

from fx.backends.cpu.irregular.language import FLOAT64S, INT, UINT32S, expanded, inline
from fx.backends.cpu.irregular.philox import open_unit, words
from fx.backends.cpu.irregular.quantiles import exp64, log64
from fx.backends.cpu.irregular.rejection import (
    HALF_LOG_TAU,
    accepted,
    log_factorial,
    states_of,
)


def binomial(begin, end, keys: UINT32S, counts: FLOAT64S, chances: FLOAT64S, out: FLOAT64S, n: INT,
             count_step: INT, chance_step: INT):  # fmt: skip
    """How many of a count of trials succeed: NaN where a parameter is none, inf of infinitely many.

    A task is an element: keys (rows, 6), counts and chances (rows * n) or, with a step of 0, (1).
    A count is rounded down.
    """
    row = begin // n
    states = states_of(keys, row)
    last_trials, last_p, start = -1.0, -1.0, 0.0  # one pair often serves many elements
    for at in range(begin, end):
        if at // n != row:
            row = at // n
            states = states_of(keys, row)
        trials, p = np.floor(counts[at * count_step]), chances[at * chance_step]
        if not (trials >= 0.0 and p >= 0.0 and p <= 1.0):
            out[at] = np.nan
        elif trials == np.inf:
            out[at] = np.inf
        else:
            if trials != last_trials or p != last_p:
                last_trials, last_p, start = trials, p, _prepared(trials, min(p, 1.0 - p))
            out[at] = _successes(states, at - row * n, trials, p, 1.0 - p, start)


def multinomial(begin, end, keys: UINT32S, counts: FLOAT64S, weights: FLOAT64S, out: FLOAT64S,
                n: INT, count_step: INT, weight_step: INT, classes: INT):  # fmt: skip
    """How often each class comes in a count of draws, by weights that need not sum to 1.

    One class after the other takes its binomial share of what is left. A task is a row of classes:
    keys (., 6) of n rows each, counts (rows) or (1), weights and out (rows, classes). NaN where the
    count or a weight is none, or where there is no weight.
    """
    row = begin // n
    states = states_of(keys, row)
    for at in range(begin, end):
        if at // n != row:
            row = at // n
            states = states_of(keys, row)
        first, rest = at * classes, 0.0
        left = np.floor(counts[at * count_step])
        valid = left >= 0.0 and left < np.inf
        for j in range(classes - 1, -1, -1):  # summed from the end, no class is above its rest
            w = weights[(first + j) * weight_step]
            valid = valid and w >= 0.0
            rest += w
            out[first + j] = rest
        valid = valid and rest < np.inf and (rest > 0.0 or left == 0.0)
        for j in range(classes):
            share, w = out[first + j], weights[(first + j) * weight_step]
            below = out[first + j + 1] if j + 1 < classes else 0.0
            if not valid:
                out[first + j] = np.nan
            elif left == 0.0 or w == 0.0:
                out[first + j] = 0.0
            elif below == 0.0:
                out[first + j], left = left, 0.0
            else:
                i = (at - row * n) * classes + j
                p, q = w / share, below / share
                taken = _successes(states, i, left, p, q, _prepared(left, min(p, q)))
                out[first + j] = taken
                left -= taken


@inline
def _prepared(trials, rare):
    """What all draws of some parameters share: P(X = 0) where they invert, else the deviation."""
    if trials * rare < 10.0:
        return exp64(trials * _log_rest(rare))
    return np.sqrt(trials * rare * (1.0 - rare))


@expanded
def _successes(states, i, trials, p, q, start):
    """Element i: the count for chances p of success and q = 1 - p of failure, both as they are."""
    rare = min(p, q)
    if trials * rare < 10.0:
        w0, w1, _, _ = words(states[0], i)
        found = _inverted(trials, rare, start, open_unit(w0, w1))
    else:
        found = accepted(_attempt, states, i, (trials, rare, start))
    return found if p <= q else trials - found


@inline
def _inverted(trials, p, start, u):
    """The smallest k with P(X <= k) >= u."""
    k, odds = 0.0, p / (1.0 - p)
    mass = total = start
    while u > total and k < trials and k < 200.0:
        mass *= (trials - k) / (k + 1.0) * odds
        k += 1.0
        total += mass
    return k


@inline
def _log_rest(p):
    """log(1 - p), precise for small p as well."""
    rest = 1.0 - p
    return -p if rest == 1.0 else log64(rest) * (p / (1.0 - rest))


@inline
def _attempt(block, parameters):
    """The proposal of one attempt, or -1 where it is rejected."""
    n, p, deviation = parameters
    u, v = open_unit(block[0], block[1]) - 0.5, open_unit(block[2], block[3])
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    distance = 0.5 - abs(u)
    k = np.floor((2.0 * a / distance + b) * u + n * p + 0.5)
    if distance >= 0.07 and v <= 0.92 - 4.2 / b:
        return k
    if k < 0.0 or k > n:
        return -1.0
    scaled = log64(v * (2.83 + 5.1 / b) * deviation / (a / (distance * distance) + b))
    mode = np.floor((n + 1.0) * p)
    return k if scaled <= _log_ratio(k, mode, n, p) else -1.0


@inline
def _log_ratio(k, mode, n, p):
    """log P(X = k) / P(X = mode), 0 < mode < n."""
    rest, other, mean, failures = n - k, n - mode, n * p, n * (1.0 - p)
    of_mode = _stirling_error(mode) + _stirling_error(other)
    of_mode += _deviance(mode, mean) + _deviance(other, failures)
    if k <= 0.0 or rest <= 0.0:
        whole = n * _log_rest(p) if k <= 0.0 else n * log64(p)
        # the mass at the mode has its factor sqrt(n / (2 pi mode (n - mode)))
        return whole - _stirling_error(n) + of_mode - 0.5 * log64(n / mode / other) + HALF_LOG_TAU
    own = _stirling_error(k) + _stirling_error(rest)
    own += _deviance(k, mean) + _deviance(rest, failures)
    return of_mode - own + 0.5 * log64(mode / k * (other / rest))


@inline
def _stirling_error(k):
    """log k! without (k + 1/2) log k - k + log(2 pi) / 2, for whole k >= 1."""
    if k < 16.0:
        return log_factorial(k) - ((k + 0.5) * log64(k) - k + HALF_LOG_TAU)
    r = 1.0 / (k * k)
    return (
        8.333333333333333e-02
        - r * (2.777777777777778e-03 - r * (7.936507936507937e-04 - r * 5.952380952380953e-04))
    ) / k


@inline
def _deviance(x, mean):
    """x log(x / mean) + mean - x, of which near the mean only the difference of the two is used."""
    away = x - mean
    v = away / (x + mean)
    if abs(v) >= 0.1:
        return x * log64(x / mean) - away
    s = v * v
    series = s * (1 / 3 + s * (1 / 5 + s * (1 / 7 + s * (1 / 9 + s * (
        1 / 11 + s * (1 / 13 + s * (1 / 15 + s * (1 / 17 + s / 19))))))))  # fmt: skip
    return v * (away + 2.0 * x * series)
