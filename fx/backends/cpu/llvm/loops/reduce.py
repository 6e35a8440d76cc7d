"""How reductions combine values, what they start from, and how sums keep their digits.

A sum of float32 has a result of float64 (``mixed``). In registers it grows in one of two layouts: a
*stretch* of a few vectors is added up in float32, one accumulator for each vector that is computed
at a time; *wide* accumulators of float64 take up stretches, or a tree of what is computed at a
time. A row that is no longer than a stretch needs no wide ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from fx.backends.cpu.llvm.ir import constant, f64, i32, like, llvm_type, suffix
from fx.compiler.nest import mixed
from fx.dtypes import FLOATING, bool_


def identity(name: str, dtype: Any) -> Any:
    """The number that a reduction starts from."""
    if name in ("any", "all"):
        return int(name == "all")
    if dtype == bool_:
        return int(name in ("prod", "min"))
    if name in ("sum", "prod"):
        return int(name == "prod") if dtype not in FLOATING else float(name == "prod")
    if dtype in FLOATING:
        return np.inf if name == "min" else -np.inf
    info = np.iinfo(dtype)
    return int(info.min if name == "max" else info.max)


def combine(b: Any, name: str, dtype: Any, x: Any, y: Any) -> Any:
    """``x`` and ``y`` as one; NaN wins over every number."""
    if name == "any" or (dtype == bool_ and name in ("sum", "max")):
        return b.or_(x, y)
    if name == "all" or dtype == bool_:
        return b.and_(x, y)
    if dtype in FLOATING:
        if name == "sum":
            return b.fadd(x, y)
        if name == "prod":
            return b.fmul(x, y)
        if name == "loose_max":
            return b.select(b.fcmp_ordered(">", x, y), x, y)
        full = f"llvm.{name}imum.{suffix(x.type)}"
        function = b.module.globals.get(full)
        if function is None:
            kind = ir.FunctionType(x.type, [x.type, x.type])
            function = ir.Function(b.module, kind, full)
        return b.call(function, (x, y), fastmath=("nsz",))
    if name == "sum":
        return b.add(x, y)
    if name == "prod":
        return b.mul(x, y)
    compare = b.icmp_signed if dtype.kind == "i" else b.icmp_unsigned
    return b.select(compare(">" if name == "max" else "<", x, y), x, y)


def halved(b: Any, name: str, dtype: Any, x: Any) -> Any:
    """The lanes of a vector combined, halves with halves."""
    n = x.type.count
    while n > 1:
        n //= 2
        low, high = (
            b.shuffle_vector(x, x, ir.Constant(ir.VectorType(i32, n), list(range(k, k + n))))
            for k in (0, n)
        )
        x = combine(b, name, dtype, low, high)
    return b.extract_element(x, ir.Constant(i32, 0))


class Accumulator:
    """How one reduction of a nest grows in registers.

    Args:
        b: the builder.
        e: the reduction.
        source: the dtype of its elements.
        in_rows: whether the lanes of a vector are elements of one row.
        lanes: of the vectors that it takes; None for scalars.
        copies: how many it takes at a time.
        short: whether the row is a single stretch.
    """

    def __init__(
        self,
        b: Any,
        e: Any,
        source: Any,
        in_rows: bool,
        lanes: int | None,
        copies: int,
        short: bool,
    ) -> None:
        self.b, self.e, self.source, self.in_rows = b, e, source, in_rows
        self.lanes, self.copies = lanes, copies
        self.mixed = mixed(e.dtype, source)
        self.wide = self.mixed and not short

    def start(self, stretch: bool) -> list[Any]:
        """The values that it begins with, in a stretch or outside of one."""
        wide = self.wide and not stretch
        dtype = self.source if self.mixed and not wide else self.e.dtype
        count = 1 if wide and self.in_rows else self.copies
        return [constant(llvm_type(dtype, self.lanes), identity(self.e.name, dtype))] * count

    def added(self, before: list[Any], xs: list[Any], stretch: bool) -> list[Any]:
        """With elements, one vector for each of the first values."""
        if self.wide and not stretch:
            return self._taken_up(before, xs)
        now = [self._combined(p, x) for p, x in zip(before, xs)]
        return [*now, *before[len(now) :]]

    def joined(self, before: list[Any], now: list[Any]) -> list[Any]:
        """With what was added up in a stretch."""
        if self.wide:
            return self._taken_up(before, now)
        return [self._combined(p, x) for p, x in zip(before, now, strict=True)]

    def finished(self, values: list[Any]) -> list[Any]:
        """The result: one of the row, or one for each column."""
        if self.in_rows:
            x = self._tree(values)
            dtype = self.e.dtype if self.wide or not self.mixed else self.source
            values = [halved(self.b, self.e.name, dtype, x)]
        return [self._widened(x) for x in values]

    def _taken_up(self, before: list[Any], xs: list[Any]) -> list[Any]:
        xs = [self._tree(xs)] if self.in_rows else xs
        return [self.b.fadd(p, self._widened(x)) for p, x in zip(before, xs, strict=True)]

    def _combined(self, x: Any, y: Any) -> Any:
        return combine(self.b, self.e.name, self.source if self.mixed else self.e.dtype, x, y)

    def _widened(self, x: Any) -> Any:
        kind = like(x.type, f64)
        return x if not self.mixed or x.type == kind else self.b.fpext(x, kind)

    def _tree(self, xs: list[Any]) -> Any:
        while len(xs) > 1:
            pairs = [xs[i : i + 2] for i in range(0, len(xs), 2)]
            xs = [
                combine(self.b, self.e.name, self._dtype(p), *p) if p[1:] else p[0] for p in pairs
            ]
        return xs[0]

    def _dtype(self, xs: list[Any]) -> Any:
        return self.source if self.mixed and xs[0].type != like(xs[0].type, f64) else self.e.dtype
