"""What kernels of this package share: the step, and how its pieces become tasks."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from fx import limits
from fx.backends.cpu.llvm.ir import Frame, i64, part
from fx.compiler.extents import Sizes
from fx.compiler.step import Step
from fx.graph.ir import Node, Value


class SpecialStep(Step):
    """A kernel that is given by what it emits.

    Args:
        node: what it computes.
        key: what else the code depends on, besides the primitive, its parameters and its specs.
        body: emits the inside of the kernel, given its frame.
        tasks, cost, scratch, inplace: see ``Step``.
        reads, writes: the values, if not the inputs and the outputs of the node.
        sizes: those that are known when it runs, where it depends on any.
    """

    def __init__(
        self,
        node: Node,
        body: Callable[[Frame], None],
        *,
        tasks: int = 1,
        cost: float = 0.0,
        scratch: int = 0,
        inplace: tuple[tuple[int, int], ...] = (),
        key: Hashable = (),
        reads: Sequence[Value] | None = None,
        writes: Sequence[Value] | None = None,
        sizes: Sizes | None = None,
    ) -> None:
        self.name = node.primitive.name
        self.reads = node.inputs if reads is None else tuple(reads)
        self.sizes = sizes
        if sizes is not None:
            self.reads += (sizes.words,)
        self.writes = node.outs if writes is None else tuple(writes)
        self.tasks, self.cost, self.scratch = tasks, cost, scratch
        self.inplace = inplace
        self.body = body
        specs = tuple([v.spec for v in node.inputs])
        params = tuple(sorted(node.params.items()))
        self.key = ("node", node.primitive.name, specs, params, tasks, key)
        self.lines = (node.line,) if node.line else ()

    def emit(self, module: Any, name: str) -> Any:
        """Add the kernel to a module."""
        places = None if self.sizes is None else self.sizes.places
        frame = Frame(module, name, len(self.reads), len(self.writes), places)
        self.body(frame)
        return frame.function


def around(shape: Sequence[int], axis: int) -> tuple[int, int, int]:
    """Elements before, along and after an axis."""
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


def has_elements(node: Node) -> bool:
    """Whether no array of the node is empty."""
    return all(v.spec.size for v in (*node.inputs, *node.outs))


def tasks_for(cost: float, pieces: int) -> int:
    """How many tasks some independent pieces make."""
    return max(1, min(pieces, int(cost / limits.TASK)))


def rows_and_columns(
    b: Any, task: Any, tasks: int, before: int, after: int, block: int
) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """The range of rows and that of columns of a task: pieces are rows, or blocks of columns."""
    blocks = -(-after // block)
    if before >= blocks:
        return part(b, task, tasks, before), (i64(0), i64(after))
    low, high = (b.mul(v, i64(block)) for v in part(b, task, tasks, blocks))
    over = b.icmp_signed(">", high, i64(after))
    return (i64(0), i64(before)), (low, b.select(over, i64(after), high))
