"""Samplers of counts and signs: poisson, binomial, multinomial, geometric, rademacher."""

from __future__ import annotations

from typing import Any

import fx.prims.compare as compare
import fx.prims.draws as draws
import fx.prims.elementary as elementary
import fx.prims.elementwise as elementwise
import fx.prims.shape as shape_prims
from fx import dtypes
from fx.errors import DTypeError, ShapeError
from fx.ops.operands import SCALARS, floating
from fx.prims.creation import constant, constant_like
from fx.random.arguments import Rows, Shape, floating_dtype, joint_shape, parameter
from fx.random.discrete import bernoulli
from fx.random.keys import as_key
from fx.tensor import Tensor


def _dtype_of_counts(name: str, dtype: Any, default: Any) -> Any:
    wanted = default if dtype is None else dtypes.as_dtype(dtype)
    if wanted not in dtypes.INTEGRAL and wanted not in dtypes.FLOATING:
        raise DTypeError(f"{name}: {wanted.name} cannot hold counts; write dtype=fx.int64")
    return wanted


def poisson(key: Tensor, lam: Any, shape: Shape | None = None, dtype: Any = None) -> Tensor:
    """Poisson samples of rate ``lam``: inversion below 10, transformed rejection (PTRS) above.

    Args:
        key: uint32 (6,).
        lam: a number >= 0 or a floating tensor that broadcasts to ``shape``. A rate that is
            negative, infinite or NaN gives NaN. In an integer dtype it gives -1, and so does a
            count that the dtype does not hold.
        shape: the shape of the samples; None takes that of ``lam``.
        dtype: an integer or floating dtype; int64 unless told.

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
    wanted = _dtype_of_counts("poisson", dtype, dtypes.int64)
    shape = joint_shape("poisson", shape, lam)
    if type(lam) in SCALARS:
        rate = constant(float(lam), dtypes.float64, key.device.name)
    else:
        rate = floating("poisson", lam)
    return draws.random_poisson(key, rate, shape=shape, dtype=wanted)


def binomial(key: Tensor, n: Any, p: Any, shape: Shape | None = None, dtype: Any = None) -> Tensor:
    """How many of ``n`` trials succeed that do so with probability ``p`` each.

    Inversion where successes (or failures) are fewer than 10 on average, transformed rejection
    (BTRS) above; computed in float64, and in the same time for any ``n``.

    Args:
        key: uint32 (6,).
        n: numbers of trials >= 0, rounded down; infinitely many give inf.
        p: probabilities in [0, 1]; numbers or tensors, both broadcast to ``shape``. A parameter
            that is none, or NaN, gives NaN. In an integer dtype it gives -1, and so does a count
            that the dtype does not hold. No derivative passes through.
        shape: the shape of the samples; None takes that of ``n`` and ``p``.
        dtype: a floating or integer dtype; the default dtype, or that of floating tensors ``n`` and
            ``p``. float32 holds every count up to 2 ** 24.

    Raises:
        DTypeError, ShapeError: if ``key`` is no key, or shapes or dtypes do not fit.

    Source: Hoermann, "The generation of binomial random variates", Journal of Statistical
    Computation and Simulation 46 (1993).

    Example:
        >>> import fx
        >>> fx.random.binomial(fx.random.key(0), 10, 0.5, (4,), fx.int64)
        tensor([6, 4, 5, 3])
    """
    key = as_key("binomial", key)
    default = floating_dtype("binomial", None, (n, p))
    wanted = _dtype_of_counts("binomial", dtype, default)
    shape = joint_shape("binomial", shape, n, p)
    device = key.device.name
    trials = parameter("binomial", n, dtypes.float64, device)
    chances = parameter("binomial", p, dtypes.float64, device)
    return draws.random_binomial(key, trials, chances, shape=shape, dtype=wanted)


def multinomial(
    key: Tensor, n: Any, p: Any, *, shape: Shape | None = None, dtype: Any = None, unroll: Any = 1
) -> Tensor:
    """How often each class comes in ``n`` draws, with the probabilities ``p`` of a draw.

    Each class takes its binomial share of what the classes before it left.

    Args:
        key: uint32 (6,).
        n: (*B), numbers of draws, finite and >= 0.
        p: (*B, classes), weights >= 0 of the classes; what they sum to does not count. Invalid
            numbers, or weights that are all 0, give NaN (-1 in an integer dtype) for all classes.
        shape: the shape of the samples without the classes, as of ``dirichlet``, to which both (*B)
            broadcast; None is their joint shape.
        dtype: as of ``binomial``.
        unroll: without effect; JAX's classes are the steps of a loop.

    Returns:
        (*shape, classes), whose last axis sums to ``n``.

    Raises:
        ShapeError: if ``p`` has no axis, or ``shape`` does not fit.
        DTypeError: if ``key`` is no key, or the dtype cannot hold counts.

    Example:
        >>> import fx
        >>> p = fx.tensor([0.2, 0.3, 0.5])
        >>> fx.random.multinomial(fx.random.key(0), 100, p, shape=(2,), dtype=fx.int64)
        tensor([[18, 28, 54],
                [21, 31, 48]])
    """
    key = as_key("multinomial", key)
    default = floating_dtype("multinomial", None, (n, p))
    wanted = _dtype_of_counts("multinomial", dtype, default)
    device = key.device.name
    trials = parameter("multinomial", n, dtypes.float64, device)
    weights = parameter("multinomial", p, dtypes.float64, device)
    if not weights.ndim:
        raise ShapeError(
            "multinomial: p needs an axis of classes, got a scalar; write "
            "fx.random.binomial(key, n, p)"
        )
    shape = joint_shape("multinomial", shape, Rows(trials.shape), Rows(weights.shape[:-1]))
    trials = shape_prims.reshaped(trials, (*trials.shape, 1))
    whole = (*shape, weights.shape[-1])
    return draws.random_multinomial(key, trials, weights, shape=whole, dtype=wanted)


def geometric(key: Tensor, p: Any, shape: Shape | None = None, dtype: Any = None) -> Tensor:
    """The number of the first trial that succeeds, of trials with probability ``p`` each: 1, 2, ...

    Args:
        key: uint32 (6,).
        p: probabilities, a number or a tensor that broadcasts to ``shape``. 0 gives inf, one
            outside [0, 1] or NaN gives NaN. In an integer dtype both give -1, and so does a number
            that the dtype does not hold.
        shape: the shape of the samples; None takes that of ``p``.
        dtype: an integer or floating dtype; int64 unless told.

    Raises:
        DTypeError, ShapeError: if ``key`` is no key, or shapes or dtypes do not fit.

    Example:
        >>> import fx
        >>> fx.random.geometric(fx.random.key(0), 0.2, (6,))
        tensor([2, 6, 1, 3, 5, 7])
    """
    key = as_key("geometric", key)
    wanted = _dtype_of_counts("geometric", dtype, dtypes.int64)
    shape = joint_shape("geometric", shape, p)
    chance = parameter("geometric", p, dtypes.float64, key.device.name)
    e = draws.random_draw(key, family="exponential", shape=shape, dtype=dtypes.float64)
    rate = elementwise.negative(elementary.log1p(elementwise.negative(chance)))
    one, none = constant_like(1.0, e), constant_like(0.0, chance)
    trials = elementwise.maximum(elementwise.ceil(elementwise.divide(e, rate)), one)
    valid = compare.greater_equal(chance, none)  # above 1 the logarithm is NaN
    trials = compare.where(valid, trials, constant_like(float("nan"), trials))
    return draws.counts_in(trials, wanted)


def rademacher(key: Tensor, shape: Shape = (), dtype: Any = None) -> Tensor:
    """-1 or 1, both as likely.

    Args:
        key: uint32 (6,).
        shape: the shape of the samples.
        dtype: any that holds -1; int64 unless told.

    Raises:
        DTypeError, ShapeError: if ``key`` is no key, or shape or dtype is none.

    Example:
        >>> import fx
        >>> fx.random.rademacher(fx.random.key(0), 5)
        tensor([-1,  1, -1, -1,  1])
    """
    wanted = dtypes.int64 if dtype is None else dtypes.as_dtype(dtype)
    if wanted == dtypes.bool_ or wanted in dtypes.UNSIGNED:
        raise DTypeError(f"rademacher: {wanted.name} cannot hold -1; write dtype=fx.int8")
    up = bernoulli(as_key("rademacher", key), 0.5, shape)
    one = constant(1, wanted, up.device.name)
    return compare.where(up, one, constant(-1, wanted, up.device.name))
