"""Complex numbers, which loops do not hold: their sizes and parts, and the order of their axes."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from fx.backends.cpu.llvm import ir as v
from fx.backends.cpu.llvm.ir import Frame, i64
from fx.backends.cpu.llvm.node_steps.kernel import SpecialStep, has_elements, tasks_for
from fx.backends.cpu.llvm.vecmath.algebra import Num
from fx.backends.cpu.llvm.vecmath.outlined import outlined
from fx.backends.cpu.llvm.vecmath.power import hypot
from fx.compiler.step import Step
from fx.dtypes import COMPLEX
from fx.graph.ir import Node

_TILE = 8  # elements: of a row that is read before the next one


def size(node: Node) -> Step | None:
    """``abs``: the root of the sum of squares, without overflow."""
    return _of_parts(node, 2.0, lambda x, y: outlined("hypot", hypot, x, y))


def part(node: Node) -> Step | None:
    """The real or the imaginary part, or one of them negated."""
    turn = node.params["turn"]

    def chosen(x: Num, y: Num) -> Num:
        found = y if turn % 2 else x
        return -found if turn >= 2 else found

    return _of_parts(node, 0.5, chosen)


def _of_parts(node: Node, price: float, function: Callable[[Num, Num], Num]) -> Step | None:
    """A real function of the parts of complex numbers; ``price`` is nanoseconds of one."""
    spec, out = node.inputs[0].spec, node.out.spec
    if spec.dtype not in COMPLEX or not has_elements(node):
        return None
    cost = price * out.size * out.dtype.itemsize / 4
    tasks = tasks_for(cost, out.size)

    def body(frame: Frame) -> None:
        b, kind = frame.b, v.llvm_type(out.dtype)
        (source,), (target,) = frame.reads, frame.writes

        def some(i: Any, lanes: int | None) -> None:
            at = v.at(b, source, b.mul(i, i64(2)), kind)
            low = v.load(b, at, kind, lanes)
            high = v.load(b, v.at(b, at, lanes or 1, kind), kind, lanes)
            if lanes:
                low, high = [v.shuffle(b, low, high, range(k, 2 * lanes, 2)) for k in (0, 1)]
            found = function(Num(b, low), Num(b, high))
            v.store(b, found.v, v.at(b, target, i, kind))

        with frame.tasks() as task:
            v.in_vectors(b, *v.part(b, task, tasks, out.size), v.lanes_for(out.dtype), some)

    return SpecialStep(node, body, tasks=tasks, cost=cost)


def transpose(node: Node) -> Step | None:
    """Complex numbers with their axes in another order, dense."""
    x, axes = node.inputs[0].spec, node.params["axes"]
    if x.dtype not in COMPLEX or not has_elements(node):
        return None
    shape, out = x.shape, node.out.spec.shape
    steps = [prod(shape[a + 1 :]) for a in axes]  # from one element of the result to the next
    inner = len(shape) - 1
    fast = axes.index(inner) if shape else inner  # the axis of the result that x has last
    outer = [i for i in range(len(shape)) if i not in (fast, inner)]
    across = 1 if fast == inner else out[fast]
    along, step = (out[inner], steps[inner]) if shape else (1, 1)
    row = prod(out[fast + 1 :])
    pieces = prod([out[i] for i in outer])
    cost = 2.0 * x.size * x.dtype.itemsize / 8
    tasks = tasks_for(cost, pieces)
    words = x.dtype.itemsize // 8

    def body(frame: Frame) -> None:
        b = frame.b
        (source,), (target,) = frame.reads, frame.writes

        def move(place: Any, to: Any) -> None:
            for k in range(words):
                word = v.load(b, v.at(b, source, v.add(b, v.times(b, place, words), k), i64), i64)
                v.store(b, word, v.at(b, target, v.add(b, v.times(b, to, words), k), i64))

        with frame.tasks() as task, v.turns(b, *v.part(b, task, tasks, pieces)) as piece:
            place, to, rest = i64(0), i64(0), piece
            for i in reversed(outer):
                rest, here = v.split(b, rest, out[i])
                place = v.add(b, place, v.times(b, here, steps[i]))
                to = v.add(b, to, v.times(b, here, prod(out[i + 1 :])))
            with v.turns(b, 0, across, _TILE) as first:
                last = v.smaller(b, v.add(b, first, _TILE), across)
                with v.turns(b, 0, along) as i, v.turns(b, first, last) as j:
                    here = v.add(b, place, v.times(b, i, step), j)
                    move(here, v.add(b, to, i, v.times(b, j, row)))

    return SpecialStep(node, body, tasks=tasks, cost=cost)
