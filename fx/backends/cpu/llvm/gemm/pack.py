"""Packing: a block of a factor in the order in which tiles read it, in the type they compute in."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from fx.backends.cpu.llvm import ir as v


def pack_lines(
    b: ir.IRBuilder,
    dtype: Any,
    source: ir.Value,
    stride: int,
    count: ir.Value,
    target: ir.Value,
    lanes: int,
    pitch: int,
    width: int,
) -> None:
    """``count`` lines of ``lanes`` dense elements, ``stride`` apart: to lines ``pitch`` apart.

    The last vector of a line is filled up with zeros, or spills into the next line, which is
    written after it; behind the last line there is room for a vector.
    """
    memory, kind = v.memory_type(dtype), v.compute_type(dtype)

    def body(_: ir.Value, source: ir.Value, target: ir.Value) -> list[ir.Value]:
        for i in range(0, lanes, width):
            live = min(lanes - i, width)
            mask = None if live == width else v.first_lanes(b, live, width)
            x = v.load(b, v.at(b, source, i, memory), memory, width, mask)
            v.store(b, v.widen(b, x, dtype), v.at(b, target, i, kind))
        return [v.at(b, source, stride, memory), v.at(b, target, pitch, kind)]

    v.loop(b, 0, count, body, [source, target], name="pack")


def pack_across(
    b: ir.IRBuilder,
    dtype: Any,
    source: ir.Value,
    stride: int,
    count: ir.Value,
    least: int,
    target: ir.Value,
    lanes: int,
    padded: int,
    pitch: int,
    width: int,
) -> None:
    """``lanes`` lines of ``count`` dense elements, ``stride`` apart: element i of all to line i.

    ``least`` is a number that ``count`` never falls below. Where ``count`` is no multiple of the
    width the last square starts earlier and writes some lines again. Lines of the target are filled
    up with zeros to ``padded`` elements, or more, which then spill over as in ``pack_lines``.
    Squares of half a register are as fast as whole ones where a CPU shuffles two halves at once,
    and take less time to compile.
    """
    memory, kind = v.memory_type(dtype), v.compute_type(dtype)
    width = side(kind, width)
    short = least < width  # then ``count`` is ``least``
    mask = v.first_lanes(b, least, width) if short else None
    nothing = v.zeros(kind, width)
    steps, _ = v.split(b, v.add(b, count, width - 1), width)

    def square(i: ir.Value) -> None:
        first = v.const(0)
        if not short:
            first = v.smaller(b, v.times(b, i, width), v.add(b, count, -width))
        base = v.at(b, source, first, memory)
        pieces = []
        for start in range(0, padded, width):
            rows = []
            for r in range(start, start + width):
                x = nothing
                if r < lanes:
                    x = v.load(b, v.at(b, base, r * stride, memory), memory, width, mask)
                    x = v.widen(b, x, dtype)
                rows.append(x)
            pieces.append(v.transpose(b, rows))
        base = v.at(b, target, v.times(b, first, pitch), kind)
        for r in range(least if short else width):
            for p, piece in enumerate(pieces):
                v.store(b, piece[r], v.at(b, base, r * pitch + p * width, kind))

    v.loop(b, 0, v.const(1) if short else steps, square, name="pack")


def side(kind: ir.Type, width: int) -> int:
    """The side of the squares that ``pack_across`` transposes."""
    return min(width, 32 // v.size_of(kind))
