"""Selection of whole slices by index, and of elements by mask.

Tensors never change: every function returns a new one. ``dim`` is PyTorch's word for ``axis``.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import fx.prims.compare as compare
import fx.prims.indexing as prims
import fx.prims.shape as shape_prims
from fx.dtypes import as_dtype, int64
from fx.errors import DTypeError, ShapeError
from fx.ops.axes import integer, normal_axis, required_axis
from fx.ops.convert import as_tensor
from fx.ops.indexing.beyond import taken_beyond
from fx.ops.indexing.searching import true_places
from fx.ops.operands import (
    argument,
    boolean,
    cast,
    classes,
    flattened,
    iota,
    of_scalar,
    partner,
    public,
    same_device,
)
from fx.ops.shapes.broadcasting import broadcast_to
from fx.ops.shapes.manipulation import ravel
from fx.prims.families import broadcast_shapes
from fx.prims.fused import fuse
from fx.tensor import Tensor


def _indices(name: str, indices: Any, x: Tensor) -> Tensor:
    if type(indices) is Tensor:
        return indices
    if isinstance(indices, tuple | list):
        return as_tensor(indices, dtype=None if len(indices) else int64, device=x.device)
    return argument(name, indices)


# whole slices -----------------------------------------------------------------------------------


def take(
    x: Any,
    indices: Any,
    axis: int | None = None,
    *,
    dim: int | None = None,
    mode: str | None = None,
    fill_value: Any = None,
) -> Tensor:
    """The slices along an axis that the indices name.

    Args:
        x: (*A, n, *B).
        indices: integers (*I) in [-n, n).
        axis: the axis; None is enough where there is only one.
        dim: PyTorch's word for ``axis``.
        mode: what becomes of an index that is out of range: None and "raise" raise, "clip" takes
            the nearest (the first for all negative ones), "wrap" counts round, "fill" gives
            ``fill_value``.
        fill_value: NaN unless told, of integers the one farthest off, of bool True.

    Returns:
        (*A, *I, *B).

    Raises:
        IndexingError: if an index is out of range.

    Source: Python Array API standard 2024.12, ``take``.

    Example:
        >>> import fx
        >>> fx.take(fx.tensor([10, 20, 30]), fx.tensor([2, 0]))
        tensor([30, 10])
    """
    x = argument("take", x)
    at = required_axis("take", axis if dim is None else dim, x._shape)
    if mode is not None:
        return taken_beyond(x, _indices("take", indices, x), at, mode, fill_value)
    return prims.taken(x, _indices("take", indices, x), at)  # type: ignore[no-any-return]


def index_select(x: Any, axis: int = 0, index: Any = None, *, dim: int | None = None) -> Tensor:
    """``take`` with PyTorch's order of arguments; PyTorch refuses negative indices.

    Example:
        >>> import fx
        >>> fx.index_select(fx.tensor([10, 20, 30]), 0, fx.tensor([2, 0]))
        tensor([30, 10])
    """
    x = argument("index_select", x)
    axis = axis if dim is None else dim
    if not x._shape:
        return of_scalar(index_select, x, axis, index)  # type: ignore[no-any-return]
    at = normal_axis("index_select", axis, x._shape)
    return prims.taken(x, _indices("index_select", index, x), at)  # type: ignore[no-any-return]


def _index_update(name: str, x: Any, axis: int, index: Any, source: Any, mode: str) -> Tensor:
    x = argument(name, x)
    if not x._shape:
        return of_scalar(partial(_index_update, name), x, axis, index, source, mode)  # type: ignore[no-any-return]
    at = normal_axis(name, axis, x._shape)
    index = flattened(_indices(name, index, x))
    word = "value" if name == "index_fill" else "source"
    source = partner(name, word, source, x)
    shape = (*x._shape[:at], index._shape[0], *x._shape[at + 1 :])
    if source._shape != shape or word == "value":
        if source._shape:
            wanted = "()" if word == "value" else f"{shape}, a slice for each index, or ()"
            raise ShapeError(f"{name}: {word} must have shape {wanted}, got {source.shape}")
        source = shape_prims.stretched(source, shape)
    return prims.scattered(x, index, source, at, mode)  # type: ignore[no-any-return]


def index_add(
    x: Any, axis: int = 0, index: Any = None, source: Any = None, *, alpha: Any = 1,
    dim: int | None = None,
) -> Tensor:  # fmt: skip
    """``x`` with ``alpha * source`` added to the slices along an axis that the index names.

    Example:
        >>> import fx
        >>> fx.index_add(fx.zeros(3), 0, fx.tensor([0, 0, 2]), fx.ones(3))
        tensor([2., 0., 1.])
    """
    if alpha != 1:
        source = argument("index_add", source) * alpha
    return _index_update("index_add", x, axis if dim is None else dim, index, source, "add")


def index_copy(
    x: Any, axis: int = 0, index: Any = None, source: Any = None, *, dim: int | None = None
) -> Tensor:
    """``x`` with the slices along an axis that the index names replaced by ``source``.

    Example:
        >>> import fx
        >>> fx.index_copy(fx.zeros(3), 0, fx.tensor([1]), fx.ones(1))
        tensor([0., 1., 0.])
    """
    return _index_update("index_copy", x, axis if dim is None else dim, index, source, "set")


def index_fill(
    x: Any, axis: int = 0, index: Any = None, value: Any = None, *, dim: int | None = None
) -> Tensor:
    """``x`` with the slices along an axis that the index names filled with one value.

    Example:
        >>> import fx
        >>> fx.index_fill(fx.zeros(3), 0, fx.tensor([1]), 5.0)
        tensor([0., 5., 0.])
    """
    return _index_update("index_fill", x, axis if dim is None else dim, index, value, "set")


# masks ------------------------------------------------------------------------------------------


def masked_fill(x: Any, mask: Any, value: Any) -> Tensor:
    """``x`` with one value where the mask is true.

    Args:
        x: a tensor of any shape.
        mask: a bool tensor whose shape broadcasts with that of ``x``.
        value: a number or a tensor without axes; it takes the dtype of ``x``.

    Raises:
        DTypeError: if the mask is not bool.

    Example:
        >>> import fx
        >>> fx.masked_fill(fx.tensor([1.0, 2.0]), fx.tensor([True, False]), -1)
        tensor([-1.,  2.])
    """
    x = argument("masked_fill", x)
    value = partner("masked_fill", "value", value, x)
    return compare.chosen(boolean("masked_fill", mask), value, x)  # type: ignore[no-any-return]


def masked_select(x: Any, mask: Any) -> Tensor:
    """The elements where the mask is true, along one axis.

    Raises:
        BatchedValueError: inside ``vmap`` over the mask, where their number differs.

    Example:
        >>> import fx
        >>> fx.masked_select(fx.tensor([1, 2, 3]), fx.tensor([True, False, True]))
        tensor([1, 3])
    """
    x, mask = argument("masked_select", x), boolean("masked_select", mask)
    shape = broadcast_shapes("masked_select", x._shape, mask._shape)
    same_device("masked_select", x, mask)
    places = true_places("masked_select", broadcast_to(mask, shape))
    return prims.take(ravel(broadcast_to(x, shape)), places, axis=0)


def one_hot(x: Any, num_classes: int = -1, *, dtype: Any = None) -> Tensor:
    """A last axis that is 1 at the class and 0 elsewhere.

    Args:
        x: integers (*shape) in [0, num_classes).
        num_classes: the size of the new axis; -1 for the largest class plus one, which needs known
            values.
        dtype: the dtype of the result, int64 unless told.

    Returns:
        (*shape, num_classes).

    Raises:
        DTypeError: if ``x`` is not integer.
        IndexingError: if a class is out of range.

    Example:
        >>> import fx
        >>> fx.one_hot(fx.tensor([0, 2]), 3)
        tensor([[1, 0, 0],
                [0, 0, 1]])
    """
    x = argument("one_hot", x)
    if x._dtype.kind not in "iu":
        raise DTypeError(f"one_hot takes integers, got {x.dtype.name}; write x.astype(fx.int64)")
    if num_classes == -1:
        from fx.ops.reductions.reduction import max

        num_classes = int(max(x)) + 1
    num_classes = integer("one_hot", "num_classes", num_classes)
    wanted = int64 if dtype is None else as_dtype(dtype)
    return _one_hot(x, count=num_classes, dtype=wanted)  # type: ignore[no-any-return]


def _one_hot_reference(x: Tensor, *, count: int, dtype: Any) -> Tensor:
    x = classes("one_hot", x, count)
    hits = compare.equal(shape_prims.reshaped(x, (*x._shape, 1)), iota(count, x))
    return cast(hits, dtype)


_one_hot = fuse("one_hot", reference=_one_hot_reference)


__all__ = public(globals())
