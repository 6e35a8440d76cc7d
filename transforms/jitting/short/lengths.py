"""Lengths: one short way for all sizes of arguments, and all lengths of the slices by a number.

``cache[:, :pos]`` has a shape that depends on ``pos``, and an argument one of its own; so has what
is computed of them. A function is staged for the first that come; each is a program. From the third
on, if they are one but for those numbers, the short way of the newest serves all: native code for
any size is told the numbers of a call.

Nothing is left to chance by that. Whoever is told a shape is noted (``recording/sizes.py``), and
three programs that were told different ones are three programs. What the code is at other lengths
is found as for arguments of other sizes (``fx/graph/family.py``): every number in three graphs, and
every constant, is a product of the lengths, and each operation, given others, gives the shapes that
those say. That is asked of the graphs as they were staged too, since passes leave out what would
fail, or be of another form, at other sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fx import limits
from fx.graph.family import Family, Numbered
from fx.graph.fitting import Fitting
from fx.graph.ir import Graph, Value, constant_value
from fx.graph.key import constants_of
from fx.graph.size_formulas import Formula, formula_of
from fx.staged_number import Length
from fx.tensor import new_tensor
from fx.transforms.jitting.guards.code import same, same_array
from fx.transforms.jitting.program import (
    Anew,
    Argument,
    Leaf,
    Program,
    lengths_of,
)
from fx.transforms.jitting.recording.sizes import is_of_sizes

_SEEN = 2  # other programs that are the same


class Kin:
    """A program and those that are one with it but for sizes, or for lengths of slices.

    Attributes:
        members: the program is the last.
        asked: what is assumed of lengths, and is not.
        places: of the arguments that are tensors of which the sizes vary.
    """

    def __init__(self, members: list[Program], places: list[int]) -> None:
        self.members, self.places = members, places
        self.asked = lengths_of(members[-1])


def kin_of(jitted: Any, program: Program, signature: Any, whole: Graph) -> Kin | None:
    """The programs with which one serves all lengths or sizes; None where there are too few."""
    slices = [p for p in lengths_of(program) if not is_of_sizes(program, p.host)]
    if slices:
        whole.cache["lengths"] = [(p.answer, p.ask.size) for p in slices]
        whole.cache["open"] = True
    whole.cache["whole"] = True
    if slices:
        known = jitted.programs.get(program.key, ())
    elif program.axes:
        known = [p for of in list(jitted.programs.values()) for p in of if p.kind == program.kind]
    else:
        return None
    others = [p for p in known if p is not program and p.root is not None]
    others = [p for p in others if p.shapes == program.shapes]
    if len(others) < _SEEN:
        return None
    told = _told(program)
    others = [p for p in others if _told(p) == told and _are_one(p, program)]
    where = jitted.function, signature.objects  # a number of Python's that differs is no size
    others = [p for p in others if p.guards is not None and p.guards.hold(*where)]
    by_axes: dict[Any, dict[Any, Program]] = {}
    for p in others:
        lengths = tuple([q.answer for q in lengths_of(p)])
        by_axes.setdefault(_differing(p, program), {})[lengths, _shapes(p)] = p
    by_axes = {a: of for a, of in by_axes.items() if bool(a) is not bool(slices)}
    axes = max(by_axes, key=lambda a: len(by_axes[a]), default=())
    alike = list(by_axes.get(axes, {}).values())
    own = tuple([q.answer for q in lengths_of(program)]), _shapes(program)
    alike = [p for p in alike if (tuple([q.answer for q in lengths_of(p)]), _shapes(p)) != own]
    if len(alike) < _SEEN:
        return None
    whole.cache["open"] = True
    return Kin([*alike, program], sorted({place for place, _ in axes}))


def _shapes(program: Program) -> tuple[tuple[int, ...], ...]:
    """The shapes of the arguments that are tensors and are used."""
    found = {s.number: v.spec.shape for v, s in program.sources.items() if type(s) is Argument}
    return tuple([found[i] for i in sorted(found)])


def _differing(one: Program, other: Program) -> tuple[tuple[int, int], ...]:
    """The axes of arguments, with the places of those, of which two programs have other sizes."""
    mine = {s.number: v.spec.shape for v, s in one.sources.items() if type(s) is Argument}
    found = []
    for v, s in other.sources.items():
        if type(s) is Argument:
            pairs = enumerate(zip(mine[s.number], v.spec.shape, strict=True))
            found += [(s.number, axis) for axis, (n, m) in pairs if n != m]
    return tuple(sorted(found))


def serves_all(kin: Kin | None, executable: Any) -> OfLengths | None:
    """What the short way of a program leaves open; None where it is for its own lengths."""
    if kin is None or getattr(executable, "others", None) is None:
        return None
    if not all(executable.others.explain(_whole(p)) for p in kin.members):
        return None
    staged = Staged.of(kin)
    if staged is None:
        return None
    members = {}
    for p in kin.members:
        sizes = staged.sizes_of(p)
        if sizes is None:
            return None
        members[sizes] = p
    constants = None if len(members) <= _SEEN else Constants.of(members)
    found = None if constants is None else OfLengths(executable, kin, staged, constants)
    return found if found is not None and found.other(found.own) is not None else None


class Staged:
    """Programs as they were staged, as one family: their sizes, and what depends on those."""

    def __init__(self, family: Family, program: Program, graph: Graph, numbers: list[int]) -> None:
        self._family, self._numbers = family, numbers
        sources = program.sources.values()
        self._inputs = {s.number: i for i, s in enumerate(sources) if type(s) is Argument}
        self._own = {name: numbers[place] for name, place in family.names.items()}
        self._fitting = Fitting(family, graph)

    @staticmethod
    def of(kin: Kin) -> Staged | None:
        """None where something varies that no formula explains, or more than one size does."""
        written = [_staged(p) for p in kin.members]
        forms = {tuple(w.lines) for w, _ in written}
        if len(forms) > 1 or not all(w.stable for w, _ in written):
            return None
        family = Family(written[0][0], written[1][0])
        for w, _ in written[2:]:
            if family.sizes_of(w.numbers) is None:
                family = family.widened(w.numbers)
        if any(family.sizes_of(w.numbers) is None for w, _ in written):
            return None
        if kin.places and len(family.names) > 1:
            return None  # three programs do not tell how a number depends on two
        last, graph = written[-1]
        return Staged(family, kin.members[-1], graph, last.numbers)

    def sizes_of(self, program: Program) -> tuple[int, ...] | None:
        """The sizes that vary, of a member; None where one is too small to be as others are."""
        sizes = self._family.sizes_of(_staged(program)[0].numbers)
        return self._checked(sizes)

    def sizes_at(
        self, lengths: Sequence[int], shapes: dict[int, tuple[int, ...]]
    ) -> tuple[int, ...] | None:
        """Those of other lengths, and other shapes of arguments; None where they are not one."""
        inputs = {self._inputs[place]: shape for place, shape in shapes.items()}
        sizes = self._family.lengthened(self._numbers, lengths, inputs)
        found = self._checked(sizes)
        if sizes is None or found is None:
            return None
        return found if self._fitting.holds(sizes, self._own) else None

    def _checked(self, sizes: Any) -> tuple[int, ...] | None:
        if not sizes or min(sizes.values()) < 2:
            return None
        return tuple(sizes.values())


def _alike_in_kind(n: int, m: int) -> bool:
    """Whether a size is the same, or as other sizes are: what is one or none goes another way."""
    return n == m or m > 1


class _AsStaged(Numbered):
    """Writes a graph of which no pass has seen what holds one number everywhere."""

    def constant(self, value: Value) -> str:
        """The number and how many axes, where one number is repeated."""
        array = value.array
        if array.ndim and array.size and array.tobytes() == array.flat[0].tobytes() * array.size:
            value = constant_value(new_tensor(np.broadcast_to(array.flat[0], array.shape)))
        return super().constant(value)


def _staged(program: Program) -> tuple[Numbered, Graph]:
    """A program as it was staged, with every length that it was asked for, and its numbers."""
    segment: Any = program.root
    found = segment.graph.cache.get("staged")
    if found is None:
        finish = segment.finish
        values = [leaf.value for leaf in finish.leaves if leaf.value is not None]
        values += [v for _, v in finish.rebinds] + [v for _, v in finish.grads if v is not None]
        graph = Graph(list(program.sources), segment.nodes, values, program.name)
        graph.cache["lengths"] = [(p.answer, p.ask.size) for p in lengths_of(program)]
        found = segment.graph.cache["staged"] = _AsStaged(graph), graph
    return found  # type: ignore[no-any-return]


def _whole(program: Program) -> Any:
    """The graph of the short way of a program; None where there is none."""
    return next((g for g in reversed(program.graphs) if g.cache.get("whole")), None)


def _form(graph: Graph) -> Any:
    """What a graph is without its numbers: which values and which constants are where."""
    found = graph.cache.get("form")
    if found is None:
        found = graph.cache["form"] = hash(tuple(Numbered(graph).lines))
    return found


def _told(program: Program) -> Any:
    """What programs of other lengths have in common, as far as it can be compared at once."""
    finish, effects = program.root.finish, program.root.effects  # type: ignore[union-attr]
    if finish is None or finish.aliases or effects or program.table.draws or program.table.items:
        return object()
    whole = _whole(program)
    if program.lies or whole is None:
        return object()
    varies = {place for place, _ in program.axes}
    numbers = [
        (owner if type(owner) is str else id(getattr(owner, "cell", owner)), key, kind)
        for owner, key, kind in program.numbers
    ]
    return (
        _form(whole),  # `/ 4` is another than `/ 5`
        [(p.host.place, type(p.ask)) for p in program.predicates],
        program.shapes,
        list(program.table.known),
        numbers,
        [_input(program, v, s, varies) for v, s in program.sources.items()],
        [had for _, had in program.gathered],
        finish.treedef,
        [(id(cell()), value.spec) for cell, value in finish.rebinds],
        [value.spec for _, value in finish.grads if value is not None],
        [(id(held), key) for held, key, _ in finish.numbers],
        [(len(store.values), store.part) for store in finish.stores],
        len(finish.leaves),
    )  # fmt: skip


def _input(program: Program, value: Any, source: Any, varies: set[int]) -> Any:
    """An input without sizes that vary."""
    place = source.number if type(source) is Argument else None
    spec = (len(value.spec.shape), value.spec.dtype) if place in varies else value.spec
    return type(source), place, spec, program.layouts.get(value, ...)


def _are_one(one: Program, other: Program) -> bool:
    """Whether the rest of two programs that were told the same is equal: answers, and results."""
    for p, q in zip(one.predicates, other.predicates, strict=True):
        if type(p.ask) is not Length and not (p.ask == q.ask and same(p.answer, q.answer)):
            return False
    pairs = zip(_leaves(one), _leaves(other), strict=True)
    return all(_leaf(x) == _leaf(y) and _alike(x.held, y.held) for x, y in pairs)


def _leaves(program: Program) -> list[Leaf]:
    finish: Any = program.root.finish  # type: ignore[union-attr]
    return [*finish.leaves, *[leaf for _, _, leaf in finish.numbers]]


def _leaf(leaf: Leaf) -> Any:
    place = None if leaf.number is None else leaf.number.place
    return leaf.value is None, leaf.differentiable, leaf.freed, place


def _alike(x: Any, y: Any) -> bool:
    """Whether a Python object among the results is the same whatever the lengths are."""
    return x is y or (type(x) is not Anew and type(x) is type(y) and same(x, y))


class Constants:
    """The constants of graphs that are one but for lengths.

    Args:
        arrays: of the newest graph.
        varied: the formulas of those that count elements, by their places.
    """

    def __init__(self, arrays: list[Any], varied: dict[int, Formula]) -> None:
        self._arrays, self._varied = arrays, varied

    @staticmethod
    def of(members: dict[tuple[int, ...], Program]) -> Constants | None:
        """Those of programs, by their lengths; None if one differs that is no product of these."""
        found = [[v.array for v in constants_of(_whole(p))] for p in members.values()]
        sizes = {str(i): column for i, column in enumerate(zip(*members))}
        varied = {}
        for place, column in enumerate(zip(*found, strict=True)):
            last = column[-1]
            if all(same_array(x, last) for x in column):
                continue
            values = [x.item() for x in column if not x.shape and x.dtype.kind in "fiu"]
            if len(values) < len(column) or not all(x == x // 1 for x in values):
                return None
            formula = formula_of([*map(int, values)], sizes)
            if formula is None:
                return None
            varied[place] = formula
        return Constants(found[-1], varied)

    def at(self, lengths: Sequence[int]) -> list[Any] | None:
        """What they are at some lengths; None where a dtype does not hold that exactly, or where
        less than nothing is counted."""
        sizes = {str(i): n for i, n in enumerate(lengths)}
        arrays = list(self._arrays)
        for place, formula in self._varied.items():
            n, before = formula(sizes), arrays[place].item()
            arrays[place] = np.array(n, arrays[place].dtype)
            if arrays[place].item() != n or (n > 0) is not (before > 0):  # there are no fewer
                return None
        return arrays


class OfLengths:
    """What a short way leaves open: lengths, and what the code and its constants are at each.

    What it is asked by is a key: the lengths, and the shapes of the arguments whose sizes vary.

    Attributes:
        asked: what is assumed of the lengths, and is not.
        places: of the arguments whose shapes follow the lengths in a key.
        own: the key of the program.
    """

    def __init__(self, executable: Any, kin: Kin, staged: Staged, constants: Constants) -> None:
        self._others, self._staged, self._constants = executable.others.at, staged, constants
        program = kin.members[-1]
        self._inputs = {
            source.number: i
            for i, v in enumerate(_whole(program).inputs)
            if type(source := program.sources.get(v)) is Argument
        }
        self._cut = [not is_of_sizes(program, p.host) for p in kin.asked]
        shapes = {s.number: v.spec.shape for v, s in program.sources.items() if type(s) is Argument}
        self.asked, self.places = kin.asked, kin.places
        self.own = (*[p.answer for p in kin.asked], *[shapes[place] for place in kin.places])

    def other(self, key: tuple[Any, ...]) -> Any:
        """What runs at a key; None where that has to be staged."""
        count = len(self.asked)
        lengths, shapes = key[:count], dict(zip(self.places, key[count:], strict=True))
        sizes = self._staged.sizes_at(lengths, shapes)
        constants = None if sizes is None else self._constants.at(sizes)
        if constants is None or not all(map(_alike_in_kind, self.own, lengths)):
            return None
        cut = [n for n, is_cut in zip(lengths, self._cut, strict=True) if is_cut]
        inputs = {self._inputs[at]: shape for at, shape in shapes.items() if at in self._inputs}
        return self._others(cut, inputs, constants)


class ByLength:
    """What is called at some lengths, by these.

    Args:
        lengths: what is left open.
        made: makes of an executable what is called.
    """

    def __init__(self, lengths: OfLengths, made: Callable[..., Any]) -> None:
        self._lengths, self._made = lengths, made
        self.known: dict[tuple[int, ...], Any] = {}

    def more(self, lengths: tuple[int, ...]) -> Any:
        """What is called at lengths that are met for the first time; None: they are staged."""
        executable = self._lengths.other(lengths)
        if executable is None:
            return None
        while len(self.known) >= limits.LENGTHS:
            self.known.pop(next(iter(self.known)), None)
        found = self.known[lengths] = self._made(executable)
        return found
