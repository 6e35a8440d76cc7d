"""Order, sums along axes and over windows by the names of ``jax.lax``."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import fx
from fx.dtypes import as_dtype
from fx.errors import ArgumentError
from fx.lax.shapes import pad
from fx.lax.slices import slice, slice_in_dim
from fx.ops.operands import argument
from fx.tensor import Tensor


def sort(operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Any:
    """Sorted along an axis; of several tensors all by the first ``num_keys``, which break ties."""
    if not isinstance(operand, Sequence):
        return fx.sort(operand, axis=dimension, stable=is_stable)
    given = [argument("sort", x) for x in operand]
    order = fx.argsort(given[num_keys - 1], axis=dimension, stable=True)
    for key in given[num_keys - 2 :: -1] if num_keys > 1 else []:
        at = fx.take_along_axis(key, order, axis=dimension)
        again = fx.argsort(at, axis=dimension, stable=True)
        order = fx.take_along_axis(order, again, axis=dimension)
    return tuple(fx.take_along_axis(x, order, axis=dimension) for x in given)


def sort_key_val(
    keys: Any, values: Any, dimension: int = -1, is_stable: bool = True
) -> tuple[Tensor, Tensor]:
    """Keys in order, and values in that order."""
    return sort((keys, values), dimension, is_stable)  # type: ignore[no-any-return]


def top_k(operand: Any, k: int, *, axis: int = -1) -> list[Tensor]:
    """The k largest elements along an axis, falling, and their indices (int32)."""
    return _first(argument("top_k", operand), k, axis, descending=True)


def _first(x: Tensor, k: int, axis: int, descending: bool) -> list[Tensor]:
    """The first k elements of an order along an axis, and their indices (int32)."""
    order = fx.argsort(x, axis=axis, descending=descending, stable=True)
    order = slice_in_dim(order, 0, k, axis=axis)
    return [fx.take_along_axis(x, order, axis=axis), order.astype(fx.int32)]


def approx_max_k(operand: Any, k: int, reduction_dimension: int = -1) -> list[Tensor]:
    """``top_k`` along an axis; it is exact."""
    return top_k(operand, k, axis=reduction_dimension)


def approx_min_k(operand: Any, k: int, reduction_dimension: int = -1) -> list[Tensor]:
    """The k smallest elements along an axis, rising; it is exact."""
    x = argument("approx_min_k", operand)
    return _first(x, k, reduction_dimension, descending=False)


def _cumulative(name: str, function: Callable[..., Any]) -> Any:
    def cumulative(operand: Any, axis: int = 0, reverse: bool = False) -> Tensor:
        x = argument(name, operand)
        x = fx.flip(x, axis=axis) if reverse else x
        out = function(x, axis)
        return fx.flip(out, axis=axis) if reverse else out

    cumulative.__name__ = cumulative.__qualname__ = name
    cumulative.__doc__ = f"``{name}`` along an axis, from the end on if in ``reverse``."
    return cumulative


cumsum = _cumulative("cumsum", lambda x, axis: x.cumsum(axis))
cumprod = _cumulative("cumprod", lambda x, axis: x.cumprod(axis))
cummax = _cumulative("cummax", lambda x, axis: x.cummax(axis)[0])
cummin = _cumulative("cummin", lambda x, axis: x.cummin(axis)[0])
cumlogsumexp = _cumulative("cumlogsumexp", lambda x, axis: x.logcumsumexp(axis))


def _reduction(name: str, function: Callable[..., Any]) -> Any:
    def reduction(operand: Any, axes: Sequence[int]) -> Tensor:
        x = argument(name, operand)
        return function(x, axis=tuple(axes)) if len(axes) else x  # type: ignore[no-any-return]

    reduction.__name__ = reduction.__qualname__ = name
    reduction.__doc__ = f"``{name[7:]}`` of the elements along axes."
    return reduction


reduce_sum = _reduction("reduce_sum", lambda x, axis: fx.sum(x, axis=axis, dtype=x.dtype))
reduce_prod = _reduction("reduce_prod", lambda x, axis: fx.prod(x, axis=axis, dtype=x.dtype))
reduce_max, reduce_min = _reduction("reduce_max", fx.max), _reduction("reduce_min", fx.min)
reduce_and, reduce_or = _reduction("reduce_and", fx.all), _reduction("reduce_or", fx.any)
reduce_xor = _reduction(
    "reduce_xor", lambda x, axis: fx.sum(x.astype(fx.int64), axis=axis) % 2 == 1
)


def argmax(operand: Any, axis: int, index_dtype: Any = None) -> Tensor:
    """Where the largest element along an axis is, the first of equal ones."""
    return fx.argmax(operand, axis=axis).astype(as_dtype(index_dtype or fx.int32))  # type: ignore[no-any-return]


def argmin(operand: Any, axis: int, index_dtype: Any = None) -> Tensor:
    """Where the smallest element along an axis is, the first of equal ones."""
    return fx.argmin(operand, axis=axis).astype(as_dtype(index_dtype or fx.int32))  # type: ignore[no-any-return]


def reduce(operand: Any, init_value: Any, computation: Any, dimensions: Sequence[int]) -> Tensor:
    """Elements along axes put together by an associative function, by halves."""
    x = argument("reduce", operand)
    for axis in sorted((d % x.ndim for d in dimensions), reverse=True):
        while (n := x.shape[axis]) > 1:
            odd = [slice_in_dim(x, n - 1, n, axis=axis)] if n % 2 else []
            halves = [slice_in_dim(x, n // 2 * k, n // 2 * (k + 1), axis=axis) for k in range(2)]
            x = fx.concat([computation(*halves), *odd], axis=axis)
        x = x.sum(axis) if not x.shape[axis] else fx.squeeze(x, axis=axis)
    return computation(init_value, x)  # type: ignore[no-any-return]


def padding_pairs(
    padding: Any, shape: Sequence[int], window: Sequence[int], strides: Sequence[int]
) -> list[tuple[int, int]]:
    """Padding before and behind each axis; "SAME", "SAME_LOWER" and "VALID" by JAX's rule."""
    if not isinstance(padding, str):
        return [tuple(p) for p in padding]  # type: ignore[misc]
    if padding.upper() == "VALID":
        return [(0, 0)] * len(shape)
    if padding.upper() not in ("SAME", "SAME_LOWER"):
        raise ArgumentError(f"lax: padding is SAME, SAME_LOWER, VALID or pairs, got {padding!r}")
    pairs = []
    for n, w, s in zip(shape, window, strides, strict=True):
        total = builtins.max((-(-n // s) - 1) * s + w - n, 0)
        less, more = total // 2, total - total // 2
        pairs.append((less, more) if padding.upper() == "SAME" else (more, less))
    return pairs


def reduce_window(
    operand: Any, init_value: Any, computation: Any, window_dimensions: Sequence[int],
    window_strides: Sequence[int], padding: Any, base_dilation: Any = None,
    window_dilation: Any = None,
) -> Tensor:  # fmt: skip
    """Windows of elements put together by an associative function.

    Args:
        operand: (*S,).
        init_value: what padding holds, which changes no result.
        computation: of two tensors, such as ``lax.add`` or ``lax.max``.
        window_dimensions, window_strides, base_dilation, window_dilation: a number for each axis.
        padding: "SAME", "VALID" or pairs.
    """
    x = argument("reduce_window", operand)
    ones = [1] * x.ndim
    inner, base = list(window_dilation or ones), list(base_dilation or ones)
    wide = [(w - 1) * d + 1 for w, d in zip(window_dimensions, inner, strict=True)]
    sizes = [n + builtins.max(n - 1, 0) * (b - 1) for n, b in zip(x.shape, base, strict=True)]
    pairs = padding_pairs(padding, sizes, wide, window_strides)
    x = pad(x, init_value, [(*p, b - 1) for p, b in zip(pairs, base, strict=True)])
    counts = [
        builtins.max((n - w) // s + 1, 0)
        for n, w, s in zip(x.shape, wide, window_strides, strict=True)
    ]
    out = fx.broadcast_to(argument("reduce_window", init_value, x).astype(x.dtype), tuple(counts))
    for place in product(*builtins.map(range, window_dimensions)):
        starts = [i * d for i, d in zip(place, inner, strict=True)]
        stops = [
            a + (c - 1) * s + 1 if c else a
            for a, c, s in zip(starts, counts, window_strides, strict=True)
        ]
        out = computation(out, slice(x, starts, stops, list(window_strides)))
    return out
