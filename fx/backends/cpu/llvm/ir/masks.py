"""Masks, and loads and stores of the lanes that they leave. No other lane is touched."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from fx.backends.cpu.llvm.ir.types import (
    constant,
    i1,
    i32,
    intrinsic,
    numbers,
    pointer,
    size_of,
    storage_type,
    suffix,
    void,
    zeros,
)
from fx.backends.cpu.llvm.ir.values import Index, at, known
from fx.backends.cpu.llvm.ir.vectors import splat


def first_lanes(b: ir.IRBuilder, count: Index, width: int) -> Any:
    """The mask of the lanes below ``count``, a constant where that is known."""
    n = known(count)
    if n is not None:
        return numbers(i1, [int(i < n) for i in range(width)])
    return b.icmp_signed("<", numbers(i32, range(width)), splat(b, b.trunc(count, i32), width))


def both(b: ir.IRBuilder, x: Any, y: Any) -> Any:
    """The conjunction of two masks, of which each may be None."""
    if x is None or y is None:
        return y if x is None else x
    if all(isinstance(m, ir.Constant) and type(m.constant) is list for m in (x, y)):
        return numbers(i1, [p.constant & q.constant for p, q in zip(x.constant, y.constant)])
    return b.and_(x, y)


_FEW = 4  # lanes of a vector whose elements are moved one by one where the mask is a constant


def _live(mask: Any, *places: Any) -> list[int] | None:
    """The lanes that a mask leaves, where these are known and it is a mask of few."""
    if not all(isinstance(x, ir.Constant) and type(x.constant) is list for x in (mask, *places)):
        return None
    if mask.type.count > _FEW:
        return None
    return [i for i, lane in enumerate(mask.constant) if lane.constant]


def load(
    b: ir.IRBuilder, address: Any, kind: ir.Type, lanes: int | None = None, mask: Any = None
) -> Any:
    """One element, or ``lanes`` of them, at any address; zeros where the mask is off."""
    typ = kind if lanes is None else ir.VectorType(kind, lanes)
    if mask is None:
        return b.load(address, align=size_of(kind), typ=typ)
    live = _live(mask)
    if live is not None:
        return _one_by_one(b, typ, {i: at(b, address, i, kind) for i in live})
    args = [address, i32(size_of(kind)), mask, zeros(kind, lanes)]
    return intrinsic(b, "masked.load", typ, args, f"{suffix(typ)}.p0")


def _one_by_one(b: ir.IRBuilder, typ: ir.Type, places: dict[int, Any]) -> Any:
    """A vector of what lies at some addresses, zeros in the other lanes."""
    found = constant(typ, 0)
    for lane, place in places.items():
        x = b.load(place, align=size_of(typ.element), typ=typ.element)
        found = b.insert_element(found, x, i32(lane))
    return found


def load_first(b: ir.IRBuilder, address: Any, kind: ir.Type, lanes: int, count: int) -> Any:
    """The first ``count`` elements, then zeros."""
    return load(b, address, kind, lanes, first_lanes(b, count, lanes) if count < lanes else None)


def store(b: ir.IRBuilder, x: Any, address: Any, mask: Any = None) -> None:
    """A scalar, or the live lanes of a vector, to any address."""
    if mask is None:
        kind = x.type.element if isinstance(x.type, ir.VectorType) else x.type
        b.store(x, address, align=size_of(kind))
        return
    kind = x.type.element
    flags = [lane.constant for lane in mask.constant] if isinstance(mask, ir.Constant) else ()
    live = _live(mask)
    if live is None and sum(flags) == 1:
        # LLVM 22 stores too many bytes for a narrowed vector and a constant mask of one lane
        live = [flags.index(1)]
    if live is not None:
        for lane in live:
            store(b, b.extract_element(x, i32(lane)), at(b, address, lane, kind))
        return
    args = [x, address, i32(size_of(kind)), mask]
    intrinsic(b, "masked.store", void, args, f"{suffix(x.type)}.p0")


def load_item(
    b: ir.IRBuilder, base: Any, index: Index, dtype: Any, lanes: int | None = None
) -> Any:
    """What lies at the place ``index`` of an array of ``dtype``, raw: one element, or ``lanes``."""
    kind = storage_type(dtype)
    return load(b, at(b, base, index, kind), kind, lanes)


def store_item(b: ir.IRBuilder, value: Any, base: Any, index: Index, dtype: Any) -> None:
    """Put raw elements into an array of ``dtype``."""
    store(b, value, at(b, base, index, storage_type(dtype)))


def _places(b: ir.IRBuilder, base: Any, places: Any, kind: ir.Type, mask: Any) -> tuple[Any, Any]:
    """The addresses of some elements of ``base``, and the mask, all lanes unless given."""
    lanes = places.type.count
    found = b.gep(base, [places], source_etype=kind)
    found.type = ir.VectorType(pointer, lanes)
    return found, numbers(i1, [1] * lanes) if mask is None else mask


def gather(b: ir.IRBuilder, base: Any, places: Any, mask: Any, kind: ir.Type) -> Any:
    """The elements at the places of an array, zeros where the mask is off; a vector ``kind``."""
    live = _live(numbers(i1, [1] * kind.count) if mask is None else mask, places)
    if live is not None:
        told = [i.constant for i in places.constant]
        return _one_by_one(b, kind, {i: at(b, base, told[i], kind.element) for i in live})
    found, mask = _places(b, base, places, kind.element, mask)
    args = [found, i32(size_of(kind.element)), mask, constant(kind, 0)]
    return intrinsic(b, "masked.gather", kind, args, f"{suffix(kind)}.{suffix(found.type)}")


def scatter(b: ir.IRBuilder, x: Any, base: Any, places: Any, mask: Any) -> None:
    """Store elements to the places of an array."""
    kind = x.type.element
    found, mask = _places(b, base, places, kind, mask)
    args = [x, found, i32(size_of(kind)), mask]
    intrinsic(b, "masked.scatter", void, args, f"{suffix(x.type)}.{suffix(found.type)}")


def prefetch(b: ir.IRBuilder, address: Any, written: bool) -> None:
    """Fetch the cache line of an address, which need not be one of the array."""
    intrinsic(b, "prefetch", void, [address, i32(int(written)), i32(3), i32(1)], "p0")
