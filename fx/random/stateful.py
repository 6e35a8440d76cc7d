"""PyTorch's random functions: each takes the next key of a generator.

They stand at the top level (``fx.randn``). The functions of the same names in ``fx.random`` take a
key as their first argument instead.
"""

from __future__ import annotations

from math import inf
from typing import Any

from numpy import ndarray

import fx.prims.compare as compare
import fx.prims.draws as draws
import fx.prims.reduction as reduction
from fx import dtypes
from fx.config import default_device, default_dtype, writing
from fx.errors import DTypeError, ShapeError
from fx.ops.axes import integer
from fx.ops.making.creation import lay_as
from fx.ops.making.interop import with_grad
from fx.ops.operands import SCALARS, argument, cast, floating
from fx.prims.creation import constant_like
from fx.random import continuous, discrete, order
from fx.random.arguments import floating_dtype, joint_shape
from fx.random.generator import Generator, _current, next_key
from fx.random.keys import sample_shape
from fx.tensor import Tensor


def _sizes(name: str, size: tuple[Any, ...]) -> tuple[int, ...]:
    """Sizes from ``f(2, 3)`` or ``f((2, 3))``."""
    return sample_shape(name, size[0] if len(size) == 1 else size)


def standard(
    family: str, name: str, shape: Any, dtype: Any, generator: Any, device: Any, grad: bool
) -> Tensor:
    """Samples of a standard distribution, for the function ``name``."""
    wanted = default_dtype() if dtype is None else floating_dtype(name, dtype, kinds=dtypes.INEXACT)
    out = None
    if wanted in dtypes.COMPLEX:
        out = continuous.parts(
            family,
            wanted,
            lambda two, real: standard(
                family, name, (*sample_shape(name, shape), *two), real, generator, device, False
            ),
        )
        return with_grad(out, name) if grad else out
    if generator is None and _is_host(device):
        out = _current.generator.draw(family, shape, wanted)
    if out is None:
        key = next_key(generator, device)
        out = draws.random_draw(key, family=family, shape=shape, dtype=wanted)
    return with_grad(out, name) if grad else out


def _is_host(device: Any) -> bool:
    return (default_device() if device is None else getattr(device, "name", device)) == "cpu"


def drawn(family: str, name: str) -> Any:
    """``f(sizes, dtype, device, requires_grad)`` for a function that draws."""

    def draw(size: tuple[Any, ...], dtype: Any, device: Any, requires_grad: bool) -> Tensor:
        shape = _sizes(name, size)
        if dtype is None and device is None and not requires_grad and default_device() == "cpu":
            out = _current.generator.draw(family, shape, default_dtype())
            if out is not None:
                return out
        return standard(family, name, shape, dtype, None, device, requires_grad)

    return draw


def _like(name: str, x: Any, dtype: Any, device: Any) -> tuple[Any, Any, Any]:
    """Shape, dtype and device of ``x``, unless told otherwise."""
    x = argument(name, x)
    if device is None:
        device = "cpu" if type(x) is Tensor and type(x._a) is ndarray else x.device
    return x._shape, x._dtype if dtype is None else dtype, device


def _drawn_like(
    family: str, name: str, x: Any, generator: Any, dtype: Any, device: Any, requires_grad: bool
) -> Tensor:
    shape, dtype, device = _like(name, x, dtype, device)
    out = None
    if device == "cpu" and generator is None and not requires_grad:
        out = _current.generator.draw(family, shape, dtype)
    if out is None:
        out = standard(family, name, shape, dtype, generator, device, requires_grad)
    return lay_as(out, x) if writing.enabled and isinstance(x, Tensor) else out


def rand(
    *size: Any,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Uniform samples in [0, 1).

    Args:
        size: the shape, as one tuple or as several ints.
        generator: the generator to draw from; None is the current one.
        dtype: floating, the default dtype unless told.
        device: the default device unless told.
        requires_grad: whether ``.backward()`` accumulates a gradient for it.

    Raises:
        DTypeError: if ``dtype`` is not floating.
        ShapeError: for a negative size.

    Example:
        >>> import fx
        >>> _ = fx.manual_seed(0)
        >>> fx.rand(2)
        tensor([0.7945, 0.3131])
    """
    shape = _sizes("rand", size)
    return standard("uniform", "rand", shape, dtype, generator, device, requires_grad)


def randn(
    *size: Any,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Standard normal samples; the arguments are those of ``rand``.

    Example:
        >>> import fx
        >>> _ = fx.manual_seed(0)
        >>> fx.randn(2, 3).shape
        (2, 3)
    """
    shape = _sizes("randn", size)
    return standard("normal", "randn", shape, dtype, generator, device, requires_grad)


def rand_like(
    input: Any, *, generator: Generator | None = None, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """``rand`` with the shape, dtype and device of ``input``.

    Example:
        >>> import fx
        >>> fx.rand_like(fx.zeros((2, 3), dtype=fx.float64)).dtype
        dtype('float64')
    """
    return _drawn_like("uniform", "rand_like", input, generator, dtype, device, requires_grad)


def randn_like(
    input: Any, *, generator: Generator | None = None, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """``randn`` with the shape, dtype and device of ``input``.

    Example:
        >>> import fx
        >>> fx.randn_like(fx.zeros((2, 3))).shape
        (2, 3)
    """
    return _drawn_like("normal", "randn_like", input, generator, dtype, device, requires_grad)


def randint(
    *args: Any, low: int | None = None, high: int | None = None, size: Any = None,
    generator: Generator | None = None, dtype: Any = dtypes.int64, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Uniform integers in [low, high): ``randint(high, size)`` or ``randint(low, high, size)``.

    Args:
        low, high: ints; ``low`` is 0 unless given.
        size: the shape.
        generator: the generator to draw from; None is the current one.
        dtype: int64 unless told; a floating dtype gives whole numbers.
        device: the default device unless told.
        requires_grad: whether ``.backward()`` accumulates a gradient for it (floating dtypes).

    Raises:
        TypeError: if ``high`` or ``size`` is missing.
        ValueError: if the range is empty or does not fit the dtype.

    Example:
        >>> import fx
        >>> _ = fx.manual_seed(0)
        >>> fx.randint(1, 7, (5,))
        tensor([5, 2, 6, 4, 3])
    """
    if len(args) == 3 and low is high is size is None:
        return integers("randint", *args, generator, dtype, device, requires_grad)
    given = list(args)
    if given and size is None and len(given) > 1 and not isinstance(given[-1], int):
        size = given.pop()
    if high is None and given:
        high = given.pop()
    if low is None and given:
        low = given.pop()
    if given or size is None or high is None:
        raise TypeError(
            "randint takes (high, size) or (low, high, size), with a tuple as the size; "
            f"got {len(args)} positional arguments; write fx.randint(0, 10, (2, 3))"
        )
    return integers("randint", low or 0, high, size, generator, dtype, device, requires_grad)


def integers(
    name: str, low: Any, high: Any, size: Any, generator: Any, dtype: Any, device: Any, grad: bool
) -> Tensor:
    """Uniform integers in [low, high) for the function ``name``; the dtype is int64 unless told."""
    wanted = dtypes.int64 if dtype is None else dtypes.as_dtype(dtype)
    if wanted is dtypes.int64 and generator is None and not grad and _is_host(device):
        drawn = _few_integers(low, high, size)
        if drawn is not None:
            return drawn
    whole = dtypes.int64 if wanted in dtypes.FLOATING else wanted
    out = discrete.randint(next_key(generator, device), size, low, high, whole)
    if whole is not wanted:
        out = cast(out, wanted)
    return with_grad(out, name) if grad else out


def _few_integers(low: Any, high: Any, size: Any) -> Tensor | None:
    """int64 of a small range and shape, drawn at once; None for others, and for what is wrong."""
    if type(low) is type(high) is int and _LEAST <= low < high <= -_LEAST:
        span = high - low
        if span <= 1 << 32:
            shape = sample_shape("randint", size)
            return _current.generator.draw("integers", shape, dtypes.int64, (span, low))
    return None


_LEAST = -(1 << 63)


def randint_like(
    input: Any, low: int, high: int | None = None, *, generator: Generator | None = None,
    dtype: Any = None, device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """``randint`` with the shape, dtype and device of ``input``: ``randint_like(x, [low,] high)``.

    Example:
        >>> import fx
        >>> fx.randint_like(fx.zeros((2, 3), dtype=fx.int32), 10).dtype
        dtype('int32')
    """
    if high is None:
        low, high = 0, low
    shape, dtype, device = _like("randint_like", input, dtype, device)
    return integers("randint_like", low, high, shape, generator, dtype, device, requires_grad)


def randperm(
    n: int, *, generator: Generator | None = None, dtype: Any = dtypes.int64, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A random permutation of 0 .. n - 1.

    Args:
        n: how many.
        generator: the generator to draw from; None is the current one.
        dtype: int64 unless told.
        device: the default device unless told.
        requires_grad: whether ``.backward()`` accumulates a gradient for it (floating dtypes).

    Raises:
        ShapeError: if ``n`` is negative.

    Example:
        >>> import fx
        >>> _ = fx.manual_seed(0)
        >>> fx.randperm(5)
        tensor([1, 4, 3, 0, 2])
    """
    n, out = integer("randperm", "n", n), None
    if generator is None and _is_host(device) and n > 0:
        out = _current.generator.draw("permutation", (n,), dtypes.int64)
    if out is None:
        out = order.permutation(next_key(generator, device), n)
    out = cast(out, dtypes.as_dtype(dtype))
    return with_grad(out, "randperm") if requires_grad else out


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
    return order.weighted(next_key(generator, x.device), x, num_samples, replacement)


def _require_weights(x: Tensor) -> None:
    """Refuse rows of weights of which one is negative or not finite, or that have no weight."""
    array = x._a if type(x) is Tensor else None
    if type(array) is ndarray and array.dtype.kind == "f" and array.size:
        largest = array.max(-1)
        # no comparison holds for NaN
        if array.min() >= 0 and largest.min() > 0 and largest.max() < inf:
            return
    finite = compare.logical_and(compare.isfinite(x), compare.greater_equal(x, constant_like(0, x)))
    _require(
        finite, x, "multinomial: probability tensor contains either `inf`, `nan` or element < 0"
    )
    _require(
        reduction.max(x, axes=(x.ndim - 1,), keepdims=False) > 0, x,
        "multinomial: invalid multinomial distribution (sum of probabilities <= 0)",
    )  # fmt: skip


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
