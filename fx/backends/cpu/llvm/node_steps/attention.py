"""Attention in compiled graphs: calls of the kernels that eager attention runs.

Their extents are arguments, so that a graph has no code for them but a table of words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from fx.backends.cpu.attention import Cut, cut, strides, sum_of_parts
from fx.backends.cpu.llvm import ir as dialect
from fx.backends.cpu.llvm.any_size.attention import SCALE
from fx.backends.cpu.llvm.gemm.views import View, dense, view_of
from fx.backends.cpu.llvm.node_steps.calls import call
from fx.backends.cpu.llvm.node_steps.kernel import has_elements
from fx.compiler.step import Step
from fx.graph.ir import Node, Value, input_value
from fx.spec import TensorSpec

_CHARS = {"float32": "f", "float64": "d"}


class CallStep(Step):
    """A kernel of ``any_size/attention.py`` on arrays of a graph.

    Args:
        node: what it is a part of.
        kernel: its name.
        given: what it reads, by its places among the words; None for what there is not.
        made: what it writes, after them.
        plan: its tasks, and the numbers but for the strides.
        strides: those.
    """

    def __init__(
        self, node: Node, kernel: str, given: list[View | None], made: list[Value], plan: Cut,
        strides: tuple[int, ...],
    ) -> None:  # fmt: skip
        views = [x for x in given if x is not None]
        self.name, self.kernel = node.primitive.name, kernel
        self.reads, self.writes = tuple([x.value for x in views]), tuple(made)
        self.tasks, self.cost, self.scratch = plan.tasks, plan.cost, plan.room
        self.lines = (node.line,) if node.line else ()
        self.places = [None if x is None else x.offset for x in given]
        self.dtype, self.scale = made[0].spec.dtype, float(node.params["scale"])
        self.numbers = (*plan.sizes, *strides)
        self.key = (
            "attention", kernel, self.dtype, tuple(self.places), repr(self.scale), self.numbers
        )  # fmt: skip

    def emit(self, module: Any, name: str) -> Any:
        """Add what fills the table and calls the kernel."""
        frame = dialect.Frame(module, name, len(self.reads), len(self.writes))
        b, reads = frame.b, list(frame.reads)
        null = ir.Constant(dialect.pointer, None)
        kind = dialect.memory_type(self.dtype)
        words = [null if i is None else dialect.at(b, reads.pop(0), i, kind) for i in self.places]
        words += frame.writes
        words += [null] * (SCALE - len(words))
        scale = dialect.room(b, dialect.f64, 1)
        b.store(ir.Constant(dialect.f64, self.scale), scale)
        words += [scale, dialect.table(module, f"{name}.numbers", self.numbers)]
        words += [frame.scratch, 0, self.tasks]
        call(frame, ("attention", self.kernel, _CHARS[self.dtype.name]), words)
        return frame.function


def attention(node: Node) -> list[Step] | None:
    """The step of ``attention``."""
    if not _served(node):
        return None
    out, lse = node.outs
    factors, plan = _factors(node, node.inputs, back=False)
    numbers = _strides(factors, dense(out))
    return [CallStep(node, "forward", factors, [lse, out], plan, numbers)]


def attention_grad(node: Node) -> list[Step] | None:
    """The steps of ``attention_grad``: where a head has several sums, two that add them up."""
    if not _served(node):
        return None
    ct, q, k, v, lse, delta, *masks = node.inputs
    dq, dk, dv = node.outs
    factors, plan = _factors(node, (q, k, v, *masks), back=True)
    cotangent = _rows(ct)
    given = [*factors, dense(lse), cotangent, dense(delta)]
    parts = [x if plan.parts == 1 else _apart(x, plan.parts) for x in (dk, dv)]
    numbers = _strides(factors, cotangent)
    steps: list[Step] = [CallStep(node, "backward", given, [dq, *parts], plan, numbers)]
    for x, part in zip((dk, dv), parts):
        if part is not x:
            total = sum_of_parts(plan, x.spec.shape[3])
            steps.append(CallStep(node, "total", [dense(part)], [x], total, (0,) * len(numbers)))
    return steps


def _factors(node: Node, given: Sequence[Value], back: bool) -> tuple[list[View | None], Cut]:
    """q, k, v and a mask or None where they lie, and the plan."""
    q, k, v, *masks = given
    shapes = (q.spec.shape, k.spec.shape, v.spec.shape)
    plan = cut(*shapes, q.spec.dtype.itemsize, node.params["causal"], back)
    return [_rows(q), view_of(k), view_of(v), view_of(masks[0]) if masks else None], plan


def _served(node: Node) -> bool:
    return node.outs[0].spec.dtype.name in _CHARS and has_elements(node)


def _rows(x: Value) -> View:
    """An array whose features have to be next to each other."""
    found = view_of(x)
    return found if found.strides[3] == 1 or x.spec.shape[3] == 1 else dense(x)


def _strides(given: list[View | None], out: View) -> tuple[int, ...]:
    """Of q, k, v, the mask and the result."""
    q, k, v, mask = [(0,) * 4 if x is None else strides(x.shape, x.strides) for x in given]
    return (*q, *k, *v, *mask, *strides(out.shape, out.strides))


def _apart(x: Value, parts: int) -> Value:
    """A value for the parts of a sum."""
    batch, heads, *rest = x.spec.shape
    return input_value(TensorSpec((batch, heads, parts, *rest), x.spec.dtype))
