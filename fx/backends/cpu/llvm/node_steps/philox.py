"""Random bits and keys: Philox 4x32-10, with the bits of ``fx.backends.cpu.philox``.

Words are kept in the low halves of 64-bit lanes, where a product of two of them fits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from fx import limits
from fx.backends.cpu.llvm.ir import (
    Frame,
    Turns,
    at,
    i32,
    i64,
    load_item,
    pointer,
    splat,
    store_item,
    target,
    turns,
)
from fx.backends.cpu.llvm.node_steps.kernel import SpecialStep, has_elements
from fx.backends.cpu.llvm.vecmath.algebra import Int
from fx.compiler.step import Step
from fx.dtypes import uint32
from fx.graph.ir import Node

_M0, _M1 = 0xD2511F53, 0xCD9E8D57
_W0, _W1 = 0x9E3779B9, 0xBB67AE85
_LOW = 0xFFFFFFFF
_DERIVED = 0x80000000  # the top word of counters that make keys
KEY = 6  # words
Words = tuple[Int, Int, Int, Int]


def lanes() -> int:
    """Blocks computed side by side."""
    return max(4, target().vector_bytes // 4)


def buffer_bytes() -> int:
    """Bytes that ``fill`` may write to for a piece that begins anywhere in a block."""
    return 4 * (limits.DRAW_PIECE + 4 + 4 * lanes())


def _block(counter: Words, k0: Int, k1: Int) -> Words:
    """Philox of a counter with a key, in 64-bit lanes; upper halves may hold anything."""
    b = k0.b
    fold = Turns(b, [w.v for w in (*counter, k0, k1)])
    with fold.range(0, 10):
        c0, c1, c2, c3, k0, k1 = (Int(b, v) for v in fold.values)
        p0, p1 = (c0 & _LOW) * _M0, (c2 & _LOW) * _M1
        new = (p1.lshr(32) ^ c1 ^ k0, p1, p0.lshr(32) ^ c3 ^ k1, p0, k0 + _W0, k1 + _W1)
        fold.values = [w.v for w in new]
    c0, c1, c2, c3 = (Int(b, v) for v in fold.values[:4])
    return c0, c1, c2, c3


def state(b: Any, key: Any) -> Words:
    """The state of the key whose words lie at an address: four i64, in their low halves."""
    name = "fx.philox_state"
    function = b.module.globals.get(name)
    if function is None:
        result = ir.ArrayType(i64, 4)
        function = ir.Function(b.module, ir.FunctionType(result, [pointer]), name)
        function.linkage = "internal"
        inside = ir.IRBuilder(function.append_basic_block())
        words = [_word(inside, function.args[0], i) for i in range(KEY)]
        found = _block((words[2], words[3], words[4], words[5]), words[0], words[1])
        out: Any = ir.Constant(result, ir.Undefined)
        for i, word in enumerate(found):
            out = inside.insert_value(out, (word & _LOW).v, i)
        inside.ret(out)
    made = b.call(function, [key])
    a, c, d, e = (Int(b, b.extract_value(made, i)) for i in range(4))
    return a, c, d, e


def _word(b: Any, key: Any, i: int) -> Int:
    return Int(b, b.zext(load_item(b, key, i64(i), uint32), i64))


def fill(b: Any, own: Words, first: Any, count: Any, target: Any) -> None:
    """The words of blocks ``first`` and on, at least ``count`` of them, to an address.

    Whole vectors are written: up to ``buffer_bytes`` for a piece.
    """
    function = _fill(b.module)
    groups = b.udiv(b.add(count, i64(4 * lanes() - 1)), i64(4 * lanes()))
    b.call(function, [target, first, groups, *[w.v for w in own]])


def _fill(module: Any) -> Any:
    name = "fx.philox_fill"
    function = module.globals.get(name)
    if function is not None:
        return function
    kind = ir.FunctionType(ir.VoidType(), [pointer, i64, i64, *[i64] * 4])
    function = ir.Function(module, kind, name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    target, first, groups, *own = function.args
    b = ir.IRBuilder(function.append_basic_block())
    n = lanes()
    wide = ir.VectorType(i64, n)
    k0, k1, c2, c3 = (Int(b, splat(b, w, n)) for w in own)
    lane = Int(b, ir.Constant(wide, [i64(i) for i in range(n)]))
    with turns(b, 0, groups) as group:
        block = Int(b, splat(b, b.add(first, b.mul(group, i64(n))), n)) + lane
        words = [b.trunc(w.v, ir.VectorType(i32, n)) for w in _block(
            (block, block.lshr(32), c2, c3), k0, k1
        )]  # fmt: skip
        row = _interleaved(b, words, n)
        b.store(row, at(b, target, b.mul(group, i64(4 * n)), i32), align=4)
    b.ret_void()
    return function


def _interleaved(b: Any, words: Sequence[Any], n: int) -> Any:
    """Four vectors, lane by lane one after the other."""

    def shuffle(x: Any, y: Any, order: Sequence[int]) -> Any:
        mask = ir.Constant(ir.VectorType(i32, len(order)), [i32(i) for i in order])
        return b.shuffle_vector(x, y, mask)

    together = list(range(2 * n))
    left, right = shuffle(words[0], words[1], together), shuffle(words[2], words[3], together)
    return shuffle(left, right, [w * n + i for i in range(n) for w in range(4)])


# keys -------------------------------------------------------------------------------------------


def _of_rows(node: Node, make: Any) -> Step | None:
    """The step that calls ``make(b, key, number) -> six words`` for each key that it writes."""
    if not has_elements(node):
        return None
    shape = node.out.spec.shape[:-1]
    rows = math.prod(shape)

    def body(frame: Frame) -> None:
        b = frame.b
        with frame.tasks() as _, turns(b, 0, rows) as row:
            place = _broadcast(b, row, shape, node.inputs[0].spec.shape[:-1])
            key = at(b, frame.reads[0], b.mul(place, i64(KEY)), i32)
            number = None
            if len(node.inputs) > 1:
                spec = node.inputs[1].spec
                raw = load_item(
                    b, frame.reads[1], _broadcast(b, row, shape, spec.shape), spec.dtype
                )
                number = Int(b, raw).to(i64, signed=spec.dtype.kind == "i")
            place = at(b, frame.writes[0], b.mul(row, i64(KEY)), i32)
            store_key(b, make(b, key, number), place)

    return SpecialStep(node, body, cost=30.0 * rows)


def store_key(b: Any, words: Sequence[Int], place: Any) -> None:
    """Write the six words of a key, the low halves of i64."""
    for i, word in enumerate(words):
        store_item(b, b.trunc(word.v, i32), place, i64(i), uint32)


def _broadcast(b: Any, index: Any, shape: Sequence[int], source: Sequence[int]) -> Any:
    """Where element ``index`` of a shape comes from in an array that broadcasts to it."""
    if tuple(source) == tuple(shape):
        return index
    out, step = i64(0), 1
    missing = len(shape) - len(source)
    for axis in reversed(range(len(source))):
        size = shape[axis + missing]
        if source[axis] != 1:
            out = b.add(out, b.mul(b.urem(index, i64(size)), i64(step)))
            step *= source[axis]
        index = b.udiv(index, i64(size))
    return out


def following_key(b: Any, key: Any, _: Any = None) -> list[Int]:
    """The key of the next call: the call word plus one, carried into the stream word."""
    words = [_word(b, key, i) for i in range(KEY)]
    number = ((words[2] << 32) | words[3]) + 1
    return [*words[:2], number.lshr(32), number, *words[4:]]


def derived(b: Any, key: Any, number: Int) -> list[Int]:
    """The key that a number derives from the key at an address."""
    k0, k1, c2, c3 = state(b, key)
    zero = Int(b, i64(0))
    counter = (number & _LOW, Int(b, i64(_DERIVED)), c2, c3)
    return [*_block(counter, k0, k1), zero, zero]


def next_key(node: Node) -> Step | None:
    """The keys of the next calls."""
    return _of_rows(node, following_key)


def with_lane(node: Node) -> Step | None:
    """The same key with other lane words."""

    def make(b: Any, key: Any, number: Int) -> list[Int]:
        return [*[_word(b, key, i) for i in range(4)], number, number.lshr(32)]

    return _of_rows(node, make)


def derive(node: Node) -> Step | None:
    """A new key for each number."""
    return _of_rows(node, derived)
