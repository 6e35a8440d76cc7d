"""Carlson's integral of the third kind as a principal value, and ellipsoidal harmonics.

Lamé's functions of degree n are E(s) = psi(s) q(s^2), where psi is a product of some of s,
sqrt|s^2 - h^2| and sqrt|s^2 - k^2|, and q a polynomial with the leading coefficient 1. With u = s^2
and the exponents a, b, c of u, u - h^2 and u - k^2 in psi, q solves

    u (u - h^2) (u - k^2) q'' + [(2a + 1/2) (u - h^2) (u - k^2) + (2b + 1/2) u (u - k^2)
        + (2c + 1/2) u (u - h^2)] q' + (C u - L) q = 0,

so that its coefficients are an eigenvector of a tridiagonal matrix, and L the eigenvalue.

Source: NIST, Digital Library of Mathematical Functions, 19.20.14 and 29; E. W. Hobson, The theory
of spherical and ellipsoidal harmonics, 1931, chapter 11.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from fx.errors import ArgumentError
from fx.ops.indexing.searching import where
from fx.ops.operands import alike, cast, floating
from fx.ops.pointwise.elementwise import abs as absolute
from fx.ops.pointwise.elementwise import sqrt
from fx.prims.creation import constants_like
from fx.prims.scipy_functions import named
from fx.special.functions import together
from fx.tensor import Tensor


def elliprj(x: Any, y: Any, z: Any, p: Any) -> Tensor:
    """Carlson's symmetric elliptic integral of the third kind; a principal value where p < 0.

    Args:
        x, y, z: tensors that are not negative, at most one of them 0; they broadcast.
        p: not 0.

    Returns:
        A tensor, differentiable in all four if they are real.

    Source: DLMF 19.16.2 and 19.20.14.

    Example:
        >>> import fx
        >>> fx.special.elliprj(fx.tensor([1.0, 1.0]), 2.0, 3.0, fx.tensor([1.0, -1.0]))
        tensor([ 0.5591, -0.0932])
    """
    x, y, z, p = alike("elliprj", x, y, z, p)
    known = type(p) is Tensor and p.device.name == "cpu"
    if p._dtype.kind == "c" or (known and not bool((p < 0).any())):
        return named("elliprj", x, y, z, p)
    below, usual = p < 0, named("elliprj", x, y, z, where(p < 0, 1.0, p))
    dtype = p._dtype
    x, y, z, p = together("elliprj", x, y, z, p)
    return where(below, cast(_principal(x, y, z, where(p < 0, -p, 1.0)), dtype), usual)  # type: ignore[no-any-return]


def _principal(x: Tensor, y: Tensor, z: Tensor, q: Tensor) -> Tensor:
    """R_J(x, y, z, -q), by R_J of a positive argument."""
    first = x > y
    x, y = where(first, y, x), where(first, x, y)
    first = y > z
    y, z = where(first, z, y), where(first, y, z)  # z is the greatest
    p = (z * (x + y + q) - x * y) / (z + q)
    product = p * q
    # each root apart: at x = 0 there are slopes in y and z
    rest = sqrt(x) * sqrt(y) * sqrt(z / (x * y + product))
    rest = rest * named("elliprc", x * y + product, product)
    found = (p - z) * named("elliprj", x, y, z, p) - (named("elliprf", x, y, z) - rest) * 3.0
    return found / (z + q)  # type: ignore[no-any-return]


# ellipsoidal harmonics ----------------------------------------------------------------------------


@cache
def _lame(h2: float, k2: float, n: int, p: int) -> tuple[tuple[int, int, int], tuple[float, ...]]:
    """The exponents, doubled, of psi, and the coefficients of q from the constant one on."""
    half = n // 2
    odd = n % 2
    kinds = (  # how many there are, and the exponents
        (half + 1, (odd, 0, 0)), (n - half, (1 - odd, 1, 0)), (n - half, (1 - odd, 0, 1)),
        (half, (odd, 1, 1)),
    )  # fmt: skip
    place, kind = p - 1, 0
    while place >= kinds[kind][0]:
        place, kind = place - kinds[kind][0], kind + 1
    size, powers = kinds[kind]
    unit = k2  # coefficients are of u / k^2
    h, (a, b, c) = h2 / unit, (v + 0.5 for v in powers)
    j = np.arange(size)
    top = size - 1
    up = j * (j - 1) + j * (a + b + c) - top * (top - 1) - top * (a + b + c)
    here = -(h + 1) * j * (j - 1) - j * (a * (h + 1) + b + c * h)
    down = h * j * (j - 1 + a)
    matrix = np.diag(here) + np.diag(up[:-1], -1) + np.diag(down[1:], 1)
    values, vectors = np.linalg.eig(matrix)
    vector = vectors[:, np.argsort(values.real)[::-1][place]].real
    return powers, tuple((vector / vector[-1] * unit ** (top - j)).tolist())


def _known(name: str, h2: Any, k2: Any, n: Any, p: Any) -> tuple[float, float, int, int]:
    try:
        h2, k2, degree, order = float(h2), float(k2), int(n), int(p)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"{name}: h2, k2, n and p are numbers that are known") from error
    if not 0 < h2 < k2:
        raise ArgumentError(f"{name}: 0 < h2 < k2 are wanted, got {h2} and {k2}")
    if degree != n or order != p or degree < 0 or not 1 <= order <= 2 * degree + 1:
        raise ArgumentError(
            f"{name}: n is a whole degree and p one of 1 .. 2 n + 1, got n {n} and p {p}"
        )
    return h2, k2, degree, order


def _polynomial(coefficients: Any, u: Tensor) -> Tensor:
    found = u * 0.0 + coefficients[-1]
    for c in coefficients[-2::-1]:
        found = found * u + c
    return found


def ellip_harm(
    h2: float, k2: float, n: int, p: int, s: Any, signm: float = 1, signn: float = 1
) -> Tensor:
    """The ellipsoidal harmonic, Lamé's function of the first kind, at s.

    Args:
        h2, k2: the squares 0 < h^2 < k^2 of the half axes' parameters, known numbers.
        n: the degree, from 0 on; p: the order, one of 1 .. 2 n + 1.
        s: a tensor.
        signm, signn: the signs of sqrt(s^2 - h^2) and sqrt(s^2 - k^2), where these are factors.

    Returns:
        A tensor as s, differentiable in s to any order.

    Raises:
        ArgumentError: for other numbers.

    Source: ``scipy.special.ellip_harm``.

    Example:
        >>> import fx
        >>> fx.special.ellip_harm(5, 8, 1, 1, fx.tensor(2.5))
        tensor(2.5000)
    """
    s = floating("ellip_harm", s)
    h2, k2, n, p = _known("ellip_harm", h2, k2, n, p)
    for word, sign in (("signm", signm), ("signn", signn)):
        if sign not in (1, -1):
            raise ArgumentError(f"ellip_harm: {word} is 1 or -1, got {sign}")
    powers, coefficients = _lame(h2, k2, n, p)
    u = s * s
    found = _polynomial(coefficients, u)
    if powers[0]:
        found = found * s
    if powers[1]:
        found = found * sqrt(absolute(u - h2)) * float(signm)
    return found * sqrt(absolute(u - k2)) * float(signn) if powers[2] else found


_NODES = 48


def ellip_harm_2(h2: float, k2: float, n: int, p: int, s: Any) -> Tensor:
    """The ellipsoidal harmonic of the second kind, which vanishes for large s.

    It is (2 n + 1) E(s) times the integral of 1 / (E(1/t)^2 sqrt(1 - k^2 t^2) sqrt(1 - h^2 t^2))
    over t from 0 to 1 / s.

    Args:
        h2, k2, n, p: as of ``ellip_harm``.
        s: a tensor of numbers above k; NaN below.

    Returns:
        A tensor as s, differentiable in s to any order.

    Raises:
        ArgumentError: for other numbers.

    Source: ``scipy.special.ellip_harm_2``.

    Example:
        >>> import fx
        >>> fx.special.ellip_harm_2(5, 8, 2, 1, fx.tensor(10.0, dtype=fx.float64))
        tensor(0.0011, dtype=fx.float64)
    """
    s = floating("ellip_harm_2", s)
    h2, k2, n, p = _known("ellip_harm_2", h2, k2, n, p)
    powers, coefficients = _lame(h2, k2, n, p)
    inside = s > k2**0.5
    at = where(inside, s, 2.0 * k2**0.5)
    # t = (1 - v^2) / s, behind which the roots at 1 / k and 1 / h are smooth for s near k
    places, weights = np.polynomial.legendre.leggauss(_NODES)
    v, w = (places + 1) / 2, weights / 2
    v, w = (constants_like(x, s) for x in (v, w * 2 * v))
    part = 1.0 - v * v  # t s
    u = (at * at)[..., None]
    square = part * part
    # E(1/t)^2 is t^(-2 n) times a polynomial in t^2: powers of t go to the front
    reversed_ = _polynomial(coefficients[::-1], square / u)
    below = reversed_ * reversed_
    roots = [1.0 - square * (x / u) for x in (h2, k2)]
    for root, twice in zip(roots, powers[1:], strict=True):
        below = below * root * sqrt(root) if twice else below * sqrt(root)
    total = (part ** (2.0 * n) / below * w).sum(-1) / at ** (2.0 * n + 1.0)
    found = ellip_harm(h2, k2, n, p, at) * total * (2.0 * n + 1.0)
    return where(inside, found, float("nan"))  # type: ignore[no-any-return]


__all__ = ["ellip_harm", "ellip_harm_2", "elliprj"]
