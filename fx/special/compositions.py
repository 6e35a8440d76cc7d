"""``scipy.special``'s functions that are made of others: counting, information, distributions."""

from __future__ import annotations

import math
from typing import Any

from fx.ops.indexing.searching import where
from fx.ops.operands import alike, cast, floating, operands
from fx.ops.pointwise.composed import xlogy
from fx.ops.pointwise.elementwise import abs as absolute
from fx.ops.pointwise.elementwise import (
    exp,
    expm1,
    floor,
    hypot,
    lgamma,
    log,
    log1p,
    round,
    sin,
)
from fx.prims.gamma_ratios import log_gamma_step
from fx.special.functions import (
    beta,
    gamma,
    gamma_sign,
    gammainc,
    gammaincc,
    together,
    widened,
    zeta,
)
from fx.tensor import Tensor

# counting ---------------------------------------------------------------------------------------


def rgamma(x: Any) -> Tensor:
    """1 / gamma(x), which is 0 where that has its poles."""
    x = floating("rgamma", x)
    wide = widened(x)
    near = wide < 0.5  # mirrored: sin(pi x) gamma(1 - x) / pi, of which the slope is right at poles
    whole = round(wide)
    rest = where(absolute(wide) < 0.5, wide, wide - whole)
    mirrored = sin(rest * math.pi) * gamma(1.0 - where(near, wide, 0.0)) / math.pi
    below = where(whole * 0.5 != floor(whole * 0.5), -mirrored, mirrored)
    far = (wide < -170.0) & (whole == wide)  # where gamma is infinite
    found = where(near, where(far, 0.0, below), 1.0 / gamma(where(near, 1.0, wide)))
    return cast(found, x._dtype)


def poch(z: Any, m: Any) -> Tensor:
    """gamma(z + m) / gamma(z).

    Example:
        >>> import fx
        >>> fx.special.poch(fx.tensor([2.0, -2.5]), 3.0)
        tensor([24.0000, -1.8750])
    """
    dtype = alike("poch", z, m)[0]._dtype
    z, m = together("poch", z, m)
    upper = z + m
    # of whole steps below 0 it is (-1)^m gamma(1 - z) / gamma(1 - z - m), which has no poles there
    below = (round(m) == m) & (z < 1) & (upper < 1) & ~((z > 0) & (upper > 0))
    first, step = where(below, 1.0 - upper, z), where(below, m, upper - z)
    plain = (first > 0) & (first + step > 0)
    found = exp(-log_gamma_step(where(plain, first, 1.0), where(plain, step, 0.0)))
    found = where(below & (m % 2.0 != 0), -found, found)
    other, last = where(plain, 0.5, z), where(plain, 0.5, upper)
    rest = gamma_sign(other, last) * exp(lgamma(last) - lgamma(other))
    return cast(where(plain, found, rest), dtype)


def binom(n: Any, k: Any) -> Tensor:
    """The binomial coefficient of real numbers.

    Example:
        >>> import fx
        >>> fx.special.binom(2.5, fx.tensor([0.5, 1.0]))
        tensor([1.8750, 2.5000])
    """
    dtype = alike("binom", n, k)[0]._dtype
    n, k = together("binom", n, k)
    return cast(1.0 / ((n + 1.0) * beta(n - k + 1.0, k + 1.0)), dtype)


def factorial(n: Any) -> Tensor:
    """gamma(n + 1); 0 for negative n."""
    n = floating("factorial", n)
    return where(n < 0, 0.0, gamma(where(n < 0, 0.0, n) + 1.0))  # type: ignore[no-any-return]


def zetac(x: Any) -> Tensor:
    """Riemann's zeta function less 1, for x > 1."""
    return zeta(x, 2.0)


# powers -----------------------------------------------------------------------------------------


def exp10(x: Any) -> Tensor:
    """10 ** x."""
    return 10.0 ** floating("exp10", x)  # type: ignore[no-any-return]


def cosm1(x: Any) -> Tensor:
    """cos(x) - 1, precise around 0."""
    half = sin(floating("cosm1", x) * 0.5)
    return half * half * -2.0  # type: ignore[no-any-return]


def powm1(x: Any, y: Any) -> Tensor:
    """x ** y - 1 for positive x, precise where that is small."""
    return expm1(xlogy(*reversed(operands("powm1", x, y, True))))  # type: ignore[no-any-return]


def boxcox(x: Any, lmbda: Any) -> Tensor:
    """(x ** lmbda - 1) / lmbda; log(x) where lmbda is 0."""
    x, lmbda = operands("boxcox", x, lmbda, True)
    return _grown(log(x), lmbda)


def boxcox1p(x: Any, lmbda: Any) -> Tensor:
    """``boxcox`` of 1 + x."""
    x, lmbda = operands("boxcox1p", x, lmbda, True)
    return _grown(log1p(x), lmbda)


def _grown(logs: Tensor, lmbda: Tensor) -> Tensor:
    flat = lmbda == 0
    by = where(flat, 1.0, lmbda)
    return where(flat, logs, expm1(by * logs) / by)  # type: ignore[no-any-return]


def inv_boxcox(y: Any, lmbda: Any) -> Tensor:
    """The x with boxcox(x, lmbda) = y."""
    return exp(_logs("inv_boxcox", y, lmbda))  # type: ignore[no-any-return]


def inv_boxcox1p(y: Any, lmbda: Any) -> Tensor:
    """The x with boxcox1p(x, lmbda) = y."""
    return expm1(_logs("inv_boxcox1p", y, lmbda))  # type: ignore[no-any-return]


def _logs(name: str, y: Any, lmbda: Any) -> Tensor:
    y, lmbda = operands(name, y, lmbda, True)
    flat = lmbda == 0
    by = where(flat, 1.0, lmbda)
    return where(flat, y, log1p(by * y) / by)  # type: ignore[no-any-return]


# information and losses -------------------------------------------------------------------------


def rel_entr(x: Any, y: Any) -> Tensor:
    """x log(x / y); 0 where x is 0 and y is not negative, inf outside."""
    x, y = operands("rel_entr", x, y, True)
    inside = (x > 0) & (y > 0)
    a, b = where(inside, x, 1.0), where(inside, y, 1.0)
    ratio = a / b
    apart = (ratio < 1e-30) | (ratio > 1e30)  # where a quotient may leave the range of floats
    logs = where(apart, log(a) - log(b), log(where(apart, 1.0, ratio)))
    outside = where((x == 0) & (y >= 0), 0.0, math.inf)
    outside = where((x != x) | (y != y), math.nan, outside)
    return where(inside, a * logs, outside)  # type: ignore[no-any-return]


def kl_div(x: Any, y: Any) -> Tensor:
    """x log(x / y) - x + y, the summand of a divergence of numbers that are not normalised."""
    x, y = operands("kl_div", x, y, True)
    near = (x > 0) & (absolute(y - x) < 0.5 * x)
    x_near = where(near, x, 1.0)
    part = where(near, y - x, 0.0) / x_near
    small = x_near * (part - log1p(part))  # the sum of three would leave nothing
    found = rel_entr(where(near, 0.0, x), where(near, 1.0, y))
    apart = where(found == math.inf, found, found - x + y)
    return where(near, small, apart)  # type: ignore[no-any-return]


def huber(delta: Any, r: Any) -> Tensor:
    """r^2 / 2 up to delta, then its tangent; inf for a negative delta."""
    delta, r = operands("huber", delta, r, True)
    size = absolute(r)
    small = where(size <= delta, r, 0.0)
    found = where(size <= delta, small * small * 0.5, delta * (size - delta * 0.5))
    return where(delta < 0, math.inf, found)  # type: ignore[no-any-return]


def pseudo_huber(delta: Any, r: Any) -> Tensor:
    """delta^2 (sqrt(1 + (r / delta)^2) - 1); 0 where delta is 0, inf below."""
    delta, r = operands("pseudo_huber", delta, r, True)
    none = delta == 0
    by = where(none, 1.0, delta)
    ratio = r / by
    found = by * r * (ratio / (hypot(ratio, 1.0) + 1.0))
    return where(delta < 0, math.inf, where(none & (r == r), 0.0, found))  # type: ignore[no-any-return]


# distribution functions -------------------------------------------------------------------------


def chdtr(v: Any, x: Any) -> Tensor:
    """The chi-squared distribution's function, of v degrees of freedom."""
    v, x = operands("chdtr", v, x, True)
    return gammainc(v * 0.5, x * 0.5)


def chdtrc(v: Any, x: Any) -> Tensor:
    """1 - chdtr(v, x), without the loss of digits."""
    v, x = operands("chdtrc", v, x, True)
    return gammaincc(v * 0.5, x * 0.5)


def pdtr(k: Any, m: Any) -> Tensor:
    """The Poisson distribution's function: at most k events where m are expected."""
    k, m = operands("pdtr", k, m, True)
    return gammaincc(k.floor() + 1.0, m)


def pdtrc(k: Any, m: Any) -> Tensor:
    """1 - pdtr(k, m), without the loss of digits."""
    k, m = operands("pdtrc", k, m, True)
    return gammainc(k.floor() + 1.0, m)


def log_expit(x: Any) -> Tensor:
    """log(expit(x)), which does not vanish for large negative x."""
    x = floating("log_expit", x)
    return where(x < 0, x, 0.0) - log1p(exp(-absolute(x)))  # type: ignore[no-any-return]
