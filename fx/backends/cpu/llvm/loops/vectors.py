"""Vectors: splats, masks, transposes, loads and stores of lanes."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from fx.backends.cpu.llvm.ir import constant, suffix

_I1, I32 = ir.IntType(1), ir.IntType(32)
POINTER = ir.PointerType()


def splat(b: Any, x: Any, lanes: int) -> Any:
    """A scalar in every lane."""
    kind = ir.VectorType(x.type, lanes)
    one = b.insert_element(ir.Constant(kind, ir.Undefined), x, ir.Constant(I32, 0))
    return b.shuffle_vector(one, ir.Constant(kind, ir.Undefined),
                            ir.Constant(ir.VectorType(I32, lanes), [0] * lanes))  # fmt: skip


def transposed(b: Any, rows: list[Any]) -> list[Any]:
    """The columns of a square of vectors."""
    n = len(rows)
    kind = ir.VectorType(I32, n)
    half = 1
    while half < n:  # swap the off-diagonal blocks of each square of 2 * half
        low = [j if not j & half else n + j - half for j in range(n)]
        high = [j + half if not j & half else n + j for j in range(n)]
        found = list(rows)
        for j in range(n):
            if not j & half:
                x, y = rows[j], rows[j + half]
                found[j] = b.shuffle_vector(x, y, ir.Constant(kind, low))
                found[j + half] = b.shuffle_vector(x, y, ir.Constant(kind, high))
        rows = found
        half *= 2
    return rows


def is_zero(x: Any) -> bool:
    """Whether an i64 is the constant 0."""
    return isinstance(x, ir.Constant) and x.constant == 0


def both(b: Any, x: Any, y: Any) -> Any:
    """The conjunction of two masks, of which each may be None."""
    return y if x is None else x if y is None else b.and_(x, y)


def backwards(b: Any, x: Any) -> Any:
    """The lanes in the opposite order."""
    n = x.type.count
    order = ir.Constant(ir.VectorType(I32, n), list(range(n - 1, -1, -1)))
    return b.shuffle_vector(x, x, order)


def _intrinsic(b: Any, name: str, result: Any, args: list[Any]) -> Any:
    function = b.module.globals.get(name)
    if function is None:
        function = ir.Function(b.module, ir.FunctionType(result, [a.type for a in args]), name)
    return b.call(function, args)


def _zeros(kind: Any) -> Any:
    return constant(kind, 0)


def masked_load(b: Any, place: Any, mask: Any, kind: Any, align: int) -> Any:
    """The lanes that a mask leaves of consecutive elements; zeros elsewhere."""
    args = [place, ir.Constant(I32, align), mask, _zeros(kind)]
    return _intrinsic(b, f"llvm.masked.load.{suffix(kind)}.p0", kind, args)


def masked_store(b: Any, x: Any, place: Any, mask: Any, align: int) -> None:
    """Store the lanes that a mask leaves."""
    args = [x, place, ir.Constant(I32, align), mask]
    _intrinsic(b, f"llvm.masked.store.{suffix(x.type)}.p0", ir.VoidType(), args)


def gather(b: Any, pointer: Any, places: Any, mask: Any, kind: Any, align: int) -> Any:
    """The elements at the places of an array."""
    n = kind.count
    if mask is None:
        mask = ir.Constant(ir.VectorType(_I1, n), [1] * n)
    at = b.gep(pointer, [places], source_etype=kind.element)
    at.type = ir.VectorType(POINTER, n)
    args = [at, ir.Constant(I32, align), mask, _zeros(kind)]
    return _intrinsic(b, f"llvm.masked.gather.{suffix(kind)}.v{n}p0", kind, args)


def scatter(b: Any, x: Any, pointer: Any, places: Any, mask: Any, align: int) -> None:
    """Store elements to the places of an array."""
    n = x.type.count
    if mask is None:
        mask = ir.Constant(ir.VectorType(_I1, n), [1] * n)
    at = b.gep(pointer, [places], source_etype=x.type.element)
    at.type = ir.VectorType(POINTER, n)
    args = [x, at, ir.Constant(I32, align), mask]
    _intrinsic(b, f"llvm.masked.scatter.{suffix(x.type)}.v{n}p0", ir.VoidType(), args)


def prefetch(b: Any, place: Any, written: bool) -> None:
    """Fetch the cache line of an address, which need not be one of the array."""
    args = [place, ir.Constant(I32, int(written)), ir.Constant(I32, 3), ir.Constant(I32, 1)]
    _intrinsic(b, "llvm.prefetch.p0", ir.VoidType(), args)
