"""Conversions between dtypes, in registers and on the way to and from memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from fx.backends.cpu.llvm.ir import (
    constant,
    element_of,
    f32,
    f64,
    i16,
    i32,
    i64,
    lanes_of,
    like,
    llvm_type,
    storage_type,
    target,
    to_half,
    widen,
)
from fx.backends.cpu.llvm.vecmath.algebra import Int, Mask, Num, Term
from fx.dtypes import FLOATING, bfloat16, bool_, float16


def term(b: Any, value: Any, dtype: Any) -> Any:
    """A register value as the kind of term that its dtype has."""
    if dtype == bool_:
        return Mask(b, value)
    return (Num if dtype in FLOATING else Int)(b, value)


def load_convert(b: Any, raw: Any, dtype: Any) -> Any:
    """The register value of what was loaded from memory."""
    if dtype == bool_:
        return b.icmp_unsigned("!=", raw, constant(raw.type, 0))
    if dtype == bfloat16:
        return widen(b, raw, dtype)
    if dtype == float16:
        return _from_half(Int(b, raw)).v
    return raw


def store_convert(b: Any, value: Any, dtype: Any) -> Any:
    """What is stored to memory for a register value of ``dtype``."""
    if dtype == bool_:
        return b.zext(value, storage_type(dtype, lanes_of(value.type)))
    if dtype == bfloat16:  # rounded before, so the lower half is zero
        return b.trunc(Num(b, value).bits().lshr(16).v, like(value.type, i16))
    if dtype == float16:
        return _to_half(Num(b, value)).v
    return value


def rounded(x: Num, dtype: Any) -> Num:
    """A float32 rounded to what ``dtype`` can hold; other dtypes hold every result as it is."""
    if dtype == bfloat16:
        bits = x.bits()
        up = (bits + ((bits.lshr(16) & 1) + 0x7FFF)) & -0x10000
        return x.isnan().pick((bits & -0x80000000 | 0x7FC00000).as_float(), up.as_float())
    if dtype == float16:
        return Num(x.b, _from_half(_to_half(x)).v)
    return x


def _to_half(x: Num) -> Int:
    b = x.b
    if target().half:
        return Int(b, b.bitcast(to_half(b, x.v), like(x.type, i16)))
    bits = x.bits()
    sign = bits.lshr(16) & 0x8000
    magnitude = bits & 0x7FFFFFFF
    normal = (magnitude + ((magnitude.lshr(13) & 1) + (0xFFF - (112 << 23)))).lshr(13)
    # below 2 ** -14 an addition of 0.5 leaves the multiple of 2 ** -24 in the low bits
    small = (magnitude.as_float() + 0.5).bits() - 0x3F000000
    out = magnitude.below(113 << 23).pick(small, normal)
    out = magnitude.below(0x477FF000).pick(out, 0x7C00)
    out = (magnitude > 0x7F800000).pick(0x7E00, out)
    return (out | sign).to(i16)


def _from_half(h: Int) -> Num:
    b = h.b
    if target().half:
        return Num(b, b.fpext(b.bitcast(h.v, like(h.type, ir.HalfType())), like(h.type, f32)))
    bits = h.to(i32, signed=False)
    sign, magnitude = (bits & 0x8000) << 16, bits & 0x7FFF
    normal = (magnitude << 13) + (112 << 23)
    special = normal + (112 << 23)
    small = (magnitude.to_float(f32) * 2.0**-24).bits()
    out = (magnitude < 0x400).pick(small, (magnitude >= 0x7C00).pick(special, normal))
    return (out | sign).as_float()


def convert(x: Any, source: Any, dtype: Any) -> Any:
    """A term of dtype ``source`` as one of ``dtype``, as the eager kernel converts it."""
    b = x.b
    if source == dtype:
        return x
    if dtype == bool_:
        return x.ne(0)
    target = element_of(llvm_type(dtype))
    if source == bool_:
        if dtype in FLOATING:
            return Mask(b, x.v).pick(Num(b, constant(like(x.type, target), 1)), 0.0)
        return Int(b, b.zext(x.v, like(x.type, target)))
    if source in FLOATING:
        if dtype not in FLOATING:
            return _to_integer(x, dtype)
        if source == np.float64 and dtype == float16:
            x = _round_to_odd(x)
        return rounded(x.to(target), dtype)
    if dtype in FLOATING:
        return rounded(x.to_float(target, signed=source.kind == "i"), dtype)
    return x.to(target, signed=source.kind == "i")


def _round_to_odd(x: Num) -> Num:
    """A float64 that converts to float32, and then to float16, as if at once."""
    bits = x.bits()
    sticky = (bits & 0x1FFFFFFF).ne(0)
    odd = ((bits & -0x20000000) | 0x20000000).as_float()
    return (sticky & ~x.isnan()).pick(odd, x)


def _to_integer(x: Num, dtype: Any) -> Int:
    """What the CPU's conversion gives: truncated; the least integer where it does not fit."""
    bits = 8 * dtype.itemsize
    if bits <= 16 or dtype == np.int32:
        return _truncated(x, i32).to(ir.IntType(bits))
    if dtype == np.uint64:
        x = x if x.width == 64 else x.to(f64)
        high = x >= 2.0**63
        low = _truncated(high.pick(x - 2.0**63, x), i64)
        return low ^ high.pick(Int(x.b, constant(low.type, -(2**63))), 0)
    return _truncated(x, i64).to(ir.IntType(bits))


def _truncated(x: Num, scalar: ir.IntType) -> Int:
    limit = 2.0 ** (scalar.width - 1)
    fits = (x >= -limit) & (x < limit)
    if scalar.width == 32 and x.width == 64:  # -2147483648.5 is cut to a number that fits
        fits = (x > -limit - 1.0) & (x < limit)
    return fits.pick(fits.pick(x, 0.0).to_int(scalar), -(2 ** (scalar.width - 1)))


__all__ = ["Term", "convert", "load_convert", "rounded", "store_convert", "term"]
