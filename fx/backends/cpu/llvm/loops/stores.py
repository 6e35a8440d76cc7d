"""What a nest stores: outputs, tiles that are transposed."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from fx.backends.cpu.llvm.ir import (
    backwards,
    const,
    first_lanes,
    i32,
    load,
    load_parts,
    prefetch,
    scatter,
    scatter_parts,
    storage_type,
    store,
    store_number,
    store_parts,
    transpose,
)
from fx.backends.cpu.llvm.loops.expressions import Expressions
from fx.backends.cpu.llvm.vecmath.table import store_convert
from fx.compiler.pairs import PARTS
from fx.dtypes import COMPLEX


class Stores(Expressions):
    """What emits stores."""

    def _outputs(self, roots: list[int]) -> None:
        # every value before any store: an output may lie in the memory of what another one reads
        count = len(self.nest.outputs)
        found = [
            self.value((self.nest.outputs[k] if k < count else self.nest.sinks[k - count])[2])
            for k in [-1 - r for r in roots]
        ]
        for r, values in zip(roots, found):
            k = -1 - r
            if k >= count:
                self._sink(k - count, values)
            else:
                self._store(k, values)

    def _sink(self, k: int, values: list[Any]) -> None:
        raise NotImplementedError

    def _store(self, k: int, values: list[Any]) -> None:
        b, plan = self.b, self.plan
        write, form, _ = self.nest.outputs[k]
        dtype = self.nest.writes[write][0]
        kind = storage_type(dtype)
        pointer = self.writes[write]
        offset = self._offset(form)
        stride = self._stride(form)
        if dtype in COMPLEX:
            self._store_complex(pointer, kind, offset, stride, values)
            return
        if not stride:
            b.store(store_convert(b, values[0], dtype),
                    b.gep(pointer, [offset], source_etype=kind))  # fmt: skip
            return
        if self.single:
            x = store_convert(b, self._spread(values)[0], dtype)
            self._store_first(x, b.gep(pointer, [offset], source_etype=kind), dtype.itemsize)
            return
        lanes = plan.lanes
        for j, x in enumerate(self._spread(values)):
            x = store_convert(b, x, dtype)
            at = j * lanes * stride
            mask = self.mask
            if stride in (1, -1):
                if stride == -1:
                    at -= lanes - 1
                    x = backwards(b, x)
                    mask = None if mask is None else backwards(b, mask)
                place = b.gep(pointer, [b.add(offset, const(at)) if at else offset],
                              source_etype=kind)  # fmt: skip
                store(b, x, place, mask)
            else:
                scatter(b, x, pointer, self._along(offset, stride, j * lanes), mask)

    def _store_complex(
        self, pointer: Any, kind: Any, offset: Any, stride: int, values: list[Any]
    ) -> None:
        b, lanes, mask = self.b, self.plan.lanes, self.mask
        if not stride or self.single:
            parts = values[0]
            if stride:
                parts = [b.extract_element(x, ir.Constant(i32, 0)) for x in self._spread(values)[0]]
            store_number(b, parts, b.gep(pointer, [offset], source_etype=kind))
            return
        for j, parts in enumerate(self._spread(values)):
            if stride not in (1, -1):
                places = self._along(offset, stride, j * lanes)
                scatter_parts(b, parts, pointer, places, mask)
                continue
            ahead = j * lanes * stride
            if stride == -1:
                ahead -= lanes - 1
                parts = [backwards(b, x) for x in parts]
            live = backwards(b, mask) if mask is not None and stride == -1 else mask
            place = b.add(offset, const(ahead)) if ahead else offset
            store_parts(b, parts, b.gep(pointer, [place], source_etype=kind), live)

    def _store_first(self, x: Any, place: Any, align: int) -> None:
        """Store the first lane, the only one that the mask leaves.

        LLVM 22 stores too many bytes for a narrowed vector and a constant mask of one lane.
        """
        self.b.store(self.b.extract_element(x, ir.Constant(i32, 0)), place).align = align

    def _fetch(self) -> None:
        """Fetch memory that is needed soon into the cache."""
        b, plan = self.b, self.plan
        for array, form, written in plan.fetches:
            dtype, _ = (self.nest.writes if written else self.nest.reads)[array]
            kind = storage_type(dtype)
            pointer = (self.writes if written else self.reads)[array]
            offset = self._offset(form)
            lines = -(-self.copies * plan.lanes * dtype.itemsize // 64)
            for k in range(lines):
                at = b.add(offset, const(k * (64 // dtype.itemsize))) if k else offset
                prefetch(b, b.gep(pointer, [at], source_etype=kind), written)

    def _tile(self) -> None:
        """One vector for each iteration of a block of the tile loop."""
        plan, nest, b = self.plan, self.nest, self.b
        d = plan.tile
        left = b.sub(const(nest.sizes[d]), self.tile)
        full = const(plan.lanes)
        ragged = nest.sizes[d] % plan.lanes
        count = b.select(b.icmp_signed("<", left, full), left, full) if ragged else full
        rows: dict[Any, list[int]] = {}  # the parts of complex numbers lie in one
        for i in plan.tiled:
            rows.setdefault(nest.exprs[i].data, []).append(i)
        for reads in rows.values():
            self._transpose(reads, count if ragged else None)

        def one(k: Any, carried: list[Any]) -> list[Any]:
            self.row = k
            self.index[d] = b.add(self.tile, k)
            self._outputs(plan.roots[0])
            return []

        self.levels.loop(const(0), count, 1, (), one, surely=True)

    def _transpose(self, reads: list[int], count: Any) -> None:
        """Fill the buffers of reads of one place: ``lanes`` vectors along the tile, transposed."""
        plan, nest, b = self.plan, self.nest, self.b
        e = nest.exprs[reads[0]]
        read, form = e.data
        kind = storage_type(nest.reads[read][0])
        lanes = plan.lanes
        wide = ir.VectorType(storage_type(e.dtype), lanes)
        self.index[plan.tile] = self.tile
        rest = (form[0], tuple([t for t in form[1] if t[0] != plan.tile]))
        offset = b.add(self._offset(rest), self.tile)
        stride = self._stride(form)
        last = None
        if self.mask is not None:  # rows beyond the end repeat the last one
            last = b.sub(const(nest.sizes[plan.vector] - 1), self.index[plan.vector])
        mask = None
        if count is not None:
            mask = first_lanes(b, count, lanes)
        rows = []
        for j in range(lanes):
            step: Any = const(j * stride)
            if last is not None and j:
                least = b.select(b.icmp_signed("<", const(j), last), const(j), last)
                step = b.mul(least, const(stride))
            place = b.gep(self.reads[read], [b.add(offset, step)], source_etype=kind)
            if e.name:
                rows.append(load_parts(b, place, kind.element, lanes, mask))
            else:
                rows.append((load(b, place, kind, lanes, mask),))
        for i in reads:
            part = PARTS.index(nest.exprs[i].name) if e.name else 0
            buffer = self._tile_buffer(i, wide)
            for j, x in enumerate(transpose(b, [row[part] for row in rows])):
                b.store(x, b.gep(buffer, [const(j)], source_etype=wide))
