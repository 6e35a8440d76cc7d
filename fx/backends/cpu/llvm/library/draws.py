"""Samples of one key, of any number: the words and the bits of ``special/draws.py``."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from fx import limits
from fx.backends.cpu.llvm import ir as v
from fx.backends.cpu.llvm.special import draws
from fx.backends.cpu.llvm.special.philox import buffer_bytes, fill, state
from fx.backends.cpu.llvm.vecmath.algebra import Int
from fx.backends.cpu.llvm.vecmath.casts import store_convert
from fx.dtypes import int64, uint32


def emit(module: ir.Module, dtype: Any, name: str) -> None:
    """Add the kernel of a family or of ``bits``, ``key out n following``, or of ``integers``, which
    has ``span low`` as well.

    A task is a piece of ``limits.DRAW_PIECE`` samples. ``following``, if not None, gets the key of
    the next call.
    """
    kinds = [v.pointer, v.i64, v.i64, v.pointer]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), name)
    b = ir.IRBuilder(function.append_basic_block("entry"))
    table, begin, end, _ = function.args
    letters = "aaiaii" if name == "integers" else "aaia"
    key, out, n, following, *more = [
        b.load(v.at(b, table, i, v.i64), typ=v.pointer if c == "a" else v.i64, align=8)
        for i, c in enumerate(letters)
    ]
    wide = name == "integers" or dtype.itemsize == 8
    buffers = []
    for _ in range(1 + wide):
        buffers.append(b.alloca(ir.ArrayType(v.i8, buffer_bytes())))
        buffers[-1].align = 64
    own = state(b, key)
    with v.turns(b, begin, end) as task:
        start = b.mul(task, v.const(limits.DRAW_PIECE))
        count = v.smaller(b, b.sub(n, start), v.const(limits.DRAW_PIECE))
        high, low = buffers[0], None
        fill(b, own, b.udiv(start, v.const(4)), count, high)
        if wide:  # the low half of sample i is word n + i
            first = b.add(start, n)
            skip = b.urem(first, v.const(4))
            fill(b, own, b.udiv(first, v.const(4)), b.add(count, skip), buffers[1])
            low = v.at(b, buffers[1], b.mul(skip, v.const(4)), v.i8)
        if name == "integers":
            _integers(b, high, low, out, start, count, *more)
        elif name == "bits":
            with v.turns(b, 0, count) as i:
                v.store_item(b, v.load_item(b, high, i, uint32), out, b.add(start, i), uint32)
        else:
            _samples(b, name, dtype, high, low, out, start, count)
    wanted = b.icmp_unsigned("!=", following, ir.Constant(v.pointer, None))
    with b.if_then(b.and_(wanted, b.icmp_signed("==", begin, v.const(0)))):
        _next_key(b, key, following)
    b.ret_void()


def _next_key(b: Any, key: Any, following: Any) -> None:
    """The key of the next call, as ``philox.next_key`` makes it."""
    words = [v.load_item(b, key, v.const(i), uint32) for i in range(6)]
    one = ir.Constant(words[3].type, 1)
    words[3] = b.add(words[3], one)
    over = b.icmp_unsigned("==", words[3], ir.Constant(words[3].type, 0))
    words[2] = b.select(over, b.add(words[2], one), words[2])
    for i, word in enumerate(words):
        v.store_item(b, word, following, v.const(i), uint32)


def _samples(
    b: Any, family: str, dtype: Any, high: Any, low: Any, out: Any, start: Any, count: Any
) -> None:
    lanes = max(4, v.target().vector_bytes // 4)
    with v.turns(b, 0, count, lanes) as i:
        words = [None if x is None else draws.words(b, x, i, lanes) for x in (high, low)]
        raw = store_convert(b, draws.sample(family, dtype, *words).v, dtype)
        draws.store_some(
            b, raw, v.at(b, out, b.add(start, i), v.storage_type(dtype)), b.sub(count, i)
        )


def _integers(
    b: Any, high: Any, low: Any, out: Any, start: Any, count: Any, span: Any, least: Any
) -> None:
    with v.turns(b, 0, count) as i:
        halves = [
            Int(b, v.load_item(b, word, i, uint32)).to(v.i64, signed=False) for word in (high, low)
        ]
        value = draws.below(halves, Int(b, span))
        v.store_item(b, (value + Int(b, least)).v, out, b.add(start, i), int64)
