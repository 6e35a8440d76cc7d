"""Samplers of continuous distributions: uniform words through the quantile function.

A float32 sample takes one 32-bit word and a float64 sample two; the float32 numbers of a key are
its float64 numbers, rounded. float16 and bfloat16 are the float32 numbers, rounded.
"""

from __future__ import annotations

from collections.abc import Callable
from math import nan, sqrt
from typing import Any

import numpy as np

import fx.prims.compare as compare
import fx.prims.draws as draws
import fx.prims.elementary as elementary
import fx.prims.elementwise as elementwise
from fx import dtypes
from fx.ops.operands import SCALARS, cast
from fx.ops.pointwise.complex_numbers import view_as_complex
from fx.prims.creation import constant_like
from fx.prims.special import erfc, ndtri
from fx.random.arguments import (
    Shape,
    both_numbers,
    floating_dtype,
    is_dtype,
    is_high,
    joint_shape,
    other_names,
    parameter,
)
from fx.random.keys import as_key, sample_shape
from fx.tensor import Tensor


def parts(family: str, dtype: Any, draw: Callable[[tuple[int, ...], Any], Tensor]) -> Any:
    """Complex samples of ``draw(last axis, real dtype)``: their parts are drawn like real ones.

    Normal ones have a variance of 1 together, so that of a part is 1/2.
    """
    out = draw((2,), dtypes.real_of(dtype))
    if family == "normal":
        out = elementwise.multiply(out, constant_like(sqrt(0.5), out))
    return view_as_complex(out)


def _standard(name: str, key: Any, shape: Any, dtype: Any) -> Tensor:
    return draws.random_draw(
        as_key(name, key),
        family=name,
        shape=sample_shape(name, shape),
        dtype=floating_dtype(name, dtype),
    )


_LOW, _HIGH = float("0"), float("1")  # the defaults themselves, which no program's numbers are


def _bounds_and_dtype(
    low: Any, high: Any, dtype: Any, minval: Any, maxval: Any
) -> tuple[Any, Any, Any]:
    """The arguments of ``uniform``, also in JAX's order: dtype, minval, maxval.

    Raises:
        TypeError: where they could be meant in either order, or one was given twice.
    """
    if is_dtype(low):
        if is_dtype(dtype):
            raise TypeError(f"uniform: two dtypes, {low!r} and {dtype!r}; give one")
        if dtype is None and maxval is None and high is not _HIGH:
            raise TypeError(
                f"uniform: after the dtype {low!r} one bound alone could be either; write "
                f"fx.random.uniform(key, shape, dtype=..., minval=..., maxval=...)"
            )
        first = _LOW if high is _HIGH else high
        low, high, dtype = first, _HIGH if dtype is None else dtype, low
    elif is_dtype(high):
        raise TypeError(
            f"uniform: high is a number or a tensor, got {high!r}; write dtype={high!r}"
        )
    low = None if minval is not None and low is _LOW else low
    high = None if maxval is not None and high is _HIGH else high
    return *other_names("uniform", low, high, minval, maxval), dtype


def uniform(
    key: Tensor, shape: Shape | None = None, low: Any = _LOW, high: Any = _HIGH, dtype: Any = None,
    *, minval: Any = None, maxval: Any = None,
) -> Tensor:  # fmt: skip
    """Uniform samples in [low, high).

    A float32 in [0, 1) is a multiple of 2 ** -24, a float64 of 2 ** -53.

    Args:
        key: uint32 (6,).
        shape: the shape of the samples; None takes that of ``low`` and ``high``.
        low, high: numbers or tensors that broadcast to ``shape``; derivatives pass through them.
        dtype: floating; the default dtype, or that of ``low`` and ``high`` where they are tensors.
            Of complex numbers both parts are drawn from numbers ``low`` and ``high``.
        minval, maxval: JAX's names of ``low`` and ``high``. Its order is taken too: ``(key, shape,
            dtype)`` and ``(key, shape, dtype, minval, maxval)``.

    Raises:
        DTypeError, ShapeError: if ``key`` is no key, or shapes or dtypes do not fit.
        TypeError: if a bound or the dtype was given twice, or after a dtype in JAX's place one
            bound alone.

    Example:
        >>> import fx
        >>> fx.random.uniform(fx.random.key(0), (2, 2), low=-1.0)
        tensor([[ 0.5890, -0.3738],
                [ 0.9195,  0.0859]])
    """
    key = as_key("uniform", key)
    if minval is not None or maxval is not None or not both_numbers(low, high):
        low, high, dtype = _bounds_and_dtype(low, high, dtype, minval, maxval)
    dtype = floating_dtype("uniform", dtype, (low, high), dtypes.INEXACT)
    shape = joint_shape("uniform", shape, low, high)
    if dtype in dtypes.COMPLEX:
        return parts("uniform", dtype, lambda two, real: uniform(key, shape + two, low, high, real))
    u = draws.random_draw(key, family="uniform", shape=shape, dtype=dtype)
    return between(u, low, high)


def between(u: Tensor, low: Any, high: Any) -> Tensor:
    """Uniform samples u in [0, 1) with other bounds."""
    if type(low) in SCALARS and type(high) in SCALARS and low == 0:
        return u if high == 1 else elementwise.multiply(u, constant_like(high, u))
    dtype, device = u._dtype, u.device.name
    a, b = parameter("uniform", low, dtype, device), parameter("uniform", high, dtype, device)
    x = elementwise.add(elementwise.multiply(u, elementwise.subtract(b, a)), a)
    # the sum may round up to high itself
    return compare.where(compare.less(x, b), x, elementwise.nextafter(b, a))


def normal(
    key: Tensor, shape: Shape | None = None, mean: Any = 0.0, std: Any = 1.0, dtype: Any = None
) -> Tensor:
    """Normal samples: the inverse of the distribution function at uniform words.

    Every bit of a word counts in the tails as at the center: a float32 sample reaches 6.4 standard
    deviations, a float64 sample 9.2, each with its true probability.

    Args:
        key: uint32 (6,).
        shape: the shape of the samples; None takes that of ``mean`` and ``std``.
        mean, std: numbers or tensors that broadcast to ``shape``; derivatives pass through them.
        dtype: floating; the default dtype, or that of ``mean`` and ``std`` where they are tensors.
            Of complex numbers each part has half the variance. It is also taken where JAX has it,
            as the third argument.

    Raises:
        DTypeError, ShapeError: if ``key`` is no key, or shapes or dtypes do not fit.
        TypeError: if a dtype stands in the place of ``std``, or there are two.

    Source: Wichura, algorithm AS 241, Applied Statistics 37 (1988).

    Example:
        >>> import fx
        >>> fx.random.normal(fx.random.key(0), 3, mean=10.0)
        tensor([ 9.4597, 10.8894,  9.8989])
    """
    key = as_key("normal", key)
    if not both_numbers(mean, std) and (is_dtype(mean) or is_dtype(std)):
        if is_dtype(std) or type(std) not in SCALARS or std != 1 or dtype is not None:
            raise TypeError(
                f"normal takes (key, shape, mean, std, dtype) or (key, shape, dtype), got mean "
                f"{mean!r}, std {std!r}, dtype {dtype!r}; write dtype=..., mean=..., std=..."
            )
        mean, dtype = 0.0, mean
    dtype = floating_dtype("normal", dtype, (mean, std), dtypes.INEXACT)
    shape = joint_shape("normal", shape, mean, std)
    if dtype in dtypes.COMPLEX:
        z = parts("normal", dtype, lambda two, real: normal(key, shape + two, dtype=real))
    else:
        z = draws.random_draw(key, family="normal", shape=shape, dtype=dtype)
    return moved(z, mean, std)


def moved(z: Tensor, mean: Any, std: Any) -> Tensor:
    """Standard normal samples z with another mean and standard deviation."""
    if type(std) not in SCALARS or std != 1:
        z = elementwise.multiply(z, parameter("normal", std, z._dtype, z.device.name))
    if type(mean) not in SCALARS or mean != 0:
        z = elementwise.add(z, parameter("normal", mean, z._dtype, z.device.name))
    return z


def truncated_normal(
    key: Tensor, lower: Any, upper: Any, shape: Shape | None = None, dtype: Any = None
) -> Tensor:
    """Standard normal samples under the condition that they lie in [lower, upper].

    Args:
        key: uint32 (6,).
        lower, upper: lower < upper, infinite ones leave that side open: numbers, or tensors that
            broadcast to ``shape``; derivatives pass through tensors. Where lower < upper does not
            hold of tensors the samples are NaN.
        shape: the shape of the samples; None takes that of ``lower`` and ``upper``.
        dtype: floating; the default dtype, or that of ``lower`` and ``upper`` where they are
            tensors.

    Raises:
        ValueError: unless lower < upper, of numbers.
        DTypeError, ShapeError: if ``key`` is no key, or shape or dtype is none.

    Example:
        >>> import fx
        >>> x = fx.random.truncated_normal(fx.random.key(0), 1.0, 2.0, shape=1000)
        >>> bool((x >= 1.0).all()), bool((x <= 2.0).all())
        (True, True)
    """
    key = as_key("truncated_normal", key)
    dtype = floating_dtype("truncated_normal", dtype, (lower, upper))
    shape = joint_shape("truncated_normal", shape, lower, upper)
    if any(isinstance(v, (Tensor, np.ndarray)) for v in (lower, upper)):
        return _between_tensors(key, lower, upper, shape, dtype)
    a, b = float(lower), float(upper)
    if not a < b:
        raise ValueError(f"truncated_normal: lower must be less than upper, got {lower}, {upper}")
    return draws.random_truncated_normal(key, lower=a, upper=b, shape=shape, dtype=dtype)


def _between_tensors(
    key: Tensor, lower: Any, upper: Any, shape: tuple[int, ...], dtype: Any
) -> Tensor:
    """Truncated normal samples by the words that bounds that are numbers get, in float64."""
    e = draws.random_draw(
        key, family="exponential", shape=shape, dtype=dtypes.float64 if dtype == dtypes.float64
        else dtypes.float32,
    )  # fmt: skip
    u = elementary.exp(elementwise.negative(cast(e, dtypes.float64)))
    device = u.device.name
    a, b = (parameter("truncated_normal", v, dtypes.float64, device) for v in (lower, upper))
    mirrored = compare.greater(a, constant_like(0.0, a))  # probabilities near 0 are precise
    low = compare.where(mirrored, elementwise.negative(b), a)
    high = compare.where(mirrored, elementwise.negative(a), b)
    below, above = _area(low), _area(high)
    p = elementwise.add(below, elementwise.multiply(u, elementwise.subtract(above, below)))
    x = ndtri(p)
    x = compare.where(mirrored, elementwise.negative(x), x)
    ordered = compare.less(a, b)
    x = compare.where(ordered, x, constant_like(nan, x))
    # rounding may leave the interval, in the dtype of the samples as well
    least, most = (cast(compare.stop_gradient(v), dtype) for v in (a, b))
    return elementwise.minimum(elementwise.maximum(cast(x, dtype), least), most)


def _area(x: Tensor) -> Tensor:
    """Under the standard normal curve up to x."""
    root = constant_like(-sqrt(0.5), x)
    return elementwise.multiply(erfc(elementwise.multiply(x, root)), constant_like(0.5, x))


def exponential(key: Tensor, shape: Shape = (), dtype: Any = None) -> Tensor:
    """Exponential samples of rate 1: -log u. Never 0.

    Args:
        key: uint32 (6,).
        shape: the shape of the samples.
        dtype: floating, the default dtype unless told.

    Example:
        >>> import fx
        >>> fx.random.exponential(fx.random.key(0), 3) / 2.0  # rate 2
        tensor([0.1150, 0.5806, 0.0205])
    """
    return _standard("exponential", key, shape, dtype)


def gumbel(key: Tensor, shape: Shape = (), dtype: Any = None, mode: str | None = None) -> Tensor:
    """Standard Gumbel samples, of the largest of many: -log(-log u).

    Args:
        key: uint32 (6,).
        shape: the shape of the samples.
        dtype: floating, the default dtype unless told.
        mode: ``"high"`` draws words of 64 bits for narrow dtypes, too: events rarer than 2 ** -32
            come with their probability. ``"low"`` or None do not.

    Raises:
        ValueError: for another ``mode``.

    Example:
        >>> import fx
        >>> fx.random.gumbel(fx.random.key(0), (2, 3)).shape
        (2, 3)
    """
    if not is_high("gumbel", mode):
        return _standard("gumbel", key, shape, dtype)
    wanted = floating_dtype("gumbel", dtype)
    return cast(_standard("gumbel", key, shape, dtypes.float64), wanted)


def laplace(key: Tensor, shape: Shape = (), dtype: Any = None) -> Tensor:
    """Standard Laplace samples, with density exp(-abs(x)) / 2.

    Args:
        key: uint32 (6,).
        shape: the shape of the samples.
        dtype: floating, the default dtype unless told.

    Example:
        >>> import fx
        >>> fx.random.laplace(fx.random.key(0), (2, 3)).shape
        (2, 3)
    """
    return _standard("laplace", key, shape, dtype)


def logistic(key: Tensor, shape: Shape = (), dtype: Any = None) -> Tensor:
    """Standard logistic samples: log(u / (1 - u)).

    Args:
        key: uint32 (6,).
        shape: the shape of the samples.
        dtype: floating, the default dtype unless told.

    Example:
        >>> import fx
        >>> fx.random.logistic(fx.random.key(0), (2, 3)).shape
        (2, 3)
    """
    return _standard("logistic", key, shape, dtype)
