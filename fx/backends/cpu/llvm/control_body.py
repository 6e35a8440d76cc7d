"""Bodies of native loops and branches: their steps, where their values lie, and their calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from fx import limits
from fx.backends.cpu.llvm.failures import BAD_INDEX, DIVIDED, LOST, UNLIKE, UNSOLVED
from fx.compiler.memory import ALIGN, Planner
from fx.compiler.step import PythonStep, Step
from fx.errors import DIVIDED_BY_0
from fx.graph.ir import Graph, Value
from fx.spec import TensorSpec

PTR, I64, I8, I1 = ir.PointerType(), ir.IntType(64), ir.IntType(8), ir.IntType(1)
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
        runs: whether it runs at all, whatever the values; else nothing that may fail runs before.
    """

    def __init__(
        self,
        graph: Graph,
        specs: Sequence[TensorSpec],
        fixed: Sequence[int] = (),
        runs: bool = False,
    ) -> None:
        from fx.backends.cpu.llvm.this_cpu import this_cpu
        from fx.compiler.schedule import schedule

        if [v.spec for v in graph.inputs] != list(specs):
            raise Unfit
        plan = schedule(graph, this_cpu(exact=True))
        if (
            any(isinstance(s, PythonStep) for s in plan.steps)
            or len(plan.steps) > limits.LOOP_BODY_STEPS
        ):
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
            early = runs or not is_checked(step)
            if early and all(plan.root(v) in still for v in step.reads):
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
        size = rounded(planner.plan.arena)
        for v in self.kept:
            self.offsets[v] = size
            size += rounded(v.spec.nbytes)
        self.before = size  # scratch of the steps before the loop
        self.size = size + max([rounded(s.scratch) for s in self.once], default=0)
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
        """The kernels of all steps, one a key; the short ones become parts of the loop."""
        found: dict[Any, ir.Function] = {}
        calls = Counter(step.key for step in (*self.once, *self.steps))
        room = limits.INLINE
        for step in (*self.once, *self.steps):
            if step.key not in found:
                kernel = step.emit(module, f"{name}_{len(found)}")
                kernel.linkage = "internal"
                length = calls[step.key] * sum([len(b.instructions) for b in kernel.blocks])
                if step.tasks == 1 and length <= room:
                    kernel.attributes.add("alwaysinline")
                    room -= length
                found[step.key] = kernel
        return found

    def pointer(self, builder: ir.IRBuilder, given: dict[Value, Any], scratch: Any) -> Pointer:
        """Where a root value lies: what is given, or scratch memory."""

        def pointer(value: Value) -> Any:
            found = given.get(value)
            if found is not None:
                return found
            if value in self.offsets:
                return byte_at(builder, scratch, self.offsets[value])
            place = self.places[value]
            if place.kind == "arena":
                return byte_at(builder, scratch, place.offset)
            return given[[*self.results][place.index]]

        return pointer

    def run_once(self, builder: ir.IRBuilder, call: Call, pointer: Pointer, scratch: Any) -> None:
        """Call the steps before the loop."""
        for step in self.once:
            own = byte_at(builder, scratch, self.before) if step.scratch else None
            call(step, [pointer(self.root(v)) for v in (*step.reads, *step.writes)], own)

    def run(self, builder: ir.IRBuilder, call: Call, pointer: Pointer, scratch: Any) -> None:
        """Call the steps."""
        for t, step in enumerate(self.steps):
            place = self.step_scratch.get(t)
            own = None if place is None else byte_at(builder, scratch, place.offset)
            call(step, [pointer(self.root(v)) for v in (*step.reads, *step.writes)], own)


def rounded(count: int) -> int:
    return -(-count // ALIGN) * ALIGN


def byte_at(builder: ir.IRBuilder, base: Any, offset: Any) -> Any:
    if isinstance(offset, int):
        if not offset:
            return base
        offset = ir.Constant(I64, offset)
    return builder.gep(base, [offset], source_etype=I8)


def copy(builder: ir.IRBuilder, to: Any, source: Any, nbytes: int) -> None:
    if to is source:
        return
    module = builder.module
    name = "llvm.memcpy.p0.p0.i64"
    function = module.globals.get(name)
    if function is None:
        function = ir.Function(module, ir.FunctionType(ir.VoidType(), [PTR, PTR, I64, I1]), name)
    builder.call(function, [to, source, ir.Constant(I64, nbytes), ir.Constant(I1, 0)])


_IN_BODY = {  # what may go wrong in a loop or branch in which several steps may fail
    BAD_INDEX: "an index is out of range",
    DIVIDED: DIVIDED_BY_0,
    LOST: "a message between ranks was lost",
    UNLIKE: "ranks do not do the same",
    UNSOLVED: "a matrix is singular or not positive definite",
}


def in_body(words: tuple[int, ...], line: str) -> str:
    """The message of a loop or branch in which several steps may fail, by their words."""
    if words == (BAD_INDEX,):
        return f"index %lld is out of range in a loop or branch ({line})"
    code = ": MPI gave up with its code %lld" if {LOST, UNLIKE} & {*words} else ""
    return f"{', or '.join([_IN_BODY[w] for w in words])}{code} (in a loop or branch, {line})"


def is_checked(step: Any) -> bool:
    """Whether a step may meet an unfit value, and says so in words that it writes."""
    return step.status is not None


def caller(builder: ir.IRBuilder, kernels: dict[Any, Any], words: Any) -> Call:
    """What calls a step; where one met an unfit value, the kernel hands that on and ends."""

    def call(step: Step, args: list[Any], scratch: Any) -> None:
        scratch = ir.Constant(PTR, None) if scratch is None else scratch
        begin, end = ir.Constant(I64, 0), ir.Constant(I64, step.tasks)
        builder.call(kernels[step.key], [begin, end, scratch, *args])
        if is_checked(step):
            place = len(step.reads) + step.status  # type: ignore[operator]
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
    at = row_at(builder, told, t, 16)
    word = builder.load(at, typ=I64)
    flag = builder.icmp_signed("!=", word, ir.Constant(I64, 0))
    builder.cbranch(flag, bad, further)
    builder.position_at_end(further)
    following = builder.add(t, ir.Constant(I64, 1))
    t.add_incoming(following, further)
    builder.cbranch(builder.icmp_signed("<", following, ir.Constant(I64, tasks)), head, good)
    builder.position_at_end(bad)
    index = builder.load(byte_at(builder, at, 8), typ=I64)
    builder.store(word, words)
    builder.store(index, byte_at(builder, words, 8))
    builder.ret_void()
    builder.position_at_end(good)


def row_at(builder: ir.IRBuilder, base: Any, row: Any, nbytes: int) -> Any:
    return byte_at(builder, base, builder.mul(row, ir.Constant(I64, nbytes)))


class Written:
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
            copy(builder, to, pointer(root), root.spec.nbytes)
