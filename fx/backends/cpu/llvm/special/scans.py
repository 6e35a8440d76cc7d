"""Cumulative operations: each element of a line from the one before it.

Lines beside each other are the lanes of a vector. What adds or multiplies floats carries them in
float64, so that errors do not pile up along a line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from fx import limits
from fx.backends.cpu.llvm.ir import (
    NARROW,
    Frame,
    Turns,
    constant,
    f32,
    f64,
    i64,
    in_vectors,
    lanes_for,
    load_item,
    splat,
    store_item,
    turns,
)
from fx.backends.cpu.llvm.special.kernel import (
    SpecialStep,
    around,
    has_elements,
    rows_and_columns,
    tasks_for,
)
from fx.backends.cpu.llvm.vecmath import arithmetic, logarithm
from fx.backends.cpu.llvm.vecmath.algebra import Int, Num
from fx.backends.cpu.llvm.vecmath.casts import load_convert, rounded, store_convert, term
from fx.backends.cpu.llvm.vecmath.outlined import outlined
from fx.compiler.step import Step
from fx.dtypes import COMPLEX, FLOATING, float64
from fx.graph.ir import Node

Rule = Callable[[Any, list[Any], list[Any]], list[Any]]


def _scan(node: Node, first: Rule, following: Rule, price: float, wide: bool = True) -> Step | None:
    """The step of a scan.

    Args:
        node: its inputs and outputs have one shape.
        first: ``first(place, elements, [])`` gives what the first element of a line leaves.
        following: ``following(place, elements, carried)`` gives what another leaves; what is
            carried is stored, one value an output.
        price: nanoseconds an element, where lanes do not help.
        wide: whether floats are float64 to the rules, and carried as that.
    """
    x = node.inputs[0].spec
    if not has_elements(node) or x.dtype in COMPLEX:
        return None
    reverse = node.params["reverse"]
    before, n, after = around(x.shape, node.params["axis"])
    lanes = min(lanes_for(x.dtype), 16)
    cost = x.size * (price if after < lanes else max(0.3, price / lanes))
    block = limits.SCAN_VECTORS * lanes
    blocks = -(-after // block)
    carries_wide = wide and x.dtype in FLOATING and x.dtype != float64
    # many lines are done side by side: what is carried is what was stored for the element before,
    # or float64 in scratch
    side_by_side = after >= limits.SCAN_WIDE * lanes and (carries_wide or x.dtype not in NARROW)
    tasks = tasks_for(cost, max(before, blocks))
    scratch = 8 * after * len(node.outs) if carries_wide and side_by_side else 0

    def read_term(b: Any, array: Any, at: Any, dtype: Any, width: int | None) -> Any:
        found = term(b, load_convert(b, load_item(b, array, at, dtype, width), dtype), dtype)
        return found.to(f64) if carries_wide else found

    def write_term(b: Any, value: Any, array: Any, at: Any, dtype: Any) -> None:
        value = value.to(f32) if carries_wide else value
        value = rounded(value, dtype) if dtype in NARROW else value
        store_item(b, store_convert(b, value.v, dtype), array, at, dtype)

    def walk(frame: Frame, row: Any, column: Any, width: int | None, k: Any) -> None:
        """Element k of lines, for k > 0; element 0 for None."""
        b = frame.b
        kind = i64 if width is None else ir.VectorType(i64, width)
        step = after if not reverse else -after

        def terms(arrays: Any, values: Any, at: Any) -> list[Any]:
            return [read_term(b, a, at, v.spec.dtype, width) for a, v in zip(arrays, values)]

        def kept(i: int) -> Any:
            return b.add(column, i64(i * after))

        number = i64(0) if k is None else k
        from_front = b.sub(i64(n - 1), number) if reverse else number
        at = b.add(b.add(b.mul(row, i64(n * after)), b.mul(from_front, i64(after))), column)
        place = Int(b, from_front if width is None else splat(b, from_front, width))
        assert place.type == kind
        elements = terms(frame.reads, node.inputs, at)
        if k is None:
            new = first(place, elements, [])
        elif carries_wide:
            raw = [
                load_item(b, frame.scratch, kept(i), float64, width) for i in range(len(node.outs))
            ]
            new = following(place, elements, [term(b, r, float64) for r in raw])
        else:
            new = following(place, elements, terms(frame.writes, node.outs, b.sub(at, i64(step))))
        for i, (array, value, out) in enumerate(zip(frame.writes, new, node.outs)):
            write_term(b, value, array, at, out.spec.dtype)
            if carries_wide:
                store_item(b, value.v, frame.scratch, kept(i), float64)

    def line(frame: Frame, row: Any, column: Any, width: int | None) -> None:
        b = frame.b
        kind = i64 if width is None else ir.VectorType(i64, width)
        base = b.add(b.mul(row, i64(n * after)), column)

        def at(k: Any) -> Any:
            k = b.sub(i64(n - 1), k) if reverse else k
            return b.add(base, b.mul(k, i64(after)))

        def read(k: Any) -> list[Any]:
            place = at(k)
            return [read_term(b, a, place, x.dtype, width) for a in frame.reads]

        def write(k: Any, values: list[Any]) -> None:
            place = at(k)
            for array, value, out in zip(frame.writes, values, node.outs):
                write_term(b, value, array, place, out.spec.dtype)

        place = Int(b, constant(kind, n - 1 if reverse else 0))
        carried = first(place, read(i64(0)), [])
        write(i64(0), carried)
        fold = Turns(b, [place.v, *[c.v for c in carried]])
        with fold.range(1, n) as k:
            place = Int(b, fold.values[0]) + (-1 if reverse else 1)
            old = [type(c)(b, v) for c, v in zip(carried, fold.values[1:])]
            new = following(place, read(k), old)
            write(k, new)
            fold.values = [place.v, *[c.v for c in new]]

    def body(frame: Frame) -> None:
        b = frame.b
        with frame.tasks() as task:
            rows, span = rows_and_columns(
                b, task, tasks, before, after, limits.SCAN_VECTORS * lanes
            )
            with turns(b, *rows) as row:
                if after == 1:
                    line(frame, row, i64(0), None)
                elif side_by_side:
                    in_vectors(b, *span, lanes, lambda c, width: walk(frame, row, c, width, None))
                    with turns(b, 1, n) as k:
                        in_vectors(b, *span, lanes, lambda c, width: walk(frame, row, c, width, k))
                else:
                    wide = lanes if after >= lanes else 1
                    in_vectors(b, *span, wide, lambda c, width: line(frame, row, c, width))

    return SpecialStep(node, body, tasks=tasks, cost=cost, scratch=scratch)


def _itself(place: Int, x: list[Any], _: list[Any]) -> list[Any]:
    return [x[0]]


def _carried(node: Node) -> Any:
    dtype = node.inputs[0].spec.dtype
    return float64 if dtype in FLOATING else dtype


def cumsum(node: Node) -> Step | None:
    """Sums so far."""
    dtype = _carried(node)
    return _scan(node, _itself, lambda _, x, c: [arithmetic.add(dtype, c[0], x[0])], 1.2)


def cumprod(node: Node) -> Step | None:
    """Products so far."""
    dtype = _carried(node)
    return _scan(node, _itself, lambda _, x, c: [arithmetic.multiply(dtype, c[0], x[0])], 1.2)


def logcumsumexp(node: Node) -> Step | None:
    """Logarithms of sums of exponentials so far."""

    def following(_: Int, x: list[Num], c: list[Num]) -> list[Num]:
        return [outlined("logaddexp", logarithm.logaddexp, c[0], x[0])]

    return _scan(node, _itself, following, 12.0)


def recurrence(node: Node) -> Step | None:
    """out[k] = a[k] * out[k - 1] + b[k]."""
    return _scan(
        node, lambda _, x, c: [x[1]], lambda _, x, c: [x[0] * c[0] + x[1]], 2.5
    )  # fmt: skip


def record(node: Node) -> Step | None:
    """The extreme so far, NaN above all, and the place where it was met last: cummax, cummin."""
    dtype = node.inputs[0].spec.dtype
    most = node.primitive.name == "cummax"
    relation = arithmetic.greater_equal if most else arithmetic.less_equal

    def following(place: Int, x: list[Any], c: list[Any]) -> list[Any]:
        best, where = c
        wins = relation(dtype, x[0], best)
        if isinstance(x[0], Num):
            wins = wins | x[0].isnan()
        return [wins.pick(x[0], best), wins.pick(place, where)]

    return _scan(node, lambda place, x, _: [x[0], place], following, 1.5, wide=False)
