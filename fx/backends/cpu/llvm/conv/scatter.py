"""The transpose of max pooling: ``scatter_along_axis`` where the indices are those of ``max_pool``.

Such indices are known to lie inside, so that the kernel need not be able to refuse any.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from fx.backends.cpu.llvm.conv.emit import Emitter
from fx.backends.cpu.llvm.ir import i64, kernel, target
from fx.compiler.step import Step
from fx.graph.ir import Node, Value

_SAME_MEMORY = ("reshape", "stop_gradient")


def comes_from_max_pool(value: Value) -> bool:
    """Whether a value holds the places of a ``max_pool``."""
    while value.node is not None and value.node.primitive.name in _SAME_MEMORY:
        value = value.node.inputs[0]
    return (
        value.node is not None and value.node.primitive.name == "max_pool" and value.position == 1
    )


def _is_zeros(value: Value) -> bool:
    """Whether a value is one zero, repeated."""
    if value.node is not None:
        node = value.node
        return node.primitive.name == "full" and bool(node.params["value"] == 0)
    if value.constant is None:
        return False
    a = value.array
    return not any(a.strides) and not bool(a[(0,) * a.ndim])


class UnpoolStep(Step):
    """x with updates (R, m) added at indices (R, m) of its rows (R, n); a task is a row."""

    def __init__(self, node: Node, rows: Sequence[int], lines: tuple[str, ...]) -> None:
        x, idx, updates = node.inputs
        self.name, self.lines = "max pool: transpose", lines
        self.zeros = _is_zeros(x)
        self.reads = (idx, updates) if self.zeros else (idx, updates, x)
        self.writes = node.outs
        self.dtype = x.spec.dtype.name
        self.tasks = prod(rows)
        self.row, self.count = x.spec.shape[-1], idx.spec.shape[-1]
        self.cost = self.tasks * (self.row * 0.1 + self.count * 1.2 + 5)
        self.key = ("unpool", self.dtype, self.row, self.count, self.zeros)
        if not self.zeros:
            self.inplace = ((0, 2),)

    def emit(self, module: Any, name: str) -> Any:
        function = kernel(module, name, len(self.reads) + 1)
        e = Emitter(function, self.dtype)
        begin, end, _, idx, updates, *x, out = function.args
        lanes = target().vector_bytes // e.itemsize
        whole = self.row // lanes * lanes

        def task(r: Any) -> None:
            row = e.at(out, e.times(r, self.row))
            source = e.at(x[0], e.times(r, self.row)) if x else None

            def copy(size: int) -> Any:
                def one(i: Any) -> None:
                    value = e.zero(size) if size > 1 else e.kind(0.0)
                    if source is not None:
                        value = e.load(e.at(source, i), size)
                    e.store(value, e.at(row, i))

                return one

            e.loop(0, whole, copy(lanes), step=lanes)
            e.loop(whole, self.row, copy(1))
            start = e.times(r, self.count)

            def add(j: Any) -> None:
                at = e.b.load(e.at(idx, e.add(start, j), i64), typ=i64, align=8)
                to = e.at(row, at)
                more = e.load(e.at(updates, e.add(start, j)))
                e.store(e.b.fadd(e.load(to), more), to)

            e.loop(0, self.count, add)

        e.loop(begin, end, task)
        e.b.ret_void()
        return function
