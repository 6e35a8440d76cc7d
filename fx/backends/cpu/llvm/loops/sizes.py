"""Extents in code: what a formula of sizes is when it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fx.backends.cpu.llvm.ir import const, i64
from fx.compiler.extents import Extent


def size(b: Any, n: int, names: Mapping[str, Any]) -> Any:
    """An extent as an i64, computed where the builder stands from the i64s that have names."""
    if type(n) is not Extent:
        return const(n)
    total: Any = None if n.factor == 1 else const(n.factor)
    for atom in n.atoms:
        x = names[atom] if isinstance(atom, str) else _applied(b, *atom, names)
        total = x if total is None else b.mul(total, x)
    return total


def _applied(b: Any, operator: str, x: int, y: int, names: Mapping[str, Any]) -> Any:
    left, right = size(b, x, names), size(b, y, names)
    if operator == "+":
        return b.add(left, right)
    if operator in ("max", "min"):
        first = b.icmp_signed(">" if operator == "max" else "<", left, right)
        return b.select(first, left, right)
    quotient = b.sdiv(left, right)
    rest = b.sub(left, b.mul(quotient, right))  # rounded down, as in Python
    return b.add(quotient, b.sext(b.icmp_signed("<", rest, const(0)), i64))
