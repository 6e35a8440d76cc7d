"""Products of 16-bit numbers by the tiles of the CPU (AMX): 16 by 16 sums of 32 products at once.

A factor is packed into *panels* of 16 lines, rows of the left or columns of the right one, and a
panel into tiles of 1 KiB: 16 lines by 32 numbers, what is missing filled up with zeros.

    left    [panel][k / 32][16 rows][32 of k]
    right   [panel][k / 32][16 pairs of k][16 columns][2 of k]

Tiles multiply bfloat16. A float16 is the sum of two of these, exactly: the first 8 of its 11 digits
and the rest. So its tiles come in twos, high parts and low ones, and a product is four. An infinity
has no such parts: a panel with a number that is not finite says so, and a block with such a panel
is multiplied with ordinary vectors, from the same tiles.

Sums are float32, from the first to the last of k in order, whatever runs beside.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from functools import cache
from typing import Any

from llvmlite import ir

from fx.backends.cpu.llvm import ir as v
from fx.dtypes import float16

LINES, DEEP = 16, 32  # of a tile
TILE = 2 * LINES * DEEP  # bytes
SIDE = 2  # panels of a block, down and across
_NEEDED = ("amx-tile", "amx-bf16", "avx512bf16", "avx512bw", "avx512vl")
_EXPONENT, _HIGH = 0x7F800000, -0x10000
_PRCTL, _ASK, _TILE_DATA = 158, 0x1023, 18  # Linux on x86-64: arch_prctl, for the state of tiles


def available() -> bool:
    """Whether kernels may use the tiles of the CPU."""
    machine = v.target()
    return machine.has(*_NEEDED) and (machine is not v.host() or _granted())


@cache
def _granted() -> bool:
    """Whether this process may: Linux gives tiles to those who ask."""
    if not sys.platform.startswith("linux") or platform.machine() != "x86_64":
        return False
    try:
        return ctypes.CDLL(None).syscall(_PRCTL, _ASK, _TILE_DATA) == 0
    except (OSError, AttributeError):
        return False


def planes(dtype: Any) -> int:
    """The parts of a number."""
    return 2 if dtype == float16 else 1


def panels(lines: int) -> int:
    """How many panels some lines make."""
    return -(-lines // LINES)


def panel_bytes(dtype: Any, k: int) -> int:
    """The bytes of a panel of ``k`` numbers a line."""
    return -(-k // DEEP) * TILE * planes(dtype)


# functions --------------------------------------------------------------------------------------


def _function(b: Any, name: str, result: Any, *kinds: Any) -> tuple[Any, bool]:
    """A function of the module, and whether it is still to be written."""
    found = b.module.globals.get(name)
    if found is not None:
        return found, False
    found = ir.Function(b.module, ir.FunctionType(result, kinds), name)
    found.linkage = "internal"
    found.attributes.add("noinline")
    return found, True


def pack(b: Any, dtype: Any, right: bool, *words: Any) -> Any:
    """Pack a panel; an i32, not 0 if it has a number that tiles cannot multiply.

    Args:
        b: the builder.
        dtype: bfloat16 or float16.
        right: whether it is a panel of the right factor.
        words: the addresses of its first number and of where it goes; how many lines it has, and
            numbers a line; from one line to the next and from one k to the next, in elements. One
            of these two is 1.
    """
    name = f"fx.pack_{'right' if right else 'left'}_{dtype.name}"
    function, new = _function(b, name, v.i32, v.pointer, v.pointer, *[v.i64] * 4)
    if new:
        _Pack(function, dtype, right)
    return b.call(function, words)


class _Pack:
    """Writes the function that packs a panel."""

    def __init__(self, function: Any, dtype: Any, right: bool) -> None:
        self.dtype, self.right = dtype, right
        self.kind = v.memory_type(dtype)
        self.planes = planes(dtype)
        b = self.b = ir.IRBuilder(function.append_basic_block("entry"))
        self.source, self.target, self.lines, self.k, self.line, self.step = function.args
        self.flag = b.alloca(v.i32)
        b.store(ir.Constant(v.i32, 0), self.flag)
        blocks = b.udiv(b.add(self.k, v.const(DEEP - 1)), v.const(DEEP))
        full = b.icmp_signed(">=", self.lines, v.const(LINES))
        whole = b.select(full, b.udiv(self.k, v.const(DEEP)), v.const(0))
        along = b.icmp_signed("==", self.step, v.const(1))  # whether k lies side by side
        with b.if_else(along) as (then, otherwise):
            for branch, tile in ((then, self._by_lines), (otherwise, self._by_pairs)):
                with branch:
                    v.loop(b, 0, whole, lambda i, tile=tile: tile(i, False), name="whole")
                    v.loop(b, whole, blocks, lambda i, tile=tile: tile(i, True), name="part")
        b.ret(b.load(self.flag, typ=v.i32))

    def _place(self, block: Any, line: int, step: int) -> Any:
        b = self.b
        k = b.add(b.mul(block, v.const(DEEP)), v.const(step))
        offset = b.add(b.mul(v.const(line), self.line), b.mul(k, self.step))
        return v.at(b, self.source, offset, self.kind)

    def _by_lines(self, block: Any, masked: bool) -> None:
        """A tile whose lines are dense: 16 vectors of 16 pairs."""
        b, mask = self.b, None
        left = b.sub(self.k, b.mul(block, v.const(DEEP)))
        rows: list[list[Any]] = []
        for i in range(LINES):
            if masked:
                there = b.icmp_signed("<", v.const(i), self.lines)
                mask = v.first_lanes(b, b.select(there, left, v.const(0)), DEEP)
            x = v.load(b, self._place(block, i, 0), self.kind, DEEP, mask)
            pairs = ir.VectorType(v.i32, LINES)
            rows.append([b.bitcast(part, pairs) for part in self._parts(x)])
        self._store(block, rows, transposed=self.right)

    def _by_pairs(self, block: Any, masked: bool) -> None:
        """A tile whose lines lie side by side: 16 pairs of vectors of 16 lines."""
        b, mask = self.b, None
        left = b.sub(self.k, b.mul(block, v.const(DEEP)))
        wide = ir.VectorType(v.i32, LINES)
        half = ir.Constant(wide, [ir.Constant(v.i32, 16)] * LINES)
        rows: list[list[Any]] = []
        for i in range(LINES):
            two = []
            for k in (2 * i, 2 * i + 1):
                if masked:
                    there = b.icmp_signed("<", v.const(k), left)
                    mask = v.first_lanes(b, b.select(there, self.lines, v.const(0)), LINES)
                x = v.load(b, self._place(block, 0, k), self.kind, LINES, mask)
                two.append([b.zext(part, wide) for part in self._parts(x)])
            rows.append([b.or_(low, b.shl(high, half)) for low, high in zip(*two)])
        self._store(block, rows, transposed=not self.right)

    def _parts(self, x: Any) -> list[Any]:
        """The parts of a vector of numbers as bfloat16, in i16."""
        if self.planes == 1:
            return [x]
        b, n = self.b, x.type.count
        number = lambda i: ir.Constant(wide, [ir.Constant(v.i32, i)] * n)
        wide, narrow = ir.VectorType(v.i32, n), ir.VectorType(v.i16, n)
        floats = ir.VectorType(v.f32, n)
        whole = b.fpext(x, floats)
        bits = b.bitcast(whole, wide)
        high = b.and_(bits, number(_HIGH))
        rest = b.bitcast(b.fsub(whole, b.bitcast(high, floats)), wide)
        odd = b.icmp_signed("==", b.and_(bits, number(_EXPONENT)), number(_EXPONENT))
        low = b.select(odd, number(0), rest)
        found = b.bitcast(odd, ir.IntType(n))
        found = found if n == 32 else b.zext(found, v.i32)
        b.store(b.or_(b.load(self.flag, typ=v.i32), found), self.flag)
        return [b.trunc(b.lshr(part, number(16)), narrow) for part in (high, low)]

    def _store(self, block: Any, rows: list[list[Any]], transposed: bool) -> None:
        b = self.b
        for plane in range(self.planes):
            tile = [row[plane] for row in rows]
            place = b.add(b.mul(block, v.const(self.planes)), v.const(plane))
            at = v.at(b, self.target, b.mul(place, v.const(TILE)), v.i8)
            for i, row in enumerate(v.transpose(b, tile) if transposed else tile):
                b.store(row, v.at(b, at, i * TILE // LINES, v.i8), align=4)


# blocks -----------------------------------------------------------------------------------------

_ROW = 4 * SIDE * LINES  # bytes of a row of the sums of a block
HELD = _ROW * SIDE * LINES  # bytes of the sums of a block


def _call(b: Any, name: str, *words: Any) -> None:
    """An instruction; tiles are named by numbers of 8 bits."""
    words = tuple([ir.Constant(v.i8, w) if isinstance(w, int) else w for w in words])
    v.intrinsic(b, "x86", v.void, words, name)


def begin(b: Any) -> None:
    """Tiles of 16 rows of 64 bytes, all eight: what a thread needs before it multiplies."""
    name = "fx.tiles"
    found = b.module.globals.get(name)
    if found is None:
        text = [1, *[0] * 15, *[64, 0] * 8, *[0] * 16, *[16] * 8, *[0] * 8]
        kind = ir.ArrayType(v.i8, len(text))
        found = ir.GlobalVariable(b.module, kind, name)
        found.initializer = ir.Constant(kind, bytearray(text))
        found.linkage, found.global_constant, found.align = "internal", True, 64
    _call(b, "ldtilecfg", found)


def end(b: Any) -> None:
    """Give them back."""
    _call(b, "tilerelease")


def block(b: Any, dtype: Any, down: int, across: int, *words: Any) -> None:
    """The sums of a block of ``down`` by ``across`` panels, float32, to memory.

    Args:
        b: the builder.
        dtype: bfloat16 or float16.
        down, across: 1 or 2.
        words: the addresses of the first panel of the left and of the right factor; how many tiles
            of k they have; the bytes of a panel; where the sums go, rows of 32.
    """
    name = f"fx.block_{down}{across}_{dtype.name}"
    kinds = [v.pointer, v.pointer, v.i64, v.i64, v.pointer]
    function, new = _function(b, name, ir.VoidType(), *kinds)
    if new:
        _write_block(function, dtype, down, across)
    b.call(function, words)


def _write_block(function: Any, dtype: Any, down: int, across: int) -> None:
    x, y, blocks, panel, held = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    pitch = TILE * planes(dtype)
    places = [(i, j, SIDE * i + j) for i in range(down) for j in range(across)]
    for _, _, sums in places:
        _call(b, "tilezero", sums)

    def load(first: int, base: Any, count: int, plane: int) -> None:
        for i in range(count):
            at = v.at(b, base, b.add(b.mul(v.const(i), panel), v.const(plane * TILE)), v.i8)
            _call(
                b,
                "tileloaddt164" if first == 4 else "tileloadd64",
                first + i,
                at,
                v.const(TILE // LINES),
            )

    def multiply() -> None:
        for i, j, sums in places:
            _call(b, "tdpbf16ps", sums, 4 + i, 6 + j)

    def step(_: Any, x: Any, y: Any) -> list[Any]:
        load(4, x, down, 0)
        load(6, y, across, 0)
        multiply()
        if pitch > TILE:
            load(6, y, across, 1)
            multiply()
            load(4, x, down, 1)
            multiply()
            load(6, y, across, 0)
            multiply()
        return [v.at(b, x, pitch, v.i8), v.at(b, y, pitch, v.i8)]

    v.loop(b, 0, blocks, step, [x, y], name="k")
    for i, j, sums in places:
        at = v.at(b, held, i * LINES * _ROW + j * 4 * LINES, v.i8)
        _call(b, "tilestored64", sums, at, v.const(_ROW))
    b.ret_void()


class _BFloat(ir.Type):
    """The type of bfloat16 in what instructions take."""

    def _to_string(self) -> str:
        return "bfloat"


def rounded(b: Any, x: Any, dtype: Any) -> Any:
    """16 sums, as they are stored."""
    if dtype == float16:
        return v.narrow(b, x, dtype)
    kind = ir.VectorType(_BFloat(), LINES)
    found = v.intrinsic(b, "x86", kind, [x], "avx512bf16.cvtneps2bf16.512")
    return b.bitcast(found, ir.VectorType(v.i16, LINES))


def by_vectors(b: Any, *words: Any) -> None:
    """The sums of one panel of float16 by another with ordinary vectors; see ``block``."""
    kinds = [v.pointer, v.pointer, v.i64, v.pointer]
    function, new = _function(b, "fx.block_by_vectors", ir.VoidType(), *kinds)
    if new:
        _write_by_vectors(function)
    b.call(function, words)


def _write_by_vectors(function: Any) -> None:
    x, y, blocks, held = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    floats, wide = ir.VectorType(v.f32, LINES), ir.VectorType(v.i32, LINES)

    def both(high: Any, low: Any, kind: Any, word: Any) -> list[Any]:
        """The two numbers of a pair, put together from their parts."""
        number = lambda n: ir.Constant(
            word, n if word is v.i32 else [ir.Constant(v.i32, n)] * LINES
        )
        shift, mask = number(16), number(_HIGH)
        first = b.fadd(*[b.bitcast(b.shl(p, shift), kind) for p in (high, low)])
        return [first, b.fadd(*[b.bitcast(b.and_(p, mask), kind) for p in (high, low)])]

    def pair(i: Any, x: Any, y: Any, sums: Any) -> list[Any]:
        at = v.at(b, y, b.mul(i, v.const(TILE // LINES)), v.i8)
        parts = [b.load(v.at(b, at, p * TILE, v.i8), typ=wide, align=4) for p in (0, 1)]
        ys = both(*parts, floats, wide)
        new = []
        for r, total in enumerate(sums):
            at = v.at(b, v.at(b, x, r * TILE // LINES, v.i8), i, v.i32)
            parts = [b.load(v.at(b, at, p * TILE, v.i8), typ=v.i32, align=4) for p in (0, 1)]
            for one, line in zip(both(*parts, v.f32, v.i32), ys):
                total = v.multiply_add(b, v.splat(b, one, LINES), line, total)
            new.append(total)
        return new

    def step(_: Any, x: Any, y: Any, *sums: Any) -> list[Any]:
        sums = v.loop(b, 0, LINES, lambda i, *s: pair(i, x, y, s), sums, name="pair")
        return [v.at(b, x, 2 * TILE, v.i8), v.at(b, y, 2 * TILE, v.i8), *sums]

    start = [v.zeros(v.f32, LINES)] * LINES
    found = v.loop(b, 0, blocks, step, [x, y, *start], name="k")[2:]
    for r, total in enumerate(found):
        b.store(total, v.at(b, held, r * _ROW, v.i8), align=4)
    b.ret_void()
