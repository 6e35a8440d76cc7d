"""Scaled dot-product attention."""

from __future__ import annotations

import math
from typing import Any

import fx.prims.compare as compare
import fx.prims.creation as creation
import fx.prims.indexing as indexing
import fx.prims.linear as linear_prims
import fx.prims.reduction as reduction
from fx.dtypes import bool_, int64
from fx.errors import ShapeError
from fx.nn.functional.dropout import dropout
from fx.ops.autocasting import in_half
from fx.ops.operands import argument
from fx.tensor import Tensor


@in_half
def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """``softmax(query @ key.T * scale + mask) @ value``.

    Args:
        query: (..., targets, features).
        key: (..., sources, features).
        value: (..., sources, value_features).
        attn_mask: broadcasts to (..., targets, sources): bool, True where attention is allowed, or
            floating, added to the scores.
        dropout_p: the probability with which attention weights are dropped.
        is_causal: whether a target sees only the sources up to its own position.
        scale: ``1 / sqrt(features)`` unless told.
        enable_gqa: whether the third axis from the end, the heads, may be a multiple of that of
            ``key`` and ``value``, each of which then serves several query heads.

    Returns:
        (..., targets, value_features). A target that may attend to nothing gives zeros.

    Raises:
        ShapeError: if the shapes do not fit.
        ValueError: if both a mask and ``is_causal`` are given.

    Source: Vaswani et al., "Attention is all you need", 2017.

    Example:
        >>> import fx
        >>> x = fx.ones((1, 2, 4))
        >>> fx.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True).shape
        (1, 2, 4)
    """
    name = "scaled_dot_product_attention"
    q, k, v = argument(name, query), argument(name, key), argument(name, value)
    if (
        min(q.ndim, k.ndim, v.ndim) < 2
        or q._shape[-1] != k._shape[-1]
        or k._shape[-2] != v._shape[-2]
    ):
        raise ShapeError(
            f"{name} takes query (..., targets, features), key (..., sources, features) and value "
            f"(..., sources, value features), got {q.shape}, {k.shape} and {v.shape}"
        )
    if enable_gqa:
        k, v = _shared(name, k, q), _shared(name, v, q)
    if scale is None:
        scale = 1.0 / math.sqrt(max(q._shape[-1], 1))
    if is_causal and attn_mask is not None:
        raise ValueError(f"{name}: give either attn_mask or is_causal=True, not both")
    if not 0.0 <= dropout_p <= 1.0:
        raise ValueError(f"{name}: dropout_p must be in [0, 1], got {dropout_p}")
    scores = linear_prims.matmul(q * scale, linear_prims.swap_last(k))  # (..., targets, sources)
    some = None
    if is_causal:
        seen = _causal(*scores.shape[-2:], device=scores.device.name)
        scores = compare.where(seen, scores, creation.constant_like(-math.inf, scores))
    elif attn_mask is not None:
        scores, some = _masked(scores, argument(name, attn_mask))
    weights = reduction.softmax(scores, axis=scores.ndim - 1)
    if dropout_p:
        weights = dropout(weights, dropout_p)
    out = linear_prims.matmul(weights, v)
    return out if some is None else compare.where(some, out, creation.constant_like(0.0, out))


def _masked(scores: Tensor, mask: Tensor) -> tuple[Tensor, Tensor | None]:
    """The scores under a mask, and the rows (..., targets, 1) that may attend to something.

    A row of -inf only would give nan, and nan gradients: the mask leaves such rows alone.
    """
    none = creation.constant_like(-math.inf, scores)
    allowed = mask if mask._dtype == bool_ else mask > creation.constant_like(-math.inf, mask)
    some = None
    if mask.ndim and mask._shape[-1]:
        some = reduction.any(allowed, axes=(mask.ndim - 1,), keepdims=True)
    if mask._dtype == bool_:
        return compare.where(mask if some is None else mask | ~some, scores, none), some
    if some is not None:
        mask = compare.where(some, mask, creation.constant_like(0.0, mask))
    return scores + mask, some


def _causal(targets: int, sources: int, device: str) -> Tensor:
    """(targets, sources), True on and below the diagonal."""
    like = {"start": 0, "step": 1, "dtype": int64, "device": device}
    row = creation.iota(shape=(targets, 1), axis=0, **like)
    column = creation.iota(shape=(1, sources), axis=1, **like)
    return row >= column


def _shared(name: str, x: Tensor, q: Tensor) -> Tensor:
    """Heads of ``x`` repeated so that each serves its group of query heads."""
    if min(x.ndim, q.ndim) < 3 or q._shape[-3] % x._shape[-3]:
        raise ShapeError(
            f"{name}: with enable_gqa the {q.shape[-3:-2]} query heads must be a multiple of the "
            f"{x.shape[-3:-2]} key and value heads"
        )
    heads, times = x._shape[-3], q._shape[-3] // x._shape[-3]
    idx = creation.iota(
        shape=(heads, times), axis=0, start=0, step=1, dtype=int64, device=x.device.name
    )
    out = indexing.take(x, idx, axis=x.ndim - 3)  # (..., heads, times, sources, features)
    return out.reshape((*x._shape[:-3], heads * times, *x._shape[-2:]))
