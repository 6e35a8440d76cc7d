"""Joining and splitting: concat, stack, split, chunk, repeat, tile."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

import fx.prims.cumulative as cumulative
import fx.prims.indexing as indexing
import fx.prims.shape as prims
import fx.prims.sorting as sorting
from fx.dtypes import int64
from fx.errors import ShapeError
from fx.ops.axes import integer, new_axis, normal_axis, sizes
from fx.ops.convert import as_tensor
from fx.ops.indexing.positions import Within
from fx.ops.indexing.views import along, pieces, rows
from fx.ops.operands import argument, iota, own, promoted, public, same_view, viewed
from fx.ops.shapes.manipulation import ravel, reshape
from fx.prims.fused import fuse
from fx.quick import quick_joint
from fx.staged_number import StagedNumber
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
    if type(arrays) in _LISTS and arrays and type(arrays[0]) is Tensor and axis is not None:
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
    if type(arrays) in _LISTS and arrays and type(arrays[0]) is Tensor:
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


def unstack(x: Any, axis: int = 0, *, dim: int | None = None) -> tuple[Tensor, ...]:
    """The slices along an axis, without it.

    Example:
        >>> import fx
        >>> fx.unstack(fx.tensor([[1, 2], [3, 4]]))
        (tensor([1, 2]), tensor([3, 4]))
    """
    x = viewed("unstack", x)
    at = normal_axis("unstack", axis if dim is None else dim, x._shape)
    return rows(x, at)


unbind = unstack


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


# split ------------------------------------------------------------------------------------------


def split(x: Any, split_size: Any, axis: int = 0, *, dim: int | None = None) -> tuple[Tensor, ...]:
    """Pieces of a given size along an axis, as PyTorch splits; the last may be smaller.

    Args:
        x: a tensor with at least one axis.
        split_size: the size of every piece, or a list with the size of each.
        axis: the axis.
        dim: PyTorch's word for ``axis``.

    Raises:
        ShapeError: if the sizes do not add up to that of the axis.

    Example:
        >>> import fx
        >>> fx.split(fx.tensor([1, 2, 3]), 2)
        (tensor([1, 2]), tensor([3]))
    """
    x = viewed("split", x)
    at = normal_axis("split", axis if dim is None else dim, x._shape)
    n = x._shape[at]
    if isinstance(split_size, (tuple, list)):
        sections = sizes((split_size,), "split")
        if sum(sections) != n or min(sections, default=0) < 0:
            raise ShapeError(
                f"split: sizes {sections} must add up to {n}, the size of axis {at} of {x.shape}"
            )
        return pieces(x, at, pairwise([0, *accumulate(sections)]))
    size = integer("split", "the size of a piece", split_size)
    if size < 1 and not size == n == 0:
        raise ShapeError(f"split: the size of a piece must be positive, got {size}")
    return _equal(x, at, size) if n else (same_view(x),)


def _equal(x: Tensor, axis: int, size: int) -> tuple[Tensor, ...]:
    """Pieces of one size, the last of which may be smaller."""
    n = x._shape[axis]
    return pieces(x, axis, [(a, min(a + size, n)) for a in range(0, n, size)])


def chunk(x: Any, chunks: int, axis: int = 0, *, dim: int | None = None) -> tuple[Tensor, ...]:
    """At most ``chunks`` pieces of equal size along an axis; the last may be smaller.

    Example:
        >>> import fx
        >>> fx.chunk(fx.tensor([1, 2, 3]), 2)
        (tensor([1, 2]), tensor([3]))
    """
    x = viewed("chunk", x)
    at = normal_axis("chunk", axis if dim is None else dim, x._shape)
    chunks = integer("chunk", "chunks", chunks)
    if chunks < 1:
        raise ShapeError(f"chunk: the number of chunks must be positive, got {chunks}")
    n = x._shape[at]
    if not n:
        return tuple([same_view(x)] * chunks)
    return _equal(x, at, -(-n // chunks))


def tensor_split(
    x: Any, indices_or_sections: Any, axis: int = 0, *, dim: int | None = None
) -> tuple[Tensor, ...]:
    """So many pieces of nearly equal size along an axis, or pieces cut at given places.

    Example:
        >>> import fx
        >>> fx.tensor_split(fx.tensor([1, 2, 3, 4]), [1, 3])
        (tensor([1]), tensor([2, 3]), tensor([4]))
    """
    x = viewed("tensor_split", x)
    at = normal_axis("tensor_split", axis if dim is None else dim, x._shape)
    n = x._shape[at]
    if isinstance(indices_or_sections, Tensor) and indices_or_sections.ndim:
        indices_or_sections = indices_or_sections.tolist()
    if isinstance(indices_or_sections, (tuple, list)):
        cuts = [
            min(max(c + n if c < 0 else c, 0), n)
            for c in sizes((indices_or_sections,), "tensor_split")
        ]
        starts, stops = [0, *cuts], [*cuts, n]
        pairs = zip(starts, stops, strict=True)
        return pieces(x, at, [(a, max(a, b)) for a, b in pairs])
    count = integer("tensor_split", "the number of pieces", indices_or_sections)
    if count < 1:
        raise ShapeError(f"tensor_split: the number of pieces must be positive, got {count}")
    small, larger = divmod(n, count)
    return pieces(x, at, pairwise([i * small + min(i, larger) for i in range(count + 1)]))


def narrow(
    x: Any, axis: int = 0, start: Any = 0, length: int = 0, *, dim: int | None = None
) -> Tensor:
    """``length`` places along an axis from ``start`` on.

    Raises:
        ShapeError: if they are not all there.

    Example:
        >>> import fx
        >>> fx.narrow(fx.tensor([1, 2, 3, 4]), 0, 1, 2)
        tensor([2, 3])
    """
    x = viewed("narrow", x)
    at = normal_axis("narrow", axis if dim is None else dim, x._shape)
    staged = type(start) is StagedNumber and type(length) is int and length > 0
    if staged and start.known(Within(0, x._shape[at] - length + 1)):  # one program for all of them
        return x[(*(slice(None),) * at, slice(start, start + length))]
    n, first = x._shape[at], integer("narrow", "start", start)
    length = integer("narrow", "length", length)
    first += n if first < 0 else 0
    if not 0 <= first <= first + length <= n:
        raise ShapeError(
            f"narrow: {length} places from {start} on do not lie in axis {at} of {x.shape}"
        )
    return along(x, at, first, first + length)


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
