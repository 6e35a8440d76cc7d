"""What an index may be, and what it means: entries, masks, ranges, and the errors.

Masks become vectors of places, and the axes of a mask with several become one; an Ellipsis becomes
the slices it stands for. What is left is per axis an int, a slice or an integer tensor.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

import fx.prims.indexing as prims
import fx.prims.shape as shape_prims
from fx.devices import backend
from fx.dtypes import bool_, is_integral
from fx.errors import BatchedValueError, DeviceError, IndexingError, ShapeError
from fx.graph.staging import StageTracer
from fx.levels import Tracer
from fx.ops.convert import as_tensor
from fx.prims.families import broadcast_shapes
from fx.tape import CELL
from fx.tensor import Tensor, new_tensor

BASIC = frozenset((int, slice, type(None), type(Ellipsis)))
FULL = slice(None)


class Normal:
    """An index with masks and Ellipsis resolved.

    Attributes:
        x: what is indexed, with the axes of each mask merged into one.
        entries: an int, slice or integer tensor an axis of ``x``, and the Nones between them.
        tensors: ``(entry number, axis, tensor, whether it is known to be in range)``.
        separated: whether a slice, None or Ellipsis stands between two index tensors (or ints),
            which sends the axes of the index tensors to the front of the result.
    """

    __slots__ = ("entries", "separated", "tensors", "x")

    def __init__(self, x: Tensor, given: tuple[Any, ...]) -> None:
        shape = x._shape
        read = [_entry(e, x, given) for e in given]
        taken = [_axes_taken(e) for e in read]
        rest = len(shape) - sum(taken)
        if rest < 0:
            raise too_many(given, shape)
        if sum(e is Ellipsis for e in read) > 1:
            raise two_ellipses(given)
        if not any(e is Ellipsis for e in read):
            read.append(Ellipsis)
            taken.append(0)
        self.entries: list[Any] = []
        self.tensors: list[tuple[int, int, Tensor, bool]] = []
        self.separated = False
        merged: list[int] = []
        axis, last = 0, -1
        for i, (e, width) in enumerate(zip(read, taken, strict=True)):
            if e is Ellipsis:
                self.entries += [FULL] * rest
                merged += shape[axis : axis + rest]
                axis += rest
                continue
            if isinstance(e, (int, Tensor)):
                self.separated |= 0 <= last < i - 1
                last = i
            if isinstance(e, Tensor):
                mask = e.dtype == bool_
                if mask:
                    sides = shape[axis : axis + width]
                    if e.shape != sides:
                        raise _unfit_mask(given, e.shape, axis, shape)
                    e = places_of(e)
                    self.tensors.append((len(self.entries), len(merged), e, True))
                    merged.append(prod(sides))
                else:
                    self.tensors.append((len(self.entries), len(merged), e, False))
                    merged.append(shape[axis])
            else:
                merged += shape[axis : axis + width]
            self.entries.append(e)
            axis += width
        self.x = x
        if tuple(merged) != shape:
            self.x = shape_prims.reshaped(x, tuple(merged))

    def indices(self, combined: bool) -> list[Tensor]:
        """The index tensors; where they are to be combined, as int64 in [0, n)."""
        out = []
        for _, axis, e, trusted in self.tensors:
            if combined and not trusted:
                try:
                    e = prims.wrap_index(e, size=self.x.shape[axis])
                except IndexError:
                    self.explain()
                    raise
            out.append(e)
        return out

    def block(self, given: tuple[Any, ...]) -> tuple[int, ...]:
        """The common shape of the index tensors.

        Raises:
            IndexingError: if they do not broadcast.
        """
        shapes = [e.shape for _, _, e, _ in self.tensors]
        try:
            return broadcast_shapes("index", *shapes)
        except ShapeError:
            raise IndexingError(
                f"x[{shown(given)}]: index tensors of shapes {', '.join(map(str, shapes))} do not "
                f"broadcast together; for every combination of them write x[i[:, None], j]"
            ) from None

    def explain(self) -> None:
        """Name the first index that is out of range, if there is one.

        Raises:
            IndexingError: which says the index, the axis, its size and the shape.
        """
        for _, axis, e, _ in self.tensors:
            while isinstance(e, Tracer):
                e = e.value
            n = self.x.shape[axis]
            for v in backend(e.device.name).to_numpy(e._a).ravel().tolist():
                if not -n <= v < n:
                    raise out_of_range(v, axis, self.x.shape) from None


def flattened(group: list[Tensor], sides: tuple[int, ...]) -> Tensor:
    """Indices into several axes as indices into the one axis that they are merged into."""
    flat = group[0]
    for e, n in zip(group[1:], sides[1:], strict=True):
        flat = flat * n + e
    return flat


def _axes_taken(e: Any) -> int:
    if e is None or e is Ellipsis:
        return 0
    return e.ndim if isinstance(e, Tensor) and e.dtype == bool_ else 1


def _entry(e: Any, x: Tensor, entries: tuple[Any, ...]) -> Any:
    """An entry as an int, slice, None, Ellipsis, or a tensor of bool or integer dtype."""
    if type(e) in BASIC:
        return e
    if isinstance(e, (bool, np.bool_)):
        return as_tensor(bool(e), device=x.device)
    if not isinstance(e, (Tensor, np.ndarray, list, tuple, float, complex, str)):
        try:
            return e.__index__()
        except (AttributeError, TypeError):
            pass
    if isinstance(e, (list, tuple)) and not len(e):
        e = np.zeros(0, np.int64)
    try:
        tensor = as_tensor(e, device=None if isinstance(e, Tensor) else x.device)
    except (TypeError, ValueError) as error:
        raise IndexingError(f"x[{shown(entries)}]: {shown(e)} is no index: {error}") from None
    if tensor.level == CELL:
        tensor = tensor.read()
    if tensor._dtype != bool_ and not is_integral(tensor._dtype):
        raise IndexingError(
            f"x[{shown(entries)}]: an index must be integer or bool, got {tensor.dtype.name}; "
            f"write i.astype(fx.int64), or compare for a mask: x[i != 0]"
        )
    if type(tensor) is Tensor and tensor.device.name == "cpu":
        if not tensor.ndim and tensor._dtype != bool_:
            return int(tensor._a)
        if x.device.name != "cpu":
            tensor = new_tensor(backend(x.device.name).from_numpy(tensor._a))
    return tensor


def places_of(mask: Tensor) -> Tensor:
    """Where a mask is true, as places in its flattened axes: (count,) int64.

    Raises:
        BatchedValueError: inside ``vmap``, where the count differs from lane to lane.
    """
    if mask.level == CELL:
        mask = mask.read()
    if type(mask) is StageTracer:
        return mask.stage.boundary(_places, (mask,))[0]  # type: ignore[no-any-return]
    try:
        return _places(mask)[0]
    except (BatchedValueError, DeviceError) as error:
        raise type(error)(
            f"x[mask] with a mask {mask!r}: how many elements it selects is not known here; "
            f"write fx.where(mask, x, 0), or x.at[mask].set(value)"
        ) from None


def _places(mask: Tensor) -> tuple[Tensor]:
    device = backend(mask.device.name)
    return (new_tensor(device.from_numpy(device.to_numpy(mask._a).reshape(-1).nonzero()[0])),)


# ranges and errors ------------------------------------------------------------------------------


def bounds(e: slice, n: int) -> tuple[int, int, int, int]:
    """First, end, step and number of elements of a slice of an axis of size n; none: (0, 0, 1, 0).

    Raises:
        IndexingError: for a step of 0, or bounds that are no integers.
    """
    try:
        a, b, s = e.indices(n)
    except (TypeError, ValueError) as error:
        if isinstance(error, BatchedValueError):
            raise
        raise IndexingError(
            f"x[{shown(e)}]: {error}; slices are made of ints, for example x[1:10:2]"
        ) from None
    count = len(range(a, b, s))
    return (a, b, s, count) if count else (0, 0, 1, 0)


def skipped_axes(given: tuple[Any, ...], rank: int) -> int:
    """How many axes the one Ellipsis in an index of ints and slices stands for.

    Raises:
        IndexingError: for a second Ellipsis.
    """
    if given.count(Ellipsis) > 1:
        raise two_ellipses(given)
    return rank - len(given) + given.count(None) + 1


def two_ellipses(given: tuple[Any, ...]) -> IndexingError:
    """The error for a second Ellipsis."""
    return IndexingError(
        f"x[{shown(given)}]: an index has at most one '...'; write ':' for the other"
    )


def too_many(entries: tuple[Any, ...], shape: tuple[int, ...]) -> IndexingError:
    """The error for more indices than axes."""
    used = sum(e is not None and e is not Ellipsis for e in entries)
    return IndexingError(
        f"x[{shown(entries)}]: too many indices: {used} for a tensor of shape {shape}, which has "
        f"{len(shape)} axes"
    )


def _unfit_mask(given: Any, mask: Any, axis: int, shape: tuple[int, ...]) -> IndexingError:
    sides = shape[axis : axis + len(mask)]
    return IndexingError(
        f"x[{shown(given)}]: a mask of shape {mask} does not fit the axes of sizes {sides} "
        f"that it stands for, from axis {axis} of shape {shape}"
    )


def out_of_range(index: int, axis: int, shape: tuple[int, ...]) -> IndexingError:
    """The error for an index beyond its axis."""
    n = shape[axis]
    valid = f"valid are {-n} to {n - 1}" if n else "an empty axis has no element"
    return IndexingError(
        f"index {index} is out of range for axis {axis} of size {n} (shape {shape}); {valid}"
    )


def shown(index: Any) -> str:
    """An index as one writes it."""
    if isinstance(index, tuple):
        return ", ".join(map(shown, index)) or "()"
    if isinstance(index, slice):
        ends = [shown(v) if v is not None else "" for v in (index.start, index.stop)]
        return ":".join(ends) + (f":{shown(index.step)}" if index.step is not None else "")
    if index is Ellipsis:
        return "..."
    text = repr(index)
    return text if len(text) <= 40 and "\n" not in text else type(index).__name__.lower()
