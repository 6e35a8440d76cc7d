"""The expressions of a nest as LLVM values: constants, loads, operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from llvmlite import ir

from fx.backends.cpu.llvm.ir import (
    Splat,
    at,
    backwards,
    both,
    const,
    constant,
    gather,
    gather_part,
    i1,
    i64,
    known,
    llvm_type,
    load,
    load_parts,
    loaded,
    numbers,
    pointer,
    size,
    splat,
    storage_type,
)
from fx.backends.cpu.llvm.loops.levels import Levels
from fx.backends.cpu.llvm.vecmath.table import EMIT, load_convert
from fx.compiler.extents import Extent, is_known
from fx.compiler.maps import Form
from fx.compiler.pairs import PARTS
from fx.compiler.plan import Plan

_I8 = ir.IntType(8)
Table = tuple[Sequence[int], Mapping[str, int]]


class Expressions:
    """What emits expressions where they are first known.

    Values of expressions are lists: one LLVM value where it is the same for all lanes, ``copies``
    vectors where it depends on the vector loop.

    Args:
        plan: of the nest.
        function: what is emitted into.
        args: begin, end, scratch and the arrays; those of the function unless given.
        table: where the table that is the function's first argument, before begin, end and
            scratch, holds each array and each extent.
        words: else the address of what holds each extent, and where.
    """

    def __init__(
        self,
        plan: Plan,
        function: ir.Function,
        args: Sequence[Any] | None = None,
        table: Table | None = None,
        words: tuple[Any, Mapping[str, int]] | None = None,
    ) -> None:
        self.plan, self.nest = plan, plan.nest
        self.levels = Levels(function)
        self.b = self.levels.b
        args = args or function.args  # begin, end, scratch, arrays
        self.extents: dict[Any, Any] = {}
        if table is not None:
            args = self._from_table(args, *table)
        elif words is not None:
            self.extents = loaded(self.b, *words)
        self.begin, self.end, self.scratch = args[:3]
        n = len(self.nest.reads)
        self.reads, self.writes = args[3 : 3 + n], args[3 + n :]
        self.index: dict[int, Any] = {}  # of each loop that runs
        self.mask: Any = None
        self.single = False  # whether the mask leaves one lane
        self.copies = 1  # vectors that are computed at a time
        self.unroll = plan.unroll  # the same in the loop over whole vectors
        self.pass_ = 0
        self.tile: Any = None  # where a block of the tile loop begins
        self.row: Any = None  # the place in a block of the tile loop
        self.stretch = 0  # iterations of the loop over whole vectors that make one; 0: no stretches
        self.stretched = False  # whether a stretch is being emitted
        self.fresh: list[Any] = []  # what reductions begin a stretch with
        self.sinks: list[Any] = []  # the rows of partial results of the task
        self.near: dict[int, Any] = {}  # by sink, where float32 is added up before float64 takes it

    def _from_table(
        self, args: Sequence[Any], arrays: Sequence[int], sizes: Mapping[str, int]
    ) -> list[Any]:
        b = self.b
        table, begin, end, _ = args
        found = [b.load(b.gep(table, [const(i)], source_etype=i64), typ=pointer) for i in arrays]
        self.extents = loaded(b, table, sizes)
        scratch = None
        if self.plan.scratch:
            scratch = b.alloca(_I8, self.number(self.plan.scratch))
            scratch.align, scratch.type = 64, pointer
        return [begin, end, scratch, *found]

    def number(self, n: int) -> Any:
        """A size as an i64."""
        if type(n) is not Extent:
            return const(n)
        return self.levels.at(0, lambda: size(self.b, n, self.extents))

    def _is_vector(self, e: int) -> bool:
        return self.plan.vector in self.plan.deps[e]

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
        return found  # type: ignore[no-any-return]

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
                if is_known(low, high) and isinstance(x, ir.Constant) and type(x.constant) is list:
                    told = [int(low <= n.constant < high) for n in x.constant]
                    found.append(numbers(i1, told))
                    continue
                above = b.icmp_signed(">=", x, self._like(x, low))
                found.append(b.and_(above, b.icmp_signed("<", x, self._like(x, high))))
        elif e.name == "complex":
            parts = [self.value(a) for a in e.args]
            if self._is_vector(i):
                parts = [self._spread(p) for p in parts]
            found = list(zip(*parts))
        elif e.kind == "op":
            found = self._op(i, e)
        else:
            raise AssertionError(f"{e} is used before its pass")
        if buffer is not None and self.pass_ == buffer[0]:
            self._buffered(i, buffer[1], found)
        return found

    def _like(self, x: Any, n: int) -> Any:
        """A size as an i64, or as a vector of them, as ``x`` is one."""
        if type(n) is not Extent:
            return constant(x.type, n)
        number = self.number(n)
        return splat(self.b, number, x.type.count) if isinstance(x.type, ir.VectorType) else number

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
        if type(values[0]) is tuple:  # parts of complex numbers
            return list(zip(*[self._spread(list(parts)) for parts in zip(*values)]))
        if isinstance(values[0].type, ir.VectorType):
            return values
        x = values[0]
        lanes = self.plan.lanes
        if isinstance(x, ir.Constant):
            return [Splat(ir.VectorType(x.type, lanes), x)] * self.copies
        return [splat(self.b, x, lanes)] * self.copies

    def _offset(self, form: Form) -> Any:
        """The value of a form at the current iteration, for the first lane of the first vector."""
        depth = self.plan.depth
        terms = sorted(form[1], key=lambda t: depth[t[0]])
        total: Any = self.number(form[0])
        prefix: list[tuple[int, int]] = []
        for d, c in terms:
            prefix.append((d, c))

            def emit(total: Any = total, d: int = d, c: int = c) -> Any:
                x = self.index[d]
                if known(x) == 0:
                    return total
                part = x if c == 1 else self.b.mul(x, self.number(c), flags=("nsw",))
                return part if known(total) == 0 else self.b.add(total, part, flags=("nsw",))

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
        plan = self.plan
        first = self._offset(form)
        stride = self._stride(form)
        if not stride:
            return [first]
        return [self._along(first, stride, k * plan.lanes) for k in range(self.copies)]

    def _along(self, first: Any, stride: int, skipped: int) -> Any:
        """A vector of numbers that are ``stride`` apart, without the first ``skipped``."""
        b, lanes = self.b, self.plan.lanes
        kind = ir.VectorType(i64, lanes)
        if type(stride) is Extent:
            places = ir.Constant(kind, [skipped + j for j in range(lanes)])
            steps = b.mul(splat(b, self.number(stride), lanes), places)
        else:
            start = known(first)
            if start is not None:
                return numbers(i64, [start + (skipped + j) * stride for j in range(lanes)])
            steps = ir.Constant(kind, [(skipped + j) * stride for j in range(lanes)])
        return b.add(splat(b, first, lanes), steps)

    def _load(self, i: int, e: Any) -> list[Any]:
        b, plan = self.b, self.plan
        read, form = e.data
        kind = storage_type(self.nest.reads[read][0])
        pointer = self.reads[read]
        part = PARTS.index(e.name) if e.name else None
        if i in plan.tiled:
            kind = storage_type(e.dtype)
            wide = ir.VectorType(kind, plan.lanes)
            place = b.gep(self._tile_buffer(i, wide), [self.row], source_etype=wide)
            return [load_convert(b, b.load(place, typ=wide), e.dtype)]
        guard = self.value(e.args[0]) if e.args else None
        offset = self._offset(form)
        stride = self._stride(form)
        if not self._is_vector(i):
            if guard is not None:
                offset = b.select(guard[0], offset, const(0))
            place = b.gep(pointer, [offset], source_etype=kind)
            if part is not None:
                kind = kind.element
                place = at(b, place, part, kind)
            return [load_convert(b, b.load(place, typ=kind), e.dtype)]
        lanes = plan.lanes
        out = []
        guards = self._spread(guard) if guard is not None else [None] * self.copies
        for k in range(self.copies):
            mask = both(b, self.mask, guards[k])
            ahead = k * lanes * stride
            if stride == 1 or stride == -1:
                if stride == -1:
                    ahead -= lanes - 1
                place = b.gep(pointer, [b.add(offset, const(ahead)) if ahead else offset],
                              source_etype=kind)  # fmt: skip
                if mask is not None and stride == -1:
                    mask = backwards(b, mask)
                if guards[k] is not None:  # outside of it not even an address: see README
                    place = b.select(_any(b, guards[k]), place, pointer)
                if part is None:
                    raw = load(b, place, kind, lanes, mask)
                else:
                    raw = self._halves(i, k, place, kind, mask)[part]
                if stride == -1:
                    raw = backwards(b, raw)
            else:
                places = self._along(offset, stride, k * lanes)
                if part is None:
                    raw = gather(b, pointer, places, mask, ir.VectorType(kind, lanes))
                else:
                    raw = gather_part(b, pointer, places, mask, kind.element, part)
            out.append(load_convert(b, raw, e.dtype))
        return out

    def _halves(self, i: int, k: int, place: Any, kind: Any, mask: Any) -> Any:
        """The parts of complex numbers that lie one after the other, loaded once for both."""
        e = self.nest.exprs[i]
        values = self.levels.level(self.plan.levels[i]).values
        key = "halves", e.data, e.args, k
        if key not in values:
            values[key] = load_parts(self.b, place, kind.element, self.plan.lanes, mask)
        return values[key]

    def _tile_buffer(self, i: int, wide: Any) -> Any:
        """Stack memory for the transposed vectors of a read."""
        entry = self.levels.stack[0]
        found = entry.values.get(("tile", i))
        if found is None:
            found = self.levels.at(0, lambda: self.b.alloca(wide, self.plan.lanes))
            found.align = 64
            entry.values["tile", i] = found
        return found

    def _buffered(self, i: int, at: int, values: list[Any] | None) -> list[Any]:
        """Store values to the row's scratch, or load them from it."""
        b, plan, nest = self.b, self.plan, self.nest
        dtype = nest.exprs[i].dtype
        kind = llvm_type(dtype, plan.lanes)
        width = plan.lanes if plan.in_rows else plan.lanes * plan.unroll
        form, stride = [], 1
        for d in reversed(nest.rows):
            if d not in plan.deps[i]:  # it is computed, and kept, outside of that loop
                continue
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
        base = b.gep(self.scratch, [self.number(at)], source_etype=_I8)
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


def _any(b: ir.IRBuilder, mask: Any) -> Any:
    """Whether a lane of a mask is set."""
    bits = ir.IntType(mask.type.count)
    return b.icmp_unsigned("!=", b.bitcast(mask, bits), ir.Constant(bits, 0))
