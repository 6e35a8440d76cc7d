"""Samples of images and volumes, and their cotangents: lanes are points.

A point has one, two or four places along each axis, and a share at each. What lies outside is
brought inside as the padding says, or is 0 and is not loaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any, NamedTuple

from llvmlite import ir

from fx.backends.cpu.llvm import ir as v
from fx.backends.cpu.llvm.any_size.blocks import Rows
from fx.backends.cpu.llvm.vecmath.algebra import Int, Mask, Num

REFLECTION = 2  # the padding; 0 is zeros, and 1 the border


def emit(module: ir.Module, dtype: Any, name: str) -> None:
    """Add a kernel of a mode and a number of axes.

    ``bilinear 2`` takes ``x grid out channels points block corners padding *sizes``, and
    ``bilinear 2 grad`` takes ``ct x grid dx dgrid channels points corners padding *sizes``.
    """
    mode, rank, *grad = name.split(" ")
    words, of = ("aaaaaiiii", _gradient) if grad else ("aaaiiiii", _sample)
    Rows(module, dtype, name, words + "i" * int(rank), partial(of, mode))


class _Tap(NamedTuple):
    """A place along an axis, whether it is inside, its share, and the slope of that in the point.

    Without a share it has all of it.
    """

    place: Int
    inside: Mask
    share: Num | None
    slope: Num | None


class _Axis:
    """An axis of n elements."""

    def __init__(self, r: Rows, n: ir.Value, corners: ir.Value, padding: ir.Value) -> None:
        b = r.b
        size = b.sitofp(n, r.kind)
        one, half, zero = (ir.Constant(r.kind, x) for x in (1.0, 0.5, 0.0))
        last = b.fsub(size, one)
        lanes = lambda x: Num(b, v.splat(b, x, r.width))
        flag = lambda x: Mask(b, v.splat(b, x, r.width))
        # a place is ((u + 1) * scale - less) * by
        self.scale = lanes(b.select(corners, b.fmul(last, half), size))
        self.less = lanes(b.select(corners, zero, one))
        self.by = lanes(b.select(corners, one, half))
        self.last = lanes(last)
        # reflected at the centres of the outermost elements, or at their outer edges
        self.low = lanes(b.select(corners, zero, ir.Constant(r.kind, -0.5)))
        self.span = lanes(b.select(corners, last, size))
        self.bounded = flag(b.icmp_signed("!=", padding, v.const(0)))
        self.reflects = flag(b.icmp_signed("==", padding, v.const(REFLECTION)))

    def place(self, u: Num) -> Num:
        """Where points are."""
        return ((u + 1.0) * self.scale - self.less) * self.by

    def inside(self, place: Num) -> tuple[Num, Num]:
        """Places as the padding brings them inside, and the slope of that.

        A NaN is brought to the first element, as in PyTorch.
        """
        one, far = place.full(1.0), place - self.low
        turns = (abs(far) / self.span).call("floor")
        rest = abs(far) - turns * self.span
        odd = (turns - (turns * 0.5).call("floor") * 2.0).eq(1.0)
        brought = self.reflects.pick(odd.pick(self.span - rest, rest) + self.low, place)
        slope = (self.reflects & (odd ^ (far < 0.0))).pick(-one, one)
        above, below = brought > 0.0, brought < self.last
        brought = below.pick(brought, self.last)
        brought = above.pick(brought, 0.0)
        slope = (above & below).pick(slope, 0.0)
        return self.bounded.pick(brought, place), self.bounded.pick(slope, one)

    def tap(self, place: Num, share: Num | None = None, slope: Num | None = None) -> _Tap:
        """That of whole places."""
        fits = (place >= 0.0) & (place <= self.last)
        whole = fits.pick(place, 0.0).to_int(v.i32)
        return _Tap(whole, fits, *[x if x is None else fits.pick(x, 0.0) for x in (share, slope)])

    def nearest(self, u: Num) -> list[_Tap]:
        return [self.tap(self.inside(self.place(u))[0].rint())]

    def bilinear(self, u: Num) -> list[_Tap]:
        place, slope = self.inside(self.place(u))
        first, slope = place.call("floor"), slope * (self.scale * self.by)
        share = place - first
        return [self.tap(first, 1.0 - share, -slope), self.tap(first + 1.0, share, slope)]

    def bicubic(self, u: Num) -> list[_Tap]:
        place, slope = self.place(u), self.scale * self.by
        first = place.call("floor")
        t = place - first
        shares = _far(t + 1.0), _near(t), _near(1.0 - t), _far(2.0 - t)
        return [
            self.tap(self.inside(first + (k - 1.0))[0], share, (-up if k > 1 else up) * slope)
            for k, (share, up) in enumerate(shares)
        ]


def _near(x: Num) -> tuple[Num, Num]:
    """The share of what is less than 1 away, and its slope: Keys's cubic with a = -0.75."""
    return ((x * 1.25 - 2.25) * x) * x + 1.0, (x * 3.75 - 4.5) * x


def _far(x: Num) -> tuple[Num, Num]:
    """The share of what is from 1 to 2 away, and its slope."""
    return ((x * -0.75 + 3.75) * x - 6.0) * x + 3.0, (x * -2.25 + 7.5) * x - 6.0


class _Points:
    """The points of a row ``grid`` (count, rank), the last axis first, in images of some sizes."""

    def __init__(
        self, r: Rows, mode: str, grid: ir.Value, count: ir.Value, corners: ir.Value,
        padding: ir.Value, sizes: tuple[ir.Value, ...],
    ) -> None:  # fmt: skip
        b = r.b
        self.r, self.mode, self.grid, self.count = r, mode, grid, count
        corners = b.icmp_signed("!=", corners, v.const(0))
        self.axes = [_Axis(r, n, corners, padding) for n in sizes]
        self.pitches: list[Int] = []
        self.plane: Any = v.const(1)
        for n in reversed(sizes):
            self.pitches.insert(0, Int(b, v.splat(b, b.trunc(self.plane, v.i32), r.width)))
            self.plane = b.mul(self.plane, n)

    def coordinates(self, i: ir.Value, mask: Any) -> list[Num]:
        """Those of the points from ``i`` on, as many as lanes, the first axis first."""
        b, width, rank = self.r.b, self.r.width, len(self.axes)
        at = v.at(b, self.grid, b.mul(i, v.const(rank)), self.r.kind)
        if rank == 2:
            masks: list[Any] = [None, None]
            if mask is not None:
                left = b.mul(b.sub(self.count, i), v.const(2))
                masks = [v.first_lanes(b, b.sub(left, v.const(k)), width) for k in (0, width)]
            pairs = [self.r.load(at, v.const(k), m).v for k, m in zip((0, width), masks)]
            return [Num(b, v.shuffle(b, *pairs, range(k, 2 * width, 2))) for k in (1, 0)]
        places = [v.numbers(v.i32, range(k, rank * width, rank)) for k in reversed(range(rank))]
        kind = ir.VectorType(self.r.kind, width)
        return [Num(b, v.gather(b, at, p, mask, kind)) for p in places]

    def corners_at(self, i: ir.Value, mask: Any) -> Iterator[tuple[Int, Mask, list[_Tap]]]:
        """Places in an image of the points from ``i`` on, which are inside, and their taps."""
        taps = [getattr(a, self.mode)(u) for a, u in zip(self.axes, self.coordinates(i, mask))]
        for chosen in product(*taps):
            place = live = None
            for tap, pitch in zip(chosen, self.pitches):
                step = tap.place * pitch
                place = step if place is None else place + step
                live = tap.inside if live is None else live & tap.inside
            yield place, live if mask is None else live & Mask(self.r.b, mask), list(chosen)


def _product(factors: list[Num | None]) -> Num | None:
    found = None
    for x in factors:
        found = x if found is None else found if x is None else found * x
    return found


def _sample(
    mode: str, r: Rows, task: ir.Value, x: ir.Value, grid: ir.Value, out: ir.Value,
    channels: ir.Value, points: ir.Value, block: ir.Value, corners: ir.Value, padding: ir.Value,
    *sizes: ir.Value,
) -> None:  # fmt: skip
    """Values out (batch, channels, points) of x (batch, channels, *sizes), below 2 ** 31 elements.

    The grid is (batch, points, rank), the last axis first; a task is a block of the points of an
    image.
    """
    b, rank = r.b, v.const(len(sizes))
    blocks = b.udiv(b.sub(b.add(points, block), v.const(1)), block)
    image = b.udiv(task, blocks)
    begin = b.mul(b.sub(task, b.mul(image, blocks)), block)
    count = v.smaller(b, block, b.sub(points, begin))
    given = r.row(grid, b.add(b.mul(image, points), begin), rank)
    of = _Points(r, mode, given, count, corners, padding, sizes)
    planes = r.row(x, b.mul(image, channels), of.plane)
    values = v.at(b, r.row(out, b.mul(image, channels), points), begin, r.kind)

    def some(i: ir.Value, mask: Any) -> None:
        seen = [(p, m, _product([t.share for t in taps])) for p, m, taps in of.corners_at(i, mask)]

        def channel(c: ir.Value) -> None:
            total: Any = None
            for place, live, share in seen:
                value = _load(r, r.row(planes, c, of.plane), place, live)
                term = value if share is None else value * share
                total = term if total is None else total + term
            v.store(b, total.v, v.at(b, r.row(values, c, points), i, r.kind), mask)

        v.loop(b, v.const(0), channels, channel, name="channel")

    r.each(count, some)


def _load(r: Rows, plane: ir.Value, place: Int, live: Mask) -> Num:
    return Num(r.b, v.gather(r.b, plane, place.v, live.v, ir.VectorType(r.kind, r.width)))


def _gradient(
    mode: str, r: Rows, image: ir.Value, ct: ir.Value, x: ir.Value, grid: ir.Value, dx: ir.Value,
    dgrid: ir.Value, channels: ir.Value, points: ir.Value, corners: ir.Value, padding: ir.Value,
    *sizes: ir.Value,
) -> None:  # fmt: skip
    """The cotangents dx, zeros on entry, and dgrid, from ct (batch, channels, points).

    A task is an image. The nearest elements give no dgrid, and read neither it nor x.
    """
    b, rank = r.b, len(sizes)
    given = r.row(grid, b.mul(image, points), v.const(rank))
    of = _Points(r, mode, given, points, corners, padding, sizes)
    first = b.mul(image, channels)
    cotangents, planes, cells = (
        r.row(a, first, n) for a, n in ((ct, points), (x, of.plane), (dx, of.plane))
    )
    slopes = r.row(dgrid, b.mul(image, points), v.const(rank))
    count = {"nearest": 1, "bilinear": 2, "bicubic": 4}[mode] ** rank
    places, parts = (v.room(b, kind, count * r.width) for kind in (v.i32, r.kind))

    def some(i: ir.Value, mask: Any) -> None:
        seen = list(of.corners_at(i, mask))
        for k, (place, _, _) in enumerate(seen):
            v.store(b, place.v, v.at(b, places, k * r.width, v.i32))

        def channel(c: ir.Value, *along: ir.Value) -> list[ir.Value]:
            ours = r.load(r.row(cotangents, c, points), i, mask)
            found = [Num(b, y) for y in along]
            for k, (place, live, taps) in enumerate(seen):
                shares = [t.share for t in taps]
                part = _product([ours, *shares])
                v.store(b, live.pick(part, 0.0).v, v.at(b, parts, k * r.width, r.kind))
                if found:
                    value = _load(r, r.row(planes, c, of.plane), place, live) * ours
                    for axis, tap in enumerate(taps):
                        others = [tap.slope, *shares[:axis], *shares[axis + 1 :]]
                        found[axis] = found[axis] + value * _product(others)
            cell = r.row(cells, c, of.plane)
            v.loop(b, v.const(0), v.const(r.width), lambda lane: add(cell, lane), name="lane")
            return [y.v for y in found]

        def add(cell: ir.Value, lane: ir.Value) -> None:
            for k in range(count):
                at = b.add(lane, v.const(k * r.width))
                place = b.sext(b.load(v.at(b, places, at, v.i32), typ=v.i32), v.i64)
                at_cell = v.at(b, cell, place, r.kind)
                part = b.load(v.at(b, parts, at, r.kind), typ=r.kind)
                b.store(b.fadd(b.load(at_cell, typ=r.kind), part), at_cell)

        start = [] if mode == "nearest" else [v.zeros(r.kind, r.width)] * rank
        found = v.loop(b, v.const(0), channels, channel, start, name="channel")
        for axis, value in enumerate(reversed(found)):  # the last axis is the first number
            at = Int(b, v.numbers(v.i64, range(axis, r.width * rank, rank)))
            to = v.at(b, slopes, b.mul(i, v.const(rank)), r.kind)
            v.scatter(b, value, to, at.v, mask)

    r.each(points, some)
