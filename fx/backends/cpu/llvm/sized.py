"""Programs for any size: kernels whose extents are known when they run.

A graph with primes for its sizes is scheduled as any other, for a target whose steps take such
sizes: nests with extents, products by the kernels of eager calls, and the others of ``_KERNELS``.
What else depends on a size refuses the program. What the body and the kernels have to know of sizes
stands in an array of *words*, the last constant of the program: the sizes themselves, offsets in
the arena, tasks, and the tables of products. ``SizedProgram.at`` fills it in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

import numpy as np

from fx import limits
from fx.backends.cpu.llvm.any_size.products import planned
from fx.backends.cpu.llvm.builder import Builder, Names, chunk_for, traffic
from fx.backends.cpu.llvm.executable import Executable, Program
from fx.backends.cpu.llvm.gemm.views import View, dense, view_of
from fx.backends.cpu.llvm.ir import Frame, at, i64, memory_type
from fx.backends.cpu.llvm.loops.step import LoopStep
from fx.backends.cpu.llvm.node_steps.calls import call, random_bits, random_draw
from fx.backends.cpu.llvm.node_steps.indexing import wrap_index
from fx.backends.cpu.llvm.parts import SHARED, Call, Part, Word
from fx.backends.cpu.llvm.recipe import array_of, told_array
from fx.backends.cpu.llvm.this_cpu import this_cpu
from fx.compiler.extents import ANY, Extent, NoExtentsError, Sizes, is_known
from fx.compiler.memory import Arena, Place, Planner
from fx.compiler.plan import Plan
from fx.compiler.schedule import schedule
from fx.compiler.step import PythonStep, Schedule, Step
from fx.compiler.target import Target
from fx.graph.ir import Graph, Node, Value, constant_value, input_value
from fx.spec import TensorSpec
from fx.tensor import new_tensor

# the target -------------------------------------------------------------------------------------


def _target(sizes: Sizes) -> Target:
    """This CPU, for graphs with sizes that are known when they run."""
    plain = this_cpu()

    def depends(node: Node) -> bool:
        specs = [v.spec.shape for v in (*node.inputs, *node.outs)]
        return sizes.touch(specs) or sizes.touch(list(node.params.values()))

    def maker(name: str, makers: Sequence[Callable[[Node], Any]]) -> Callable[[Node], Any]:
        own = _KERNELS.get(name)

        def steps(node: Node) -> Any:
            if depends(node):
                return None if own is None else own(node, sizes)
            for make in makers:
                found = make(node)
                if found is not None:
                    return found
            return None

        return steps

    def product(node: Node, epilogue: Any) -> Any:
        return None if depends(node) else plain.products["matmul"](node, epilogue)

    def loop(
        plan: Plan, reads: Sequence[Value], writes: Sequence[Value], name: str, lines: Sequence[str]
    ) -> Step:
        if not _sized(plan):
            return plain.loop(plan, reads, writes, name, lines)
        return LoopStep(plan, (*reads, sizes.words), writes, name, lines, sizes.places)

    return replace(
        plain, kernels={name: [maker(name, makers)] for name, makers in plain.kernels.items()},
        products={"matmul": product}, loop=loop,
    )  # fmt: skip


def _sized(plan: Plan) -> bool:
    nest = plan.nest
    numbers = [c for form in nest.forms() for c in (form[0], *[c for _, c in form[1]])]
    numbers += [*nest.sizes, *[n for _, n in (*nest.reads, *nest.writes)], nest.share]
    return not is_known(*numbers, plan.tasks, plan.scratch, *(nest.ragged or ()))


# products ---------------------------------------------------------------------------------------


class _Lying(NamedTuple):
    """How a factor lies in memory, as an array tells it."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int

    @property
    def ndim(self) -> int:
        return len(self.shape)


class ProductStep(Step):
    """A product, or the packing of its right factor, by a kernel of ``any_size/gemm``.

    Args:
        node: a ``matmul``.
        views: its factors.
        packs: whether the right factor is packed by a step of its own.
        packed: where that is.
        kernel: ``"pack"`` or ``"product"``.
        sizes: those that are known when it runs.
    """

    def __init__(
        self, node: Node, views: Sequence[View], packs: bool, packed: Value | None, kernel: str,
        sizes: Sizes,
    ) -> None:  # fmt: skip
        x, y = views
        out = node.out.spec
        self.name = f"{kernel}: {node.primitive.name}"
        self.views, self.out, self.packs, self.kernel, self.sizes = views, out, packs, kernel, sizes
        factors = (y.value,) if kernel == "pack" else (x.value, packed or y.value)
        self.reads = (*factors, sizes.words)
        self.writes = (packed,) if kernel == "pack" else (node.out,)  # type: ignore[assignment]
        self.first = 0  # of its words, once those are counted
        work = out.size * x.shape[-1]
        self.cost = work / 50 if kernel == "product" else y.value.spec.size * 0.15
        self.lines = (node.line,) if node.line else ()

    @property
    def key(self) -> Any:  # type: ignore[override]
        """Each has words of its own."""
        return "sized product", self.first

    def numbers(self, sizes: Mapping[str, int]) -> list[int]:
        """Its tasks, how many of them a thread takes at once, and what the kernel is told."""
        lying = [
            _Lying(
                tuple([_at(self.sizes.extent(n), sizes) for n in v.shape]),
                tuple([_at(self.sizes.extent(s), sizes) * self.out.dtype.itemsize
                       for s in v.strides]),
                self.out.dtype.itemsize,
            )
            for v in self.views
        ]  # fmt: skip
        lead = tuple([_at(self.sizes.extent(n), sizes) for n in self.out.shape[:-2]])
        plan = planned(*lying, lead, self.packs)  # type: ignore[arg-type]
        assert plan is not None
        if self.kernel == "pack":
            return [*plan.pack_tasks, *plan.pack_words]
        return [*plan.tasks, *plan.words]

    def emit(self, module: Any, name: str) -> Any:
        """A call of the kernel, whose words are among those of the program."""
        frame = Frame(module, name, len(self.reads), len(self.writes), self.sizes.places)
        b, kind = frame.b, memory_type(self.out.dtype)
        count = len(self.numbers({n: p for p, n in self.sizes.primes.items()})) - 2
        told = [
            b.load(b.gep(frame.words, [i64(self.first + 2 + i)], source_etype=i64), typ=i64)
            for i in range(count)
        ]
        factors = []
        for array, view in zip(frame.reads[::-1], self.views[::-1]):
            moved = array
            if not (self.kernel == "product" and self.packs and view is self.views[1]):
                moved = at(b, array, frame.number(self.sizes.extent(view.offset)), kind)
            factors.insert(0, moved)
        if self.kernel == "pack":
            factors.insert(0, None)
        call(frame, ("gemm", self.kernel, _CHARS[self.out.dtype.name]), [
            *factors, *frame.writes, *told, None
        ])  # fmt: skip
        return frame.function


_CHARS = {"float32": "f", "float64": "d"}


def _product(node: Node, sizes: Sizes) -> list[Step] | None:
    out = node.out.spec
    if out.dtype.name not in _CHARS or not out.size or not node.inputs[0].spec.size:
        return None
    x, y = view_of(node.inputs[0]), view_of(node.inputs[1])
    if 1 not in y.strides[-2:]:
        y = dense(node.inputs[1])
    size = out.dtype.itemsize
    lying = [_Lying(v.shape, tuple([s * size for s in v.strides]), size) for v in (x, y)]
    plan = planned(*lying, out.shape[:-2])  # type: ignore[arg-type]
    if plan is None:
        return None
    if not plan.packed:
        return [ProductStep(node, (x, y), False, None, "product", sizes)]
    from fx.backends.cpu.llvm.any_size.gemm import wide

    n, k = (sizes.extent(v) for v in (y.shape[-1], y.shape[-2]))
    panels = -(-n // wide(size)) * wide(size) * k
    for length, stride in zip(y.shape[:-2], y.strides[:-2]):
        if stride:
            panels = panels * sizes.extent(length)
    packed = _Packed(TensorSpec((plan.packed,), out.dtype), panels)
    return [
        ProductStep(node, (x, y), True, packed, kernel, sizes) for kernel in ("pack", "product")
    ]


class _Packed(Value):
    """A packed factor, of so many numbers."""

    __slots__ = ("numbers",)

    def __init__(self, spec: TensorSpec, numbers: int) -> None:
        known = input_value(spec)
        for name in Value.__slots__:
            setattr(self, name, getattr(known, name))
        self.numbers = numbers


_KERNELS: dict[str, Callable[[Node, Sizes], Any]] = {
    "matmul": _product,
    "random_bits": random_bits,
    "random_draw": random_draw,
    "wrap_index": wrap_index,
}


# building ---------------------------------------------------------------------------------------


class _Offsets(Arena):
    """An arena that notes what is taken and given back, to do it again for other sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[tuple[int, int | None]] = []  # (which, bytes); None: it is given back
        self.count = 0

    def take(self, count: int) -> int:
        """An offset that knows which it is."""
        offset = _Offset(super().take(int(count)))
        offset.which = self.count
        self.done.append((self.count, count))
        self.count += 1
        return offset

    def give(self, offset: int, count: int) -> None:
        """Take it back."""
        self.done.append((offset.which, None))  # type: ignore[attr-defined]
        super().give(int(offset), int(count))


class _Offset(int):
    which: int


class SizedProgram:
    """A program for graphs that are one but for their sizes.

    Attributes:
        names: of the sizes.
    """

    def __init__(self, built: _Builder, program: Program) -> None:
        self.names = list(built.sizes.places)
        self._program, self._built = program, built
        self._told = _function(self.names, built.told)
        self._offsets = _function(self.names, [n for _, n in built.arena.done if n is not None])
        self._shapes = _function(self.names, [n for s in built.shapes for n in s])
        self._costs = _function(self.names, built.elements)

    def at(
        self, sizes: Mapping[str, int], known: Sequence[np.ndarray],
        axes: Mapping[tuple[int, int], str],
    ) -> Executable:  # fmt: skip
        """What runs at some sizes.

        Args:
            sizes: by name.
            known: the constants of the graph.
            axes: of its inputs, which of the sizes they are.
        """
        built = self._built
        given = [sizes[n] for n in self.names]
        words = [*given, *self._told(*given)]
        costs = [rate * n for rate, n in zip(built.rates, self._costs(*given))]
        chunks = [
            chunk_for(words[tasks], cost) for tasks, cost in zip(built.tasks, costs, strict=True)
        ]
        words += chunks
        for step in built.products:
            words += step.numbers(sizes)
        arena = Arena()
        held, nbytes = {}, iter(self._offsets(*given))
        for which, count in built.arena.done:
            if count is None:
                arena.give(*held[which])
            else:
                n = next(nbytes)
                held[which] = arena.take(n), n
                words.append(held[which][0])
        numbers = iter(self._shapes(*given))
        shapes = [[next(numbers) for _ in shape] for shape in built.shapes]
        recipe = self._program.recipe
        (segment,) = recipe.segments
        part: Any = segment.part
        results = [(d, shapes.pop(0)) for d, _ in part.results]
        outputs = [
            (kind, i, None if view is None else (view[0], shapes.pop(0)))
            for kind, i, view in part.outputs
        ]
        moved = sum([max(c, t) for c, t in zip(costs, built.traffic)])
        part = replace(
            part, results=results, outputs=outputs, arena=arena.size,
            free=part.free or built.fixed + moved > limits.RELEASE_FROM,
        )  # fmt: skip
        sized = self._program.with_recipe(
            replace(recipe, segments=[replace(segment, part=part)], memory=f"sizes: {dict(sizes)}")
        )
        constants = [known[c] if isinstance(c, int) else array_of(c) for c in recipe.constants[:-1]]
        found = Executable(sized, [*constants, np.array(words, np.int64)], ())
        found.axes = dict(axes)
        return found


def _function(names: Sequence[str], formulas: Sequence[int]) -> Callable[..., list[int]]:
    """What computes formulas of sizes."""
    known = {"__builtins__": {}, "max": max, "min": min}
    source = f"lambda {', '.join(names)}: [{', '.join(map(repr, formulas))}]"
    return eval(compile(source, __file__, "eval"), known)  # type: ignore[no-any-return]  # fx's code


def _at(n: int, sizes: Mapping[str, int]) -> int:
    if type(n) is not Extent:
        return n
    if any(not isinstance(a, str) for a in n.atoms):
        raise NoExtentsError(f"{n}")
    return n.factor * prod([sizes[a] for a in n.atoms])  # type: ignore[no-any-return]


class _Builder(Builder):
    """Builds a program for any size.

    Attributes:
        told: formulas of the words that follow the sizes.
        tasks: of each step whose tasks depend on sizes, which word says how many there are; behind
            ``told`` stands for each of them how many a thread takes at once.
        rates, elements, traffic: of those steps the nanoseconds an element, and how many there are.
        products: whose words follow; offsets in the arena are the last.
        shapes: of results, then those of the faces of outputs.
    """

    def __init__(
        self, planned: Schedule, graph: Graph, donated: Sequence[int], sizes: Sizes
    ) -> None:
        super().__init__(planned, graph, donated)
        self.sizes, self.arena, self.parallel = sizes, _Offsets(), True
        known = graph.cache["constants"]
        self.inputs = [v for v in self.inputs if v not in known]
        varying = [v for v in graph.inputs if v in known]
        constants = [v for v in self.constants if v is not sizes.words]
        self.constants = [*constants, *varying, sizes.words]
        self.places = {v: i for i, v in enumerate(self.constants)}
        self.names = Names(self.inputs, self.constants)
        self.told: list[int] = []
        self.tasks: list[int] = []
        self.rates: list[float] = []
        self.elements: list[int] = []
        self.traffic: list[float] = []
        self.fixed = 0.0
        self.shapes: list[list[int]] = []
        self.products = [s for s in planned.steps if isinstance(s, ProductStep)]
        # the words: sizes, tasks and scratch, chunks, products, offsets
        numbers = [n for s in planned.steps for n in (s.tasks, s.scratch) if not is_known(n)]
        self.told = list(dict.fromkeys(numbers))
        first = len(sizes.places)
        self.word_of = {n: first + i for i, n in enumerate(self.told)}
        shared = [s for s in planned.steps if not is_known(s.tasks)]
        first += len(self.told)
        self.chunk_of = {s: first + i for i, s in enumerate(shared)}
        first += len(shared)
        for s in shared:
            nest = getattr(s, "nest", None)
            size = prod(nest.sizes) if nest else sizes.extent(s.writes[0].spec.size)
            self.tasks.append(self.word_of[s.tasks])
            self.elements.append(size)
            self.rates.append(s.cost / max(1, int(size)))
            self.traffic.append(0.0)
        least = dict.fromkeys(sizes.places, 1)
        for product in self.products:
            product.first = first
            first += len(product.numbers(least))
        self.offsets = first

    def told_constants(self) -> list[Any]:
        """Where in the graph each constant is; a scheduled one itself."""
        known = self.graph.cache["constants"]
        return [known[v] if v in known else told_array(v.array) for v in self.constants]

    def planner(
        self, steps: Sequence[Step], inputs: Sequence[Value], constants: Sequence[Value],
        outputs: Sequence[Value], donated: frozenset[Value],
    ) -> Planner:  # fmt: skip
        """A plan whose offsets are words."""
        return Planner(
            steps, self.root, inputs, constants, outputs, donated, self.names, self.arena,
            self._nbytes,
        )  # fmt: skip

    def _nbytes(self, value: Value) -> int:
        if isinstance(value, _Packed):
            return value.numbers * value.spec.dtype.itemsize
        return self.sizes.extent(value.spec.nbytes)

    def place(self, place: Place) -> Place:
        """With the word in which the offset is found."""
        if place.kind != "arena":
            return place
        which = place.offset.which  # type: ignore[attr-defined]
        return place._replace(offset=Word(self.offsets + which))  # type: ignore[arg-type]

    def call(self, step: Step, kernel: str, places: Sequence[Place], scratch: Place | None) -> Call:
        """A call whose tasks are words."""
        found = super().call(step, kernel, places, scratch)
        if isinstance(step, ProductStep):
            tasks, chunk = Word(step.first), Word(step.first + 1)
        elif is_known(step.tasks):
            return found
        else:
            tasks, chunk = Word(self.word_of[step.tasks]), Word(self.chunk_of[step])
        scratched = step.scratch if is_known(step.scratch) else Word(self.word_of[step.scratch])
        return replace(found, tasks=tasks, chunk=chunk, nbytes=scratched)

    def part(self, part: Part, steps: Sequence[Step]) -> None:
        """Note what depends on sizes of a part."""
        part.words = part.constants.index(self.places[self.sizes.words])
        self.shapes = [[self.sizes.extent(n) for n in shape] for _, shape in part.specs()]
        rest = [s for s in steps if is_known(s.tasks)]
        self.fixed = sum([max(s.cost, traffic(s)) for s in rest])
        part.free = False

    def helpers(self) -> str:
        """What bodies call."""
        return super().helpers() + SHARED


def program_for(
    graph: Graph, other: Graph, primes: Mapping[str, int], others: Mapping[str, int],
    donated: Sequence[int],
) -> SizedProgram | None:  # fmt: skip
    """The program of a graph whose sizes are primes; None if it needs more than products of sizes.

    Args:
        graph: what to compute.
        other: the same with other primes: what is planned for both has to be the same, or some
            number depends on a size in a way that its factors do not tell.
        primes, others: by name.
        donated: positions of inputs whose memory results may take over.
    """
    try:
        first, second = _sizes_of(primes), _sizes_of(others)
        found = schedule(graph, _target(first), first)
        if any(isinstance(s, PythonStep) for s in found.steps):
            return None
        if _shape_of(found, first) != _shape_of(schedule(other, _target(second), second), second):
            return None
        built = _Builder(found, graph, donated, first)
        program, _ = built.build()
        return SizedProgram(built, program)
    except NoExtentsError:
        return None


def _sizes_of(primes: Mapping[str, int]) -> Sizes:
    words = constant_value(new_tensor(np.zeros(0, np.int64)))
    return Sizes({p: n for n, p in primes.items()}, ANY, words)


def _shape_of(planned: Schedule, sizes: Sizes) -> list[Any]:
    """What a schedule does, up to its sizes."""
    found = []
    for step in planned.steps:
        specs = [
            (v.spec.dtype.name, tuple(map(sizes.extent, v.spec.shape)))
            for v in (*step.reads, *step.writes)
            if v is not sizes.words and not isinstance(v, _Packed)
        ]
        nest = getattr(step, "nest", None)
        what = step.name
        if nest is not None:  # but for how many elements the arrays have, which no code knows
            *what, arrays = nest.key()
            what.append([dtype for dtype, _ in arrays])
        if isinstance(step, ProductStep):
            lie = [(*v.shape, *v.strides, v.offset) for v in step.views]
            what = (step.kernel, *[tuple(map(sizes.extent, x)) for x in lie])
        found.append((type(step).__name__, what, specs))
    return found
