"""Values of arrays between their elements, by the names of ``jax.scipy.ndimage``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import fx
from fx.dtypes import INEXACT, INTEGRAL
from fx.errors import ArgumentError, ShapeError
from fx.ops.operands import argument
from fx.tensor import Tensor


def _mirrored(i: Tensor, n: int) -> Tensor:  # 2 1 | 0 1 2 | 1 0
    return abs((i + (n - 1)) % (2 * (n - 1)) - (n - 1)) if n > 1 else i * 0  # type: ignore[no-any-return]


def _reflected(i: Tensor, n: int) -> Tensor:  # 1 0 | 0 1 2 | 2 1
    i = i % (2 * n)
    return fx.minimum(i, 2 * n - 1 - i)


_INSIDE: dict[str, Callable[[Tensor, int], Tensor]] = {
    "constant": lambda i, n: fx.clip(i, 0, n - 1),
    "nearest": lambda i, n: fx.clip(i, 0, n - 1),
    "wrap": lambda i, n: i % n,
    "mirror": _mirrored,
    "reflect": _reflected,
}


def map_coordinates(
    input: Any, coordinates: Sequence[Any], order: int, mode: str = "constant", cval: Any = 0.0
) -> Tensor:
    """The values of an array at places between its elements.

    Args:
        input: (*S,).
        coordinates: of each axis the places, which broadcast; 0 is the first element.
        order: 0, the nearest element; 1, linear between elements.
        mode: what lies outside: ``"constant"``, elements of ``cval``; ``"nearest"``, the last
            elements; ``"wrap"``, copies of the array; ``"mirror"`` and ``"reflect"``, mirror images
            about the last elements and beside them.
        cval: that of ``"constant"``.

    Returns:
        As the coordinates, in the dtype of ``input``; of integers the nearest.

    Raises:
        ShapeError: for another number of coordinates, and arrays without elements.
        ArgumentError: for another order or mode.

    Source: ``jax.scipy.ndimage.map_coordinates``, whose ``"constant"`` and ``"wrap"`` SciPy calls
    ``"grid-constant"`` and ``"grid-wrap"``.

    Example:
        >>> import fx
        >>> x = fx.arange(6.0).reshape(2, 3)
        >>> fx.ndimage.map_coordinates(x, [fx.tensor([0.5, 1.0]), fx.tensor([0.0, 1.5])], order=1)
        tensor([1.5000, 4.5000])
    """
    x = argument("map_coordinates", input)
    places = [argument("map_coordinates", c, x) for c in coordinates]
    if len(places) != x.ndim or not x.ndim:
        raise ShapeError(
            f"map_coordinates: coordinates for each axis of an input of shape {x.shape}, got "
            f"{len(places)}; write [*coordinates] of a tensor"
        )
    if not x.size:
        raise ShapeError(f"map_coordinates: an input of shape {x.shape} has no elements")
    if order not in (0, 1):
        raise ArgumentError(f"map_coordinates: order is 0 or 1 (there are no splines), got {order}")
    if mode not in _INSIDE:
        raise ArgumentError(f"map_coordinates: mode is one of {', '.join(_INSIDE)}, got {mode!r}")
    each = [_nodes(c, n, order, mode) for c, n in zip(places, x.shape, strict=True)]
    fill = fx.zeros((), dtype=x.dtype, device=x.device) + argument("cval", cval, x).astype(x.dtype)
    total: Any = 0
    for nodes in product(*each):
        found = x[tuple([place for place, _, _ in nodes])]
        weight: Any = 1
        inside = nodes[0][1]
        for _, there, _ in nodes[1:]:
            inside = inside & there
        for _, _, share in nodes:
            weight = weight if share is None else share * weight
        if mode == "constant":
            found = fx.where(inside, found, fill)
        total = found * weight + total
    if x.dtype in INTEGRAL and total.dtype in INEXACT:
        total = fx.lax.round(total)
    return total.astype(x.dtype)  # type: ignore[no-any-return]


def _nodes(c: Tensor, n: int, order: int, mode: str) -> list[tuple[Tensor, Tensor, Any]]:
    """Along an axis of n elements: which ones, whether they lie inside, and their shares."""
    whole = c.dtype not in INEXACT
    if order == 0 or whole:
        low = (c if whole else fx.lax.round(c)).astype(fx.int64)
        nodes: list[tuple[Tensor, Any]] = [(low, None)]
    else:
        floor = fx.floor(c)
        low, share = floor.astype(fx.int64), c - fx.stop_gradient(floor)
        nodes = [(low, 1 - share), (low + 1, share)]
    return [(_INSIDE[mode](i, n), (i >= 0) & (i < n), share) for i, share in nodes]


__all__ = ["map_coordinates"]
