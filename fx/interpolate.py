"""Interpolation between the points of a grid, by the name of ``jax.scipy.interpolate``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import fx
from fx.dtypes import INEXACT
from fx.errors import ArgumentError, ShapeError
from fx.ops.operands import argument
from fx.tensor import Tensor

_METHODS = ("linear", "nearest")


class RegularGridInterpolator:
    """Values between the points of a grid whose axes have coordinates of their own.

    Args:
        points: of each axis of the grid its coordinates (n,), rising, at least two.
        values: (*N, *V), what lies at the points.
        method: ``"linear"``, or ``"nearest"``.
        bounds_error: False: whether a place lies outside is not known before a program runs.
        fill_value: the value of places outside; None continues what is inside.

    Raises:
        ShapeError: if shapes do not fit, or coordinates do not rise.
        ArgumentError: for another method, or ``bounds_error``.

    Source: ``jax.scipy.interpolate.RegularGridInterpolator``.

    Example:
        >>> import fx
        >>> x, y = fx.tensor([1.0, 2.0, 4.0]), fx.tensor([0.0, 1.0])
        >>> f = fx.interpolate.RegularGridInterpolator((x, y), x[:, None] * y)
        >>> f(fx.tensor([[3.0, 0.5], [9.0, 0.0]]))
        tensor([1.5000,    nan])
    """

    def __init__(
        self, points: Sequence[Any], values: Any, method: str = "linear",
        bounds_error: bool = False, fill_value: Any = math.nan,
    ) -> None:  # fmt: skip
        name = "RegularGridInterpolator"
        if bounds_error:
            raise ArgumentError(
                f"{name}: bounds_error has to be False; write fill_value=fx.nan and look for NaN"
            )
        self.method, self.fill_value = _method(method), fill_value
        x = argument(name, values)
        self.values = x if x.dtype in INEXACT else x.astype(fx.result_type(x, 1.0))
        self.grid = tuple(argument(name, p, x) for p in points)
        sides = tuple(p.shape for p in self.grid)
        if not sides or len(sides) > x.ndim or any(s != (n,) for s, n in zip(sides, x.shape)):
            raise ShapeError(
                f"{name}: points have the lengths of the first axes of the values {x.shape}, got "
                f"{sides}"
            )
        for p in self.grid:
            known = type(p) is Tensor and p.device.name != "meta" and fx.config.modes.stage is None
            if p.shape[0] < 2 or (known and not bool((p[1:] > p[:-1]).all())):
                raise ShapeError(
                    f"{name}: coordinates are two or more and rise; write p.flip(0) and "
                    f"values.flip(axis) where they fall"
                )

    def __call__(self, xi: Any, method: str | None = None) -> Tensor:
        """The values at places (*S, axes of the grid), or a tuple of the coordinates of each axis.

        Returns:
            (*S, *V).

        Raises:
            ShapeError: for another number of coordinates.
            ArgumentError: for another method.
        """
        how, rank = self.method if method is None else _method(method), len(self.grid)
        if isinstance(xi, tuple):
            parts = [argument("RegularGridInterpolator", c, self.values) for c in xi]
            x = fx.stack(list(fx.broadcast_arrays(*parts)), axis=-1)
        else:
            x = argument("RegularGridInterpolator", xi, self.values)
            if x.ndim == 1:
                x = fx.reshape(x, (-1, rank) if rank > 1 and x.shape[0] % rank == 0 else (-1, 1))
        if not x.ndim or x.shape[-1] != rank:
            raise ShapeError(
                f"RegularGridInterpolator: places in a grid of {rank} axes, got shape {x.shape}"
            )
        outside = fx.zeros(x.shape[:-1], dtype=fx.bool, device=x.device)
        each: list[tuple[Tensor, Tensor]] = []
        for axis, grid in enumerate(self.grid):
            at = x[..., axis]
            low = fx.clip(fx.searchsorted(grid, at) - 1, 0, grid.shape[0] - 2)
            left, right = grid[low], grid[low + 1]
            each.append((low, (at - left) / (right - left)))
            outside = outside | (at < grid[0]) | (at > grid[-1])
        behind = (1,) * (self.values.ndim - rank)
        spread = lambda y: fx.reshape(y, (*y.shape, *behind))
        if how == "nearest":
            out = self.values[tuple(fx.where(part <= 0.5, i, i + 1) for i, part in each)]
        else:
            out = 0.0
            for corner in product((0, 1), repeat=rank):
                share: Any = 1.0
                for upper, (_, part) in zip(corner, each, strict=True):
                    share = share * (part if upper else 1.0 - part)
                here = self.values[tuple(i + k for (i, _), k in zip(each, corner, strict=True))]
                out = out + here * spread(share)
        if self.fill_value is None:
            return out  # type: ignore[no-any-return]
        fill = argument("fill_value", self.fill_value, out).astype(out.dtype)
        return fx.where(spread(outside), fill, out)


def _method(method: str) -> str:
    if method not in _METHODS:
        raise ArgumentError(f"RegularGridInterpolator: method is linear or nearest, got {method!r}")
    return method


__all__ = ["RegularGridInterpolator"]
