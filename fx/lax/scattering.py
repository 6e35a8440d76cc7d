"""``scatter`` and its family with the dimension numbers of ``jax.lax``: windows changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import fx
from fx.dtypes import COMPLEX
from fx.errors import DTypeError, ShapeError
from fx.lax.windows import GatherScatterMode, ScatterDimensionNumbers, Windows, mode_of
from fx.ops.operands import argument
from fx.prims.indexing import scatter as scatter_along
from fx.tensor import Tensor


def _scattered(
    name: str, combine: str, operand: Any, scatter_indices: Any, updates: Any,
    numbers: ScatterDimensionNumbers, mode: Any,
) -> Tensor:  # fmt: skip
    x, new = argument(f"lax.{name}", operand), argument(f"lax.{name}", updates)
    how = mode_of(name, mode, GatherScatterMode.FILL_OR_DROP)
    if new.dtype != x.dtype:
        raise DTypeError(
            f"lax.{name}: operand and updates have one dtype, got {x.dtype.name} and "
            f"{new.dtype.name}; write updates.astype(operand.dtype)"
        )
    if x.dtype in COMPLEX and combine in ("min", "max"):
        raise DTypeError(f"lax.{name}: complex numbers have no order")
    among, missing = numbers.update_window_dims, numbers.inserted_window_dims
    aside = (*missing, *numbers.operand_batching_dims)
    kept = [a for a in range(x.ndim) if a not in aside]
    if len(among) != len(kept) or not all(0 <= i < new.ndim for i in among):
        raise ShapeError(
            f"lax.{name}: windows of an operand {x.shape} have {len(kept)} axes, "
            f"update_window_dims {tuple(among)} of updates {new.shape}"
        )
    sizes = [1] * x.ndim
    for a, i in zip(kept, among, strict=True):
        sizes[a] = new.shape[i]
    batching = numbers.operand_batching_dims, numbers.scatter_indices_batching_dims
    windows = Windows(
        name, x.shape, scatter_indices, sizes, missing, numbers.scatter_dims_to_operand_dims,
        batching,
    )  # fmt: skip
    order = windows.order(among)
    lead = tuple(n for i, n in enumerate(new.shape) if i not in among)
    if lead != windows.lead:
        raise ShapeError(
            f"lax.{name}: updates {new.shape} without their window axes {tuple(among)} have the "
            f"shape of the indices without their last, {windows.lead}"
        )
    new = fx.permute_dims(new, tuple(order.index(i) for i in range(new.ndim)))
    places, line = windows.places(), windows.line(x)
    new = fx.reshape(new, (*places.shape, *line.shape[1:]))
    if how is not GatherScatterMode.CLIP:  # what is dropped goes to a last place, cut off again
        inside = windows.spread(windows.inside, places.ndim - len(windows.lead))
        places = fx.where(inside, places, line.shape[0])
        ends = fx.ones((1, *line.shape[1:]), dtype=x.dtype, device=x.device)
        if combine != "set":  # a dropped infinity must not meet a cotangent of 0
            new = fx.where(windows.spread(inside, new.ndim - inside.ndim), new, ends[0])
        found = scatter_along(fx.concat([line, ends]), places, new, axis=0, mode=combine)
        return windows.back(found[: line.shape[0]])
    return windows.back(scatter_along(line, places, new, axis=0, mode=combine))


def _scatter(name: str, combine: str, says: str, sign: int = 1) -> Callable[..., Tensor]:
    def function(
        operand: Any, scatter_indices: Any, updates: Any,
        dimension_numbers: ScatterDimensionNumbers, *, indices_are_sorted: bool = False,
        unique_indices: bool = False, mode: Any = None,
    ) -> Tensor:  # fmt: skip
        new = argument(f"lax.{name}", updates)
        new = new if sign > 0 else -new
        return _scattered(name, combine, operand, scatter_indices, new, dimension_numbers, mode)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""The operand, {says}.

    Args:
        operand: (*D,).
        scatter_indices: (*S, k), integers; none counts from behind.
        updates: S in the axes that are not ``update_window_dims``, of the operand's dtype.
        dimension_numbers: a ``ScatterDimensionNumbers``.
        indices_are_sorted, unique_indices: promises, which nothing here needs.
        mode: a ``GatherScatterMode`` or its word; windows that do not lie inside are dropped
            unless told.

    Raises:
        ShapeError: if shapes and dimension numbers do not fit.
        DTypeError: for indices that are no integers, and updates of another dtype.
        ArgumentError: for another mode.

    Source: ``jax.lax.{name}``; XLA's operation semantics, Scatter.

    Example:
        >>> import fx, fx.lax as lax
        >>> rows = lax.ScatterDimensionNumbers((), (0,), (0,))
        >>> places, new = fx.tensor([[1], [9]]), fx.tensor([3.0, 5.0])
        >>> lax.{name}(fx.full(3, 2.0), places, new, rows).tolist()
        [2.0, {_SHOWN[name]}, 2.0]
    """
    return function


_SHOWN = {
    "scatter": "3.0", "scatter_add": "5.0", "scatter_sub": "-1.0", "scatter_mul": "6.0",
    "scatter_min": "2.0", "scatter_max": "3.0",
}  # fmt: skip
scatter = _scatter("scatter", "set", "with updates in place of windows of it; of updates of one "
                   "element any may stay")  # fmt: skip
scatter_add = _scatter("scatter_add", "add", "with updates added to windows of it")
scatter_sub = _scatter("scatter_sub", "add", "with updates subtracted from windows of it", -1)
scatter_mul = _scatter("scatter_mul", "mul", "with windows of it multiplied by updates")
scatter_min = _scatter("scatter_min", "min", "with the smaller of windows of it and updates")
scatter_max = _scatter("scatter_max", "max", "with the greater of windows of it and updates")


def scatter_apply(
    operand: Any, scatter_indices: Any, func: Callable[[Tensor], Any],
    dimension_numbers: ScatterDimensionNumbers, *, update_shape: Sequence[int] = (),
    indices_are_sorted: bool = False, unique_indices: bool = False, mode: Any = None,
) -> Tensor:  # fmt: skip
    """The operand with a function of elements applied in windows of it.

    Args:
        operand, scatter_indices, dimension_numbers, indices_are_sorted, mode: those of
            ``scatter_add``.
        func: takes a tensor and returns one of its shape, element by element. It is applied to an
            element as often as windows hold it.
        update_shape: the shape that updates would have.
        unique_indices: that no element is in two windows, which saves counting them.

    Raises:
        ShapeError, DTypeError, ArgumentError: as those of ``scatter_add``.

    Source: ``jax.lax.scatter_apply``.

    Example:
        >>> import fx, fx.lax as lax
        >>> rows = lax.ScatterDimensionNumbers((), (0,), (0,))
        >>> places = fx.tensor([[1], [1], [2]])
        >>> lax.scatter_apply(fx.ones(3), places, lambda x: x * 3, rows, update_shape=(3,))
        tensor([1., 9., 3.])
    """
    x = argument("lax.scatter_apply", operand)
    none = fx.zeros(x.shape, dtype=fx.int64, device=x.device)
    ones = fx.ones(tuple(update_shape), dtype=fx.int64, device=x.device)
    often = _scattered("scatter_apply", "add", none, scatter_indices, ones, dimension_numbers, mode)

    def again(x: Tensor, k: Any) -> Tensor:
        return fx.where(often > k, argument("lax.scatter_apply", func(x)).astype(x.dtype), x)

    if unique_indices or not x.size:
        return again(x, 0)
    most = fx.max(often)
    return fx.while_loop(  # type: ignore[no-any-return]
        lambda now: now[0] < most, lambda now: (now[0] + 1, again(now[1], now[0])),
        (fx.zeros_like(most), x),
    )[1]  # fmt: skip
