"""``scipy.special``'s functions that are made of others: distributions, counting, polynomials."""

from __future__ import annotations

import math
from functools import wraps
from typing import Any

from fx.ops.indexing.searching import where
from fx.ops.operands import alike, cast, floating, public
from fx.ops.pointwise.activations import softplus as _softplus
from fx.ops.pointwise.elementwise import abs as absolute
from fx.ops.pointwise.elementwise import exp, floor, fmod, lgamma, sign, sin
from fx.special import named as _named
from fx.special.compositions import binom, poch
from fx.special.functions import betainc, gamma, gammainc, gammaincc, together
from fx.special.polynomials import eval_chebyt, eval_chebyu, eval_legendre
from fx.tensor import Tensor

_by = vars(_named)

# distribution functions -------------------------------------------------------------------------


def _in_double(function: Any) -> Any:
    """A function of tensors whose arguments are differences of others: computed in float64."""

    @wraps(function)
    def narrowed(*args: Any) -> Tensor:
        name = function.__name__
        dtype = alike(name, *args)[0]._dtype
        return cast(function(*together(name, *args)), dtype)

    return narrowed


@_in_double
def betaincc(a: Any, b: Any, x: Any) -> Tensor:
    """1 - betainc(a, b, x), without the loss of digits for small x."""
    return betainc(b, a, 1.0 - x)


@_in_double
def betainccinv(a: Any, b: Any, y: Any) -> Tensor:
    """The x with betaincc(a, b, x) = y."""
    return 1.0 - _by["betaincinv"](b, a, y)  # type: ignore[no-any-return]


@_in_double
def bdtr(k: Any, n: Any, p: Any) -> Tensor:
    """The binomial distribution's function: at most k of n, each of chance p."""
    k = floor(k)
    last = k >= n
    found = betainc(where(last, 1.0, n - k), k + 1.0, 1.0 - p)
    return where(_chance(n, p), where(last, 1.0, found), math.nan)  # type: ignore[no-any-return]


@_in_double
def bdtrc(k: Any, n: Any, p: Any) -> Tensor:
    """1 - bdtr(k, n, p), without the loss of digits."""
    k = floor(k)
    last = k >= n
    found = where(last, 0.0, betainc(k + 1.0, where(last, 1.0, n - k), p))
    return where(_chance(n, p), found, math.nan)  # type: ignore[no-any-return]


def _chance(n: Tensor, p: Tensor) -> Tensor:
    return (n >= 0) & (p >= 0) & (p <= 1)  # type: ignore[no-any-return]


@_in_double
def nbdtr(k: Any, n: Any, p: Any) -> Tensor:
    """The negative binomial's function: at most k failures before the n-th success."""
    return betainc(n, floor(k) + 1.0, p)


@_in_double
def nbdtrc(k: Any, n: Any, p: Any) -> Tensor:
    """1 - nbdtr(k, n, p), without the loss of digits."""
    return betainc(floor(k) + 1.0, n, 1.0 - p)


@_in_double
def fdtr(dfn: Any, dfd: Any, x: Any) -> Tensor:
    """The F distribution's function."""
    return betainc(dfn * 0.5, dfd * 0.5, _ratio(dfn, dfd, x))


def _ratio(dfn: Tensor, dfd: Tensor, x: Tensor) -> Tensor:
    """dfn x / (dfd + dfn x), NaN where there is no such distribution."""
    inside, far = (dfn > 0) & (dfd > 0) & (x >= 0), x == math.inf
    near = where(far, 1.0, x)
    found = where(far, 1.0, dfn * near / (dfd + dfn * near))
    return where(inside, found, math.nan)  # type: ignore[no-any-return]


@_in_double
def fdtrc(dfn: Any, dfd: Any, x: Any) -> Tensor:
    """1 - fdtr(dfn, dfd, x), without the loss of digits."""
    inside = (dfn > 0) & (dfd > 0) & (x >= 0)
    return betainc(dfd * 0.5, dfn * 0.5, where(inside, dfd / (dfd + dfn * x), math.nan))


@_in_double
def fdtri(dfn: Any, dfd: Any, p: Any) -> Tensor:
    """The x with fdtr(dfn, dfd, x) = p."""
    y = _by["betaincinv"](dfn * 0.5, dfd * 0.5, p)
    return dfd * y / (dfn * (1.0 - y))  # type: ignore[no-any-return]


@_in_double
def gdtr(a: Any, b: Any, x: Any) -> Tensor:
    """The gamma distribution's function, of rate a and shape b."""
    return gammainc(b, where((a >= 0) & (x >= 0), a * x, math.nan))


@_in_double
def gdtrc(a: Any, b: Any, x: Any) -> Tensor:
    """1 - gdtr(a, b, x), without the loss of digits."""
    return gammaincc(b, where((a >= 0) & (x >= 0), a * x, math.nan))


def gdtrix(a: Any, b: Any, p: Any) -> Tensor:
    """The x with gdtr(a, b, x) = p."""
    a, b, p = alike("gdtrix", a, b, p)
    return _by["gammaincinv"](b, p) / a  # type: ignore[no-any-return]


def chdtri(v: Any, p: Any) -> Tensor:
    """The x with chdtrc(v, x) = p."""
    v, p = alike("chdtri", v, p)
    return _by["gammainccinv"](v * 0.5, p) * 2.0  # type: ignore[no-any-return]


def pdtri(k: Any, y: Any) -> Tensor:
    """The mean m with pdtr(k, m) = y."""
    k, y = alike("pdtri", k, y)
    return _by["gammainccinv"](floor(k) + 1.0, y)  # type: ignore[no-any-return]


# counting ---------------------------------------------------------------------------------------


def comb(N: Any, k: Any) -> Tensor:
    """In how many ways k of N are chosen; 0 unless 0 <= k <= N."""
    N, k = alike("comb", N, k)
    inside = (k <= N) & (k >= 0)
    return where(inside, binom(where(inside, N, 1.0), where(inside, k, 1.0)), 0.0)  # type: ignore[no-any-return]


def perm(N: Any, k: Any) -> Tensor:
    """In how many orders k of N are taken; 0 unless 0 <= k <= N."""
    N, k = alike("perm", N, k)
    inside = (k <= N) & (k >= 0)
    N, k = where(inside, N, 1.0), where(inside, k, 1.0)
    return where(inside, poch(N - k + 1.0, k), 0.0)  # type: ignore[no-any-return]


def factorial2(n: Any) -> Tensor:
    """The product of every second number up to a whole number n; 0 of negative ones."""
    n = floating("factorial2", n)
    below = n < 0
    half = where(below, 1.0, n) * 0.5
    odd = (floor(half) != half).astype(n.dtype)
    scale = exp(half * math.log(2.0) + odd * (0.5 * math.log(2.0 / math.pi)))
    return where(below, 0.0, scale * gamma(half + 1.0))  # type: ignore[no-any-return]


def loggamma(z: Any) -> Tensor:
    """log(gamma(z)) of real numbers, NaN below 0; ``lgamma`` gives that of the absolute value."""
    z = floating("loggamma", z)
    return where(z < 0, math.nan, lgamma(z))  # type: ignore[no-any-return]


# angles, roots, means ---------------------------------------------------------------------------


def _in_degrees(name: str, function: Any, turn: float) -> Any:
    def degrees(x: Any) -> Tensor:
        x = floating(name, x)
        below = x < 0  # mirrored, so that small angles keep their digits
        found = function(fmod(where(below, -x, x), 360.0), turn)
        return found if name == "cosdg" else where(below, -found, found)  # type: ignore[no-any-return]

    degrees.__name__ = degrees.__qualname__ = name
    degrees.__doc__ = f"The {name[:3]} of an angle in degrees."
    return degrees


def _sine(x: Tensor, turn: float) -> Tensor:
    """sin(x + turn), by the quarter that it lies in, so that zeros are zeros."""
    x = x + turn
    x = x - floor(x * (1.0 / 360.0)) * 360.0
    half = x >= 180.0
    x = where(half, x - 180.0, x)
    x = where(x > 90.0, 180.0 - x, x)
    return where(half, -1.0, 1.0) * sin(x * (math.pi / 180.0))  # type: ignore[no-any-return]


def _tangent(x: Tensor, turn: float) -> Tensor:
    return _sine(x, turn) / _sine(x, turn + 90.0)  # type: ignore[no-any-return]


sindg, cosdg = _in_degrees("sindg", _sine, 0.0), _in_degrees("cosdg", _sine, 90.0)
tandg = _in_degrees("tandg", _tangent, 0.0)
cotdg = _in_degrees("cotdg", lambda x, _: 1.0 / _tangent(x, 0.0), 0.0)


def radian(d: Any, m: Any, s: Any) -> Tensor:
    """Degrees, minutes and seconds as radians."""
    d, m, s = alike("radian", d, m, s)
    return (d + (m + s / 60.0) / 60.0) * (math.pi / 180.0)  # type: ignore[no-any-return]


def cbrt(x: Any) -> Tensor:
    """The real cube root."""
    x = floating("cbrt", x)
    return sign(x) * absolute(x) ** (1.0 / 3.0)  # type: ignore[no-any-return]


def agm(a: Any, b: Any) -> Tensor:
    """The arithmetic-geometric mean of numbers of one sign; NaN of others.

    Example:
        >>> import fx
        >>> fx.special.agm(fx.tensor([1.0, 24.0]), fx.tensor([1e-20, 6.0]))
        tensor([ 0.0331, 13.4582])
    """
    a, b = alike("agm", a, b)
    first, apart = a * a < b * b, sign(a) * sign(b) < 0
    small, large = where(first, a, b), where(first, b, a)
    ends = (large == 0) | (absolute(large) == math.inf) | (small == 0)
    ratio = where(ends, 1.0, small) / where(ends, 1.0, large)
    found = large * ((1.0 + ratio) * (math.pi / 4))
    # 1 - m is 4 a b / (a + b)^2, and keeps its digits where m is nearly 1
    rest = ratio * 4.0 / ((1.0 + ratio) * (1.0 + ratio))
    found = found / _by["ellipkm1"](where(apart, 1.0, rest))
    found = where(ends, where(small == 0, small * large, large), found)
    return where(apart, math.nan, found)  # type: ignore[no-any-return]


def softplus(x: Any) -> Tensor:
    """log(1 + exp(x)), which neither overflows nor loses small values."""
    return _softplus(floating("softplus", x))  # type: ignore[no-any-return]


def voigt_profile(x: Any, sigma: Any, gamma: Any) -> Tensor:
    """The density of the sum of a normal and a Cauchy variable; positive sigma."""
    x, sigma, gamma = alike("voigt_profile", x, sigma, gamma)
    scale = 1.0 / (sigma * math.sqrt(2.0))
    z = (x + gamma * 1j) * scale
    return _named.wofz(z).real * (scale * (1.0 / math.sqrt(math.pi)))  # type: ignore[no-any-return]


def diric(x: Any, n: int) -> Tensor:
    """Dirichlet's function of n terms, sin(n x / 2) / (n sin(x / 2))."""
    x = floating("diric", x)
    below = sin(x * 0.5)
    whole = absolute(below) < 1e-9
    turns = (x * (0.5 / math.pi)).round()
    at = where(turns * ((n - 1) % 2) % 2.0 != 0, -1.0, 1.0)
    return where(whole, at, sin(x * (n * 0.5)) / (where(whole, 1.0, below) * n))  # type: ignore[no-any-return]


# polynomials of other intervals -----------------------------------------------------------------


def eval_chebyc(n: Any, x: Any) -> Tensor:
    """2 eval_chebyt(n, x / 2)."""
    return eval_chebyt(n, floating("eval_chebyc", x) * 0.5) * 2.0  # type: ignore[no-any-return]


def eval_chebys(n: Any, x: Any) -> Tensor:
    """eval_chebyu(n, x / 2)."""
    return eval_chebyu(n, floating("eval_chebys", x) * 0.5)  # type: ignore[no-any-return]


def eval_sh_chebyt(n: Any, x: Any) -> Tensor:
    """eval_chebyt(n, 2 x - 1)."""
    return eval_chebyt(n, floating("eval_sh_chebyt", x) * 2.0 - 1.0)  # type: ignore[no-any-return]


def eval_sh_chebyu(n: Any, x: Any) -> Tensor:
    """eval_chebyu(n, 2 x - 1)."""
    return eval_chebyu(n, floating("eval_sh_chebyu", x) * 2.0 - 1.0)  # type: ignore[no-any-return]


def eval_sh_legendre(n: Any, x: Any) -> Tensor:
    """eval_legendre(n, 2 x - 1)."""
    return eval_legendre(n, floating("eval_sh_legendre", x) * 2.0 - 1.0)  # type: ignore[no-any-return]


def eval_sh_jacobi(n: Any, p: Any, q: Any, x: Any) -> Tensor:
    """Jacobi's polynomial of (p - q, q - 1) at 2 x - 1, over binom(2 n + p - 1, n)."""
    n, p, q, x = alike("eval_sh_jacobi", n, p, q, x)
    found = _by["eval_jacobi"](n, p - q, q - 1.0, x * 2.0 - 1.0)
    return found / binom(n * 2.0 + p - 1.0, n)  # type: ignore[no-any-return]


__all__ = public(globals())
