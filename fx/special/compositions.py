"""``scipy.special``'s functions that are made of others: counting, information, distributions."""

from __future__ import annotations

import math
from typing import Any

from fx.ops.indexing.searching import where
from fx.ops.operands import cast, floating, operands
from fx.ops.pointwise.composed import xlogy
from fx.ops.pointwise.elementwise import abs as absolute
from fx.ops.pointwise.elementwise import (
    exp,
    expm1,
    floor,
    lgamma,
    log,
    log1p,
    round,
    sin,
    sqrt,
)
from fx.special.functions import beta, gamma, gammainc, gammaincc, widened, zeta
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
    """gamma(z + m) / gamma(z), for positive arguments."""
    z, m = operands("poch", z, m, True)
    return exp(lgamma(z + m) - lgamma(z))  # type: ignore[no-any-return]


def binom(n: Any, k: Any) -> Tensor:
    """The binomial coefficient of real numbers 0 <= k <= n.

    Example:
        >>> import fx
        >>> fx.special.binom(2.5, fx.tensor([0.5, 1.0]))
        tensor([1.8750, 2.5000])
    """
    n, k = operands("binom", n, k, True)
    return 1.0 / ((n + 1.0) * beta(n - k + 1.0, k + 1.0))  # type: ignore[no-any-return]


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
    outside = where((x == 0) & (y >= 0), 0.0, math.inf)
    outside = where((x != x) | (y != y), math.nan, outside)
    return where(inside, a * log(a / b), outside)  # type: ignore[no-any-return]


def kl_div(x: Any, y: Any) -> Tensor:
    """x log(x / y) - x + y, the summand of a divergence of numbers that are not normalised."""
    x, y = operands("kl_div", x, y, True)
    found = rel_entr(x, y)
    return where(found == math.inf, found, found - x + y)  # type: ignore[no-any-return]


def huber(delta: Any, r: Any) -> Tensor:
    """r^2 / 2 up to delta, then its tangent; inf for a negative delta."""
    delta, r = operands("huber", delta, r, True)
    size = absolute(r)
    small = where(size <= delta, r, 0.0)
    found = where(size <= delta, small * small * 0.5, delta * (size - delta * 0.5))
    return where(delta < 0, math.inf, found)  # type: ignore[no-any-return]


def pseudo_huber(delta: Any, r: Any) -> Tensor:
    """delta^2 (sqrt(1 + (r / delta)^2) - 1), for positive delta."""
    delta, r = operands("pseudo_huber", delta, r, True)
    ratio = r / delta
    square = ratio * ratio
    return delta * delta * (square / (sqrt(1.0 + square) + 1.0))  # type: ignore[no-any-return]


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
