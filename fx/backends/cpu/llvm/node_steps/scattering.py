"""Scatters along one axis: a task owns cells of the result, so that no two tasks meet."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from fx import limits
from fx.backends.cpu.llvm.ir import (
    NARROW,
    Frame,
    at,
    clear,
    copy,
    i8,
    i64,
    in_vectors,
    lanes_for,
    load_item,
    part,
    store_item,
    turns,
)
from fx.backends.cpu.llvm.node_steps.checked import Guard
from fx.backends.cpu.llvm.node_steps.indexing import checked_step, named
from fx.backends.cpu.llvm.node_steps.kernel import around, has_elements, tasks_for
from fx.backends.cpu.llvm.vecmath import arithmetic
from fx.backends.cpu.llvm.vecmath.casts import load_convert, rounded, store_convert, term
from fx.compiler.extents import Sizes
from fx.compiler.step import Step
from fx.dtypes import COMPLEX, float32
from fx.graph.ir import Node, Value
from fx.graph.key import foldable


class _Cells:
    """What a task adds to: rows of the result, or float32 copies of rows of 16-bit numbers.

    Args:
        frame: the kernel.
        node: a scatter.
        first, last: the rows of ``after`` elements that the task owns.
    """

    def __init__(self, frame: Frame, node: Node, first: Any, last: Any, after: int) -> None:
        self.frame, self.b = frame, frame.b
        self.source, self.mode = node.inputs[0], node.params["mode"]
        self.dtype = self.source.spec.dtype
        self.first, self.last, self.after = first, last, after
        self.wide = in_wide(node)

    def begin(self) -> None:
        """The rows as those of x."""
        b, frame = self.b, self.frame
        if self.wide:
            self._converted()
            return
        row, target = i64(self.after * self.dtype.itemsize), frame.writes[0]
        start, nbytes = b.mul(self.first, row), b.mul(b.sub(self.last, self.first), row)
        if is_zero(self.source):
            clear(b, at(b, target, start, i8), nbytes)
            return
        source = frame.reads[0]
        apart, done = b.append_basic_block("apart"), b.append_basic_block("copied")
        same = b.icmp_unsigned("==", b.ptrtoint(source, i64), b.ptrtoint(target, i64))
        b.cbranch(same, done, apart)
        b.position_at_end(apart)
        copy(b, at(b, target, start, i8), at(b, source, start, i8), nbytes)
        b.branch(done)
        b.position_at_end(done)

    def _converted(self) -> None:
        b, frame = self.b, self.frame
        start, count = self._elements()
        if is_zero(self.source):
            clear(b, frame.scratch, b.mul(count, i64(4)))
            return

        def widen(i: Any, width: int | None) -> None:
            raw = load_item(b, frame.reads[0], b.add(start, i), self.dtype, width)
            store_item(b, load_convert(b, raw, self.dtype), frame.scratch, i, float32)

        in_vectors(b, 0, count, lanes_for(float32), widen)

    def _elements(self) -> tuple[Any, Any]:
        b = self.b
        size = i64(self.after)
        return b.mul(self.first, size), b.mul(b.sub(self.last, self.first), size)

    def combine(self, row: Any, column: Any, update: Any, width: int | None) -> None:
        """Combine the update at a place with the cell of a row and a column."""
        b, dtype = self.b, self.dtype
        base = self.frame.writes[0]
        if self.wide:
            row, base = b.sub(row, self.first), self.frame.scratch
        here = b.add(b.mul(row, i64(self.after)), column)
        raw = load_item(b, self.frame.reads[-1], update, dtype, width)
        if self.mode == "set":
            store_item(b, raw, base, here, dtype)
            return
        kept = float32 if self.wide else dtype
        u = term(b, load_convert(b, raw, dtype), dtype)
        x = term(b, load_convert(b, load_item(b, base, here, kept, width), kept), kept)
        store_item(b, store_convert(b, self._combined(x, u).v, kept), base, here, kept)

    def _combined(self, x: Any, u: Any) -> Any:
        mode, dtype = self.mode, self.dtype
        if mode in ("add", "mul"):
            return (arithmetic.add if mode == "add" else arithmetic.multiply)(dtype, x, u)
        if dtype.kind in "biu":
            return (arithmetic.minimum if mode == "min" else arithmetic.maximum)(dtype, x, u)
        wins = (u < x) if mode == "min" else (u > x)
        return (wins | u.isnan()).pick(u, x)

    def end(self) -> None:
        """Round what was kept in float32."""
        if not self.wide:
            return
        b, frame = self.b, self.frame
        start, count = self._elements()

        def narrow(i: Any, width: int | None) -> None:
            x = term(b, load_item(b, frame.scratch, i, float32, width), float32)
            raw = store_convert(b, rounded(x, self.dtype).v, self.dtype)
            store_item(b, raw, frame.writes[0], b.add(start, i), self.dtype)

        in_vectors(b, 0, count, lanes_for(float32), narrow)


def in_wide(node: Node) -> bool:
    """Whether 16-bit sums or products are kept in 32 bits."""
    return node.inputs[0].spec.dtype in NARROW and node.params["mode"] in ("add", "mul")


def is_zero(value: Value) -> bool:
    """Whether an array is known to be nothing but zero bytes: where cotangents are added up."""
    node = value.node
    if node is not None and node.primitive.name == "broadcast_to":
        return is_zero(node.inputs[0])
    if node is not None and node.primitive.name == "full":
        return not any(np.asarray(node.params["value"], value.spec.dtype).tobytes())
    if value.constant is None or not foldable(value):
        return False
    array = value.array
    if not any(s for s, n in zip(array.strides, array.shape) if n > 1):
        array = array[(0,) * array.ndim]
    return not any(array.tobytes())


def _memory(node: Node, rows: int, after: int) -> dict[str, Any]:
    """What the step of a scatter reads and needs, for so many rows a task."""
    more: dict[str, Any] = {}
    if is_zero(node.inputs[0]):
        more["reads"] = node.inputs[1:]
    elif not in_wide(node):
        more["inplace"] = ((0, 0),)
    if in_wide(node):
        more["scratch"] = 4 * rows * after
    return more


def scatter(node: Node, sizes: Sizes | None = None) -> Step | None:
    """A copy of x with updates combined into the slices that idx names, in the order of idx."""
    x, idx, _ = (v.spec for v in node.inputs)
    if not has_elements(node) or x.dtype in COMPLEX:
        return None
    if sizes is not None and sizes.touch(x.shape):
        return None
    before, n, after = around(x.shape, node.params["axis"])
    m, lanes = idx.size, lanes_for(x.dtype)
    if sizes is not None:
        m = prod(sizes.shape(idx.shape))
    count = m if sizes is None else sizes.most(m)
    cost = before * count * after * (2.0 / min(after, 8)) + x.nbytes / 20
    # whole matrices, or rows of the only one
    pieces, size = (before, n) if before > 1 else (n, 1) if after >= lanes else (1, n)
    tasks = min(limits.SCATTER_TASKS, tasks_for(cost, pieces))
    more = _memory(node, -(-pieces // tasks) * size, after)
    if more.get("scratch", 0) > limits.SCATTER_SCRATCH:
        return None

    def body(frame: Frame, task: Any, status: Any) -> None:
        b = frame.b
        guard = Guard(frame, frame.reads[-2], idx.dtype, i64(n), status, task)
        end = b.append_basic_block("end")
        length = frame.number(m)
        if status is not None:  # before anything changes: x may lie in the same memory
            with turns(b, 0, length) as j:
                guard.read(j, end)
        first, last = (b.mul(v, i64(size)) for v in part(b, task, tasks, pieces))
        cells = _Cells(frame, node, first, last, after)
        cells.begin()
        sides = part(b, task, tasks, pieces) if before > 1 else (i64(0), i64(1))
        with turns(b, *sides) as a, turns(b, 0, length) as j:
            row = b.add(b.mul(a, i64(n)), guard.known(j))
            own, others = b.append_basic_block("own"), b.append_basic_block("others")
            inside = b.icmp_unsigned("<", b.sub(row, first), b.sub(last, first))
            b.cbranch(inside, own, others)
            b.position_at_end(own)
            update = b.mul(b.add(b.mul(a, length), j), i64(after))

            def combine(column: Any, width: int | None) -> None:
                cells.combine(row, column, b.add(update, column), width)

            in_vectors(b, 0, after, lanes if after >= lanes else 1, combine)
            b.branch(others)
            b.position_at_end(others)
        cells.end()
        b.branch(end)
        b.position_at_end(end)

    more.update(tasks=tasks, cost=cost, sizes=sizes)
    return checked_step(node, "scatter", *named(node), body, **more)


def scatter_along_axis(node: Node, sizes: Sizes | None = None) -> Step | None:
    """A copy of x where cell [a, idx[a, j, b], b] is combined with updates[a, j, b]."""
    x, idx, _ = (v.spec for v in node.inputs)
    if not has_elements(node) or x.dtype in COMPLEX:
        return None
    axis = node.params["axis"]
    before, n, after = around(x.shape, axis)
    m = idx.shape[axis]
    cost = 3.0 * idx.size + x.nbytes / 20
    tasks, rows = tasks_for(cost, before), before
    if sizes is not None:
        if sizes.touch((n, m, after)) or in_wide(node):
            return None
        rows = prod(sizes.shape(x.shape[:axis]))
        tasks = tasks_for(cost / before * sizes.most(rows), sizes.most(rows))
    more = _memory(node, -(-before // tasks) * n, after)
    if more.get("scratch", 0) > limits.SCATTER_SCRATCH:
        return None

    def body(frame: Frame, task: Any, status: Any) -> None:
        b = frame.b
        guard = Guard(frame, frame.reads[-2], idx.dtype, i64(n), status, task)
        end = b.append_basic_block("end")
        first, last = part(b, task, tasks, frame.number(rows))
        if status is not None:
            with turns(b, b.mul(first, i64(m * after)), b.mul(last, i64(m * after))) as place:
                guard.read(place, end)
        cells = _Cells(frame, node, b.mul(first, i64(n)), b.mul(last, i64(n)), after)
        cells.begin()
        with turns(b, first, last) as a, turns(b, 0, m) as j, turns(b, 0, after) as column:
            here = b.add(b.mul(b.add(b.mul(a, i64(m)), j), i64(after)), column)
            row = b.add(b.mul(a, i64(n)), guard.known(here))
            cells.combine(row, column, here, None)
        cells.end()
        b.branch(end)
        b.position_at_end(end)

    more.update(tasks=tasks, cost=cost, sizes=sizes)
    return checked_step(node, "scatter_along_axis", *named(node), body, **more)
