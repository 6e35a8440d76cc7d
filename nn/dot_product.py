"""Attention with JAX's layout and arguments: ``jax.nn.dot_product_attention``."""

from __future__ import annotations

from typing import Any

import fx.prims.compare as compare
import fx.prims.shape as shape_prims
from fx import dtypes
from fx._namespace import finfo
from fx.errors import DTypeError, ShapeError
from fx.nn.functional.attention import scaled_dot_product_attention
from fx.ops.operands import argument, cast
from fx.prims.creation import constant_like, iota
from fx.tensor import Tensor


def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: Any = None,
    key_value_seq_lengths: Any = None,
    local_window_size: int | tuple[int, int] | None = None,
) -> Tensor:
    """Attention with the heads next to last, as JAX lays them out.

    Args:
        query: (B, T, N, H), or (T, N, H).
        key, value: (B, S, K, H), or (S, K, H); N is a multiple of K.
        bias: added to the products, broadcast to (B, N, T, S).
        mask: bool, broadcast to (B, N, T, S): where it is False, nothing is attended to.
        scale: of the products, ``1 / sqrt(H)`` unless told.
        is_causal: token t attends to tokens up to t.
        query_seq_lengths: (B,), integers: later rows of the result are 0.
        key_value_seq_lengths: (B,), integers: later tokens are not attended to.
        local_window_size: how many tokens before, and after, are attended to.

    Returns:
        of the shape of ``query``. A row that attends to nothing is the mean of all values.

    Raises:
        ShapeError, DTypeError: if shapes or dtypes do not fit.

    Source: ``jax.nn.dot_product_attention``.

    Example:
        >>> import fx
        >>> x = fx.ones(1, 5, 2, 4)
        >>> fx.nn.dot_product_attention(x, x, x, is_causal=True).shape
        (1, 5, 2, 4)
    """
    q, k, v = (argument("dot_product_attention", x) for x in (query, key, value))
    if q.ndim == 3:
        if query_seq_lengths is not None or key_value_seq_lengths is not None:
            raise ShapeError("dot_product_attention: lengths belong to a batch; write query[None]")
        q, k, v = (shape_prims.reshaped(x, (1, *x.shape)) for x in (q, k, v))
        given = [None if x is None else _batched(argument("bias", x)) for x in (bias, mask)]
        out = dot_product_attention(
            q, k, v, *given, scale=scale, is_causal=is_causal, local_window_size=local_window_size
        )
        return shape_prims.reshaped(out, out.shape[1:])
    if not q.ndim == k.ndim == v.ndim == 4:
        raise ShapeError(
            f"dot_product_attention takes (B, T, N, H), (B, S, K, H) and (B, S, K, H), "
            f"got {q.shape}, {k.shape} and {v.shape}"
        )
    rows, columns, heads = q.shape[1], k.shape[1], k.shape[2]
    allowed = None if mask is None else argument("dot_product_attention", mask)
    if allowed is not None and allowed.dtype != dtypes.bool_:
        raise DTypeError(
            f"dot_product_attention: mask must be bool, got {allowed.dtype.name}; write bias="
        )
    parts = _allowed(rows, columns, is_causal, local_window_size, q)
    if key_value_seq_lengths is not None:
        parts.append(_before(key_value_seq_lengths, columns, (1, 1, 1, columns)))
    plain = is_causal and local_window_size is None and len(parts) == 1
    if plain and bias is None and allowed is None:
        added, causal = None, True
    else:
        causal = False
        for part in parts:
            allowed = part if allowed is None else compare.bitwise_and(allowed, part)
        added = None if bias is None else cast(argument("dot_product_attention", bias), q.dtype)
        if allowed is not None:
            base = constant_like(0.0, q) if added is None else added
            lowest = constant_like(-0.7 * finfo(q.dtype).max, q)
            added = compare.where(allowed, base, lowest)
    if added is not None:
        added = shape_prims.stretched(added, (q.shape[0], q.shape[2], rows, columns))
    out = scaled_dot_product_attention(
        *[shape_prims.transposed(x, (0, 2, 1, 3)) for x in (q, k, v)],
        attn_mask=added, is_causal=causal, scale=scale, enable_gqa=heads != q.shape[2],
    )  # fmt: skip
    out = shape_prims.transposed(out, (0, 2, 1, 3))
    if query_seq_lengths is None:
        return out
    inside = _before(query_seq_lengths, rows, (1, rows, 1, 1))
    return compare.where(inside, out, constant_like(0.0, out))


def _batched(x: Tensor) -> Tensor:
    return shape_prims.reshaped(x, (1, *x.shape)) if x.ndim == 3 else x


def _before(lengths: Any, n: int, shape: tuple[int, ...]) -> Tensor:
    """Which of n places lie before the length of each of the batch."""
    ends = cast(argument("dot_product_attention", lengths), dtypes.int64)
    ends = shape_prims.reshaped(ends, (*ends.shape, 1, 1, 1))
    numbers = iota(
        shape=shape, axis=shape.index(n), start=0, step=1, dtype=dtypes.int64,
        device=ends.device.name,
    )  # fmt: skip
    return compare.less(numbers, ends)


def _allowed(
    rows: int, columns: int, causal: bool, window: int | tuple[int, int] | None, like: Tensor
) -> list[Tensor]:
    """The masks of causal and of local attention, (1, 1, rows, columns)."""
    out = []
    i, j = (
        iota(shape=shape, axis=axis, start=0, step=1, dtype=dtypes.int64, device=like.device.name)
        for shape, axis in (((1, 1, rows, 1), 2), ((1, 1, 1, columns), 3))
    )
    if causal:
        out.append(compare.less_equal(j, i))
    if window is not None:
        before, after = (window, window) if isinstance(window, int) else window
        out.append(compare.greater_equal(j, i - before))
        out.append(compare.less_equal(j, i + after))
    return out
