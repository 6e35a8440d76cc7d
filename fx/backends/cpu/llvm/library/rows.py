"""Softmax, its logarithm, layer norm and cross-entropy along dense rows, with their gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from llvmlite import ir

from fx.backends.cpu.llvm import ir as v
from fx.backends.cpu.llvm.library.blocks import Rows
from fx.backends.cpu.llvm.vecmath import exponential, logarithm
from fx.backends.cpu.llvm.vecmath.algebra import Num


def emit(module: ir.Module, dtype: Any, name: str) -> None:
    """Add a kernel."""
    words, function = KERNELS[name]
    Rows(module, dtype, name, words, function)


# softmax ----------------------------------------------------------------------------------------


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


def _softmax(r: Rows, task: ir.Value, x: ir.Value, out: ir.Value, n: ir.Value) -> None:
    x, out = r.row(x, task, n), r.row(out, task, n)
    total = _sum_of_exp(r, x, n, _top(r, x, n), out)
    r.each(n, lambda i, mask: r.store(r.load(out, i, mask) / total, out, i, mask))


def _log_softmax(r: Rows, task: ir.Value, x: ir.Value, out: ir.Value, n: ir.Value) -> None:
    x, out = r.row(x, task, n), r.row(out, task, n)
    top = _top(r, x, n)
    log = r.call("log", logarithm.log, _sum_of_exp(r, x, n, top))
    r.each(n, lambda i, mask: r.store(r.load(x, i, mask) - top - log, out, i, mask))


def _softmax_grad(
    r: Rows, task: ir.Value, ct: ir.Value, y: ir.Value, out: ir.Value, n: ir.Value
) -> None:
    ct, y, out = (r.row(a, task, n) for a in (ct, y, out))
    (dot,) = r.sums(n, lambda i, m, t: [t + r.load(ct, i, m) * r.load(y, i, m)])
    r.each(n, lambda i, m: r.store(r.load(y, i, m) * (r.load(ct, i, m) - dot), out, i, m))


def _log_softmax_grad(
    r: Rows, task: ir.Value, ct: ir.Value, y: ir.Value, out: ir.Value, n: ir.Value
) -> None:
    ct, y, out = (r.row(a, task, n) for a in (ct, y, out))
    (total,) = r.sums(n, lambda i, m, t: [t + r.load(ct, i, m)])
    r.each(n, lambda i, m: r.store(r.load(ct, i, m) - _exp(r, r.load(y, i, m)) * total, out, i, m))


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


# layer norm -------------------------------------------------------------------------------------


def _statistics(r: Rows, x: ir.Value, n: ir.Value, eps: Num) -> tuple[Num, Num]:
    """The mean of a row, and 1 over its standard deviation."""
    count = r.count(n)
    (total,) = r.sums(n, lambda i, mask, t: [t + r.load(x, i, mask)])
    mean = total / count

    def squares(i: ir.Value, mask: Any, t: Num, u: Num) -> list[Num]:
        centred = r.only(mask, r.load(x, i, mask) - mean, r.full(0.0))
        return [centred.mad(centred, t), u + centred]

    mean, variance = r.moments(mean, *r.sums(n, squares, 2), count)
    return mean, 1.0 / (variance + eps).sqrt()


def _layer_norm(
    r: Rows,
    task: ir.Value,
    x: ir.Value,
    weight: ir.Value,
    bias: ir.Value,
    out: ir.Value,
    n: ir.Value,
    eps: Num,
) -> None:
    x, out = r.row(x, task, n), r.row(out, task, n)
    mean, scale = _statistics(r, x, n, eps)

    def body(i: ir.Value, mask: Any) -> None:
        y = (r.load(x, i, mask) - mean) * scale
        r.store(y * r.load(weight, i, mask) + r.load(bias, i, mask), out, i, mask)

    r.each(n, body)


def _layer_norm_grad(
    r: Rows, task: ir.Value, ct: ir.Value, x: ir.Value, weight: ir.Value, dx: ir.Value,
    sums: ir.Value, n: ir.Value, eps: Num, rows: ir.Value, block: ir.Value,
) -> None:  # fmt: skip
    """A task is ``block`` rows; their sums for weight and bias are rows 2 * task and on of sums."""
    b = r.b
    first = b.mul(task, block)
    last = v.smaller(b, b.add(first, block), rows)
    for_weight = r.row(sums, b.mul(task, v.const(2)), n)
    for_bias = v.at(b, for_weight, n, r.kind)
    zero = r.full(0.0)

    def clear(i: ir.Value, mask: Any) -> None:
        r.store(zero, for_weight, i, mask)
        r.store(zero, for_bias, i, mask)

    r.each(n, clear)

    def row(i: ir.Value) -> None:
        c, a, d = (r.row(base, i, n) for base in (ct, x, dx))
        mean, scale = _statistics(r, a, n, eps)

        def sums_of(j: ir.Value, mask: Any, t: Num, s: Num) -> list[Num]:
            g = r.load(c, j, mask) * r.load(weight, j, mask)
            return [t + g, g.mad((r.load(a, j, mask) - mean) * scale, s)]

        count = r.count(n)
        t, s = (x / count for x in r.sums(n, sums_of, 2))

        def store(j: ir.Value, mask: Any) -> None:
            given = r.load(c, j, mask)
            y = (r.load(a, j, mask) - mean) * scale
            g = given * r.load(weight, j, mask)
            r.store((g - t - y * s) * scale, d, j, mask)
            r.store(given.mad(y, r.load(for_weight, j, mask)), for_weight, j, mask)
            r.store(r.load(for_bias, j, mask) + given, for_bias, j, mask)

        r.each(n, store)

    v.loop(b, first, last, row, name="row")


KERNELS: dict[str, tuple[str, Callable[..., None]]] = {
    "softmax": ("aai", _softmax),
    "log_softmax": ("aai", _log_softmax),
    "softmax_grad": ("aaai", _softmax_grad),
    "log_softmax_grad": ("aaai", _log_softmax_grad),
    "cross_entropy": ("aaaaii", _cross_entropy),
    "cross_entropy_grad": ("aaaaiii", _cross_entropy_grad),
    "layer_norm": ("aaaaif", _layer_norm),
    "layer_norm_grad": ("aaaaaifii", _layer_norm_grad),
}
