"""Attention of several heads, with the projections of its inputs and output."""

from __future__ import annotations

import math
import warnings
from typing import Any

import fx.prims.compare as compare
import fx.prims.creation as creation
import fx.prims.reduction as reduction
from fx.dtypes import INEXACT, bool_
from fx.errors import DTypeError, ShapeError
from fx.nn.functional.attention import scaled_dot_product_attention
from fx.nn.functional.dropout import dropout
from fx.nn.functional.linear import linear
from fx.ops.operands import argument
from fx.ops.shapes.joining import concat
from fx.ops.shapes.splitting import chunk
from fx.prims.linear import matmul, swap_last
from fx.prims.shape import broadcast_to, reshape, transpose
from fx.tensor import Tensor

_NAME = "multi_head_attention_forward"


def multi_head_attention_forward(
    query: Any,
    key: Any,
    value: Any,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Any,
    in_proj_bias: Any,
    bias_k: Any,
    bias_v: Any,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Any,
    out_proj_bias: Any,
    training: bool = True,
    key_padding_mask: Any = None,
    need_weights: bool = True,
    attn_mask: Any = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Any = None,
    k_proj_weight: Any = None,
    v_proj_weight: Any = None,
    static_k: Any = None,
    static_v: Any = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """``nn.MultiheadAttention`` with its weights as arguments.

    Args:
        query: (targets, batch, embed), or (targets, embed) of one sequence.
        key: (sources, batch, key features), or without the batch.
        value: (sources, batch, value features), or without the batch.
        embed_dim_to_check: the size of ``embed``.
        num_heads: which divides it.
        in_proj_weight: (3 * embed, embed), of query, key and value.
        in_proj_bias: (3 * embed,) or None.
        bias_k, bias_v: (1, 1, embed), one more source for everybody; or None.
        add_zero_attn: whether a source of zeros is added.
        dropout_p: the probability with which attention weights are dropped in training.
        out_proj_weight, out_proj_bias: of the output, (embed, embed) and (embed,) or None.
        training: whether dropout acts.
        key_padding_mask: (batch, sources), or (sources,): bool, True where a source is ignored, or
            floating, added to the scores.
        need_weights: whether the attention weights are returned too.
        attn_mask: (targets, sources) or (batch * heads, targets, sources), likewise.
        use_separate_proj_weight: whether query, key and value have weights of their own.
        q_proj_weight, k_proj_weight, v_proj_weight: these, (embed, features) each.
        static_k, static_v: (batch * heads, sources, embed / heads), in place of the projections.
        average_attn_weights: whether the weights are averaged over heads.
        is_causal: says that ``attn_mask`` is the causal one.

    Returns:
        (targets, batch, embed), and (batch, targets, sources) or, not averaged, (batch, heads,
        targets, sources), or None; without the batch for one sequence.

    Raises:
        ShapeError, DTypeError: if shapes or the dtype of a mask do not fit.
        RuntimeError: if ``is_causal`` comes without a mask.

    Source: Vaswani et al., "Attention is all you need", 2017.

    Example:
        >>> import fx
        >>> x, w = fx.ones((3, 1, 4)), fx.ones((12, 4))
        >>> y, weights = fx.nn.functional.multi_head_attention_forward(
        ...     x, x, x, 4, 2, w, None, None, None, False, 0.0, fx.eye(4), None
        ... )
        >>> y.shape, weights.shape
        ((3, 1, 4), (1, 3, 3))
    """
    q, k, v = argument(_NAME, query), argument(_NAME, key), argument(_NAME, value)
    single = _check(q, k, v, embed_dim_to_check, num_heads)
    padding = additive(key_padding_mask, "key_padding_mask", q._dtype, attn_mask, "attn_mask")
    if is_causal and attn_mask is None:
        raise RuntimeError(
            f"{_NAME}: is_causal=True says what attn_mask is and needs it; write "
            f"attn_mask=fx.nn.Transformer.generate_square_subsequent_mask(n)"
        )
    causal = is_causal and padding is None and not need_weights
    mask = None if causal else additive(attn_mask, "attn_mask", q._dtype)
    if single:
        same = (k is q, v is k)
        q = _with_batch(q)
        k = q if same[0] else _with_batch(k)
        v = k if same[1] else _with_batch(v)
        padding = None if padding is None else reshape(padding, shape=(1, *padding.shape))
    targets, batch, embed = q._shape
    if mask is not None:
        mask = _of_heads(mask, batch, num_heads, targets, k._shape[0])
    if padding is not None and padding.shape != (batch, k._shape[0]):
        raise ShapeError(
            f"{_NAME}: key_padding_mask must be (batch, sources) = {(batch, k.shape[0])}, got "
            f"{padding.shape}"
        )
    if use_separate_proj_weight:
        weights = (q_proj_weight, k_proj_weight, v_proj_weight)
        biases = (None,) * 3 if in_proj_bias is None else chunk(in_proj_bias, 3)
        q, k, v = (linear(x, w, b) for x, w, b in zip((q, k, v), weights, biases))
    else:
        q, k, v = _projected(q, k, v, in_proj_weight, in_proj_bias)
    added = 0
    if (bias_k is None) != (bias_v is None):
        raise ValueError(f"{_NAME}: give both bias_k and bias_v, or neither")
    if bias_k is not None:
        k, v = (
            concat([x, broadcast_to(argument(_NAME, b), shape=(1, batch, embed))], axis=0)
            for x, b in ((k, bias_k), (v, bias_v))
        )
        added += 1
    size = embed // num_heads
    q = _split(q, batch, num_heads)  # (batch, heads, targets, size)
    k = _split(k, batch, num_heads) if static_k is None else _static(static_k, batch, num_heads)
    v = _split(v, batch, num_heads) if static_v is None else _static(static_v, batch, num_heads)
    if add_zero_attn:
        zero = creation.full(
            shape=(batch, num_heads, 1, size), value=0, dtype=k._dtype, device=k.device.name
        )
        k, v = concat([k, zero], axis=2), concat([v, zero], axis=2)
        added += 1
    if padding is not None:
        padding = reshape(padding, shape=(batch, 1, 1, padding.shape[1]))
        mask = padding if mask is None else mask + padding
    if mask is not None and added:  # what was added is seen by everybody
        more = creation.full(
            shape=(*mask.shape[:-1], added), value=0, dtype=mask.dtype, device=mask.device.name
        )
        mask = concat([mask, more], axis=-1)
    p = dropout_p if training else 0.0
    if need_weights:
        scores = matmul(q * (1.0 / math.sqrt(size)), swap_last(k))
        scores = scores if mask is None else scores + mask
        weights = reduction.softmax(scores, axis=3)  # (batch, heads, targets, sources)
        weights = dropout(weights, p) if p else weights
        y = matmul(weights, v)
    else:
        y, weights = scaled_dot_product_attention(q, k, v, mask, p, causal), None
    y = reshape(transpose(y, axes=(2, 0, 1, 3)), shape=(targets, batch, embed))
    y = linear(y, out_proj_weight, out_proj_bias)
    if weights is not None and average_attn_weights:
        weights = reduction.sum(weights, axes=(1,), keepdims=False) / num_heads
    if single:
        y = reshape(y, shape=(targets, y.shape[2]))
        weights = None if weights is None else reshape(weights, shape=weights.shape[1:])
    return y, weights


def additive(
    mask: Any, name: str, dtype: Any, other: Any = None, other_name: str = ""
) -> Tensor | None:
    """A mask as what is added to scores: -inf where a bool one is True.

    Raises:
        DTypeError: if it is neither bool nor floating.
    """
    if mask is None:
        return None
    x = argument(name, mask)
    if x._dtype != bool_ and x._dtype not in INEXACT:
        raise DTypeError(
            f"{name} must be bool, True where attention is not allowed, or floating, got "
            f"{x.dtype.name}; write {name} != 0"
        )
    if other is not None and argument(other_name, other).dtype != x._dtype:
        warnings.warn(
            f"{name} is {x._dtype.name} and {other_name} is of another dtype; use one for both",
            stacklevel=3,
        )
    if x._dtype in INEXACT:
        return x
    zero = creation.constant(0.0, dtype, x.device.name)
    never = creation.constant(-math.inf, dtype, x.device.name)
    return compare.where(x, never, zero)


def _check(q: Tensor, k: Tensor, v: Tensor, embed: int, heads: int) -> bool:
    """Whether there is no batch axis."""
    fits = q.ndim == k.ndim == v.ndim and q.ndim in (2, 3) and k._shape[:-1] == v._shape[:-1]
    if not fits or (q.ndim == 3 and q._shape[1] != k._shape[1]):
        raise ShapeError(
            f"{_NAME} takes query (targets, batch, features), key and value (sources, batch, "
            f"features), or all three without batch, got {q.shape}, {k.shape} and {v.shape}"
        )
    if q._shape[-1] != embed or embed % heads:
        raise ShapeError(
            f"{_NAME}: the features of query must be embed_dim={embed}, which num_heads={heads} "
            f"must divide, got query {q.shape}"
        )
    return q.ndim == 2


def _projected(q: Tensor, k: Tensor, v: Tensor, weight: Any, bias: Any) -> list[Tensor]:
    """Query, key and value, in as few products as their being one another allows."""
    if k is v and q is k:
        return list(chunk(linear(q, weight, bias), 3, axis=-1))
    embed = q._shape[-1]
    w = argument(_NAME, weight)
    b = None if bias is None else argument(_NAME, bias)
    if k is v:
        first = linear(q, w[:embed], None if b is None else b[:embed])
        rest = linear(k, w[embed:], None if b is None else b[embed:])
        return [first, *chunk(rest, 2, axis=-1)]
    biases = (None,) * 3 if b is None else chunk(b, 3)
    return [linear(x, u, c) for x, u, c in zip((q, k, v), chunk(w, 3), biases)]


def _with_batch(x: Tensor) -> Tensor:
    return reshape(x, shape=(x._shape[0], 1, x._shape[1]))


def _split(x: Tensor, batch: int, heads: int) -> Tensor:
    """(length, batch, heads * size) to (batch, heads, length, size)."""
    length, _, embed = x._shape
    return transpose(reshape(x, shape=(length, batch, heads, embed // heads)), axes=(1, 2, 0, 3))


def _static(x: Any, batch: int, heads: int) -> Tensor:
    x = argument(_NAME, x)
    if x.ndim != 3 or x._shape[0] != batch * heads:
        raise ShapeError(
            f"{_NAME}: static_k and static_v must be (batch * heads, sources, size) with "
            f"{batch * heads} first, got {x.shape}"
        )
    return reshape(x, shape=(batch, heads, *x._shape[1:]))


def _of_heads(mask: Tensor, batch: int, heads: int, targets: int, sources: int) -> Tensor:
    """A mask that broadcasts to (batch, heads, targets, sources)."""
    if mask._shape == (targets, sources):
        return reshape(mask, shape=(1, 1, targets, sources))
    if mask._shape == (batch * heads, targets, sources):
        return reshape(mask, shape=(batch, heads, targets, sources))
    raise ShapeError(
        f"{_NAME}: attn_mask must be (targets, sources) = {(targets, sources)} or (batch * heads, "
        f"targets, sources) = {(batch * heads, targets, sources)}, got {mask.shape}"
    )
