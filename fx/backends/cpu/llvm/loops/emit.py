"""The code of a nest: loops, loads, expressions, accumulators, stores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from llvmlite import ir

from fx.backends.cpu.llvm.loops.blocks import I64, Levels, const
from fx.backends.cpu.llvm.loops.maps import Form
from fx.backends.cpu.llvm.loops.plan import Plan
from fx.backends.cpu.llvm.loops.reduce import combine, halved, identity
from fx.backends.cpu.llvm.vecmath.casts import rounded, term
from fx.backends.cpu.llvm.vecmath.table import EMIT, load_convert, store_convert
from fx.backends.cpu.llvm.vecmath.types import constant, llvm_type, storage_type, suffix

_I1, _I8, _I32 = ir.IntType(1), ir.IntType(8), ir.IntType(32)
POINTER = ir.PointerType()
_STRETCH = 32  # whole iterations after which a sum is added to the one of those before


def emit(plan: Plan, module: ir.Module, name: str) -> ir.Function:
    """Add the kernel of a planned nest to ``module``."""
    count = len(plan.nest.reads) + len(plan.nest.writes)
    kind = ir.FunctionType(ir.VoidType(), [I64, I64, POINTER] + [POINTER] * count)
    function = ir.Function(module, kind, name)
    function.attributes.add("nounwind")
    Kernel(plan, function).run()
    return function


class Kernel:
    """The emission of one nest.

    Values of expressions are lists: one LLVM value where it is the same for all lanes, ``unroll``
    vectors where it depends on the vector loop.
    """

    def __init__(
        self, plan: Plan, function: ir.Function, args: Sequence[Any] | None = None
    ) -> None:
        self.plan, self.nest = plan, plan.nest
        self.levels = Levels(function)
        self.b = self.levels.b
        args = args or function.args  # begin, end, scratch, arrays
        self.begin, self.end, self.scratch = args[:3]
        n = len(self.nest.reads)
        self.reads, self.writes = args[3 : 3 + n], args[3 + n :]
        self.index: dict[int, Any] = {}  # of each loop that runs
        self.mask: Any = None
        self.single = False  # whether the mask leaves one lane
        self.copies = 1  # vectors that are computed at a time
        self.pass_ = 0

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
                first = b.mul(first, const(plan.per_task), flags=("nsw",))
                last = b.mul(last, const(plan.per_task), flags=("nsw",))
                if plan.items % plan.per_task:
                    total = const(plan.items)
                    last = b.select(b.icmp_signed("<", last, total), last, total)

            def item(i: Any, carried: list[Any]) -> list[Any]:
                self._item(i)
                return []

            self.levels.loop(first, last, 1, (), item, surely=True)
        b.ret_void()

    def _task(self, task: Any, carried: list[Any]) -> list[Any]:
        """One task of a nest with sinks: its row of partial results, and its items."""
        plan, b, nest = self.plan, self.b, self.nest
        row = prod([nest.sizes[d] for d in nest.rows])
        self.sinks = []
        for w, _, e, name in nest.sinks:
            dtype = nest.writes[w][0]
            kind = storage_type(dtype)
            at = b.mul(task, const(row))
            self.sinks.append(b.gep(self.writes[w], [at], source_etype=kind))
            first = store_convert(b, constant(llvm_type(dtype), identity(name, dtype)), dtype)
            wide = splat(b, first, plan.lanes)
            whole = row // plan.lanes * plan.lanes
            pointer = self.sinks[-1]

            def fill(i: Any, carried: list[Any], wide: Any = wide, at: Any = pointer) -> list[Any]:
                place = b.gep(at, [i], source_etype=wide.type.element)
                b.store(wide, place).align = align
                return []

            align = dtype.itemsize
            if whole:
                self.levels.loop(const(0), const(whole), plan.lanes, (), fill, surely=True)

            def one(i: Any, carried: list[Any], x: Any = first, at: Any = pointer) -> list[Any]:
                b.store(x, b.gep(at, [i], source_etype=x.type))
                return []

            if whole < row:
                self.levels.loop(const(whole), const(row), 1, (), one, surely=True)
        low = b.mul(task, const(plan.per_task), flags=("nsw",))
        high = b.add(low, const(plan.per_task))
        if plan.items % plan.per_task:
            total = const(plan.items)
            high = b.select(b.icmp_signed("<", high, total), high, total)

        def item(i: Any, carried: list[Any]) -> list[Any]:
            self._item(i)
            return []

        self.levels.loop(low, high, 1, (), item, surely=True)
        return []

    def _sink(self, k: int, values: list[Any]) -> None:
        """Combine values into the task's row of a sink."""
        b, plan, nest = self.b, self.plan, self.nest
        w, form, e, name = nest.sinks[k]
        dtype = nest.writes[w][0]
        kind = ir.VectorType(storage_type(dtype), plan.lanes)
        offset = self._offset(form)
        align = dtype.itemsize
        for j, x in enumerate(self._spread(values)):
            at = b.add(offset, const(j * plan.lanes)) if j else offset
            place = b.gep(self.sinks[k], [at], source_etype=kind.element)
            if self.mask is None:
                raw = b.load(place, typ=kind)
                raw.align = align
            else:
                raw = _masked_load(b, place, self.mask, kind, align)
            x = store_convert(b, combine(b, name, dtype, load_convert(b, raw, dtype), x), dtype)
            if self.mask is None:
                b.store(x, place).align = align
            else:
                _masked_store(b, x, place, self.mask, align)

    def run_range(self) -> None:
        """Emit the iterations ``begin`` to ``end`` of the only loop."""
        count = self.b.sub(self.end, self.begin)
        self.levels.scope(lambda: self._vectors(self.begin, count, self._column))
        self.b.ret_void()

    # loops --------------------------------------------------------------------------------------

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
            left = b.sub(const(n), start)
            full = const(plan.block)
            self._vectors(start, b.select(b.icmp_signed("<", left, full), left, full), self._column)

    def _divided(self, x: Any, n: int) -> tuple[Any, Any]:
        if n == 1:
            return x, const(0)
        q = self.b.udiv(x, const(n))
        return q, self.b.sub(x, self.b.mul(q, const(n)))

    def _vectors(
        self,
        start: Any,
        count: Any,
        body: Callable[[list[Any]], list[Any]],
        carried: Sequence[Any] = (),
        join: Callable[[list[Any], list[Any]], list[Any]] | None = None,
    ) -> list[Any]:
        """The vector loop over ``count`` iterations from ``start``: whole vectors, then the rest.

        What ``carried`` begins with is what is carried through each stretch of ``_STRETCH`` whole
        iterations; ``join`` adds that to what was carried before, so that sums stay precise.

        ``count`` is a number, or an i64 that is known when it runs. What is carried must be as
        good for a masked vector as for ``unroll`` whole ones: it is up to ``body`` to use the first.
        """
        plan, b, levels = self.plan, self.b, self.levels
        lanes, unroll = plan.lanes, plan.unroll
        step = lanes * unroll
        d = plan.vector
        found = list(carried)

        def whole(i: Any, values: list[Any]) -> list[Any]:
            self.index[d] = i
            self.copies, self.mask = unroll, None
            return body(values)

        def part(i: Any, values: list[Any]) -> list[Any]:
            self.index[d] = i
            self.copies = 1
            left = b.trunc(b.sub(stop, i), _I32)
            numbers = ir.Constant(ir.VectorType(_I32, lanes), list(range(lanes)))
            self.mask = b.icmp_signed("<", numbers, splat(b, left, lanes))
            out = body(values)
            self.mask = None
            return out

        if isinstance(count, int):
            stop = b.add(start, const(count)) if not _is_zero(start) else const(count)
            steps = count // step
            main = b.add(start, const(steps * step)) if not _is_zero(start) else const(steps * step)
            if steps == 1:
                found = levels.scope(lambda: whole(start, found))
            elif steps:
                found = self._stretches(start, main, steps, found, whole, join)
            left = count - steps * step
            if left == 0:
                return found
            if left <= lanes:
                self.single = left == 1
                found = levels.scope(lambda: part(main, found))
                self.single = False
                return found
            return levels.loop(main, stop, lanes, found, part, surely=True)
        stop = b.add(start, count)
        main = b.add(start, b.mul(b.udiv(count, const(step)), const(step)))
        found = self._stretches(start, main, None, found, whole, join)
        return levels.loop(main, stop, lanes, found, part)

    def _stretches(
        self, start: Any, main: Any, steps: int | None, carried: list[Any], whole: Any, join: Any
    ) -> list[Any]:
        """The loop over whole vectors, in stretches where something is carried through it."""
        b, levels = self.b, self.levels
        step = self.plan.lanes * self.plan.unroll
        surely = steps is not None
        if join is None or (surely and steps <= 2 * _STRETCH):
            return levels.loop(start, main, step, carried, whole, surely=surely)

        def stretch(i: Any, values: list[Any]) -> list[Any]:
            end = b.add(i, const(step * _STRETCH))
            end = b.select(b.icmp_signed("<", end, main), end, main)
            return join(values, levels.loop(i, end, step, self.fresh, whole, surely=True))

        return levels.loop(
            start, main, step * _STRETCH, carried, stretch, surely=surely, hidden=True
        )

    def _column(self, carried: list[Any]) -> list[Any]:
        """One block of columns: everything about them."""
        if self.nest.rows:
            self._rows()
        elif self.plan.tile is not None:
            self._tile()
        else:
            self._outputs(self.plan.roots[0])
        return carried

    def _tile(self) -> None:
        """One vector for each iteration of a block of the tile loop."""
        plan, nest, b = self.plan, self.nest, self.b
        d = plan.tile
        left = b.sub(const(nest.sizes[d]), self.tile)
        full = const(plan.lanes)
        ragged = nest.sizes[d] % plan.lanes
        count = b.select(b.icmp_signed("<", left, full), left, full) if ragged else full
        for i in plan.tiled:
            self._transpose(i, count if ragged else None)

        def one(k: Any, carried: list[Any]) -> list[Any]:
            self.row = k
            self.index[d] = b.add(self.tile, k)
            self._outputs(plan.roots[0])
            return []

        self.levels.loop(const(0), count, 1, (), one, surely=True)

    def _transpose(self, i: int, count: Any) -> None:
        """Fill the buffer of a read: ``lanes`` vectors along the tile loop, transposed."""
        plan, nest, b = self.plan, self.nest, self.b
        e = nest.exprs[i]
        read, form = e.data
        kind = storage_type(e.dtype)
        lanes = plan.lanes
        wide = ir.VectorType(kind, lanes)
        self.index[plan.tile] = self.tile
        rest = (form[0], tuple([t for t in form[1] if t[0] != plan.tile]))
        offset = b.add(self._offset(rest), self.tile)
        stride = self._stride(form)
        last = None
        if self.mask is not None:  # rows beyond the end repeat the last one
            last = b.sub(const(nest.sizes[plan.vector] - 1), self.index[plan.vector])
        mask = None
        if count is not None:
            numbers = ir.Constant(ir.VectorType(_I32, lanes), list(range(lanes)))
            mask = b.icmp_signed("<", numbers, splat(b, b.trunc(count, _I32), lanes))
        rows = []
        for j in range(lanes):
            step: Any = const(j * stride)
            if last is not None and j:
                least = b.select(b.icmp_signed("<", const(j), last), const(j), last)
                step = b.mul(least, const(stride))
            place = b.gep(self.reads[read], [b.add(offset, step)], source_etype=kind)
            if mask is None:
                rows.append(b.load(place, typ=wide))
                rows[-1].align = e.dtype.itemsize
            else:
                rows.append(_masked_load(b, place, mask, wide, e.dtype.itemsize))
        buffer = self._tile_buffer(i, wide)
        for j, x in enumerate(transposed(b, rows)):
            b.store(x, b.gep(buffer, [const(j)], source_etype=wide))

    def _tile_buffer(self, i: int, wide: Any) -> Any:
        """Stack memory for the transposed vectors of a read."""
        entry = self.levels.stack[0]
        found = entry.values.get(("tile", i))
        if found is None:
            found = self.levels.at(0, lambda: self.b.alloca(wide, self.plan.lanes))
            found.align = 64
            entry.values["tile", i] = found
        return found

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
        for k, e in plan.last:
            self._store(k, self.value(e))

    def _pass(self, reductions: list[int], outputs: list[int]) -> None:
        plan, nest, b = self.plan, self.nest, self.b
        exprs = nest.exprs
        outside = self.copies, self.mask
        if plan.in_rows:
            self.copies, self.mask = plan.unroll, None
        start = []
        for r in reductions:
            e = exprs[r]
            wide = self._is_vector(e.args[0]) or plan.in_rows
            start += [self._identity(e, plan.lanes if wide else None)] * (
                self.copies if wide else 1
            )

        def innermost(values: list[Any]) -> list[Any]:
            out, at = list(values), 0
            for r in reductions:
                e = exprs[r]
                width = len(start_of[r])
                found = self.value(e.args[0])
                if plan.in_rows:
                    found = self._spread(found)
                for k, x in enumerate(found):
                    if self.mask is not None and plan.in_rows:
                        x = b.select(self.mask, x, self._identity(e, plan.lanes))
                    out[at + k] = combine(b, e.name, e.dtype, out[at + k], x)
                at += width
            self._outputs(outputs)
            return out

        start_of: dict[int, list[Any]] = {}
        at = 0
        for r in reductions:
            wide = self._is_vector(exprs[r].args[0]) or plan.in_rows
            n = self.copies if wide else 1
            start_of[r] = start[at : at + n]
            at += n

        names = [exprs[r] for r in reductions for _ in start_of[r]]

        def joined(before: list[Any], now: list[Any]) -> list[Any]:
            return [combine(b, e.name, e.dtype, x, y) for e, x, y in zip(names, before, now)]

        self.fresh = start

        def nested(k: int, values: list[Any]) -> list[Any]:
            d = nest.rows[k]
            if d == plan.vector:
                return self._vectors(const(0), self._count(d), innermost, values, joined)

            def one(i: Any, inner: list[Any]) -> list[Any]:
                self.index[d] = i
                return innermost(inner) if k == len(nest.rows) - 1 else nested(k + 1, inner)

            count = self._count(d)
            stop = const(count) if isinstance(count, int) else count
            return self.levels.loop(const(0), stop, 1, values, one, surely=True)

        found = nested(0, start)
        self.copies, self.mask = outside
        at = 0
        for r in reductions:
            e = exprs[r]
            n = len(start_of[r])
            parts = found[at : at + n]
            at += n
            if plan.in_rows:
                while len(parts) > 1:
                    parts = [
                        combine(b, e.name, e.dtype, *parts[i : i + 2]) if i + 1 < len(parts)
                        else parts[i]
                        for i in range(0, len(parts), 2)
                    ]  # fmt: skip
                parts = [halved(b, e.name, e.dtype, parts[0])]
            parts = [self._narrowed(x, e.dtype) for x in parts]
            self.levels.shown[-1].values[r] = parts

    def _count(self, loop: int) -> Any:
        """How often a loop of the rows runs: a number, or an i64 where the last chunk is short."""
        nest, b = self.nest, self.b
        n = nest.sizes[loop]
        if nest.ragged is None or nest.ragged[0] != loop:
            return n
        _, chunk, total = nest.ragged
        left = b.sub(const(total), b.mul(self.index[chunk], const(n)))
        return b.select(b.icmp_signed("<", left, const(n)), left, const(n))

    def _narrowed(self, x: Any, dtype: Any) -> Any:
        return rounded(term(self.b, x, dtype), dtype).v

    def _identity(self, e: Any, lanes: int | None) -> Any:
        return constant(llvm_type(e.dtype, lanes), identity(e.name, e.dtype))

    def _is_vector(self, e: int) -> bool:
        return self.plan.vector in self.plan.deps[e]

    # expressions --------------------------------------------------------------------------------

    def value(self, i: int) -> list[Any]:
        """The value of an expression, emitted where it is first known."""
        plan, levels = self.plan, self.levels
        depth = plan.levels[i]
        values = levels.level(depth).values
        found = values.get(i)
        if found is None:
            for a in self.nest.exprs[i].args:
                self.value(a)
            found = values[i] = levels.at(depth, lambda: self._computed(i))
        return found

    def _computed(self, i: int) -> list[Any]:
        plan, b = self.plan, self.b
        e = self.nest.exprs[i]
        buffer = plan.buffers.get(i)
        if buffer is not None and self.pass_ > buffer[0]:
            return self._buffered(i, buffer[1], None)
        if e.kind == "const":
            found = [self._constant(e)]
        elif e.kind == "load":
            found = self._load(i, e)
        elif e.kind == "index":
            found = self._numbers(e.data, i)
        elif e.kind == "inside":
            form, low, high = e.data
            found = []
            for x in self._numbers(form, i):
                above = b.icmp_signed(">=", x, constant(x.type, low))
                found.append(b.and_(above, b.icmp_signed("<", x, constant(x.type, high))))
        elif e.kind == "op":
            found = self._op(i, e)
        else:
            raise AssertionError(f"{e} is used before its pass")
        if buffer is not None and self.pass_ == buffer[0]:
            self._buffered(i, buffer[1], found)
        return found

    def _constant(self, e: Any) -> Any:
        value = np.frombuffer(e.data, dtype=e.dtype)[0]
        return constant(llvm_type(e.dtype), value)

    def _op(self, i: int, e: Any) -> list[Any]:
        b = self.b
        args = [self.value(a) for a in e.args]
        if self._is_vector(i):
            args = [self._spread(a) for a in args]
        dtypes = [self.nest.exprs[a].dtype for a in e.args]
        emitter, params = EMIT[e.name], dict(e.data)
        return [emitter(b, dtypes, e.dtype, list(vs), params) for vs in zip(*args)]

    def _spread(self, values: list[Any]) -> list[Any]:
        """As many vectors as are computed at a time."""
        if isinstance(values[0].type, ir.VectorType):
            return values
        x = values[0]
        lanes = self.plan.lanes
        if isinstance(x, ir.Constant):
            from fx.backends.cpu.llvm.vecmath.types import Splat

            return [Splat(ir.VectorType(x.type, lanes), x)] * self.copies
        return [splat(self.b, x, lanes)] * self.copies

    # addresses ----------------------------------------------------------------------------------

    def _offset(self, form: Form) -> Any:
        """The value of a form at the current iteration, for the first lane of the first vector."""
        depth = self.plan.depth
        terms = sorted(form[1], key=lambda t: depth[t[0]])
        total: Any = const(form[0])
        prefix: list[tuple[int, int]] = []
        for d, c in terms:
            prefix.append((d, c))

            def emit(total: Any = total, d: int = d, c: int = c) -> Any:
                x = self.index[d]
                if _is_zero(x):
                    return total
                part = x if c == 1 else self.b.mul(x, const(c), flags=("nsw",))
                return part if _is_zero(total) else self.b.add(total, part, flags=("nsw",))

            total = self.levels.known(depth[d], (form[0], tuple(prefix)), emit)
        return total

    def _stride(self, form: Form) -> int:
        """Along the vector loop."""
        for d, c in form[1]:
            if d == self.plan.vector:
                return c
        return 0

    def _numbers(self, form: Form, i: int) -> list[Any]:
        """The values of a form as i64s."""
        b, plan = self.b, self.plan
        first = self._offset(form)
        stride = self._stride(form)
        if not stride:
            return [first]
        out = []
        kind = ir.VectorType(I64, plan.lanes)
        for k in range(self.copies):
            steps = [(k * plan.lanes + j) * stride for j in range(plan.lanes)]
            out.append(b.add(splat(b, first, plan.lanes), ir.Constant(kind, steps)))
        return out

    def _load(self, i: int, e: Any) -> list[Any]:
        b, plan = self.b, self.plan
        read, form = e.data
        kind = storage_type(e.dtype)
        pointer = self.reads[read]
        if i in plan.tiled:
            wide = ir.VectorType(kind, plan.lanes)
            place = b.gep(self._tile_buffer(i, wide), [self.row], source_etype=wide)
            return [load_convert(b, b.load(place, typ=wide), e.dtype)]
        guard = self.value(e.args[0]) if e.args else None
        offset = self._offset(form)
        stride = self._stride(form)
        if not self._is_vector(i):
            if guard is not None:
                offset = b.select(guard[0], offset, const(0))
            raw = b.load(b.gep(pointer, [offset], source_etype=kind), typ=kind)
            return [load_convert(b, raw, e.dtype)]
        lanes = plan.lanes
        wide = ir.VectorType(kind, lanes)
        align = e.dtype.itemsize
        out = []
        guards = self._spread(guard) if guard is not None else [None] * self.copies
        for k in range(self.copies):
            mask = _both(b, self.mask, guards[k])
            at = k * lanes * stride
            if stride == 1 or stride == -1:
                if stride == -1:
                    at -= lanes - 1
                place = b.gep(pointer, [b.add(offset, const(at)) if at else offset],
                              source_etype=kind)  # fmt: skip
                if mask is None:
                    raw = b.load(place, typ=wide)
                    raw.align = align
                else:
                    if stride == -1:
                        mask = _reversed(b, mask)
                    raw = _masked_load(b, place, mask, wide, align)
                if stride == -1:
                    raw = _reversed(b, raw)
            else:
                steps = ir.Constant(
                    ir.VectorType(I64, lanes), [at + j * stride for j in range(lanes)]
                )
                places = b.add(splat(b, offset, lanes), steps)
                raw = _gather(b, pointer, places, mask, wide, align)
            out.append(load_convert(b, raw, e.dtype))
        return out

    def _outputs(self, roots: list[int]) -> None:
        for r in roots:
            k = -1 - r
            sink = k - len(self.nest.outputs)
            if sink >= 0:
                self._sink(sink, self.value(self.nest.sinks[sink][2]))
            else:
                self._store(k, self.value(self.nest.outputs[k][2]))

    def _store(self, k: int, values: list[Any]) -> None:
        b, plan = self.b, self.plan
        write, form, e = self.nest.outputs[k]
        dtype = self.nest.writes[write][0]
        kind = storage_type(dtype)
        pointer = self.writes[write]
        offset = self._offset(form)
        stride = self._stride(form)
        if not stride:
            b.store(store_convert(b, values[0], dtype),
                    b.gep(pointer, [offset], source_etype=kind))  # fmt: skip
            return
        lanes, align = plan.lanes, dtype.itemsize
        for j, x in enumerate(self._spread(values)):
            x = store_convert(b, x, dtype)
            at = j * lanes * stride
            mask = self.mask
            if stride in (1, -1):
                if stride == -1:
                    at -= lanes - 1
                    x = _reversed(b, x)
                    mask = None if mask is None else _reversed(b, mask)
                place = b.gep(pointer, [b.add(offset, const(at)) if at else offset],
                              source_etype=kind)  # fmt: skip
                if mask is None:
                    b.store(x, place).align = align
                elif self.single and stride == 1:
                    # LLVM 22 stores too many bytes for a narrowed vector and a constant mask of
                    # one lane
                    b.store(b.extract_element(x, ir.Constant(_I32, 0)), place).align = align
                else:
                    _masked_store(b, x, place, mask, align)
            else:
                steps = ir.Constant(
                    ir.VectorType(I64, lanes), [at + i * stride for i in range(lanes)]
                )
                _scatter(b, x, pointer, b.add(splat(b, offset, lanes), steps), mask, align)

    def _buffered(self, i: int, at: int, values: list[Any] | None) -> list[Any]:
        """Store values to the row's scratch, or load them from it."""
        b, plan, nest = self.b, self.plan, self.nest
        dtype = nest.exprs[i].dtype
        kind = llvm_type(dtype, plan.lanes)
        width = plan.lanes if plan.in_rows else plan.lanes * plan.unroll
        form, stride = [], 1
        for d in reversed(nest.rows):
            n = nest.sizes[d]
            if d == plan.vector:
                form.append((d, 1))
                stride = -(-n // plan.lanes) * plan.lanes
                continue
            if not plan.in_rows and not form:
                stride = width
            form.append((d, stride))
            stride *= n
        offset = self._offset((0, tuple(sorted(form))))
        base = b.gep(self.scratch, [const(at)], source_etype=_I8)
        scalar = llvm_type(dtype)
        out = []
        for k in range(self.copies):
            where = b.add(offset, const(k * plan.lanes)) if k else offset
            place = b.gep(base, [where], source_etype=scalar)
            if values is None:
                x = b.load(place, typ=kind)
                x.align = dtype.itemsize if dtype.itemsize >= 4 else 4
                out.append(x)
            else:
                wide = self._spread(values)[k]
                b.store(wide, place).align = dtype.itemsize if dtype.itemsize >= 4 else 4
        return out


# vectors ----------------------------------------------------------------------------------------


def splat(b: Any, x: Any, lanes: int) -> Any:
    """A scalar in every lane."""
    kind = ir.VectorType(x.type, lanes)
    one = b.insert_element(ir.Constant(kind, ir.Undefined), x, ir.Constant(_I32, 0))
    return b.shuffle_vector(one, ir.Constant(kind, ir.Undefined),
                            ir.Constant(ir.VectorType(_I32, lanes), [0] * lanes))  # fmt: skip


def transposed(b: Any, rows: list[Any]) -> list[Any]:
    """The columns of a square of vectors."""
    n = len(rows)
    kind = ir.VectorType(_I32, n)
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


def _is_zero(x: Any) -> bool:
    return isinstance(x, ir.Constant) and x.constant == 0


def _both(b: Any, x: Any, y: Any) -> Any:
    return y if x is None else x if y is None else b.and_(x, y)


def _reversed(b: Any, x: Any) -> Any:
    n = x.type.count
    order = ir.Constant(ir.VectorType(_I32, n), list(range(n - 1, -1, -1)))
    return b.shuffle_vector(x, x, order)


def _intrinsic(b: Any, name: str, result: Any, args: list[Any]) -> Any:
    function = b.module.globals.get(name)
    if function is None:
        function = ir.Function(b.module, ir.FunctionType(result, [a.type for a in args]), name)
    return b.call(function, args)


def _zeros(kind: Any) -> Any:
    return constant(kind, 0)


def _masked_load(b: Any, place: Any, mask: Any, kind: Any, align: int) -> Any:
    args = [place, ir.Constant(_I32, align), mask, _zeros(kind)]
    return _intrinsic(b, f"llvm.masked.load.{suffix(kind)}.p0", kind, args)


def _masked_store(b: Any, x: Any, place: Any, mask: Any, align: int) -> None:
    args = [x, place, ir.Constant(_I32, align), mask]
    _intrinsic(b, f"llvm.masked.store.{suffix(x.type)}.p0", ir.VoidType(), args)


def _addresses(b: Any, pointer: Any, places: Any, kind: Any) -> Any:
    return b.gep(pointer, [places], source_etype=kind)


def _gather(b: Any, pointer: Any, places: Any, mask: Any, kind: Any, align: int) -> Any:
    n = kind.count
    if mask is None:
        mask = ir.Constant(ir.VectorType(_I1, n), [1] * n)
    at = b.gep(pointer, [places], source_etype=kind.element)
    at.type = ir.VectorType(POINTER, n)
    args = [at, ir.Constant(_I32, align), mask, _zeros(kind)]
    return _intrinsic(b, f"llvm.masked.gather.{suffix(kind)}.v{n}p0", kind, args)


def _scatter(b: Any, x: Any, pointer: Any, places: Any, mask: Any, align: int) -> None:
    n = x.type.count
    if mask is None:
        mask = ir.Constant(ir.VectorType(_I1, n), [1] * n)
    at = b.gep(pointer, [places], source_etype=x.type.element)
    at.type = ir.VectorType(POINTER, n)
    args = [x, at, ir.Constant(_I32, align), mask]
    _intrinsic(b, f"llvm.masked.scatter.{suffix(x.type)}.v{n}p0", ir.VoidType(), args)
