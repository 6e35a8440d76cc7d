"""Draws in PyTorch's words whose parameters are tensors: each element has its own distribution."""

from __future__ import annotations

from math import inf
from typing import Any

from numpy import maximum, minimum, ndarray

import fx.prims.compare as compare
import fx.prims.draws as draws
import fx.prims.reduction as reduction
from fx import dtypes
from fx.errors import DTypeError, ShapeError
from fx.ops.making.interop import with_grad
from fx.ops.operands import SCALARS, argument, cast, floating
from fx.prims.creation import constant_like
from fx.random import continuous, discrete, order
from fx.random.arguments import floating_dtype, joint_shape
from fx.random.generator import Generator, _current, next_key
from fx.random.stateful import drawn, standard
from fx.tensor import Tensor


def bernoulli(input: Any, p: float | None = None, *, generator: Generator | None = None) -> Tensor:
    """1 with the probability that ``input`` holds (or with probability ``p``), else 0.

    Args:
        input: floating probabilities; with ``p`` only its shape and dtype count.
        p: one probability for all elements.
        generator: the generator to draw from; None is the current one.

    Returns:
        the shape and dtype of ``input``. No derivative passes through.

    Raises:
        ValueError: if a probability lies outside [0, 1].

    Example:
        >>> import fx
        >>> _ = fx.manual_seed(0)
        >>> fx.bernoulli(fx.full((4,), 0.5))
        tensor([0., 1., 0., 0.])
    """
    x = argument("bernoulli", input)
    if p is None and generator is None and type(x) is Tensor and type(x._a) is ndarray:
        out = _current.generator.draw("chances", x._shape, x._dtype, (x._a,))
        if out is not None:
            return out
    if p is None and x._dtype not in dtypes.FLOATING:
        raise DTypeError(
            f"bernoulli takes floating probabilities, got {x.dtype.name}; "
            f"write x.astype(fx.float32)"
        )
    chance: Any = x if p is None else p
    if p is None:
        _check(x, "bernoulli: probabilities must lie in [0, 1]", upper=True)
    mask = discrete.bernoulli(next_key(generator, x.device), chance, x._shape)
    return cast(mask, x._dtype)


def mask(p: float, shape: tuple[int, ...], device: Any) -> Tensor:
    """True with probability ``p``, by the current generator: what dropout keeps."""
    if device.name == "cpu" and 0 <= p <= 1:
        words = _current.generator.draw("bits", shape, dtypes.uint32)
        if words is not None:
            return discrete.within(words, p)
    return discrete.bernoulli(next_key(device=device), p, shape)


def _check(x: Tensor, words: str, upper: bool = False) -> None:
    """Refuse a tensor with an element below 0 (or above 1), where its values can be seen.

    Raises:
        ValueError: saying ``words``.
    """
    right = compare.greater_equal(x, constant_like(0, x))
    if upper:
        right = compare.logical_and(right, compare.less_equal(x, constant_like(1, x)))
    _require(right, x, words, ValueError)


def _require(right: Tensor, x: Tensor, words: str, error: type[Exception] = RuntimeError) -> None:
    """Refuse a tensor where ``right`` is false of an element, if its values can be seen."""
    if type(x) is not Tensor or x.device.name == "meta":
        return
    if not reduction.all(right, axes=tuple(range(right.ndim)), keepdims=False)._a:
        raise error(f"{words}; got {x!r:.200}")


def multinomial(
    input: Any,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """Indices drawn by weight from each row.

    Args:
        input: (n) or (rows, n) weights >= 0, which need not sum to 1.
        num_samples: how many to draw from each row.
        replacement: whether an index may be drawn again.
        generator: the generator to draw from; None is the current one.

    Returns:
        int64 (num_samples) or (rows, num_samples).

    Raises:
        ShapeError: if ``input`` has another number of axes.
        DTypeError: for integers.
        RuntimeError: for a negative or infinite weight, a row without weight, no samples, or more
            without replacement than there are weights.

    Example:
        >>> import fx
        >>> fx.multinomial(fx.tensor([0.0, 0.0, 2.0]), 3, replacement=True)
        tensor([2, 2, 2])
    """
    x = argument("multinomial", input)
    if x._dtype not in dtypes.FLOATING:
        raise DTypeError(
            f"multinomial only supports floating-point dtypes for input, got: {x._dtype}; "
            f"write weights.float()"
        )
    if x.ndim not in (1, 2):
        raise ShapeError(f"multinomial takes weights (n) or (rows, n), got shape {x.shape}")
    n = x._shape[-1]
    if num_samples < 1:
        raise RuntimeError(f"multinomial: cannot sample n_sample <= 0 samples, got {num_samples}")
    if (n < num_samples and not replacement) or n == 0:
        raise RuntimeError(
            f"multinomial: cannot sample n_sample > prob_dist.size(-1) samples without "
            f"replacement, got {num_samples} of {n}"
        )
    _require_weights(x)
    if x._dtype.itemsize == 2:
        x = cast(x, dtypes.float32)
    if replacement and generator is None and type(x) is Tensor and type(x._a) is ndarray:
        shape = (*x._shape[:-1], num_samples)
        u = _current.generator.draw("uniform", shape, dtypes.float64)
        if u is not None:
            return order.at_shares(x, u)
    return order.weighted(next_key(generator, x.device), x, num_samples, replacement)


_FEW = 64  # numbers whose extremes Python finds sooner than NumPy


def _require_weights(x: Tensor) -> None:
    """Refuse rows of weights of which one is negative or not finite, or that have no weight."""
    array = x._a if type(x) is Tensor else None
    if type(array) is ndarray and array.dtype.kind == "f" and array.size:
        largest = maximum.reduce(array, -1)
        if largest.size > _FEW:
            low, high = largest.min(), largest.max()
        else:
            each = [largest.item()] if array.ndim == 1 else largest.tolist()
            low, high = min(each), max(each)
        if minimum.reduce(array, None) >= 0 and low > 0 and high < inf:  # all false of NaN
            return
    finite = compare.logical_and(compare.isfinite(x), compare.greater_equal(x, constant_like(0, x)))
    _require(
        finite, x, "multinomial: probability tensor contains either `inf`, `nan` or element < 0"
    )
    _require(
        reduction.max(x, axes=(x.ndim - 1,), keepdims=False) > 0, x,
        "multinomial: invalid multinomial distribution (sum of probabilities <= 0)",
    )  # fmt: skip


_standard = drawn("normal", "normal")


def normal(
    mean: Any = 0.0, std: Any = 1.0, size: Any = None, *, generator: Generator | None = None,
    dtype: Any = None, device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Normal samples with the given means and standard deviations.

    Args:
        mean, std: numbers, or tensors that broadcast together; derivatives pass through them.
        size: the shape, needed where both are numbers.
        generator: the generator to draw from; None is the current one.
        dtype: that of the tensors, else the default dtype.
        device: that of the tensors, else the default device.
        requires_grad: whether ``.backward()`` accumulates a gradient for it.

    Raises:
        TypeError: if both are numbers and ``size`` is missing.
        ValueError: if a number ``std`` is negative.

    Example:
        >>> import fx
        >>> _ = fx.manual_seed(0)
        >>> fx.normal(fx.tensor([0.0, 100.0]), 1.0).shape
        (2,)
    """
    numbers = type(mean) in SCALARS and type(std) in SCALARS
    if numbers and size is None:
        raise TypeError(
            "normal: with numbers as mean and std say the size: fx.normal(0, 1, (2, 3))"
        )
    if type(std) in SCALARS and std < 0:
        raise ValueError(f"normal: std must not be negative, got {std}")
    if not numbers and device is None:
        device = next((x.device for x in (mean, std) if isinstance(x, Tensor)), None)
    if numbers and dtype is None and device is None and generator is None:
        z = _standard((size,), None, None, False)
    else:
        shape = joint_shape("normal", size, mean, std)
        wanted = floating_dtype("normal", dtype, (mean, std))
        z = standard("normal", "normal", shape, wanted, generator, device, False)
    out = continuous.moved(z, mean, std)
    return with_grad(out, "normal") if requires_grad else out


def poisson(input: Any, generator: Generator | None = None) -> Tensor:
    """Poisson samples of the rates that ``input`` holds.

    Args:
        input: floating rates >= 0.
        generator: the generator to draw from; None is the current one.

    Returns:
        the shape and dtype of ``input``. No derivative passes through.

    Raises:
        ValueError: if a rate is negative.

    Example:
        >>> import fx
        >>> fx.poisson(fx.tensor([0.0, 0.0]))
        tensor([0., 0.])
    """
    x = floating("poisson", input)
    _check(x, "poisson: rates must not be negative or nan")
    return draws.random_poisson(next_key(generator, x.device), x, shape=x._shape, dtype=x._dtype)
