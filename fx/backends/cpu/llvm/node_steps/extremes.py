"""argmax and argmin: the first place of the extreme, or of the first NaN."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from fx.backends.cpu.llvm.ir import (
    Frame,
    Turns,
    constant,
    i32,
    i64,
    in_vectors,
    lanes_for,
    load_item,
    part,
    store_item,
    turns,
)
from fx.backends.cpu.llvm.node_steps.kernel import (
    SpecialStep,
    around,
    has_elements,
    rows_and_columns,
    tasks_for,
)
from fx.backends.cpu.llvm.vecmath.algebra import any_lane
from fx.backends.cpu.llvm.vecmath.casts import load_convert
from fx.compiler.extents import Sizes, is_known
from fx.compiler.step import Step
from fx.dtypes import COMPLEX, FLOATING, bool_, int64
from fx.graph.ir import Node


def _beats(b: Any, most: bool, dtype: Any, x: Any, best: Any) -> Any:
    """Whether x comes before an element that was seen earlier."""
    op = ">" if most else "<"
    if dtype in FLOATING:  # a NaN beats every number and no NaN
        over = b.fcmp_unordered(op, x, best)
        return b.and_(over, b.fcmp_ordered("ord", best, best))
    unsigned = dtype.kind == "u" or dtype == bool_
    return (b.icmp_unsigned if unsigned else b.icmp_signed)(op, x, best)


def place(node: Node, sizes: Sizes | None = None) -> Step | None:
    """The step of an argmax or argmin node."""
    x = node.inputs[0].spec
    if not has_elements(node) or x.dtype in COMPLEX:
        return None
    dtype, most = x.dtype, node.primitive.name == "argmax"
    before, n, after = around(x.shape, node.params["axis"])
    if after == 1:
        cost = before * (10 + n * dtype.itemsize / 30)
    else:
        cost = x.size * (0.7 if after >= lanes_for(dtype) else 1.5)
    block = 4 * lanes_for(dtype)
    tasks = tasks_for(cost, max(before, -(-after // block)))
    if sizes is not None:
        before, n, after = around(sizes.shape(x.shape), node.params["axis"])
        tasks = tasks_for(cost / x.size * sizes.most(before * n * after), sizes.most(before))
    in_row = after == 1 and is_known(n)

    def body(frame: Frame) -> None:
        b = frame.b
        with frame.tasks() as task:
            if sizes is None:
                rows, span = rows_and_columns(b, task, tasks, before, after, block)
            else:
                rows = part(b, task, tasks, frame.number(before))
                span = i64(0), frame.number(after)
            with turns(b, *rows) as row:
                if in_row:
                    _in_row(frame, row, n, dtype, most)
                else:
                    lanes = lanes_for(dtype) if is_known(after) and after >= lanes_for(dtype) else 1
                    told = frame.number(n), frame.number(after)
                    _down_columns(frame, row, span, told, lanes, dtype, most)

    return SpecialStep(node, body, tasks=tasks, cost=cost, sizes=sizes)


def _read(frame: Frame, index: Any, dtype: Any, lanes: int | None) -> Any:
    b = frame.b
    raw = load_item(b, frame.reads[0], index, dtype, lanes)
    return raw if dtype == bool_ else load_convert(b, raw, dtype)


def _in_row(frame: Frame, row: Any, n: int, dtype: Any, most: bool) -> None:
    """One contiguous row: its extreme first, then where it stands."""
    b = frame.b
    base = b.mul(row, i64(n))
    lanes = min(lanes_for(dtype), 16)
    whole = n - n % lanes
    fold = Turns(b, [_read(frame, base, dtype, None)])
    if whole:
        side = 4 if n >= 8 * lanes else 1  # vectors at a time, so that none waits for another
        whole = n - n % (side * lanes)
        starts = [b.add(base, i64(k * lanes)) for k in range(side)]
        wide = Turns(b, [_read(frame, start, dtype, lanes) for start in starts])
        with wide.range(side * lanes, whole, side * lanes) as i:
            found = []
            for start, best in zip(starts, wide.values):
                x = _read(frame, b.add(start, i), dtype, lanes)
                found.append(b.select(_beats(b, most, dtype, x, best), x, best))
            wide.values = found
        vector, *others = wide.values
        for x in others:
            vector = b.select(_beats(b, most, dtype, x, vector), x, vector)
        fold = Turns(b, [b.extract_element(vector, ir.Constant(i32, 0))])
        with fold.range(1, lanes) as i:
            x = b.extract_element(vector, i)
            (best,) = fold.values
            fold.values = [b.select(_beats(b, most, dtype, x, best), x, best)]
    with fold.range(whole, n) as i:
        x = _read(frame, b.add(base, i), dtype, None)
        (best,) = fold.values
        fold.values = [b.select(_beats(b, most, dtype, x, best), x, best)]
    (best,) = fold.values
    _store_first(frame, row, base, n, whole, lanes, dtype, best)


def _same(b: Any, dtype: Any, x: Any, best: Any) -> Any:
    """Whether x is the extreme, be it NaN."""
    if dtype not in FLOATING:
        return b.icmp_unsigned("==", x, best)
    equal = b.fcmp_ordered("==", x, best)
    nans = b.and_(b.fcmp_unordered("uno", x, x), b.fcmp_unordered("uno", best, best))
    return b.or_(equal, nans)


def _store_first(
    frame: Frame, row: Any, base: Any, n: int, whole: int, lanes: int, dtype: Any, best: Any
) -> None:
    b = frame.b
    done = b.append_basic_block("found")
    if whole:
        lane = ir.Constant(ir.VectorType(best.type, lanes), ir.Undefined)
        for k in range(lanes):
            lane = b.insert_element(lane, best, ir.Constant(i32, k))
        mask_type = ir.IntType(lanes)
        with turns(b, 0, whole, lanes) as i:
            x = _read(frame, b.add(base, i), dtype, lanes)
            hits = _same(b, dtype, x, lane)
            hit, miss = b.append_basic_block("hit"), b.append_basic_block("miss")
            b.cbranch(any_lane(b, hits), hit, miss)
            b.position_at_end(hit)
            zeros = b.cttz(b.bitcast(hits, mask_type), ir.Constant(ir.IntType(1), 1))
            store_item(b, b.add(i, b.zext(zeros, i64)), frame.writes[0], row, int64)
            b.branch(done)
            b.position_at_end(miss)
    with turns(b, whole, n) as i:
        x = _read(frame, b.add(base, i), dtype, None)
        hit, miss = b.append_basic_block("hit"), b.append_basic_block("miss")
        b.cbranch(_same(b, dtype, x, best), hit, miss)
        b.position_at_end(hit)
        store_item(b, i, frame.writes[0], row, int64)
        b.branch(done)
        b.position_at_end(miss)
    b.branch(done)
    b.position_at_end(done)


def _down_columns(
    frame: Frame, row: Any, span: Any, told: tuple[Any, Any], lanes: int, dtype: Any, most: bool
) -> None:
    """Rows of so many elements: the extremes of neighbouring columns side by side."""
    b = frame.b
    n, after = told
    base = b.mul(row, b.mul(n, after))

    def column(c: Any, width: int | None) -> None:
        start = b.add(base, c)
        kind = i64 if width is None else ir.VectorType(i64, width)
        fold = Turns(b, [_read(frame, start, dtype, width), constant(kind, 0), constant(kind, 0)])
        with fold.range(1, n) as k:
            best, where, now = fold.values
            now = b.add(now, constant(kind, 1))
            x = _read(frame, b.add(start, b.mul(k, after)), dtype, width)
            wins = _beats(b, most, dtype, x, best)
            fold.values = [b.select(wins, x, best), b.select(wins, now, where), now]
        store_item(b, fold.values[1], frame.writes[0], b.add(b.mul(row, after), c), int64)

    in_vectors(b, *span, min(lanes, 16), column)
