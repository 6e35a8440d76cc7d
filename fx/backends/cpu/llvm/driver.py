"""compile_graph: schedule, memory plan, code, executable."""

from __future__ import annotations

import re
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any
from weakref import WeakValueDictionary

from fx.backends.cpu.llvm import disk_cache, entry
from fx.backends.cpu.llvm.executable import SEPARATOR, Executable, Program
from fx.backends.cpu.llvm.kernels import Kernels
from fx.backends.cpu.llvm.memory import MemoryPlan, Planner
from fx.backends.cpu.llvm.parts import Call, Part, body
from fx.backends.cpu.llvm.recipe import Recipe, Segment, array_of, from_json, to_json, told_array
from fx.backends.cpu.llvm.step import PythonStep, Schedule, Step
from fx.dtypes import ALL
from fx.graph.ir import Graph, Value
from fx.graph.key import constants_of, foldable, graph_key, is_stable

LONG = 20_000.0  # nanoseconds of work from which the GIL is given up
PARALLEL = 80_000.0  # nanoseconds of a step from which threads pay
_PIECES = 4  # functions of kernel calls of one module
_LITERAL = 1 << 20  # bytes of constants that an entry of the disk cache holds
CHUNK = 30_000.0  # nanoseconds that a thread takes at once


def compile_graph(
    graph: Graph,
    donated: Sequence[int] = (),
    scheduler: Callable[[Graph], Schedule] | None = None,
) -> Executable:
    """Compile a graph for this CPU.

    Args:
        graph: what to compute.
        donated: positions of inputs whose memory the results may take over; the caller must own
            them, and use none of them afterwards except through the results.
        scheduler: ``schedule`` of this package unless told.

    Raises:
        RuntimeError: if LLVM refuses what a kernel emitted. Nothing is kept of it.

    Example:
        >>> import fx, numpy as np
        >>> from fx.backends.cpu.llvm.driver import compile_graph
        >>> graph = fx.make_graph(lambda x: fx.exp(x) + 1)(fx.ones(3))
        >>> compile_graph(graph).run([np.zeros(3, np.float32)])
        [array([2., 2., 2.], dtype=float32)]
    """
    if scheduler is not None:
        program, python = _Builder(scheduler(graph), graph, donated).build()
        return _finish(program, graph, python)
    key = graph_key(graph)
    found = _known(key, donated, graph)
    if found is not None:
        return found
    from fx.backends.cpu.llvm.schedule import schedule

    builder = _Builder(schedule(graph), graph, donated)
    program, python = builder.build()
    if builder.shareable and _is_whole(program.recipe):
        _remember(key, donated, program, builder.code, builder.listing)
    return _finish(program, graph, python)


# Programs of this process by key: those in use, and the last few, so that a function that is jitted
# again and again is compiled and linked once. Constants and Python steps are each graph's own.
_programs: WeakValueDictionary[Any, Program] = WeakValueDictionary()
_latest: deque[Program] = deque(maxlen=16)


def forget() -> None:
    """Forget the programs of this process; those on disk stay."""
    _programs.clear()
    _latest.clear()


def _known(key: str, donated: Sequence[int], graph: Graph) -> Executable | None:
    """The executable whose program is in this process or on disk."""
    program = _programs.get((key, tuple(donated)))
    name = None
    if program is None and is_stable(key):
        name = disk_cache.name_of(key, repr(tuple(donated)))
        program = None if name is None else _from_disk(name, graph)
    if program is None:
        return None
    try:
        nodes = [s.node for s in program.recipe.segments if s.part is None]
        found = _finish(program, graph, [_in_python(graph.nodes[i]) for i in nodes])
    except (ValueError, IndexError):
        if name is not None:
            disk_cache.drop(name)
        return None
    _keep(key, donated, program)
    return found


def _keep(key: str, donated: Sequence[int], program: Program) -> None:
    _programs[key, tuple(donated)] = program
    _latest.append(program)


def _remember(
    key: str, donated: Sequence[int], program: Program, code: list[bytes], listing: bytes
) -> None:
    """Keep a program in this process, and on disk where its key means something there."""
    _keep(key, donated, program)
    name = disk_cache.name_of(key, repr(tuple(donated))) if is_stable(key) else None
    if name is not None:
        head = {"recipe": to_json(program.recipe), "objects": [len(x) for x in code]}
        disk_cache.store(name, head, b"".join(code), listing)


def _finish(program: Program, graph: Graph, python: Sequence[Callable[..., Any]]) -> Executable:
    """The executable of a program, with this graph's constants."""
    known = constants_of(graph) if program.recipe.constants else []
    constants = [
        known[c].constant._a if isinstance(c, int) else array_of(c)  # type: ignore[union-attr]
        for c in program.recipe.constants
    ]
    return Executable(program, constants, python)


def _from_disk(name: str, graph: Graph) -> Program | None:
    """The program that the cache holds; None if it holds none, or one that does not fit."""
    found = disk_cache.load(name)
    if found is None:
        return None
    told, code, listing = found
    try:
        recipe = from_json(told["recipe"])
        objects = _cut(code, told["objects"])
        if recipe.inputs != len(graph.inputs):
            raise ValueError("another graph's")
        if not _is_whole(recipe):
            raise ValueError("a step of no node")
        return Program(recipe, objects, listing)
    except (ValueError, TypeError, IndexError, KeyError, RuntimeError):
        disk_cache.drop(name)
        return None


def _in_python(node: Any) -> Callable[..., Any]:
    """What a node does in Python; the scheduler is imported only where a graph has such nodes."""
    from fx.backends.cpu.llvm.schedule import python_step

    return python_step(node).run


def _cut(code: bytes, sizes: Any) -> list[bytes]:
    if not all(type(n) is int and n > 0 for n in sizes) or sum(sizes) != len(code):
        raise ValueError("object files of other sizes")
    ends = list(accumulate(sizes))
    return [code[end - size : end] for end, size in zip(ends, sizes)]


def _is_whole(recipe: Recipe) -> bool:
    """Whether the recipe says all that another process needs."""
    literal = sum(len(c[2]) for c in recipe.constants if not isinstance(c, int))
    nodes = [s.node for s in recipe.segments if s.part is None]
    return literal <= _LITERAL and min(nodes, default=0) >= 0


class _Builder:
    """Builds one executable."""

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
        self.shareable = True  # whether another graph with this key may have the program
        self.names = _Names(self.inputs, self.constants)
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
            self._told_constants(),
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
        while len(pieces) > _PIECES:
            self.kernels.call_from("\n".join([entry.PARALLEL, *pieces[:_PIECES]]))
            found = re.findall(r"^define void (@part\w+)", "\n".join(pieces[:_PIECES]), re.M)
            declared += [f"declare void {name}(ptr)" for name in found]
            pieces = pieces[_PIECES:]
        text = [entry.PRELUDE, entry.PARALLEL, *declared, *pieces, *self.texts]
        self.kernels.call_from("\n".join(text))

    def _told_constants(self) -> list[Any]:
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
                told.append(told_array(value.constant._a))  # type: ignore[union-attr]
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
        planner = Planner(steps, self.root, inputs, constants, outputs, donated, self.names)
        part = Part(f"part{len(self.plans)}", len(inputs))
        part.constants = [self.places[v] for v in constants]
        part.results = [_spec(v) for v in planner.results]
        part.arena = planner.plan.arena
        part.free = sum(s.cost for s in steps) > LONG
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
            places = [planner.places[self.root(v)] for v in (*step.reads, *step.writes)]
            scratch = planner.scratch.get(t)
            chunk = _chunk(step)
            self.parallel |= chunk > 0
            kernel = self.kernels.name(step)
            calls.append(Call(kernel, places, scratch, step.tasks, chunk, step.scratch))
        self.plans.append(planner.plan)
        pieces, whole = body(part, calls)
        self.pieces += pieces
        self.texts += [whole, entry.entry(part)]
        return part, planner.plan.reuse

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
                node = nodes.get((made.primitive, id(made.params)), -1)
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


class _Names:
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


def _chunk(step: Step) -> int:
    """How many tasks a thread takes at once; 0 where the step stays on one thread."""
    if step.tasks < 2 or step.cost < PARALLEL:
        return 0
    return max(1, min(int(step.tasks * CHUNK / step.cost), -(-step.tasks // 4)))


def _listing(schedule: Schedule) -> str:
    names = _Names(schedule.graph.inputs, schedule.graph.constants())
    lines = [f"schedule: {len(schedule.steps)} steps"]
    for t, step in enumerate(schedule.steps):
        writes = ", ".join(repr(v.spec) for v in step.writes)
        cost = f"{step.cost / 1000:.1f} us, {step.tasks} tasks" if step.cost else ""
        lines.append(f"  {t:<4} {step.name} -> {writes}  {cost}  {' '.join(step.lines)}".rstrip())
    lines += [f"  alias {names(new)} of {names(old)}" for new, old in schedule.aliases.items()]
    return "\n".join(lines)
