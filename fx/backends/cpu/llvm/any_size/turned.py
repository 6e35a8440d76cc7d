"""Rows of a dense array read backwards: a task is a block of one."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from fx import limits
from fx.backends.cpu.llvm import ir as v
from fx.backends.cpu.llvm.any_size.blocks import Rows


def emit(module: ir.Module, dtype: Any, name: str) -> None:
    """Add the kernel: ``x out n blocks``, of rows of n elements, each in so many blocks."""
    Rows(module, dtype, name, "aaii", _backwards)


def _backwards(
    r: Rows, task: ir.Value, x: ir.Value, out: ir.Value, n: ir.Value, blocks: ir.Value
) -> None:
    """out[row, i] is x[row, n - 1 - i]."""
    b, block = r.b, v.const(limits.FUSED_BLOCK)
    row = b.udiv(task, blocks)
    first = b.mul(b.sub(task, b.mul(row, blocks)), block)
    x, out = r.row(x, row, n), r.row(out, row, n)
    end = v.smaller(b, b.add(first, block), n)
    whole = b.sub(end, b.and_(b.sub(end, first), v.const(r.width - 1)))

    def move(i: ir.Value, lanes: int | None) -> None:
        source = v.at(b, x, b.sub(n, b.add(i, v.const(lanes or 1))), r.kind)
        found = v.load(b, source, r.kind, lanes)
        v.store(b, v.backwards(b, found) if lanes else found, v.at(b, out, i, r.kind))

    v.loop(b, first, whole, lambda i: move(i, r.width), step=r.width, name="vectors")
    v.loop(b, whole, end, lambda i: move(i, None), name="rest")
