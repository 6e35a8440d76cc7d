"""Factorisations and solves of stacks: the kernels of ``irregular/lapack.py``, and their check."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

from fx.backends.cpu.lapack import door
from fx.backends.cpu.lapack.plans import PLANS, Plan
from fx.backends.cpu.llvm import externals
from fx.backends.cpu.llvm.failures import UNSOLVED
from fx.backends.cpu.llvm.ir import Frame, at, copy, i8, i64, load_item, store_item, turns
from fx.backends.cpu.llvm.node_steps.calls import call
from fx.backends.cpu.llvm.node_steps.checked import CheckedStep
from fx.backends.cpu.llvm.node_steps.kernel import SpecialStep, has_elements
from fx.compiler.extents import Extent, Sizes, is_known
from fx.compiler.step import Step
from fx.dtypes import FLOATING, float32, float64, int64
from fx.graph.ir import Node


class _Given(NamedTuple):
    """What a plan asks of the spec of an argument."""

    shape: tuple[int, ...]
    dtype: Any


def planned(node: Node, sizes: Sizes | None = None) -> Step | None:
    """The step of a primitive that has a plan; None for narrow floats, and for nothing at all."""
    specs: list[Any] = [v.spec for v in node.inputs]
    if not has_elements(node) or any(s.dtype in _NARROW for s in specs):
        return None
    if sizes is not None:
        specs = [_Given(sizes.shape(s.shape), s.dtype) for s in specs]
    plan = PLANS[node.primitive.name](*specs, **node.params)
    count = prod(specs[0].shape[:-2])
    if not is_known(*plan.scratch, *[w for w in plan.words if type(w) is Extent and w != count]):
        return None  # another size than how many matrices there are

    def body(frame: Frame) -> None:
        call(frame, (plan.group, plan.name, plan.char), [_word(frame, w, plan) for w in plan.words])

    cost = plan.tasks * plan.price
    return SpecialStep(node, body, tasks=plan.tasks, cost=cost, scratch=16 * plan.room, sizes=sizes)


_NARROW = FLOATING - {float32, float64}


def _word(frame: Frame, word: Any, plan: Plan) -> Any:
    if not isinstance(word, tuple):
        return word if isinstance(word, float | Extent) else int(word)
    kind, *rest = word
    found: dict[str, Callable[..., Any]] = {
        "read": frame.reads.__getitem__,
        "write": frame.writes.__getitem__,
        "routine": lambda *of: externals.declare(frame.b.module, door.external(*of)),
        "scratch": lambda i: at(frame.b, frame.scratch, i64(plan.area(i)), i8),
        "room": lambda: 0,  # each thread has memory of its own
        "chunk": lambda: 1,
        "threads": lambda: externals.declare(frame.b.module, door.THREADS),
    }
    return found[kind](*rest)


class _VerifiedStep(CheckedStep):
    words = (UNSOLVED,)


def verified(node: Node, sizes: Sizes | None = None) -> Step | None:
    """x as it is; the first ``info`` that is not 0 is told."""
    if not has_elements(node):
        return None
    x, info = (v.spec for v in node.inputs)
    stack = info.ndim > 0
    nbytes, count = x.nbytes, info.size
    if sizes is not None:
        nbytes = prod(sizes.shape(x.shape)) * x.dtype.itemsize
        count = prod(sizes.shape(info.shape))

    def body(frame: Frame) -> None:
        b = frame.b
        (source, told), (target, status) = frame.reads, frame.writes
        store_item(b, i64(0), status, i64(0), int64)
        apart = b.icmp_unsigned("!=", b.ptrtoint(source, i64), b.ptrtoint(target, i64))
        with b.if_then(apart):
            copy(b, target, source, frame.number(nbytes))
        last = frame.number(count - 1)
        with turns(b, 0, frame.number(count)) as i:
            at = b.sub(last, i)  # the first one is the last to be seen
            number = load_item(b, told, at, info.dtype)
            with b.if_then(b.icmp_signed("!=", number, number.type(0)), likely=False):
                store_item(b, i64(UNSOLVED), status, i64(0), int64)
                store_item(b, at if stack else b.sext(number, i64), status, i64(1), int64)
        b.ret_void()

    return _VerifiedStep(node, body, node.params["words"][stack], inplace=((0, 0),), sizes=sizes)
