"""Programs for any size: what has to be equal of two schedules, and what runs at given sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from fx import limits
from fx.backends.cpu.llvm import disk_cache, stored
from fx.backends.cpu.llvm.builder import chunk_for
from fx.backends.cpu.llvm.executable import Executable, Program
from fx.backends.cpu.llvm.recipe import array_of
from fx.backends.cpu.llvm.sized.building import SizedBuilder
from fx.backends.cpu.llvm.sized.products import Lying, ProductStep, numbers
from fx.backends.cpu.llvm.sized.tables import Tables, from_json, function, tables_of, to_json
from fx.backends.cpu.llvm.sized.target import target_for
from fx.compiler.extents import ANY, NoExtentsError, Sizes
from fx.compiler.memory import Arena
from fx.compiler.schedule import schedule
from fx.compiler.step import PythonStep, Schedule
from fx.graph.ir import Graph, constant_value
from fx.graph.size_formulas import Base
from fx.tensor import new_tensor


class SizedProgram:
    """A program for graphs that are one but for their sizes.

    Args:
        tables: what it is told by.
        program: the code, called as for one set of sizes.
    """

    def __init__(self, tables: Tables, program: Program) -> None:
        names = tables.names
        self._program, self._tables = program, tables
        self._told = function(names, tables.told)
        self._offsets = function(names, [n for _, n in tables.arena if n is not None])
        self._shapes = function(names, [n for s in tables.shapes for n in s])
        self._costs = function(names, tables.elements)
        lying = [
            n for x, y, lead, _ in tables.products for n in (*x[0], *x[1], *y[0], *y[1], *lead)
        ]
        self._lying = function(names, lying)

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
        tables = self._tables
        given = [sizes[n] for n in tables.names]
        words = [*given, *self._told(*given)]
        costs = [rate * n for rate, n in zip(tables.rates, self._costs(*given))]
        words += [
            chunk_for(words[tasks], cost) for tasks, cost in zip(tables.tasks, costs, strict=True)
        ]
        lies = iter(self._lying(*given))
        for x, y, lead, itemsize in tables.products:
            (x, y) = (
                Lying(_some(lies, len(f[0])), _some(lies, len(f[1])), itemsize) for f in (x, y)
            )
            words += numbers(x, y, _some(lies, len(lead)))
        arena = Arena()
        held, nbytes = {}, iter(self._offsets(*given))
        for which, count in tables.arena:
            if count is None:
                arena.give(*held[which])
            else:
                n = next(nbytes)
                held[which] = arena.take(n), n
                words.append(held[which][0])
        sized = iter(self._shapes(*given))
        shapes = [list(_some(sized, len(shape))) for shape in tables.shapes]
        recipe = self._program.recipe
        (segment,) = recipe.segments
        part: Any = segment.part
        results = [(d, shapes.pop(0)) for d, _ in part.results]
        outputs = [
            (kind, i, None if view is None else (view[0], shapes.pop(0)))
            for kind, i, view in part.outputs
        ]
        moved = sum([max(c, t) for c, t in zip(costs, tables.traffic)])
        part = replace(
            part, results=results, outputs=outputs, arena=arena.size,
            free=part.free or tables.fixed + moved > limits.RELEASE_FROM,
        )  # fmt: skip
        program = self._program.with_recipe(
            replace(recipe, segments=[replace(segment, part=part)], memory=f"sizes: {dict(sizes)}")
        )
        constants = [known[c] if isinstance(c, int) else array_of(c) for c in recipe.constants[:-1]]
        found = Executable(program, [*constants, np.array(words, np.int64)], ())
        found.axes = dict(axes)
        return found


def _some(numbers: Iterator[int], count: int) -> tuple[int, ...]:
    return tuple(islice(numbers, count))


def stored_program(name: str, inputs: int) -> SizedProgram | None:
    """The program that was kept under a name; None if there is none, or one that does not fit."""
    found = stored.load(name, inputs)
    if found is None:
        return None
    program, told = found
    try:
        tables = from_json(told)
        (segment,) = program.recipe.segments
        part = segment.part
        shapes = None if part is None else [x for _, x in part.specs()]
        if part is None or part.words is None or len(tables.shapes) != len(shapes or ()):
            raise ValueError("another program's tables")
        return SizedProgram(tables, program)
    except (ValueError, TypeError):
        disk_cache.drop(name)
        return None


class UnlikeError(Exception):
    """Two plans for graphs that are one but for their sizes differ in more than these."""


def program_for(
    graph: Graph, other: Graph, first: Sizes, second: Sizes, donated: Sequence[int],
    name: str | None = None,
) -> SizedProgram | None:  # fmt: skip
    """The program of a graph whose sizes are primes; None if it needs more than formulas of sizes.

    Args:
        graph: what to compute.
        other: the same with other primes: what is planned for both has to be the same, or some
            number depends on a size in a way that its factors do not tell.
        first, second: the sizes of each.
        donated: positions of inputs whose memory results may take over.
        name: under which it is kept on disk.

    Raises:
        UnlikeError: if they are planned otherwise; other primes may not be.
    """
    try:
        found = schedule(graph, target_for(first), first)
        if any(isinstance(s, PythonStep) for s in found.steps):
            return None
        again = schedule(other, target_for(second), second)
        if _shape_of(found, graph, first) != _shape_of(again, other, second):
            raise UnlikeError
        built = SizedBuilder(found, graph, donated, first)
        program, _ = built.build()
        tables = tables_of(built)
        if name is not None and built.shareable and stored.is_whole(program.recipe):
            stored.store(name, program, built.code, built.listing, to_json(tables))
        return SizedProgram(tables, program)
    except NoExtentsError:
        return None


def sizes_for(primes: Mapping[str, int], bases: Sequence[Base], ends: Mapping[str, int]) -> Sizes:
    """The sizes of a graph in which primes stand for them, with words of their own.

    Args:
        primes: by name.
        bases: what is made of these sizes.
        ends: how large they are at the most.
    """
    words = constant_value(new_tensor(np.zeros(0, np.int64)))
    return Sizes({p: n for n, p in primes.items()}, ANY, words, bases, ends)


def _shape_of(planned: Schedule, graph: Graph, sizes: Sizes) -> list[Any]:
    """What a schedule does, up to its sizes; steps for known sizes are what their specs say."""
    known = graph.cache["constants"]
    found: list[Any] = []
    for step in planned.steps:
        specs = [
            (v.spec.dtype.name, tuple(map(sizes.extent, v.spec.shape)))
            for v in (*step.reads, *step.writes)
            if v is not sizes.words
        ]
        nest = getattr(step, "nest", None)
        what = step.name
        if nest is not None:  # but for how many elements the arrays have, which no code knows
            *what, arrays = nest.key()
            what.append([dtype for dtype, _ in arrays])
        if isinstance(step, ProductStep):
            lie = [(*v.shape, *v.strides, v.offset) for v in step.views]
            what = tuple([tuple(map(sizes.extent, x)) for x in lie])
        made = [  # constants that are in the code's own keeping, whatever graph it runs for
            v.array.tobytes()
            for v in map(planned.root, step.reads)
            if v.constant is not None and v not in known and v is not sizes.words
        ]
        found.append((type(step).__name__, what, specs, made))
    return found
