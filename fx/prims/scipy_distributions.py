"""Slopes of distribution functions and of their inverses in each argument.

Where a function has no known slope in a parameter (degrees of freedom of noncentral distributions)
that is None, and its inverse in that parameter has none at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from fx.prims.compare import less, where
from fx.prims.creation import constant_like
from fx.prims.elementwise import abs as absolute
from fx.prims.elementwise import exp, expm1, log, log1p, sqrt
from fx.prims.scipy_row import Row, inverse, named, one
from fx.prims.special import (
    beta_density,
    betainc_by_first,
    betainc_by_second,
    gamma_density,
    gammainc_by_order,
    lgamma,
    xlog1py,
    xlogy,
)
from fx.tensor import Tensor

_ROOT_2PI = math.sqrt(2 * math.pi)
UNIT, SOME, MIDDLE = (0.2, 0.8), (0.7, 3.0), (0.3, 0.7)

# binomial, negative binomial, F, by the incomplete beta function --------------------------------


def _in_k(k: Tensor, n: Tensor, p: Tensor) -> Tensor:
    at = (n - k, k + 1.0, 1.0 - p)
    return betainc_by_second(*at) - betainc_by_first(*at)  # type: ignore[no-any-return]


def _in_n(k: Tensor, n: Tensor, p: Tensor) -> Tensor:
    return betainc_by_first(n - k, k + 1.0, 1.0 - p)  # type: ignore[no-any-return]


def _in_p(k: Tensor, n: Tensor, p: Tensor) -> Tensor:
    return -beta_density(n - k, k + 1.0, 1.0 - p)  # type: ignore[no-any-return]


_BINOMIAL = (_in_k, _in_n, _in_p)
_NEGATIVE = (
    lambda k, n, p: betainc_by_second(n, k + 1.0, p),
    lambda k, n, p: betainc_by_first(n, k + 1.0, p),
    lambda k, n, p: beta_density(n, k + 1.0, p),
)


def _ratio(dfn: Tensor, dfd: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return dfn * 0.5, dfd * 0.5, dfn * x / (dfd + dfn * x)


def _f_in_dfn(dfn: Tensor, dfd: Tensor, x: Tensor) -> Tensor:
    a, b, y = _ratio(dfn, dfd, x)
    moved = beta_density(a, b, y) * dfd * x / (dfd + dfn * x) ** 2
    return betainc_by_first(a, b, y) * 0.5 + moved  # type: ignore[no-any-return]


def _f_in_dfd(dfn: Tensor, dfd: Tensor, x: Tensor) -> Tensor:
    a, b, y = _ratio(dfn, dfd, x)
    moved = beta_density(a, b, y) * dfn * x / (dfd + dfn * x) ** 2
    return betainc_by_second(a, b, y) * 0.5 - moved  # type: ignore[no-any-return]


def _f_density(dfn: Tensor, dfd: Tensor, x: Tensor) -> Tensor:
    return beta_density(*_ratio(dfn, dfd, x)) * dfn * dfd / (dfd + dfn * x) ** 2  # type: ignore[no-any-return]


# gamma, chi-squared, Poisson --------------------------------------------------------------------

_GAMMA = (
    lambda a, b, x: gamma_density(b, a * x) * x,
    lambda a, b, x: gammainc_by_order(b, a * x),
    lambda a, b, x: gamma_density(b, a * x) * a,
)
_CHI = (  # of v and x, as chdtr
    lambda v, x: gammainc_by_order(v * 0.5, x * 0.5) * 0.5,
    lambda v, x: gamma_density(v * 0.5, x * 0.5) * 0.5,
)
_POISSON = (
    lambda k, m: -gammainc_by_order(k + 1.0, m),
    lambda k, m: -gamma_density(k + 1.0, m),
)

# noncentral distributions -----------------------------------------------------------------------


def _chi_density(x: Tensor, df: Tensor, nc: Tensor) -> Tensor:
    """By 0F1 of nc x / 4, and where that is large by a scaled Bessel function."""
    half, z = df * 0.5, nc * x * 0.25
    large = less(constant_like(600.0, z), z)
    inner = where(large, constant_like(1.0, z), z)
    scale = xlogy(half - 1.0, x) - (x + nc) * 0.5 - half * math.log(2.0) - lgamma(half)
    near = exp(where(large, constant_like(0.0, z), scale)) * named("hyp0f1", half, inner)
    a, b = where(large, x, constant_like(1.0, z)), where(large, nc, constant_like(1.0, z))
    apart = (sqrt(a) - sqrt(b)) ** 2
    power = (half - 1.0) * 0.5 * (log(a) - log(b))
    far = exp(power - apart * 0.5) * 0.5 * named("ive", half - 1.0, sqrt(a * b))
    return where(large, far, near)  # type: ignore[no-any-return]


def _chi_in_nc(x: Tensor, df: Tensor, nc: Tensor) -> Tensor:
    return -_chi_density(x, df + 2.0, nc)  # type: ignore[no-any-return]


def _noncentral_f(dfn: Tensor, dfd: Tensor, nc: Tensor, f: Tensor, more: float) -> Tensor:
    """e^(-nc / 2) y^a (1 - y)^b 1F1(a + b; a + more; nc y / 2) over the beta function of a, b."""
    a, b, y = _ratio(dfn, dfd, f)
    beta = lgamma(a) + lgamma(b) - lgamma(a + b)
    power = xlogy(a, y) + xlog1py(b, -y)
    return exp(power - nc * 0.5 - beta) * named("hyp1f1", a + b, a + more, nc * y * 0.5)  # type: ignore[no-any-return]


def _ncf_in_nc(dfn: Tensor, dfd: Tensor, nc: Tensor, f: Tensor) -> Tensor:
    return -_noncentral_f(dfn, dfd, nc, f, 1.0) / dfn  # type: ignore[no-any-return]


def _ncf_density(dfn: Tensor, dfd: Tensor, nc: Tensor, f: Tensor) -> Tensor:
    # dy / df = y (1 - y) / f
    return _noncentral_f(dfn, dfd, nc, f, 0.0) / f  # type: ignore[no-any-return]


def _half_line(p: Tensor, z: Tensor) -> Tensor:
    """The integral over u > 0 of u^(p - 1) exp(z u - u^2 / 2): DLMF 12.5.1, by 1F1 or by U."""
    below = less(z, constant_like(-1.0, z))
    near = where(below, constant_like(0.0, z), z)
    far = where(below, z, constant_like(-1.0, z))
    half, square = p * 0.5, near * near * 0.5
    middle, more = constant_like(0.5, half), constant_like(1.5, half)
    even = exp(lgamma(half)) * named("hyp1f1", half, middle, square)
    odd = exp(lgamma(half + 0.5)) * named("hyp1f1", half + 0.5, more, square) * near
    whole = exp((half - 1.0) * math.log(2.0)) * (even + odd * math.sqrt(2.0))
    tail = exp(lgamma(p) - half * math.log(2.0)) * named("hyperu", half, middle, far * far * 0.5)
    return where(below, tail, whole)  # type: ignore[no-any-return]


def _student_mean(df: Tensor, nc: Tensor, t: Tensor, power: float) -> Tensor:
    """The mean of s^power phi(t s - nc), with s^2 df chi-squared: +-slopes of ``nctdtr``."""
    p, q = df + power, df + t * t
    scale = xlogy(df * 0.5, df * 0.5) - lgamma(df * 0.5) - nc * nc * 0.5 - p * 0.5 * log(q)
    return exp(scale) * _half_line(p, t * nc / sqrt(q)) * (2.0 / _ROOT_2PI)  # type: ignore[no-any-return]


_NONCENTRAL_T = (
    None,
    lambda df, nc, t: -_student_mean(df, nc, t, 0.0),
    lambda df, nc, t: _student_mean(df, nc, t, 1.0),
)

# Tukey's lambda: the inverse of (p^l - (1 - p)^l) / l --------------------------------------------


def _grown(u: Tensor) -> Tensor:
    """(u e^u - expm1(u)) / u^2, near 0 by its series."""
    near = less(absolute(u), constant_like(0.7, u))
    small, total = where(near, u, constant_like(0.0, u)), constant_like(0.0, u)
    factors = [1.0 / (math.factorial(k) * (k + 2)) for k in range(18)]
    for factor in reversed(factors):
        total = total * small + factor
    far = where(near, constant_like(1.0, u), u)
    return where(near, total, (far * exp(far) - expm1(far)) / (far * far))  # type: ignore[no-any-return]


def _tukey_inside(x: Tensor, shape: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Where there is density, the logarithms of p and 1 - p, and the inverse's slope in p."""
    p = named("tklmbda", x, shape)
    inside = less(constant_like(0.0, p), p * (1.0 - p))
    p = where(inside, p, constant_like(0.5, p))
    up, down = log(p), log1p(-p)
    return inside, up, down, exp(up * (shape - 1.0)) + exp(down * (shape - 1.0))


def _tukey_density(x: Tensor, shape: Tensor) -> Tensor:
    inside, _, _, slope = _tukey_inside(x, shape)
    return where(inside, 1.0 / slope, constant_like(0.0, slope))  # type: ignore[no-any-return]


def _tukey_in_shape(x: Tensor, shape: Tensor) -> Tensor:
    inside, up, down, slope = _tukey_inside(x, shape)
    moved = up * up * _grown(shape * up) - down * down * _grown(shape * down)
    return where(inside, -moved / slope, constant_like(0.0, slope))  # type: ignore[no-any-return]


# Kolmogorov's and Smirnov's ----------------------------------------------------------------------


def _kolmogorov_slope(x: Tensor) -> Tensor:
    """Of 2 sum (-1)^(k-1) exp(-2 k^2 x^2), and below 1 of the theta function that it is there."""
    low, none = less(x, constant_like(1.0, x)), less(x, constant_like(0.04, x))
    near, far = where(low, x, constant_like(1.0, x)), where(low, constant_like(1.0, x), x)
    near = where(none, constant_like(0.04, x), near)
    first, second = constant_like(0.0, x), constant_like(0.0, x)
    for k in range(1, 6):
        first = first + far * exp(far * far * (-2.0 * k * k)) * (8.0 * k * k * (-1) ** k)
        c = (2 * k - 1) ** 2 * math.pi**2 / 8
        square = near * near
        term = exp(-c / square) * (2.0 * c / (square * square) - 1.0 / square)
        second = second - term * _ROOT_2PI
    found = where(low, second, first)
    return where(none, constant_like(0.0, x), found)  # type: ignore[no-any-return]


def _smirnov(order: int) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda n, d: named(f"smirnov_slope.{order}", n, d)


def smirnov_slopes(name: str) -> tuple[None, Callable[[Tensor, Tensor], Tensor]]:
    """Those of a derivative of ``smirnov``: the next one."""
    return None, _smirnov(int(name.partition(".")[2]) + 1)


def student_rows(student: Callable[..., Tensor], in_df: Callable[..., Tensor]) -> dict[str, Row]:
    """The degrees of freedom of Student's distribution, by its slopes; t away from 0."""
    return inverse("stdtridf", 0, ((0.69, 0.72), (0.65, 0.66)), in_df, student)


DISTRIBUTIONS: dict[str, Row] = {
    **inverse("bdtrik", 0, (MIDDLE, (5.0, 9.0), (0.3, 0.6)), *_BINOMIAL),
    **inverse("bdtrin", 1, ((1.0, 3.0), MIDDLE, MIDDLE), *_BINOMIAL),
    **inverse("nbdtrik", 0, ((0.5, 0.8), (2.0, 5.0), (0.2, 0.5)), *_NEGATIVE),
    **inverse("nbdtrin", 1, ((1.0, 4.0), MIDDLE, MIDDLE), *_NEGATIVE),
    **inverse("btdtria", 0, (UNIT, SOME, UNIT), betainc_by_first, betainc_by_second, beta_density),
    **inverse("btdtrib", 1, (SOME, UNIT, UNIT), betainc_by_first, betainc_by_second, beta_density),
    **inverse(
        "fdtridfd", 1, ((1.5, 3.0), (0.7, 0.72), (1.5, 1.6)), _f_in_dfn, _f_in_dfd, _f_density
    ),
    **inverse("gdtria", 0, (UNIT, SOME, SOME), *_GAMMA),
    **inverse("gdtrib", 1, (SOME, UNIT, SOME), *_GAMMA),
    **inverse("chdtriv", 0, (UNIT, (1.0, 4.0)), *_CHI),
    **inverse("pdtrik", 0, ((0.5, 0.8), (1.5, 4.0)), *_POISSON),
    "chndtr": Row(((0.5, 5.0), (2.1, 5.0), (0.3, 3.0)), (_chi_density, None, _chi_in_nc)),
    **inverse("chndtrix", 0, (UNIT, (2.1, 5.0), (0.3, 3.0)), _chi_density, None, _chi_in_nc),
    **inverse("chndtrinc", 2, ((6.0, 9.0), (2.1, 4.0), (0.2, 0.5)), _chi_density, None, _chi_in_nc),
    **inverse("chndtridf", 1, ((3.0, 5.0), MIDDLE, (0.3, 1.0)), _chi_density, None, _chi_in_nc),
    "ncfdtr": Row((SOME, SOME, (0.3, 3.0), SOME), (None, None, _ncf_in_nc, _ncf_density)),
    **inverse("ncfdtri", 3, (SOME, SOME, SOME, UNIT), None, None, _ncf_in_nc, _ncf_density),
    **inverse(
        "ncfdtrinc", 2, ((2.0, 3.0), (5.0, 6.0), (0.3, 0.5), (3.0, 4.0)),
        None, None, _ncf_in_nc, _ncf_density,
    ),
    **inverse(
        "ncfdtridfn", 0, ((0.78, 0.8), (5.0, 5.1), (0.7, 0.72), (3.0, 3.05)),
        None, None, _ncf_in_nc, _ncf_density,
    ),
    **inverse(
        "ncfdtridfd", 1, (SOME, (0.3, 0.32), (0.5, 0.6), (1.5, 1.6)),
        None, None, _ncf_in_nc, _ncf_density,
    ),
    "nctdtr": Row(((2.0, 6.0), (-1.5, 1.5), (-2.0, 2.0)), _NONCENTRAL_T),
    **inverse("nctdtrit", 2, ((2.0, 6.0), (-1.5, 1.5), UNIT), *_NONCENTRAL_T),
    **inverse("nctdtrinc", 1, ((2.0, 6.0), UNIT, (0.5, 2.0)), *_NONCENTRAL_T),
    **inverse("nctdtridf", 0, ((0.5, 0.52), (0.5, 0.55), (0.6, 0.61)), *_NONCENTRAL_T),
    "tklmbda": Row(((-1.5, 1.5), (-0.4, 0.4)), (_tukey_density, _tukey_in_shape)),
    **one("kolmogorov", 0.3, 2.0, _kolmogorov_slope),
    **inverse("kolmogi", 0, (UNIT,), _kolmogorov_slope),
    "smirnov": Row(((1, 9), (0.13, 0.19)), (None, _smirnov(1))),
    **inverse("smirnovi", 1, ((1, 9), (0.3, 0.7)), None, _smirnov(1)),
}  # fmt: skip
