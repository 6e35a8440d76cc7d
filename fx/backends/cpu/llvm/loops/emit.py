"""The code of a nest: its loops, and the passes over the rows of each item."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from llvmlite import ir

from fx import limits
from fx.backends.cpu.llvm.ir import (
    const,
    constant,
    first_lanes,
    i64,
    kernel,
    known,
    llvm_type,
    loaded,
    pointer,
    size,
    sub,
)
from fx.backends.cpu.llvm.loops.expressions import Table
from fx.backends.cpu.llvm.loops.reduce import Accumulator, identity
from fx.backends.cpu.llvm.loops.sinks import Sinks
from fx.backends.cpu.llvm.vecmath.casts import rounded, term
from fx.compiler.extents import Extent
from fx.compiler.plan import Plan


def emit(
    plan: Plan, module: ir.Module, name: str, sizes: Mapping[str, int] | None = None
) -> ir.Function:
    """Add the kernel of a planned nest to ``module``.

    Where sizes have names an array of words, the last that is read, holds them in those places.
    """
    reads, count = len(plan.nest.reads), len(plan.nest.reads) + len(plan.nest.writes)
    if sizes is None:
        function = kernel(module, name, count)
        Kernel(plan, function).run()
        return function
    function = kernel(module, name, count + 1)
    args = list(function.args)
    words = args.pop(3 + reads)
    Kernel(plan, function, args, words=(words, sizes)).run()
    return function


def emit_table(plan: Plan, module: ir.Module, name: str, table: Table) -> None:
    """Add ``void name(ptr table, i64 begin, i64 end, ptr)``, whose extents stand in the table."""
    kind = ir.FunctionType(ir.VoidType(), [pointer, i64, i64, pointer])
    function = ir.Function(module, kind, name)
    function.attributes.add("nounwind")
    Kernel(plan, function, table=table).run()


def emit_all(
    module: ir.Module, name: str, steps: Sequence[tuple[str, int]], sizes: Mapping[str, int]
) -> None:
    """Add a function of the same arguments that runs kernels, given with their tasks, in order."""
    kind = ir.FunctionType(ir.VoidType(), [pointer, i64, i64, pointer])
    function = ir.Function(module, kind, name)
    b = ir.IRBuilder(function.append_basic_block())
    table, _, _, scratch = function.args
    names = loaded(b, table, sizes)
    for step, tasks in steps:
        b.call(module.globals[step], [table, const(0), size(b, tasks, names), scratch])
    b.ret_void()


class Kernel(Sinks):
    """The emission of one nest."""

    def run(self) -> None:
        """Emit everything."""
        plan, b = self.plan, self.b
        if self.nest.sinks:
            self.levels.loop(self.begin, self.end, 1, (), self._task, surely=True)
        elif plan.items == 1:
            self.levels.scope(lambda: self._item(const(0)))
        else:
            first, last = self.begin, self.end
            if plan.per_task > 1:
                each = self.number(plan.per_task)
                first = b.mul(first, each, flags=("nsw",))
                last = b.mul(last, each, flags=("nsw",))
                if plan.items % plan.per_task:
                    total = self.number(plan.items)
                    last = b.select(b.icmp_signed("<", last, total), last, total)

            def item(i: Any, carried: list[Any]) -> list[Any]:
                self._item(i)
                return []

            self.levels.loop(first, last, 1, (), item, surely=True)
        b.ret_void()

    def run_range(self) -> None:
        """Emit the iterations ``begin`` to ``end`` of the only loop."""
        count = self.b.sub(self.end, self.begin)
        self.levels.scope(lambda: self._vectors(self.begin, count, self._column))
        self.b.ret_void()

    def _item(self, number: Any) -> None:
        """One item: an iteration of the outer loops, or a block of the vector loop of one."""
        plan, nest, b = self.plan, self.nest, self.b
        rest, block = number, const(0)
        if plan.blocks > 1:
            rest, block = self._divided(number, plan.blocks)
        if plan.tile is not None:
            rest, self.tile = self._divided(rest, -(-nest.sizes[plan.tile] // plan.lanes))
            self.tile = b.mul(self.tile, const(plan.lanes), flags=("nsw",))
        loops = [d for d in nest.outer if d not in (plan.vector, plan.tile)]
        for k, d in enumerate(reversed(loops)):
            if k == len(loops) - 1:
                self.index[d] = rest
            else:
                rest, self.index[d] = self._divided(rest, nest.sizes[d])
        if plan.vector is None or plan.in_rows:
            self._rows()
            return
        n = nest.sizes[plan.vector]
        if plan.blocks == 1:
            start: Any = const(0)
            self._vectors(start, n, self._column)
            return
        start = b.mul(block, const(plan.block), flags=("nsw",))
        if n % plan.block == 0:
            self._vectors(start, plan.block, self._column)
        else:
            left = b.sub(self.number(n), start)
            full = const(plan.block)
            self._vectors(start, b.select(b.icmp_signed("<", left, full), left, full), self._column)

    def _divided(self, x: Any, n: int) -> tuple[Any, Any]:
        if n == 1:
            return x, const(0)
        size = self.number(n)
        q = self.b.udiv(x, size)
        return q, self.b.sub(x, self.b.mul(q, size))

    def _vectors(
        self,
        start: Any,
        count: Any,
        body: Callable[[list[Any]], list[Any]],
        carried: Sequence[Any] = (),
        join: Callable[[list[Any], list[Any]], list[Any]] | None = None,
    ) -> list[Any]:
        """The vector loop over ``count`` iterations from ``start``: whole vectors, then the rest.

        ``count`` is a size, or an i64 that is known when it runs. What is carried must be as
        good for a masked vector as for ``unroll`` whole ones: it is up to ``body`` to use the
        first. ``join`` adds what is carried through a stretch to what was carried before.
        """
        plan, b, levels = self.plan, self.b, self.levels
        lanes, unroll = plan.lanes, self.unroll
        step = lanes * unroll
        d = plan.vector
        found = list(carried)

        def whole(i: Any, values: list[Any]) -> list[Any]:
            self.index[d] = i
            self.copies, self.mask = unroll, None
            return body(values)

        def one(i: Any, values: list[Any]) -> list[Any]:
            self.index[d] = i
            self.copies, self.mask = 1, None
            return body(values)

        def part(i: Any, values: list[Any]) -> list[Any]:
            self.index[d] = i
            self.copies = 1
            self.mask = first_lanes(b, sub(b, stop, i), lanes)
            out = body(values)
            self.mask = None
            return out

        if type(count) is int:
            stop = b.add(start, const(count)) if known(start) != 0 else const(count)
            steps = count // step
            main = b.add(start, const(steps * step)) if known(start) != 0 else const(steps * step)
            if steps == 1:
                found = levels.scope(lambda: whole(start, found))
            elif steps:
                found = self._stretches(start, main, steps, found, whole, join)
            left = count - steps * step
            if left == 0:
                return found
            if left <= lanes:
                self.single = left == 1
                out: list[Any] = levels.scope(lambda: part(main, found))
                self.single = False
                return out
            return levels.loop(main, stop, lanes, found, part, surely=True)
        if type(count) is Extent:
            count = self.number(count)
        stop = b.add(start, count)
        main = b.add(start, b.mul(b.udiv(count, const(step)), const(step)))
        found = self._stretches(start, main, None, found, whole, join)
        if unroll > 1:  # a store with a mask is slow where masks are no registers
            last = b.add(main, b.and_(sub(b, stop, main), const(-lanes)))
            found = levels.loop(main, last, lanes, found, one)
            main = last
        return levels.loop(main, stop, lanes, found, part)

    def _stretches(
        self, start: Any, main: Any, steps: int | None, carried: list[Any], whole: Any, join: Any
    ) -> list[Any]:
        """The loop over whole vectors, in stretches where something is carried through it."""
        b, levels = self.b, self.levels
        step = self.plan.lanes * self.unroll
        surely = steps is not None
        length = self.stretch
        if join is None or not length or (steps is not None and steps <= 2 * length):
            return levels.loop(start, main, step, carried, whole, surely=surely)

        def stretch(i: Any, values: list[Any]) -> list[Any]:
            end = b.add(i, const(step * length))
            end = b.select(b.icmp_signed("<", end, main), end, main)
            self.stretched = True
            now = levels.loop(i, end, step, self.fresh, whole, surely=True)
            self.stretched = False
            return list(join(values, now))

        return levels.loop(start, main, step * length, carried, stretch, surely=surely, hidden=True)

    def _column(self, carried: list[Any]) -> list[Any]:
        """One block of columns: everything about them."""
        if self.nest.rows:
            self._rows()
        elif self.plan.tile is not None:
            self._tile()
        else:
            self._outputs(self.plan.roots[0])
        return carried

    def _rows(self) -> None:
        """The passes over the rows of one item, and what is written after them."""
        plan = self.plan
        if not self.nest.rows:
            self._outputs(plan.roots[0])
            return
        for p, roots in enumerate(plan.roots):
            self.pass_ = p
            reductions = [r for r in roots if r >= 0]
            outputs = [r for r in roots if r < 0]
            self._pass(reductions, outputs)
        self.pass_ = plan.passes
        last = [(k, self.value(e)) for k, e in plan.last]  # before any store, as in _outputs
        for k, values in last:
            self._store(k, values)

    def _pass(self, reductions: list[int], outputs: list[int]) -> None:
        plan, nest, b = self.plan, self.nest, self.b
        exprs = nest.exprs
        outside = self.copies, self.mask
        if plan.in_rows:
            self.unroll = plan.unrolls[self.pass_]
            self.copies, self.mask = self.unroll, None
        sums = [self._accumulator(r) for r in reductions]
        self.stretched = False
        # what is heavy is added up in stretches; float64 takes up each tree of what is light
        if any(not a.mixed for a in sums):
            self.stretch = limits.SUM_STRETCH
        else:
            self.stretch = limits.SUM_STRETCH if plan.in_rows and not plan.light(self.pass_) else 0

        def slots(values: list[Any]) -> list[list[Any]]:
            found, at = [], 0
            for a in sums:
                n = len(a.start(self.stretched))
                found.append(values[at : at + n])
                at += n
            return found

        def innermost(values: list[Any]) -> list[Any]:
            out: list[Any] = []
            for r, a, before in zip(reductions, sums, slots(values)):
                operand = exprs[r].args[0]
                found = self.value(operand)
                if plan.in_rows:
                    found = self._spread(found)
                if self.mask is not None and plan.in_rows:
                    nothing = self._identity(exprs[r].name, exprs[operand].dtype, plan.lanes)
                    found = [b.select(self.mask, x, nothing) for x in found]
                out += a.added(before, found, self.stretched)
            self._outputs(outputs)
            if plan.fetches and self.pass_ == plan.fetching:
                self._fetch()
            return out

        def joined(before: list[Any], now: list[Any]) -> list[Any]:
            self.stretched = True
            stretches = slots(now)
            self.stretched = False
            pairs = zip(sums, slots(before), stretches)
            return [x for a, p, q in pairs for x in a.joined(p, q)]

        start = [x for a in sums for x in a.start(False)]
        self.fresh = [x for a in sums for x in a.start(True)]

        def nested(k: int, values: list[Any]) -> list[Any]:
            d = nest.rows[k]
            if d == plan.vector:
                return self._vectors(const(0), self._count(d), innermost, values, joined)

            def one(i: Any, inner: list[Any]) -> list[Any]:
                self.index[d] = i
                return innermost(inner) if k == len(nest.rows) - 1 else nested(k + 1, inner)

            count = self._count(d)
            stop = self.number(count) if isinstance(count, int) else count
            return self.levels.loop(const(0), stop, 1, values, one, surely=True)

        found = slots(nested(0, start))
        self.copies, self.mask = outside
        for r, a, values in zip(reductions, sums, found):
            parts = [self._narrowed(x, exprs[r].dtype) for x in a.finished(values)]
            self.levels.shown[-1].values[r] = parts

    def _accumulator(self, r: int) -> Accumulator:
        """How a reduction grows in this pass."""
        plan, nest = self.plan, self.nest
        e = nest.exprs[r]
        operand = e.args[0]
        wide = self._is_vector(operand) or plan.in_rows
        length = prod([nest.sizes[d] for d in nest.rows])
        if plan.in_rows:
            vectors = -(-length // (plan.lanes * self.copies))
            most = 2 if plan.light(self.pass_) else 2 * limits.SUM_STRETCH
            short = len(nest.rows) == 1 and vectors <= most
        else:
            short = length <= 2
        return Accumulator(
            self.b, e, nest.exprs[operand].dtype, plan.in_rows, plan.lanes if wide else None,
            self.copies if wide else 1, short,
        )  # fmt: skip

    def _count(self, loop: int) -> Any:
        """How often a loop of the rows runs: a number, or an i64 where the last chunk is short."""
        nest, b = self.nest, self.b
        n = nest.sizes[loop]
        if nest.ragged is None or nest.ragged[0] != loop:
            return n
        _, chunk, total = nest.ragged
        full = self.number(n)
        left = b.sub(self.number(total), b.mul(self.index[chunk], full))
        return b.select(b.icmp_signed("<", left, full), left, full)

    def _narrowed(self, x: Any, dtype: Any) -> Any:
        return rounded(term(self.b, x, dtype), dtype).v

    def _identity(self, name: str, dtype: Any, lanes: int | None) -> Any:
        return constant(llvm_type(dtype, lanes), identity(name, dtype))
