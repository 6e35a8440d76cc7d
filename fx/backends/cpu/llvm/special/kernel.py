"""What kernels of this package share: functions, loops, addresses, reports of bad indices."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from llvmlite import ir

from fx import limits
from fx.backends.cpu.llvm.vecmath.types import (
    I8,
    I32,
    I64,
    load_width,
    storage_type,
)
from fx.compiler.step import Step
from fx.graph.ir import Node, Value

P = ir.PointerType()


class Frame:
    """The inside of a kernel: its builder, arguments and the range of its tasks."""

    def __init__(self, module: Any, name: str, reads: int, writes: int) -> None:
        kind = ir.FunctionType(ir.VoidType(), [I64, I64, P, *[P] * (reads + writes)])
        self.function = ir.Function(module, kind, name)
        self.b: Any = ir.IRBuilder(self.function.append_basic_block())
        self.begin, self.end, self.scratch, *arrays = self.function.args
        self.reads, self.writes = arrays[:reads], arrays[reads:]

    @contextmanager
    def tasks(self) -> Iterator[Any]:
        """A loop over the tasks of the call; the function returns behind it."""
        with loop(self.b, self.begin, self.end) as task:
            yield task
        self.b.ret_void()


class SpecialStep(Step):
    """A kernel that is given by what it emits.

    Args:
        node: what it computes.
        key: what else the code depends on, besides the primitive, its parameters and its specs.
        body: emits the inside of the kernel, given its frame.
        tasks, cost, scratch, inplace: see ``Step``.
        reads, writes: the values, if not the inputs and the outputs of the node.
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
    ) -> None:
        self.name = node.primitive.name
        self.reads = node.inputs if reads is None else tuple(reads)
        self.writes = node.outs if writes is None else tuple(writes)
        self.tasks, self.cost, self.scratch = tasks, cost, scratch
        self.inplace = inplace
        self.body = body
        specs = tuple([v.spec for v in node.inputs])
        params = tuple(sorted(node.params.items()))
        self.key = ("special", node.primitive.name, specs, params, tasks, key)
        self.lines = (node.line,) if node.line else ()

    def emit(self, module: Any, name: str) -> Any:
        """Add the kernel to a module."""
        frame = Frame(module, name, len(self.reads), len(self.writes))
        self.body(frame)
        return frame.function


def i64(value: int) -> Any:
    """A constant."""
    return ir.Constant(I64, value)


@contextmanager
def loop(b: Any, start: Any, stop: Any, step: int = 1) -> Iterator[Any]:
    """``for i in range(start, stop, step)`` over i64; numbers or values."""
    start = i64(start) if isinstance(start, int) else start
    stop = i64(stop) if isinstance(stop, int) else stop
    head, body, done = (b.append_basic_block(n) for n in ("head", "body", "done"))
    before = b.block
    b.branch(head)
    b.position_at_end(head)
    i = b.phi(I64)
    i.add_incoming(start, before)
    b.cbranch(b.icmp_signed("<", i, stop), body, done)
    b.position_at_end(body)
    yield i
    i.add_incoming(b.add(i, i64(step)), b.block)
    b.branch(head)
    b.position_at_end(done)


class Fold:
    """A loop that carries values: ``for i in fold.range(...)`` sets ``fold.next``.

    Args:
        b: the builder.
        initial: the values before the first round; ``values`` holds them inside and behind.
    """

    def __init__(self, b: Any, initial: Sequence[Any]) -> None:
        self.b = b
        self.values = list(initial)

    @contextmanager
    def range(self, start: Any, stop: Any, step: int = 1) -> Iterator[Any]:
        """The loop; its body rebinds ``values``."""
        b = self.b
        start = i64(start) if isinstance(start, int) else start
        stop = i64(stop) if isinstance(stop, int) else stop
        head, body, done = (b.append_basic_block(n) for n in ("head", "body", "done"))
        before = b.block
        b.branch(head)
        b.position_at_end(head)
        i = b.phi(I64)
        i.add_incoming(start, before)
        phis = [b.phi(v.type) for v in self.values]
        for phi, value in zip(phis, self.values):
            phi.add_incoming(value, before)
        b.cbranch(b.icmp_signed("<", i, stop), body, done)
        b.position_at_end(body)
        self.values = list(phis)
        yield i
        i.add_incoming(b.add(i, i64(step)), b.block)
        for phi, value in zip(phis, self.values):
            phi.add_incoming(value, b.block)
        b.branch(head)
        b.position_at_end(done)
        self.values = list(phis)


def at(b: Any, base: Any, index: Any, dtype: Any) -> Any:
    """The address of element ``index`` of an array of ``dtype``."""
    return b.gep(base, [index], source_etype=storage_type(dtype))


def load(b: Any, base: Any, index: Any, dtype: Any, lanes: int | None = None) -> Any:
    """What lies in memory there: one element, or ``lanes`` of them."""
    typ = storage_type(dtype, lanes)
    return b.load(at(b, base, index, dtype), typ=typ, align=load_width(dtype))


def store(b: Any, value: Any, base: Any, index: Any, dtype: Any) -> None:
    """Put raw elements into memory."""
    b.store(value, at(b, base, index, dtype), align=load_width(dtype))


def columns(
    b: Any, start: Any, stop: Any, lanes: int, body: Callable[[Any, int | None], None]
) -> None:
    """``body(i, lanes)`` for vectors from ``start`` on, then ``body(i, None)`` for the rest."""
    start = i64(start) if isinstance(start, int) else start
    stop = i64(stop) if isinstance(stop, int) else stop
    if lanes > 1:
        count = b.sub(stop, start)
        whole = b.add(start, b.and_(count, i64(-lanes)))
        with loop(b, start, whole, lanes) as i:
            body(i, lanes)
        start = whole
    with loop(b, start, stop) as i:
        body(i, None)


def copy(b: Any, target: Any, source: Any, nbytes: Any) -> None:
    """memcpy of areas that do not overlap."""
    nbytes = i64(nbytes) if isinstance(nbytes, int) else nbytes
    name = "llvm.memcpy.p0.p0.i64"
    function = b.module.globals.get(name)
    if function is None:
        kind = ir.FunctionType(ir.VoidType(), [P, P, I64, ir.IntType(1)])
        function = ir.Function(b.module, kind, name)
    b.call(function, [target, source, nbytes, ir.Constant(ir.IntType(1), 0)])


def clear(b: Any, target: Any, nbytes: Any) -> None:
    """Fill an area with zero bytes."""
    name = "llvm.memset.p0.i64"
    function = b.module.globals.get(name)
    if function is None:
        kind = ir.FunctionType(ir.VoidType(), [P, I8, I64, ir.IntType(1)])
        function = ir.Function(b.module, kind, name)
    b.call(function, [target, ir.Constant(I8, 0), nbytes, ir.Constant(ir.IntType(1), 0)])


def offset(b: Any, base: Any, nbytes: Any) -> Any:
    """An address some bytes further."""
    nbytes = i64(nbytes) if isinstance(nbytes, int) else nbytes
    return b.gep(base, [nbytes], source_etype=I8)


def around(shape: Sequence[int], axis: int) -> tuple[int, int, int]:
    """Elements before, along and after an axis."""
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


def has_elements(node: Node) -> bool:
    """Whether no array of the node is empty."""
    return all(v.spec.size for v in (*node.inputs, *node.outs))


def tasks_for(cost: float, pieces: int) -> int:
    """How many tasks some independent pieces make."""
    return max(1, min(pieces, int(cost / limits.TASK)))


def part(b: Any, task: Any, tasks: int, pieces: int) -> tuple[Any, Any]:
    """Where the pieces of a task begin and end."""
    if tasks == 1:
        return i64(0), i64(pieces)
    first = b.udiv(b.mul(task, i64(pieces)), i64(tasks))
    last = b.udiv(b.mul(b.add(task, i64(1)), i64(pieces)), i64(tasks))
    return first, last


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


def spread(b: Any, value: Any, lanes: int) -> Any:
    """A scalar in every lane of a vector."""
    kind = ir.VectorType(value.type, lanes)
    one = b.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(I32, 0))
    zeros = ir.Constant(ir.VectorType(I32, lanes), [I32(0)] * lanes)
    return b.shuffle_vector(one, ir.Constant(kind, ir.Undefined), zeros)
