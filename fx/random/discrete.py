"""Samplers of integers and truth values: bits, bernoulli, randint, categorical."""

from __future__ import annotations

from math import ceil, prod
from typing import Any

import fx.prims.compare as compare
import fx.prims.draws as draws
import fx.prims.elementwise as elementwise
import fx.prims.reduction as reduction
import fx.prims.shape as shape_prims
import fx.prims.sorting as sorting
from fx import dtypes
from fx.errors import DTypeError, ShapeError
from fx.ops.axes import normal_axis
from fx.ops.operands import SCALARS, argument, cast, floating
from fx.prims.creation import constant, constant_like
from fx.prims.fused import fuse
from fx.prims.random import random_bits
from fx.quick import quick
from fx.random.arguments import Rows, Shape, is_high, joint_shape, other_names, parameter
from fx.random.continuous import gumbel
from fx.random.keys import as_key, sample_shape, wide_words
from fx.tensor import Tensor

_UNSIGNED = {1: dtypes.uint8, 2: dtypes.uint16, 4: dtypes.uint32, 8: dtypes.uint64}


def bits(key: Tensor, shape: Shape = (), dtype: Any = None) -> Tensor:
    """Uniform random bits.

    Args:
        key: uint32 (6,).
        shape: the shape of the words.
        dtype: uint8, uint16, uint32 (unless told) or uint64.

    Raises:
        DTypeError: if ``dtype`` is another, or ``key`` is no key.

    Example:
        >>> import fx
        >>> fx.random.bits(fx.random.key(0), 2, fx.uint8)
        tensor([203,  80], dtype=fx.uint8)
    """
    key = as_key("bits", key)
    wanted = dtypes.uint32 if dtype is None else dtypes.as_dtype(dtype)
    if wanted not in dtypes.UNSIGNED:
        raise DTypeError(
            f"bits: the dtype must be unsigned, got {wanted.name}; write dtype=fx.uint32, or use "
            f"fx.random.randint"
        )
    shape = sample_shape("bits", shape)
    if wanted == dtypes.uint64:
        return wide_words(key, shape)
    words = random_bits(key, shape=shape)
    if wanted == dtypes.uint32:
        return words
    unused = constant(32 - 8 * wanted.itemsize, dtypes.uint32, key.device.name)
    return cast(compare.right_shift(words, unused), wanted)


def bernoulli(key: Tensor, p: Any = 0.5, shape: Shape | None = None, mode: str = "low") -> Tensor:
    """True with probability ``p``, in steps of 2 ** -32.

    Args:
        key: uint32 (6,).
        p: a probability, or a tensor of them that broadcasts to ``shape``.
        shape: the shape of the samples; None takes that of ``p``.
        mode: ``"high"`` takes steps of 2 ** -64, for rarer events.

    Returns:
        bool, ``shape``.

    Raises:
        ValueError: if a Python number ``p`` lies outside [0, 1], or ``mode`` is another.
        DTypeError, ShapeError: if ``key`` is no key, or ``p`` does not fit.

    Example:
        >>> import fx
        >>> fx.random.bernoulli(fx.random.key(0), 0.5, 4)
        tensor([False,  True, False, False])
    """
    key = as_key("bernoulli", key)
    shape = joint_shape("bernoulli", shape, p)
    high = mode != "low" and is_high("bernoulli", mode)
    if type(p) in SCALARS and not 0 <= p <= 1:
        raise ValueError(f"bernoulli: p must be a probability in [0, 1], got {p}")
    if type(p) in SCALARS and not high:
        return within(random_bits(key, shape=shape), p)
    words = wide_words(key, shape) if high else random_bits(key, shape=shape)
    chances = parameter("bernoulli", p, dtypes.float64, key.device.name)
    limits = elementwise.multiply(chances, constant_like(2.0**64 if high else 2.0**32, chances))
    below = compare.less(cast(words, dtypes.float64), limits)
    if not high:
        return below
    # words near 2 ** 64 are rounded to it
    return compare.logical_or(below, compare.greater_equal(chances, constant_like(1.0, chances)))


def within(words: Tensor, p: float) -> Tensor:
    """Which uniform words lie in the lower share ``p`` of them."""
    limit = ceil(p * 2**32)
    if limit == 1 << 32:
        return compare.less_equal(words, constant_like(limit - 1, words))
    return _less(words, constant_like(limit, words))  # type: ignore[no-any-return]


_less = quick(compare.less, tensors=2)


def randint(
    key: Tensor, shape: Shape | None, low: Any = None, high: Any = None, dtype: Any = None, *,
    minval: Any = None, maxval: Any = None,
) -> Tensor:  # fmt: skip
    """Uniform integers in [low, high).

    A word w of 64 bits (of 128 where the span is above 2 ** 32 or unknown) is scaled to
    floor(w * span / 2 ** bits). No rejection, so the number of words is fixed; the probability of a
    value is off by less than 2 ** -32 of itself (2 ** -64 with 128 bits).

    Args:
        key: uint32 (6,).
        shape: the shape of the samples; None takes that of ``low`` and ``high``.
        low, high: ints, or integer tensors that broadcast to ``shape``; low < high.
        dtype: an integer dtype that holds low and high - 1; int64 unless told.
        minval, maxval: JAX's names of ``low`` and ``high``.

    Raises:
        TypeError: if a bound is missing, or was given twice.
        ValueError: if ints low and high give an empty range or one that ``dtype`` cannot hold.
        DTypeError, ShapeError: if ``key`` is no key, or shapes or dtypes do not fit.

    Example:
        >>> import fx
        >>> fx.random.randint(fx.random.key(0), 5, 1, 7)
        tensor([5, 2, 6, 4, 3])
    """
    key = as_key("randint", key)
    if low is None or high is None or minval is not None or maxval is not None:
        low, high = other_names("randint", low, high, minval, maxval)
    wanted = dtypes.int64 if dtype is None else dtypes.as_dtype(dtype)
    if wanted not in dtypes.INTEGRAL:
        raise DTypeError(
            f"randint: the dtype must be an integer one, got {wanted.name}; write dtype=fx.int64"
        )
    if isinstance(low, int) and isinstance(high, int):
        shape = () if shape is None else sample_shape("randint", shape)
        _check_range(low, high, wanted)
        return _integers(key, shape=shape, low=low, high=high, dtype=wanted)  # type: ignore[no-any-return]
    shape = joint_shape("randint", shape, low, high)
    device = key.device.name
    start = _unsigned("randint", low, device)
    span = elementwise.subtract(_unsigned("randint", high, device), start)
    value = draws.random_below(key, span, planes=4, shape=shape)
    return cast(elementwise.add(value, start), wanted)  # modulo 2 ** 64, so signs come out right


def _integers_reference(
    key: Tensor, *, shape: tuple[int, ...], low: int, high: int, dtype: Any
) -> Tensor:
    device = key.device.name
    span = constant((high - low) % (1 << 64), dtypes.uint64, device)
    start = constant(low % (1 << 64), dtypes.uint64, device)
    planes = 2 if high - low <= 1 << 32 else 4
    value = draws.random_below(key, span, planes=planes, shape=shape)
    return cast(elementwise.add(value, start), dtype)


_integers = fuse("random_integers", reference=_integers_reference)


def _check_range(low: int, high: int, dtype: Any) -> None:
    if low >= high:
        raise ValueError(f"randint: low must be less than high, got low={low}, high={high}")
    size = 8 * dtype.itemsize
    least, most = (-(1 << size - 1), 1 << size - 1) if dtype.kind == "i" else (0, 1 << size)
    if low < least or high > most:
        raise ValueError(
            f"randint: {dtype.name} does not hold all of [{low}, {high}); write dtype=fx.int64"
        )


def _unsigned(name: str, value: Any, device: str) -> Tensor:
    if isinstance(value, int):
        return constant(value % (1 << 64), dtypes.uint64, device)
    x = argument(name, value)
    if x._dtype not in dtypes.INTEGRAL:
        raise DTypeError(
            f"{name}: low and high must be integers, got {x.dtype.name}; "
            f"write x.astype(fx.int64), or use fx.random.uniform"
        )
    return cast(x, dtypes.uint64)


def categorical(
    key: Tensor, logits: Any, axis: int = -1, shape: Shape | None = None, replace: bool = True,
    mode: str | None = None,
) -> Tensor:  # fmt: skip
    """Indices drawn with probability softmax(logits), by the Gumbel-max method.

    Args:
        key: uint32 (6,).
        logits: floating (*A, n, *B) with n at ``axis``: logarithms of weights, -inf for never.
        axis: the axis of the classes.
        shape: the shape of the samples, to which (*A, *B) broadcasts; None is (*A, *B).
        replace: whether an index may come again. Without replacement ``shape`` is (*S, *A, *B),
            and the indices along the axes S of a row differ: they are the first of successive draws
            among what is left, the places of the largest of the row's logits with Gumbel noise.
        mode: as of ``gumbel``.

    Returns:
        int64, ``shape``.

    Raises:
        AxisError: if ``logits`` has no such axis.
        DTypeError, ShapeError: if ``key`` is no key, or ``shape`` does not fit.
        ValueError: if there are fewer classes than are to be drawn without replacement.

    Source: Kool, van Hoof and Welling, "Stochastic beams and where to find them", ICML 2019.

    Example:
        >>> import fx
        >>> logits = fx.tensor([2.0, 1.0, -float("inf")])
        >>> fx.random.categorical(fx.random.key(0), logits, shape=6)
        tensor([0, 0, 1, 1, 1, 0])
        >>> fx.random.categorical(fx.random.key(0), fx.zeros(4), shape=3, replace=False).shape
        (3,)
    """
    key = as_key("categorical", key)
    logits = floating("categorical", logits)
    high = mode is not None and is_high("categorical", mode)
    axis = normal_axis("categorical", axis, logits._shape)
    n = logits._shape[axis]
    if n == 0:
        raise ValueError(f"categorical: no class to draw from in logits of shape {logits.shape}")
    order = (*[i for i in range(logits.ndim) if i != axis], axis)
    rows = shape_prims.transposed(logits, order)  # (*A, *B, n)
    batch = rows.shape[:-1]
    wanted = joint_shape("categorical", shape, Rows(batch))
    if not replace:
        return _without_replacement(key, rows, wanted, high)
    noise = _noise(key, (*wanted, n), rows._dtype, high)
    return reduction.argmax(elementwise.add(noise, rows), axis=len(wanted), keepdims=False)


def _noise(key: Tensor, shape: tuple[int, ...], dtype: Any, high: bool) -> Tensor:
    if high:
        return gumbel(key, shape, dtype, "high")
    return draws.random_draw(key, family="gumbel", shape=shape, dtype=dtype)


def _without_replacement(key: Tensor, rows: Tensor, shape: tuple[int, ...], high: bool) -> Tensor:
    """Different classes of each row (*R, n), along the first axes of ``shape`` (*S, *R)."""
    *batch, n = rows.shape
    lead = shape[: len(shape) - len(batch)]
    count = prod(lead)
    if shape[len(lead) :] != tuple(batch):
        raise ShapeError(
            f"categorical: without replacement the shape ends with that of the logits' rows, "
            f"{tuple(batch)}, got {shape}; broadcast the logits first"
        )
    if count > n:
        raise ValueError(f"categorical: cannot draw {count} of {n} classes without replacement")
    noisy = elementwise.add(_noise(key, rows.shape, rows.dtype, high), rows)
    found = sorting.top_k_indices(noisy, k=count, axis=len(batch), largest=True)  # (*R, count)
    front = shape_prims.transposed(found, (len(batch), *range(len(batch))))
    return shape_prims.reshaped(front, shape)
