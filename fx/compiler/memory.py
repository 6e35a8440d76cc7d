"""Memory plan: where every value of a run of native steps lies.

Three places: an argument (inputs, and results that take over a donated input), an array of its own
(results), and the arena, one block in which values whose lifetimes do not meet share memory.

First values are joined to *chains* that one buffer serves in turn, because a step may write in
place. A chain that holds a donated input lies there, one that ends in a result lies in the result's
array, and the rest goes to the arena, first come, best fit.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from fx.compiler.step import Step
from fx.graph.ir import Value

ALIGN = 64


class Place(NamedTuple):
    """Where a value lies: ``input 2``, ``constant 0``, ``result 1`` or ``arena`` and an offset."""

    kind: str
    index: int = 0  # type: ignore[assignment]  # not the method of tuples
    offset: int = 0

    def __str__(self) -> str:
        return f"arena+{self.offset}" if self.kind == "arena" else f"{self.kind} {self.index}"


class Life(NamedTuple):
    """One line of the plan: a value, from the step that writes it to the last that needs it."""

    value: str
    nbytes: int
    start: int  # -1: before the first step
    end: int  # the number of steps: until the call returns
    place: Place


@dataclass
class MemoryPlan:
    """The places of all values.

    Attributes:
        lives: a line a value, in the order in which they come into being.
        arena: bytes of the arena.
        results: bytes of the arrays that each call makes for its results.
        arguments: bytes of inputs and constants.
        reuse: which result takes over which donated input.
    """

    lives: list[Life] = field(default_factory=list)
    arena: int = 0
    results: int = 0
    arguments: int = 0
    reuse: dict[int, int] = field(default_factory=dict)

    @property
    def peak(self) -> int:
        """Bytes that a call needs beyond its arguments."""
        return self.arena + self.results

    def __str__(self) -> str:
        head = (
            f"memory: {_size(self.peak)} beyond {_size(self.arguments)} of arguments "
            f"(arena {_size(self.arena)}, results {_size(self.results)})"
        )
        lines = [head]
        for life in self.lives:
            last = "end" if life.end >= _END else str(life.end)
            first = "call" if life.start < 0 else str(life.start)
            lines.append(
                f"  {life.place!s:<16} {_size(life.nbytes):>9}  steps {first}..{last}  {life.value}"
            )
        return "\n".join(lines)


_END = 1 << 40


def _size(count: int) -> str:
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} B"


class Arena:
    """Offsets in a block that grows: best fit among what was given back."""

    def __init__(self) -> None:
        self.size = 0
        self._by_size: list[tuple[int, int]] = []  # (bytes, offset), sorted
        self._starts: dict[int, int] = {}  # offset -> bytes
        self._ends: dict[int, int] = {}  # offset behind -> offset

    def take(self, count: int) -> int:
        """The offset of ``count`` bytes."""
        i = bisect_left(self._by_size, (count, 0))
        if i < len(self._by_size):
            found, offset = self._by_size[i]
            self._forget(offset, found)
            if found > count:
                self._remember(offset + count, found - count)
            return offset
        offset = self._ends.get(self.size, self.size)  # grow, from a free end if there is one
        if offset < self.size:
            self._forget(offset, self.size - offset)
        self.size = offset + count
        return offset

    def give(self, offset: int, count: int) -> None:
        """Take back what ``take`` gave; neighbours grow together."""
        behind = self._starts.get(offset + count)
        if behind is not None:
            self._forget(offset + count, behind)
            count += behind
        before = self._ends.get(offset)
        if before is not None:
            self._forget(before, offset - before)
            offset, count = before, count + offset - before
        self._remember(offset, count)

    def _remember(self, offset: int, count: int) -> None:
        insort(self._by_size, (count, offset))
        self._starts[offset] = count
        self._ends[offset + count] = offset

    def _forget(self, offset: int, count: int) -> None:
        del self._by_size[bisect_left(self._by_size, (count, offset))]
        del self._starts[offset], self._ends[offset + count]


class Planner:
    """Plans one run of native steps.

    Args:
        steps: the steps, none of them Python's.
        root: the value whose memory a value is.
        inputs: roots that arrays are passed for.
        constants: roots that are constants.
        outputs: what the run hands out; roots, or aliases of roots.
        donated: inputs whose memory results may take over.
        names: what listings call a value.
        arena: gives out offsets.
        nbytes: of a value.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        root: Callable[[Value], Value],
        inputs: Sequence[Value],
        constants: Sequence[Value],
        outputs: Sequence[Value],
        donated: frozenset[Value],
        names: Callable[[Value], str],
        arena: Arena | None = None,
        nbytes: Callable[[Value], int] = lambda v: v.spec.nbytes,
    ) -> None:
        self._arena, self._nbytes = arena or Arena(), nbytes
        self.steps, self.root, self.names = steps, root, names
        self.inputs, self.constants, self.outputs = inputs, constants, outputs
        self.places: dict[Value, Place] = {}
        self.scratch: dict[int, Place] = {}
        self.results: list[Value] = []  # roots that get arrays of their own
        self.plan = MemoryPlan()
        self._start: dict[Value, int] = dict.fromkeys((*inputs, *constants), -1)
        self._end: dict[Value, int] = dict.fromkeys((*inputs, *constants), -1)
        self._handed: dict[Value, Value] = {}  # root -> the first output that it is
        self._next: dict[Value, Value] = {}
        self._joined: set[Value] = set()
        self._lifetimes()
        self._settled = self._last_doubt()
        self._owned = donated
        self.donated = [v for v in inputs if v in donated and v not in self._handed]
        self._chains()
        self._place_arguments()
        self._place_chains()
        self._report()

    def _lifetimes(self) -> None:
        root, start, end = self.root, self._start, self._end
        for t, step in enumerate(self.steps):
            for value in step.reads:
                end[root(value)] = t
            for value in step.writes:
                start[value] = end[value] = t
        for value in self.outputs:
            found = root(value)
            self._handed.setdefault(found, value)
            end[found] = _END

    def _last_doubt(self) -> int:
        """The last step that may fail: until then donated inputs keep what they hold.

        A check of indices that an earlier step has made does not fail.
        """
        last, passed = -1, set()
        for t, step in enumerate(self.steps):
            if step.status is None:
                continue
            if step.checks is not None:
                key = (self.root(step.checks[0]), step.checks[1])
                if key in passed:
                    continue
                passed.add(key)
            last = t
        return last

    def _chains(self) -> None:
        """Join a written value to one that is read for the last time in the same step."""
        fixed = set(self.constants) | set(self.inputs).difference(self.donated)
        head: dict[Value, Value] = {}  # of a value in a chain, the donated input it began with
        for value in self.donated:
            head[value] = value
        for t, step in enumerate(self.steps):
            if not step.inplace:
                continue
            reads = [self.root(v) for v in step.reads]
            pairs = sorted(step.inplace, key=lambda pair: reads[pair[1]] not in head)
            for write, read in pairs:
                old, new = reads[read], step.writes[write]
                if (
                    old in fixed
                    or old in self._next
                    or new in self._joined
                    or self._end[old] != t
                    or old.spec.nbytes != new.spec.nbytes
                ):
                    continue
                places = [i for i, v in enumerate(reads) if v is old]
                if any((write, i) not in step.inplace for i in places):
                    continue
                begun = head.get(old)
                if begun is not None and t <= self._settled:
                    continue
                if begun is not None:
                    handed = self._handed.get(new)
                    if handed is not None and handed.spec != begun.spec:
                        continue
                    head[new] = begun
                self._next[old] = new
                self._joined.add(new)

    def _chain(self, first: Value) -> list[Value]:
        chain = [first]
        while chain[-1] in self._next:
            chain.append(self._next[chain[-1]])
        return chain

    def _place_arguments(self) -> None:
        for i, value in enumerate(self.inputs):
            self.places[value] = Place("input", i)
        for i, value in enumerate(self.constants):
            self.places[value] = Place("constant", i)

    def _place_chains(self) -> None:
        free: dict[object, list[tuple[int, Value]]] = {}  # donated inputs that no chain ends in
        for value in self.donated:
            chain = self._chain(value)
            for member in chain[1:]:
                self.places[member] = self.places[value]
            if chain[-1] not in self._handed:
                free.setdefault(value.spec, []).append((self._end[chain[-1]], value))
        for spec in free:
            free[spec].sort(key=lambda pair: pair[0], reverse=True)

        arena = self._arena
        ending: list[list[tuple[int, int]]] = [[] for _ in range(len(self.steps))]
        for t, step in enumerate(self.steps):
            for value in step.writes:
                if value in self.places:
                    continue
                chain = self._chain(value)
                last = chain[-1]
                if last in self._handed:
                    place = self._place_result(last, free, t)
                else:
                    size = _rounded(self._nbytes(value))
                    place = Place("arena", 0, arena.take(size))
                    ending[self._end[last]].append((place.offset, size))
                for member in chain:
                    self.places[member] = place
            if step.scratch:
                size = _rounded(step.scratch)
                self.scratch[t] = Place("arena", 0, arena.take(size))
                ending[t].append((self.scratch[t].offset, size))
            for offset, size in ending[t]:
                arena.give(offset, size)
        self.plan.arena = arena.size

    def _place_result(
        self, last: Value, free: dict[object, list[tuple[int, Value]]], t: int
    ) -> Place:
        waiting = free.get(self._handed[last].spec, ()) if t > self._settled else ()
        for i, (end, value) in enumerate(waiting):
            if end < t:  # nothing needs that input any more
                del waiting[i]  # type: ignore[union-attr]
                return self.places[value]
        self.results.append(last)
        return Place("result", len(self.results) - 1)

    def _report(self) -> None:
        plan = self.plan
        plan.results = sum(v.spec.nbytes for v in self.results)
        plan.arguments = sum(v.spec.nbytes for v in (*self.inputs, *self.constants))
        written = (v for step in self.steps for v in step.writes)
        for value in (*self.inputs, *self.constants, *written):
            plan.lives.append(
                Life(
                    self.names(value),
                    value.spec.nbytes,
                    self._start[value],
                    self._end[value],
                    self.places[value],
                )
            )
        places = {v: i for i, v in enumerate(self.inputs) if v in self._owned}
        for i, value in enumerate(self.outputs):
            found = self.root(value)
            place = self.places[found]
            if place.kind != "input" or place.index in plan.reuse.values():
                continue
            if found in places or self._start[found] >= 0:
                plan.reuse[i] = place.index


def _rounded(count: int) -> int:
    return max(-(-count // ALIGN) * ALIGN, ALIGN)
