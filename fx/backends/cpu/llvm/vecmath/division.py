"""Quotients that are whole numbers and what they leave: floor_divide, remainder, fmod."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from fx.backends.cpu.llvm.ir import f32, f64, i64
from fx.backends.cpu.llvm.vecmath.algebra import Int, Mask, Num, rarely
from fx.backends.cpu.llvm.vecmath.exponential import scaled
from fx.backends.cpu.llvm.vecmath.outlined import lane_by_lane, outlined

_INF = float("inf")
_FAR = 2.0**52  # quotients below it are known to one


def fmod(dtype: Any, x: Any, y: Any) -> Any:
    """What truncated division leaves: the sign of x; integers give 0 for a divisor of 0."""
    if isinstance(x, Num):
        return outlined("fmod", _fmod, x, y)
    return _divided(dtype, x, y)[1]


def remainder(dtype: Any, x: Any, y: Any) -> Any:
    """What floor division leaves: the sign of y; integers give 0 for a divisor of 0."""
    if isinstance(x, Num):
        return outlined("remainder", _remainder, x, y)
    rest = _divided(dtype, x, y)[1]
    if dtype.kind == "u":
        return rest
    return (rest.ne(0) & ((rest ^ y) < 0)).pick(rest + y, rest)


def floor_divide(dtype: Any, x: Any, y: Any) -> Any:
    """The quotient rounded down; integers give 0 for a divisor of 0."""
    if isinstance(x, Num):
        return outlined("floor_divide", _floor_divide, x, y)
    quotient, rest = _divided(dtype, x, y)
    if dtype.kind == "u":
        return quotient
    return (rest.ne(0) & ((rest ^ y) < 0)).pick(quotient - 1, quotient)


def _divided(dtype: Any, x: Int, y: Int) -> tuple[Int, Int]:
    """The truncated quotient and what it leaves; both 0 for a divisor of 0."""
    b = x.b
    none = y.eq(0)
    if dtype.kind == "u":
        divisor = none.pick(1, y)
        quotient = Int(b, b.udiv(x.v, divisor.v))
    else:
        turned = y.eq(-1)  # the least number over -1 overflows, and wraps to itself
        divisor = (none | turned).pick(1, y)
        quotient = Int(b, b.sdiv(x.v, divisor.v))
        quotient = turned.pick(-quotient, quotient)
        divisor = turned.pick(-1, divisor)
    return none.pick(0, quotient), none.pick(0, x - quotient * divisor)


def _fmod(x: Num, y: Num) -> Num:
    if x.width == 32:
        # the fence keeps LLVM from rounding straight to 16 bits, for which there is no instruction
        return _fmod(x.to(f64), y.to(f64)).to(f32).call("arithmetic.fence")
    a, b = abs(x), abs(y)
    quotient = (a / b).call("trunc")
    rest = (-quotient).fma(b, a)  # exact
    rest = (rest < 0.0).pick(rest + b, rest)
    rest = (rest >= b).pick(rest - b, rest)
    bounded = (a < _INF) & (b > 0.0)
    rest = b.eq(_INF).pick(a, rest)
    rare = bounded & (b < _INF) & ~(quotient < _FAR)
    (rest,) = rarely(rare, lambda: lane_by_lane("long_fmod", _long_fmod, a, b), rest)
    return bounded.pick(rest.copysign(x), float("nan"))


def _decoded(x: Num) -> tuple[Int, Int]:
    """m in [2 ** 52, 2 ** 53) and e with x = m * 2 ** (e - 1075), for a positive float64."""
    b = x.b
    bits = x.bits()
    e, m = bits.lshr(52), bits & (2**52 - 1)
    zeros = Int(b, b.ctlz(m.v, ir.Constant(ir.IntType(1), 0))) - 11
    tiny = e.eq(0)
    return tiny.pick(m << (zeros & 63), m | 2**52), tiny.pick(1 - zeros, e)


def _long_fmod(x: Num, y: Num) -> tuple[Num]:
    """fmod of positive finite scalars, eleven bits of the quotient a round; x where x < y."""
    b = x.b
    m, e = _decoded(x)
    n, f = _decoded(y)
    divisor = (n | n.eq(0).pick(Int(b, i64(1)), 0)).v  # no lane divides by zero, wanted or not
    first = b.urem(m.v, divisor)
    entry = b.block
    loop, body, done = (b.append_basic_block(s) for s in ("loop", "body", "done"))
    count = (e - f).v
    b.branch(loop)
    b.position_at_end(loop)
    left, rest = b.phi(i64), b.phi(i64)
    left.add_incoming(count, entry)
    rest.add_incoming(first, entry)
    b.cbranch(b.icmp_signed(">", left, i64(0)), body, done)
    b.position_at_end(body)
    step = b.select(b.icmp_signed("<", left, i64(11)), left, i64(11))
    rest.add_incoming(b.urem(b.shl(rest, step), divisor), body)
    left.add_incoming(b.sub(left, step), body)
    b.branch(loop)
    b.position_at_end(done)
    out = scaled(Int(b, rest).to_float(f64), f - 1075)
    return ((x < y).pick(x, out),)


def _remainder(x: Num, y: Num) -> Num:
    return _modulo(x, y)[0]


def _modulo(x: Num, y: Num) -> tuple[Num, Num, Mask]:
    """The remainder with the sign of y, fmod, and whether they differ."""
    rest = outlined("fmod", _fmod, x, y)
    other = rest.ne(0.0) & ((y < 0.0) ^ (rest < 0.0))
    out = other.pick(rest + y, rest)
    return rest.eq(0.0).pick(rest.full(0.0).copysign(y), out), rest, other


def _floor_divide(x: Num, y: Num) -> Num:
    _, rest, other = _modulo(x, y)
    quotient = (x - rest) / y
    quotient = other.pick(quotient - 1.0, quotient)
    whole = quotient.call("floor")
    whole = (quotient - whole > 0.5).pick(whole + 1.0, whole)
    whole = quotient.eq(0.0).pick(quotient.full(0.0).copysign(x / y), whole)
    return y.eq(0.0).pick(x / y, whole)
