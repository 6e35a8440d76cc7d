"""Special functions that SciPy computes: one primitive, and a row each with its slopes.

``ROWS`` has for each function the intervals that samples are drawn from, and the slope for each
argument; None refuses that derivative by name. ``name.k`` is result k of SciPy's ``name``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

from fx.dtypes import FLOATING, INEXACT
from fx.primitive import define
from fx.prims.compare import equal, less, logical_and, where
from fx.prims.complex import part
from fx.prims.creation import constant_like
from fx.prims.elementwise import cos, cosh, exp, floor, log, log1p, maximum, sign, sin, sqrt
from fx.prims.families import elementwise_batch, elementwise_spec
from fx.prims.gamma_ratios import in_double
from fx.prims.sampling import Draw, Sample
from fx.prims.scipy_distributions import DISTRIBUTIONS, smirnov_slopes, student_rows
from fx.prims.scipy_elliptic import (
    ELLIPTIC,
    carlson_slopes,
    complete_slope,
    ellipeinc_in_m,
    ellipkinc_in_m,
)
from fx.prims.scipy_row import Row, Slope, inverse, named, one
from fx.prims.scipy_waves import COMPLEX_WAVES, WAVES, steps
from fx.prims.shape import stretched
from fx.prims.special import (
    beta_density,
    betainc_by_first,
    betainc_by_second,
    erf,
    error_tail,
    gamma,
    gamma_density,
    gammainc_by_order,
    lgamma,
    slope_rules,
)
from fx.tensor import Tensor

_ROOT_2PI, _ROOT_PI = math.sqrt(2 * math.pi), math.sqrt(math.pi)


def _steps(name: str, below: float, above: float, low: float = 0.4) -> dict[str, Row]:
    """A Bessel function of real order: the slope is a sum of neighbours."""
    return {name: Row(((0.2, 2.5), (low, 3.0)), (None, steps(name, below, above)))}


def _spherical(name: str, below: float, above: float) -> dict[str, Row]:
    """A spherical one, of a whole order n: (below n f(n - 1) + above (n + 1) f(n + 1)) / (2n + 1).

    That divides by no x, and so holds at 0 and to any order.
    """

    def slope(n: Tensor, x: Tensor) -> Tensor:
        least = constant_like(0.0, n)
        lower = named(name, maximum(n - 1.0, least), x) * n * below
        found = (lower + named(name, n + 1.0, x) * (n + 1.0) * above) / (n * 2.0 + 1.0)
        return found  # type: ignore[no-any-return]

    return {name: Row(((0, 3), (0.3, 3.0)), (None, slope))}


def _kelvin(name: str, other: str, factor: float) -> dict[str, Row]:
    """A Kelvin function and its derivative, by y'' = factor other - y' / x."""
    prime = f"{name}p"
    second = lambda x: named(other, x) * factor - named(prime, x) / x
    return one(name, 0.3, 3.0, lambda x: named(prime, x)) | one(prime, 0.3, 3.0, second)


def _expn_slope(n: Tensor, x: Tensor) -> Tensor:
    zero, none = equal(n, constant_like(0.0, n)), constant_like(0.0, n)
    first = -exp(-x) * (x + 1.0) / (x * x)
    return where(zero, first, -named("expn", maximum(n - 1.0, none), x))  # type: ignore[no-any-return]


def _spence_slope(x: Tensor) -> Tensor:
    """-log(x) / (x - 1), near 1 by its series."""
    away = x - 1.0
    near = less(away * away, constant_like(1e-2, x))
    total, small = constant_like(0.0, x), where(near, away, constant_like(0.0, x))
    for k in range(16, 0, -1):
        total = 1.0 / k - small * total
    apart = where(near, constant_like(2.0, x), x)
    return where(near, -total, -log(apart) / (apart - 1.0))  # type: ignore[no-any-return]


def _dawsn_slope(x: Tensor) -> Tensor:
    far = less(constant_like(900.0, x), x * x)
    near, away = where(far, constant_like(0.0, x), x), where(far, x, constant_like(30.0, x))
    return where(far, error_tail(away, 1.0), 1.0 - near * named("dawsn", near) * 2.0)  # type: ignore[no-any-return]


def _wofz_slope(z: Tensor) -> Tensor:
    x, y = part(z, turn=0), part(z, turn=1)
    far = logical_and(less(constant_like(0.0, y), y), less(constant_like(900.0, x), x * x + y * y))
    near, away = where(far, constant_like(0.0, z), z), where(far, z, constant_like(30j, z))
    direct = constant_like(2j / _ROOT_PI, z) - near * named("wofz", near) * 2.0
    return where(far, error_tail(away, 1.0) * (2j / _ROOT_PI), direct)  # type: ignore[no-any-return]


def _ellipkm1_slope(p: Tensor) -> Tensor:
    far = less(constant_like(0.5, p), p)
    inner = where(far, constant_like(0.5, p), p)
    rest = constant_like(1.0, p) - inner
    near = -(named("ellipe", rest) - inner * named("ellipkm1", inner)) / (rest * inner * 2.0)
    outer = where(far, p, constant_like(0.5, p))
    return where(far, -complete_slope(1.5, 1.5, 1.0 - outer), near)  # type: ignore[no-any-return]


def _owens_in_h(h: Tensor, a: Tensor) -> Tensor:
    return exp(h * h * -0.5) * erf(a * h * math.sqrt(0.5)) * (-0.5 / _ROOT_2PI)  # type: ignore[no-any-return]


def _owens_in_a(h: Tensor, a: Tensor) -> Tensor:
    more = a * a + 1.0
    return exp(h * h * more * -0.5) / (more * (2 * math.pi))  # type: ignore[no-any-return]


def _inverse(
    name: str, density: Callable[..., Tensor], *by: Callable[..., Tensor]
) -> dict[str, Row]:
    """The inverse of a distribution's function in its last argument."""
    ranges = (*[(0.7, 3.0)] * len(by), (0.2, 0.8))
    return inverse(name, len(by), ranges, *by, density)


def _minus(rule: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda *xs: -rule(*xs)


def _student(v: Tensor, x: Tensor) -> Tensor:
    """The density of Student's distribution."""
    half = v * 0.5
    norm = lgamma(half + 0.5) - lgamma(half) - log(v * math.pi) * 0.5
    return exp(norm - log1p(x * x / v) * (half + 0.5))  # type: ignore[no-any-return]


def _student_in_v(v: Tensor, t: Tensor) -> Tensor:
    """Of 1 - I(v / 2, 1 / 2, v / (v + t^2)) / 2 for t > 0; the other side mirrors it."""
    flat = equal(t, constant_like(0.0, t))
    t = where(flat, constant_like(1.0, t), t)
    half, x = v * 0.5, v / (v + t * t)
    a, b = half, constant_like(0.5, half)
    moved = beta_density(a, b, x) * t * t / ((v + t * t) * (v + t * t))
    found = (betainc_by_first(a, b, x) * 0.5 + moved) * -0.5 * sign(t)
    return where(flat, constant_like(0.0, t), found)  # type: ignore[no-any-return]


def _struve_rest(v: Tensor, x: Tensor) -> Tensor:
    found = exp(log(x * 0.5) * v) / gamma(v + 1.5) * (0.5 / _ROOT_PI)
    pole = logical_and(less(v, constant_like(-1.0, v)), equal(v + 0.5, floor(v + 0.5)))
    return where(stretched(pole, found.shape), constant_like(0.0, found), found)  # type: ignore[no-any-return]


def _struve(name: str, above: float) -> dict[str, Row]:
    def slope(v: Tensor, x: Tensor) -> Tensor:
        pair = named(name, v - 1.0, x) * 0.5 + named(name, v + 1.0, x) * above
        return pair + _struve_rest(v, x)  # type: ignore[no-any-return]

    return {name: Row(((0.2, 2.5), (0.4, 3.0)), (None, slope))}


def _shifted(name: str, slope: Callable[..., Tensor]) -> dict[str, Row]:
    """A function of hypergeometric kind: the slope in its last argument is one of shifted ones."""
    count = {"hyp0f1": 1, "hyp1f1": 2, "hyp2f1": 3, "hyperu": 2}[name]
    ranges = (*[(0.5, 2.0)] * count, (0.1, 0.8))
    return {name: Row(ranges, (*[None] * count, slope))}


def _degree(name: str, extra: int, slope: Callable[..., Tensor]) -> dict[str, Row]:
    """A polynomial of degree n, a whole number from 0 on."""

    def found(n: Tensor, *rest: Tensor) -> Tensor:
        none = constant_like(0.0, n)
        flat = equal(n, none)
        return where(flat, none, slope(where(flat, constant_like(1.0, n), n), *rest))  # type: ignore[no-any-return]

    ranges = ((0, 5), *[(0.3, 2.0)] * extra, (-0.9, 0.9))
    return {name: Row(ranges, (*[None] * (extra + 1), found))}


ROWS: dict[str, Row] = {
    # integrals of exponentials, of sines, of Fresnel; Dawson's
    **one("expi", 0.5, 3.0, lambda x: exp(x) / x),
    **one("exp1", 0.3, 3.0, lambda x: -exp(-x) / x),
    "expn": Row(((0, 4), (0.3, 3.0)), (None, _expn_slope)),
    **one("sici.0", -3.0, 3.0, lambda x: named("spherical_jn", constant_like(0.0, x), x)),
    **one("sici.1", 0.3, 3.0, lambda x: cos(x) / x),
    **one("shichi.0", -3.0, 3.0, lambda x: named("spherical_in", constant_like(0.0, x), x)),
    **one("shichi.1", 0.3, 3.0, lambda x: cosh(x) / x),
    **one("fresnel.0", -2.0, 2.0, lambda x: sin(x * x * (math.pi / 2))),
    **one("fresnel.1", -2.0, 2.0, lambda x: cos(x * x * (math.pi / 2))),
    **one("dawsn", -2.0, 2.0, _dawsn_slope),
    **one("erfi", -1.5, 1.5, lambda x: exp(x * x) * (2.0 / _ROOT_PI)),
    **one("spence", 0.2, 3.0, _spence_slope),
    **one("wrightomega", -2.0, 3.0, lambda x: 1.0 - 1.0 / (1.0 + named("wrightomega", x))),
    # elliptic integrals: B. C. Carlson in DLMF, 19.4 and 19.5
    **one("ellipk", -0.8, 0.8, lambda m: complete_slope(1.5, 1.5, m)),
    **one("ellipe", -0.8, 0.8, lambda m: -complete_slope(0.5, 1.5, m)),
    **one("ellipkm1", 0.1, 0.9, _ellipkm1_slope),
    "ellipkinc": Row(((0.2, 1.4), (0.1, 0.8)), (
        lambda f, m: 1 / sqrt(1 - m * sin(f) ** 2), ellipkinc_in_m,
    )),
    "ellipeinc": Row(((0.2, 1.4), (0.1, 0.8)), (
        lambda f, m: sqrt(1 - m * sin(f) ** 2), ellipeinc_in_m,
    )),
    # hypergeometric functions
    **_shifted("hyp0f1", lambda b, x: named("hyp0f1", b + 1.0, x) / b),
    **_shifted("hyp1f1", lambda a, b, x: named("hyp1f1", a + 1.0, b + 1.0, x) * a / b),
    **_shifted(
        "hyp2f1", lambda a, b, c, x: named("hyp2f1", a + 1.0, b + 1.0, c + 1.0, x) * a * b / c
    ),
    **_shifted("hyperu", lambda a, b, x: -a * named("hyperu", a + 1.0, b + 1.0, x)),
    # Bessel's, Struve's, Kelvin's and Airy's
    **_steps("jv", 0.5, -0.5), **_steps("yv", 0.5, -0.5), **_steps("iv", 0.5, 0.5),
    **_steps("kv", -0.5, -0.5),
    "ive": Row(((0.2, 2.5), (0.4, 3.0)), (None, lambda v, x: (
        (named("ive", v - 1.0, x) + named("ive", v + 1.0, x)) * 0.5 - sign(x) * named("ive", v, x)
    ))),
    "kve": Row(((0.2, 2.5), (0.4, 3.0)), (None, lambda v, x: (
        named("kve", v, x) - (named("kve", v - 1.0, x) + named("kve", v + 1.0, x)) * 0.5
    ))),
    **_spherical("spherical_jn", 1.0, -1.0), **_spherical("spherical_yn", 1.0, -1.0),
    **_spherical("spherical_in", 1.0, 1.0), **_spherical("spherical_kn", -1.0, -1.0),
    **_struve("struve", -0.5), **_struve("modstruve", 0.5),
    **_kelvin("ber", "bei", -1.0), **_kelvin("bei", "ber", 1.0),
    **_kelvin("ker", "kei", -1.0), **_kelvin("kei", "ker", 1.0),
    **one("airy.2", -3.0, 2.0, lambda x: named("airy.3", x)),
    **one("airy.3", -3.0, 2.0, lambda x: x * named("airy.2", x)),
    # polynomials
    **_degree("eval_genlaguerre", 1, lambda n, a, x: (
        -named("eval_genlaguerre", n - 1.0, a + 1.0, x)
    )),
    **_degree("eval_gegenbauer", 1, lambda n, a, x: (
        a * named("eval_gegenbauer", n - 1.0, a + 1.0, x) * 2.0
    )),
    **_degree("eval_jacobi", 2, lambda n, a, b, x: (
        (n + a + b + 1.0) * named("eval_jacobi", n - 1.0, a + 1.0, b + 1.0, x) * 0.5
    )),
    # distributions
    "owens_t": Row(((-2.0, 2.0), (-2.0, 2.0)), (_owens_in_h, _owens_in_a)),
    **one("ndtri_exp", -3.0, -0.1, lambda y: (
        exp(y + named("ndtri_exp", y) ** 2 * 0.5) * _ROOT_2PI
    )),
    **_inverse("gammaincinv", gamma_density, gammainc_by_order),
    **_inverse("gammainccinv", _minus(gamma_density), _minus(gammainc_by_order)),
    **_inverse("betaincinv", beta_density, betainc_by_first, betainc_by_second),
    "stdtr": Row(((1.0, 9.0), (-2.0, 2.0)), (_student_in_v, _student)),
    **_inverse("stdtrit", _student, _student_in_v),
    **student_rows(_student, _student_in_v),
    **ELLIPTIC, **DISTRIBUTIONS, **WAVES,
}  # fmt: skip
# of complex numbers alone
COMPLEX: dict[str, tuple[Slope, ...]] = {
    "wofz": (_wofz_slope,),
    **COMPLEX_WAVES,
}
BOTH = frozenset({"elliprc", "elliprd", "elliprf", "elliprg", "elliprj", "carlson", "jve", "yve"})


def _spec(*specs: Any, function: str) -> Any:
    takes = INEXACT - FLOATING if function in COMPLEX else FLOATING
    takes = INEXACT if function.partition(".")[0] in BOTH else takes
    return elementwise_spec(function, takes=takes)(*specs)


@cache
def _slopes(function: str) -> tuple[Slope, ...]:
    """Of values in double precision the slopes are in double precision too."""
    return tuple([None if slope is None else in_double(slope) for slope in _rules(function)])


def _rules(function: str) -> tuple[Slope, ...]:
    family = function.partition(".")[0]
    if family in _OWN:
        return _OWN[family](function)
    return COMPLEX[function] if function in COMPLEX else ROWS[function].slopes


# what is no function of SciPy's, but slopes are made of
_OWN: dict[str, Callable[[str], tuple[Slope, ...]]] = {
    "carlson": carlson_slopes, "smirnov_slope": smirnov_slopes,
}  # fmt: skip


# of which SciPy gives too few digits for differences
ROUGH = frozenset({"ncfdtrinc", "nctdtrinc"})


def _sample(d: Draw) -> Sample:
    name = d.choice(sorted(ROWS.keys() - ROUGH))
    shape, row = d.shape(), ROWS[name]
    whole = [all(isinstance(end, int) for end in ends) for ends in row.where]
    args = [
        d.integers(shape, low, high).astype(d.dtype) if w else d.floats(shape, low, high)
        for w, (low, high) in zip(whole, row.where, strict=True)
    ]
    fixed = tuple(i for i, slope in enumerate(row.slopes) if slope is None)
    return Sample(args, {"function": name}, fixed=fixed)


_jvp, _vjp = slope_rules(lambda: scipy_function, lambda function: (function, _slopes(function)))
scipy_function = define(  # any number of arguments that broadcast -> of their shape and dtype
    "scipy_function", kind="elementwise", weight=300, spec=_spec,
    jvp=_jvp,
    vjp=_vjp,
    batch=elementwise_batch(lambda: scipy_function),
    sample=_sample,
)  # fmt: skip
