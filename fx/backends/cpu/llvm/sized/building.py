"""Builds programs for any size: what ``Builder`` writes as a number is a word here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

from fx.backends.cpu.llvm.builder import Builder, Names, traffic
from fx.backends.cpu.llvm.parts import SHARED, Call, Part, Word
from fx.backends.cpu.llvm.recipe import told_array
from fx.backends.cpu.llvm.sized.products import ProductStep
from fx.compiler.extents import Sizes, is_known
from fx.compiler.memory import Arena, Place, Planner
from fx.compiler.step import Schedule, Step
from fx.graph.ir import Graph, Value

_SHAPE = re.compile(r"(?<=\()\d+(, \d+)*(?=,?\))")


class Offsets(Arena):
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


class SizedBuilder(Builder):
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
        self.sizes, self.arena, self.parallel = sizes, Offsets(), True
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
            size = prod(nest.sizes if nest else sizes.shape(s.writes[0].spec.shape))
            self.tasks.append(self.word_of[s.tasks])
            self.elements.append(size)
            self.rates.append(s.cost / max(1, int(size)))
            self.traffic.append(0.0)
        for product in self.products:
            product.first = first
            first += product.count
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
        return prod(self.sizes.shape(value.spec.shape)) * value.spec.dtype.itemsize

    def place(self, place: Place) -> Place:
        """With the word in which the offset is found."""
        if place.kind != "arena":
            return place
        which = place.offset.which  # type: ignore[attr-defined]
        return place._replace(offset=Word(self.offsets + which))  # type: ignore[arg-type]

    def call(self, step: Step, kernel: str, places: Sequence[Place], scratch: Place | None) -> Call:
        """A call whose tasks are words."""
        found = super().call(step, kernel, places, scratch)
        if step.status is not None:
            found.failure = _SHAPE.sub(self._without_sizes, found.failure)
        scratched = step.scratch if is_known(step.scratch) else Word(self.word_of[step.scratch])
        if isinstance(step, ProductStep):
            tasks, chunk = Word(step.first), Word(step.first + 1)
        elif is_known(step.tasks):
            return replace(found, nbytes=scratched)
        else:
            tasks, chunk = Word(self.word_of[step.tasks]), Word(self.chunk_of[step])
        return replace(found, tasks=tasks, chunk=chunk, nbytes=scratched)

    def _without_sizes(self, shape: re.Match[str]) -> str:
        """A shape in a message, which the code has for all sizes."""
        numbers = shape[0].split(", ")
        return ", ".join(["..." if self.sizes.touch(int(n)) else n for n in numbers])

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
