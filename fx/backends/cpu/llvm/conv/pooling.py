"""Pooling with a row of outputs in lanes: maxima with their places, window sums, their transpose.

A task is one plane (a channel of a sample). It is copied into a zero-padded plane, where every tap
of a row of windows is a constant offset; with a stride, lanes are picked out of as many vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from llvmlite import ir

from fx import limits
from fx.backends.cpu.llvm.conv.emit import Emitter
from fx.backends.cpu.llvm.conv.packing import emit_planes
from fx.backends.cpu.llvm.conv.plan import Ints, lifted
from fx.backends.cpu.llvm.ir import Index, const, i1, i32, i64, kernel, target
from fx.compiler.step import Step
from fx.graph.ir import Value


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows over planes of three dimensions."""

    size: Ints
    window: Ints
    stride: Ints
    low: Ints
    dilation: Ints
    out: Ints

    @property
    def plane(self) -> Ints:
        """Sizes of a padded plane as far as windows reach."""
        return tuple(
            [(n - 1) * s + d * (k - 1) + 1 for n, s, k, d in zip(
                self.out, self.stride, self.window, self.dilation)]
        )  # fmt: skip

    @property
    def whole(self) -> bool:
        """One window that sees every element once."""
        dilated = any(d > 1 and k > 1 for d, k in zip(self.dilation, self.window))
        one = self.window == self.size and prod(self.out) == 1
        return one and not any(self.low) and not dilated


def windows(size: Ints, out: Ints, params: dict[str, Any]) -> Windows:
    """The windows of a pooling primitive over inputs of ``size``."""
    low = tuple([lo for lo, _ in params["padding"]])
    return Windows(
        lifted(size, 1), lifted(params["window"], 1), lifted(params["stride"], 1), lifted(low, 0),
        lifted(params["dilation"], 1), lifted(out, 1),
    )  # fmt: skip


class PoolStep(Step):
    """One pooling primitive; ``kind`` is its name."""

    def __init__(
        self, kind: str, win: Windows, planes: Sequence[int], reads: tuple[Value, ...],
        writes: tuple[Value, ...], lines: tuple[str, ...],
    ) -> None:  # fmt: skip
        self.kind, self.win, self.target = kind, win, target()
        self.name, self.lines = kind.replace("_", " "), lines
        self.reads, self.writes = reads, writes
        dtype = reads[0].spec.dtype
        self.dtype = dtype.name
        self.tasks = prod(planes)
        self.lanes = self.target.vector_bytes // dtype.itemsize
        room = prod(win.plane) + self.lanes * (max(win.stride[2], 1) + 1)
        self.scratch = room * dtype.itemsize
        taps = prod(win.window) * prod(win.out)
        self.cost = self.tasks * (taps * 0.15 + prod(win.size) * 0.1 + prod(win.out) * 0.3 + 10)
        self.key = (kind, self.dtype, win)

    def emit(self, module: Any, name: str) -> Any:
        function = kernel(module, name, len(self.reads) + len(self.writes))
        e = Emitter(function, self.dtype)
        begin, end, scratch, from_, *to = function.args
        emission = _Emission(self, e, name)
        tasks: dict[str, Any] = {
            "max_pool": emission.maxima,
            "window_sum": emission.sums,
            "window_sum_transpose": emission.spread,
        }
        task = tasks[self.kind]
        e.loop(begin, end, lambda p: task(p, scratch, from_, *to))
        e.b.ret_void()
        return function


class _Emission:
    def __init__(self, step: PoolStep, e: Emitter, name: str) -> None:
        self.e, self.win, self.lanes, self.name = e, step.win, step.lanes, name
        self.step, self.target = step, step.target
        self.strided = step.win.stride[2] <= limits.POOL_STRIDE

    # what all have in common --------------------------------------------------------------------

    def copied(self, p: Any, scratch: Any, from_: Any) -> None:
        """Plane number p, padded, into the scratch memory."""
        win, e = self.win, self.e
        name = f"{self.name}_planes"
        pack = e.module.globals.get(name)
        if pack is None:
            pack = emit_planes(e.module, name, e.dtype, win.size, win.plane, 0, self.target)
        start = [const(-lo) for lo in win.low]
        e.b.call(pack, [e.at(from_, e.times(p, prod(win.size))), scratch, const(1), *start])

    def rows(self, of: Any) -> None:
        """``of(z, y)`` for each row of outputs."""
        e, (depth, high, _) = self.e, self.win.out
        e.loop(0, depth, lambda z: e.loop(0, high, lambda y: of(z, y)) and None)

    def pieces(self, of: Any) -> None:
        """``of(first, count)`` for each vector of a row of outputs."""
        e, long = self.e, self.win.out[2]
        whole = long // self.lanes * self.lanes
        e.loop(0, whole, lambda j: of(j, self.lanes), step=self.lanes)
        if long > whole:
            of(whole, long - whole)

    def line(self, plane: Any, z: Index, y: Index, kd: Index, kh: Index) -> Any:
        """Where tap row (kd, kh) of output row (z, y) begins in a padded plane."""
        e, win = self.e, self.win
        d = e.add(e.times(z, win.stride[0]), e.times(kd, win.dilation[0]))
        h = e.add(e.times(y, win.stride[1]), e.times(kh, win.dilation[1]))
        return e.at(plane, e.times(e.add(e.times(d, win.plane[1]), h), win.plane[2]))

    def apart(self, pointer: Any) -> Any:
        """A vector of elements one stride apart."""
        e, s, lanes = self.e, self.win.stride[2], self.lanes
        if self.strided:
            return e.apart(pointer, s, lanes)
        out = e.zero(lanes)
        for i in range(lanes):
            one = e.load(e.at(pointer, min(i, self.win.out[2] - 1) * s))
            out = e.b.insert_element(out, one, ir.Constant(i32, i))
        return out

    def put(self, value: Any, pointer: Any, count: int) -> None:
        """Store the first ``count`` lanes."""
        if count >= value.type.count:
            self.e.b.store(value, pointer, align=1)
            return
        if isinstance(value.type.element, ir.IntType):
            for i in range(count):
                one = self.e.b.extract_element(value, ir.Constant(i32, i))
                self.e.b.store(one, self.e.at(pointer, i, value.type.element), align=8)
            return
        kind = ir.VectorType(i1, value.type.count)
        mask = ir.Constant(kind, [int(i < count) for i in range(kind.count)])
        self.e.store(value, pointer, mask)

    # the primitives -----------------------------------------------------------------------------

    def maxima(self, p: Any, scratch: Any, from_: Any, values: Any, places: Any) -> None:
        """The first maximum of each window, the last NaN where there is one, and its place."""
        e, win, lanes, b = self.e, self.win, self.lanes, self.e.b
        _, H, W = win.size
        self.copied(p, scratch, from_)
        ints = ir.VectorType(i32, lanes)
        numbers = ir.Constant(ints, [i * win.stride[2] for i in range(lanes)])
        lanes_ = ir.Constant(ints, list(range(lanes)))
        none, zeros = ir.Constant(ints, [-1] * lanes), ir.Constant(ints, [0] * lanes)
        lowest = ir.Constant(ir.VectorType(e.kind, lanes), [float("-inf")] * lanes)

        def inside(at: Any, i: int) -> tuple[Index, Index]:
            """The taps [first, last) of a dimension that lie inside, where tap 0 lies at ``at``."""
            taps, dilation, size = win.window[i], win.dilation[i], win.size[i]
            if not win.low[i] and win.plane[i] <= size:
                return 0, taps
            reach = e.add(e.times(at, -1), dilation - 1)
            first = e.split(const(e.larger(reach, 0)), dilation)[0]
            last = e.split(const(e.larger(e.add(e.sub(size, at), dilation - 1), 0)), dilation)[0]
            return e.smaller(first, taps), e.smaller(last, taps)

        def row(z: Any, y: Any) -> None:
            d0 = e.sub(e.times(z, win.stride[0]), win.low[0])
            h0 = e.sub(e.times(y, win.stride[1]), win.low[1])
            d_range = inside(const(d0), 0)
            h_range = inside(const(h0), 1)
            to = e.add(
                e.times(p, prod(win.out)), e.times(e.add(e.times(z, win.out[1]), y), win.out[2])
            )

            def piece(j: Index, count: int) -> None:
                def taps(kd: Index, kh: Index, best: Any, where: Any) -> list[Any]:
                    line = self.line(scratch, z, y, kd, kh)
                    d = e.add(d0, e.times(kd, win.dilation[0]))
                    h = e.add(h0, e.times(kh, win.dilation[1]))
                    at = e.add(e.times(e.add(e.times(d, H), h), W), e.times(j, win.stride[2]))
                    for kw in range(win.window[2]):
                        offset = kw * win.dilation[2] - win.low[2]  # where output 0 reads
                        first = max(0, -(offset // win.stride[2]))
                        last = min(win.out[2], max(0, (W - 1 - offset) // win.stride[2] + 1))
                        if first >= last:
                            continue
                        start = e.add(e.times(j, win.stride[2]), kw * win.dilation[2])
                        value = self.apart(e.at(line, start))
                        mine = e.splat(b.trunc(const(e.add(at, offset)), i32), lanes)
                        mine = b.add(mine, numbers)
                        better = b.fcmp_ordered(">", value, best)
                        better = b.or_(better, b.fcmp_unordered("uno", value, value))
                        better = b.or_(better, b.icmp_signed("<", where, zeros))
                        if (first, last) != (0, win.out[2]):
                            t = b.add(e.splat(b.trunc(const(e.sub(j, first)), i32), lanes), lanes_)
                            bound = e.splat(ir.Constant(i32, last - first), lanes)
                            better = b.and_(better, b.icmp_unsigned("<", t, bound))
                        best = b.select(better, value, best)
                        where = b.select(better, mine, where)
                    return [best, where]

                best, where = e.loop(
                    *d_range,
                    lambda kd, *held: e.loop(*h_range, lambda kh, *held: taps(kd, kh, *held), held),
                    (lowest, none),
                )
                where = b.select(b.icmp_signed("<", where, zeros), zeros, where)
                self.put(best, e.at(values, e.add(to, j)), count)
                out = e.at(places, e.add(to, j), i64)
                half = lanes // 2
                for i in range(0, lanes, half):
                    if count > i:
                        part = e.shuffle(where, where, range(i, i + half))
                        wide = b.sext(part, ir.VectorType(i64, half))
                        self.put(wide, e.at(out, i, i64), min(half, count - i))

            self.pieces(piece)

        self.rows(row)

    def sums(self, p: Any, scratch: Any, from_: Any, out: Any) -> None:
        """The sum over each window, padding counting as zero."""
        e, win, lanes, b = self.e, self.win, self.lanes, self.e.b
        if win.whole:
            self.total(p, from_, out)
            return
        self.copied(p, scratch, from_)

        def row(z: Any, y: Any) -> None:
            to = e.add(
                e.times(p, prod(win.out)), e.times(e.add(e.times(z, win.out[1]), y), win.out[2])
            )

            def piece(j: Index, count: int) -> None:
                def taps(kd: Index, kh: Index, total: Any) -> list[Any]:
                    line = self.line(scratch, z, y, kd, kh)
                    for kw in range(win.window[2]):
                        start = e.add(e.times(j, win.stride[2]), kw * win.dilation[2])
                        total = b.fadd(total, self.apart(e.at(line, start)))
                    return [total]

                (total,) = e.loop(
                    0, win.window[0],
                    lambda kd, t: e.loop(
                        0, win.window[1], lambda kh, t: taps(kd, kh, t), (t,)
                    ),
                    (e.zero(lanes),),
                )  # fmt: skip
                self.put(total, e.at(out, e.add(to, j)), count)

            self.pieces(piece)

        self.rows(row)

    def total(self, p: Any, from_: Any, out: Any) -> None:
        """The sum of a whole plane."""
        e, lanes, b = self.e, self.lanes, self.e.b
        volume = prod(self.win.size)
        start = e.at(from_, e.times(p, volume))
        whole = volume // (4 * lanes) * (4 * lanes)

        def more(i: Any, *held: Any) -> list[Any]:
            return [
                b.fadd(t, e.load(e.at(start, e.add(i, v * lanes)), lanes))
                for v, t in enumerate(held)
            ]

        held = e.loop(0, whole, more, [e.zero(lanes)] * 4, step=4 * lanes)
        for at in range(whole, volume, lanes):
            v = (at - whole) // lanes
            part = e.load_first(e.at(start, at), lanes, volume - at)
            held[v] = b.fadd(held[v], part)
        sum_ = b.fadd(b.fadd(held[0], held[1]), b.fadd(held[2], held[3]))
        size = lanes
        while size > 1:
            size //= 2
            low = e.shuffle(sum_, sum_, range(size))
            sum_ = b.fadd(low, e.shuffle(sum_, sum_, range(size, 2 * size)))
        e.store(b.extract_element(sum_, ir.Constant(i32, 0)), e.at(out, p))

    def spread(self, p: Any, scratch: Any, from_: Any, out: Any) -> None:
        """The transpose of ``sums``: each cotangent is added to what its window saw."""
        e, win, lanes = self.e, self.win, self.lanes
        volume, count = prod(win.size), prod(win.out)
        to = e.at(out, e.times(p, volume))
        if win.whole:
            value = e.splat(e.load(e.at(from_, p)), lanes)
            full = volume // lanes * lanes
            e.loop(0, full, lambda i: e.store(value, e.at(to, i)), step=lanes)
            if volume > full:
                self.put(value, e.at(to, full), volume - full)
            return
        e.loop(0, prod(win.plane), lambda i: e.store(e.zero(lanes), e.at(scratch, i)), step=lanes)

        def row(z: Any, y: Any) -> None:
            at = e.add(e.times(p, count), e.times(e.add(e.times(z, win.out[1]), y), win.out[2]))

            def piece(j: Index, some: int) -> None:
                value = e.load_first(e.at(from_, e.add(at, j)), lanes, some)

                def taps(kd: Index, kh: Index) -> None:
                    line = self.line(scratch, z, y, kd, kh)
                    for kw in range(win.window[2]):
                        start = e.add(e.times(j, win.stride[2]), kw * win.dilation[2])
                        self.add_apart(e.at(line, start), value, some)

                e.loop(0, win.window[0], lambda kd: e.loop(
                    0, win.window[1], lambda kh: taps(kd, kh)) and None)  # fmt: skip

            self.pieces(piece)

        self.rows(row)
        self.restored(scratch, to)

    def add_apart(self, pointer: Any, value: Any, count: int) -> None:
        """Add the first ``count`` lanes to elements one stride apart; the others are zero."""
        e, s, lanes, b = self.e, self.win.stride[2], self.lanes, self.e.b
        if not self.strided:
            for i in range(count):
                one = b.extract_element(value, ir.Constant(i32, i))
                at = e.at(pointer, i * s)
                e.store(b.fadd(e.load(at), one), at)
            return
        for v in range(s):
            first = v * lanes
            if first > (count - 1) * s:
                break
            wide = value
            if s > 1:
                places = [(first + i) // s if (first + i) % s == 0 else lanes for i in range(lanes)]
                wide = e.shuffle(value, e.zero(lanes), places)
            at = e.at(pointer, first)
            e.store(b.fadd(e.load(at, lanes), wide), at)

    def restored(self, scratch: Any, to: Any) -> None:
        """The input's part of a padded plane; zeros where no window reached."""
        e, win = self.e, self.win
        name = f"{self.name}_restored"
        copy = e.module.globals.get(name)
        if copy is None:
            # the input is to a padded plane what a padded plane is to an input
            copy = emit_planes(
                e.module, name, e.dtype, win.plane, win.size, 0, self.target, exact=True
            )
        start = [const(lo) for lo in win.low]
        e.b.call(copy, [scratch, to, const(1), *start])
