"""What the tables of SciPy's functions are made of: a row, a function by its name, an inverse."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from fx.dtypes import COMPLEX
from fx.errors import ArgumentError
from fx.primitive import registry
from fx.tensor import Tensor

Slope = Callable[..., Tensor] | None


class Row(NamedTuple):
    """A function: where each argument is drawn from (whole numbers between two), and its slopes."""

    where: tuple[tuple[float, float], ...]
    slopes: tuple[Slope, ...]


def named(name: str, *xs: Tensor) -> Tensor:
    """The function of a name; ``name.k`` is result k of SciPy's ``name``."""
    return registry["scipy_function"](*xs, function=name)  # type: ignore[no-any-return]


def one(name: str, low: float, high: float, slope: Slope) -> dict[str, Row]:
    """A row of a function of one argument."""
    return {name: Row(((low, high),), (slope,))}


def inverse(
    name: str, place: int, ranges: tuple[tuple[float, float], ...], *slopes: Slope
) -> dict[str, Row]:
    """A row of the argument at a place at which a function reaches a value, given in its stead.

    ``slopes`` are those of the function; an argument without one, or all of them where that of the
    place is unknown, has none here.
    """
    own = slopes[place]

    def solved(xs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (*xs[:place], named(name, *xs), *xs[place + 1 :])

    def by_value(*xs: Tensor) -> Tensor:
        return 1.0 / own(*solved(xs))  # type: ignore[misc, no-any-return]

    def by_other(slope: Slope) -> Slope:
        def found(*xs: Tensor) -> Tensor:
            at = solved(xs)
            return -slope(*at) / own(*at)  # type: ignore[misc, no-any-return]

        return found if slope and own else None

    found = [
        (by_value if own else None) if i == place else by_other(slope)
        for i, slope in enumerate(slopes)
    ]
    return {name: Row(ranges, tuple(found))}


def of_reals(name: str, slope: Callable[..., Tensor]) -> Slope:
    """A slope that holds for real numbers; of complex ones the function is not holomorphic."""

    def found(*xs: Tensor) -> Tensor:
        if xs[0].dtype in COMPLEX:
            raise ArgumentError(
                f"fx has no derivative of {name} of complex numbers, of which it is not "
                f"holomorphic; for a constant write x.detach()"
            )
        return slope(*xs)

    return found
