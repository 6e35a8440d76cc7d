"""The innermost loop: a tile of the product kept in registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from llvmlite import ir

from fx.backends.cpu.llvm import ir as v


class Tile(NamedTuple):
    """``rows`` by ``across`` vectors of ``width`` lanes, the last with ``tail`` live ones."""

    rows: int
    across: int
    tail: int
    width: int

    def mask(self, b: ir.IRBuilder, i: int) -> ir.Value | None:
        """The live lanes of vector ``i`` of a row, None if all are."""
        if i < self.across - 1 or self.tail == self.width:
            return None
        return v.first_lanes(b, self.tail, self.width)


class Left(NamedTuple):
    """How a tile reads the left factor: strides in elements."""

    row: int
    step: int  # from one k to the next


class Right(NamedTuple):
    """How a tile reads the right factor, whose rows are dense."""

    step: int  # from one k to the next
    padded: bool  # whether whole vectors may be read


def accumulate(
    b: ir.IRBuilder,
    kind: ir.Type,
    tile: Tile,
    left: Left,
    right: Right,
    x: ir.Value,
    y: ir.Value,
    count: ir.Value,
) -> list[ir.Value]:
    """``x @ y`` over ``count`` steps, row by row of vectors."""
    rows, width = tile.rows, tile.width
    masks = [None if right.padded else tile.mask(b, i) for i in range(tile.across)]
    unroll = max(1, min(4, 16 // (rows * tile.across)))

    def one(step: int, x: ir.Value, y: ir.Value, sums: Sequence[ir.Value]) -> list[ir.Value]:
        base = step * right.step
        ys = [
            v.load(b, v.at(b, y, base + i * width, kind), kind, width, masks[i])
            for i in range(tile.across)
        ]
        new = []
        for r in range(rows):
            address = v.at(b, x, r * left.row + step * left.step, kind)
            scalar = b.load(address, align=v.size_of(kind), typ=kind)
            spread = v.splat(b, scalar, width)
            for i in range(tile.across):
                new.append(v.multiply_add(b, spread, ys[i], sums[r * tile.across + i]))
        return new

    def turn(steps: int) -> Callable[..., list[ir.Value]]:
        def body(_: ir.Value, x: ir.Value, y: ir.Value, *start: ir.Value) -> list[ir.Value]:
            sums: Sequence[ir.Value] = start
            for step in range(steps):
                sums = one(step, x, y, sums)
            x = v.at(b, x, steps * left.step, kind)
            y = v.at(b, y, steps * right.step, kind)
            return [x, y, *sums]

        return body

    start = [v.zeros(kind, width)] * (rows * tile.across)
    whole, rest = v.split(b, count, unroll)
    state = v.loop(b, 0, whole, turn(unroll), [x, y, *start], name="k")
    if unroll > 1:
        state = v.loop(b, 0, rest, turn(1), state, name="k.rest")
    return state[2:]
