"""16-bit floats: computed in float32, and on the way to and from memory."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from fx.backends.cpu.llvm.ir.types import NARROW, constant, f16, f32, i16, i32, like
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
        return b.fptrunc(x, like(x.type, f16))
    wide = like(x.type, i32)
    bits = b.bitcast(x, wide)
    odd = b.and_(b.lshr(bits, constant(wide, 16)), constant(wide, 1))
    even = b.add(b.add(bits, constant(wide, 0x7FFF)), odd)  # ties to even
    quiet = b.or_(bits, constant(wide, 0x400000))
    chosen = b.select(b.fcmp_unordered("uno", x, x), quiet, even)
    return b.trunc(b.lshr(chosen, constant(wide, 16)), like(x.type, i16))
