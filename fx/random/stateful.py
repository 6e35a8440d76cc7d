"""PyTorch's random functions: each takes the next key of a generator.

They stand at the top level (``fx.randn``). The functions of the same names in ``fx.random`` take a
key as their first argument instead.
"""

from __future__ import annotations

from typing import Any

from numpy import ndarray

import fx.prims.draws as draws
from fx import dtypes
from fx.config import default_device, default_dtype, modes, writing
from fx.modes import Defaults
from fx.ops.axes import integer
from fx.ops.making.creation import lay_as
from fx.ops.making.interop import with_grad
from fx.ops.operands import argument, cast
from fx.random import continuous, discrete, order
from fx.random.arguments import floating_dtype
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
        plain = dtype is None and device is None and not requires_grad
        if plain and (modes.device or Defaults.device) == "cpu":
            out = _current.generator.draw(family, shape, Defaults.dtype)
            if out is not None:
                return out
        return standard(family, name, shape, dtype, None, device, requires_grad)

    return draw


def _like(name: str, x: Any, dtype: Any, device: Any) -> tuple[Any, Any, Any]:
    """Shape, dtype and device of ``x``, unless told otherwise."""
    if type(x) is Tensor and type(array := x._a) is ndarray:
        device = "cpu" if device is None else device
        return array.shape, array.dtype if dtype is None else dtype, device
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
