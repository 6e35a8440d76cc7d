"""Cross-entropy along dense rows, with its gradient."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from llvmlite import ir

from fx.backends.cpu.llvm import ir as v
from fx.backends.cpu.llvm.any_size.blocks import Rows
from fx.backends.cpu.llvm.vecmath import exponential, logarithm
from fx.backends.cpu.llvm.vecmath.algebra import Num


def emit(module: ir.Module, dtype: Any, name: str) -> None:
    """Add a kernel."""
    words, function = KERNELS[name]
    Rows(module, dtype, name, words, function)


def _top(r: Rows, x: ir.Value, n: ir.Value) -> Num:
    """The largest element of a row."""
    low = r.full(-math.inf)
    (top,) = r.each(n, lambda i, mask, t: [t.larger(r.only(mask, r.load(x, i, mask), low))], [low])
    return r.largest(top)


def _exp(r: Rows, x: Num) -> Num:
    return r.call("exp", exponential.exp, x)


def _sum_of_exp(r: Rows, x: ir.Value, n: ir.Value, top: Num, keep: ir.Value | None = None) -> Num:
    """The sum of exp(x - top), whose terms are kept at ``keep``."""

    def body(i: ir.Value, mask: Any, total: Num) -> list[Num]:
        term = _exp(r, r.load(x, i, mask) - top)
        if keep is not None:
            r.store(term, keep, i, mask)
        return [total + r.only(mask, term, r.full(0.0))]

    return r.sums(n, body)[0]


# cross-entropy ----------------------------------------------------------------------------------


def _target(r: Rows, y: ir.Value, task: ir.Value) -> ir.Value:
    return r.b.load(v.at(r.b, y, task, v.i64), typ=v.i64, align=8)


def _cross_entropy(
    r: Rows,
    task: ir.Value,
    x: ir.Value,
    y: ir.Value,
    out: ir.Value,
    wrong: ir.Value,
    n: ir.Value,
    ignored: ir.Value,
) -> None:
    """log(sum(exp(x))) - x[y]; 0 where y is ``ignored``; ``wrong`` tells of a y outside."""
    b = r.b
    x = r.row(x, task, n)
    target = _target(r, y, task)
    left_out = b.icmp_signed("==", target, ignored)
    inside = b.icmp_unsigned("<", target, n)
    with b.if_then(b.not_(b.or_(left_out, inside)), likely=False):
        b.store(ir.Constant(v.i64, 1), wrong, align=8)
    top = _top(r, x, n)
    log = r.call("log", logarithm.log, _sum_of_exp(r, x, n, top))
    at = b.select(inside, target, v.const(0))
    here = r.spread(b.load(v.at(b, x, at, r.kind), typ=r.kind, align=r.size))
    loss = b.extract_element((log - (here - top)).v, ir.Constant(v.i32, 0))
    loss = b.select(left_out, ir.Constant(r.kind, 0.0), loss)
    b.store(loss, v.at(b, out, task, r.kind), align=r.size)


def _cross_entropy_grad(
    r: Rows, task: ir.Value, ct: ir.Value, x: ir.Value, y: ir.Value, out: ir.Value, n: ir.Value,
    ignored: ir.Value, step: ir.Value,
) -> None:  # fmt: skip
    """(softmax(x) - [y]) * ct; ``ct`` has one number, with ``step`` 0, or one a row."""
    b = r.b
    x, out = r.row(x, task, n), r.row(out, task, n)
    target = _target(r, y, task)
    left_out = b.icmp_signed("==", target, ignored)
    factor = b.load(v.at(b, ct, b.mul(task, step), r.kind), typ=r.kind, align=r.size)
    factor = b.select(left_out, ir.Constant(r.kind, 0.0), factor)
    scale = r.spread(factor)
    total = _sum_of_exp(r, x, n, _top(r, x, n), out)
    r.each(n, lambda i, mask: r.store(r.load(out, i, mask) / total * scale, out, i, mask))
    with b.if_then(b.not_(left_out)):
        at = v.at(b, out, target, r.kind)
        before = b.load(at, typ=r.kind, align=r.size)
        b.store(b.fsub(before, factor), at, align=r.size)


KERNELS: dict[str, tuple[str, Callable[..., None]]] = {
    "cross_entropy": ("aaaaii", _cross_entropy),
    "cross_entropy_grad": ("aaaaiii", _cross_entropy_grad),
}
