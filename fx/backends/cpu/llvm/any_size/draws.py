"""Samples of keys, of any number: the words and the bits of ``node_steps/draws.py``."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from fx import limits
from fx.backends.cpu.llvm import ir as v
from fx.backends.cpu.llvm.node_steps import draws
from fx.backends.cpu.llvm.node_steps.philox import (
    KEY,
    buffer_bytes,
    derived,
    fill,
    following_key,
    state,
    store_key,
)
from fx.backends.cpu.llvm.vecmath.algebra import Int
from fx.dtypes import float64, int64, uint32

# kernel: what follows its keys, its result, their elements a key and ``following``
_MORE = {
    "integers": "ii", "below2": "ai", "below4": "ai", "truncated": "ffffi", "chances": "aa",
}  # fmt: skip


def emit(module: ir.Module, dtype: Any, name: str) -> None:
    """Add a kernel of ``keys out n following``: a family, ``bits``, or one with more arguments.

    ``integers`` has ``span low`` as well, ``below2`` and ``below4`` (of 64 and of 128 bits) ``spans
    step``, ``truncated`` what ``draws.Truncated`` has, ``chances`` the probability of each 1, and
    where to say that one is none. A task is a piece of ``limits.DRAW_PIECE``
    samples of a key. ``following``, if not None, gets the key of the next call.

    ``derive`` has ``keys data out``, and a key a task.
    """
    kinds = [v.pointer, v.i64, v.i64, v.pointer]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), name)
    b = ir.IRBuilder(function.append_basic_block("entry"))
    table, begin, end, _ = function.args
    if name == "derive":
        keys, data, out = _words(b, table, "aaa")
        with v.turns(b, begin, end) as i:
            number = Int(b, v.load_item(b, data, i, uint32)).to(v.i64, signed=False)
            store_key(b, derived(b, _key(b, keys, i), number), _key(b, out, i))
        b.ret_void()
        return
    keys, out, n, following, *more = _words(b, table, "aaia" + _MORE.get(name, ""))
    planes = {"integers": 2, "below2": 2, "below4": 4, "chances": 1}.get(
        name, 1 + (dtype.itemsize == 8)
    )
    buffers = []
    for _ in range(planes):
        buffers.append(b.alloca(ir.ArrayType(v.i8, buffer_bytes())))
        buffers[-1].align = 64
    most = v.const(limits.DRAW_PIECE)
    pieces = b.udiv(b.add(n, v.const(limits.DRAW_PIECE - 1)), most)
    with v.turns(b, begin, end) as task:
        row = b.udiv(task, pieces)
        start = b.mul(b.urem(task, pieces), most)
        count = v.smaller(b, b.sub(n, start), most)
        own = state(b, _key(b, keys, row))
        words = []
        for plane, buffer in enumerate(buffers):  # word plane * n + i is of sample i
            first = b.add(start, b.mul(n, v.const(plane)))
            skip = b.urem(first, v.const(4))
            fill(b, own, b.udiv(first, v.const(4)), b.add(count, skip), buffer)
            words.append(v.at(b, buffer, b.mul(skip, v.const(4)), v.i8))
        target = b.add(b.mul(row, n), start)
        if name == "integers":
            span, least = (Int(b, x) for x in more)
            with v.turns(b, 0, count) as i:
                value = draws.below(_halves(b, words, i), span) + least
                v.store_item(b, value.v, out, b.add(target, i), int64)
        elif name == "chances":
            _chances(b, words[0], out, target, count, dtype, *more)
        elif name in _MORE and name != "truncated":
            spans, step = more
            with v.turns(b, 0, count) as i:
                here = b.add(target, i)
                span = Int(b, v.load_item(b, spans, b.mul(here, step), int64))
                v.store_item(b, draws.below(_halves(b, words, i), span).v, out, here, int64)
        elif name == "bits":
            with v.turns(b, 0, count) as i:
                v.store_item(b, v.load_item(b, words[0], i, uint32), out, b.add(target, i), uint32)
        else:
            family = draws.Truncated(b, *more) if name == "truncated" else name
            draws.samples(b, family, dtype, words, out, target, count)
    wanted = b.icmp_unsigned("!=", following, ir.Constant(v.pointer, None))
    with b.if_then(b.and_(wanted, b.icmp_signed("==", begin, v.const(0)))):
        store_key(b, following_key(b, keys), following)
    b.ret_void()


def _chances(
    b: Any, words: Any, out: Any, target: Any, count: Any, dtype: Any, chances: Any, wrong: Any
) -> None:
    """1 where a word lies in the lower share of them that is its chance, else 0."""
    with v.turns(b, 0, count) as i:
        here = b.add(target, i)
        p = v.load_item(b, chances, here, dtype)
        if dtype != float64:
            p = b.fpext(p, v.f64)
        word = b.uitofp(v.load_item(b, words, i, uint32), v.f64)
        hit = b.fcmp_ordered("<", word, b.fmul(p, ir.Constant(v.f64, 2.0**32)))
        v.store_item(b, b.uitofp(hit, v.memory_type(dtype)), out, here, dtype)
        none = [b.fcmp_unordered(*ends) for ends in (
            ("<", p, ir.Constant(v.f64, 0.0)), (">", p, ir.Constant(v.f64, 1.0))
        )]  # fmt: skip
        with b.if_then(b.or_(*none)):
            v.store_item(b, v.const(1), wrong, v.const(0), int64)


def _words(b: Any, table: Any, letters: str) -> list[Any]:
    """The arguments of a kernel: addresses, ints and floats."""
    found = []
    for i, letter in enumerate(letters):
        kind = v.i64 if letter == "i" else v.pointer
        found.append(b.load(v.at(b, table, i, v.i64), typ=kind, align=8))
        if letter == "f":
            found[-1] = v.load_item(b, found[-1], v.const(0), float64)
    return found


def _key(b: Any, keys: Any, i: Any) -> Any:
    return v.at(b, keys, b.mul(i, v.const(KEY)), v.i32)


def _halves(b: Any, words: list[Any], i: Any) -> list[Int]:
    return [Int(b, v.load_item(b, word, i, uint32)).to(v.i64, signed=False) for word in words]
