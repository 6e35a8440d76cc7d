"""Slopes of functions of physics: Hankel's, parabolic cylinders', Mathieu's, spheroidal ones.

Those that come with their derivative (``name.0``, ``name.1``) have the slope of that from their
differential equation, and so slopes to any order.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from fx.prims.compare import equal, less, logical_and, where
from fx.prims.creation import constant_like
from fx.prims.elementwise import cos, cosh, exp, floor, maximum, sin, sqrt
from fx.prims.scipy_row import Row, Slope, named, of_reals, one
from fx.prims.special import lgamma
from fx.tensor import Tensor

_POSITIVE = (0.4, 3.0)


def steps(name: str, below: float, above: float, own: complex = 0.0) -> Slope:
    """The slope of a Bessel function of real order: a sum of neighbours, and of itself."""

    def slope(v: Tensor, x: Tensor) -> Tensor:
        pair = named(name, v - 1.0, x) * below + named(name, v + 1.0, x) * above
        return pair + named(name, v, x) * own if own else pair  # type: ignore[no-any-return]

    return slope


def _exponentially_scaled(name: str) -> dict[str, Row]:
    """``jv`` or ``yv`` times exp(-abs(z.imag)), which is 1 for real numbers."""
    return {name: Row(((0.2, 2.5), _POSITIVE), (None, of_reals(name, steps(name, 0.5, -0.5))))}


def _pair(
    name: str, where_: tuple[tuple[float, float], ...], second: Callable[..., Tensor],
    scale: float = 1.0,
) -> dict[str, Row]:  # fmt: skip
    """A function of its last argument and its derivative; ``second`` takes both before that's."""
    first, other = f"{name}.0", f"{name}.1"
    none = (None,) * (len(where_) - 1)

    def of_second(*xs: Tensor) -> Tensor:
        return second(named(first, *xs), named(other, *xs), *xs) * scale  # type: ignore[no-any-return]

    return {
        first: Row(where_, (*none, lambda *xs: named(other, *xs) * scale)),
        other: Row(where_, (*none, of_second)),
    }


# integrals --------------------------------------------------------------------------------------


def _zero_order(name: str) -> Callable[[Tensor], Tensor]:
    return lambda x: named(name, constant_like(0.0, x), x)


def _airy(k: int) -> Callable[[Tensor], Tensor]:
    return lambda x: named(f"airy.{k}", x)


def _series_quotient(name: str, sign: float) -> Callable[[Tensor], Tensor]:
    """sign (name(0, x) - 1) / x, near 0 by its series: the sum of (sign x^2 / 4)^k / k!^2."""

    def slope(x: Tensor) -> Tensor:
        near = less(x * x, constant_like(1.0, x))
        small, total = where(near, x, constant_like(0.0, x)), constant_like(0.0, x)
        square = small * small * (0.25 * sign)
        for k in range(12, 0, -1):
            total = total * square + 1.0 / math.factorial(k) ** 2
        far = where(near, constant_like(1.0, x), x)
        apart = (_zero_order(name)(far) - 1.0) / far * sign
        return where(near, total * small * 0.25, apart)  # type: ignore[no-any-return]

    return slope


def _scaled_airy(own: str, slope: str, factor: float, times_x: bool) -> dict[str, Row]:
    def found(x: Tensor) -> Tensor:
        grown = sqrt(maximum(x, constant_like(0.0, x))) * named(own, x) * factor
        other = named(slope, x)
        return (x * other if times_x else other) + grown  # type: ignore[no-any-return]

    return one(own, 0.3, 3.0, found)


# Legendre's ---------------------------------------------------------------------------------------


def _whole_degree(n: Tensor, z: Tensor) -> Tensor:
    flat = equal(n, constant_like(0.0, n))
    least, half = where(flat, constant_like(1.0, n), n) - 1.0, constant_like(1.5, n)
    return where(flat, constant_like(0.0, n), named("eval_gegenbauer", least, half, z))  # type: ignore[no-any-return]


def _associated(n: Tensor, m: Tensor, z: Tensor) -> Tensor:
    """By parts of (1 - z^2)^(m/2) d^m P_n / dz^m, which divides by no 1 - z^2 of power 0."""
    zero, one_ = constant_like(0.0, n), constant_like(1.0, n)
    size = where(less(m, zero), -m, m)
    outside, flat = less(n, size), equal(size, zero)
    order, degree = where(outside, zero, size), where(outside, one_, n)
    rest = degree - order
    last = equal(rest, zero)
    inner = where(last, one_, rest) - 1.0
    base = 1.0 - z * z
    halves = [order + 0.5, order + 1.5]
    scale = exp(lgamma(halves[0]) + order * math.log(2.0)) * (1 / math.sqrt(math.pi))
    value, slope = (
        named("eval_gegenbauer", rest, halves[0], z),
        named("eval_gegenbauer", inner, halves[1], z) * (order * 2.0 + 1.0),
    )
    first = where(last, zero, slope * base ** (order * 0.5))
    steep = where(flat, one_ * 2.0, order)
    second = where(flat, zero, value * z * order * base ** (steep * 0.5 - 1.0))
    mirrored = exp(lgamma(degree - order + 1.0) - lgamma(degree + order + 1.0))
    odd = cos(order * math.pi)  # (-1)^m, exact enough for a sign
    sign = where(less(odd, zero), -one_, one_)
    factor = where(less(m, zero), mirrored, sign) * scale
    return where(outside, zero, factor * (first - second))  # type: ignore[no-any-return]


def _on_sphere(n: Tensor, m: Tensor, theta: Tensor) -> Tensor:
    """Half of the neighbours in m, which holds at the poles too: DLMF 14.10.6, 14.30."""
    zero = constant_like(0.0, n)
    up = sqrt(maximum((n - m) * (n + m + 1.0), zero)) * named("sph_legendre_p.0", n, m + 1.0, theta)
    down = sqrt(maximum((n + m) * (n - m + 1.0), zero)) * named(
        "sph_legendre_p.0", n, m - 1.0, theta
    )
    half = where(less(sin(theta), zero), zero - 0.5, zero + 0.5)  # SciPy's is of abs(sin(theta))
    return (up - down) * half  # type: ignore[no-any-return]


def _real_degree(m: Tensor, v: Tensor, x: Tensor) -> Tensor:
    """DLMF 14.10.5, which divides by 1 - x^2, and near 1 by 2F1; whole degrees mirror the rest."""
    mirror = logical_and(less(x, constant_like(0.0, x)), equal(floor(v), v + x * 0.0))
    at = where(mirror, -x, x)
    close = less(constant_like(0.9, at), at)
    near, far = where(close, at, constant_like(1.0, at)), where(close, constant_like(0.0, at), at)
    above, own = named("lpmv", m, v + 1.0, far), named("lpmv", m, v, far)
    pair = (m - v - 1.0) * above + (v + 1.0) * far * own
    found = where(close, _near_one(m, v, near), pair / (1.0 - far * far))
    odd = less(cos((v + m) * math.pi), constant_like(0.0, v))
    return where(mirror, where(odd, found, -found), found)  # type: ignore[no-any-return]


def _near_one(m: Tensor, v: Tensor, x: Tensor) -> Tensor:
    """The slope of (1 - x^2)^(m/2) 2F1(m - v, m + v + 1; m + 1; (1 - x) / 2), scaled: 14.3."""
    zero = constant_like(0.0, m)
    below, one_ = less(m, zero), constant_like(1.0, m)
    size = where(below, -m, m)
    flat, base, z = equal(size, zero), 1.0 - x * x, (1.0 - x) * 0.5
    a, b, c = size - v, size + v + 1.0, size + 1.0
    inner = named("hyp2f1", a + 1.0, b + 1.0, c + 1.0, z) * a * b / c * -0.5
    power = where(flat, one_ * 2.0, size) * 0.5 - 1.0
    steep = where(flat, zero, named("hyp2f1", a, b, c, z) * x * size * base**power)
    odd = less(cos(size * math.pi), zero)
    grown = named("poch", v - size + 1.0, size * 2.0) * where(odd, -one_, one_)
    scale = where(below, one_, grown) * exp(size * -math.log(2.0) - lgamma(c))
    return scale * (inner * base ** (size * 0.5) - steep)  # type: ignore[no-any-return]


# separated coordinates ----------------------------------------------------------------------------

_DEGREE = math.pi / 180
_CV = {"pro": 9.555998398430969, "obl": 1.821541435834392}  # of 1, 2 and 3.0


def _mathieu(kind: str) -> dict[str, Row]:
    letter = "a" if kind == "cem" else "b"
    value = lambda m, q: named(f"mathieu_{letter}", m, q)
    angle = lambda y, _, m, q, x: (q * cos(x * (2 * _DEGREE)) * 2.0 - value(m, q)) * y
    radial = lambda y, _, m, q, x: (value(m, q) - q * cosh(x * 2.0) * 2.0) * y
    orders, sizes = (1, 4), (0.3, 3.0)
    return {
        **_pair(f"mathieu_{kind}", (orders, sizes, (5.0, 80.0)), angle, _DEGREE),
        **_pair(f"mathieu_mod{kind}1", (orders, sizes, (0.2, 1.2)), radial),
        **_pair(f"mathieu_mod{kind}2", (orders, sizes, (0.2, 1.2)), radial),
        f"mathieu_{letter}": Row((orders, sizes), (None, None)),
    }


def _spheroidal(kind: str, sign: float) -> dict[str, Row]:
    """Prolate (1) or oblate (-1) functions: angular ones on (-1, 1), radial ones outside."""

    def angular(s: Tensor, t: Tensor, m: Tensor, c: Tensor, cv: Tensor, x: Tensor) -> Tensor:
        rest = 1.0 - x * x
        return (x * t * 2.0 - (cv - c * c * x * x * sign - m * m / rest) * s) / rest  # type: ignore[no-any-return]

    def radial(s: Tensor, t: Tensor, m: Tensor, c: Tensor, cv: Tensor, x: Tensor) -> Tensor:
        rest = x * x - sign
        return ((cv - c * c * x * x + m * m / rest * sign) * s - x * t * 2.0) / rest  # type: ignore[no-any-return]

    out: dict[str, Row] = {f"{kind}_cv": Row(((0, 2), (2, 4), (0.5, 2.0)), (None,) * 3)}
    inside, outside, far = (-0.8, 0.8), (1.2, 2.5), (2.0, 3.0)  # SciPy's are rough nearer to 1
    sides = {"ang1": (angular, inside), "rad1": (radial, outside), "rad2": (radial, far)}
    for name, (second, ends) in sides.items():
        free = lambda s, t, m, n, c, x, f=second: f(s, t, m, c, named(f"{kind}_cv", m, n, c), x)
        given = lambda s, t, m, n, c, cv, x, f=second: f(s, t, m, c, cv, x)
        out |= _pair(f"{kind}_{name}", ((1, 2), (2, 4), (2.0, 3.0), ends), free)
        # drawn where cv is the characteristic value of the others, as it has to be
        one_value = ((1, 2), (2, 3), (3.0, 3.0), (_CV[kind],) * 2, ends)
        out |= _pair(f"{kind}_{name}_cv", one_value, given)
    return out


def _log_wright(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    return exp(named("log_wright_bessel", a, a + b, x) - named("log_wright_bessel", a, b, x))  # type: ignore[no-any-return]


WAVES: dict[str, Row] = {
    **_exponentially_scaled("jve"), **_exponentially_scaled("yve"),
    "wright_bessel": Row(((0.3, 2.0), (0.3, 2.0), (0.2, 2.0)), (
        None, None, lambda a, b, x: named("wright_bessel", a, a + b, x))),
    "log_wright_bessel": Row(((0.3, 2.0), (0.3, 2.0), (0.2, 2.0)), (None, None, _log_wright)),
    "besselpoly": Row(((0.3, 2.0), (0.3, 2.0), (1.1, 2.5)), (lambda a, l, v: (
        named("besselpoly", a, l + 1.0, v - 1.0) - named("besselpoly", a, l + 1.0, v + 1.0)
    ), None, None)),
    **one("iti0k0.0", 0.3, 3.0, _zero_order("iv")), **one("iti0k0.1", 0.3, 3.0, _zero_order("kv")),
    **one("itj0y0.0", 0.3, 3.0, _zero_order("jv")), **one("itj0y0.1", 0.3, 3.0, _zero_order("yv")),
    **one("it2i0k0.0", 0.3, 3.0, _series_quotient("iv", 1.0)),
    **one("it2i0k0.1", 0.3, 3.0, lambda x: -_zero_order("kv")(x) / x),
    **one("it2j0y0.0", 0.3, 3.0, _series_quotient("jv", -1.0)),
    **one("it2j0y0.1", 0.3, 3.0, lambda x: -_zero_order("yv")(x) / x),
    **one("itstruve0", 0.3, 3.0, _zero_order("struve")),
    **one("itmodstruve0", 0.3, 3.0, _zero_order("modstruve")),
    **one("it2struve0", 0.3, 3.0, lambda x: -_zero_order("struve")(x) / x),
    **one("itairy.0", 0.3, 2.0, _airy(0)), **one("itairy.1", 0.3, 2.0, _airy(2)),
    **one("itairy.2", 0.3, 2.0, lambda x: _airy(0)(-x)),
    **one("itairy.3", 0.3, 2.0, lambda x: _airy(2)(-x)),
    **one("airy.0", -3.0, 2.0, _airy(1)), **one("airy.1", -3.0, 2.0, lambda x: x * _airy(0)(x)),
    **_scaled_airy("airye.0", "airye.1", 1.0, False),
    **_scaled_airy("airye.1", "airye.0", 1.0, True),
    **_scaled_airy("airye.2", "airye.3", -1.0, False),
    **_scaled_airy("airye.3", "airye.2", -1.0, True),
    "legendre_p.0": Row(((0, 5), (-0.9, 0.9)), (None, _whole_degree)),
    "assoc_legendre_p.0": Row(((3, 5), (-3, 4), (-0.9, 0.9)), (None, None, _associated)),
    "sph_legendre_p.0": Row(((3, 5), (-3, 4), (0.1, 3.0)), (None, None, _on_sphere)),
    "lpmv": Row(((-2, 3), (0.6, 3.0), (-0.8, 0.98)), (None, None, _real_degree)),
    **_pair("pbdv", ((-1.5, 2.5), (-2.0, 2.0)), lambda y, _, v, x: (x * x * 0.25 - v - 0.5) * y),
    **_pair("pbvv", ((-1.5, 2.5), (-2.0, 2.0)), lambda y, _, v, x: (x * x * 0.25 - v - 0.5) * y),
    **_pair("pbwa", ((-1.5, 1.5), (-2.0, 2.0)), lambda y, _, a, x: (a - x * x * 0.25) * y),
    **_mathieu("cem"), **_mathieu("sem"), **_spheroidal("pro", 1.0), **_spheroidal("obl", -1.0),
}  # fmt: skip
# of complex numbers alone; orders are whole or real numbers among them
COMPLEX_WAVES: dict[str, tuple[Slope, ...]] = {
    **{f"hankel{k}": (None, steps(f"hankel{k}", 0.5, -0.5)) for k in "12"},
    "hankel1e": (None, steps("hankel1e", 0.5, -0.5, -1j)),
    "hankel2e": (None, steps("hankel2e", 0.5, -0.5, 1j)),
    "lambertw": (lambda z, k: (
        exp(-named("lambertw", z, k)) / (named("lambertw", z, k) + 1.0)
    ), None),
}  # fmt: skip
