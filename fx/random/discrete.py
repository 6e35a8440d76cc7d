"""Samplers of integers and truth values: bits, bernoulli, randint, categorical, poisson."""

from __future__ import annotations

from math import ceil
from typing import Any

import fx.prims.compare as compare
import fx.prims.draws as draws
import fx.prims.elementwise as elementwise
import fx.prims.reduction as reduction
import fx.prims.shape as shape_prims
from fx import dtypes
from fx.errors import DTypeError
from fx.ops.axes import normal_axis
from fx.ops.operands import SCALARS, argument, cast, floating
from fx.prims.creation import constant, constant_like
from fx.prims.fused import fuse
from fx.prims.random import random_bits
from fx.quick import quick
from fx.random.continuous import Shape, joint_shape
from fx.random.keys import as_key, sample_shape, wide_words
from fx.tensor import Tensor

_UNSIGNED = {1: dtypes.uint8, 2: dtypes.uint16, 4: dtypes.uint32, 8: dtypes.uint64}


def bits(key: Tensor, shape: Shape = (), dtype: Any = dtypes.uint32) -> Tensor:
    """Uniform random bits.

    Args:
        key: uint32 (6,).
        shape: the shape of the words.
        dtype: uint8, uint16, uint32 or uint64.

    Raises:
        DTypeError: if ``dtype`` is another, or ``key`` is no key.

    Example:
        >>> import fx
        >>> fx.random.bits(fx.random.key(0), 2, fx.uint8)
        tensor([203,  80], dtype=fx.uint8)
    """
    key = as_key("bits", key)
    wanted = dtypes.as_dtype(dtype)
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


def bernoulli(key: Tensor, p: Any = 0.5, shape: Shape | None = None) -> Tensor:
    """True with probability ``p``, in steps of 2 ** -32.

    Args:
        key: uint32 (6,).
        p: a probability, or a tensor of them that broadcasts to ``shape``.
        shape: the shape of the samples; None takes that of ``p``.

    Returns:
        bool, ``shape``.

    Raises:
        ValueError: if a Python number ``p`` lies outside [0, 1].
        DTypeError, ShapeError: if ``key`` is no key, or ``p`` does not fit.

    Example:
        >>> import fx
        >>> fx.random.bernoulli(fx.random.key(0), 0.5, 4)
        tensor([False,  True, False, False])
    """
    key = as_key("bernoulli", key)
    shape = joint_shape("bernoulli", shape, p)
    words = random_bits(key, shape=shape)
    if type(p) in SCALARS:
        if not 0 <= p <= 1:
            raise ValueError(f"bernoulli: p must be a probability in [0, 1], got {p}")
        return within(words, p)
    chances = cast(argument("bernoulli", p), dtypes.float64)
    limits = elementwise.multiply(chances, constant_like(2.0**32, chances))
    return compare.less(cast(words, dtypes.float64), limits)


def within(words: Tensor, p: float) -> Tensor:
    """Which uniform words lie in the lower share ``p`` of them."""
    limit = ceil(p * 2**32)
    if limit == 1 << 32:
        return compare.less_equal(words, constant_like(limit - 1, words))
    return _less(words, constant_like(limit, words))  # type: ignore[no-any-return]


_less = quick(compare.less, tensors=2)


def randint(
    key: Tensor, shape: Shape | None, low: Any, high: Any, dtype: Any = dtypes.int64
) -> Tensor:
    """Uniform integers in [low, high).

    A word w of 64 bits (of 128 where the span is above 2 ** 32 or unknown) is scaled to
    floor(w * span / 2 ** bits). No rejection, so the number of words is fixed; the probability of a
    value is off by less than 2 ** -32 of itself (2 ** -64 with 128 bits).

    Args:
        key: uint32 (6,).
        shape: the shape of the samples; None takes that of ``low`` and ``high``.
        low, high: ints, or integer tensors that broadcast to ``shape``; low < high.
        dtype: an integer dtype that holds low and high - 1.

    Raises:
        ValueError: if ints low and high give an empty range or one that ``dtype`` cannot hold.
        DTypeError, ShapeError: if ``key`` is no key, or shapes or dtypes do not fit.

    Example:
        >>> import fx
        >>> fx.random.randint(fx.random.key(0), 5, 1, 7)
        tensor([5, 2, 6, 4, 3])
    """
    key = as_key("randint", key)
    wanted = dtypes.as_dtype(dtype)
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


def categorical(key: Tensor, logits: Any, axis: int = -1, shape: Shape | None = None) -> Tensor:
    """Indices drawn with probability softmax(logits), by the Gumbel-max method.

    Args:
        key: uint32 (6,).
        logits: floating (*A, n, *B) with n at ``axis``: logarithms of weights, -inf for never.
        axis: the axis of the classes.
        shape: the shape of the samples, to which (*A, *B) broadcasts; None is (*A, *B).

    Returns:
        int64, ``shape``.

    Raises:
        AxisError: if ``logits`` has no such axis.
        DTypeError, ShapeError: if ``key`` is no key, or ``shape`` does not fit.

    Example:
        >>> import fx
        >>> logits = fx.tensor([2.0, 1.0, -float("inf")])
        >>> fx.random.categorical(fx.random.key(0), logits, shape=6)
        tensor([0, 0, 1, 1, 1, 0])
    """
    key = as_key("categorical", key)
    logits = floating("categorical", logits)
    axis = normal_axis("categorical", axis, logits._shape)
    n = logits._shape[axis]
    if n == 0:
        raise ValueError(f"categorical: no class to draw from in logits of shape {logits.shape}")
    order = (*[i for i in range(logits.ndim) if i != axis], axis)
    rows = shape_prims.transposed(logits, order)  # (*A, *B, n)
    wanted = joint_shape("categorical", shape, _Rows(rows.shape[:-1]))
    noise = draws.random_draw(key, family="gumbel", shape=(*wanted, n), dtype=rows.dtype)
    return reduction.argmax(elementwise.add(noise, rows), axis=len(wanted), keepdims=False)


class _Rows:
    """Something with a shape, for ``joint_shape``."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape


def poisson(key: Tensor, lam: Any, shape: Shape | None = None, dtype: Any = dtypes.int64) -> Tensor:
    """Poisson samples of rate ``lam``: inversion below 10, transformed rejection (PTRS) above.

    Args:
        key: uint32 (6,).
        lam: a number >= 0 or a floating tensor that broadcasts to ``shape``. A rate that is
            negative, infinite or NaN gives NaN. In an integer dtype it gives -1, and so does a
            count that the dtype does not hold.
        shape: the shape of the samples; None takes that of ``lam``.
        dtype: an integer or floating dtype.

    Raises:
        DTypeError, ShapeError: if ``key`` is no key, or shapes or dtypes do not fit.

    Source: Hoermann, "The transformed rejection method for generating Poisson random variables",
    Insurance: Mathematics and Economics 12 (1993).

    Example:
        >>> import fx
        >>> fx.random.poisson(fx.random.key(0), 3.0, 5)
        tensor([4, 2, 3, 1, 2])
    """
    key = as_key("poisson", key)
    wanted = dtypes.as_dtype(dtype)
    if wanted not in dtypes.INTEGRAL and wanted not in dtypes.FLOATING:
        raise DTypeError(f"poisson: {wanted.name} cannot hold counts; write dtype=fx.int64")
    shape = joint_shape("poisson", shape, lam)
    if type(lam) in SCALARS:
        rate = constant(float(lam), dtypes.float64, key.device.name)
    else:
        rate = floating("poisson", lam)
    return draws.random_poisson(key, rate, shape=shape, dtype=wanted)
