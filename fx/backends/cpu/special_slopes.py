"""Numbers that slopes of special functions need and SciPy does not give: two, by name."""

from __future__ import annotations

import math

import numpy as np

# nodes and weights on (0, inf) by t = exp(pi / 2 sinh(u)), for integrands with powers at both ends
_U = np.linspace(-4.3, 4.3, 261)
_T = np.exp(math.pi / 2 * np.sinh(_U))
_WEIGHTS = _T * (math.pi / 2) * np.cosh(_U) * (_U[1] - _U[0])


def carlson(*args: np.ndarray, which: str) -> np.ndarray:
    """Carlson's integrals and all their derivatives: of t^e over powers of t + x, y, z, p.

    ``which`` is "a,b,c,d,e", of

        int_0^inf t^e (t+x)^(-a-1/2) (t+y)^(-b-1/2) (t+z)^(-c-1/2) (t+p)^-d dt.

    Double exponential nodes reach over all scales, so that arguments of unlike size, and a zero
    among x, y, z, lose nothing. NaN where a real argument is negative.
    """
    *powers, of_t = [int(k) for k in which.split(",")]
    args = np.broadcast_arrays(*args)
    size = np.maximum.reduce([abs(a) for a in args])
    size = np.where(size > 0, size, 1.0)
    total, degree = 0.0, 1.0 + of_t
    with np.errstate(all="ignore"):
        parts = [a / size for a in args]
        for t, weight in zip(_T, _WEIGHTS, strict=True):
            value = weight * t**of_t
            for i, (part, power) in enumerate(zip(parts, powers, strict=True)):
                value = value * (t + part) ** -(power + (0.5 if i < 3 else 0.0))
            total = total + value
    degree -= sum(powers) + 1.5
    if args[0].dtype.kind != "c":  # across a pole or a cut nodes would say anything
        total = np.where(np.minimum.reduce(args) < 0, np.nan, total)
    return np.asarray(total * size**degree)


def smirnov_slope(n: np.ndarray, d: np.ndarray, *, which: str) -> np.ndarray:
    """A derivative in d, of the order that ``which`` says, of ``scipy.special.smirnov(n, d)``.

    That is a sum of d C(n, v) (d + v/n)^(v-1) (1 - d - v/n)^(n-v) over v with d + v/n < 1: each
    power is expanded around d, and the series of a term are multiplied.
    """
    order = int(which)
    each = np.vectorize(lambda n, d: _smirnov_at(int(n), float(d), order), otypes="d")
    return np.asarray(each(n, d))


def _series(base: np.ndarray, power: np.ndarray, sign: float, order: int) -> list[np.ndarray]:
    """The first coefficients in h of ((base + sign h) / base)^power."""
    out = [np.ones_like(base)]
    for k in range(order):
        out.append(out[-1] * (power - k) / (k + 1) * sign / base)
    return out


def _smirnov_at(n: int, d: float, order: int) -> float:
    from scipy.special import gammaln

    if not 0 < d < 1:
        return math.nan if math.isnan(d) else 0.0
    v = np.arange(n + 1.0)
    v = v[d + v / n < 1]
    up, down = d + v / n, 1 - d - v / n
    logs = gammaln(n + 1) - gammaln(v + 1) - gammaln(n - v + 1)
    scale = np.exp(logs + (v - 1) * np.log(up) + (n - v) * np.log(down))
    a, b = _series(up, v - 1, 1.0, order), _series(down, n - v, -1.0, order)
    product = [sum(a[i] * b[k - i] for i in range(k + 1)) for k in range(order + 1)]
    found = d * product[order] + (product[order - 1] if order else 0.0)
    return float((scale * found).sum() * math.factorial(order))
