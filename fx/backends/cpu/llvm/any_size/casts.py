"""Between float32 and the 16-bit floats, of dense arrays: a task is a block of elements."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from fx import limits
from fx.backends.cpu.llvm import ir as v


def emit(module: ir.Module, dtype: Any, name: str) -> None:
    """Add the kernel ``widen`` or ``narrow`` of a 16-bit dtype: ``source out n``."""
    kinds = [v.pointer, v.i64, v.i64, v.pointer]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), name)
    b = ir.IRBuilder(function.append_basic_block("entry"))
    table, begin, end, _ = function.args
    source, out = [b.load(v.at(b, table, i, v.i64), typ=v.pointer, align=8) for i in (0, 1)]
    n = b.load(v.at(b, table, 2, v.i64), typ=v.i64, align=8)
    half, width = v.memory_type(dtype), max(v.target().vector_bytes // 4, 4)
    taken, given = (half, v.f32) if name == "widen" else (v.f32, half)

    def some(i: Any, mask: Any) -> None:
        x = v.load(b, v.at(b, source, i, taken), taken, width, mask)
        x = v.widen(b, x, dtype) if name == "widen" else v.narrow(b, x, dtype)
        v.store(b, x, v.at(b, out, i, given), mask)

    def task(t: Any) -> None:
        first = b.mul(t, v.const(limits.FUSED_BLOCK))
        last = v.smaller(b, b.add(first, v.const(limits.FUSED_BLOCK)), n)
        left = b.and_(b.sub(last, first), v.const(width - 1))
        whole = b.sub(last, left)
        v.loop(b, first, whole, lambda i: some(i, None), step=width, name="whole")
        with b.if_then(b.icmp_signed("!=", left, v.const(0))):
            some(whole, v.first_lanes(b, left, width))

    v.loop(b, begin, end, task, name="task")
    b.ret_void()
