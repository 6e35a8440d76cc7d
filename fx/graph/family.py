"""Families: graphs that are one but for their sizes.

Two graphs are of a family when they differ in nothing but numbers: in specs, in parameters, in
constants of one element. What varies is lined up: an axis of an input whose size differs gets a
name, and every other number that differs has to be a formula of such sizes, as ``64 * a`` or
``a - 1`` (``size_formulas``). So do lengths of slices that the graph is told to depend on
(``cache["lengths"]``). Constants that differ (``1 / n``) are what they are in each graph, and
those that code is made for (``literals`` of a primitive) are part of the form. A further graph
belongs to it when all its numbers are what the formulas say: nothing is taken on trust, since the
graph is at hand.

Where sizes explain too little, as of ``(n + 1) // 2``, a name is that of a *part* of an axis: the
graphs where ``n`` is ``2 * a`` are one family, and those where it is ``2 * a + 1`` another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fx.errors import FxError
from fx.graph.ir import Graph, Node, Value, constant_value, input_value
from fx.graph.key import Writer, is_uniform
from fx.graph.size_formulas import Base, Formula, Formulas
from fx.spec import TensorSpec
from fx.tensor import new_tensor

MOST_NAMES = 3
_NAMES = "abcdefgh"
_PARTS = (2, 4, 8, 16, 32, 3)  # of an axis: what windows and slices in steps divide it by


class Numbered(Writer):
    """Writes the lines of a graph without its numbers, which it collects in order.

    Attributes:
        numbers: of specs, parameters and constants.
        axes: of each axis of an input the place among them.
        scalars: places of constants, as the number that their bytes are.
        lengths: places of lengths of slices, and the sizes of the axes that they are cut of.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.numbers: list[int] = []
        self.axes: dict[tuple[int, int], int] = {}
        self.scalars: set[int] = set()
        self.lengths: dict[int, int] = {}
        self._inputs = iter(range(len(graph.inputs)))
        self._scalars = varying_scalars(graph)
        self.graph(graph)
        for n, size in graph.cache.get("lengths", ()):
            self.lengths[len(self.numbers)] = size
            self.numbers.append(n)
            self.lines.append("length")

    def input(self, spec: TensorSpec) -> str:
        """An input, whose axes may get names."""
        i, first = next(self._inputs), len(self.numbers)
        self.axes.update({(i, axis): first + axis for axis in range(spec.ndim)})
        return self.spec(spec)

    def spec(self, spec: TensorSpec) -> str:
        """The dtype and the number of axes."""
        self.numbers += spec.shape
        return f"{spec.dtype.name}[{spec.ndim}]"

    def integer(self, n: int) -> str:
        """A place for a number."""
        self.numbers.append(n)
        return "#"

    def constant(self, value: Value) -> str:
        """What code may depend on; only of one number, or one repeated, the size may differ."""
        if value in self._scalars:
            self.scalars.add(len(self.numbers))
            return self.integer(int.from_bytes(value.array.tobytes(), "little", signed=True))
        return f"{super().constant(value)} {'' if is_uniform(value.array) else value.spec.shape}"

    def data(self, data: Any) -> str:
        """Plain data; numbers have places where ``_Resized`` looks for them."""
        if type(data) in _HOLDS_NUMBERS:
            return super().data(data)
        other = Writer()
        told = other.data(data)
        self.stable = self.stable and other.stable
        return told


_HOLDS_NUMBERS = (int, tuple, list, slice, TensorSpec)


def varying_scalars(graph: Graph) -> set[Value]:
    """The constants of a graph that are numbers which may be others in a graph of its family."""
    found = {v for v in graph.constants() if not v.spec.shape and v.array.dtype.kind in "fiu"}
    fixed = [node.inputs[i] for node in graph.nodes for i in node.primitive.literals]
    return found - set(map(_spread, fixed))


def _spread(value: Value) -> Value:
    """What a value is a view of."""
    while value.node is not None and value.node.primitive.kind in ("view", "strided"):
        value = value.node.inputs[0]
    return value


class Family:
    """Graphs of one form.

    Args:
        first, second: two members.

    Attributes:
        names: of the sizes that vary, with a place where each is found; none where something
            varies that no formula of sizes explains.
        parts: of names that stand for parts of what is found there: ``(m, r)`` for ``m * a + r``.
        formulas: what the number in each place is that varies.
        free: places of constants that vary.
        axes: the axes of inputs that are one of the sizes.
        bases: what is made of sizes and stands in formulas.
    """

    names: dict[str, int]
    parts: dict[str, tuple[int, int]]

    def __init__(self, first: Numbered, second: Numbered) -> None:
        self.members = [first.numbers, second.numbers]
        self._places_of, self._scalars = first.axes, first.scalars
        self._lengths = first.lengths if first.lengths.keys() == second.lengths.keys() else {}
        self._idle: set[int] = set()
        self._line_up()

    def _line_up(self) -> None:
        self._name_sizes()
        graph = [f for place, f in self.formulas.items() if place not in self._lengths]
        used = {name for formula in graph for name in formula.used()}
        idle = {p for n, p in self.names.items() if p in self._lengths and n not in used}
        if idle:  # lengths on which nothing depends
            self._idle = self._idle | idle
            self._name_sizes()
        self._plain = np.array(self.members[0], np.int64)
        self._places = np.array(list(self.formulas), np.intp)
        self._same = np.ones(len(self._plain), bool)
        self._same[[*self._places, *self.free, *self._idle]] = False

    def _name_sizes(self) -> None:
        if self._explained({}):
            return
        named = [p for p in self.names.values() if p not in self._lengths]
        for m in _PARTS:
            for some in [*[[p] for p in named], *([named] if len(named) > 1 else ())]:
                rests = {p: {n[p] % m for n in self.members} for p in some}
                if all(len(r) == 1 for r in rests.values()) and self._explained(
                    {p: (m, r.pop()) for p, r in rests.items()}
                ):
                    return
        self.names = {}

    def _explained(self, parts: Mapping[int, tuple[int, int]]) -> bool:
        """Whether formulas of sizes, or of parts of those in some places, explain what varies."""
        self.names = {}
        self.parts = {}
        self.formulas: dict[int, Formula] = {}
        self.axes: dict[tuple[int, int], str] = {}
        self.free: set[int] = set()
        self.bases: list[Base] = []
        columns = list(zip(*self.members))
        varying = {i: c for i, c in enumerate(columns) if len({*c}) > 1 and i not in self._idle}
        known, columns_named = Formulas({}), set()
        for place in sorted(
            [i for i in (*self._places_of.values(), *self._lengths) if i in varying],
            key=lambda i: (i not in parts, varying[i]),
        ):
            if known.of(varying[place]) is None and varying[place] not in columns_named:
                name = _NAMES[len(self.names)]
                self.names[name] = place
                if place in parts:
                    self.parts[name] = parts[place]
                if len(self.names) > MOST_NAMES:
                    self.names = {}
                    return False
                columns_named.add(varying[place])
                told = [self.named(numbers) for numbers in self.members]
                known = Formulas({n: tuple([t[n] for t in told]) for n in self.names})
        known.look_for_bases([c for i, c in varying.items() if i not in self._scalars])
        for place, column in varying.items():
            if place in self._scalars:
                self.free.add(place)
                continue
            formula = known.of(column)
            if formula is None:
                return False
            self.formulas[place] = formula
        self.bases = list(dict.fromkeys([b for f in self.formulas.values() for b in f.bases]))
        for axis, place in self._places_of.items():
            formula = self.formulas.get(place)
            alone = formula is not None and formula.factor == 1 and not formula.bases
            if alone and len(formula.names) == 1:  # type: ignore[union-attr]
                self.axes[axis] = formula.names[0]  # type: ignore[union-attr]
            for name, (m, r) in self.parts.items():
                if place in varying and varying[place] == varying[self.names[name]]:
                    self.axes[axis] = f"{m}*{name} + {r}" if r else f"{m}*{name}"
        return True

    def named(self, numbers: Sequence[int]) -> dict[str, int]:
        """The named sizes of a graph, if it is of the family."""
        found = {n: numbers[place] for n, place in self.names.items()}
        for name, (m, _) in self.parts.items():
            found[name] //= m
        return found

    def plain(self) -> list[int]:
        """The numbers that do not vary, and the factors and constants of those that do."""
        rest = [
            n for i, n in enumerate(self.members[0]) if self._same[i] and i not in self._scalars
        ]
        rest += [n for _, factor, constant in self.bases for n in (factor, constant)]
        return [*rest, *[f.factor for f in self.formulas.values()]]

    def widened(self, numbers: list[int]) -> Family:
        """The family with one more member, which the formulas do not explain: others may."""
        return self._of([*self.members, numbers])

    def split(self, numbers: list[int]) -> list[Family]:
        """Families of one of its members and a graph that no family of all explains.

        Those come first that stand for parts of axes: of the others some explained too much.
        """
        found = [self._of([member, numbers]) for member in self.members]
        return sorted(found, key=lambda f: max([m for m, _ in f.parts.values()], default=99))

    def _of(self, members: list[list[int]]) -> Family:
        found = object.__new__(Family)
        found.members = members
        found._places_of, found._scalars = self._places_of, self._scalars
        found._lengths, found._idle = self._lengths, set()
        found._line_up()
        return found

    def sizes_of(self, numbers: list[int]) -> dict[str, int] | None:
        """The named sizes of a graph of this form; None if another of its numbers differs."""
        if not self.names:
            return None
        sizes = self.named(numbers)
        found = np.array(numbers, np.int64)
        if (found[self._same] != self._plain[self._same]).any():
            return None
        told = [f(sizes) for f in self.formulas.values()]
        return sizes if (found[self._places] == told).all() else None

    def most(self, name: str) -> int | None:
        """How large a size can be, where it is the length of a slice."""
        return self._lengths.get(self.names[name])

    def lengthened(
        self, numbers: list[int], lengths: Sequence[int], shapes: Mapping[int, tuple[int, ...]]
    ) -> dict[str, int] | None:
        """The named sizes of a graph at other lengths, and other shapes of inputs by their places.

        None if these are not of this family.
        """
        told = dict(zip(self._lengths, lengths, strict=True))
        told |= {p: shapes[i][axis] for (i, axis), p in self._places_of.items() if i in shapes}
        sizes = self.named([told.get(i, n) for i, n in enumerate(numbers)])
        for place, n in told.items():
            formula = self.formulas.get(place)
            if place not in self._idle and n != (
                numbers[place] if formula is None else formula(sizes)
            ):
                return None
        return sizes

    def at(self, graph: Graph, sizes: Mapping[str, int]) -> Graph:
        """A graph of the same form with other sizes.

        Constants that vary are further inputs of it. ``cache["constants"]`` tells of those and of
        the constants which of ``graph`` they are.

        Raises:
            ValueError: if an operation does not take such sizes, or gives others.
        """
        numbers: list[int | None] = list(self.members[0])
        for place, formula in self.formulas.items():
            numbers[place] = formula(sizes)
        for place in self.free:
            numbers[place] = None
        return _Resized(graph, iter(numbers)).graph


class _Resized:
    """A graph with other numbers, read in the order in which ``Numbered`` wrote them."""

    def __init__(self, graph: Graph, numbers: Iterator[Any]) -> None:
        self._numbers = numbers
        self._constants: dict[Value, int] = {}
        self._scalars = varying_scalars(graph)
        self._env: dict[Value, Value] = {}
        inputs = [self._known(v, input_value(self._spec(v.spec))) for v in graph.inputs]
        nodes = []
        for node in graph.nodes:
            args = [self._value(v) for v in node.inputs]
            params = {k: self._data(node.params[k]) for k in sorted(node.params)}
            params = {k: params[k] for k in node.params}
            specs = [self._spec(v.spec) for v in node.outs]
            try:
                new = Node(node.primitive, args, params, line=node.line)
            except (FxError, ArithmeticError) as error:
                raise ValueError(str(error)) from None
            if [v.spec for v in new.outs] != specs:
                raise ValueError(f"{node.primitive.name} gives other sizes")
            for old, out in zip(node.outs, new.outs):
                self._known(old, out)
            nodes.append(new)
        outputs = [self._value(v) for v in graph.outputs]
        inputs += [v for v in self._constants if v.constant is None]
        self.graph = Graph(inputs, nodes, outputs, graph.name)
        self.graph.cache["constants"] = self._constants

    def _known(self, old: Value, new: Value) -> Value:
        new.weak = old.weak
        self._env[old] = new
        return new

    def _spec(self, spec: TensorSpec) -> TensorSpec:
        shape = tuple([next(self._numbers) for _ in spec.shape])
        if min(shape, default=0) < 0:  # which not every rule looks at
            raise ValueError(f"no shape {shape}")
        return TensorSpec(shape, spec.dtype, spec.device)

    def _value(self, value: Value) -> Value:
        found = self._env.get(value)
        if found is not None:
            return found
        spec, array = self._spec(value.spec), value.array
        if value in self._scalars and next(self._numbers) is None:
            new = input_value(spec)
        elif spec.shape != array.shape:  # one number repeated, or its size is part of the form
            first = array[(slice(1),) * array.ndim]
            new = constant_value(new_tensor(np.broadcast_to(first, spec.shape)))
        else:
            new = constant_value(value.constant)  # type: ignore[arg-type]
        self._constants[new] = len(self._constants)
        return self._known(value, new)

    def _data(self, data: Any) -> Any:
        kind = type(data)
        if kind is int:
            return next(self._numbers)
        if kind is tuple or kind is list:
            return kind([self._data(x) for x in data])
        if kind is TensorSpec:
            return self._spec(data)
        if kind is slice:
            return slice(*self._data((data.start, data.stop, data.step)))
        return data
