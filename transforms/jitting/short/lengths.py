"""Lengths: one short way for all lengths of the slices that a function takes by a number.

``cache[:, :pos]`` has a shape that depends on ``pos``, and so has what is computed of it. A
function is staged for the first lengths that come; each is a program. From the third on, if they
are one but for those lengths, the short way of the newest serves all: native code for any size is
told the lengths of a call.

Nothing is left to chance by that. A length is asked for by slices alone, and goes into shapes
(``fx/ops/indexing/positions.py``); whoever is told such a shape outside of fx is noted, and three
programs that were told different ones are three programs. What the code is at other lengths is
found as for arguments of other sizes (``fx/graph/family.py``): every number in three graphs, and
every constant, is a product of the lengths, and each operation, given others, gives the shapes that
those say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fx import limits
from fx.graph.family import Numbered
from fx.graph.ir import Graph
from fx.graph.key import constants_of
from fx.graph.size_formulas import Formula, formula_of
from fx.staged_number import Length
from fx.transforms.jitting.guards.code import same, same_array
from fx.transforms.jitting.program import Anew, Leaf, Predicate, Program, lengths_of

_SEEN = 2  # other programs that are the same


def tell(graph: Graph, program: Program) -> None:
    """Let the compiler know which lengths a graph depends on."""
    graph.cache["lengths"] = [(p.answer, p.ask.size) for p in lengths_of(program)]  # type: ignore[attr-defined]


def serves_all(jitted: Any, program: Program, executable: Any) -> OfLengths | None:
    """What the short way of a program leaves open; None where it is for its own lengths."""
    lengths = lengths_of(program)
    if not lengths or getattr(executable, "others", None) is None:
        return None
    others = [p for p in jitted.programs.get(program.key, ()) if p is not program]
    told = _told(program)
    alike = [p for p in others if p.root is not None and _told(p) == told]
    members = {tuple([p.answer for p in lengths_of(found)]): found for found in (*alike, program)}
    if len(members) <= _SEEN or not all(_are_one(p, program) for p in alike):
        return None
    constants = Constants.of(members)
    found = None if constants is None else OfLengths(executable, lengths, constants)
    return found if found is not None and found.other(found.own) is not None else None


def _whole(program: Program) -> Any:
    """The graph of the short way of a program; None where there is none."""
    return next((g for g in program.graphs if g.cache.get("lengths")), None)


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
        [(type(s), v.spec, program.layouts.get(v, ...)) for v, s in program.sources.items()],
        [had for _, had in program.gathered],
        finish.treedef,
        [(id(cell()), value.spec) for cell, value in finish.rebinds],
        [value.spec for _, value in finish.grads if value is not None],
        [(id(held), key) for held, key, _ in finish.numbers],
        [(len(store.values), store.part) for store in finish.stores],
        len(finish.leaves),
    )  # fmt: skip


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
        """What they are at some lengths; None where a dtype does not hold that exactly."""
        sizes = {str(i): n for i, n in enumerate(lengths)}
        arrays = list(self._arrays)
        for place, formula in self._varied.items():
            n = formula(sizes)
            arrays[place] = np.array(n, arrays[place].dtype)
            if arrays[place].item() != n:
                return None
        return arrays


class OfLengths:
    """What a short way leaves open: lengths, and what the code and its constants are at each.

    Attributes:
        asked: what is assumed of the lengths, and is not.
        own: the lengths of the program.
    """

    def __init__(self, executable: Any, asked: list[Predicate], constants: Constants) -> None:
        self._others, self._constants = executable.others, constants
        self.asked, self.own = asked, tuple([p.answer for p in asked])

    def other(self, lengths: tuple[int, ...]) -> Any:
        """What runs at some lengths; None where that has to be staged."""
        constants = self._constants.at(lengths)
        return None if constants is None else self._others(lengths, constants)


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
