"""Samplers of continuous distributions: uniform words through the quantile function.

A float32 sample takes one 32-bit word and a float64 sample two; the float32 numbers of a key are
its float64 numbers, rounded. float16 and bfloat16 are the float32 numbers, rounded.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any

import fx.prims.compare as compare
import fx.prims.draws as draws
import fx.prims.elementwise as elementwise
from fx import dtypes
from fx.config import default_dtype
from fx.errors import DTypeError, ShapeError
from fx.ops.operands import SCALARS, argument, cast
from fx.ops.pointwise.complex_numbers import view_as_complex
from fx.prims.creation import constant, constant_like
from fx.prims.families import broadcast_shapes
from fx.random.keys import as_key, sample_shape
from fx.tensor import Tensor

Shape = int | tuple[int, ...]


def floating_dtype(
    name: str,
    dtype: Any,
    parameters: tuple[Any, ...] = (),
    kinds: frozenset[Any] = dtypes.FLOATING,
) -> Any:
    """The dtype to draw in: ``dtype``, or that of the floating tensors among ``parameters``.

    Raises:
        DTypeError: if it is not among ``kinds``.
    """
    if dtype is None:
        found = None
        for p in parameters:
            if isinstance(p, Tensor) and p._dtype in dtypes.FLOATING:
                found = p._dtype if found is None else dtypes.promote_types(found, p._dtype)
        return found or default_dtype()
    found = dtypes.as_dtype(dtype)
    if found not in kinds:
        raise DTypeError(
            f"{name}: the samples are floating, got dtype {found.name}; "
            f"write dtype=fx.float32, and cast what was drawn"
        )
    return found


def parts(family: str, dtype: Any, draw: Callable[[tuple[int, ...], Any], Tensor]) -> Any:
    """Complex samples of ``draw(last axis, real dtype)``: their parts are drawn like real ones.

    Normal ones have a variance of 1 together, so that of a part is 1/2.
    """
    out = draw((2,), dtypes.real_of(dtype))
    if family == "normal":
        out = elementwise.multiply(out, constant_like(sqrt(0.5), out))
    return view_as_complex(out)


def parameter(name: str, value: Any, dtype: Any, device: str) -> Tensor:
    """A parameter of a distribution as a tensor of ``dtype``."""
    if type(value) in SCALARS:
        return constant(value, dtype, device)
    return cast(argument(name, value), dtype)


def _shape_of(x: Any) -> tuple[int, ...]:
    return x._shape if isinstance(x, Tensor) else x.shape  # type: ignore[no-any-return]


def joint_shape(name: str, shape: Any, *parameters: Any) -> tuple[int, ...]:
    """The shape to draw; None is that of the parameters, which must broadcast to it.

    Raises:
        ShapeError: if they do not.
    """
    shapes = [_shape_of(p) for p in parameters if type(p) not in SCALARS and hasattr(p, "shape")]
    if shape is None:
        return broadcast_shapes(name, *shapes) if shapes else ()
    wanted = sample_shape(name, shape)
    for s in shapes:
        tail = wanted[len(wanted) - len(s) :]
        if len(s) > len(wanted) or any(n not in (1, m) for n, m in zip(s, tail, strict=True)):
            raise ShapeError(
                f"{name}: a parameter of shape {s} does not broadcast to the shape {wanted} asked "
                f"for; leave shape out to take that of the parameters"
            )
    return wanted


def _standard(name: str, key: Any, shape: Any, dtype: Any) -> Tensor:
    return draws.random_draw(
        as_key(name, key),
        family=name,
        shape=sample_shape(name, shape),
        dtype=floating_dtype(name, dtype),
    )


def uniform(
    key: Tensor, shape: Shape | None = None, low: Any = 0.0, high: Any = 1.0, dtype: Any = None
) -> Tensor:
    """Uniform samples in [low, high).

    A float32 in [0, 1) is a multiple of 2 ** -24, a float64 of 2 ** -53.

    Args:
        key: uint32 (6,).
        shape: the shape of the samples; None takes that of ``low`` and ``high``.
        low, high: numbers or tensors that broadcast to ``shape``; derivatives pass through them.
        dtype: floating; the default dtype, or that of ``low`` and ``high`` where they are tensors.
            Of complex numbers both parts are drawn from numbers ``low`` and ``high``.

    Raises:
        DTypeError, ShapeError: if ``key`` is no key, or shapes or dtypes do not fit.

    Example:
        >>> import fx
        >>> fx.random.uniform(fx.random.key(0), (2, 2), low=-1.0)
        tensor([[ 0.5890, -0.3738],
                [ 0.9195,  0.0859]])
    """
    key = as_key("uniform", key)
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
            Of complex numbers each part has half the variance.

    Raises:
        DTypeError, ShapeError: if ``key`` is no key, or shapes or dtypes do not fit.

    Source: Wichura, algorithm AS 241, Applied Statistics 37 (1988).

    Example:
        >>> import fx
        >>> fx.random.normal(fx.random.key(0), 3, mean=10.0)
        tensor([ 9.4597, 10.8894,  9.8989])
    """
    key = as_key("normal", key)
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
    key: Tensor, lower: float, upper: float, shape: Shape = (), dtype: Any = None
) -> Tensor:
    """Standard normal samples under the condition that they lie in [lower, upper].

    Args:
        key: uint32 (6,).
        lower, upper: Python numbers, lower < upper; infinite ones leave that side open.
        shape: the shape of the samples.
        dtype: floating, the default dtype unless told.

    Raises:
        ValueError: unless lower < upper.
        DTypeError, ShapeError: if ``key`` is no key, or shape or dtype is none.

    Example:
        >>> import fx
        >>> x = fx.random.truncated_normal(fx.random.key(0), 1.0, 2.0, shape=1000)
        >>> bool((x >= 1.0).all()), bool((x <= 2.0).all())
        (True, True)
    """
    a, b = float(lower), float(upper)
    if not a < b:
        raise ValueError(f"truncated_normal: lower must be less than upper, got {lower}, {upper}")
    return draws.random_truncated_normal(
        as_key("truncated_normal", key),
        lower=a,
        upper=b,
        shape=sample_shape("truncated_normal", shape),
        dtype=floating_dtype("truncated_normal", dtype),
    )


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


def gumbel(key: Tensor, shape: Shape = (), dtype: Any = None) -> Tensor:
    """Standard Gumbel samples, of the largest of many: -log(-log u).

    Args:
        key: uint32 (6,).
        shape: the shape of the samples.
        dtype: floating, the default dtype unless told.

    Example:
        >>> import fx
        >>> fx.random.gumbel(fx.random.key(0), (2, 3)).shape
        (2, 3)
    """
    return _standard("gumbel", key, shape, dtype)


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
