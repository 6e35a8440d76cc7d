"""Integers and addresses, folded where they are known.

An index is an i64 or a Python int. What comes of Python ints alone is one; what comes of constants
is a constant.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from fx.backends.cpu.llvm.ir.types import declared, i1, i8, i64, pointer, void

Index = Any  # an int or an i64


def const(x: Index) -> Any:
    """An i64."""
    return i64(x) if isinstance(x, int) else x


def known(x: Index) -> int | None:
    """The number that an index is, if that is known."""
    if isinstance(x, int):
        return x
    return x.constant if isinstance(x, ir.Constant) else None  # type: ignore[no-any-return]


def _number(n: int, *of: Index) -> Index:
    return n if all(isinstance(x, int) for x in of) else i64(n)


def add(b: ir.IRBuilder, *terms: Index) -> Any:
    """The sum of indices."""
    told = sum([n for t in terms if (n := known(t)) is not None])
    out: Any = None
    for t in terms:
        if known(t) is None:
            out = t if out is None else b.add(out, t, flags=("nsw",))
    if out is None:
        return _number(told, *terms)
    return b.add(out, i64(told), flags=("nsw",)) if told else out


def sub(b: ir.IRBuilder, x: Index, y: Index) -> Any:
    """``x - y``."""
    n = known(y)
    return b.sub(const(x), y, flags=("nsw",)) if n is None else add(b, x, _number(-n, y))


def times(b: ir.IRBuilder, x: Index, y: Index) -> Any:
    """``x * y``."""
    m, n = known(x), known(y)
    if m is not None and n is not None:
        return _number(m * n, x, y)
    if n is None and m is not None:
        x, n = y, m
    if n == 0:
        return _number(0, y)
    return x if n == 1 else b.mul(x, const(y) if n is None else i64(n), flags=("nsw",))


def split(b: ir.IRBuilder, x: Index, y: int) -> tuple[Any, Any]:
    """``x // y, x % y`` of an index that is not negative."""
    n = known(x)
    if n is not None:
        return _number(n // y, x), _number(n % y, x)
    return (x, i64(0)) if y == 1 else (b.udiv(x, i64(y)), b.urem(x, i64(y)))


def smaller(b: ir.IRBuilder, x: Index, y: Index) -> Any:
    """``min(x, y)``."""
    m, n = known(x), known(y)
    if m is not None and n is not None:
        return _number(min(m, n), x, y)
    x, y = const(x), const(y)
    return b.select(b.icmp_signed("<", x, y), x, y)


def larger(b: ir.IRBuilder, x: Index, y: Index) -> Any:
    """``max(x, y)``."""
    m, n = known(x), known(y)
    if m is not None and n is not None:
        return _number(max(m, n), x, y)
    x, y = const(x), const(y)
    return b.select(b.icmp_signed(">", x, y), x, y)


def at(b: ir.IRBuilder, base: Any, offset: Index, kind: ir.Type) -> Any:
    """The address of element ``offset`` of an array of ``kind``."""
    if known(offset) == 0:
        return base
    return b.gep(base, [const(offset)], source_etype=kind)


def room(b: ir.IRBuilder, kind: ir.Type, count: int) -> Any:
    """Memory for ``count`` of a kind on the stack of this call."""
    with b.goto_entry_block():
        found = b.alloca(ir.ArrayType(kind, count))
        found.align = 64
        found.type = pointer  # llvmlite gives it a typed pointer
    return found


def copy(b: ir.IRBuilder, target: Any, source: Any, nbytes: Index) -> None:
    """memcpy of areas that do not overlap."""
    function = declared(b.module, "llvm.memcpy.p0.p0.i64", void, [pointer, pointer, i64, i1])
    b.call(function, [target, source, const(nbytes), i1(0)])


def clear(b: ir.IRBuilder, target: Any, nbytes: Index) -> None:
    """Fill an area with zero bytes."""
    function = declared(b.module, "llvm.memset.p0.i64", void, [pointer, i8, i64, i1])
    b.call(function, [target, i8(0), const(nbytes), i1(0)])
