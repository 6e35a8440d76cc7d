"""Arithmetic, relations, logic and bits: each a function of a dtype and of terms of it."""

from __future__ import annotations

from typing import Any

from fx.backends.cpu.llvm.ir import constant, i1, like
from fx.backends.cpu.llvm.vecmath.algebra import Int, Mask, Num
from fx.backends.cpu.llvm.vecmath.casts import rounded


def _unsigned(dtype: Any) -> bool:
    return dtype.kind in "ub"


def truth(x: Any) -> Mask:
    """Whether not zero."""
    return x if isinstance(x, Mask) else x.ne(0)


def add(dtype: Any, x: Any, y: Any) -> Any:
    """x + y; bool: or."""
    return x | y if isinstance(x, Mask) else x + y


def subtract(dtype: Any, x: Any, y: Any) -> Any:
    """x - y."""
    return x - y


def multiply(dtype: Any, x: Any, y: Any) -> Any:
    """x * y; bool: and."""
    return x & y if isinstance(x, Mask) else x * y


def divide(dtype: Any, x: Any, y: Any) -> Any:
    """x / y."""
    return x / y


def negative(dtype: Any, x: Any) -> Any:
    """-x."""
    return -x


def absolute(dtype: Any, x: Any) -> Any:
    """|x|."""
    if isinstance(x, Num):
        return abs(x)
    return x if _unsigned(dtype) else (x < 0).pick(-x, x)


def sign(dtype: Any, x: Any) -> Any:
    """-1, 0 or 1; NaN is NaN."""
    if isinstance(x, Num):
        # -0.0 has the sign 0.0, as in NumPy
        return x.isnan().pick(x, (x > 0.0).pick(1.0, (x < 0.0).pick(-1.0, x.full(0.0))))
    one = x.ne(0).pick(Int(x.b, x.lift(1)), 0)
    return one if _unsigned(dtype) else (x < 0).pick(-1, one)


def square(dtype: Any, x: Any) -> Any:
    """x * x."""
    return x * x


def maximum(dtype: Any, x: Any, y: Any) -> Any:
    """The larger; NaN where either is NaN."""
    if isinstance(x, Mask):
        return x | y
    if isinstance(x, Num):
        return x.isnan().pick(x, (x > y).pick(x, y))
    return (y.below(x) if _unsigned(dtype) else x > y).pick(x, y)


def minimum(dtype: Any, x: Any, y: Any) -> Any:
    """The smaller; NaN where either is NaN."""
    if isinstance(x, Mask):
        return x & y
    if isinstance(x, Num):
        return x.isnan().pick(x, (x < y).pick(x, y))
    return (x.below(y) if _unsigned(dtype) else x < y).pick(x, y)


def relu(dtype: Any, x: Any) -> Any:
    """max(x, 0); NaN stays NaN."""
    if isinstance(x, Num):
        return (x.isnan() | (x > 0.0)).pick(x, 0.0)
    return x if _unsigned(dtype) else (x < 0).pick(0, x)


def _relation(op: str) -> Any:
    def relation(dtype: Any, x: Any, y: Any) -> Mask:
        if isinstance(x, Num):
            compare = x.b.fcmp_unordered if op == "!=" else x.b.fcmp_ordered
        else:
            compare = x.b.icmp_unsigned if _unsigned(dtype) else x.b.icmp_signed
        return Mask(x.b, compare(op, x.v, y.v))

    return relation


equal, not_equal, less, less_equal, greater, greater_equal = map(
    _relation, ("==", "!=", "<", "<=", ">", ">=")
)


def logical_and(dtype: Any, x: Any, y: Any) -> Mask:
    """Both are not zero."""
    return truth(x) & truth(y)


def logical_or(dtype: Any, x: Any, y: Any) -> Mask:
    """One is not zero."""
    return truth(x) | truth(y)


def logical_xor(dtype: Any, x: Any, y: Any) -> Mask:
    """Exactly one is not zero."""
    return truth(x) ^ truth(y)


def logical_not(dtype: Any, x: Any) -> Mask:
    """It is zero."""
    return ~truth(x)


def _constant_mask(x: Any, value: int) -> Mask:
    return Mask(x.b, constant(like(x.type, i1), value))


def isnan(dtype: Any, x: Any) -> Mask:
    """It is NaN."""
    return x.isnan() if isinstance(x, Num) else _constant_mask(x, 0)


def isinf(dtype: Any, x: Any) -> Mask:
    """It is an infinity."""
    return abs(x).eq(float("inf")) if isinstance(x, Num) else _constant_mask(x, 0)


def isfinite(dtype: Any, x: Any) -> Mask:
    """It is neither NaN nor an infinity."""
    return abs(x) < float("inf") if isinstance(x, Num) else _constant_mask(x, 1)


def signbit(dtype: Any, x: Any) -> Mask:
    """Its sign bit is set."""
    if isinstance(x, Num):
        return x.bits() < 0
    return _constant_mask(x, 0) if _unsigned(dtype) else x < 0


def bitwise_and(dtype: Any, x: Any, y: Any) -> Any:
    """Bits set in both."""
    return x & y


def bitwise_or(dtype: Any, x: Any, y: Any) -> Any:
    """Bits set in one."""
    return x | y


def bitwise_xor(dtype: Any, x: Any, y: Any) -> Any:
    """Bits set in exactly one."""
    return x ^ y


def bitwise_not(dtype: Any, x: Any) -> Any:
    """Every bit turned."""
    return ~x if isinstance(x, Mask) else x ^ -1


def left_shift(dtype: Any, x: Any, y: Any) -> Int:
    """x * 2 ** y; 0 for a shift that is negative or no less than the width."""
    fits = y.below(x.width)
    return fits.pick(x << fits.pick(y, 0), 0)


def right_shift(dtype: Any, x: Any, y: Any) -> Int:
    """floor(x / 2 ** y), also for a shift that is negative or no less than the width."""
    most = y.below(x.width).pick(y, x.width - 1)
    if not _unsigned(dtype):
        return x >> most
    return y.below(x.width).pick(x.lshr(most), 0)


def _rounding(name: str) -> Any:
    def rounding(dtype: Any, x: Any) -> Any:
        return x.call(name) if isinstance(x, Num) else x

    return rounding


floor, ceil, trunc, round = map(_rounding, ("floor", "ceil", "trunc", "roundeven"))


def copysign(dtype: Any, x: Num, y: Num) -> Num:
    """|x| with the sign of y."""
    return x.copysign(y)


def sqrt(dtype: Any, x: Num) -> Num:
    """The square root, rounded exactly."""
    return x.sqrt()


def rsqrt(dtype: Any, x: Num) -> Num:
    """1 / sqrt(x), each rounded."""
    return 1.0 / rounded(x.sqrt(), dtype)


def reciprocal(dtype: Any, x: Num) -> Num:
    """1 / x."""
    return 1.0 / x


def nextafter(dtype: Any, x: Num, y: Num) -> Num:
    """The number after x in the direction of y."""
    bits = x.bits()
    away = (x < y) ^ (bits < 0)  # towards larger magnitudes
    step = away.pick(bits + 1, bits - 1).as_float()
    least = x.full(0.0).bits() + 1
    step = x.eq(0.0).pick(least.as_float().copysign(y), step)
    return (x.isnan() | y.isnan()).pick(x + y, x.eq(y).pick(y, step))


def identity(dtype: Any, x: Any) -> Any:
    """x itself."""
    return x
