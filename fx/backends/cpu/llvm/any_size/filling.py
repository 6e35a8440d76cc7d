"""Arrays of one number, of any dtype: a pattern of 64 bytes, over and over.

Stores of whole lines of the cache do not read what they replace; NumPy's, of half a line, take
twice as long where an array is larger than the second cache.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from fx.backends.cpu.llvm import ir as v

LINE = 64  # bytes


def emit(module: ir.Module, dtype: Any, name: str) -> None:
    """Add the kernel: ``pattern out bytes block``, a task is ``block`` bytes, whole lines."""
    kinds = [v.pointer, v.i64, v.i64, v.pointer]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), name)
    b = ir.IRBuilder(function.append_basic_block("entry"))
    table, begin, end, _ = function.args
    words = [
        b.load(v.at(b, table, i, v.i64), typ=kind, align=8)
        for i, kind in enumerate((v.pointer, v.pointer, v.i64, v.i64))
    ]
    pattern, out, size, block = words
    first = b.mul(begin, block)
    stop = v.smaller(b, b.mul(end, block), size)
    whole = b.and_(stop, v.const(-LINE))
    width = v.target().vector_bytes
    lanes = width // 4
    line = [v.load(b, v.at(b, pattern, k, v.i8), v.f32, lanes) for k in range(0, LINE, width)]

    def vectors(i: ir.Value) -> None:
        for k, part in enumerate(line):
            v.store(b, part, v.at(b, out, b.add(i, v.const(k * width)), v.i8))

    def rest(i: ir.Value) -> None:
        byte = b.load(v.at(b, pattern, b.and_(i, v.const(LINE - 1)), v.i8), typ=v.i8)
        b.store(byte, v.at(b, out, i, v.i8))

    v.loop(b, first, whole, vectors, step=LINE, name="vectors")
    v.loop(b, v.larger(b, first, whole), stop, rest, name="rest")
    b.ret_void()
