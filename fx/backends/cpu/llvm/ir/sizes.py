"""Extents in code: what a formula of sizes is when it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fx.backends.cpu.llvm.ir.types import i64
from fx.backends.cpu.llvm.ir.values import const
from fx.compiler.extents import Extent


def loaded(b: Any, table: Any, places: Mapping[str, int]) -> dict[Any, Any]:
    """Sizes by name, from where a table holds them."""
    return {
        name: b.load(b.gep(table, [const(i)], source_etype=i64), typ=i64)
        for name, i in places.items()
    }


def size(b: Any, n: int, known: dict[Any, Any]) -> Any:
    """An extent as an i64, computed where the builder stands.

    Args:
        b: the builder, each time in the same block or in those that follow it.
        n: the extent, or a number.
        known: i64s by name, and by extent those that were computed.
    """
    if type(n) is not Extent:
        return const(n)
    total = known.get(n)
    if total is None:
        total = None if n.factor == 1 else const(n.factor)
        for atom in n.atoms:
            x = known[atom] if isinstance(atom, str) else _applied(b, *atom, known)
            total = x if total is None else b.mul(total, x)
        known[n] = total
    return total


def _applied(b: Any, operator: str, x: int, y: int, known: dict[Any, Any]) -> Any:
    left, right = size(b, x, known), size(b, y, known)
    if operator == "+":
        return b.add(left, right)
    if operator in ("max", "min"):
        first = b.icmp_signed(">" if operator == "max" else "<", left, right)
        return b.select(first, left, right)
    quotient = b.sdiv(left, right)
    rest = b.sub(left, b.mul(quotient, right))  # rounded down, as in Python
    return b.add(quotient, b.sext(b.icmp_signed("<", rest, const(0)), i64))
