"""Loops and branches as one kernel: the steps of their bodies, called from native control flow.

The body of a ``scan`` or ``while`` is scheduled like any graph. Its kernels are emitted beside the
kernel of the loop, which calls them run after run: rows are read and written where they lie, and
the carry goes back and forth between two buffers. What depends on nothing that changes runs once,
before the loop. A body with a step that only Python can do is left to the eager kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from fx import limits
from fx.backends.cpu.llvm.control_body import (
    I8,
    I64,
    PTR,
    Body,
    Unfit,
    Written,
    byte_at,
    caller,
    copy,
    in_body,
    is_checked,
    rounded,
    row_at,
)
from fx.backends.cpu.llvm.ir import loaded, room, size
from fx.compiler.extents import Sizes
from fx.compiler.memory import ALIGN
from fx.compiler.step import Step
from fx.dtypes import int64
from fx.graph.ir import Node, Value, _value
from fx.spec import TensorSpec

_GUESS = 16  # runs of a ``while`` that its cost is reckoned with


class ControlStep(Step):
    """A ``scan``, ``while`` or ``cond`` as one kernel."""

    tasks = 1
    inplace = ()

    def __init__(self, node: Node, bodies: Sequence[Body]) -> None:
        self.node, self.bodies = node, list(bodies)
        self.constants = [v for b in bodies for v in b.constants]
        self.reads = (*node.inputs, *self.constants)
        self.writes = tuple(node.outs)
        every = [s for b in bodies for s in (*b.once, *b.steps)]
        told = [s for s in every if is_checked(s)]
        if told:  # as ``node_steps.checked`` has it
            words = _value(TensorSpec((1, 2), int64), node, len(node.outs), None)
            self.writes = (*node.outs, words)
            self.status = len(node.outs)
            self.words = tuple(sorted({w for s in told for w in s.words}))
            failures = {s.failure for s in told}  # type: ignore[attr-defined]
            several = in_body(self.words, node.line)
            self.failure = failures.pop() if len(failures) == 1 else several
        self.lines = (node.line,) if node.line else ()
        self.name = f"{node.primitive.name}: {len(every)} steps"
        params = [(k, p) for k, p in sorted(node.params.items()) if isinstance(p, int | bool)]
        specs = tuple([(v.spec.shape, v.spec.dtype) for v in (*self.reads, *self.writes)])
        self.key = (node.primitive.name, tuple(params), specs, tuple([b.key for b in bodies]))

    def emit(self, module: ir.Module, name: str) -> ir.Function:
        """The kernel under ``name``."""
        count = len(self.reads) + len(self.writes)
        type_ = ir.FunctionType(ir.VoidType(), [I64, I64, PTR, *[PTR] * count])
        function = ir.Function(module, type_, name)
        kernels = [b.kernels(module, f"{name}_{i}") for i, b in enumerate(self.bodies)]
        builder = ir.IRBuilder(function.append_basic_block("start"))
        scratch, *rest = function.args[2:]
        reads, writes = rest[: len(self.reads)], rest[len(self.reads) :]
        inputs, constants = reads[: len(self.node.inputs)], reads[len(self.node.inputs) :]
        words = writes[self.status] if is_checked(self) else None
        if words is not None:
            builder.store(ir.Constant(I64, 0), words)
        calls = [caller(builder, found, words) for found in kernels]
        self.body(builder, calls, scratch, inputs, constants, writes[: len(self.node.outs)])
        builder.ret_void()
        return function

    def body(self, builder, calls, scratch, inputs, constants, writes) -> None:  # type: ignore[no-untyped-def]
        """Fill the kernel."""
        raise NotImplementedError

    def _constants(self, constants: Sequence[Any]) -> list[dict[Value, Any]]:
        """For each body where its constants lie."""
        found, at = [], 0
        for b in self.bodies:
            found.append(dict(zip(b.constants, constants[at:])))
            at += len(b.constants)
        return found


class _Carry:
    """The carry of a loop between its buffers."""

    def __init__(self, body: Body, carries: int) -> None:
        self.body = body
        self.moving = [i for i in range(carries) if body.outputs[i] is not body.inputs[i]]
        self.fixed = [i for i in range(carries) if body.outputs[i] is body.inputs[i]]
        self.offsets: dict[int, int] = {}
        self.size = 0
        for i in self.moving:
            self.offsets[i] = self.size
            self.size += rounded(body.inputs[i].spec.nbytes)


class ScanStep(ControlStep):
    """A loop over rows, as often as its parameters say.

    Args:
        node: a ``scan``.
        sizes: those that are known when it runs, of which its length may be made.
    """

    def __init__(self, node: Node, sizes: Sizes | None = None) -> None:
        p = node.params
        self.carries, self.mapped, self.length = p["carries"], p["mapped"], p["length"]
        self.sizes = sizes
        self.reverse = p["reverse"]
        if not self.length:
            raise Unfit
        graph = p["body"]
        end = self.carries + self.mapped
        still = [i for i in range(self.carries) if graph.outputs[i] is graph.inputs[i]]
        specs = [v.spec for v in node.inputs]
        specs[self.carries : end] = [s.with_(shape=s.shape[1:]) for s in specs[self.carries : end]]
        body = Body(graph, specs, [*still, *range(end, len(graph.inputs))], runs=True)
        self.carry = _Carry(body, self.carries)
        super().__init__(node, [body])
        if sizes is not None:
            self.reads = (*self.reads, sizes.words)
        self.scratch = self.carry.size + body.size
        self.cost = body.cost_once + self.length * (body.cost + 5.0)

    def _length(self, builder: Any, given: Sequence[Any]) -> Any:
        if self.sizes is None:
            return ir.Constant(I64, self.length)
        return size(
            builder, self.sizes.extent(self.length), loaded(builder, given[-1], self.sizes.places)
        )

    def body(self, builder, calls, scratch, inputs, constants, writes) -> None:  # type: ignore[no-untyped-def]
        (body,), carry, n = self.bodies, self.carry, self._length(builder, constants)
        (fixed,) = self._constants(constants)
        end = self.carries + self.mapped
        for i, v in enumerate(body.inputs):
            if i >= end or i in carry.fixed:
                fixed[v] = inputs[i]
        own = byte_at(builder, scratch, carry.size)
        body.run_once(builder, calls[0], body.pointer(builder, fixed, own), own)
        before = builder.block
        loop = builder.append_basic_block("run")
        done = builder.append_basic_block("done")
        spare = {i: byte_at(builder, scratch, carry.offsets[i]) for i in carry.moving}
        odd = builder.trunc(n, ir.IntType(1))
        pairs = {  # the last run writes into the result
            i: (builder.select(odd, writes[i], spare[i]), builder.select(odd, spare[i], writes[i]))
            for i in carry.moving
        }
        builder.branch(loop)
        builder.position_at_end(loop)
        t = builder.phi(I64)
        t.add_incoming(ir.Constant(I64, 0), before)
        now, new, other = {}, {}, {}
        for i, pair in pairs.items():
            now[i], new[i], other[i] = builder.phi(PTR), builder.phi(PTR), builder.phi(PTR)
            now[i].add_incoming(inputs[i], before)
            new[i].add_incoming(pair[0], before)
            other[i].add_incoming(pair[1], before)
        last = builder.sub(n, ir.Constant(I64, 1))
        row = builder.sub(last, t) if self.reverse else t
        given = dict(fixed)
        for i in carry.moving:
            given[body.inputs[i]] = now[i]
        for i in range(self.carries, end):
            given[body.inputs[i]] = row_at(builder, inputs[i], row, body.inputs[i].spec.nbytes)
        wanted = [(i, new[i]) for i in carry.moving]
        for i in range(self.carries, len(body.outputs)):
            nbytes = body.outputs[i].spec.nbytes
            wanted.append((i, row_at(builder, writes[i], row, nbytes)))
        written = Written(body, wanted)
        given.update(written.given)
        pointer = body.pointer(builder, given, own)
        body.run(builder, calls[0], pointer, own)
        written.finish(builder, pointer)
        following = builder.add(t, ir.Constant(I64, 1))
        after = builder.block
        t.add_incoming(following, after)
        for i in carry.moving:
            now[i].add_incoming(new[i], after)
            new[i].add_incoming(other[i], after)
            other[i].add_incoming(new[i], after)
        more = builder.icmp_signed("<", following, n)
        builder.cbranch(more, loop, done)
        builder.position_at_end(done)
        for i in carry.fixed:
            copy(builder, writes[i], inputs[i], body.inputs[i].spec.nbytes)


class WhileStep(ControlStep):
    """A loop that asks a condition before each run."""

    def __init__(self, node: Node) -> None:
        p = node.params
        self.carries, self.read = p["carries"], p["read"]
        graph, test = p["body"], p["condition"]
        still = [i for i in range(self.carries) if graph.outputs[i] is graph.inputs[i]]
        specs = [v.spec for v in node.inputs]
        carry, first, rest = (
            specs[: self.carries],
            specs[: self.carries + self.read],
            specs[self.carries + self.read :],
        )
        body = Body(graph, [*carry, *rest], [*still, *range(self.carries, len(graph.inputs))])
        condition = Body(test, first, [*still, *range(self.carries, len(test.inputs))])
        self.carry = _Carry(body, self.carries)
        super().__init__(node, [body, condition])
        self.scratch = 2 * self.carry.size + body.size + condition.size + ALIGN
        self.cost = _GUESS * (body.cost + condition.cost + 10.0)

    def body(self, builder, calls, scratch, inputs, constants, writes) -> None:  # type: ignore[no-untyped-def]
        (body, test), carry = self.bodies, self.carry
        fixed, fixed_test = self._constants(constants)
        end = self.carries + self.read
        for i, v in enumerate(body.inputs):
            if i >= self.carries or i in carry.fixed:
                fixed[v] = inputs[i + self.read if i >= self.carries else i]
        for i, v in enumerate(test.inputs):
            if i >= self.carries or i in carry.fixed:
                fixed_test[v] = inputs[i]
        near = self.scratch <= limits.NEAR_CARRY
        if near:  # LLVM makes registers of what lies on the stack
            sizes = (body.size, test.size, 1)
            own, own_test, flag = (room(builder, I8, max(n, 1)) for n in sizes)
        else:
            own = byte_at(builder, scratch, 2 * carry.size)
            own_test = byte_at(builder, own, body.size)
            flag = byte_at(builder, own_test, test.size)
        body.run_once(builder, calls[0], body.pointer(builder, fixed, own), own)
        test.run_once(builder, calls[1], test.pointer(builder, fixed_test, own_test), own_test)
        now, new, other, pairs = {}, {}, {}, {}
        for i, o in carry.offsets.items():
            nbytes = body.inputs[i].spec.nbytes
            if near:
                now[i], new[i] = room(builder, I8, nbytes), room(builder, I8, nbytes)
                copy(builder, now[i], inputs[i], nbytes)
            else:
                pairs[i] = byte_at(builder, scratch, o), byte_at(builder, scratch, carry.size + o)
        before = builder.block
        ask = builder.append_basic_block("ask")
        run = builder.append_basic_block("run")
        done = builder.append_basic_block("done")
        builder.branch(ask)
        builder.position_at_end(ask)
        for i in pairs:
            now[i], new[i], other[i] = builder.phi(PTR), builder.phi(PTR), builder.phi(PTR)
            now[i].add_incoming(inputs[i], before)
            new[i].add_incoming(pairs[i][0], before)
            other[i].add_incoming(pairs[i][1], before)
        given = dict(fixed_test)
        for i in carry.moving:
            given[test.inputs[i]] = now[i]
        written = Written(test, [(0, flag)])
        given.update(written.given)
        pointer = test.pointer(builder, given, own_test)
        test.run(builder, calls[1], pointer, own_test)
        written.finish(builder, pointer)
        holds = builder.icmp_unsigned("!=", builder.load(flag, typ=I8), ir.Constant(I8, 0))
        builder.cbranch(holds, run, done)
        builder.position_at_end(run)
        given = dict(fixed)
        for i in carry.moving:
            given[body.inputs[i]] = now[i]
        written = Written(body, [(i, new[i]) for i in carry.moving])
        given.update(written.given)
        pointer = body.pointer(builder, given, own)
        body.run(builder, calls[0], pointer, own)
        written.finish(builder, pointer)
        after = builder.block
        for i in carry.moving:
            if near:
                copy(builder, now[i], new[i], body.inputs[i].spec.nbytes)
                continue
            now[i].add_incoming(new[i], after)
            new[i].add_incoming(other[i], after)
            other[i].add_incoming(new[i], after)
        builder.branch(ask)
        builder.position_at_end(done)
        for i in range(self.carries):
            source = now[i] if i in now else inputs[i]
            copy(builder, writes[i], source, body.inputs[i].spec.nbytes)
        assert end <= len(inputs)


class CondStep(ControlStep):
    """One of several branches."""

    def __init__(self, node: Node) -> None:
        specs = [v.spec for v in node.inputs[1:]]
        super().__init__(node, [Body(g, specs) for g in node.params["branches"]])
        if not self.writes:
            raise Unfit
        self.scratch = max([b.size for b in self.bodies])
        self.cost = max([b.cost + b.cost_once for b in self.bodies])

    def body(self, builder, calls, scratch, inputs, constants, writes) -> None:  # type: ignore[no-untyped-def]
        spec = self.node.inputs[0].spec
        kind = ir.IntType(8 * spec.dtype.itemsize)
        index = builder.load(inputs[0], typ=kind)
        last = len(self.bodies) - 1
        top = ir.Constant(kind, last)
        if spec.dtype.kind == "i":
            zero = ir.Constant(kind, 0)
            index = builder.select(builder.icmp_signed("<", index, zero), zero, index)
        index = builder.select(builder.icmp_unsigned("<", index, top), index, top)
        blocks = [builder.append_basic_block("branch") for _ in self.bodies]
        done = builder.append_basic_block("done")
        choice = builder.switch(index, blocks[-1])
        for k, block in enumerate(blocks[:-1]):
            choice.add_case(ir.Constant(kind, k), block)
        every = self._constants(constants)
        for body, block, own, given in zip(self.bodies, blocks, calls, every):
            builder.position_at_end(block)
            given.update(zip(body.inputs, inputs[1:]))
            written = Written(body, list(enumerate(writes)))
            given.update(written.given)
            pointer = body.pointer(builder, given, scratch)
            body.run_once(builder, own, pointer, scratch)
            body.run(builder, own, pointer, scratch)
            written.finish(builder, pointer)
            builder.branch(done)
        builder.position_at_end(done)


def _step(kind: Callable[[Node], ControlStep]) -> Callable[[Node], ControlStep | None]:
    def step(node: Node) -> ControlStep | None:
        try:
            return kind(node)
        except Unfit:
            return None

    return step


def scan_of_any_length(node: Node, sizes: Sizes) -> ControlStep | None:
    """A ``scan`` of which nothing but the length depends on sizes."""
    if sizes.touch([v.spec.shape for v in node.params["body"].inputs]):
        return None
    try:
        return ScanStep(node, sizes)
    except Unfit:
        return None


STEPS = {"scan": _step(ScanStep), "while": _step(WhileStep), "cond": _step(CondStep)}
