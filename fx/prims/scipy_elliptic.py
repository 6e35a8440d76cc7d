"""Slopes of Jacobi's elliptic functions and of Carlson's integrals, DLMF 22.13 and 19.16."""

from __future__ import annotations

import math
from collections.abc import Callable

from fx.prims.compare import equal, less, where
from fx.prims.creation import constant_like
from fx.prims.elementwise import cos, floor, sin, sqrt
from fx.prims.scipy_row import Row, Slope, named
from fx.tensor import Tensor

_POSITIVE = (0.3, 3.0)


def complete_slope(a: float, b: float, m: Tensor) -> Tensor:
    """pi / 8 times Gauss's function (a, b; 2) of m: what slopes in m are, at 0 too."""
    return named("hyp2f1", *[constant_like(v, m) for v in (a, b, 2.0)], m) * (math.pi / 8)  # type: ignore[no-any-return]


def _by_turns(phi: Tensor) -> tuple[Tensor, Tensor]:
    """The half turns in phi, and what is left of it, in (-pi / 2, pi / 2)."""
    turns = floor(phi * (1.0 / math.pi) + 0.5)
    return turns, phi - turns * math.pi


def ellipkinc_in_m(phi: Tensor, m: Tensor) -> Tensor:
    """sin^3 R_D(cos^2, 1, 1 - m sin^2) / 6, and twice the complete one's each half turn."""
    turns, rest = _by_turns(phi)
    s, c = sin(rest), cos(rest)
    square = c * c
    part = named("elliprd", square, constant_like(1.0, square), 1.0 - m * s * s)
    return part * s**3 * (1.0 / 6) + _whole_turns(turns, 1.5, m)  # type: ignore[no-any-return]


def ellipeinc_in_m(phi: Tensor, m: Tensor) -> Tensor:
    """The same of the second kind: -sin^3 R_D(cos^2, 1 - m sin^2, 1) / 6."""
    turns, rest = _by_turns(phi)
    s, c = sin(rest), cos(rest)
    square = c * c
    part = named("elliprd", square, 1.0 - m * s * s, constant_like(1.0, square))
    return -part * s**3 * (1.0 / 6) - _whole_turns(turns, 0.5, m)  # type: ignore[no-any-return]


def _amplitude_in_m(u: Tensor, m: Tensor) -> Tensor:
    return -named("ellipj.2", u, m) * ellipkinc_in_m(named("ellipj.3", u, m), m)  # type: ignore[no-any-return]


def _jacobi(own: int, in_amplitude: Callable[..., Tensor], in_m: Slope = None) -> dict[str, Row]:
    """Result k of ``ellipj`` by its slope in the amplitude, of which dn is that in u."""

    def by_u(u: Tensor, m: Tensor) -> Tensor:
        return in_amplitude(u, m) * named("ellipj.2", u, m)  # type: ignore[no-any-return]

    def by_m(u: Tensor, m: Tensor) -> Tensor:
        found = in_amplitude(u, m) * _amplitude_in_m(u, m)
        return found if in_m is None else found + in_m(u, m)  # type: ignore[no-any-return]

    return {f"ellipj.{own}": Row(((-2.0, 2.0), (0.1, 0.8)), (by_u, by_m))}


def _sn(u: Tensor, m: Tensor) -> Tensor:
    return named("ellipj.0", u, m)


def _cn(u: Tensor, m: Tensor) -> Tensor:
    return named("ellipj.1", u, m)


def _dn(u: Tensor, m: Tensor) -> Tensor:
    return named("ellipj.2", u, m)


def _whole_turns(turns: Tensor, a: float, m: Tensor) -> Tensor:
    """Of whole half turns; nothing where there are none, at m = 1 too."""
    none = equal(turns, constant_like(0.0, turns))
    slope = complete_slope(a, 1.5, where(none, constant_like(0.0, m), m)) * 2.0
    return where(none, constant_like(0.0, turns), turns * slope)  # type: ignore[no-any-return]


# Carlson's --------------------------------------------------------------------------------------


def _integral(powers: tuple[int, ...], factor: float) -> Callable[..., Tensor]:
    """A factor of the integral ``carlson`` of some powers; its slopes are integrals too."""
    name = f"carlson.{','.join(map(str, powers))}"
    return lambda *xs: named(name, *xs) * factor


def carlson_slopes(name: str) -> tuple[Slope, ...]:
    """The slopes of ``carlson.a,b,c,d,e``: the power of the argument rises by one."""
    powers = [int(k) for k in name.partition(".")[2].split(",")]

    def raised(i: int) -> Slope:
        factor = -(powers[i] + (0.5 if i < 3 else 0.0))
        if factor == 0:
            return lambda *xs: constant_like(0.0, xs[0])
        return _integral(tuple(k + (i == j) for j, k in enumerate(powers)), factor)

    return tuple(raised(i) for i in range(4))


def _of_three(powers: tuple[int, ...], factor: float) -> Callable[..., Tensor]:
    whole = _integral(powers, factor)
    return lambda x, y, z: whole(x, y, z, constant_like(1.0, x))


def _three(name: str, slopes: tuple[Slope, ...]) -> dict[str, Row]:
    return {name: Row((_POSITIVE,) * 3, slopes)}


def _rc(near: Callable[..., Tensor], far: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A slope of R_C; of a principal value, y < 0, where x - y is not 0, by the other formula."""

    def found(x: Tensor, y: Tensor) -> Tensor:
        if y.dtype.kind == "c":
            return near(x, y)
        below = less(y, constant_like(0.0, y))
        here, there = (
            where(below, constant_like(1.0, y), y),
            where(below, y, constant_like(-1.0, y)),
        )
        return where(below, far(x, there), near(x, here))  # type: ignore[no-any-return]

    return found


def _rd(x: Tensor, y: Tensor, z: Tensor, factor: float) -> Tensor:
    return named("elliprd", x, y, z) * factor  # type: ignore[no-any-return]


def _rc_apart(x: Tensor, y: Tensor) -> Tensor:
    return (1.0 / sqrt(x) - named("elliprc", x, y)) / ((x - y) * 2.0)  # type: ignore[no-any-return]


def _rc_apart_in_y(x: Tensor, y: Tensor) -> Tensor:
    return (named("elliprc", x, y) - sqrt(x) / y) / ((x - y) * 2.0)  # type: ignore[no-any-return]


def _ones(i: int, power: int, rest: int = 0) -> tuple[int, ...]:
    """The powers of R_G's and R_J's slopes."""
    return (*[power * (i == j) for j in range(3)], rest)


ELLIPTIC: dict[str, Row] = {
    **_jacobi(0, _cn), **_jacobi(1, lambda u, m: -_sn(u, m)),
    # dn^2 = 1 - m sn^2
    **_jacobi(
        2, lambda u, m: -m * _sn(u, m) * _cn(u, m) / _dn(u, m),
        lambda u, m: _sn(u, m) ** 2 * -0.5 / _dn(u, m),
    ),
    **_jacobi(3, lambda u, m: constant_like(1.0, u)),
    "elliprc": Row((_POSITIVE,) * 2, (
        _rc(lambda x, y: _rd(y, y, x, -1 / 6), _rc_apart),
        _rc(lambda x, y: _rd(x, y, y, -1 / 3), _rc_apart_in_y),
    )),
    **_three("elliprf", (
        lambda x, y, z: _rd(y, z, x, -1 / 6), lambda x, y, z: _rd(x, z, y, -1 / 6),
        lambda x, y, z: _rd(x, y, z, -1 / 6),
    )),
    **_three("elliprd", (
        _of_three((1, 0, 1, 0, 0), -3 / 4), _of_three((0, 1, 1, 0, 0), -3 / 4),
        _of_three((0, 0, 2, 0, 0), -9 / 4),
    )),
    **_three("elliprg", tuple(_of_three((*_ones(i, 1), 1), 1 / 8) for i in range(3))),
    "elliprj": Row((_POSITIVE,) * 4, (
        *[_integral((*_ones(i, 1, 1), 0), -3 / 4) for i in range(3)],
        _integral((0, 0, 0, 2, 0), -3 / 2),
    )),
}  # fmt: skip
