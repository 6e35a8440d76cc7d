"""Sinks: rows of partial results, which the tasks of a nest add up on the way.

A task has a row of its own for each sink. That of a sum of float32 is float64; where the nest has
more to do than to load and to add, a few rows are added up in float32 before, in a row of scratch:

    for each group of ``limits.SINK_NEAR`` items: near += values of the items; far += near; near = 0
"""

from __future__ import annotations

from math import prod
from typing import Any

from llvmlite import ir

from fx import limits
from fx.backends.cpu.llvm.ir import (
    const,
    constant,
    f32,
    f64,
    i8,
    i64,
    like,
    llvm_type,
    load,
    splat,
    storage_type,
    store,
    widened,
    zeros,
)
from fx.backends.cpu.llvm.loops.reduce import combine, identity
from fx.backends.cpu.llvm.loops.stores import Stores
from fx.backends.cpu.llvm.vecmath.table import load_convert, store_convert
from fx.dtypes import float32, float64


class Sinks(Stores):
    """What emits the tasks of a nest with sinks."""

    def _item(self, number: Any) -> None:
        raise NotImplementedError

    def _task(self, task: Any, carried: list[Any]) -> list[Any]:
        """One task of a nest with sinks: its row of partial results, and its items."""
        plan, b, nest = self.plan, self.b, self.nest
        row = prod([nest.sizes[d] for d in nest.rows])
        self.sinks = []
        for k, (w, _, _, name) in enumerate(nest.sinks):
            dtype = nest.writes[w][0]
            kind = storage_type(dtype)
            at = b.mul(task, self.number(row))
            self.sinks.append(b.gep(self.writes[w], [at], source_etype=kind))
            first = store_convert(b, constant(llvm_type(dtype), identity(name, dtype)), dtype)
            self._fill(self.sinks[-1], splat(b, first, plan.lanes), first, row, dtype.itemsize)
            if k in plan.kept:
                near = b.gep(self.scratch, [self.number(plan.kept[k])], source_etype=i8)
                one = constant(f32, 0.0)
                self._fill(near, splat(b, one, plan.lanes), one, row, 4)
                self.near[k] = near
        low = b.mul(task, self.number(plan.per_task), flags=("nsw",))
        high = b.add(low, self.number(plan.per_task))
        if plan.items % plan.per_task:
            total = self.number(plan.items)
            high = b.select(b.icmp_signed("<", high, total), high, total)

        def item(i: Any, carried: list[Any]) -> list[Any]:
            self._item(i)
            return []

        if not plan.kept:
            self.levels.loop(low, high, 1, (), item, surely=True)
            return []

        def group(i: Any, carried: list[Any]) -> list[Any]:
            end = b.add(i, const(limits.SINK_NEAR))
            end = b.select(b.icmp_signed("<", end, high), end, high)
            self.levels.loop(i, end, 1, (), item, surely=True)
            for k, near in self.near.items():
                self._take_up(self.sinks[k], near, row)
            return []

        self.levels.loop(low, high, limits.SINK_NEAR, (), group, surely=True, hidden=True)
        return []

    def _take_up(self, total: Any, near: Any, count: int) -> None:
        """Add ``count`` float32 to as many float64, and set them to 0."""
        b, lanes = self.b, self.plan.lanes
        whole, left = count // lanes * lanes, count % lanes

        def some(i: Any, width: int | None, mask: Any) -> None:
            here = b.gep(near, [i], source_etype=f32)
            there = b.gep(total, [i], source_etype=f64)
            x, y = load(b, here, f32, width, mask), load(b, there, f64, width, mask)
            store(b, b.fadd(y, b.fpext(x, widened(f64, width))), there, mask)
            store(b, zeros(f32, width), here, mask)

        def vectors(i: Any, carried: list[Any]) -> list[Any]:
            some(i, lanes, None)
            return []

        known = type(whole) is int
        if whole:
            stop = self.number(whole)
            self.levels.loop(const(0), stop, lanes, (), vectors, surely=known)
        if not known:
            numbers = ir.Constant(ir.VectorType(i64, lanes), list(range(lanes)))
            rest = b.icmp_signed("<", numbers, splat(b, self.number(left), lanes))
            some(self.number(whole), lanes, rest)
        elif left == 1:
            some(const(whole), None, None)
        elif left:
            first = ir.VectorType(ir.IntType(1), lanes)
            some(const(whole), lanes, ir.Constant(first, [int(k < left) for k in range(lanes)]))

    def _fill(self, array: Any, wide: Any, one: Any, count: int, align: int) -> None:
        """Store a value to each of ``count`` elements."""
        b, lanes = self.b, self.plan.lanes
        whole = count // lanes * lanes
        known = type(whole) is int

        def vectors(i: Any, carried: list[Any]) -> list[Any]:
            b.store(wide, b.gep(array, [i], source_etype=one.type)).align = align
            return []

        def elements(i: Any, carried: list[Any]) -> list[Any]:
            b.store(one, b.gep(array, [i], source_etype=one.type))
            return []

        if whole:
            stop = self.number(whole)
            self.levels.loop(const(0), stop, lanes, (), vectors, surely=known)
        if not known or whole < count:
            start, stop = self.number(whole), self.number(count)
            self.levels.loop(start, stop, 1, (), elements, surely=known)

    def _sink(self, k: int, values: list[Any]) -> None:
        """Combine values into the task's row of a sink."""
        b, plan, nest = self.b, self.plan, self.nest
        w, form, _, name = nest.sinks[k]
        dtype = float32 if k in self.near else nest.writes[w][0]
        kind = storage_type(dtype)
        row = self.near.get(k, self.sinks[k])
        offset = self._offset(form)
        align = dtype.itemsize
        for j, x in enumerate(self._spread(values)):
            if dtype == float64 and x.type.element != f64:
                x = b.fpext(x, like(x.type, f64))
            at = b.add(offset, const(j * plan.lanes)) if j else offset
            place = b.gep(row, [at], source_etype=kind)
            raw = load(b, place, kind, plan.lanes, self.mask)
            x = store_convert(b, combine(b, name, dtype, load_convert(b, raw, dtype), x), dtype)
            if self.single and self.mask is not None:
                self._store_first(x, place, align)
            else:
                store(b, x, place, self.mask)
