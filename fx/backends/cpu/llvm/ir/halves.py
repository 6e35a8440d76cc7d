"""16-bit floats: computed in float32, and on the way to and from memory."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from fx.backends.cpu.llvm.ir.types import (
    NARROW,
    constant,
    f16,
    f32,
    i16,
    i32,
    intrinsic,
    like,
)
from fx.backends.cpu.llvm.machines import target
from fx.dtypes import float16


def widen(b: ir.IRBuilder, x: Any, dtype: Any) -> Any:
    """A vector or scalar as it lies in memory, in the type in which it is computed."""
    if dtype not in NARROW:
        return x
    if dtype == float16:
        return b.fpext(x, like(x.type, f32))
    wide = like(x.type, i32)
    return b.bitcast(b.shl(b.zext(x, wide), constant(wide, 16)), like(x.type, f32))


def narrow(b: ir.IRBuilder, x: Any, dtype: Any) -> Any:
    """A vector or scalar as it was computed, rounded to what ``dtype`` stores."""
    if dtype not in NARROW:
        return x
    if dtype == float16:
        return to_half(b, x)
    wide = like(x.type, i32)
    bits = b.bitcast(x, wide)
    odd = b.and_(b.lshr(bits, constant(wide, 16)), constant(wide, 1))
    even = b.add(b.add(bits, constant(wide, 0x7FFF)), odd)  # ties to even
    quiet = b.or_(bits, constant(wide, 0x400000))
    chosen = b.select(b.fcmp_unordered("uno", x, x), quiet, even)
    return b.trunc(b.lshr(chosen, constant(wide, 16)), like(x.type, i16))


def to_half(b: ir.IRBuilder, x: Any) -> Any:
    """A vector or scalar of float32, rounded to float16.

    For a scalar x86 is told its instruction: of what becomes the sign of a ``half`` LLVM forgets
    that it was a float32 between float64 and float16, and calls ``__truncdfhf2``, which few
    processes have.
    """
    machine = target()
    if not machine.half or not machine.is_x86 or isinstance(x.type, ir.VectorType):
        return b.fptrunc(x, like(x.type, f16))
    four = ir.VectorType(f32, 4)
    lanes = b.insert_element(ir.Constant(four, ir.Undefined), x, i32(0))
    as_the_cpu_rounds = i32(4)
    args = [lanes, as_the_cpu_rounds]
    found = intrinsic(b, "x86", ir.VectorType(i16, 8), args, "vcvtps2ph.128")
    return b.bitcast(b.extract_element(found, i32(0)), f16)
