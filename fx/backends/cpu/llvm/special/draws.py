"""Samples of standard distributions, with the bits of ``fx.backends.cpu.draws``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir

from fx.backends.cpu.llvm.ir import (
    NARROW,
    Frame,
    at,
    bit_width,
    f32,
    i1,
    i8,
    i32,
    i64,
    load_item,
    splat,
    storage_type,
    store_item,
    suffix,
    target,
    turns,
)
from fx.backends.cpu.llvm.special import quantiles
from fx.backends.cpu.llvm.special.kernel import has_elements
from fx.backends.cpu.llvm.special.philox import Words, buffer_bytes, drawing, fill
from fx.backends.cpu.llvm.vecmath.algebra import Int, Num
from fx.backends.cpu.llvm.vecmath.casts import rounded, store_convert
from fx.compiler.step import Step
from fx.dtypes import bfloat16, float16, uint32
from fx.graph.ir import Node

_OF_UNIT = {
    "exponential": quantiles.exponential,
    "gumbel": quantiles.gumbel,
    "laplace": quantiles.laplace,
    "logistic": quantiles.logistic,
}
_PRICE = {"uniform": (0.6, 1.2), "normal": (1.6, 14.0)}  # nanoseconds a sample
_CUT = {float16: -0x2000, bfloat16: -0x10000}  # the bits of a float32 that the dtype has


def random_draw(node: Node) -> Step | None:
    """Samples: key (*B, 6) -> (*B, *shape)."""
    if not has_elements(node):
        return None
    family, dtype = node.params["family"], node.params["dtype"]
    n = math.prod(node.params["shape"])
    wide = dtype == np.float64
    lanes = max(4, target().vector_bytes // 4)

    def piece(frame: Frame, own: Words, row: Any, start: Any, count: Any) -> None:
        b = frame.b
        high, low = frame.scratch, None
        fill(b, own, b.udiv(start, i64(4)), count, high)
        if wide:
            low = at(b, high, buffer_bytes(), i8)
            first, skip = b.add(start, i64(n)), n % 4  # start is a multiple of 4
            fill(b, own, b.udiv(first, i64(4)), b.add(count, i64(skip)), low)
            low = at(b, low, 4 * skip, i8)
        target = b.add(b.mul(row, i64(n)), start)
        with turns(b, 0, count, lanes) as i:
            found = [None if x is None else words(b, x, i, lanes) for x in (high, low)]
            value = sample(family, dtype, *found)
            raw = store_convert(b, value.v, dtype)
            store_some(
                b,
                raw,
                at(b, frame.writes[0], b.add(target, i), storage_type(dtype)),
                b.sub(count, i),
            )

    price = _PRICE.get(family, (2.5, 3.0))[wide]
    return drawing(node, n, piece, buffers=1 + wide, price=price)


def random_below(node: Node) -> Step | None:
    """Whole numbers in [0, span), where 0 stands for 2 ** 64: key (*B, 6) -> (*B, *shape)."""
    span, out = node.inputs[1].spec, node.out.spec
    if not has_elements(node) or (span.size != 1 and span.shape != out.shape):
        return None
    n, planes = math.prod(node.params["shape"]), node.params["planes"]

    def piece(frame: Frame, own: Words, row: Any, start: Any, count: Any) -> None:
        b = frame.b
        places = []
        for plane in range(planes):
            buffer = at(b, frame.scratch, plane * buffer_bytes(), i8)
            first, skip = b.add(start, i64(plane * n)), plane * n % 4
            fill(b, own, b.udiv(first, i64(4)), b.add(count, i64(skip)), buffer)
            places.append(at(b, buffer, 4 * skip, i8))
        target = b.add(b.mul(row, i64(n)), start)
        with turns(b, 0, count) as i:
            here = b.add(target, i)
            size = load_item(b, frame.reads[1], i64(0) if span.size == 1 else here, span.dtype)
            halves = [
                Int(b, load_item(b, word, i, uint32)).to(i64, signed=False) for word in places
            ]
            store_item(b, below(halves, Int(b, size)).v, frame.writes[0], here, out.dtype)

    return drawing(node, n, piece, buffers=planes, price=0.6 * planes + 1.0)


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


def words(b: Any, buffer: Any, i: Any, lanes: int) -> Int:
    """Words from a buffer, as a vector."""
    kind = ir.VectorType(i32, lanes)
    return Int(b, b.load(at(b, buffer, i, i32), typ=kind, align=4))


def sample(family: str, dtype: Any, high: Int, low: Int | None) -> Num:
    """Samples of a family for words as i32, rounded to the dtype."""
    both = [w.to(i64, signed=False) for w in (high, low) if w is not None]
    if family == "uniform":
        value = quantiles.uniform32(high) if low is None else quantiles.uniform64(*both)
        if dtype in NARROW:  # 1 is never reached
            value = (value.bits() & _CUT[dtype]).as_float()
        return value
    if family == "normal":
        value = quantiles.normal32_of(high) if low is None else quantiles.normal64_of(*both)
    else:
        u = quantiles.open_unit(both[0], None if low is None else both[1])
        value = _OF_UNIT[family](u)
        value = value if low is not None else value.to(f32)
    return rounded(value, dtype)


def store_some(b: Any, value: Any, target: Any, count: Any) -> None:
    """Store the first ``count`` lanes, at most all."""
    n = value.type.count
    lane = ir.Constant(ir.VectorType(i64, n), [i64(i) for i in range(n)])
    mask = b.icmp_signed("<", lane, splat(b, count, n))
    name = f"llvm.masked.store.{suffix(value.type)}.p0"
    function = b.module.globals.get(name)
    if function is None:
        kinds = [value.type, target.type, i32, ir.VectorType(i1, n)]
        function = ir.Function(b.module, ir.FunctionType(ir.VoidType(), kinds), name)
    b.call(function, [value, target, i32(_alignment(value)), mask])


def _alignment(value: Any) -> int:
    return bit_width(value.type.element) // 8
