"""Transposition of a square of a matrix: how channels get into lanes, and out of them again."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from fx.backends.cpu.llvm.conv.emit import Emitter
from fx.backends.cpu.llvm.ir import Index, const, i1, i64, internal, pointer


def turn(
    e: Emitter, lanes: int, from_: Any, from_step: Index, rows: Index, count: Index,
    to: Any, to_step: Index, columns: Index, length: Index,
) -> None:  # fmt: skip
    """Transpose a square of at most ``lanes`` rows and columns.

    Reads ``rows`` rows of ``count`` elements, and zeros around them; writes ``columns`` of the
    columns as rows, the first ``length`` elements of each. Steps are elements from row to row.
    """
    numbers = [from_step, rows, count, to_step, columns, length]
    a, b, c, d, f, g = [const(n) for n in numbers]
    e.b.call(_transposer(e, lanes), [from_, a, b, c, to, d, f, g])


def _transposer(outer: Emitter, lanes: int) -> Any:
    """``(from, from_step, rows, count, to, to_step, columns, length)``, one copy a module."""
    module, dtype = outer.module, outer.dtype
    name = f"fx_transpose_{dtype}x{lanes}"
    found = module.globals.get(name)
    if found is not None:
        return found
    found = internal(module, name, [pointer, i64, i64, i64, pointer, i64, i64, i64])
    e = Emitter(found, dtype)
    from_, from_step, rows, count, to, to_step, columns, length = found.args
    bits, kind = ir.IntType(lanes), ir.VectorType(i1, lanes)

    def first(n: Any) -> Any:
        """The first n lanes, as bits."""
        return e.b.trunc(e.b.sub(e.b.shl(const(1), n), const(1)), bits)

    def where(i: int, limit: Any, wanted: Any) -> Any:
        """``wanted`` for a row below the limit, else no lane."""
        some = e.b.select(e.b.icmp_signed("<", const(i), limit), wanted, ir.Constant(bits, 0))
        return e.b.bitcast(some, kind)

    wanted = first(count)
    square = [
        e.load(e.at(from_, e.times(from_step, i)), lanes, where(i, rows, wanted))
        for i in range(lanes)
    ]
    wanted = first(length)
    # whole rows are stored: 16 channels of a plane may lie in one set of the cache
    for i, column in enumerate(_transposed(e, square)):
        e.store(column, e.at(to, e.times(to_step, i)), where(i, columns, wanted))
    e.b.ret_void()
    return found


def _transposed(e: Emitter, rows: list[Any]) -> list[Any]:
    """n vectors of n lanes (n a power of 2) as the columns that they make."""
    n = len(rows)
    out = list(rows)
    half = n // 2
    while half:  # exchange the off-diagonal halves of every 2*half square
        for i in range(0, n, 2 * half):
            for j in range(i, i + half):
                x, y = out[j], out[j + half]
                low, high = [], []
                for k in range(0, n, 2 * half):
                    low += [*range(k, k + half), *range(n + k, n + k + half)]
                    high += [*range(k + half, k + 2 * half)]
                    high += [*range(n + k + half, n + k + 2 * half)]
                out[j], out[j + half] = e.shuffle(x, y, low), e.shuffle(x, y, high)
        half //= 2
    return out
