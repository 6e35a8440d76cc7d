"""Vectors in registers: splats, shuffles, transposes, sums of lanes, products."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from llvmlite import ir

from fx.backends.cpu.llvm.ir.types import i32, intrinsic, numbers, size_of


@lru_cache(maxsize=256)
def _nothing(kind: ir.Type, width: int) -> ir.Constant:
    found = ir.FormattedConstant(ir.VectorType(kind, width), "poison")
    found.constant = "poison"  # llvmlite takes a text for a list
    return found


def splat(b: ir.IRBuilder, scalar: Any, width: int) -> Any:
    """A vector of ``width`` times the same."""
    nothing = _nothing(scalar.type, width)
    one = b.insert_element(nothing, scalar, i32(0))
    return b.shuffle_vector(one, nothing, numbers(i32, [0] * width))


def shuffle(b: ir.IRBuilder, x: Any, y: Any, lanes: Sequence[int]) -> Any:
    """The lanes of ``x`` and, counted on from its last one, of ``y`` that are named."""
    return b.shuffle_vector(x, y, numbers(i32, lanes))


def backwards(b: ir.IRBuilder, x: Any) -> Any:
    """The lanes in the opposite order."""
    return shuffle(b, x, x, range(x.type.count - 1, -1, -1))


def multiply_add(b: ir.IRBuilder, x: Any, y: Any, z: Any) -> Any:
    """``x * y + z``, rounded once where the CPU can."""
    return intrinsic(b, "fmuladd", x.type, [x, y, z])


def transpose(b: ir.IRBuilder, rows: Sequence[Any]) -> list[Any]:
    """The columns of a square of vectors: ``width`` vectors of ``width`` lanes.

    First inside the 128-bit parts of the registers and then the parts: each shuffle is one
    instruction on x86.
    """
    rows = list(rows)
    width = rows[0].type.count
    part = min(16 // size_of(rows[0].type.element), width)  # lanes that shuffle cheaply
    done = 1
    while done < part:  # interleave runs of ``done`` lanes
        low, high = [], []
        for start in range(0, width, part):
            for i in range(start, start + part // 2, done):
                low += [*range(i, i + done), *range(width + i, width + i + done)]
            for i in range(start + part // 2, start + part, done):
                high += [*range(i, i + done), *range(width + i, width + i + done)]
        new = list(rows)
        for group in range(0, width, 2 * done):
            for i in range(done):
                x, y = rows[group + i], rows[group + done + i]
                new[group + 2 * i] = shuffle(b, x, y, low)
                new[group + 2 * i + 1] = shuffle(b, x, y, high)
        rows = new
        done *= 2
    while done < width:  # exchange whole parts: groups of rows pairwise, even parts and odd ones
        even: list[int] = []
        odd: list[int] = []
        for side in (0, width):
            for i in range(0, width, 2 * part):
                even += range(side + i, side + i + part)
                odd += range(side + i + part, side + i + 2 * part)
        new = list(rows)
        pairs = width // (2 * part)
        for pair in range(pairs):
            for i in range(part):
                x, y = rows[2 * pair * part + i], rows[(2 * pair + 1) * part + i]
                new[pair * part + i] = shuffle(b, x, y, even)
                new[(pairs + pair) * part + i] = shuffle(b, x, y, odd)
        rows = new
        done *= 2
    return rows


def sums_of_lanes(b: ir.IRBuilder, xs: Sequence[Any]) -> Any:
    """The sum over the lanes of each of a power of two of vectors, no more than they have lanes."""
    xs = list(xs)
    width = xs[0].type.count
    wanted = len(xs)
    run = width  # in a vector of ``xs``, that many lanes belong to one sum
    while run > 1:
        half = run // 2
        low: list[int] = []
        high: list[int] = []
        if len(xs) > 1:  # two vectors become one: the sums of the first, then those of the second
            for start in range(0, 2 * width, run):
                low += range(start, start + half)
                high += range(start + half, start + run)
            pairs = zip(xs[::2], xs[1::2], strict=True)
            xs = [b.fadd(shuffle(b, x, y, low), shuffle(b, x, y, high)) for x, y in pairs]
        else:
            count = xs[0].type.count
            for start in range(0, count, run):
                low += range(start, start + half)
                high += range(start + half, start + run)
            xs = [b.fadd(shuffle(b, xs[0], xs[0], low), shuffle(b, xs[0], xs[0], high))]
        run = half
    assert xs[0].type.count == wanted
    return xs[0]
