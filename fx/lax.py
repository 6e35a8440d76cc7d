"""``jax.lax``'s names with JAX's arguments: ``import fx.lax as lax``.

Names whose meaning is the same are those of ``fx``. In place of ``gather`` and ``scatter`` write
``x[i]`` and ``x.at[i].add(v)``.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import fx
from fx.dtypes import INTEGRAL, as_dtype, bool_
from fx.errors import ArgumentError
from fx.ops.operands import argument
from fx.prims.special import gammainc_by_order
from fx.tensor import Tensor

_SAME = """
    abs acos acosh add all_gather all_to_all asin asinh associative_scan atan atan2 atanh axis_index
    axis_size bitwise_and bitwise_not bitwise_or bitwise_xor broadcast_shapes cbrt ceil cond conj
    cos cosh digamma empty eq erf erfc exp exp2 expm1 floor fori_loop full full_like ge gt imag le
    lgamma log log1p lt map mul ne neg nextafter pbroadcast pmax pmean pmin pow ppermute psum
    psum_scatter real reciprocal rsqrt scan sign sin sinh sqrt square stop_gradient sub switch tan
    tanh tile unstack while_loop"""
_RENAMED = {
    "max": "maximum", "min": "minimum", "rem": "fmod", "is_finite": "isfinite",
    "shift_left": "bitwise_left_shift",
    "shift_right_arithmetic": "bitwise_right_shift", "logistic": "sigmoid", "erf_inv": "erfinv",
    "batch_matmul": "matmul",
}  # fmt: skip
_SPECIAL = {
    "bessel_i0e": "i0e", "bessel_i1e": "i1e", "betainc": "betainc", "igamma": "gammainc",
    "igammac": "gammaincc", "zeta": "zeta",
}  # fmt: skip
globals().update({name: getattr(fx, name) for name in _SAME.split()})
globals().update({name: getattr(fx, ours) for name, ours in _RENAMED.items()})
globals().update({name: getattr(fx.special, ours) for name, ours in _SPECIAL.items()})


# elements ---------------------------------------------------------------------------------------


def div(x: Any, y: Any) -> Tensor:
    """x / y; of integers the quotient without its fraction."""
    x = argument("div", x)
    if x.dtype not in INTEGRAL:
        return fx.divide(x, y)
    return fx.floor_divide(x - fx.fmod(x, y), y)


def clamp(min: Any, x: Any, max: Any) -> Tensor:
    """x, no less than ``min`` and no more than ``max``."""
    return fx.minimum(fx.maximum(x, min), max)


def select(pred: Any, on_true: Any, on_false: Any) -> Tensor:
    """``on_true`` where ``pred`` holds, else ``on_false``."""
    return fx.where(pred, on_true, on_false)


def select_n(which: Any, *cases: Any) -> Tensor:
    """Of each element the case of the number ``which``; of bool the first is that of False."""
    which = argument("select_n", which)
    if which.dtype == bool_:
        which = which.astype(fx.int32)
    out = argument("select_n", cases[-1])
    for i in range(len(cases) - 2, -1, -1):
        out = fx.where(which <= i, cases[i], out)
    return out


def integer_pow(x: Any, y: int) -> Tensor:
    """x ** y of a Python int y."""
    return argument("integer_pow", x) ** y  # type: ignore[no-any-return]


def polygamma(m: Any, x: Any) -> Tensor:
    """The derivative of order m of ``digamma``, of a whole number m."""
    return fx.special.polygamma(int(m), x)


def igamma_grad_a(a: Any, x: Any) -> Tensor:
    """The slope of ``igamma`` in a."""
    a, x = argument("igamma_grad_a", a), argument("igamma_grad_a", x)
    return gammainc_by_order(a, x)  # type: ignore[no-any-return]


def complex(x: Any, y: Any) -> Tensor:
    """x + i y."""
    return x + y * 1j  # type: ignore[no-any-return]


def convert_element_type(operand: Any, new_dtype: Any) -> Tensor:
    """``operand`` in another dtype."""
    return argument("convert_element_type", operand).astype(as_dtype(new_dtype))  # type: ignore[no-any-return]


def shift_right_logical(x: Any, y: Any) -> Tensor:
    """x >> y with zeros following in, also of negative numbers."""
    x = argument("shift_right_logical", x)
    wide = {1: fx.uint8, 2: fx.uint16, 4: fx.uint32, 8: fx.uint64}[x.dtype.itemsize]
    y = argument("shift_right_logical", y).astype(wide)
    return fx.bitwise_right_shift(x.astype(wide), y).astype(x.dtype)  # type: ignore[no-any-return]


def population_count(x: Any) -> Tensor:
    """How many bits of an integer are set."""
    x = argument("population_count", x)
    return fx.bitwise_count(x).astype(x.dtype)  # type: ignore[no-any-return]


def clz(x: Any) -> Tensor:
    """How many zeros lead the bits of an integer."""
    x = argument("clz", x)
    bits = 8 * x.dtype.itemsize
    for step in [2**k for k in range(int(math.log2(bits)))]:
        x = fx.bitwise_or(x, shift_right_logical(x, step))
    return bits - population_count(x)  # type: ignore[no-any-return]


# shapes -----------------------------------------------------------------------------------------


def reshape(operand: Any, new_sizes: Sequence[int], dimensions: Any = None) -> Tensor:
    """The same elements in another shape, the axes first in the order ``dimensions``."""
    x = argument("reshape", operand)
    x = x if dimensions is None else fx.permute_dims(x, tuple(dimensions))
    return fx.reshape(x, tuple(new_sizes))


def transpose(operand: Any, permutation: Sequence[int]) -> Tensor:
    """Axes in another order."""
    return fx.permute_dims(operand, tuple(permutation))


def rev(operand: Any, dimensions: Sequence[int]) -> Tensor:
    """Elements in reverse order along axes."""
    return fx.flip(operand, axis=tuple(dimensions))


def concatenate(operands: Sequence[Any], dimension: int) -> Tensor:
    """Tensors joined along an axis."""
    return fx.concat(list(operands), axis=dimension)


def stack(arrays: Sequence[Any], axis: int = 0) -> Tensor:
    """Tensors joined along a new axis."""
    return fx.stack(list(arrays), axis=axis)


def split(operand: Any, sizes: Sequence[int], axis: int = 0) -> list[Tensor]:
    """Parts of the given sizes along an axis."""
    x, parts, start = argument("split", operand), [], 0
    for size in sizes:
        parts.append(slice_in_dim(x, start, start + size, axis=axis))
        start += size
    return parts


def squeeze(array: Any, dimensions: Sequence[int]) -> Tensor:
    """Without axes of size 1."""
    return fx.squeeze(array, axis=tuple(dimensions))


def expand_dims(array: Any, dimensions: Sequence[int]) -> Tensor:
    """With new axes of size 1, at places of the result."""
    x = argument("expand_dims", array)
    rank = x.ndim + len(tuple(dimensions))
    for d in sorted(d % rank for d in dimensions):
        x = fx.expand_dims(x, axis=d)
    return x


def collapse(operand: Any, start_dimension: int, stop_dimension: int | None = None) -> Tensor:
    """Axes ``start_dimension`` up to ``stop_dimension`` as one."""
    x = argument("collapse", operand)
    start, stop, _ = builtins.slice(start_dimension, stop_dimension).indices(x.ndim)
    return fx.reshape(x, (*x.shape[:start], math.prod(x.shape[start:stop]), *x.shape[stop:]))


def broadcast(operand: Any, sizes: Sequence[int]) -> Tensor:
    """Repeated along new leading axes."""
    x = argument("broadcast", operand)
    return fx.broadcast_to(x, (*sizes, *x.shape))


def broadcast_in_dim(
    operand: Any, shape: Sequence[int], broadcast_dimensions: Sequence[int]
) -> Tensor:
    """Repeated to a shape, of which axis ``broadcast_dimensions[i]`` is axis i of the operand."""
    x = argument("broadcast_in_dim", operand)
    sizes = [1] * len(shape)
    for i, d in enumerate(broadcast_dimensions):
        sizes[d] = x.shape[i]
    return fx.broadcast_to(fx.reshape(x, tuple(sizes)), tuple(shape))


def broadcast_to_rank(x: Any, rank: int) -> Tensor:
    """With leading axes of size 1, up to ``rank`` in all."""
    x = argument("broadcast_to_rank", x)
    return fx.reshape(x, (*[1] * (rank - x.ndim), *x.shape))


def iota(dtype: Any, size: int) -> Tensor:
    """0, 1 ... size - 1."""
    return fx.arange(size, dtype=as_dtype(dtype))


def broadcasted_iota(dtype: Any, shape: Sequence[int], dimension: int) -> Tensor:
    """The number of each element along an axis."""
    return broadcast_in_dim(iota(dtype, shape[dimension]), shape, (dimension,))


def pad(operand: Any, padding_value: Any, padding_config: Sequence[tuple[int, int, int]]) -> Tensor:
    """With elements before, behind and between along each axis; negative ones are cut off."""
    x = argument("pad", operand)
    value = argument("pad", padding_value, x).astype(x.dtype)
    for axis, (low, high, inside) in enumerate(padding_config):
        x = fx.moveaxis(x, axis, 0)
        if x.shape[0] + builtins.max(x.shape[0] - 1, 0) * inside + low + high < 0:
            raise ArgumentError(
                f"lax.pad: nothing is left of axis {axis}, of {x.shape[0]} elements"
            )
        n, rest = x.shape[0], x.shape[1:]
        if inside and n > 1:
            between = fx.broadcast_to(value, (n, inside, *rest))
            x = fx.reshape(fx.concat([x[:, None], between], axis=1), (n * (inside + 1), *rest))
            x = x[: n + (n - 1) * inside]
        ends = [fx.broadcast_to(value, (builtins.max(k, 0), *rest)) for k in (low, high)]
        x = fx.concat([ends[0], x, ends[1]], axis=0)
        start, stop = builtins.max(-low, 0), x.shape[0] - builtins.max(-high, 0)
        x = fx.moveaxis(x[start : builtins.max(start, stop)], 0, axis)
    return x


# slices -----------------------------------------------------------------------------------------


def slice(
    operand: Any, start_indices: Sequence[int], limit_indices: Sequence[int], strides: Any = None
) -> Tensor:
    """Elements from starts up to limits, by strides."""
    steps = strides or [1] * len(start_indices)
    cut = builtins.map(builtins.slice, start_indices, limit_indices, steps)
    return argument("slice", operand)[tuple(cut)]  # type: ignore[no-any-return]


def slice_in_dim(
    operand: Any, start_index: int | None, limit_index: int | None, stride: int = 1, axis: int = 0
) -> Tensor:
    """``slice`` along one axis."""
    x = argument("slice_in_dim", operand)
    cut = builtins.slice(start_index, limit_index, stride)
    return x[(builtins.slice(None),) * (axis % x.ndim) + (cut,)]  # type: ignore[no-any-return]


def index_in_dim(operand: Any, index: int, axis: int = 0, keepdims: bool = True) -> Tensor:
    """One place of an axis, which stays as 1 with ``keepdims``."""
    x = argument("index_in_dim", operand)
    index = index % x.shape[axis]
    out = slice_in_dim(x, index, index + 1, axis=axis)
    return out if keepdims else fx.squeeze(out, axis=axis)


def _places(x: Tensor, starts: Sequence[Any], sizes: Sequence[int]) -> list[Tensor]:
    """Of each axis the indices of a slice, which is moved to lie inside."""
    found = []
    for n, start, size in zip(x.shape, starts, sizes, strict=True):
        if size > n:
            raise ArgumentError(f"lax: a slice of {size} elements of an axis of {n}")
        start = argument("dynamic_slice", start, x).astype(fx.int64)
        start = fx.where(start < 0, start + n, start)
        found.append(clamp(0, start, n - size) + fx.arange(size, device=x.device))
    return found


def dynamic_slice(operand: Any, start_indices: Sequence[Any], slice_sizes: Sequence[int]) -> Tensor:
    """The slice of the given sizes that begins at indices known when it runs.

    It is moved to lie inside of the operand.

    Example:
        >>> import fx
        >>> import fx.lax
        >>> fx.lax.dynamic_slice(fx.arange(5), (fx.tensor(4),), (2,))
        tensor([3, 4])
    """
    x = argument("dynamic_slice", operand)
    for axis, places in enumerate(_places(x, list(start_indices), slice_sizes)):
        x = fx.take(x, places, axis=axis)
    return x


def dynamic_update_slice(operand: Any, update: Any, start_indices: Sequence[Any]) -> Tensor:
    """``operand`` with ``update`` in place of the slice that begins at ``start_indices``."""
    x, update = argument("dynamic_update_slice", operand), argument("dynamic_update_slice", update)
    places = _places(x, list(start_indices), update.shape)
    spread = [
        fx.reshape(p, tuple(-1 if i == axis else 1 for i in range(x.ndim)))
        for axis, p in enumerate(places)
    ]
    return x.at[tuple(spread)].set(update) if spread else update.astype(x.dtype)  # type: ignore[no-any-return]


def _along(x: Tensor, axis: int, start: Any) -> list[Any]:
    return [start if i == axis % x.ndim else 0 for i in range(x.ndim)]


def dynamic_slice_in_dim(operand: Any, start_index: Any, slice_size: int, axis: int = 0) -> Tensor:
    """``dynamic_slice`` along one axis."""
    x = argument("dynamic_slice_in_dim", operand)
    sizes = list(x.shape)
    sizes[axis] = slice_size
    return dynamic_slice(x, _along(x, axis, start_index), sizes)


def dynamic_index_in_dim(operand: Any, index: Any, axis: int = 0, keepdims: bool = True) -> Tensor:
    """One place of an axis, known when it runs."""
    out = dynamic_slice_in_dim(operand, index, 1, axis)
    return out if keepdims else fx.squeeze(out, axis=axis)


def dynamic_update_slice_in_dim(operand: Any, update: Any, start_index: Any, axis: int) -> Tensor:
    """``dynamic_update_slice`` along one axis."""
    x = argument("dynamic_update_slice_in_dim", operand)
    return dynamic_update_slice(x, update, _along(x, axis, start_index))


def dynamic_update_index_in_dim(operand: Any, update: Any, index: Any, axis: int) -> Tensor:
    """``operand`` with ``update`` at one place of an axis."""
    x, update = argument("update", operand), argument("update", update)
    update = update if update.ndim == x.ndim else fx.expand_dims(update, axis=axis)
    return dynamic_update_slice_in_dim(x, update, index, axis)


# order and sums ---------------------------------------------------------------------------------


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
    x = argument("top_k", operand)
    order = fx.argsort(x, axis=axis, descending=True, stable=True)
    order = slice_in_dim(order, 0, k, axis=axis)
    return [fx.take_along_axis(x, order, axis=axis), order.astype(fx.int32)]


def approx_max_k(operand: Any, k: int, reduction_dimension: int = -1) -> list[Tensor]:
    """``top_k`` along an axis; it is exact."""
    return top_k(operand, k, axis=reduction_dimension)


def approx_min_k(operand: Any, k: int, reduction_dimension: int = -1) -> list[Tensor]:
    """The k smallest elements along an axis, rising; it is exact."""
    values, order = top_k(-argument("approx_min_k", operand), k, axis=reduction_dimension)
    return [-values, order]


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


def _pairs(
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
    pairs = _pairs(padding, sizes, wide, window_strides)
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


# products ---------------------------------------------------------------------------------------


def dot(lhs: Any, rhs: Any) -> Tensor:
    """The product of vectors and matrices."""
    return fx.matmul(lhs, rhs)


def dot_general(
    lhs: Any, rhs: Any, dimension_numbers: Any, preferred_element_type: Any = None
) -> Tensor:
    """Products summed along axes.

    Args:
        lhs, rhs: tensors.
        dimension_numbers: ((contracted axes of lhs, of rhs), (batch axes of lhs, of rhs)).
        preferred_element_type: the dtype to compute in.

    Returns:
        The batch axes, then what is left of lhs, then of rhs.
    """
    x, y = argument("dot_general", lhs), argument("dot_general", rhs)
    if preferred_element_type is not None:
        x, y = (convert_element_type(v, preferred_element_type) for v in (x, y))
    (cx, cy), (bx, by) = [[list(side) for side in pair] for pair in dimension_numbers]
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    of_x, of_y = [next(letters) for _ in x.shape], [next(letters) for _ in y.shape]
    for i, j in [*zip(cx, cy, strict=True), *zip(bx, by, strict=True)]:
        of_y[j] = of_x[i]
    out = [of_x[i] for i in bx]
    out += [c for i, c in enumerate(of_x) if i not in (*cx, *bx)]
    out += [c for j, c in enumerate(of_y) if j not in (*cy, *by)]
    return fx.einsum(f"{''.join(of_x)},{''.join(of_y)}->{''.join(out)}", x, y)


def _layouts(numbers: Any, rank: int) -> tuple[str, str, str]:
    """Letters of lhs, rhs and the result: N, C, spatial digits; O, I."""
    digits = "".join(builtins.map(str, range(rank)))
    default = (f"NC{digits}", f"OI{digits}", f"NC{digits}")
    if numbers is None:
        return default
    left, right, out = numbers
    spatial = [c for c in right if c not in "OI"]
    put = lambda text: "".join(str(spatial.index(c)) if c in spatial else c for c in text)
    return put(left), put(right), put(out)


def conv_general_dilated(
    lhs: Any, rhs: Any, window_strides: Sequence[int], padding: Any, lhs_dilation: Any = None,
    rhs_dilation: Any = None, dimension_numbers: Any = None, feature_group_count: int = 1,
) -> Tensor:  # fmt: skip
    """A convolution of one to three spatial axes.

    Args:
        lhs, rhs: the input and the kernel, of (batch, channels, *S) and (out, in, *K) unless
            ``dimension_numbers`` tells, such as ("NHWC", "HWIO", "NHWC").
        window_strides, lhs_dilation, rhs_dilation: a number for each spatial axis.
        padding: "SAME", "SAME_LOWER", "VALID" or pairs, which may be negative.
        feature_group_count: in how many groups channels come.
    """
    x, w = argument("conv_general_dilated", lhs), argument("conv_general_dilated", rhs)
    rank = x.ndim - 2
    of_x, of_w, of_out = _layouts(dimension_numbers, rank)
    digits = "".join(builtins.map(str, range(rank)))
    x = fx.permute_dims(x, tuple(of_x.index(c) for c in f"NC{digits}"))
    w = fx.permute_dims(w, tuple(of_w.index(c) for c in f"OI{digits}"))
    ones = [1] * rank
    base, inner = list(lhs_dilation or ones), list(rhs_dilation or ones)
    sizes = [n + builtins.max(n - 1, 0) * (b - 1) for n, b in zip(x.shape[2:], base, strict=True)]
    wide = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], inner, strict=True)]
    pairs = _pairs(padding, sizes, wide, window_strides)
    edges = [(*p, b - 1) for p, b in zip(pairs, base, strict=True)]
    x = pad(x, 0, [(0, 0, 0), (0, 0, 0), *edges])
    function = getattr(fx.nn.functional, f"conv{rank}d")
    out = function(x, w, None, tuple(window_strides), 0, tuple(inner), feature_group_count)
    return fx.permute_dims(out, tuple(f"NC{digits}".index(c) for c in of_out))


def conv(lhs: Any, rhs: Any, window_strides: Sequence[int], padding: Any) -> Tensor:
    """``conv_general_dilated`` without dilations."""
    return conv_general_dilated(lhs, rhs, window_strides, padding)


def conv_with_general_padding(
    lhs: Any, rhs: Any, window_strides: Sequence[int], padding: Any, lhs_dilation: Any,
    rhs_dilation: Any,
) -> Tensor:  # fmt: skip
    """``conv_general_dilated`` of the usual layouts."""
    return conv_general_dilated(lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation)


def conv_transpose(
    lhs: Any, rhs: Any, strides: Sequence[int], padding: Any, rhs_dilation: Any = None,
    dimension_numbers: Any = None,
) -> Tensor:  # fmt: skip
    """The convolution with the input spread by ``strides``.

    The layouts are (batch, *S, channels) and (*K, in, out) unless ``dimension_numbers`` tells.
    """
    x, w = argument("conv_transpose", lhs), argument("conv_transpose", rhs)
    rank = x.ndim - 2
    digits = "".join(builtins.map(str, range(rank)))
    numbers = dimension_numbers or (f"N{digits}C", f"{digits}IO", f"N{digits}C")
    of_w = _layouts(numbers, rank)[1]
    inner = list(rhs_dilation or [1] * rank)
    if isinstance(padding, str):
        pairs = []
        for i, (s, d) in enumerate(zip(strides, inner, strict=True)):
            k = (w.shape[of_w.index(str(i))] - 1) * d + 1
            total = k + s - 2
            if padding.upper() == "SAME":
                low = k - 1 if s > k - 1 else -(-total // 2)
            else:
                low, total = k - 1, total + builtins.max(k - s, 0)
            pairs.append((low, total - low))
        padding = pairs
    return conv_general_dilated(x, w, [1] * rank, padding, list(strides), inner, numbers)


def fft(x: Any, fft_type: Any, fft_lengths: Sequence[int]) -> Tensor:
    """The transform FFT, IFFT, RFFT or IRFFT along as many last axes as there are lengths."""
    kind = str(getattr(fft_type, "name", fft_type)).rpartition(".")[2].lower()
    if kind not in ("fft", "ifft", "rfft", "irfft"):
        raise ArgumentError(f"lax.fft: the type is FFT, IFFT, RFFT or IRFFT, got {fft_type!r}")
    axes = tuple(range(-len(fft_lengths), 0))
    return getattr(fx.fft, f"{kind}n")(x, s=tuple(fft_lengths), axes=axes)  # type: ignore[no-any-return]


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise AttributeError(
        f"fx has no lax.{name}; dir(fx.lax) lists what there is. For gather and scatter write x[i] "
        f"and x.at[i].add(v)"
    )
