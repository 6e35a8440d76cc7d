"""Look-ups by index: embeddings."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

import fx.prims.compare as compare
import fx.prims.creation as creation
import fx.prims.indexing as indexing
import fx.prims.shape as shape_prims
from fx.config import no_grad
from fx.dtypes import INTEGRAL, int64, uint64
from fx.errors import DTypeError, IndexingError, InPlaceError, ShapeError
from fx.ops.operands import argument, cast
from fx.ops.reductions.norms import norm
from fx.state import Cell
from fx.tensor import Tensor, new_tensor
from fx.writing.inplace import user_writes, written


def embedding(
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """The rows of ``weight`` that ``input`` names.

    Args:
        input: integers of any shape, each in [0, rows).
        weight: (rows, features).
        padding_idx: a row that gets no gradient; negative ones count from the end.
        max_norm: rows that are looked up and are longer are first scaled to this length; ``weight``
            must be a Parameter or Buffer, which is rebound.
        norm_type: the p of the norm of ``max_norm``.
        scale_grad_by_freq: divide each row's gradient by how often it is looked up here.
        sparse: accepted for PyTorch's sake; gradients are dense.

    Returns:
        (*input.shape, features).

    Raises:
        DTypeError: if ``input`` holds no integers.
        IndexingError: if an index is out of range.

    Example:
        >>> import fx
        >>> weight = fx.tensor([[0.0, 0.0], [1.0, 2.0]])
        >>> fx.nn.functional.embedding(fx.tensor([1, 0]), weight)
        tensor([[1., 2.],
                [0., 0.]])
    """
    idx = argument("embedding", input)
    if idx._dtype not in INTEGRAL:
        raise DTypeError(
            f"embedding takes integer indices, got {idx.dtype.name}; write x.astype(fx.int64)"
        )
    if not isinstance(weight, Tensor):
        weight = argument("embedding", weight)
    if len(weight._shape) != 2:
        raise ShapeError(f"embedding takes a weight (rows, features), got shape {weight.shape}")
    rows = weight._shape[0]
    places = _unsigned(idx)  # so that negative indices lie beyond every size
    try:
        if max_norm is not None:
            _renormalise(weight, places, max_norm, norm_type)
        table = weight.read() if isinstance(weight, Cell) else weight
        out: Tensor = indexing.taken(table, places, 0)  # (*input, features)
    except IndexError:
        raise IndexingError(
            f"embedding: an index lies outside 0..{rows - 1}, the rows of the weight "
            f"{weight.shape}; write a weight with more rows, or x.clip(0, {rows - 1})"
        ) from None
    fixed = compare.stop_gradient
    if padding_idx is not None:
        if not -rows <= padding_idx < rows:
            raise ShapeError(
                f"embedding: padding_idx {padding_idx} is out of range for {rows} rows"
            )
        is_padding = shape_prims.reshaped(idx == padding_idx % rows, (*idx._shape, 1))
        out = compare.where(is_padding, fixed(out), out)
    if scale_grad_by_freq:
        flat = shape_prims.reshaped(idx, (prod(idx._shape),))
        none = creation.full(shape=(rows,), value=0, dtype=out.dtype, device=out.device.name)
        one = shape_prims.stretched(creation.constant_like(1, out), flat._shape)
        counts = indexing.scatter(none, flat, one, axis=0, mode="add")  # (rows,)
        share = shape_prims.reshaped(1.0 / indexing.take(counts, idx, axis=0), (*idx._shape, 1))
        out = fixed(out) + (out - fixed(out)) * share
    return out


def _unsigned(idx: Tensor) -> Tensor:
    """Integers as uint64; the same elements, where they are plain ones of int64."""
    array = idx._a if type(idx) is Tensor else None
    if type(array) is np.ndarray and array.dtype is int64:
        return new_tensor(array.view(uint64))
    return cast(idx, uint64)


def _renormalise(weight: Any, idx: Tensor, max_norm: float, p: float) -> None:
    is_cell = isinstance(weight, Cell)
    if not is_cell and not user_writes():
        raise InPlaceError(
            "embedding: max_norm scales rows of the weight, and a tensor cannot change; pass "
            "fx.nn.Parameter(weight)"
        )
    with no_grad():
        held = weight.read() if is_cell else weight
        flat = shape_prims.reshaped(idx, (prod(idx._shape),))
        rows = indexing.take(held, flat, axis=0)  # (looked up, features)
        norms = norm(rows, p, axis=1, keepdims=True)
        scale = compare.where(
            norms > max_norm, max_norm / (norms + 1e-7), creation.constant_like(1.0, norms)
        )
        new = indexing.scatter(held, flat, rows * scale, axis=0, mode="set")
        if is_cell:
            weight.rebind(new)
        else:
            written(weight, "embedding", new)
