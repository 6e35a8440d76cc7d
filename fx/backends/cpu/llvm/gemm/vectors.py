"""Vectors, masks and loops in LLVM IR: what the products are written with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

from fx.backends.cpu.llvm.vecmath.types import vector_bytes

i1, i8, i16, i32, i64 = (ir.IntType(n) for n in (1, 8, 16, 32, 64))
f16, f32, f64 = ir.HalfType(), ir.FloatType(), ir.DoubleType()
pointer = ir.PointerType()

FLAGS = ("contract", "reassoc", "nsz", "arcp")
_NARROW = {"bfloat16": i16, "float16": f16}
_MEMORY = {
    "float32": f32, "float64": f64, "bool": i8, "int8": i8, "uint8": i8, "int16": i16,
    "uint16": i16, "int32": i32, "uint32": i32, "int64": i64, "uint64": i64, **_NARROW,
}  # fmt: skip


def registers() -> int:
    """How many vector registers this CPU has."""
    return 16 if vector_bytes() < 64 and _is_x86() else 32


@lru_cache(maxsize=1)
def _is_x86() -> bool:
    return str(llvm.get_process_triple()).startswith(("x86", "i686"))


def memory_type(dtype: Any) -> ir.Type:
    """The type of an element of ``dtype`` in memory."""
    return _MEMORY[dtype.name]


def compute_type(dtype: Any) -> ir.Type:
    """The type in which elements of ``dtype`` are computed: float for the 16-bit ones."""
    return f32 if dtype.name in _NARROW else _MEMORY[dtype.name]


def size_of(kind: ir.Type) -> int:
    """The bytes of a scalar type."""
    if isinstance(kind, ir.IntType):
        return int(kind.width) // 8
    return 2 if kind is f16 else 8 if kind is f64 else 4


def mangled(kind: ir.Type) -> str:
    """How the name of an intrinsic spells a type."""
    if isinstance(kind, ir.VectorType):
        return f"v{kind.count}{mangled(kind.element)}"
    if isinstance(kind, ir.PointerType):
        return "p0"
    return f"i{kind.width}" if isinstance(kind, ir.IntType) else f"f{8 * size_of(kind)}"


def intrinsic(b: ir.IRBuilder, name: str, result: ir.Type, *types: ir.Type) -> ir.Function:
    """The declaration of an intrinsic under its mangled name."""
    found = b.module.globals.get(name)
    if found is None:
        found = ir.Function(b.module, ir.FunctionType(result, types), name)
    return found


def const(value: int) -> ir.Constant:
    """An i64."""
    return ir.Constant(i64, value)


def add(b: ir.IRBuilder, x: ir.Value, y: ir.Value | int) -> ir.Value:
    """``x + y`` of i64, folded where both are known."""
    y = const(y) if isinstance(y, int) else y
    if isinstance(x, ir.Constant) and isinstance(y, ir.Constant):
        return const(x.constant + y.constant)
    if isinstance(y, ir.Constant) and y.constant == 0:
        return x
    if isinstance(x, ir.Constant) and x.constant == 0:
        return y
    return b.add(x, y, flags=("nsw",))


def times(b: ir.IRBuilder, x: ir.Value, y: int) -> ir.Value:
    """``x * y`` of i64, folded where both are known."""
    if isinstance(x, ir.Constant):
        return const(x.constant * y)
    if y == 1:
        return x
    return const(0) if y == 0 else b.mul(x, const(y), flags=("nsw",))


def split(b: ir.IRBuilder, x: ir.Value, y: int) -> tuple[ir.Value, ir.Value]:
    """``x // y, x % y`` of non-negative i64."""
    if y == 1:
        return x, const(0)
    if isinstance(x, ir.Constant):
        return const(x.constant // y), const(x.constant % y)
    q = b.udiv(x, const(y))
    return q, b.sub(x, times(b, q, y))


def smaller(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """``min(x, y)`` of i64."""
    if isinstance(x, ir.Constant) and isinstance(y, ir.Constant):
        return const(min(x.constant, y.constant))
    return b.select(b.icmp_signed("<", x, y), x, y)


def at(b: ir.IRBuilder, base: ir.Value, offset: ir.Value | int, kind: ir.Type) -> ir.Value:
    """The address of element ``offset`` of an array of ``kind``."""
    if isinstance(offset, ir.Constant):
        offset = offset.constant
    if isinstance(offset, int):
        return base if offset == 0 else b.gep(base, [const(offset)], source_etype=kind)
    return b.gep(base, [offset], source_etype=kind)


def splat(b: ir.IRBuilder, scalar: ir.Value, width: int) -> ir.Value:
    """A vector of ``width`` times the same."""
    nothing = _written(scalar.type, width, "poison")
    one = b.insert_element(nothing, scalar, ir.Constant(i32, 0))
    return b.shuffle_vector(one, nothing, _lanes(i32, [0] * width))


@lru_cache(maxsize=256)
def _written(kind: ir.Type, width: int, text: str) -> ir.Constant:
    """A vector constant by its text, which is not put together again each time."""
    found = ir.FormattedConstant(ir.VectorType(kind, width), text)
    found.constant = text
    return found


def _lanes(kind: ir.Type, numbers: Sequence[int]) -> ir.Constant:
    return _numbers(kind, tuple(numbers))


@lru_cache(maxsize=1024)
def _numbers(kind: ir.Type, numbers: tuple[int, ...]) -> ir.Constant:
    return ir.Constant(ir.VectorType(kind, len(numbers)), [ir.Constant(kind, i) for i in numbers])


def zeros(kind: ir.Type, width: int) -> ir.Constant:
    """A vector of zeros."""
    return _written(kind, width, "zeroinitializer")


def first_lanes(b: ir.IRBuilder, count: ir.Value | int, width: int) -> ir.Value:
    """The mask of the lanes below ``count``, a constant where that is known."""
    if isinstance(count, ir.Constant):
        count = count.constant
    if isinstance(count, int):
        return _lanes(i1, [int(i < count) for i in range(width)])
    lanes = _lanes(i32, range(width))
    return b.icmp_signed("<", lanes, splat(b, b.trunc(count, i32), width))


def load(
    b: ir.IRBuilder, address: ir.Value, kind: ir.Type, width: int, mask: ir.Value | None = None
) -> ir.Value:
    """``width`` elements; zeros where the mask is off."""
    vector = ir.VectorType(kind, width)
    if mask is None:
        return b.load(address, align=size_of(kind), typ=vector)
    name = f"llvm.masked.load.{mangled(vector)}.p0"
    masks = ir.VectorType(i1, width)
    call = intrinsic(b, name, vector, pointer, i32, masks, vector)
    return b.call(call, [address, ir.Constant(i32, size_of(kind)), mask, zeros(kind, width)])


def store(b: ir.IRBuilder, x: ir.Value, address: ir.Value, mask: ir.Value | None = None) -> None:
    """The live lanes of ``x`` to memory."""
    kind = x.type.element
    if mask is None:
        b.store(x, address, align=size_of(kind))
        return
    live = [lane.constant for lane in mask.constant] if isinstance(mask, ir.Constant) else ()
    if sum(live) == 1:
        # LLVM 22 stores too many bytes for a narrowed vector and a constant mask of one lane
        lane = live.index(1)
        one = b.extract_element(x, ir.Constant(i32, lane))
        b.store(one, at(b, address, lane, kind), align=size_of(kind))
        return
    name = f"llvm.masked.store.{mangled(x.type)}.p0"
    masks = ir.VectorType(i1, x.type.count)
    call = intrinsic(b, name, ir.VoidType(), x.type, pointer, i32, masks)
    b.call(call, [x, address, ir.Constant(i32, size_of(kind)), mask])


def multiply_add(b: ir.IRBuilder, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
    """``x * y + z``, rounded once where the CPU can."""
    call = intrinsic(b, f"llvm.fmuladd.{mangled(x.type)}", x.type, x.type, x.type, x.type)
    return b.call(call, [x, y, z])


def widen(b: ir.IRBuilder, x: ir.Value, dtype: Any) -> ir.Value:
    """A vector or scalar as it lies in memory, in the type in which it is computed."""
    if dtype.name not in _NARROW:
        return x
    shaped = lambda kind: ir.VectorType(kind, x.type.count) if _is_vector(x) else kind
    if dtype.name == "float16":
        return b.fpext(x, shaped(f32))
    bits = b.zext(x, shaped(i32))
    return b.bitcast(b.shl(bits, _number(shaped(i32), 16)), shaped(f32))


def narrow(b: ir.IRBuilder, x: ir.Value, dtype: Any) -> ir.Value:
    """A vector as it was computed, rounded to what ``dtype`` stores."""
    if dtype.name not in _NARROW:
        return x
    shaped = lambda kind: ir.VectorType(kind, x.type.count) if _is_vector(x) else kind
    if dtype.name == "float16":
        return b.fptrunc(x, shaped(f16))
    bits = b.bitcast(x, shaped(i32))
    number = lambda n: _number(shaped(i32), n)
    odd = b.and_(b.lshr(bits, number(16)), number(1))
    even = b.add(b.add(bits, number(0x7FFF)), odd)  # ties to even
    quiet = b.or_(bits, number(0x400000))
    chosen = b.select(b.fcmp_unordered("uno", x, x), quiet, even)
    return b.trunc(b.lshr(chosen, number(16)), shaped(i16))


def _is_vector(x: ir.Value) -> bool:
    return isinstance(x.type, ir.VectorType)


def _number(kind: ir.Type, n: int) -> ir.Constant:
    if isinstance(kind, ir.VectorType):
        return _lanes(kind.element, [n] * kind.count)
    return ir.Constant(kind, n)


def loop(
    b: ir.IRBuilder,
    start: ir.Value | int,
    stop: ir.Value | int,
    body: Callable[..., Sequence[ir.Value] | None],
    carried: Sequence[ir.Value] = (),
    step: int = 1,
    name: str = "loop",
) -> list[ir.Value]:
    """``carried = body(i, *carried)`` for i from ``start`` below ``stop``; what is carried last.

    A loop of one known turn is no loop; a loop of unknown length may have none.
    """
    start = const(start) if isinstance(start, int) else start
    stop = const(stop) if isinstance(stop, int) else stop
    known = isinstance(start, ir.Constant) and isinstance(stop, ir.Constant)
    turns = -(-(stop.constant - start.constant) // step) if known else None
    if turns is not None and turns <= 1:
        return list((body(start, *carried) or ()) if turns == 1 else carried)
    function = b.function
    before = b.block
    inside = function.append_basic_block(name)
    after = function.append_basic_block(f"{name}.end")
    if known:
        b.branch(inside)
    else:
        b.cbranch(b.icmp_signed("<", start, stop), inside, after)
    b.position_at_end(inside)
    index = b.phi(i64, "i")
    index.add_incoming(start, before)
    phis = []
    for value in carried:
        phi = b.phi(value.type)
        phi.add_incoming(value, before)
        phis.append(phi)
    results = list(body(index, *phis) or ())
    following = b.add(index, const(step), flags=("nsw",))
    index.add_incoming(following, b.block)
    for phi, value in zip(phis, results, strict=True):
        phi.add_incoming(value, b.block)
    last = b.block
    b.cbranch(b.icmp_signed("<", following, stop), inside, after)
    b.position_at_end(after)
    if known:
        return results
    final = []
    for value, result in zip(carried, results, strict=True):
        phi = b.phi(value.type)
        phi.add_incoming(value, before)
        phi.add_incoming(result, last)
        final.append(phi)
    return final


def shuffle(b: ir.IRBuilder, x: ir.Value, y: ir.Value, lanes: Sequence[int]) -> ir.Value:
    """The lanes of ``x`` and, counted on from its last one, of ``y`` that are named."""
    return b.shuffle_vector(x, y, _lanes(i32, lanes))


def transpose(b: ir.IRBuilder, rows: Sequence[ir.Value]) -> list[ir.Value]:
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


def sums_of_lanes(b: ir.IRBuilder, xs: Sequence[ir.Value]) -> ir.Value:
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
