"""Slopes by differences of neighbours: what NumPy's and PyTorch's ``gradient`` share."""

from __future__ import annotations

from typing import Any

from fx.ops.making.creation import full
from fx.ops.shapes.joining import concat
from fx.tensor import Tensor


def slopes(x: Tensor, axis: int, spacing: Any, order: int) -> Tensor:
    """The slope at each place of an axis, of the parabola through it and its neighbours.

    Args:
        x: floating or complex.
        axis: along which.
        spacing: the distance of neighbours, or their places (n,).
        order: how many neighbours the slopes at the ends take, 1 or 2.

    Raises:
        ValueError: for fewer than ``order + 1`` elements.
    """
    n = x.shape[axis]
    if n <= order:
        raise ValueError(
            f"gradient: edge_order={order} takes at least {order + 1} elements along an axis, "
            f"got {n} along axis {axis}"
        )
    if isinstance(spacing, Tensor) and spacing.ndim:
        shape = [-1 if i == axis % x.ndim else 1 for i in range(x.ndim)]
        steps = spacing.diff().to(x.dtype).reshape(shape)
        slope = x.diff(dim=axis) / steps  # of each piece: (..., n - 1, ...)
        first, last = slope.narrow(axis, 0, 1), slope.narrow(axis, n - 2, 1)
        left, right = steps.narrow(axis, 0, n - 2), steps.narrow(axis, 1, n - 2)
        before, after = slope.narrow(axis, 0, n - 2), slope.narrow(axis, 1, n - 2)
        middle = (right * before + left * after) / (left + right)
    else:
        step = full([], spacing, dtype=x.dtype, device=x.device)
        first, last = (x.narrow(axis, i, 2).diff(dim=axis) / step for i in (0, n - 2))
        middle = (x.narrow(axis, 2, n - 2) - x.narrow(axis, 0, n - 2)) / (step + step)
    if order == 2:  # the parabola's slope at its end
        first = 2 * first - middle.narrow(axis, 0, 1)
        last = 2 * last - middle.narrow(axis, n - 3, 1)
    return concat([first, middle, last], axis)
