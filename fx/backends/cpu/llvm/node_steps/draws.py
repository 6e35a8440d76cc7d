"""What samples of standard distributions are, with the bits of ``fx.backends.cpu._np_draws``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from fx.backends.cpu.llvm.ir import (
    NARROW,
    at,
    bit_width,
    f32,
    i1,
    i32,
    i64,
    splat,
    storage_type,
    suffix,
    target,
    turns,
)
from fx.backends.cpu.llvm.node_steps import quantiles
from fx.backends.cpu.llvm.vecmath.algebra import Int, Num
from fx.backends.cpu.llvm.vecmath.casts import rounded, store_convert
from fx.dtypes import bfloat16, float16

_OF_UNIT = {
    "exponential": quantiles.exponential,
    "gumbel": quantiles.gumbel,
    "laplace": quantiles.laplace,
    "logistic": quantiles.logistic,
}
_CUT = {float16: -0x2000, bfloat16: -0x10000}  # the bits of a float32 that the dtype has


def below(halves: list[Int], span: Int) -> Int:
    """floor(w * span / 2 ** bits) for a word w of 64 or 128 bits."""
    b = span.b
    wide = ir.IntType(128)

    def product(x: Int) -> Int:
        return x.to(wide, signed=False) * span.to(wide, signed=False)

    w = (halves[0] << 32) | halves[1]
    whole = product(w)
    if len(halves) == 4:
        rest = (halves[2] << 32) | halves[3]
        whole = whole + product(rest).lshr(64)
    return span.eq(0).pick(w, Int(b, b.trunc(whole.lshr(64).v, i64)))


class Truncated:
    """The normal distribution between bounds: the quantile of probabilities in (below, above).

    Args:
        b: the builder.
        below, above: probabilities, of the bounds or, if ``mirrored``, of their negatives.
        lower, upper: the bounds, as the dtype has them.
        mirrored: whether samples are negated, i64.
    """

    def __init__(
        self, b: Any, below: Any, above: Any, lower: Any, upper: Any, mirrored: Any
    ) -> None:
        self.ends = below, above, lower, upper
        self.mirrored = b.icmp_signed("!=", mirrored, i64(0))

    def __call__(self, u: Num, dtype: Any) -> Num:
        """Samples for numbers in (0, 1), rounded to the dtype."""
        b, lanes = u.b, u.type.count
        below, above, lower, upper = (Num(b, splat(b, x, lanes)) for x in self.ends)
        p = below + u * (above - below)
        tail = p.smaller(1.0 - p).larger(1e-300)
        value = quantiles.normal64(p - 0.5, tail)
        value = Num(b, b.select(self.mirrored, (-value).v, value.v))
        if dtype.itemsize < 8:
            value, lower, upper = value.to(f32), lower.to(f32), upper.to(f32)
        return rounded(value, dtype).larger(lower).smaller(upper)


def samples(
    b: Any, family: Any, dtype: Any, words: Sequence[Any], out: Any, start: Any, count: Any
) -> None:
    """Write samples of a family for words of memory, the highest first, from ``start`` on."""
    lanes = max(4, target().vector_bytes // 4)
    kind = ir.VectorType(i32, lanes)
    with turns(b, 0, count, lanes) as i:
        planes = [Int(b, b.load(at(b, x, i, i32), typ=kind, align=4)) for x in words]
        raw = store_convert(b, sample(family, dtype, *planes).v, dtype)
        store_some(b, raw, at(b, out, b.add(start, i), storage_type(dtype)), b.sub(count, i))


def sample(family: Any, dtype: Any, high: Int, low: Int | None = None) -> Num:
    """Samples of a family for words as i32, rounded to the dtype."""
    both = [w.to(i64, signed=False) for w in (high, low) if w is not None]
    if family == "uniform":
        value = quantiles.uniform32(high) if low is None else quantiles.uniform64(*both)
        if dtype in NARROW:  # 1 is never reached
            value = (value.bits() & _CUT[dtype]).as_float()
        return value
    if family == "normal":
        value = quantiles.normal32_of(high) if low is None else quantiles.normal64_of(*both)
        return rounded(value, dtype)
    u = quantiles.open_unit(both[0], None if low is None else both[1])
    if isinstance(family, Truncated):
        return family(u, dtype)
    value = _OF_UNIT[family](u)
    return rounded(value if low is not None else value.to(f32), dtype)


def store_some(b: Any, value: Any, place: Any, count: Any) -> None:
    """Store the first ``count`` lanes, at most all."""
    n = value.type.count
    lane = ir.Constant(ir.VectorType(i64, n), [i64(i) for i in range(n)])
    mask = b.icmp_signed("<", lane, splat(b, count, n))
    name = f"llvm.masked.store.{suffix(value.type)}.p0"
    function = b.module.globals.get(name)
    if function is None:
        kinds = [value.type, place.type, i32, ir.VectorType(i1, n)]
        function = ir.Function(b.module, ir.FunctionType(ir.VoidType(), kinds), name)
    b.call(function, [value, place, i32(_alignment(value)), mask])


def _alignment(value: Any) -> int:
    return bit_width(value.type.element) // 8
