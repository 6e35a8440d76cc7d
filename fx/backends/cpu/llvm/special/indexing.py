"""Gathers and scatters along one axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fx.backends.cpu.llvm.special.checked import CheckedStep, Guard, in_range, message, reports
from fx.backends.cpu.llvm.special.kernel import (
    Frame,
    SpecialStep,
    around,
    clear,
    columns,
    copy,
    has_elements,
    i64,
    load,
    loop,
    offset,
    part,
    store,
    tasks_for,
)
from fx.backends.cpu.llvm.step import Step
from fx.backends.cpu.llvm.vecmath import arithmetic
from fx.backends.cpu.llvm.vecmath.casts import load_convert, store_convert, term
from fx.backends.cpu.llvm.vecmath.types import I64, NARROW, lanes_for
from fx.dtypes import COMPLEX, int64
from fx.graph.ir import Node, Value

Body = Callable[[Frame, Any, Any], None]


def _step(node: Node, name: str, n: int, where: str, body: Body, **more: Any) -> Step | None:
    """The step whose body is ``body(frame, task, status)``; None if no one would look at status."""
    idx = node.inputs[min(1, len(node.inputs) - 1)]
    safe = in_range(idx, n)
    if not safe and not reports():
        return None

    def inside(frame: Frame) -> None:
        with frame.tasks() as task:
            body(frame, task, None if safe else frame.writes[-1])

    key = (safe, len(more.get("reads", node.inputs)))
    if safe:
        return SpecialStep(node, inside, key=key, **more)
    failure = message(name, n, where, idx.spec.dtype)
    return CheckedStep(node, inside, failure, key=key, **more)


def _where(node: Node) -> tuple[int, str]:
    shape, axis = node.inputs[0].spec.shape, node.params["axis"]
    return shape[axis], f"axis {axis} of {shape}"


def wrap_index(node: Node) -> Step | None:
    """int64 indices from the front."""
    if not has_elements(node):
        return None
    n, size = node.params["size"], node.inputs[0].spec.size
    dtype = node.inputs[0].spec.dtype
    tasks = tasks_for(size, size)

    def body(frame: Frame, task: Any, status: Any) -> None:
        b = frame.b
        guard = Guard(frame, frame.reads[0], dtype, n, status, task)
        end = b.append_basic_block("end")
        with loop(b, *part(b, task, tasks, size)) as i:
            store(b, guard.read(i, end), frame.writes[0], i, int64)
        b.branch(end)
        b.position_at_end(end)

    return _step(node, "indexing", n, "the axis", body, tasks=tasks, cost=float(size))


def take(node: Node) -> Step | None:
    """out[a, *j, b] = x[a, idx[*j], b]."""
    if not has_elements(node):
        return None
    x, idx = (v.spec for v in node.inputs)
    before, n, after = around(x.shape, node.params["axis"])
    m, rows = idx.size, before * idx.size
    nbytes = after * x.dtype.itemsize
    cost = rows * (2.0 + nbytes / 20)
    tasks = tasks_for(cost, rows)

    def body(frame: Frame, task: Any, status: Any) -> None:
        b = frame.b
        source, indices, target = *frame.reads, frame.writes[0]
        guard = Guard(frame, indices, idx.dtype, n, status, task)
        end = b.append_basic_block("end")
        with loop(b, *part(b, task, tasks, rows)) as row:
            place = guard.read(row if before == 1 else b.urem(row, i64(m)), end)
            if before > 1:
                place = b.add(b.mul(b.udiv(row, i64(m)), i64(n)), place)
            if after == 1:
                store(b, load(b, source, place, x.dtype), target, row, x.dtype)
            else:
                moved = offset(b, source, b.mul(place, i64(nbytes)))
                copy(b, offset(b, target, b.mul(row, i64(nbytes))), moved, nbytes)
        b.branch(end)
        b.position_at_end(end)

    return _step(node, "take", *_where(node), body, tasks=tasks, cost=cost)


def take_along_axis(node: Node) -> Step | None:
    """out[a, j, b] = x[a, idx[a, j, b], b]."""
    if not has_elements(node):
        return None
    x, idx = (v.spec for v in node.inputs)
    axis = node.params["axis"]
    before, n, after = around(x.shape, axis)
    m = idx.shape[axis]
    rows, cost = before * m, 2.0 * idx.size
    tasks = tasks_for(cost, rows)

    def body(frame: Frame, task: Any, status: Any) -> None:
        b = frame.b
        source, indices, target = *frame.reads, frame.writes[0]
        guard = Guard(frame, indices, idx.dtype, n, status, task)
        end = b.append_basic_block("end")
        with loop(b, *part(b, task, tasks, rows)) as row:
            first = b.mul(row if m == 1 else b.udiv(row, i64(m)), i64(n))
            with loop(b, 0, after) as column:
                here = b.add(b.mul(row, i64(after)), column)
                place = b.add(first, guard.read(here, end))
                place = b.add(b.mul(place, i64(after)), column)
                store(b, load(b, source, place, x.dtype), target, here, x.dtype)
        b.branch(end)
        b.position_at_end(end)

    return _step(node, "take_along_axis", *_where(node), body, tasks=tasks, cost=cost)


def _combined(b: Any, mode: str, dtype: Any, old: Any, new: Any) -> Any:
    """What a cell holds after an update, as they lie in memory."""
    if mode == "set":
        return new
    x, u = (term(b, load_convert(b, raw, dtype), dtype) for raw in (old, new))
    if mode in ("add", "mul"):
        y = (arithmetic.add if mode == "add" else arithmetic.multiply)(dtype, x, u)
    elif dtype.kind in "biu":
        y = (arithmetic.minimum if mode == "min" else arithmetic.maximum)(dtype, x, u)
    else:
        wins = (u < x) if mode == "min" else (u > x)
        y = (wins | u.isnan()).pick(u, x)
    return store_convert(b, y.v, dtype)


def _takes_mode(node: Node) -> bool:
    """Whether updates combine as they lie in memory: 16-bit sums are kept in 32 bits."""
    dtype, mode = node.inputs[0].spec.dtype, node.params["mode"]
    if dtype in COMPLEX:
        return False
    return dtype not in NARROW or mode not in ("add", "mul")


def scatter(node: Node) -> Step | None:
    """A copy of x with updates combined into the slices that idx names, in the order of idx."""
    if not has_elements(node) or not _takes_mode(node):
        return None
    x, idx, updates = (v.spec for v in node.inputs)
    mode, dtype = node.params["mode"], x.dtype
    before, n, after = around(x.shape, node.params["axis"])
    m, lanes, zero = idx.size, lanes_for(x.dtype), _is_zero(node.inputs[0])
    cost = updates.size * (2.0 / min(after, 8)) + x.nbytes / 20
    # a task owns cells, so that no two meet: whole matrices, or rows of the only one
    pieces = before if before > 1 else n if after >= lanes else 1
    tasks = min(16, tasks_for(cost, pieces))

    def body(frame: Frame, task: Any, status: Any) -> None:
        b = frame.b
        (indices, new), target = frame.reads[-2:], frame.writes[0]
        guard = Guard(frame, indices, idx.dtype, n, status, task)
        end = b.append_basic_block("end")
        if status is not None:  # before anything changes: x may lie in the same memory
            with loop(b, 0, m) as j:
                guard.read(j, end)
        first, last = part(b, task, tasks, pieces)
        sides = (i64(0), i64(1)) if before == 1 else (first, last)
        if pieces > 1:
            size = 1 if before == 1 else n
            _begun(frame, zero, b.mul(first, i64(size)), b.mul(last, i64(size)), after, dtype)
        else:
            _begun(frame, zero, i64(0), i64(n), after, dtype)
        with loop(b, *sides) as a, loop(b, 0, m) as j:
            row = guard.known(j)
            own = b.append_basic_block("own")
            others = b.append_basic_block("others")
            if before == 1 and tasks > 1:
                inside = b.icmp_unsigned("<", b.sub(row, first), b.sub(last, first))
                b.cbranch(inside, own, others)
            else:
                b.branch(own)
            b.position_at_end(own)
            cell = b.mul(b.add(b.mul(a, i64(n)), row), i64(after))
            update = b.mul(b.add(b.mul(a, i64(m)), j), i64(after))

            def combine(column: Any, width: int | None) -> None:
                here = b.add(cell, column)
                u = load(b, new, b.add(update, column), dtype, width)
                old = None if mode == "set" else load(b, target, here, dtype, width)
                store(b, _combined(b, mode, dtype, old, u), target, here, dtype)

            if after == 1:
                combine(i64(0), None)
            else:
                columns(b, 0, after, lanes if after >= lanes else 1, combine)
            b.branch(others)
            b.position_at_end(others)
        b.branch(end)
        b.position_at_end(end)

    more = _of_scatter(node, zero)
    return _step(node, "scatter", *_where(node), body, tasks=tasks, cost=cost, **more)


def _of_scatter(node: Node, zero: bool) -> dict[str, Any]:
    """What the step of a scatter reads: not x, if that is zero."""
    return {"reads": node.inputs[1:]} if zero else {"inplace": ((0, 0),)}


def _is_zero(value: Value) -> bool:
    """Whether an array is known to be nothing but zero bytes: where cotangents are added up."""
    node = value.node
    if node is not None and node.primitive.name == "broadcast_to":
        return _is_zero(node.inputs[0])
    if node is not None and node.primitive.name == "full":
        return not any(np.asarray(node.params["value"], value.spec.dtype).tobytes())
    if value.constant is None:
        return False
    array = value.constant._a
    spread = not any(s for s, n in zip(array.strides, array.shape) if n > 1)
    return spread and not any(array[(0,) * array.ndim].tobytes())


def _begun(frame: Frame, zero: bool, first: Any, last: Any, after: int, dtype: Any) -> None:
    """Rows ``first .. last`` of the result as those of x, unless they lie there already."""
    b = frame.b
    row, target = i64(after * dtype.itemsize), frame.writes[0]
    start, nbytes = b.mul(first, row), b.mul(b.sub(last, first), row)
    if zero:
        clear(b, offset(b, target, start), nbytes)
        return
    source = frame.reads[0]
    apart, done = b.append_basic_block("apart"), b.append_basic_block("copied")
    same = b.icmp_unsigned("==", b.ptrtoint(source, I64), b.ptrtoint(target, I64))
    b.cbranch(same, done, apart)
    b.position_at_end(apart)
    copy(b, offset(b, target, start), offset(b, source, start), nbytes)
    b.branch(done)
    b.position_at_end(done)


def scatter_along_axis(node: Node) -> Step | None:
    """A copy of x where cell [a, idx[a, j, b], b] is combined with updates[a, j, b]."""
    if not has_elements(node) or not _takes_mode(node):
        return None
    x, idx, _ = (v.spec for v in node.inputs)
    axis, mode, dtype = node.params["axis"], node.params["mode"], x.dtype
    before, n, after = around(x.shape, axis)
    m, zero = idx.shape[axis], _is_zero(node.inputs[0])
    cost = 3.0 * idx.size + x.nbytes / 20
    tasks = tasks_for(cost, before)

    def body(frame: Frame, task: Any, status: Any) -> None:
        b = frame.b
        (indices, new), target = frame.reads[-2:], frame.writes[0]
        guard = Guard(frame, indices, idx.dtype, n, status, task)
        end = b.append_basic_block("end")
        first, last = part(b, task, tasks, before)
        if status is not None:
            with loop(b, b.mul(first, i64(m * after)), b.mul(last, i64(m * after))) as place:
                guard.read(place, end)
        _begun(frame, zero, b.mul(first, i64(n)), b.mul(last, i64(n)), after, dtype)
        with loop(b, first, last) as a, loop(b, 0, m) as j, loop(b, 0, after) as column:
            here = b.add(b.mul(b.add(b.mul(a, i64(m)), j), i64(after)), column)
            cell = b.add(b.mul(a, i64(n)), guard.known(here))
            cell = b.add(b.mul(cell, i64(after)), column)
            u = load(b, new, here, dtype)
            old = None if mode == "set" else load(b, target, cell, dtype)
            store(b, _combined(b, mode, dtype, old, u), target, cell, dtype)
        b.branch(end)
        b.position_at_end(end)

    more, where = _of_scatter(node, zero), _where(node)
    return _step(node, "scatter_along_axis", *where, body, tasks=tasks, cost=cost, **more)
