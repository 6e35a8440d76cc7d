"""Scaled dot-product attention."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import fx.prims.compare as compare
import fx.prims.creation as creation
import fx.prims.indexing as indexing
import fx.prims.linear as linear_prims
import fx.prims.reduction as reduction
from fx import limits
from fx.config import modes
from fx.dtypes import INEXACT, bfloat16, bool_, float16, float32, float64, int64
from fx.errors import DTypeError, ShapeError
from fx.nn.functional.dropout import dropout
from fx.ops.autocasting import in_half
from fx.ops.operands import argument
from fx.prims.attention import attention, attention_of_few
from fx.prims.families import broadcast_shapes
from fx.prims.shape import broadcast_to
from fx.tensor import Tensor

_NAME = "scaled_dot_product_attention"


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
        DTypeError: if the dtypes differ, or are not floating.
        ValueError: if both a mask and ``is_causal`` are given.

    Source: Vaswani et al., "Attention is all you need", 2017.

    Example:
        >>> import fx
        >>> x = fx.ones((1, 2, 4))
        >>> fx.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True).shape
        (1, 2, 4)
    """
    q, k, v = argument(_NAME, query), argument(_NAME, key), argument(_NAME, value)
    if (
        min(q.ndim, k.ndim, v.ndim) < 2
        or q._shape[-1] != k._shape[-1]
        or k._shape[-2] != v._shape[-2]
    ):
        raise ShapeError(
            f"{_NAME} takes query (..., targets, features), key (..., sources, features) and value "
            f"(..., sources, value features), got {q.shape}, {k.shape} and {v.shape}"
        )
    if not (q._dtype == k._dtype == v._dtype and q._dtype in INEXACT):
        raise DTypeError(
            f"{_NAME} takes query, key and value of one floating dtype, got {q.dtype.name}, "
            f"{k.dtype.name} and {v.dtype.name}; cast with x.astype(fx.float32)"
        )
    if is_causal and attn_mask is not None:
        raise ValueError(f"{_NAME}: give either attn_mask or is_causal=True, not both")
    if not 0.0 <= dropout_p <= 1.0:
        raise ValueError(f"{_NAME}: dropout_p must be in [0, 1], got {dropout_p}")
    if enable_gqa:
        _check_heads(k, q)
        _check_heads(v, q)
    if scale is None:
        scale = 1.0 / math.sqrt(max(q._shape[-1], 1))
    mask = None if attn_mask is None else argument(_NAME, attn_mask)
    if modes.axes:
        for axis in modes.axes:
            if hasattr(axis, "attend"):  # of fx.distributed.context
                if enable_gqa:
                    k, v = _shared(k, q), _shared(v, q)
                return axis.attend(q, k, v, mask, dropout_p, is_causal, scale)
    if not dropout_p and isinstance(scale, Real) and _may_go_in_blocks(q, k, v, mask):
        params = {"causal": bool(is_causal), "scale": float(scale)}
        if _long(q, k, v, is_causal):
            return _in_blocks(q, k, v, mask, enable_gqa, params)
        if mask is None and _few(q, k, v, is_causal, enable_gqa):
            found: Tensor = attention_of_few(q, k, v, **params)[0]
            return found
    if enable_gqa:
        k, v = _shared(k, q), _shared(v, q)
    return _at_once(q, k, v, mask, scale, is_causal, dropout_p)


def _at_once(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: Any, causal: bool, p: float
) -> Tensor:
    """Attention with all weights in memory."""
    scores = linear_prims.matmul(q * scale, linear_prims.swap_last(k))  # (..., targets, sources)
    some = None
    if causal:
        seen = _causal(*scores.shape[-2:], device=scores.device.name)
        scores = compare.where(seen, scores, creation.constant_like(-math.inf, scores))
    elif mask is not None:
        scores, some = _masked(scores, mask)
    weights = reduction.softmax(scores, axis=scores.ndim - 1)
    if p:
        weights = dropout(weights, p)
    out = linear_prims.matmul(weights, v)
    return out if some is None else compare.where(some, out, creation.constant_like(0.0, out))


# in blocks --------------------------------------------------------------------------------------


def _may_go_in_blocks(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> bool:
    """Whether dtypes and the mask are such that there are kernels."""
    dtype = q._dtype
    if k._dtype != dtype or v._dtype != dtype or dtype not in _BLOCKS:
        return False
    if mask is None:
        return True
    scores = (q._shape[-2], k._shape[-2])[-mask.ndim :]
    fits = all(m in (1, n) for m, n in zip(mask._shape[-2:], scores))
    return fits and mask._dtype in (bool_, dtype)


_BLOCKS = frozenset((bfloat16, float16, float32, float64))


def _long(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> bool:
    """Whether attention in blocks is the faster way, compiled too, by sizes alone.

    It computes scores once more on the way back: what that costs grows with the features, and what
    memory costs does not. Half of what is causal is left out. Its products are those of float32,
    which take longer than those of 16-bit numbers.
    """
    targets, features = q._shape[-2:]
    scores = targets * k._shape[-2] * (4 if causal else 1)
    features = max(features, v._shape[-1], limits.ATTENTION_FEATURES)
    if q._dtype.itemsize < 4:
        features *= 4 * features // limits.ATTENTION_FEATURES
    return targets >= limits.ATTENTION_ROWS and scores >= limits.ATTENTION_FROM * features


def _few(q: Tensor, k: Tensor, v: Tensor, causal: bool, grouped: bool) -> bool:
    """Whether eager attention is faster by one kernel, and shapes are those of its primitive."""
    a, b, c = q._shape, k._shape, v._shape
    if len(a) != 4 or a[0] != b[0] or b[:2] != c[:2] or (not grouped and a[1] != b[1]):
        return False
    wide = max(a[3], c[3]) > limits.ATTENTION_FEATURES
    return a[2] >= limits.ATTENTION_ROWS and (causal or not wide)


def _in_blocks(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, grouped: bool, params: dict[str, Any]
) -> Tensor:
    """Attention by its primitive, on (batch, heads, ...)."""
    if grouped and k._shape[-3] != v._shape[-3]:
        k, v, grouped = _shared(k, q), _shared(v, q), False
    masks = [] if mask is None else [_as_added(mask, q._dtype)]
    own = max([x.ndim for x in (q, k, v, *masks)])
    q, k, v, *masks = [_ones_before(x, max(own, 3)) for x in (q, k, v, *masks)]
    heads = [x._shape[-3:-2] for x in (q, k, v, *masks)]
    of_q = of_kv = heads[0] if grouped else broadcast_shapes(_NAME, *heads)
    if grouped:
        of_kv = heads[1]
    batch = broadcast_shapes(_NAME, *[x._shape[:-3] for x in (q, k, v, *masks)])
    four = [_merged(q, batch + of_q)] + [_merged(x, batch + of_kv) for x in (k, v)]
    masks = [x if x.ndim == 4 else _merged(x, batch + x._shape[-3:-2]) for x in masks]
    out = attention(*four, *masks, **params)[0]
    lead = (batch + of_q)[max(own, 3) - own :]
    return out if own == 4 else out.reshape(lead + out._shape[2:])


def _as_added(mask: Tensor, dtype: Any) -> Tensor:
    """What is added to scores: -inf where a bool mask is False."""
    if mask._dtype != bool_:
        return mask
    number = lambda x: creation.constant(x, dtype, mask.device.name)
    return compare.where(mask, number(0.0), number(-math.inf))


def _ones_before(x: Tensor, rank: int) -> Tensor:
    """x with axes of 1 before its own."""
    return x if x.ndim == rank else x.reshape((1,) * (rank - x.ndim) + x._shape)


def _merged(x: Tensor, lead: tuple[int, ...]) -> Tensor:
    """x (..., rows, features) broadcast to ``lead``, with all but the last axis of that as one."""
    shape = lead + x._shape[-2:]
    x = x if x._shape == shape else broadcast_to(x, shape=shape)
    return x if x.ndim == 4 else x.reshape((math.prod(lead[:-1]), lead[-1], *shape[-2:]))


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


def _check_heads(x: Tensor, q: Tensor) -> None:
    """Refuse heads of keys or values that do not serve as many query heads each."""
    if min(x.ndim, q.ndim) < 3 or q._shape[-3] % x._shape[-3]:
        raise ShapeError(
            f"{_NAME}: with enable_gqa the {q.shape[-3:-2]} query heads must be a multiple of the "
            f"{x.shape[-3:-2]} key and value heads"
        )


def _shared(x: Tensor, q: Tensor) -> Tensor:
    """Heads of ``x`` repeated so that each serves its group of query heads."""
    heads, times = x._shape[-3], q._shape[-3] // x._shape[-3]
    idx = creation.iota(
        shape=(heads, times), axis=0, start=0, step=1, dtype=int64, device=x.device.name
    )
    out = indexing.take(x, idx, axis=x.ndim - 3)  # (..., heads, times, sources, features)
    return out.reshape((*x._shape[:-3], heads * times, *x._shape[-2:]))
