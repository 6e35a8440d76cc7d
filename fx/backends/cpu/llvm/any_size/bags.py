"""Sums of the rows of a table that indices name, a bag of indices a task."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from fx.backends.cpu.llvm import ir as v
from fx.backends.cpu.llvm.any_size.blocks import Rows


def emit(module: ir.Module, dtype: Any, name: str) -> None:
    """Add ``sum``, whose words are ``x idx out rows n width bad``."""
    Rows(module, dtype, name, "aaaiiia", _sum)


def _sum(
    r: Rows, task: ir.Value, x: ir.Value, idx: ir.Value, out: ir.Value, rows: ir.Value,
    n: ir.Value, width: ir.Value, bad: ir.Value,
) -> None:  # fmt: skip
    """out[task] is the sum of the rows of x (rows, width) that idx[task] (n,) names.

    Of a bag that names a row that there is not, ``bad`` gets the number.
    """
    b = r.b
    own, target = v.at(b, idx, b.mul(task, n), v.i64), r.row(out, task, width)

    def columns(i: ir.Value, mask: Any) -> None:
        def added(j: ir.Value, total: ir.Value) -> list[ir.Value]:
            k = b.load(v.at(b, own, j, v.i64), typ=v.i64, align=8)
            inside = b.icmp_unsigned("<", k, rows)
            with b.if_then(b.not_(inside), likely=False):
                b.store(task, bad, align=8)
            row = r.row(x, b.select(inside, k, v.const(0)), width)
            return [b.fadd(total, r.load(row, i, mask).v)]

        start = [v.zeros(r.kind, r.width)]
        (total,) = v.loop(b, v.const(0), n, added, start, name="index")
        v.store(b, total, v.at(b, target, i, r.kind), mask)

    r.each(width, columns)
