"""Batch norm on dense arrays (batch, channels, positions): a task is a channel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from fx.backends.cpu.llvm import ir as v
from fx.backends.cpu.llvm.library.blocks import Rows
from fx.backends.cpu.llvm.vecmath.algebra import Num


def emit(module: ir.Module, dtype: Any, name: str) -> None:
    """Add a kernel."""
    words, function = KERNELS[name]
    Rows(module, dtype, name, words, function)


def _lines(
    r: Rows,
    channel: ir.Value,
    shape: Sequence[ir.Value],
    arrays: Sequence[ir.Value],
    body: Callable[..., Sequence[Num] | None],
    sums: int = 0,
) -> list[Num]:
    """``body(i, mask, *lines, *sums)`` over a channel; what it adds to each of the sums."""
    b = r.b
    batch, channels, n = shape

    def line(i: ir.Value, first: ir.Value, last: ir.Value, *carried: ir.Value) -> list[Num]:
        at = b.add(b.mul(i, channels), channel)
        found = [r.row(a, at, n) for a in arrays]
        return r.each(
            last, lambda j, m, *c: body(j, m, *found, *c), [Num(b, x) for x in carried], first
        )

    if not sums:
        v.loop(b, v.const(0), batch, lambda i: line(i, v.const(0), n) and None, name="line")
        return []
    # a stretch is a part of a line, or as many short lines as make one
    stretch = v.const(r.stretch)
    some = b.add(b.udiv(stretch, b.add(n, v.const(1))), v.const(1))
    groups = b.udiv(b.add(batch, b.sub(some, v.const(1))), some)

    def part(first: ir.Value, *carried: ir.Value) -> list[ir.Value]:
        last = v.smaller(b, b.add(first, stretch), n)

        def group(g: ir.Value, *state: ir.Value) -> list[ir.Value]:
            low = b.mul(g, some)
            high = v.smaller(b, b.add(low, some), batch)
            inside = lambda i, *c: [x.v for x in line(i, first, last, *c)]
            now = v.loop(b, low, high, inside, [r.full(0.0).v] * sums, name="line")
            return r.joined(state, [Num(b, x) for x in now])

        return v.loop(b, v.const(0), groups, group, carried, name="group")

    start = [x.v for x in r.nothing(sums)]
    found = v.loop(b, v.const(0), n, part, start, r.stretch, "stretch")
    return r.totals([Num(b, x) for x in found])


def _one(r: Rows, base: ir.Value, channel: ir.Value) -> Num:
    at = v.at(r.b, base, channel, r.kind)
    return r.spread(r.b.load(at, typ=r.kind, align=r.size))


def _put(r: Rows, x: Num, base: ir.Value, channel: ir.Value) -> None:
    lane = r.b.extract_element(x.v, ir.Constant(v.i32, 0))
    r.b.store(lane, v.at(r.b, base, channel, r.kind), align=r.size)


def _moments(
    r: Rows, task: ir.Value, x: ir.Value, mean: ir.Value, variance: ir.Value, *shape: ir.Value
) -> None:
    count = r.count(r.b.mul(shape[0], shape[2]))
    zero = r.full(0.0)
    (total,) = _lines(r, task, shape, [x], lambda i, m, a, t: [t + r.load(a, i, m)], 1)
    middle = total / count

    def squares(i: ir.Value, mask: Any, a: ir.Value, t: Num, u: Num) -> list[Num]:
        centred = r.only(mask, r.load(a, i, mask) - middle, zero)
        return [centred.mad(centred, t), u + centred]

    total, rest = _lines(r, task, shape, [x], squares, 2)
    middle, spread = r.moments(middle, total, rest, count)
    _put(r, middle, mean, task)
    _put(r, spread, variance, task)


def _batch_norm(
    r: Rows, task: ir.Value, x: ir.Value, weight: ir.Value, bias: ir.Value, mean: ir.Value,
    variance: ir.Value, out: ir.Value, eps: Num, *shape: ir.Value,
) -> None:  # fmt: skip
    middle, shift = _one(r, mean, task), _one(r, bias, task)
    scale = 1.0 / (_one(r, variance, task) + eps).sqrt() * _one(r, weight, task)

    def body(i: ir.Value, mask: Any, a: ir.Value, o: ir.Value) -> None:
        r.store((r.load(a, i, mask) - middle) * scale + shift, o, i, mask)

    _lines(r, task, shape, [x, out], body)


def _batch_norm_grad(
    r: Rows, task: ir.Value, ct: ir.Value, x: ir.Value, weight: ir.Value, mean: ir.Value,
    variance: ir.Value, dx: ir.Value, dweight: ir.Value, dbias: ir.Value, eps: Num,
    *shape: ir.Value,
) -> None:  # fmt: skip
    count = r.count(r.b.mul(shape[0], shape[2]))
    middle = _one(r, mean, task)
    spread = 1.0 / (_one(r, variance, task) + eps).sqrt()

    def sums(i: ir.Value, mask: Any, c: ir.Value, a: ir.Value, s: Num, t: Num) -> list[Num]:
        given = r.load(c, i, mask)
        return [s + given, given.mad((r.load(a, i, mask) - middle) * spread, t)]

    s, t = _lines(r, task, shape, [ct, x], sums, 2)
    _put(r, t, dweight, task)
    _put(r, s, dbias, task)
    scale = spread * _one(r, weight, task)
    s, t = s / count, t / count

    def store(i: ir.Value, mask: Any, c: ir.Value, a: ir.Value, d: ir.Value) -> None:
        y = (r.load(a, i, mask) - middle) * spread
        r.store((r.load(c, i, mask) - s - y * t) * scale, d, i, mask)

    _lines(r, task, shape, [ct, x, dx], store)


KERNELS: dict[str, tuple[str, Callable[..., None]]] = {
    "moments": ("aaaiii", _moments),
    "batch_norm": ("aaaaaafiii", _batch_norm),
    "batch_norm_grad": ("aaaaaaaafiii", _batch_norm_grad),
}
