"""Sums, means and maxima of bags of embeddings."""

from __future__ import annotations

from math import inf
from typing import Any

import fx.prims.compare as compare
import fx.prims.creation as creation
import fx.prims.indexing as indexing
import fx.prims.reduction as reduction
import fx.prims.shape as shape_prims
import fx.prims.sorting as sorting
from fx.dtypes import INTEGRAL, int64
from fx.errors import DTypeError, ShapeError
from fx.nn.functional.sparse import embedding
from fx.ops.operands import argument, cast, iota
from fx.prims.fused import fuse
from fx.tensor import Tensor


def embedding_bag(
    input: Any,
    weight: Any,
    offsets: Any = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """One vector a bag: the sum, the mean or the maximum of the rows of ``weight`` that it names.

    Args:
        input: integers, (bags, n) for bags of one size, or (n,) cut at ``offsets``.
        weight: (rows, features).
        offsets: (bags,), where each bag begins in an ``input`` (n,); the first is 0.
        max_norm, norm_type: see ``embedding``.
        scale_grad_by_freq: see ``embedding``; not with ``"max"``.
        mode: ``"sum"``, ``"mean"`` or ``"max"``.
        sparse: accepted for PyTorch's sake; gradients are dense.
        per_sample_weights: of the shape of ``input``, factors of the rows; only with ``"sum"``.
        include_last_offset: whether ``offsets`` has one more entry, the end of the last bag.
        padding_idx: a row that counts nowhere and gets no gradient.

    Returns:
        (bags, features); zeros for an empty bag.

    Raises:
        DTypeError: if ``input`` or ``offsets`` holds no integers.
        ShapeError: if shapes do not fit together.
        ValueError: for another ``mode``, or options that do not go with it.
        IndexingError: if an index is out of range.

    Example:
        >>> import fx
        >>> weight = fx.tensor([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
        >>> F = fx.nn.functional
        >>> F.embedding_bag(fx.tensor([0, 1, 2]), weight, fx.tensor([0, 1]), mode="sum")
        tensor([[0., 1.],
                [6., 8.]])
    """
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"embedding_bag: mode has to be one of sum, mean or max, got {mode!r}")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError(
            "embedding_bag: max mode does not support scaling the gradient by the frequency"
        )
    if mode == "max" and sparse:
        raise ValueError("embedding_bag: max mode does not support sparse weights")
    idx = argument("embedding_bag", input)
    if idx._dtype not in INTEGRAL:
        raise DTypeError(
            f"embedding_bag takes integer indices, got {idx.dtype.name}; write x.astype(fx.int64)"
        )
    if idx.ndim not in (1, 2):
        raise ShapeError(
            f"embedding_bag: input has to be 1D or 2D, (n,) with offsets or (bags, n), got shape "
            f"{idx.shape}"
        )
    if (idx.ndim == 2) != (offsets is None):
        raise ShapeError(
            f"embedding_bag: an input (n,) takes offsets (bags,), and an input (bags, n) none; "
            f"got an input of shape {idx.shape} and offsets "
            f"{None if offsets is None else getattr(offsets, 'shape', offsets)}"
        )
    plain = padding_idx is None and per_sample_weights is None and mode != "max"
    plain = plain and max_norm is None and not scale_grad_by_freq
    if idx.ndim == 2 and plain and argument("embedding_bag", weight).ndim == 2:
        total = _sums(argument("embedding_bag", weight), cast(idx, int64))
        return total / idx._shape[1] if mode == "mean" and idx._shape[1] else total
    rows = embedding(idx, weight, None, max_norm, norm_type, scale_grad_by_freq)
    if per_sample_weights is not None:
        if mode != "sum":
            raise ValueError(
                f"embedding_bag: per_sample_weights is only supported for mode='sum' (got "
                f"mode={mode!r})"
            )
        factors = argument("embedding_bag", per_sample_weights)
        if factors._shape != idx._shape:
            raise ShapeError(
                f"embedding_bag: per_sample_weights {factors.shape} must have the shape of the "
                f"input, {idx.shape}"
            )
        rows = rows * shape_prims.reshaped(factors, (*idx._shape, 1))
    ones = creation.full(shape=(*idx._shape, 1), value=1, dtype=rows.dtype, device=idx.device.name)
    nothing = -inf if mode == "max" else 0
    if padding_idx is not None:
        held = weight.shape[0]
        if not -held <= padding_idx < held:
            raise ShapeError(
                f"embedding_bag: padding_idx {padding_idx} is out of range for {held} rows"
            )
        real = shape_prims.reshaped(idx != padding_idx % held, (*idx._shape, 1))
        rows = compare.where(real, rows, creation.constant_like(nothing, rows))
        ones = compare.where(real, ones, creation.constant_like(0, ones))
    if idx.ndim == 2:
        total = _of_rows(rows, mode)
        counts = reduction.sum(ones, axes=(1,), keepdims=False)
    else:
        bags, count = _bags(idx, offsets, include_last_offset)
        total = _gathered(rows, bags, count, "max" if mode == "max" else "add", nothing)
        counts = _gathered(ones, bags, count, "add", 0)
    if mode == "sum":
        return total
    if mode == "mean":
        return total / compare.where(counts == 0, creation.constant_like(1, counts), counts)
    return compare.where(counts == 0, creation.constant_like(0, total), total)


def _bag_sums(weight: Tensor, idx: Tensor) -> Tensor:
    return reduction.sum(embedding(idx, weight), axes=(1,), keepdims=False)


def _bag_sums_vjp(needs: Any, weight: Tensor, idx: Tensor) -> Any:
    table, shape = weight._shape, idx._shape

    def pullback(ct: Tensor) -> tuple[Any, ...]:
        spread = shape_prims.stretched(
            shape_prims.reshaped(ct, (shape[0], 1, table[1])), (*shape, table[1])
        )
        into = indexing.zeros(ct, table)
        return indexing.scattered(into, idx, spread, 0, "add"), None

    return pullback


# of weight (rows, features), idx (bags, n), int64 -> (bags, features)
_sums = fuse("bags", reference=_bag_sums, vjp=_bag_sums_vjp, torch_name="EmbeddingBag")


def _of_rows(rows: Tensor, mode: str) -> Tensor:
    """(bags, n, features) to (bags, features)."""
    if mode != "max" or not rows._shape[1]:
        return reduction.sum(rows, axes=(1,), keepdims=False)
    best = reduction.argmax(compare.stop_gradient(rows), axis=1, keepdims=True)
    out = indexing.take_along_axis(rows, best, axis=1)
    return shape_prims.reshaped(out, (rows._shape[0], rows._shape[2]))


def _bags(idx: Tensor, offsets: Any, include_last_offset: bool) -> tuple[Tensor, int]:
    """The number of the bag that each index belongs to, and how many bags there are."""
    starts = argument("embedding_bag", offsets)
    if starts._dtype not in INTEGRAL:
        raise DTypeError(
            f"embedding_bag takes integer offsets, got {starts.dtype.name}; write "
            f"offsets.astype(fx.int64)"
        )
    if starts.ndim != 1:
        raise ShapeError(f"embedding_bag: offsets has to be (bags,), got shape {starts.shape}")
    count = starts._shape[0]
    if count and type(starts) is Tensor and starts.device.name != "meta":
        first, last = int(starts[0]), int(starts[-1])
        if first or last > idx._shape[0]:
            raise ShapeError(
                f"embedding_bag: offsets[0] has to be 0, where the first bag begins, and "
                f"offsets[-1] at most the input's length {idx.shape[0]}; got {first} and {last}"
            )
    if include_last_offset:
        if not count:
            raise ShapeError("embedding_bag: include_last_offset=True takes at least one offset")
        count -= 1
        starts = shape_prims.slice(starts, start=(0,), stop=(count,), step=(1,))
    places = iota(idx._shape[0], idx)
    bags = sorting.searchsorted(cast(starts, int64), places, side="right") - 1
    return bags, count


def _gathered(rows: Tensor, bags: Tensor, count: int, mode: str, start: float) -> Tensor:
    """(n, features) to (count, features), the rows of one bag put together."""
    shape = (count, rows._shape[1])
    into = creation.full(shape=shape, value=start, dtype=rows._dtype, device=rows.device.name)
    return indexing.scatter(into, bags, rows, axis=0, mode=mode)
