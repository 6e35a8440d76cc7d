"""Families of graphs, and the programs for any size that serve them.

The first graph of a form is compiled for its sizes, and runs as fast as that can be. The second
shows which sizes vary; from then on one program serves all sizes of a class: about as large, so
that it is planned for what it is used for. The class of a size depends on that size alone.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from weakref import ref

from fx import limits
from fx.backends.cpu.llvm import disk_cache, stored
from fx.graph.family import Family, Numbered
from fx.graph.fitting import Fitting
from fx.graph.ir import Graph
from fx.graph.key import constants_of, graph_key
from fx.graph.size_formulas import bases_of, primes_for

if TYPE_CHECKING:
    from fx.backends.cpu.llvm.executable import Executable
    from fx.backends.cpu.llvm.sized import SizedProgram

_MOST = 64  # forms that are remembered
_KINDS = 8  # families of one form, and graphs that have none
_TRIES = 4  # pairs of primes that a plan is made for


class Families:
    """The forms of the graphs that were compiled last."""

    def __init__(self) -> None:
        self._known: OrderedDict[Any, _Form] = OrderedDict()
        self._found: deque[tuple[ref[Graph], Sequence[int]]] = deque(maxlen=_MOST)

    def clear(self) -> None:
        """Forget all of them."""
        self._known.clear()
        self._found.clear()

    def found(self, graph: Graph, donated: Sequence[int]) -> None:
        """A graph whose code was on disk: it is the first of its form, as if it were compiled now.

        Its form is written only when a graph comes that has to be compiled: a process that finds
        all of its code writes none.
        """
        self._found.append((ref(graph), donated))

    def executable_of(self, graph: Graph, donated: Sequence[int]) -> Executable | None:
        """What runs a graph by a program for any size; None where it is to be compiled for its own.

        Args:
            graph: not known yet; it is remembered.
            donated: positions of inputs whose memory the results may take over.
        """
        found, self._found = self._found, deque(maxlen=_MOST)
        for earlier, its in found:
            if (before := earlier()) is not None:
                self._form_of(Numbered(before), its)
        written = Numbered(graph)
        known = self._form_of(written, donated)
        return None if known is None else known.executable_of(graph, written, donated)

    def _form_of(self, written: Numbered, donated: Sequence[int]) -> _Form | None:
        """The form of a graph, if another of it came before; it is the latest from now on."""
        if not written.stable:
            return None
        form = sha256("\n".join(written.lines).encode()).digest()
        key = form, tuple(donated), limits.key()
        known = self._known.pop(key, None)
        self._known[key] = known or _Form(written)
        if len(self._known) > _MOST:
            self._known.popitem(last=False)
        return known


class _Form:
    """Graphs of one form: families, and those that no other has joined yet.

    Two functions may have one form, as sums along two axes have: what products of sizes do not
    explain is of another family.
    """

    def __init__(self, first: Numbered) -> None:
        self._single = [first]
        self._families: list[Family] = []
        self._programs: dict[Any, SizedProgram | None] = {}

    def executable_of(
        self, graph: Graph, written: Numbered, donated: Sequence[int]
    ) -> Executable | None:
        family = self._family_of(graph, written)
        sizes = None if family is None else family.sizes_of(written.numbers)
        if family is None or sizes is None:
            return None
        found = self.at(family, graph, sizes, donated, [v.array for v in constants_of(graph)])
        if found is not None:
            found.others = Others(self, family, graph, written.numbers, donated)
        return found

    def at(
        self, family: Family, graph: Graph, sizes: dict[str, int], donated: Sequence[int],
        constants: Sequence[Any],
    ) -> Executable | None:  # fmt: skip
        """What runs a graph of a family at some sizes; None if there can be none."""
        from fx.compiler.extents import size_class  # a process that finds its code needs none of it

        if min(sizes.values()) < 2:
            return None
        classes = tuple([size_class(n) for n in sizes.values()])
        kind = family, classes
        if kind not in self._programs:
            self._programs[kind] = _program(family, graph, dict(zip(sizes, classes)), donated)
        program = self._programs[kind]
        return None if program is None else program.at(sizes, constants, family.axes)

    def _family_of(self, graph: Graph, written: Numbered) -> Family | None:
        """The family that explains all numbers of a graph, if need be a new or a wider one."""
        numbers = written.numbers
        for family in self._families:
            if family.sizes_of(numbers) is not None:
                return family
        for i, family in enumerate(self._families):
            wider = family.widened(numbers)
            if _explains(wider, graph, numbers):
                self._families[i] = wider
                return self._met(wider)
        for first in self._single:
            family = Family(first, written)
            if _explains(family, graph, numbers):
                self._single.remove(first)
                self._families = [*self._families[1 - _KINDS :], family]
                return self._met(family)
        for whole in self._families:
            for family in whole.split(numbers):
                if _explains(family, graph, numbers):
                    self._families = [*self._families[1 - _KINDS :], family]
                    return self._met(family)
        self._single = [*self._single[1 - _KINDS :], written]
        return None

    def _met(self, family: Family) -> Family:
        """A family that is new; programs of those that are no more are forgotten."""
        self._programs = {k: p for k, p in self._programs.items() if k[0] in self._families}
        return family


def _explains(family: Family, graph: Graph, numbers: list[int]) -> bool:
    """Whether a family explains a graph, and what it says of other sizes is possible there.

    Of ``x[::2]`` 20 and 21 make ``a - 10``, and 21 and 22 a number that is always 11.
    """
    sizes = family.sizes_of(numbers)
    if sizes is None:
        return False
    ends = {name: family.most(name) or size + 7 for name, size in sizes.items()}
    for step in (7, 1):
        others = {
            n: k + step if k + step <= ends[n] else max(k - step, 1) for n, k in sizes.items()
        }
        try:
            family.at(graph, others)
        except ValueError:
            continue
        return True
    return False


class Others:
    """What runs the graph that a function is at other lengths of slices and other sizes."""

    def __init__(
        self, form: _Form, family: Family, graph: Graph, numbers: list[int], donated: Sequence[int]
    ) -> None:
        self._form, self._family, self._graph = form, family, graph
        self._numbers, self._donated = numbers, donated
        self._fitting: Fitting | None = None

    def explain(self, graph: Graph) -> bool:
        """Whether the formulas of this one's numbers give those of another graph of its form.

        They may be of another function's graphs, and be right of this one's by chance.
        """
        return self._family.sizes_of(Numbered(graph).numbers) is not None

    def at(
        self, lengths: Sequence[int], shapes: Mapping[int, tuple[int, ...]],
        constants: Sequence[Any],
    ) -> Executable | None:  # fmt: skip
        """The executable at some lengths, and shapes of inputs by their places; or None."""
        sizes = self._family.lengthened(self._numbers, lengths, shapes)
        if sizes is None:
            return None
        if self._fitting is None:
            self._fitting = Fitting(self._family, self._graph)
        own = self._family.named(self._numbers)
        if not self._fitting.holds(sizes, own):  # no graph is at hand that says it
            return None
        return self._form.at(self._family, self._graph, sizes, self._donated, constants)


def _middle(size_class: int, most: int | None) -> int:
    """The size that a class is planned for, with room for primes above it where it has an end."""
    middle = 1 << 2 * size_class - 1
    return middle if most is None else min(middle, max(most // 2, 2))


def _program(
    family: Family, graph: Graph, classes: dict[str, int], donated: Sequence[int]
) -> SizedProgram | None:
    """The program of a class, planned for the middle of it: whichever size was met first."""
    from fx.backends.cpu.llvm.sized import UnlikeError, program_for, sizes_for, stored_program

    flipped = any(node.primitive.name == "flip" for node in graph.nodes)
    # where the last is the first
    bases = bases_of(list(classes) if flipped else (), family.bases, family.parts)
    lengths = {name: family.most(name) for name in classes}
    middles = {name: _middle(k, lengths[name]) for name, k in classes.items()}
    ends = {name: 1 << 2 * k for name, k in classes.items()}
    primes = primes_for(middles, family.plain(), bases, lengths)
    try:
        given, graphs = [], []
        for _ in range(2):
            given.append(next(primes))
            graphs.append(family.at(graph, given[-1]))
        # two families may differ in which of their sizes a graph depends on
        told = [f"{graph_key(g)} {sorted(sizes.items())}" for g, sizes in zip(graphs, given)]
        name = stored.name_of(donated, *told)
        known = graphs[0].cache["constants"]  # some of which are inputs there
        inputs = sum(v not in known for v in graphs[0].inputs)
        found = None if name is None else stored_program(name, inputs)
        if found is not None:
            return found
        with disk_cache.making(name) as made:
            if name is not None and made and (found := stored_program(name, inputs)) is not None:
                return found
            for _ in range(_TRIES):
                sizes = [sizes_for(some, bases, ends) for some in given[-2:]]
                try:
                    return program_for(*graphs[-2:], *sizes, donated, name)
                except UnlikeError:  # a choice of the plan lies between the two
                    given.append(next(primes))
                    graphs.append(family.at(graph, given[-1]))
    except ValueError:  # an operation does not take such sizes, or there are no more primes
        pass
    return None
