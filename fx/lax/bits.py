"""Bits of numbers, and how they are rounded, by the names of ``jax.lax``."""

from __future__ import annotations

import enum
import math
from typing import Any

import numpy as np

import fx
from fx.dtypes import COMPLEX, FLOATING, INTEGRAL, as_dtype, bfloat16, bool_, float16, is_integral
from fx.errors import ArgumentError, DTypeError, ShapeError
from fx.ops.operands import argument
from fx.prims.compare import bitcast
from fx.tensor import Tensor


def _unsigned(width: int) -> Any:
    return np.dtype(f"uint{8 * width}")


def _integers(name: str, x: Any) -> Tensor:
    x = argument(f"lax.{name}", x)
    if x.dtype not in INTEGRAL:
        raise DTypeError(
            f"lax.{name} takes integers, got {x.dtype.name}; write lax.bitcast_convert_type for "
            f"their bits"
        )
    return x


def shift_right_logical(x: Any, y: Any) -> Tensor:
    """x >> y with zeros following in, also of negative numbers."""
    x = argument("shift_right_logical", x)
    wide = _unsigned(x.dtype.itemsize)
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


def bitcast_convert_type(operand: Any, new_dtype: Any) -> Tensor:
    """The bits of numbers, read as another dtype.

    Args:
        operand: (*S,), integers or floats; (*S, k) where ``new_dtype`` is k times as wide.
        new_dtype: integers or floats. Narrower ones give a last axis, the lowest bits first.

    Raises:
        DTypeError: for bool and complex dtypes.
        ShapeError: where the last axis does not make up a wider number.

    Source: ``jax.lax.bitcast_convert_type``. The derivative is 0.

    Example:
        >>> import fx, fx.lax
        >>> fx.lax.bitcast_convert_type(fx.tensor([1.0, -0.0]), fx.int32)
        tensor([ 1065353216, -2147483648], dtype=fx.int32)
    """
    x, wanted = argument("lax.bitcast_convert_type", operand), as_dtype(new_dtype)
    if x.dtype == wanted:
        return x
    if COMPLEX & {x.dtype, wanted} or bool_ in (x.dtype, wanted):
        raise DTypeError(
            f"lax.bitcast_convert_type reads integers and floats, got {x.dtype.name} as "
            f"{wanted.name}; write x.astype(fx.{wanted.name}) for the values"
        )
    own, new = x.dtype.itemsize, wanted.itemsize
    if own > new:
        whole = bitcast(x, dtype=_unsigned(own))
        steps = fx.arange(own // new, dtype=fx.uint64, device=x.device) * (8 * new)
        parts = fx.bitwise_right_shift(whole[..., None], steps.astype(whole.dtype))
        x = parts.astype(_unsigned(new))
    elif own < new:
        count = new // own
        if not x.ndim or x.shape[-1] != count:
            raise ShapeError(
                f"lax.bitcast_convert_type: {count} numbers of {x.dtype.name} along the last axis "
                f"make one of {wanted.name}, got shape {x.shape}"
            )
        parts = bitcast(x, dtype=_unsigned(own)).astype(_unsigned(new))
        x = parts[..., 0]
        for k in range(1, count):
            x = fx.bitwise_or(x, fx.bitwise_left_shift(parts[..., k], 8 * own * k))
    return bitcast(x, dtype=wanted)  # type: ignore[no-any-return]


def mulhi(x: Any, y: Any, /) -> Tensor:
    """The upper half of the bits of the product of integers.

    Args:
        x, y: of one integer dtype.

    Raises:
        DTypeError: for other dtypes.

    Source: ``jax.lax.mulhi``.

    Example:
        >>> import fx, fx.lax
        >>> fx.lax.mulhi(fx.tensor(2**40), fx.tensor(2**30))
        tensor(64)
    """
    x, y = _integers("mulhi", x), _integers("mulhi", y)
    if x.dtype != y.dtype:
        raise DTypeError(f"lax.mulhi: dtypes {x.dtype.name} and {y.dtype.name} differ")
    dtype, bits, signed = x.dtype, 8 * x.dtype.itemsize, x.dtype.kind == "i"
    if bits < 64:
        wide = fx.int64 if signed else fx.uint64
        return fx.bitwise_right_shift(x.astype(wide) * y.astype(wide), bits).astype(dtype)  # type: ignore[no-any-return]
    low = 2**32 - 1  # school multiplication of halves, whose products and carries fit
    a, b = x.astype(fx.uint64), y.astype(fx.uint64)
    a1, a0 = fx.bitwise_right_shift(a, 32), fx.bitwise_and(a, low)
    b1, b0 = fx.bitwise_right_shift(b, 32), fx.bitwise_and(b, low)
    middle = a1 * b0 + fx.bitwise_right_shift(a0 * b0, 32)
    carry = a0 * b1 + fx.bitwise_and(middle, low)
    high = a1 * b1 + fx.bitwise_right_shift(middle, 32) + fx.bitwise_right_shift(carry, 32)
    high = high.astype(dtype)
    if signed:  # a negative x stands in ``a`` for x + 2**64, which adds y to the upper half
        zero = fx.zeros((), dtype=dtype, device=x.device)
        high = high - fx.where(x < 0, y, zero) - fx.where(y < 0, x, zero)
    return high  # type: ignore[no-any-return]


# rounding ---------------------------------------------------------------------------------------


class RoundingMethod(enum.Enum):
    """Where ``round`` sends numbers that lie in the middle of two whole ones."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


def round(x: Any, rounding_method: Any = RoundingMethod.AWAY_FROM_ZERO) -> Tensor:
    """The nearest whole number, of two the one farther from zero, or the even one.

    Args:
        x: floating.
        rounding_method: a ``RoundingMethod``.

    Raises:
        DTypeError: for other dtypes.
        ArgumentError: for another method.

    Source: ``jax.lax.round``.

    Example:
        >>> import fx, fx.lax
        >>> fx.lax.round(fx.tensor([-2.5, 0.5, 1.4]))
        tensor([-3.,  1.,  1.])
    """
    x = argument("lax.round", x)
    if x.dtype not in FLOATING:
        raise DTypeError(f"lax.round takes floats, got {x.dtype.name}")
    how = getattr(rounding_method, "name", rounding_method)  # JAX's own constants serve too
    if how == "TO_NEAREST_EVEN":
        return fx.round(x)
    if how != "AWAY_FROM_ZERO":
        raise ArgumentError(
            f"lax.round: the method is lax.RoundingMethod.AWAY_FROM_ZERO or TO_NEAREST_EVEN, got "
            f"{rounding_method!r}"
        )
    whole = fx.trunc(x)
    more = fx.where(abs(x - whole) >= 0.5, fx.sign(x), fx.zeros_like(x))
    return whole + fx.stop_gradient(more)  # type: ignore[no-any-return]


_DIGITS = {float16: (5, 10), bfloat16: (8, 7), fx.float32: (8, 23), fx.float64: (11, 52)}


def reduce_precision(operand: Any, exponent_bits: int, mantissa_bits: int) -> Tensor:
    """Floats rounded to those that a narrower format has, in the dtype that they have.

    Args:
        operand: floating.
        exponent_bits: of the format, at least 1; what is too large for it becomes an infinity, what
            is too small for its normal numbers 0.
        mantissa_bits: of the format, at least 0; of two neighbours the even one.

    Raises:
        DTypeError: for other dtypes.
        ArgumentError: for other numbers of bits.

    Source: ``jax.lax.reduce_precision``. Derivatives pass as they are; JAX's are rounded alike.

    Example:
        >>> import fx, fx.lax
        >>> fx.lax.reduce_precision(fx.tensor([0.1, 1e6]), 5, 10)
        tensor([0.1000,    inf])
    """
    x = argument("lax.reduce_precision", operand)
    if x.dtype not in FLOATING:
        raise DTypeError(f"lax.reduce_precision takes floats, got {x.dtype.name}")
    for word, n, least in (("exponent", exponent_bits, 1), ("mantissa", mantissa_bits, 0)):
        if not isinstance(n, int) or n < least:
            raise ArgumentError(
                f"lax.reduce_precision: {word}_bits is an int from {least} on, got {n!r}"
            )
    return _passing(x, exponent_bits, mantissa_bits)  # type: ignore[no-any-return]


def _rounded(x: Tensor, exponent_bits: int, mantissa_bits: int) -> Tensor:
    exponent, digits = _DIGITS[x.dtype]
    unsigned = _unsigned(x.dtype.itemsize)
    size = bitcast(fx.abs(x), dtype=unsigned)
    less = digits - mantissa_bits
    if less > 0:  # half of the last digit that stays, less a bit where that digit is even
        odd = fx.bitwise_and(fx.bitwise_right_shift(size, less), 1)
        size = size + odd + (2 ** (less - 1) - 1)
        size = fx.bitwise_left_shift(fx.bitwise_right_shift(size, less), less)
    out = bitcast(size, dtype=x.dtype)
    if exponent_bits < exponent:
        bias, new = 2 ** (exponent - 1) - 1, 2 ** (exponent_bits - 1) - 1
        power = fx.bitwise_right_shift(size, digits).astype(fx.int64)
        out = fx.where(power > bias + new, math.inf, out)
        out = fx.where(power <= bias - new, 0.0, out)
    return fx.copysign(fx.where(fx.isnan(x), x, out.astype(x.dtype)), x)


_passing = fx.custom_jvp(_rounded, nondiff_argnums=(1, 2))
_passing.is_closed = True


@_passing.defjvp
def _passing_jvp(exponent_bits: int, mantissa_bits: int, primals: Any, tangents: Any) -> Any:
    return _passing(*primals, exponent_bits, mantissa_bits), tangents[0]


def dtype(x: Any) -> Any:
    """The dtype of a tensor, an array or a number."""
    return argument("lax.dtype", x).dtype


def rng_uniform(a: Any, b: Any, shape: Any) -> Tensor:
    """Numbers drawn evenly from a up to b, by the default generator.

    Args:
        a, b: numbers or tensors () of one dtype, floats or integers.
        shape: of the result.

    Raises:
        DTypeError: for other dtypes.

    Source: ``jax.lax.rng_uniform``.

    Example:
        >>> import fx, fx.lax
        >>> fx.lax.rng_uniform(2.0, 3.0, (2, 3)).shape
        (2, 3)
    """
    a, b = argument("lax.rng_uniform", a), argument("lax.rng_uniform", b)
    if a.dtype != b.dtype or not (a.dtype in FLOATING or is_integral(a.dtype)):
        raise DTypeError(
            f"lax.rng_uniform: a and b are floats or integers of one dtype, got {a.dtype.name} and "
            f"{b.dtype.name}"
        )
    if a.dtype in FLOATING:
        return a + (b - a) * fx.rand(tuple(shape), dtype=a.dtype, device=a.device)  # type: ignore[no-any-return]
    return fx.randint(int(a), int(b), tuple(shape), dtype=a.dtype, device=a.device)
