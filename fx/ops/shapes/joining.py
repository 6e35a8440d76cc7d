"""Joining and splitting: concat, stack, split, chunk, repeat, tile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import fx.prims.cumulative as cumulative
import fx.prims.indexing as indexing
import fx.prims.shape as prims
import fx.prims.sorting as sorting
from fx.dtypes import int64
from fx.errors import ShapeError
from fx.levels import live
from fx.ops.axes import integer, new_axis, normal_axis, sizes
from fx.ops.convert import as_tensor
from fx.ops.indexing.views import rows
from fx.ops.operands import argument, iota, own, promoted, public
from fx.ops.shapes.manipulation import ravel, reshape
from fx.prims.fused import fuse
from fx.quick import quick_joint
from fx.staged_number import StagedNumber
from fx.tape import CELL
from fx.tensor import Tensor

_LISTS = (list, tuple)

# join -------------------------------------------------------------------------------------------


def _sequence(name: str, arrays: Any) -> list[Tensor]:
    """The tensors of a sequence in one dtype; a tensor is the sequence of its slices."""
    if not isinstance(arrays, (tuple, list, Tensor)):
        raise ShapeError(
            f"{name} takes a sequence of tensors, got {type(arrays).__name__}; "
            f"write fx.{name}([x, y])"
        )
    if not len(arrays):
        raise ShapeError(f"{name} needs at least one tensor")
    return promoted(name, *arrays)


def _is_cell(x: Any) -> bool:
    """Whether it is read as a cell is, while nothing is traced."""
    return not live and isinstance(x, Tensor) and x.level == CELL


def concat(arrays: Any, axis: int | None = 0, *, dim: int | None = None) -> Tensor:
    """One after another along an axis.

    Args:
        arrays: a sequence of tensors that agree in every other axis; they are promoted. A tensor
            of shape (0,) goes with all shapes, and adds nothing.
        axis: the axis; None joins the flattened tensors.
        dim: PyTorch's word for ``axis``.

    Raises:
        ShapeError: if the shapes do not fit.

    Example:
        >>> import fx
        >>> fx.concat([fx.tensor([1, 2]), fx.tensor([3])])
        tensor([1, 2, 3])
    """
    axis = axis if dim is None else dim
    given = type(arrays) in _LISTS and arrays and axis is not None
    if given and (type(arrays[0]) is Tensor or _is_cell(arrays[0])):
        first = arrays[0]._shape
        if first != (0,):
            out: Tensor | None = prims.joined(arrays, normal_axis("concat", axis, first))
            if out is not None:
                return out
    tensors = _sequence("concat", arrays)
    if axis is None:
        return prims.concatenate(*[ravel(x) for x in tensors], axis=0)
    if any(x._shape == (0,) for x in tensors) and any(x.ndim != 1 for x in tensors):
        tensors = [x for x in tensors if x._shape != (0,)]  # what a program began with
    at = normal_axis("concat", axis, tensors[0]._shape)
    try:
        return prims.concatenate(*tensors, axis=at)
    except ShapeError:
        shapes = ", ".join([str(x.shape) for x in tensors])
        raise ShapeError(
            f"concat along axis {at}: shapes {shapes} must agree on every other axis; to put them "
            f"along a new axis write fx.stack"
        ) from None


cat = concatenate = concat


def stack(arrays: Any, axis: int = 0, *, dim: int | None = None) -> Tensor:
    """One after another along a new axis.

    Args:
        arrays: a sequence of tensors of one shape; they are promoted.
        axis: the new axis, counted in the result.
        dim: PyTorch's word for ``axis``.

    Raises:
        ShapeError: if the shapes differ.

    Example:
        >>> import fx
        >>> fx.stack([fx.tensor([1, 2]), fx.tensor([3, 4])])
        tensor([[1, 2],
                [3, 4]])
    """
    axis = axis if dim is None else dim
    if type(arrays) in _LISTS and arrays and (type(arrays[0]) is Tensor or _is_cell(arrays[0])):
        out: Tensor | None = _stacked_at_once(arrays, new_axis("stack", axis, arrays[0]._shape))
        if out is not None:
            return out
    tensors = _sequence("stack", arrays)
    shape = tensors[0]._shape
    if any(x._shape != shape for x in tensors):
        raise ShapeError(
            f"stack: shapes {', '.join(str(x.shape) for x in tensors)} must be equal; to join "
            f"tensors that differ along one axis write fx.concat"
        )
    return _stacked(*tensors, axis=new_axis("stack", axis, shape))


def _stacked_in_steps(*tensors: Tensor, axis: int) -> Tensor:
    shape = tensors[0].shape
    wide = (*shape[:axis], 1, *shape[axis:])
    return prims.concatenate(*[prims.reshaped(x, wide) for x in tensors], axis=axis)


def _stacked_kernel(*arrays: np.ndarray, axis: int) -> np.ndarray:
    return _stacked_arrays(arrays, axis)


def _stacked_arrays(arrays: Sequence[np.ndarray], axis: int) -> np.ndarray:
    shape = arrays[0].shape
    if axis == 0 and shape:
        for x in arrays:
            if x.shape != shape:
                raise ValueError("shapes differ")
        return np.concatenate(arrays).reshape((len(arrays), *shape))
    index = (*[slice(None)] * axis, None)
    return np.concatenate([x[index] for x in arrays], axis)


def _stacked_vjp(needs: Any, *tensors: Tensor, axis: int) -> Any:
    return lambda ct: [None if n is None else row for n, row in zip(needs, rows(ct, axis))]


_stacked = fuse("stack", cpu=_stacked_kernel, reference=_stacked_in_steps, vjp=_stacked_vjp)
_stacked_at_once = quick_joint(_stacked, "axis", _stacked_arrays)


def vstack(arrays: Any) -> Tensor:
    """One below the other: along the first axis, vectors counting as rows.

    Example:
        >>> import fx
        >>> fx.vstack([fx.tensor([1, 2]), fx.tensor([3, 4])]).shape
        (2, 2)
    """
    rows = _sequence("vstack", arrays)
    return concat([x if x.ndim > 1 else reshape(x, (1, -1)) for x in rows], 0)


def hstack(arrays: Any) -> Tensor:
    """One beside the other: along the second axis, or the only one.

    Example:
        >>> import fx
        >>> fx.hstack([fx.tensor([1, 2]), fx.tensor([3])])
        tensor([1, 2, 3])
    """
    parts = [x if x.ndim else reshape(x, (1,)) for x in _sequence("hstack", arrays)]
    return concat(parts, 0 if parts[0].ndim == 1 else 1)


# repeat -----------------------------------------------------------------------------------------


def _repeated_to(x: Tensor, repeats: Any, axis: int, total: int) -> Tensor:
    """Each element of an axis several times, as many as fit into a size that is known."""
    size, n = integer("repeat", "total_repeat_length", total), x._shape[axis]
    counts = argument("repeat", as_tensor(repeats, dtype=int64, device=x.device))
    if counts._shape not in ((), (1,), (n,)):
        raise ShapeError(
            f"repeat: counts of shape {counts.shape} must be one, or one for each of the {n} "
            f"places along axis {axis} of {x.shape}"
        )
    counts = prims.stretched(prims.reshaped(counts, counts._shape or (1,)), (n,))
    ends = cumulative.cumsum(counts, axis=0, reverse=False)
    places = sorting.searchsorted(ends, iota(size, x), side="right")
    return indexing.taken(x, places.clamp(0, max(n - 1, 0)), axis)


def repeat(
    x: Any,
    repeats: Any,
    axis: int | None = None,
    *,
    dim: int | None = None,
    total_repeat_length: int | None = None,
) -> Tensor:
    """Each element several times in a row.

    Args:
        x: a tensor of any shape.
        repeats: how often, an int or one an element of the axis (a list or a tensor, whose values
            must be known: not inside ``vmap`` over them).
        axis: the axis; None repeats the flattened tensor.
        dim: PyTorch's word for ``axis``.
        total_repeat_length: the size of the axis of the result, as in JAX: what is more is left
            out, the last element fills up what is less, and no count is asked for under ``jit``.

    Raises:
        ShapeError: if the counts do not fit the axis, or are negative.

    Source: Python Array API standard 2024.12, ``repeat``. (The method ``x.repeat(*sizes)`` is
    PyTorch's, which the standard calls ``tile``.)

    Example:
        >>> import fx
        >>> fx.repeat(fx.tensor([1, 2]), 2)
        tensor([1, 1, 2, 2])
    """
    x = argument("repeat", x)
    axis = axis if dim is None else dim
    if axis is None:
        x, axis = ravel(x), 0
    at = normal_axis("repeat", axis, x._shape)
    if total_repeat_length is not None:
        return _repeated_to(x, repeats, at, total_repeat_length)
    if isinstance(repeats, (tuple, list)):
        counts = list(sizes((repeats,), "repeat_interleave"))
    elif isinstance(repeats, int | float | np.generic | StagedNumber):
        counts = [integer("repeat", "the number of times", repeats)]
    else:
        counts = ravel(argument("repeat", repeats)).tolist()
    n = x._shape[at]
    if len(counts) not in (1, n) or min(counts, default=0) < 0:
        raise ShapeError(
            f"repeat: {len(counts)} counts {counts} must be one, or one for each of the {n} places "
            f"along axis {at} of {x.shape}, and not negative"
        )
    if len(counts) == 1:
        shape = (*x._shape[: at + 1], 1, *x._shape[at + 1 :])
        many = (*x._shape[: at + 1], counts[0], *x._shape[at + 1 :])
        out = prims.stretched(prims.reshaped(x, shape), many)
        out = prims.reshaped(out, (*x._shape[:at], n * counts[0], *x._shape[at + 1 :]))
        return out if counts[0] != 1 else own(out)
    source = [i for i, count in enumerate(counts) for _ in range(count)]
    return indexing.take(x, as_tensor(source, dtype=int64, device=x.device), axis=at)


repeat_interleave = repeat


def tile(x: Any, repetitions: Any = None, *, dims: Any = None, reps: Any = None) -> Tensor:
    """The whole tensor several times along each axis.

    Args:
        x: a tensor of any shape.
        repetitions: how often along each axis, counted from the last; missing ones are 1.
        dims, reps: PyTorch's and NumPy's words for ``repetitions``.

    Example:
        >>> import fx
        >>> fx.tile(fx.tensor([1, 2]), (2, 2))
        tensor([[1, 2, 1, 2],
                [1, 2, 1, 2]])
    """
    x = argument("tile", x)
    told = [n for n in (repetitions, dims, reps) if n is not None]
    if len(told) != 1:
        raise TypeError("tile takes the repetitions once; write fx.tile(x, (2, 2))")
    times = sizes((told[0],), "tile")
    rank = max(len(times), x.ndim)
    times = (1,) * (rank - len(times)) + times
    shape = (1,) * (rank - x.ndim) + x._shape
    paired = [n for t, s in zip(times, shape, strict=True) for n in (t, s)]
    ones = [n for s in shape for n in (1, s)]
    out = prims.stretched(reshape(x, tuple(ones)), tuple(paired))
    final = tuple([t * s for t, s in zip(times, shape, strict=True)])
    out = prims.reshaped(out, final)
    moved = any(t > 1 and s > 1 for t, s in zip(times, shape, strict=True))
    return out if moved else own(out)


__all__ = public(globals())
