"""``where`` on dense arrays: a task is a block of elements."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from fx import limits
from fx.backends.cpu.llvm.gemm import vectors as v
from fx.backends.cpu.llvm.library.blocks import Rows
from fx.backends.cpu.llvm.vecmath.algebra import Num


def emit(module: ir.Module, dtype: Any, name: str) -> None:
    """Add the kernel of ``condition x y out n``.

    ``name`` has a letter for x and one for y: ``a`` where it is an array, ``f`` where a number.
    """
    Rows(module, dtype, name, f"a{name}ai", _block)


def _block(
    r: Rows, task: ir.Value, condition: ir.Value, x: Any, y: Any, out: ir.Value, n: ir.Value
) -> None:
    b = r.b
    first = b.mul(task, v.const(limits.FUSED_BLOCK))
    count = v.smaller(b, b.sub(n, first), v.const(limits.FUSED_BLOCK))
    condition = v.at(b, condition, first, v.i8)
    out = v.at(b, out, first, r.kind)
    x, y = [c if isinstance(c, Num) else v.at(b, c, first, r.kind) for c in (x, y)]

    def body(i: ir.Value, mask: Any) -> None:
        told = v.load(b, v.at(b, condition, i, v.i8), v.i8, r.width, mask)
        chosen = b.icmp_unsigned("!=", told, v.zeros(v.i8, r.width))
        yes, no = [c if isinstance(c, Num) else r.load(c, i, mask) for c in (x, y)]
        r.store(Num(b, b.select(chosen, yes.v, no.v)), out, i, mask)

    r.each(count, body)
