"""Builder: a schedule to a program: memory plans, kernels, the entry of each part, the recipe."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from fx import limits
from fx.backends.cpu.llvm.executable import SEPARATOR, Program
from fx.backends.cpu.llvm.kernels import Kernels
from fx.backends.cpu.llvm.parts import HELPERS, Call, Part, body
from fx.backends.cpu.llvm.recipe import Recipe, Segment, told_array
from fx.compiler.memory import MemoryPlan, Place, Planner
from fx.compiler.step import PythonStep, Schedule, Step
from fx.dtypes import ALL
from fx.graph.ir import Graph, Value
from fx.graph.key import constants_of, foldable


class Builder:
    """Builds one program.

    Args:
        schedule: the steps.
        graph: what was scheduled; the schedule may be of a graph that was made from it.
        donated: positions of inputs whose memory the results may take over.

    Attributes:
        code: the object files, once built.
        listing: the IR, compressed.
        shareable: whether another graph with the same key may have the program.
    """

    def __init__(self, schedule: Schedule, graph: Graph, donated: Sequence[int]) -> None:
        self.schedule, self.graph = schedule, graph
        self.root = schedule.root
        self.inputs = list(schedule.graph.inputs)
        self.outputs = list(schedule.graph.outputs)
        self.donated = frozenset(self.inputs[i] for i in donated)
        roots = [self.root(v) for step in schedule.steps for v in step.reads]
        roots += [self.root(v) for v in self.outputs]
        self.constants = list(dict.fromkeys(v for v in roots if v.constant is not None))
        self.places = {v: i for i, v in enumerate(self.constants)}
        self.kernels = Kernels()
        self.texts: list[str] = []
        self.pieces: list[str] = []
        self.code: list[bytes] = []
        self.listing = b""
        self.shareable = True
        self.names = Names(self.inputs, self.constants)
        self.parallel = False
        self.plans: list[MemoryPlan] = []

    def build(self) -> tuple[Program, list[Callable[..., Any]]]:
        """The program, and what runs in Python."""
        steps = self.schedule.steps
        python: list[Callable[..., Any]] = []
        try:
            if any(isinstance(s, PythonStep) for s in steps):
                segments, slots, outputs, reuse = self._in_segments(steps, python)
            else:
                inputs, constants = self.inputs, self.constants
                part, reuse = self._part(steps, inputs, constants, self.outputs, self.donated)
                segments, slots, outputs = [Segment(part)], 0, []
            if self.texts:
                self._add_calls()
                self.code = self.kernels.objects()
        finally:
            self.kernels.close()
        recipe = Recipe(
            self.graph.name,
            len(self.inputs),
            self.told_constants(),
            slots,
            segments,
            outputs,
            sorted(self.kernels.externals),
            reuse,
            self.parallel,
            _listing(self.schedule),
            "\n".join(map(str, self.plans)),
        )
        self.listing = zlib.compress(SEPARATOR.join(self.kernels.texts).encode(), 1)
        return Program(recipe, self.code, self.listing), python

    def _add_calls(self) -> None:
        """The modules that call the kernels: one, or for a long graph several."""
        pieces, declared = self.pieces, []
        while len(pieces) > limits.MODULE_PIECES:
            first, pieces = pieces[: limits.MODULE_PIECES], pieces[limits.MODULE_PIECES :]
            self.kernels.call_from("\n".join([self.helpers(), *first]))
            found = re.findall(r"^define i1 (@part\w+)", "\n".join(first), re.M)
            declared += [f"declare i1 {name}(ptr, ptr)" for name in found]
        text = [self.helpers(), *declared, *pieces, *self.texts]
        self.kernels.call_from("\n".join(text))

    def told_constants(self) -> list[Any]:
        """Where in the graph each constant is; the constant itself where it is not there once."""
        places: dict[Value, list[int]] = {}
        for i, value in enumerate(constants_of(self.graph)):
            places.setdefault(value, []).append(i)
        told: list[Any] = []
        for value in self.constants:
            found = places.get(value, ())
            if len(found) == 1:
                told.append(found[0])
            else:
                told.append(told_array(value.array))
                self.shareable = self.shareable and foldable(value)
        return told

    # native parts -------------------------------------------------------------------------------

    def _part(
        self,
        steps: Sequence[Step],
        inputs: Sequence[Value],
        constants: Sequence[Value],
        outputs: Sequence[Value],
        donated: frozenset[Value],
    ) -> tuple[Part, dict[int, int]]:
        """One native part: its places, its kernels and its text."""
        planner = self.planner(steps, inputs, constants, outputs, donated)
        part = Part(f"part{len(self.plans)}", len(inputs))
        part.constants = [self.places[v] for v in constants]
        part.results = [_spec(v) for v in planner.results]
        part.arena = planner.plan.arena
        part.free = sum(max(s.cost, traffic(s)) for s in steps) > limits.RELEASE_FROM
        part.written = sorted(
            {planner.places[v].index for s in steps for v in s.writes
             if planner.places[v].kind == "input"}
        )  # fmt: skip
        arrays = {"input": inputs, "constant": constants, "result": planner.results}
        for value in outputs:
            place = planner.places[self.root(value)]
            base = arrays[place.kind][place.index]
            view = None if value.spec == base.spec else _spec(value)
            part.outputs.append((place.kind, place.index, view))
        calls = []
        for t, step in enumerate(steps):
            if not any(v.spec.nbytes for v in step.writes):
                continue  # kernels are never asked for nothing
            found = [planner.places[self.root(v)] for v in (*step.reads, *step.writes)]
            scratch = planner.scratch.get(t)
            scratch = scratch and self.place(scratch)
            calls.append(
                self.call(step, self.kernels.name(step), [*map(self.place, found)], scratch)
            )
        self.part(part, steps)
        self.plans.append(planner.plan)
        pieces, whole = body(part, calls)
        self.pieces += pieces
        self.texts.append(whole)
        return part, planner.plan.reuse

    # what depends on sizes, where these are known when it runs (``sized/``) ----------------------

    def planner(
        self,
        steps: Sequence[Step],
        inputs: Sequence[Value],
        constants: Sequence[Value],
        outputs: Sequence[Value],
        donated: frozenset[Value],
    ) -> Planner:
        """Where the values of a part lie."""
        return Planner(steps, self.root, inputs, constants, outputs, donated, self.names)

    def place(self, place: Place) -> Place:
        """A place, as the body finds it."""
        return place

    def call(self, step: Step, kernel: str, places: Sequence[Place], scratch: Place | None) -> Call:
        """The call of a kernel."""
        chunk = chunk_for(step.tasks, step.cost)
        self.parallel |= chunk > 0
        call = Call(kernel, places, scratch, step.tasks, chunk, step.scratch)
        if step.status is not None:  # it may meet unfit values
            call.status = places[len(step.reads) + step.status]
            call.failure = step.failure  # type: ignore[attr-defined]
        return call

    def part(self, part: Part, steps: Sequence[Step]) -> None:
        """A part is complete."""

    def helpers(self) -> str:
        """What bodies call."""
        return HELPERS

    # with Python steps --------------------------------------------------------------------------

    def _in_segments(
        self, steps: Sequence[Step], python: list[Callable[..., Any]]
    ) -> tuple[list[Segment], int, list[Any], dict[int, int]]:
        """Native parts between the Python steps, and which values live from one to another."""
        groups = _groups(steps)
        values = [*self.inputs, *self.constants]
        slots = {v: i for i, v in enumerate(values)}
        last: dict[Value, int] = {}
        for g, group in enumerate(groups):
            for step in group:
                for value in step.reads:
                    last[self.root(value)] = g
        for value in self.outputs:
            last[self.root(value)] = len(groups)
        for step in steps:
            for value in step.writes:
                slots.setdefault(value, len(slots))
        final = max(g for g, group in enumerate(groups) if isinstance(group[0], PythonStep)) + 1
        # a pass may rebuild a node on other inputs; what it does stays with its parameters
        nodes = {(n.primitive, id(n.params)): i for i, n in enumerate(self.graph.nodes)}
        segments, reuse = [], {}
        ends: dict[int, list[int]] = {}
        for value, g in last.items():
            if g < len(groups) and value not in self.names.fixed:
                ends.setdefault(g, []).append(slots[value])
        for g, group in enumerate(groups):
            reads = list(dict.fromkeys(v for step in group for v in step.reads))
            drop = ends.get(g, [])
            if isinstance(group[0], PythonStep):
                step = group[0]
                own = [slots[v] for v in self.inputs if v in self.donated] if reads else []
                faces = [None if self.root(v).spec == v.spec else list(v.spec.shape)
                         for v in step.reads]  # fmt: skip
                where = [slots[self.root(v)] for v in step.reads]
                writes = [slots[v] for v in step.writes]
                made = step.writes[0].node
                node = -1 if made is None else nodes.get((made.primitive, id(made.params)), -1)
                own = sorted(set(own) & set(where))
                segments.append(Segment(None, node, where, faces, writes, drop, own))
                python.append(step.run)
                continue
            inner = {v for step in group for v in step.writes}
            roots = dict.fromkeys(self.root(v) for v in reads)
            inputs = [v for v in roots if v not in inner and v.constant is None]
            constants = [v for v in roots if v.constant is not None]
            outputs = [v for step in group for v in step.writes if last.get(v, -1) > g]
            donated = frozenset[Value]()
            if g == final:
                kept = {self.root(v) for v in self.outputs}
                donated = frozenset(v for v in inputs if v in self.donated and v not in kept)
            part, taken = self._part(group, inputs, constants, outputs, donated)
            for i, k in taken.items():
                for j, value in enumerate(self.outputs):
                    if self.root(value) is outputs[i] and value.spec == outputs[i].spec:
                        reuse[j] = self.inputs.index(inputs[k])
                        break
            where, writes = [slots[v] for v in inputs], [slots[v] for v in outputs]
            none: list[Any] = [None] * len(where)
            segments.append(Segment(part, -1, where, none, writes, drop, []))
        handed = []
        for value in self.outputs:
            root = self.root(value)
            shape = None if root.spec == value.spec else list(value.spec.shape)
            handed.append([slots[root], shape])
        return segments, len(slots), handed, reuse


class Names:
    """What listings call values: ``in0``, ``const0``, or the primitive that makes them."""

    def __init__(self, inputs: Sequence[Value], constants: Sequence[Value]) -> None:
        self.fixed = {v: f"in{i}" for i, v in enumerate(inputs)}
        self.fixed |= {v: f"const{i}" for i, v in enumerate(constants)}

    def __call__(self, value: Value) -> str:
        name = self.fixed.get(value)
        if name is None:
            name = value.node.primitive.name if value.node is not None else "value"
        shape = ",".join(map(str, value.spec.shape))
        return f"{name} {_NAME[value.spec.dtype]}[{shape}]"


def _groups(steps: Sequence[Step]) -> list[list[Step]]:
    """Stretches of native steps, and Python steps alone."""
    groups: list[list[Step]] = []
    for step in steps:
        alone = isinstance(step, PythonStep)
        if alone or not groups or isinstance(groups[-1][0], PythonStep):
            groups.append([step])
        else:
            groups[-1].append(step)
    return groups


_NAME = {dtype: dtype.name for dtype in ALL}  # NumPy makes the name anew each time


def _spec(value: Value) -> tuple[str, list[int]]:
    return _NAME[value.spec.dtype], list(value.spec.shape)


def traffic(step: Step) -> float:
    """Nanoseconds that moving a step's arrays takes at least, at 20 GB/s."""
    return 0.05 * sum(v.spec.nbytes for v in (*step.reads, *step.writes))


def chunk_for(tasks: int, cost: float) -> int:
    """How many tasks of a step a thread takes at once; 0 where it stays on one thread."""
    if tasks < 2 or cost < limits.PARALLEL_FROM:
        return 0
    return max(1, min(int(tasks * limits.PARALLEL_CHUNK / cost), -(-tasks // 4)))


def _listing(schedule: Schedule) -> str:
    names = Names(schedule.graph.inputs, schedule.graph.constants())
    lines = [f"schedule: {len(schedule.steps)} steps"]
    for t, step in enumerate(schedule.steps):
        writes = ", ".join(repr(v.spec) for v in step.writes)
        cost = f"{step.cost / 1000:.1f} us, {step.tasks} tasks" if step.cost else ""
        lines.append(f"  {t:<4} {step.name} -> {writes}  {cost}  {' '.join(step.lines)}".rstrip())
    lines += [f"  alias {names(new)} of {names(old)}" for new, old in schedule.aliases.items()]
    return "\n".join(lines)
