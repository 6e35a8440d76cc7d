"""``gather`` with the dimension numbers of ``jax.lax``: windows as one tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import fx
from fx.dtypes import INEXACT, bool_
from fx.errors import ShapeError
from fx.lax.windows import GatherDimensionNumbers, GatherScatterMode, Windows, mode_of
from fx.ops.operands import argument
from fx.tensor import Tensor


def _fill_of(dtype: Any, fill_value: Any) -> Any:
    """What stands for a window outside: NaN, the least of signed and the greatest of unsigned."""
    if fill_value is not None:
        return fill_value
    if dtype in INEXACT:
        return float("nan")
    if dtype == bool_:
        return True
    limits = fx.iinfo(dtype)
    return limits.min if limits.min < 0 else limits.max


def gather(
    operand: Any, start_indices: Any, dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int], *, unique_indices: bool = False, indices_are_sorted: bool = False,
    mode: Any = None, fill_value: Any = None,
) -> Tensor:  # fmt: skip
    """Windows of the operand that begin at given places.

    Args:
        operand: (*D,).
        start_indices: (*S, k), integers; none counts from behind.
        dimension_numbers: a ``GatherDimensionNumbers``.
        slice_sizes: of a window, a number for each axis of the operand.
        unique_indices, indices_are_sorted: promises, which nothing here needs.
        mode: a ``GatherScatterMode`` or its word; ``"promise_in_bounds"`` unless told.
        fill_value: what ``"fill"`` fills windows with that do not lie inside: NaN, the least
            number of a signed dtype, the greatest of an unsigned one, or True unless told.

    Returns:
        The axes of a window at ``offset_dims``, those of S in the other places.

    Raises:
        ShapeError: if shapes, sizes and dimension numbers do not fit.
        DTypeError: for indices that are no integers.
        ArgumentError: for another mode.

    Source: ``jax.lax.gather``; XLA's operation semantics, Gather.

    Example:
        >>> import fx, fx.lax as lax
        >>> rows = lax.GatherDimensionNumbers((1,), (0,), (0,))
        >>> lax.gather(fx.arange(6).reshape(3, 2), fx.tensor([[2], [0]]), rows, (1, 2))
        tensor([[4, 5],
                [0, 1]])
    """
    x, numbers = argument("lax.gather", operand), dimension_numbers
    how = mode_of("gather", mode, GatherScatterMode.PROMISE_IN_BOUNDS)
    if len(slice_sizes) != x.ndim:
        raise ShapeError(
            f"lax.gather: slice_sizes has a number for each axis of the operand {x.shape}, got "
            f"{tuple(slice_sizes)}"
        )
    batching = numbers.operand_batching_dims, numbers.start_indices_batching_dims
    windows = Windows(
        "gather", x.shape, start_indices, slice_sizes, numbers.collapsed_slice_dims,
        numbers.start_index_map, batching,
    )  # fmt: skip
    if len(numbers.offset_dims) != len(windows.window):
        raise ShapeError(
            f"lax.gather: windows have {len(windows.window)} axes, offset_dims "
            f"{tuple(numbers.offset_dims)}"
        )
    line = windows.line(x)
    if not line.shape[0]:  # also no window has an element, or there are none
        out = fx.zeros((*windows.places().shape, *line.shape[1:]), dtype=x.dtype, device=x.device)
    else:
        out = line[windows.places()]  # (*S, *seen, *whole)
    if how is GatherScatterMode.FILL_OR_DROP:
        inside = windows.spread(windows.inside, out.ndim - len(windows.lead))
        fill = fx.full((), _fill_of(x.dtype, fill_value), dtype=x.dtype, device=x.device)
        out = fx.where(inside, out, fill)
    return fx.permute_dims(out, windows.order(numbers.offset_dims))


def index_take(src: Any, idxs: Sequence[Any], axes: Sequence[int]) -> Tensor:
    """The places of ``src`` at one index for each of some axes; indices wrap around.

    Args:
        src: (*D,).
        idxs: of each axis the indices (n,).
        axes: as many.

    Returns:
        (n, *the other axes of D).

    Source: ``jax.lax.index_take``.

    Example:
        >>> import fx, fx.lax
        >>> fx.lax.index_take(fx.arange(6).reshape(3, 2), [fx.tensor([0, -1])], (0,))
        tensor([[0, 1],
                [4, 5]])
    """
    x = argument("lax.index_take", src)
    rows = fx.stack([argument("lax.index_take", i).astype(fx.int64) for i in idxs], axis=1)
    sides = fx.asarray([x.shape[a] for a in axes], dtype=fx.int64, device=x.device)
    sizes = [1 if a in axes else n for a, n in enumerate(x.shape)]
    numbers = GatherDimensionNumbers(
        tuple(range(1, x.ndim - len(axes) + 1)), tuple(axes), tuple(axes)
    )
    return gather(x, rows % sides, numbers, sizes)
