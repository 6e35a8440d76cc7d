"""Windows of a tensor at many places: how ``gather`` and ``scatter`` of ``jax.lax`` name them.

An index is a row of numbers, the last axis of the indices: where a window of the operand begins
along some of its axes. Axes that a window covers whole and no index speaks of are carried along;
all others are merged into one line, along which the elements of each window are counted:

    operand (5, 4, 3), windows (2, 1, 3) begun along axes 0 and 1, rows (*S, 2)
    line (20, 3), places (*S, 2, 1): (begin_0 + 0 .. 1) * 4 + begin_1 + 0

One indexing or one scatter along the line does the rest, so derivatives and lanes are theirs.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import fx
from fx.dtypes import INTEGRAL
from fx.errors import ArgumentError, DTypeError, ShapeError
from fx.ops.operands import argument
from fx.tensor import Tensor


class GatherDimensionNumbers(NamedTuple):
    """How the axes of operand, indices and result of ``gather`` belong together.

    Args:
        offset_dims: the axes of the result that run through a window.
        collapsed_slice_dims: axes of the operand, of windows of 1, that the result has not.
        start_index_map: of each number of an index the axis of the operand.
        operand_batching_dims: axes of the operand that go along with axes of the indices.
        start_indices_batching_dims: these, in the same order.
    """

    offset_dims: Sequence[int]
    collapsed_slice_dims: Sequence[int]
    start_index_map: Sequence[int]
    operand_batching_dims: Sequence[int] = ()
    start_indices_batching_dims: Sequence[int] = ()


class ScatterDimensionNumbers(NamedTuple):
    """How the axes of operand, indices and updates of ``scatter`` belong together.

    Args:
        update_window_dims: the axes of the updates that run through a window.
        inserted_window_dims: axes of the operand, of windows of 1, that the updates have not.
        scatter_dims_to_operand_dims: of each number of an index the axis of the operand.
        operand_batching_dims: axes of the operand that go along with axes of the indices.
        scatter_indices_batching_dims: these, in the same order.
    """

    update_window_dims: Sequence[int]
    inserted_window_dims: Sequence[int]
    scatter_dims_to_operand_dims: Sequence[int]
    operand_batching_dims: Sequence[int] = ()
    scatter_indices_batching_dims: Sequence[int] = ()


class GatherScatterMode(enum.Enum):
    """What happens to windows that do not lie inside of the operand.

    ``CLIP`` moves them inside. ``FILL_OR_DROP`` fills them with one value, or drops their updates.
    ``PROMISE_IN_BOUNDS`` says that there are none: of those that there are, XLA moves those of a
    gather and drops those of a scatter, and so does fx.
    """

    CLIP = "clip"
    FILL_OR_DROP = "fill"
    PROMISE_IN_BOUNDS = "promise_in_bounds"


def mode_of(name: str, mode: Any, unless_told: GatherScatterMode) -> GatherScatterMode:
    word = str(getattr(mode, "name", mode)).lower()  # JAX's own constants have these names too
    if mode is None:
        return unless_told
    if word == "clip":
        return GatherScatterMode.CLIP
    if word in ("fill", "drop", "fill_or_drop"):
        return GatherScatterMode.FILL_OR_DROP
    if word == "promise_in_bounds":
        return GatherScatterMode.PROMISE_IN_BOUNDS
    raise ArgumentError(
        f"lax.{name}: mode is 'clip', 'fill', 'drop' or 'promise_in_bounds', got {mode!r}"
    )


class Windows:
    """Where windows lie.

    Args:
        name: of the function, for errors.
        shape: the operand's.
        indices: (*S, k), integers.
        sizes: of a window, a number for each axis of the operand.
        without: axes of the operand of which windows have no axis.
        starts: of each number of an index the axis of the operand.
        batching: axes of the operand, and those of the indices that they go along with.
    """

    def __init__(
        self, name: str, shape: tuple[int, ...], indices: Any, sizes: Sequence[int],
        without: Sequence[int], starts: Sequence[int],
        batching: tuple[Sequence[int], Sequence[int]],
    ) -> None:  # fmt: skip
        rows = argument(f"lax.{name}", indices)
        if rows.dtype not in INTEGRAL:
            raise DTypeError(
                f"lax.{name}: indices are integers, got {rows.dtype.name}; write "
                f"indices.astype(fx.int64)"
            )
        if not rows.ndim or rows.shape[-1] != len(starts):
            raise ShapeError(
                f"lax.{name}: indices {rows.shape} end with an axis of a number for each of the "
                f"{len(starts)} axes {tuple(starts)} that windows begin along; write indices[..., "
                f"None] for single numbers"
            )
        if len(batching[0]) != len(batching[1]):
            raise ShapeError(f"lax.{name}: batching axes {batching} are not pairs")
        rank = len(shape)
        for axes in (without, starts, batching[0]):
            if len({*axes}) != len(axes) or not all(0 <= a < rank for a in axes):
                raise ShapeError(
                    f"lax.{name}: {tuple(axes)} are no axes of an operand of shape {shape}"
                )
        for axis, (n, size) in enumerate(zip(shape, sizes, strict=True)):
            single = axis in (*without, *batching[0])
            if not 0 <= size <= n or (single and size > 1):
                raise ShapeError(
                    f"lax.{name}: a window of {size} elements along axis {axis} of {n}"
                    f"{', which has to be of 1' if single else ''}"
                )
        for a, b in zip(*batching, strict=True):
            if not 0 <= b < rows.ndim - 1 or rows.shape[b] != shape[a]:
                raise ShapeError(
                    f"lax.{name}: axis {a} of the operand {shape} does not go along with axis {b} "
                    f"of the indices {rows.shape}"
                )
        if rows.dtype != fx.uint64:  # the comparison comes before the cast where it would wrap
            rows = rows.astype(fx.int64)
        self.shape, self.sizes, self.lead = shape, tuple(sizes), rows.shape[:-1]
        self.whole = [
            a for a in range(rank)
            if a not in (*without, *starts, *batching[0]) and sizes[a] == shape[a]
        ]  # fmt: skip
        self.cut = [a for a in range(rank) if a not in self.whole]
        self.seen = [a for a in self.cut if a not in (*without, *batching[0])]
        self.window = [a for a in range(rank) if a not in (*without, *batching[0])]
        self._begin(rows, starts, batching)

    def _begin(
        self, rows: Tensor, starts: Sequence[int], batching: tuple[Sequence[int], Sequence[int]]
    ) -> None:
        """The first place of each window along the axes that are cut, and which lie inside."""
        self.begins: dict[int, Tensor] = {}
        self.inside = fx.ones(self.lead, dtype=fx.bool, device=rows.device)
        for k, axis in enumerate(starts):
            most = self.shape[axis] - self.sizes[axis]
            found = rows[..., k]
            self.inside = self.inside & (found >= 0) & (found <= most)
            self.begins[axis] = fx.clip(found, 0, most).astype(fx.int64)
        for axis, along in zip(*batching, strict=True):
            line = fx.arange(self.shape[axis], dtype=fx.int64, device=rows.device)
            shape = tuple(-1 if i == along else 1 for i in range(len(self.lead)))
            self.begins[axis] = fx.reshape(line, shape)

    def places(self) -> Tensor:
        """Along the merged line, of each element of each window: (*S, *the window's cut axes)."""
        out = fx.zeros((*self.lead, *[1] * len(self.seen)), dtype=fx.int64)
        out = out.to(self.inside.device)
        for axis in self.cut:
            at = self.begins.get(axis)
            place = fx.zeros((), dtype=fx.int64, device=out.device)
            if at is not None:
                place = fx.reshape(at, (*at.shape, *[1] * len(self.seen)))
            if axis in self.seen:
                steps = fx.arange(self.sizes[axis], dtype=fx.int64, device=out.device)
                shape = tuple(-1 if a == axis else 1 for a in self.seen)
                place = place + fx.reshape(steps, shape)
            out = out * self.shape[axis] + place
        return out

    def line(self, x: Tensor) -> Tensor:
        """The operand with the cut axes as one in front: (line, *whole axes)."""
        x = fx.permute_dims(x, (*self.cut, *self.whole))
        sides = [self.shape[a] for a in self.whole]
        return fx.reshape(x, (prod(self.shape[a] for a in self.cut), *sides))

    def back(self, line: Tensor) -> Tensor:
        """The operand of a line."""
        x = fx.reshape(line, tuple(self.shape[a] for a in (*self.cut, *self.whole)))
        order = (*self.cut, *self.whole)
        return fx.permute_dims(x, tuple(order.index(a) for a in range(len(order))))

    def order(self, among: Sequence[int]) -> tuple[int, ...]:
        """Which axes of (*S, *seen, *whole) those of a result are.

        Args:
            among: the axes of the result that run through a window.
        """
        width, inner = len(self.lead), (*self.seen, *self.whole)
        found = {place: width + inner.index(a) for place, a in zip(among, self.window, strict=True)}
        rest = iter(range(width))
        return tuple(found[i] if i in found else next(rest) for i in range(width + len(inner)))

    def spread(self, x: Tensor, beside: int) -> Tensor:
        """(*S) with axes of 1 behind, for ``beside`` axes more."""
        return fx.reshape(x, (*x.shape, *[1] * beside))
