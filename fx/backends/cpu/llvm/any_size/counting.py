"""Numbers evenly apart: start + step * i, each computed in float64 and rounded once."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from fx import limits
from fx.backends.cpu.llvm import ir as v
from fx.backends.cpu.llvm.any_size.blocks import Rows
from fx.backends.cpu.llvm.vecmath.algebra import Num


def emit(module: ir.Module, dtype: Any, name: str) -> None:
    """Add the kernel: ``out start step n``, of two floats, in blocks of n numbers."""
    Rows(module, dtype, name, "aaai", _line)


def _line(
    r: Rows, task: ir.Value, out: ir.Value, start: ir.Value, step: ir.Value, n: ir.Value
) -> None:
    b, kind = r.b, ir.VectorType(v.f64, r.width)
    first = b.mul(task, v.const(limits.FUSED_BLOCK))
    count = v.smaller(b, b.sub(n, first), v.const(limits.FUSED_BLOCK))
    out = v.at(b, out, first, r.kind)
    low, gap = [Num(b, v.splat(b, b.load(p, typ=v.f64), r.width)) for p in (start, step)]
    begin = v.splat(b, b.sitofp(first, v.f64), r.width)
    places = Num(b, begin) + Num(b, ir.Constant(kind, [float(i) for i in range(r.width)]))

    def put(i: ir.Value, mask: Any, places: Num) -> list[Num]:
        found = (low + gap * places).to(r.kind)
        v.store(b, found.v, v.at(b, out, i, r.kind), mask)
        return [places + float(r.width)]

    r.each(count, put, [places])
