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

from fx.backends.cpu.llvm.memory import ALIGN, Planner
from fx.backends.cpu.llvm.step import PythonStep, Step
from fx.dtypes import int64
from fx.errors import IndexingError
from fx.graph.ir import Graph, Node, Value, _value
from fx.spec import TensorSpec

PTR, I64, I8, I1 = ir.PointerType(), ir.IntType(64), ir.IntType(8), ir.IntType(1)
_GUESS = 16  # runs of a ``while`` that its cost is reckoned with
_MOST = 400  # steps of all bodies of one node: the code of each is emitted
Pointer = Callable[[Value], Any]
Call = Callable[[Step, list[Any], Any], None]


class Unfit(Exception):
    """A body that cannot run natively."""


class Body:
    """A body's steps and the places of its values.

    Args:
        graph: the body.
        specs: of what it is called with; a body that was staged for others does not run here.
        fixed: positions of inputs that are the same in every run.
    """

    def __init__(
        self, graph: Graph, specs: Sequence[TensorSpec], fixed: Sequence[int] = ()
    ) -> None:
        from fx.backends.cpu.llvm.schedule import schedule

        if [v.spec for v in graph.inputs] != list(specs):
            raise Unfit
        plan = schedule(graph)
        if any(isinstance(s, PythonStep) for s in plan.steps) or len(plan.steps) > _MOST:
            raise Unfit
        self.root = plan.root
        self.inputs = list(plan.graph.inputs)
        self.outputs = [plan.root(v) for v in plan.graph.outputs]
        if any(not v.spec.nbytes for s in plan.steps for v in (*s.reads, *s.writes)):
            raise Unfit
        if any(not v.spec.nbytes for v in (*self.inputs, *self.outputs)):
            raise Unfit
        roots = [*[plan.root(v) for s in plan.steps for v in s.reads], *self.outputs]
        self.constants = list(dict.fromkeys([v for v in roots if v.constant is not None]))
        still = {*[self.inputs[i] for i in fixed], *self.constants}
        self.once: list[Step] = []  # before the loop
        self.steps: list[Step] = []
        for step in plan.steps:
            if all(plan.root(v) in still for v in step.reads):
                self.once.append(step)
                still.update(step.writes)
            else:
                self.steps.append(step)
        self.kept = [v for step in self.once for v in step.writes]
        planner = Planner(
            self.steps, plan.root, [*self.inputs, *self.kept], self.constants, self.outputs,
            frozenset(), lambda value: "",
        )  # fmt: skip
        self.places, self.results = planner.places, planner.results
        self.step_scratch = planner.scratch
        self.offsets: dict[Value, int] = {}  # of what is kept, in the scratch memory
        size = _rounded(planner.plan.arena)
        for v in self.kept:
            self.offsets[v] = size
            size += _rounded(v.spec.nbytes)
        self.before = size  # scratch of the steps before the loop
        self.size = size + max([_rounded(s.scratch) for s in self.once], default=0)
        self.cost = sum([s.cost for s in self.steps])
        self.cost_once = sum([s.cost for s in self.once])

    @property
    def key(self) -> Any:
        """What the code depends on."""
        number: dict[Value, int] = {}

        def n(v: Value) -> int:
            return number.setdefault(self.root(v), len(number))

        def told(steps: list[Step]) -> Any:
            return tuple([(s.key, s.tasks, *[n(v) for v in (*s.reads, *s.writes)]) for s in steps])

        ends = tuple([n(v) for v in self.inputs]), tuple([n(v) for v in self.constants])
        outs = tuple([(n(v), v.spec.nbytes) for v in self.outputs])
        return ends, told(self.once), told(self.steps), outs

    def kernels(self, module: ir.Module, name: str) -> dict[Any, ir.Function]:
        """The kernels of all steps, one a key."""
        found: dict[Any, ir.Function] = {}
        for step in (*self.once, *self.steps):
            if step.key not in found:
                kernel = step.emit(module, f"{name}_{len(found)}")
                kernel.linkage = "internal"
                found[step.key] = kernel
        return found

    def pointer(self, builder: ir.IRBuilder, given: dict[Value, Any], scratch: Any) -> Pointer:
        """Where a root value lies: what is given, or scratch memory."""

        def pointer(value: Value) -> Any:
            found = given.get(value)
            if found is not None:
                return found
            if value in self.offsets:
                return _at(builder, scratch, self.offsets[value])
            place = self.places[value]
            if place.kind == "arena":
                return _at(builder, scratch, place.offset)
            return given[[*self.results][place.index]]

        return pointer

    def run_once(self, builder: ir.IRBuilder, call: Call, pointer: Pointer, scratch: Any) -> None:
        """Call the steps before the loop."""
        for step in self.once:
            own = _at(builder, scratch, self.before) if step.scratch else None
            call(step, [pointer(self.root(v)) for v in (*step.reads, *step.writes)], own)

    def run(self, builder: ir.IRBuilder, call: Call, pointer: Pointer, scratch: Any) -> None:
        """Call the steps."""
        for t, step in enumerate(self.steps):
            place = self.step_scratch.get(t)
            own = None if place is None else _at(builder, scratch, place.offset)
            call(step, [pointer(self.root(v)) for v in (*step.reads, *step.writes)], own)


def _rounded(count: int) -> int:
    return -(-count // ALIGN) * ALIGN


def _at(builder: ir.IRBuilder, base: Any, offset: Any) -> Any:
    if isinstance(offset, int):
        if not offset:
            return base
        offset = ir.Constant(I64, offset)
    return builder.gep(base, [offset], source_etype=I8)


def _copy(builder: ir.IRBuilder, to: Any, source: Any, nbytes: int) -> None:
    if to is source:
        return
    module = builder.module
    name = "llvm.memcpy.p0.p0.i64"
    function = module.globals.get(name)
    if function is None:
        function = ir.Function(module, ir.FunctionType(ir.VoidType(), [PTR, PTR, I64, I1]), name)
    builder.call(function, [to, source, ir.Constant(I64, nbytes), ir.Constant(I1, 0)])


_OUT_OF_RANGE = "index %lld is out of range in a loop or branch ({})"


def _is_checked(step: Any) -> bool:
    """Whether a step may meet an index out of range, and says so in words that it writes."""
    return getattr(step, "status", None) is not None


def _caller(builder: ir.IRBuilder, kernels: dict[Any, Any], words: Any) -> Call:
    """What calls a step; where one met a bad index, the kernel hands that on and ends."""

    def call(step: Step, args: list[Any], scratch: Any) -> None:
        scratch = ir.Constant(PTR, None) if scratch is None else scratch
        begin, end = ir.Constant(I64, 0), ir.Constant(I64, step.tasks)
        builder.call(kernels[step.key], [begin, end, scratch, *args])
        if _is_checked(step):
            place = len(step.reads) + step.status  # type: ignore[attr-defined]
            _look(builder, args[place], step.tasks, words)

    return call


def _look(builder: ir.IRBuilder, told: Any, tasks: int, words: Any) -> None:
    """Look at the words of all tasks of a step."""
    before = builder.block
    head = builder.append_basic_block("look")
    good, bad = builder.append_basic_block("good"), builder.append_basic_block("bad")
    further = builder.append_basic_block("further")
    builder.branch(head)
    builder.position_at_end(head)
    t = builder.phi(I64)
    t.add_incoming(ir.Constant(I64, 0), before)
    at = _row(builder, told, t, 16)
    flag = builder.icmp_signed("!=", builder.load(at, typ=I64), ir.Constant(I64, 0))
    builder.cbranch(flag, bad, further)
    builder.position_at_end(further)
    following = builder.add(t, ir.Constant(I64, 1))
    t.add_incoming(following, further)
    builder.cbranch(builder.icmp_signed("<", following, ir.Constant(I64, tasks)), head, good)
    builder.position_at_end(bad)
    index = builder.load(_at(builder, at, 8), typ=I64)
    builder.store(ir.Constant(I64, 1), words)
    builder.store(index, _at(builder, words, 8))
    builder.ret_void()
    builder.position_at_end(good)


class _Written:
    """Where the results of a body go: each root to the first place that wants it, then copies."""

    def __init__(self, body: Body, wanted: Sequence[tuple[int, Any]]) -> None:
        self.given: dict[Value, Any] = {}
        self.copies: list[tuple[Any, Value]] = []
        made = set(body.results)
        for i, pointer in wanted:
            root = body.outputs[i]
            if root in made and root not in self.given:
                self.given[root] = pointer
            else:
                self.copies.append((pointer, root))
        for i, root in enumerate(body.outputs):  # nobody wants it
            if root in made and root not in self.given:
                raise Unfit(i)

    def finish(self, builder: ir.IRBuilder, pointer: Pointer) -> None:
        """Copy what is wanted in several places, and what no step computes."""
        for to, root in self.copies:
            _copy(builder, to, pointer(root), root.spec.nbytes)


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
        failures = {s.failure for s in every if _is_checked(s)}  # type: ignore[attr-defined]
        if failures:  # as ``special.checked`` has it
            words = _value(TensorSpec((1, 2), int64), node, len(node.outs), None)
            self.writes = (*node.outs, words)
            self.status = len(node.outs)
            self.failure = failures.pop() if len(failures) == 1 else _OUT_OF_RANGE.format(node.line)
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
        words = writes[self.status] if _is_checked(self) else None
        if words is not None:
            builder.store(ir.Constant(I64, 0), words)
        calls = [_caller(builder, found, words) for found in kernels]
        self.body(builder, calls, scratch, inputs, constants, writes[: len(self.node.outs)])
        builder.ret_void()
        return function

    def error(self, index: int) -> IndexingError:
        """What to raise for a bad index."""
        if "%llu" in self.failure:
            index %= 2**64
        return IndexingError(self.failure.replace("%ll", "%") % index)

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
            self.size += _rounded(body.inputs[i].spec.nbytes)


class ScanStep(ControlStep):
    """A loop over rows, as often as its parameters say."""

    def __init__(self, node: Node) -> None:
        p = node.params
        self.carries, self.mapped, self.length = p["carries"], p["mapped"], p["length"]
        self.reverse = p["reverse"]
        if not self.length:
            raise Unfit
        graph = p["body"]
        end = self.carries + self.mapped
        still = [i for i in range(self.carries) if graph.outputs[i] is graph.inputs[i]]
        specs = [v.spec for v in node.inputs]
        specs[self.carries : end] = [s.with_(shape=s.shape[1:]) for s in specs[self.carries : end]]
        body = Body(graph, specs, [*still, *range(end, len(graph.inputs))])
        self.carry = _Carry(body, self.carries)
        super().__init__(node, [body])
        self.scratch = self.carry.size + body.size
        self.cost = body.cost_once + self.length * (body.cost + 5.0)

    def body(self, builder, calls, scratch, inputs, constants, writes) -> None:  # type: ignore[no-untyped-def]
        (body,), carry, n = self.bodies, self.carry, self.length
        (fixed,) = self._constants(constants)
        end = self.carries + self.mapped
        for i, v in enumerate(body.inputs):
            if i >= end or i in carry.fixed:
                fixed[v] = inputs[i]
        own = _at(builder, scratch, carry.size)
        body.run_once(builder, calls[0], body.pointer(builder, fixed, own), own)
        before = builder.block
        loop = builder.append_basic_block("run")
        done = builder.append_basic_block("done")
        spare = {i: _at(builder, scratch, carry.offsets[i]) for i in carry.moving}
        builder.branch(loop)
        builder.position_at_end(loop)
        t = builder.phi(I64)
        t.add_incoming(ir.Constant(I64, 0), before)
        now, new, other = {}, {}, {}
        for i in carry.moving:  # the last run writes into the result
            now[i], new[i], other[i] = builder.phi(PTR), builder.phi(PTR), builder.phi(PTR)
            pair = (writes[i], spare[i]) if n % 2 else (spare[i], writes[i])
            now[i].add_incoming(inputs[i], before)
            new[i].add_incoming(pair[0], before)
            other[i].add_incoming(pair[1], before)
        row = builder.sub(ir.Constant(I64, n - 1), t) if self.reverse else t
        given = dict(fixed)
        for i in carry.moving:
            given[body.inputs[i]] = now[i]
        for i in range(self.carries, end):
            given[body.inputs[i]] = _row(builder, inputs[i], row, body.inputs[i].spec.nbytes)
        wanted = [(i, new[i]) for i in carry.moving]
        for i in range(self.carries, len(body.outputs)):
            nbytes = body.outputs[i].spec.nbytes
            wanted.append((i, _row(builder, writes[i], row, nbytes)))
        written = _Written(body, wanted)
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
        more = builder.icmp_signed("<", following, ir.Constant(I64, n))
        builder.cbranch(more, loop, done)
        builder.position_at_end(done)
        for i in carry.fixed:
            _copy(builder, writes[i], inputs[i], body.inputs[i].spec.nbytes)


def _row(builder: ir.IRBuilder, base: Any, row: Any, nbytes: int) -> Any:
    return _at(builder, base, builder.mul(row, ir.Constant(I64, nbytes)))


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
        own = _at(builder, scratch, 2 * carry.size)
        own_test = _at(builder, own, body.size)
        flag = _at(builder, own_test, test.size)
        body.run_once(builder, calls[0], body.pointer(builder, fixed, own), own)
        test.run_once(builder, calls[1], test.pointer(builder, fixed_test, own_test), own_test)
        pairs = {
            i: (_at(builder, scratch, o), _at(builder, scratch, carry.size + o))
            for i, o in carry.offsets.items()
        }
        before = builder.block
        ask = builder.append_basic_block("ask")
        run = builder.append_basic_block("run")
        done = builder.append_basic_block("done")
        builder.branch(ask)
        builder.position_at_end(ask)
        now, new, other = {}, {}, {}
        for i in carry.moving:
            now[i], new[i], other[i] = builder.phi(PTR), builder.phi(PTR), builder.phi(PTR)
            now[i].add_incoming(inputs[i], before)
            new[i].add_incoming(pairs[i][0], before)
            other[i].add_incoming(pairs[i][1], before)
        given = dict(fixed_test)
        for i in carry.moving:
            given[test.inputs[i]] = now[i]
        written = _Written(test, [(0, flag)])
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
        written = _Written(body, [(i, new[i]) for i in carry.moving])
        given.update(written.given)
        pointer = body.pointer(builder, given, own)
        body.run(builder, calls[0], pointer, own)
        written.finish(builder, pointer)
        after = builder.block
        for i in carry.moving:
            now[i].add_incoming(new[i], after)
            new[i].add_incoming(other[i], after)
            other[i].add_incoming(new[i], after)
        builder.branch(ask)
        builder.position_at_end(done)
        for i in range(self.carries):
            source = now[i] if i in now else inputs[i]
            _copy(builder, writes[i], source, body.inputs[i].spec.nbytes)
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
            written = _Written(body, list(enumerate(writes)))
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


STEPS = {"scan": _step(ScanStep), "while": _step(WhileStep), "cond": _step(CondStep)}
