"""Step: one kernel of a schedule. The contract between what emits kernels and the driver.

A kernel is one function of C's kind

    void kernel(i64 begin, i64 end, ptr scratch, ptr read_0, ..., ptr write_0, ...)

that does the tasks ``begin .. end - 1`` of ``step.tasks`` independent ones: the driver may hand
disjoint ranges to several threads, and what a task computes never depends on the ranges, so that
results have the same bits on any number of threads. ``scratch`` is ``step.scratch`` bytes of the
calling thread's own (64-byte aligned, contents undefined), or null. All arrays are dense and row
major, start on the alignment of their dtype (64 bytes where the driver allocated them), and have at
least one element. Booleans are one byte, 0 or 1. bfloat16 and float16 are 16-bit words in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from fx.graph.ir import Graph, Node, Value


class Step:
    """One kernel call.

    Attributes:
        name: what listings call it, such as ``"loop: mul, add, tanh"``.
        reads: the values whose arrays it reads.
        writes: the values whose arrays it writes, each element exactly once.
        tasks: the number of independent pieces, at least 1.
        cost: estimated nanoseconds of all tasks on one core; decides about threads.
        scratch: bytes of scratch memory that each thread needs.
        key: what the code depends on; steps with equal keys share one function.
        inplace: pairs ``(write, read)`` of positions: that write may be given the memory of that
            read (same number of bytes), if nothing else uses the read afterwards.
        lines: the user's lines that asked for it.
        status: the position in ``writes`` of the words that tell of unfit values; None where it
            meets none.
        checks: the indices that it finds to be in range, and the size of their axis.
    """

    name: str
    reads: tuple[Value, ...]
    writes: tuple[Value, ...]
    tasks: int = 1
    cost: float = 0.0
    scratch: int = 0
    key: Hashable
    inplace: tuple[tuple[int, int], ...] = ()
    lines: tuple[str, ...] = ()
    status: int | None = None
    checks: tuple[Value, int] | None = None

    def emit(self, module: Any, name: str) -> Any:
        """Add the kernel to a module of the backend under ``name``; the function."""
        raise NotImplementedError

    def speak_of(self, name: str, where: str) -> None:
        """Let a check of indices tell of the operation ``name`` that the user wrote."""


class PythonStep(Step):
    """A primitive that runs in Python between native parts: its kernel on NumPy arrays."""

    def __init__(
        self,
        name: str,
        run: Callable[..., Sequence[Any]],
        reads: Sequence[Value],
        writes: Sequence[Value],
        lines: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.run = run  # (*arrays) -> arrays; may return views of what it got
        self.reads = tuple(reads)
        self.writes = tuple(writes)
        self.lines = tuple(lines)
        self.key = name


def python_step(node: Node) -> PythonStep:
    """A node by its eager kernel on NumPy arrays."""
    primitive, params = node.primitive, node.params

    def run(*arrays: Any) -> tuple[Any, ...]:
        found = primitive.cpu(*arrays, **params)
        return tuple(found) if primitive.multiple else (found,)

    lines = (node.line,) if node.line else ()
    return PythonStep(f"python: {primitive.name}", run, node.inputs, node.outs, lines)


class Schedule:
    """A graph as steps in order.

    Args:
        graph: what is computed.
        steps: every value is an input, a constant, an alias or written by one earlier step.
        aliases: values that are the same memory as another one under another shape.
    """

    __slots__ = ("aliases", "graph", "steps")

    def __init__(self, graph: Graph, steps: Sequence[Step], aliases: dict[Value, Value]) -> None:
        self.graph = graph
        self.steps = tuple(steps)
        self.aliases = aliases

    def root(self, value: Value) -> Value:
        """The value whose memory ``value`` is."""
        while value in self.aliases:
            value = self.aliases[value]
        return value

    def __str__(self) -> str:
        from fx.compiler.listing import text

        return text(self)
