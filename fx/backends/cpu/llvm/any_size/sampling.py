"""Bilinear samples of images: lanes are points, and a task is a block of the points of an image.

A point has two places and shares along each axis; what lies outside is 0 and is not loaded.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from llvmlite import ir

from fx.backends.cpu.llvm import ir as v
from fx.backends.cpu.llvm.any_size.blocks import Rows
from fx.backends.cpu.llvm.vecmath.algebra import Int, Mask, Num


def emit(module: ir.Module, dtype: Any, name: str) -> None:
    """Add the kernel: ``x grid out channels h w points block corners border``."""
    Rows(module, dtype, name, "aaaiiiiiii", _sample)


class _Taps(NamedTuple):
    """The two neighbours of places along an axis: the first, which are inside, their shares."""

    first: Int
    inside: tuple[Mask, Mask]
    shares: tuple[Num, Num]


class _Axis:
    """An axis of n elements."""

    def __init__(self, r: Rows, n: ir.Value, corners: ir.Value, border: ir.Value) -> None:
        b = r.b
        size = b.sitofp(n, r.kind)
        one, half, zero = (ir.Constant(r.kind, x) for x in (1.0, 0.5, 0.0))
        last = b.fsub(size, one)
        lanes = lambda x: Num(b, v.splat(b, x, r.width))
        # a place is ((u + 1) * scale - less) * by
        self.scale = lanes(b.select(corners, b.fmul(last, half), size))
        self.less = lanes(b.select(corners, zero, one))
        self.by = lanes(b.select(corners, one, half))
        self.size, self.last = lanes(size), lanes(last)
        self.n = Int(b, v.splat(b, b.trunc(n, v.i32), r.width))
        self.border = Mask(b, v.splat(b, border, r.width))

    def taps(self, u: Num) -> _Taps:
        """The neighbours of the points ``u``."""
        place = ((u + 1.0) * self.scale - self.less) * self.by
        # a NaN is brought to the first element, as in PyTorch
        brought = (place > 0.0).pick(place, 0.0)
        brought = (brought >= self.last).pick(self.last, brought)
        place = self.border.pick(brought, place)
        near = (place > -1.0) & (place < self.size)
        place = near.pick(place, 0.0)
        floor = place.call("floor")
        share = place - floor
        first = floor.to_int(v.i32)
        inside = near & (first >= 0), near & (first + 1 < self.n)
        return _Taps(first, inside, (1.0 - share, share))


def _sample(
    r: Rows, task: ir.Value, x: ir.Value, grid: ir.Value, out: ir.Value, channels: ir.Value,
    h: ir.Value, w: ir.Value, points: ir.Value, block: ir.Value, corners: ir.Value,
    border: ir.Value,
) -> None:  # fmt: skip
    """Values out (batch, channels, points) of x (batch, channels, h * w), below 2 ** 31 elements.

    The grid is (batch, points, 2).
    """
    b, width = r.b, r.width
    corners, border = (b.icmp_signed("!=", flag, v.const(0)) for flag in (corners, border))
    across, down = (_Axis(r, n, corners, border) for n in (w, h))
    pitch = Int(b, v.splat(b, b.trunc(w, v.i32), width))
    blocks = b.udiv(b.sub(b.add(points, block), v.const(1)), block)
    image = b.udiv(task, blocks)
    begin = b.mul(b.sub(task, b.mul(image, blocks)), block)
    count = v.smaller(b, block, b.sub(points, begin))
    plane = b.mul(h, w)
    planes = r.row(x, b.mul(image, channels), plane)
    given = r.row(grid, b.add(b.mul(image, points), begin), v.const(2))
    values = v.at(b, r.row(out, b.mul(image, channels), points), begin, r.kind)

    def some(i: ir.Value, mask: Any) -> None:
        at = b.mul(i, v.const(2))
        masks: list[Any] = [None, None]
        if mask is not None:
            left = b.mul(b.sub(count, i), v.const(2))
            masks = [v.first_lanes(b, b.sub(left, v.const(k)), width) for k in (0, width)]
        pairs = [r.load(given, b.add(at, v.const(k)), m).v for k, m in zip((0, width), masks)]
        u, t = (Num(b, v.shuffle(b, *pairs, range(k, 2 * width, 2))) for k in (0, 1))
        xs, ys = across.taps(u), down.taps(t)
        corner = ys.first * pitch + xs.first
        taps = []
        for k, step in ((0, 0), (1, pitch)):
            for j in (0, 1):
                live = ys.inside[k] & xs.inside[j]
                if mask is not None:
                    live = live & Mask(b, mask)
                taps.append((corner + step + j, live.v, ys.shares[k] * xs.shares[j]))

        def channel(c: ir.Value) -> None:
            base, total = r.row(planes, c, plane), None
            for place, live, share in taps:
                kind = ir.VectorType(r.kind, width)
                term = Num(b, v.gather(b, base, place.v, live, kind)) * share
                total = term if total is None else total + term
            v.store(b, total.v, v.at(b, r.row(values, c, points), i, r.kind), mask)

        v.loop(b, v.const(0), channels, channel, name="channel")

    r.each(count, some)
