"""Complex numbers in memory, and in registers a vector of real parts and one of imaginary ones."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from fx.backends.cpu.llvm.ir.masks import gather, load, scatter, store
from fx.backends.cpu.llvm.ir.types import i1, i64, numbers
from fx.backends.cpu.llvm.ir.values import at
from fx.backends.cpu.llvm.ir.vectors import shuffle

Parts = tuple[Any, Any]


def load_parts(b: ir.IRBuilder, address: Any, kind: ir.Type, lanes: int, mask: Any = None) -> Parts:
    """The parts, of type ``kind``, of complex numbers that lie one after the other."""
    if mask is None:
        low = load(b, address, kind, lanes)
        high = load(b, at(b, address, lanes, kind), kind, lanes)
    else:
        both = load(b, address, kind, 2 * lanes, _twice(b, mask))
        low, high = [shuffle(b, both, both, range(k, k + lanes)) for k in (0, lanes)]
    return tuple([shuffle(b, low, high, range(k, 2 * lanes, 2)) for k in (0, 1)])


def store_parts(b: ir.IRBuilder, parts: Parts, address: Any, mask: Any = None) -> None:
    """Complex numbers one after the other, or those of the live lanes."""
    lanes = parts[0].type.count
    order = [k for i in range(lanes) for k in (i, lanes + i)]
    if mask is not None:
        store(b, shuffle(b, *parts, order), address, _twice(b, mask))
        return
    for k, half in ((0, order[:lanes]), (lanes, order[lanes:])):
        store(b, shuffle(b, *parts, half), at(b, address, k, parts[0].type.element))


def store_number(b: ir.IRBuilder, parts: Parts, address: Any) -> None:
    """One complex number."""
    for k, x in enumerate(parts):
        store(b, x, at(b, address, k, x.type))


def gather_part(
    b: ir.IRBuilder, base: Any, places: Any, mask: Any, kind: ir.Type, part: int
) -> Any:
    """One of the parts of the complex numbers at the places of an array."""
    wide = ir.VectorType(kind, places.type.count)
    return gather(b, at(b, base, part, kind), _doubled(b, places), mask, wide)


def scatter_parts(b: ir.IRBuilder, parts: Parts, base: Any, places: Any, mask: Any) -> None:
    """Store complex numbers to the places of an array."""
    for k, x in enumerate(parts):
        scatter(b, x, at(b, base, k, x.type.element), _doubled(b, places), mask)


def _twice(b: ir.IRBuilder, mask: Any) -> Any:
    """A mask with each lane two times."""
    lanes = range(mask.type.count)
    if isinstance(mask, ir.Constant) and type(mask.constant) is list:
        return numbers(i1, [mask.constant[i].constant for i in lanes for _ in (0, 1)])
    return shuffle(b, mask, mask, [i for i in lanes for _ in (0, 1)])


def _doubled(b: ir.IRBuilder, places: Any) -> Any:
    """Places of complex numbers as places of their parts."""
    if isinstance(places, ir.Constant) and type(places.constant) is list:
        return numbers(i64, [2 * x.constant for x in places.constant])
    return b.add(places, places, flags=("nsw",))
