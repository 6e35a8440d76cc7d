"""Similarities and distances between vectors."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

import fx.prims.indexing as indexing
import fx.prims.lengths as lengths
import fx.prims.shape as shape_prims
from fx.dtypes import float32, float64
from fx.errors import ShapeError
from fx.nn.functional._narrow import narrow, widened
from fx.ops.axes import normal_axis
from fx.ops.convert import as_tensor
from fx.ops.operands import floating, of_scalar, operands
from fx.ops.reductions.norms import cdist, norm
from fx.prims.families import broadcast_shapes
from fx.tensor import Tensor


def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along an axis.

    Args:
        x1, x2: shapes that broadcast together.
        dim: the axis of the vectors, in the broadcast shape.
        eps: the least length that is divided by.

    Returns:
        the broadcast shape without ``dim``.

    Raises:
        ShapeError: if the shapes do not broadcast.
        AxisError: if ``dim`` is out of range.

    Example:
        >>> import fx
        >>> fx.nn.functional.cosine_similarity(fx.tensor([[3.0, 4.0]]), fx.tensor([[4.0, 3.0]]))
        tensor([0.9600])
    """
    x, y = operands("cosine_similarity", x1, x2, float_only=True)
    shape = broadcast_shapes("cosine_similarity", x.shape, y.shape)
    if not shape:
        return of_scalar(cosine_similarity, x, y, dim=dim, eps=eps)  # type: ignore[no-any-return]
    axis = normal_axis("cosine_similarity", dim, shape) - len(shape)
    if narrow(x):
        return widened(lambda x: cosine_similarity(x, y.astype(x.dtype), axis, eps), x)
    x, y = shape_prims.stretched(x, shape), shape_prims.stretched(y, shape)
    return lengths.cosine(x, y, axes=(axis + len(shape),), keepdims=False, eps=eps)  # type: ignore[no-any-return]


def pairwise_distance(
    x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """The p-norm of ``x1 - x2 + eps`` over the last axis.

    Args:
        x1, x2: shapes that broadcast together, (..., features).
        p: the p of the norm.
        eps: added to every difference.
        keepdim: keep the last axis, with size 1.

    Example:
        >>> import fx
        >>> fx.nn.functional.pairwise_distance(fx.tensor([[3.0, 4.0]]), fx.zeros((1, 2)), eps=0.0)
        tensor([5.])
    """
    x, y = operands("pairwise_distance", x1, x2, float_only=True)
    if p == 2 and x._shape == y._shape and x._shape and x._dtype.itemsize > 2:
        return lengths.gap(x, y, axes=(x.ndim - 1,), keepdims=keepdim, eps=eps)  # type: ignore[no-any-return]
    return norm(x - y + eps, p, -1, keepdims=keepdim)


def pdist(input: Any, p: float = 2.0) -> Tensor:
    """The p-norm distances between all pairs of rows.

    Args:
        input: (rows, features).
        p: the p of the norm, not negative.

    Returns:
        (rows * (rows - 1) / 2,): of row 0 with 1, 2, ..., then of row 1 with 2, ...; its gradient
        is 0 where it is 0.

    Raises:
        ShapeError: if the input does not have two axes.
        ValueError: if ``p`` is negative.

    Source: ``scipy.spatial.distance.pdist``.

    Example:
        >>> import fx
        >>> fx.nn.functional.pdist(fx.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 8.0]]))
        tensor([5., 8., 5.])
    """
    x = floating("pdist", input)
    if x.ndim != 2:
        raise ShapeError(f"pdist takes (rows, features), got shape {x.shape}")
    if p < 0:
        raise ValueError(f"pdist: p must not be negative, got {p}")
    n = x._shape[0]
    places = as_tensor(_few_pairs(n) if n <= _FEW else _pairs(n), device=x.device)
    if p > 0 and x._dtype in (float32, float64):
        return lengths.pair_distances(x, places, p=float(p))  # type: ignore[no-any-return]
    return indexing.take(cdist(x, x, p).reshape(n * n), places, axis=0)


def _pairs(n: int) -> np.ndarray:
    """The places of what is right of the diagonal of a matrix (n, n)."""
    return np.flatnonzero(~np.tri(n, dtype=bool))


_FEW = 64
_few_pairs = lru_cache(_FEW)(_pairs)
