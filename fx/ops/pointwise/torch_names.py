"""Elementwise functions that PyTorch names and the Array API does not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import fx.prims.activations as activations
import fx.prims.compare as compare
import fx.prims.elementwise as prims
import fx.prims.special as special
from fx import dtypes
from fx.errors import DTypeError, ShapeError
from fx.ops.axes import integer, normal_axis
from fx.ops.making.ranges import arange
from fx.ops.operands import argument, cast, floating, operands, public
from fx.ops.reductions.norms import norm
from fx.ops.shapes.manipulation import expand_dims
from fx.prims.creation import constant_like
from fx.prims.fused import elements, fuse
from fx.tensor import Tensor


def deg2rad(x: Any) -> Tensor:
    """Degrees as radians.

    Example:
        >>> import fx
        >>> fx.deg2rad(fx.tensor([0.0, 180.0]))
        tensor([0.0000, 3.1416])
    """
    return floating("deg2rad", x) * (math.pi / 180)  # type: ignore[no-any-return]


def rad2deg(x: Any) -> Tensor:
    """Radians as degrees.

    Example:
        >>> import fx
        >>> fx.rad2deg(fx.tensor([0.0, fx.pi]))
        tensor([  0., 180.])
    """
    return floating("rad2deg", x) * (180 / math.pi)  # type: ignore[no-any-return]


def float_power(x: Any, exponent: Any) -> Tensor:
    """x ** exponent in float64 (complex128 for complex numbers).

    Example:
        >>> import fx
        >>> fx.float_power(fx.tensor([2, 3]), 2)
        tensor([4., 9.], dtype=fx.float64)
    """
    x, y = operands("float_power", x, exponent)
    wide = dtypes.complex128 if x.dtype in dtypes.COMPLEX else dtypes.float64
    return cast(x, wide) ** cast(y, wide)  # type: ignore[no-any-return]


def fmax(x: Any, other: Any) -> Tensor:
    """The larger of each pair; where one is NaN the other.

    Example:
        >>> import fx
        >>> fx.fmax(fx.tensor([1.0, fx.nan]), fx.tensor([2.0, 3.0]))
        tensor([2., 3.])
    """
    x, y = operands("fmax", x, other)
    if x.dtype not in dtypes.FLOATING:
        return prims.maximum(x, y)
    return compare.where((x >= y) | compare.isnan(y), x, y)


def fmin(x: Any, other: Any) -> Tensor:
    """The smaller of each pair; where one is NaN the other.

    Example:
        >>> import fx
        >>> fx.fmin(fx.tensor([1.0, fx.nan]), fx.tensor([2.0, 3.0]))
        tensor([1., 3.])
    """
    x, y = operands("fmin", x, other)
    if x.dtype not in dtypes.FLOATING:
        return prims.minimum(x, y)
    return compare.where((x <= y) | compare.isnan(y), x, y)


def heaviside(x: Any, values: Any) -> Tensor:
    """0 for negative numbers, 1 for positive ones, ``values`` for 0.

    Example:
        >>> import fx
        >>> fx.heaviside(fx.tensor([-1.0, 0.0, 2.0]), fx.tensor(0.5))
        tensor([0.0000, 0.5000, 1.0000])
    """
    return _heaviside(*operands("heaviside", x, values))  # type: ignore[no-any-return]


def _steps(x: Tensor, v: Tensor) -> Tensor:
    step = compare.where(x > 0, constant_like(1, x), constant_like(0, x))
    return compare.where(x == 0, v, compare.where(x != x, x, step))


_heaviside = elements("heaviside", _steps)


def ldexp(x: Any, other: Any) -> Tensor:
    """x * 2 ** other.

    Example:
        >>> import fx
        >>> fx.ldexp(fx.tensor([1.0, 3.0]), fx.tensor([2, 1]))
        tensor([4., 6.])
    """
    return floating("ldexp", x) * prims.exp2(floating("ldexp", other))  # type: ignore[no-any-return]


def logaddexp2(x: Any, other: Any) -> Tensor:
    """log2(2 ** x + 2 ** other), without overflow.

    Example:
        >>> import fx
        >>> fx.logaddexp2(fx.tensor(3.0), fx.tensor(3.0))
        tensor(4.)
    """
    x, y = operands("logaddexp2", x, other, True)
    return prims.logaddexp(x * math.log(2), y * math.log(2)) / math.log(2)  # type: ignore[no-any-return]


def sinc(x: Any) -> Tensor:
    """sin(pi x) / (pi x), 1 at 0.

    Example:
        >>> import fx
        >>> fx.sinc(fx.tensor([0.0, 0.5]))
        tensor([1.0000, 0.6366])
    """
    x = floating("sinc", x)
    if x.dtype.itemsize == 2:
        return cast(sinc(cast(x, dtypes.float32)), x.dtype)
    return _sinc(x)  # type: ignore[no-any-return]


def _sinc_in_steps(x: Tensor) -> Tensor:
    t = x * math.pi
    near = prims.abs(t) < 0.25  # where the slope of the quotient is a difference of two like ones
    square = prims.square(compare.where(near, t, constant_like(0, t)))
    series = constant_like(0, t)
    for k in range(6, 0, -1):  # 1 - t**2 / 3! + t**4 / 5! - ...
        series = (1.0 - series) * square / (2 * k * (2 * k + 1))
    t = compare.where(near, constant_like(1, t), t)
    return compare.where(near, 1.0 - series, prims.sin(t) / t)


_sinc = elements("sinc", _sinc_in_steps)


def isposinf(x: Any) -> Tensor:
    """Whether each element is positive infinity.

    Example:
        >>> import fx
        >>> fx.isposinf(fx.tensor([fx.inf, 1.0]))
        tensor([ True, False])
    """
    return argument("isposinf", x) == math.inf  # type: ignore[no-any-return]


def isneginf(x: Any) -> Tensor:
    """Whether each element is negative infinity.

    Example:
        >>> import fx
        >>> fx.isneginf(fx.tensor([-fx.inf, 1.0]))
        tensor([ True, False])
    """
    return argument("isneginf", x) == -math.inf  # type: ignore[no-any-return]


def is_nonzero(x: Any) -> bool:
    """Whether the one element of a tensor is not 0.

    Raises:
        RuntimeError: if it has not exactly one.
    """
    x = argument("is_nonzero", x)
    if x.numel() != 1:
        raise RuntimeError(f"is_nonzero takes a tensor of one element, got shape {x.shape}")
    return bool(x)


def _integers(name: str, x: Any, y: Any) -> tuple[Tensor, Tensor]:
    x, y = operands(name, x, y)
    if x.dtype not in dtypes.INTEGRAL:
        raise DTypeError(f"{name} takes integers, got {x.dtype.name}; write x.astype(fx.int64)")
    return x.abs(), y.abs()


def gcd(x: Any, other: Any) -> Tensor:
    """The greatest common divisor of each pair of integers; 0 for two zeros.

    Example:
        >>> import fx
        >>> from fx.ops.pointwise.torch_names import gcd
        >>> gcd(fx.tensor([12, 7]), 8)
        tensor([4, 1])
    """
    return _gcd(*_integers("gcd", x, other))  # type: ignore[no-any-return]


def _gcd_in_steps(a: Tensor, b: Tensor) -> Tensor:
    from fx.transforms import while_loop

    def step(pair: Any) -> Any:
        a, b = pair
        zero = b == 0
        rest = a % compare.where(zero, constant_like(1, b), b)
        return compare.where(zero, a, b), compare.where(zero, b, rest)

    a, b = a + b * 0, b + a * 0  # both in the broadcast shape
    found = while_loop(lambda pair: (pair[1] != 0).any(), step, (a, b))[0]
    return prims.abs(found)  # of the smallest integer, which has no abs, remainders are negative


_gcd = fuse("gcd", cpu=np.gcd, reference=_gcd_in_steps)


def lcm(x: Any, other: Any) -> Tensor:
    """The least common multiple of each pair of integers; 0 where one is 0.

    Example:
        >>> import fx
        >>> fx.lcm(fx.tensor([4, 6]), fx.tensor([6, 9]))
        tensor([12, 18])
    """
    a, b = _integers("lcm", x, other)
    divisor = gcd(a, b)
    return a // compare.where(divisor == 0, constant_like(1, divisor), divisor) * b  # type: ignore[no-any-return]


def mvlgamma(x: Any, p: int) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension ``p``, at least 1."""
    x, p = floating("mvlgamma", x), integer("mvlgamma", "p", p)
    if p < 1:
        raise ShapeError(f"mvlgamma: p must be at least 1, got {p}")
    halves = arange(p, device=x.device) * constant_like(0.5, x)
    parts = special.lgamma(expand_dims(x, -1) - halves)  # (..., p)
    return parts.sum(-1) + p * (p - 1) / 4 * math.log(math.pi)


def hardshrink(x: Any, lambd: float = 0.5) -> Tensor:
    """The elements outside [-lambd, lambd], 0 for the others."""
    return activations.hardshrink(floating("hardshrink", x), width=lambd)


def rsub(x: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """other - alpha * x."""
    return other - argument("rsub", x) * alpha  # type: ignore[no-any-return]


def renorm(x: Any, p: float, dim: int, maxnorm: float) -> Tensor:
    """The slices along an axis, those whose ``p``-norm exceeds ``maxnorm`` scaled down to it."""
    x = floating("renorm", x)
    at = normal_axis("renorm", dim, x._shape)
    others = tuple([i for i in range(x.ndim) if i != at])
    size = norm(x, p, others, True)  # with the slope 0 where all is 0
    scale = compare.where(size > maxnorm, maxnorm / (size + 1e-7), constant_like(1, size))
    return x * scale  # type: ignore[no-any-return]


__all__ = public(globals())
