"""Functions of physics made of others: Lambert's, Hankel's, harmonics, sequences of orders."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fx.dtypes import COMPLEX, complex64, complex128, float64
from fx.errors import ArgumentError
from fx.ops.axes import integer
from fx.ops.indexing.searching import where
from fx.ops.operands import alike, argument, cast, floating
from fx.ops.pointwise.elementwise import abs as absolute
from fx.ops.pointwise.elementwise import exp
from fx.ops.shapes.joining import stack
from fx.prims.scipy_functions import named
from fx.special import named as _named
from fx.special import rows
from fx.special.bessel import _derived
from fx.special.functions import together
from fx.tensor import Tensor

_by = {**vars(_named), **vars(rows)}


def _complex(name: str, *xs: Any) -> list[Tensor]:
    """Operands in their common complex dtype; real numbers among them may be orders."""
    found = alike(name, *xs)
    dtype = found[0].dtype
    if dtype in COMPLEX:
        return found
    return [cast(x, complex128 if dtype == float64 else complex64) for x in found]


def lambertw(z: Any, k: Any = 0, tol: float = 1e-8) -> Tensor:
    """The w with w exp(w) = z, on branch k: DLMF 4.13; holomorphic in z.

    Args:
        z: a tensor.
        k: whole numbers, whose shape broadcasts.
        tol: ignored; results are as exact as SciPy's are by default.

    Returns:
        A complex tensor.

    Example:
        >>> import fx
        >>> fx.special.lambertw(fx.tensor(1.0)).real
        tensor(0.5671)
    """
    return named("lambertw", *_complex("lambertw", z, k))


def _hankel(name: str, says: str) -> Any:
    def function(v: Any, z: Any) -> Tensor:
        return named(name, *_complex(name, v, z))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Hankel's function {says}, of real order v, complex: DLMF 10.2."
    return function


hankel1, hankel1e = [
    _hankel(name, f"of the first kind{more}")
    for name, more in (("hankel1", ""), ("hankel1e", " times exp(-i z)"))
]
hankel2, hankel2e = [
    _hankel(name, f"of the second kind{more}")
    for name, more in (("hankel2", ""), ("hankel2e", " times exp(i z)"))
]
h1vp, h2vp = _derived("h1vp", hankel1, (0.5, -0.5)), _derived("h2vp", hankel2, (0.5, -0.5))


def kelvin(x: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Kelvin's functions ber + i bei and ker + i kei, and the derivatives of both: DLMF 10.61."""
    x = floating("kelvin", x)
    pairs = (("ber", "bei"), ("ker", "kei"), ("berp", "beip"), ("kerp", "keip"))
    return tuple([named(re, x) + named(im, x) * 1j for re, im in pairs])  # type: ignore[return-value]


def _fresnel(x: Tensor, sign: float) -> tuple[Tensor, Tensor]:
    narrow = complex128 if x.dtype == float64 else complex64
    found = _turned(cast(x, float64), sign)  # the angle x^2 is long
    return cast(found[0], narrow), cast(found[1], narrow)


def _turned(x: Tensor, sign: float) -> tuple[Tensor, Tensor]:
    turn = complex(math.cos(math.pi / 4), sign * math.sin(math.pi / 4))
    z = x * turn
    scaled = _named.wofz(z if sign > 0 else z.conj())
    scaled = (scaled if sign > 0 else scaled.conj()) * 0.5
    return exp(x * x * (sign * 1j)) * scaled * (turn * math.sqrt(math.pi)), scaled


def modfresnelp(x: Any) -> tuple[Tensor, Tensor]:
    """The integral of exp(i t^2) from x on, and it times exp(-i (x^2 + pi / 4)) / sqrt(pi).

    Right for negative x too, where SciPy 1.17's is not.
    """
    return _fresnel(floating("modfresnelp", x), 1.0)


def modfresnelm(x: Any) -> tuple[Tensor, Tensor]:
    """The integral of exp(-i t^2) from x on, and it times exp(i (x^2 + pi / 4)) / sqrt(pi)."""
    return _fresnel(floating("modfresnelm", x), -1.0)


# Legendre functions and harmonics -----------------------------------------------------------------


def _first_only(name: str, diff_n: int) -> None:
    if diff_n:
        raise ArgumentError(f"{name}: diff_n must be 0, got {diff_n}; take derivatives by fx.grad")


def _normed(n: Any, m: Any, value: Tensor) -> Tensor:
    from fx.ops.pointwise.elementwise import lgamma

    dtype = alike("assoc_legendre_p", n, m, value)[2]._dtype
    n, m, value = together("assoc_legendre_p", n, m, value)
    inside = absolute(m) <= n
    m = where(inside, m, 0.0)
    logs = lgamma(n - m + 1.0) - lgamma(n + m + 1.0)
    return cast(where(inside, value * exp(logs * 0.5) * ((n + 0.5) ** 0.5), 0.0), dtype)


def legendre_p(n: Any, z: Any, *, diff_n: int = 0) -> Tensor:
    """Legendre's polynomial of degree n, with a leading axis of length 1: DLMF 14.7.

    Raises:
        ArgumentError: where ``diff_n`` is not 0.
    """
    _first_only("legendre_p", diff_n)
    return named("legendre_p.0", *alike("legendre_p", n, z))[None]  # type: ignore[no-any-return]


def assoc_legendre_p(
    n: Any, m: Any, z: Any, *, branch_cut: int = 2, norm: bool = False, diff_n: int = 0
) -> Tensor:
    """The associated Legendre polynomial for -1 <= z <= 1, with a leading axis of length 1.

    Args:
        n, m: whole degrees and orders, whose shapes broadcast.
        z: a real tensor.
        branch_cut: 2, SciPy's default.
        norm: whether its square has the integral 1.

    Raises:
        ArgumentError: for another branch cut, or where ``diff_n`` is not 0.
    """
    _first_only("assoc_legendre_p", diff_n)
    if branch_cut != 2:
        raise ArgumentError(f"assoc_legendre_p: branch_cut must be 2, got {branch_cut}")
    found = named("assoc_legendre_p.0", *alike("assoc_legendre_p", n, m, z))
    return (_normed(n, m, found) if norm else found)[None]  # type: ignore[no-any-return]


def sph_legendre_p(n: Any, m: Any, theta: Any, *, diff_n: int = 0) -> Tensor:
    """The spherical Legendre polynomial of cos(theta), with a leading axis of length 1.

    Raises:
        ArgumentError: where ``diff_n`` is not 0.
    """
    _first_only("sph_legendre_p", diff_n)
    return named("sph_legendre_p.0", *alike("sph_legendre_p", n, m, theta))[None]  # type: ignore[no-any-return]


def sph_harm_y(n: Any, m: Any, theta: Any, phi: Any, *, diff_n: int = 0) -> Tensor:
    """The spherical harmonic of degree n and order m: DLMF 14.30.

    Args:
        n, m: whole numbers, whose shapes broadcast.
        theta: the polar angle in radians, from 0 to pi.
        phi: the azimuth in radians.

    Returns:
        A complex tensor.

    Raises:
        ArgumentError: where ``diff_n`` is not 0.
    """
    _first_only("sph_harm_y", diff_n)
    n, m, theta, phi = alike("sph_harm_y", n, m, theta, phi)
    return named("sph_legendre_p.0", n, m, theta) * exp(m * phi * 1j)  # type: ignore[no-any-return]


def _grid(rank: int, n: int, m: int | None) -> list[Any]:
    """Degrees 0..n, and orders 0..m, -m..-1, along axes in front of ``rank`` others."""
    ends = (1,) * rank
    if m is None:
        return [np.arange(n + 1.0).reshape(-1, *ends)]
    orders = np.r_[np.arange(m + 1.0), np.arange(-m, 0.0)]
    return [np.arange(n + 1.0).reshape(-1, 1, *ends), orders.reshape(1, -1, *ends)]


def _all(name: str, function: Any, ordered: bool) -> Any:
    def every(*args: Any, **options: Any) -> Tensor:
        whole, rest = args[: 1 + ordered], alike(name, *args[1 + ordered :])
        counts = [integer(name, "n or m", k) for k in whole]
        rank = max(x.ndim for x in rest)
        grid = _grid(rank, counts[0], abs(counts[1]) if ordered else None)
        given = [cast(argument(name, k, rest[0]), rest[0].dtype) for k in grid]
        return function(*given, *rest, **options)  # type: ignore[no-any-return]

    every.__name__ = every.__qualname__ = name
    orders = " and orders from -m to m (0..m, then -m..-1)" if ordered else ""
    every.__doc__ = f"``{function.__name__}`` of degrees up to an int n{orders}, on axes in front."
    return every


legendre_p_all = _all("legendre_p_all", legendre_p, False)
assoc_legendre_p_all = _all("assoc_legendre_p_all", assoc_legendre_p, True)
sph_legendre_p_all = _all("sph_legendre_p_all", sph_legendre_p, True)
sph_harm_y_all = _all("sph_harm_y_all", sph_harm_y, True)


# sequences of orders ------------------------------------------------------------------------------


def _riccati(name: str, kind: str, sign: float) -> Any:
    def function(n: int, x: Any) -> tuple[Tensor, Tensor]:
        last, x = integer(name, "n", n), floating(name, x)
        at = [_by[f"spherical_{kind}n"](k, x) for k in range(last + 2)]
        slopes = [at[k] * (k + 1.0) - at[k + 1] * x for k in range(last + 1)]
        return stack([x * v for v in at[:-1]]), stack(slopes)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"x spherical_{kind}n(k, x) for k = 0..n along a first axis, and slopes."
    return function


riccati_jn, riccati_yn = _riccati("riccati_jn", "j", 1.0), _riccati("riccati_yn", "y", 1.0)


def _cylinder(name: str) -> Any:
    def function(v: float, x: Any) -> tuple[Tensor, Tensor]:
        x, v = floating(name, x), float(v)
        if v < 0:
            raise ArgumentError(f"{name}: v must not be negative, got {v}; take {name[:4]} of each")
        rest = v - math.trunc(v)
        count = max(math.trunc(v), 1)  # SciPy's has two orders at least
        orders = [rest + k for k in range(count + 1)]
        pairs = [_by[name[:4]](order, x) for order in orders]
        return stack([p[0] for p in pairs]), stack([p[1] for p in pairs])

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"``{name[:4]}`` of the orders from the fraction of v >= 0 to v, first axis."
    return function


pbdv_seq, pbvv_seq = _cylinder("pbdv_seq"), _cylinder("pbvv_seq")


def lmbda(v: float, x: Any) -> tuple[Tensor, Tensor]:
    """gamma(k + 1) (2 / x)^k jv(k, x) for k from the fraction of v to v, and the derivatives.

    Both have a first axis of orders; regular at 0, as 0F1 of k + 1 and -x^2 / 4: DLMF 10.16.9.
    """
    x, v = floating("lmbda", x), float(v)
    orders = [v - math.trunc(v) + k for k in range(math.trunc(v) + 1)]
    at = lambda k: _by["hyp0f1"](k + 1.0, x * x * -0.25)
    slopes = [at(k + 1.0) * x * (-0.5 / (k + 1.0)) for k in orders]
    return stack([at(k) for k in orders]), stack(slopes)


__all__ = [
    "lambertw", "hankel1", "hankel1e", "hankel2", "hankel2e", "h1vp", "h2vp", "kelvin",
    "modfresnelp", "modfresnelm", "legendre_p", "assoc_legendre_p", "sph_legendre_p", "sph_harm_y",
    "legendre_p_all", "assoc_legendre_p_all", "sph_legendre_p_all", "sph_harm_y_all", "riccati_jn",
    "riccati_yn", "pbdv_seq", "pbvv_seq", "lmbda",
]  # fmt: skip
