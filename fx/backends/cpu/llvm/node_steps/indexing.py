"""Gathers along one axis."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from fx.backends.cpu.llvm.ir import Frame, at, copy, i8, i64, load_item, part, store_item, turns
from fx.backends.cpu.llvm.node_steps.checked import CheckedStep, Guard, in_range, message
from fx.backends.cpu.llvm.node_steps.kernel import (
    SpecialStep,
    around,
    has_elements,
    tasks_for,
)
from fx.compiler.extents import Sizes
from fx.compiler.step import Step
from fx.dtypes import COMPLEX, int64
from fx.graph.ir import Node

Body = Callable[[Frame, Any, Any], None]


def checked_step(node: Node, name: str, n: int, where: str, body: Body, **more: Any) -> Step:
    """The step whose body is ``body(frame, task, status)``; status is None without a check."""
    idx, sizes = node.inputs[min(1, len(node.inputs) - 1)], more.get("sizes")
    safe = in_range(idx, n, sizes)

    def inside(frame: Frame) -> None:
        with frame.tasks() as task:
            body(frame, task, None if safe else frame.writes[-1])

    key = (safe, len(more.get("reads", node.inputs)))
    if safe:
        return SpecialStep(node, inside, key=key, **more)
    known = n if sizes is None or not sizes.touch(n) else None
    failure = message(name, known, where, idx.spec.dtype)
    step = CheckedStep(node, inside, failure, key=key, **more)
    step.checks = (idx, n)
    return step


def named(node: Node) -> tuple[int, str]:
    """The size of the axis, and what messages call it."""
    shape, axis = node.inputs[0].spec.shape, node.params["axis"]
    return shape[axis], f"axis {axis} of {shape}"


def wrap_index(node: Node, sizes: Sizes | None = None) -> Step | None:
    """int64 indices from the front."""
    if not has_elements(node):
        return None
    n, size = node.params["size"], node.inputs[0].spec.size
    dtype = node.inputs[0].spec.dtype
    tasks, count, length = tasks_for(size, size), size, n
    if sizes is not None:
        count = prod(sizes.shape(node.inputs[0].spec.shape))
        tasks, length = 1, sizes.extent(n)

    def body(frame: Frame, task: Any, status: Any) -> None:
        b = frame.b
        guard = Guard(frame, frame.reads[0], dtype, frame.number(length), status, task)
        end = b.append_basic_block("end")
        with turns(b, *part(b, task, tasks, frame.number(count))) as i:
            store_item(b, guard.read(i, end), frame.writes[0], i, int64)
        b.branch(end)
        b.position_at_end(end)

    more = {"tasks": tasks, "cost": float(size), "sizes": sizes}
    return checked_step(node, "indexing", n, "the axis", body, **more)


def _move(b: Any, source: Any, place: Any, target: Any, to: Any, dtype: Any) -> None:
    """One element to another array; registers hold no complex numbers."""
    if dtype in COMPLEX:
        size = dtype.itemsize
        moved = at(b, source, b.mul(place, i64(size)), i8)
        copy(b, at(b, target, b.mul(to, i64(size)), i8), moved, size)
    else:
        store_item(b, load_item(b, source, place, dtype), target, to, dtype)


def take(node: Node, sizes: Sizes | None = None) -> Step | None:
    """out[a, *j, b] = x[a, idx[*j], b]."""
    x, idx = (v.spec for v in node.inputs)
    if not has_elements(node):
        return None
    before, n, after = around(x.shape, node.params["axis"])
    each = 2.0 + after * x.dtype.itemsize / 20
    m, cost = idx.size, before * idx.size * each
    tasks = tasks_for(cost, before * m)
    if sizes is not None:
        before, n, after = around(sizes.shape(x.shape), node.params["axis"])
        m = prod(sizes.shape(idx.shape))
        most = sizes.most(before * m)
        tasks = tasks_for(most * (2.0 + sizes.most(after) * x.dtype.itemsize / 20), most)
    told = before, n, after * x.dtype.itemsize, m

    def body(frame: Frame, task: Any, status: Any) -> None:
        b = frame.b
        source, indices, target = *frame.reads, frame.writes[0]
        many, along, width, count = map(frame.number, told)
        guard = Guard(frame, indices, idx.dtype, along, status, task)
        end = b.append_basic_block("end")
        with turns(b, *part(b, task, tasks, b.mul(many, count))) as row:
            place = guard.read(row if before == 1 else b.urem(row, count), end)
            if before > 1:
                place = b.add(b.mul(b.udiv(row, count), along), place)
            if after == 1:
                _move(b, source, place, target, row, x.dtype)
            else:
                moved = at(b, source, b.mul(place, width), i8)
                copy(b, at(b, target, b.mul(row, width), i8), moved, width)
        b.branch(end)
        b.position_at_end(end)

    more = {"tasks": tasks, "cost": cost, "sizes": sizes}
    return checked_step(node, "take", *named(node), body, **more)


def take_along_axis(node: Node, sizes: Sizes | None = None) -> Step | None:
    """out[a, j, b] = x[a, idx[a, j, b], b]."""
    if not has_elements(node):
        return None
    x, idx = (v.spec for v in node.inputs)
    axis = node.params["axis"]
    before, n, after = around(x.shape, axis)
    m, cost = idx.shape[axis], 2.0 * idx.size
    tasks = tasks_for(cost, before * m)
    if sizes is not None:
        before, n, after = around(sizes.shape(x.shape), axis)
        m = sizes.extent(m)
        most = sizes.most(before * m)
        tasks = tasks_for(2.0 * most * sizes.most(after), most)
    told = before, n, after, m

    def body(frame: Frame, task: Any, status: Any) -> None:
        b = frame.b
        source, indices, target = *frame.reads, frame.writes[0]
        many, along, beyond, count = map(frame.number, told)
        guard = Guard(frame, indices, idx.dtype, along, status, task)
        end = b.append_basic_block("end")
        with turns(b, *part(b, task, tasks, b.mul(many, count))) as row:
            first = b.mul(row if m == 1 else b.udiv(row, count), along)
            with turns(b, 0, beyond) as column:
                here = b.add(b.mul(row, beyond), column)
                place = b.add(first, guard.read(here, end))
                place = b.add(b.mul(place, beyond), column)
                _move(b, source, place, target, here, x.dtype)
        b.branch(end)
        b.position_at_end(end)

    more = {"tasks": tasks, "cost": cost, "sizes": sizes}
    return checked_step(node, "take_along_axis", *named(node), body, **more)
