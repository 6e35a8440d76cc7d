"""Program: what one staging of a function found: a tree of segments, and where its inputs are.

A segment is a graph that runs in one go. It ends where the function asked for a value (``if``,
``int()``, ``nonzero``): the answer picks the segment that follows. The last one gives the results.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import field
from importlib import import_module
from threading import get_ident
from typing import Any
from weakref import ref

from fx.graph.ir import Graph, Node, Value
from fx.slotted import slotted
from fx.staged_number import Length
from fx.tensor import Tensor, bare
from fx.transforms.jitting.guards.code import same
from fx.transforms.jitting.handled import was_sent
from fx.transforms.jitting.recording.host import ERRORS, Host, Table, answer

ARGUMENT, SIZE = "argument", "size"  # owners of numbers: what was passed, and how large it is


def number_of(signature: Any, owner: Any, key: Any) -> Any:
    """A Python number of a call, by its owner and key in ``Program.numbers``."""
    if owner is ARGUMENT:
        return signature.numbers[key]
    if owner is SIZE:
        place, axis = key
        return signature.tensors[place].shape[axis]
    return owner[key]


class Enclosed:
    """Owner of a number that a variable of an enclosing function holds; read as a dict is."""

    __slots__ = ("cell",)

    def __init__(self, cell: Any) -> None:
        self.cell = cell

    def __getitem__(self, key: Any) -> Any:
        return self.cell.cell_contents


# where the inputs of a program come from --------------------------------------------------------


@slotted(eq=False)
class Argument:
    """A leaf of the arguments, by its number among those that are tensors."""

    number: int


@slotted(eq=False)
class Held:
    """What a cell holds."""

    cell: ref[Any]
    name: str


@slotted(eq=False)
class Gathered:
    """The gradient that a leaf had gathered before."""

    owner: Any
    name: str


@slotted(eq=False)
class Captured:
    """A tensor from outside: ``find(function, objects)`` gets it anew."""

    find: Callable[..., Any]
    name: str


@slotted(eq=False)
class Counted:
    """A Python number that meets a tensor in a dtype, by its place in the program's table.

    ``time`` is the number of effects that come before it is read.
    """

    host: Host
    dtype: Any
    time: int = 0


@slotted(frozen=True)
class Given:
    """Owner of a gradient: an argument of the call, by its number among those that are tensors."""

    number: int


@slotted(eq=False)
class Found:
    """Owner of a gradient: a tensor from outside, which ``find(function, objects)`` gets anew."""

    find: Callable[..., Any]


Owner = ref[Any] | Given | Found  # a cell is referred to weakly
Source = Argument | Held | Gathered | Captured | Counted


# what becomes of the results --------------------------------------------------------------------


@slotted(eq=False)
class Leaf:
    """A leaf of the result: a value, or whatever Python object it is each time.

    Attributes:
        value: None for a Python object.
        differentiable: whether ``.backward()`` goes on from it.
        freed: the primitive that it is of, if a backward pass inside has freed its history: it
            requires grad, and has none to give.
        number: computes the Python number that it is; then there is no value.
    """

    value: Value | None
    held: Any = None
    differentiable: bool = False
    freed: Any = None
    number: Host | None = None


@slotted(eq=False)
class Anew:
    """A Python object among the results that each call finds, or makes, by itself.

    Attributes:
        get: ``(function, objects, args, kwargs)``: the object of a call.
    """

    get: Callable[..., Any]


@slotted(eq=False)
class Effect:
    """What is done to Python numbers in each call.

    Attributes:
        run: the function; it changes the dicts ``held`` and nothing else.
        values: the tensors whose values it gets, at the end of the program.
    """

    run: Callable[..., None]
    held: tuple[dict[Any, Any], ...]
    values: tuple[Value, ...]


@slotted(eq=False)
class Finish:
    """What a last segment does with its values."""

    treedef: Any
    leaves: list[Leaf]
    rebinds: list[tuple[ref[Any], Value]]  # cells
    grads: list[tuple[Owner, Value | None]]  # owners of leaves, and their new gradient
    numbers: list[tuple[Any, Any, Any]]  # (dict, key, Leaf) of Python numbers
    aliases: dict[int, Any] = field(default_factory=dict)  # by places of leaves (``aliases.py``)
    stores: list[Any] = field(default_factory=list)  # effects.Store; their leaves are the last ones


@slotted(eq=False)
class Question:
    """What ended a segment: a value, or tensors of shapes that depend on values.

    Attributes:
        values: what was asked for.
        function: None for the value itself; else what computes tensors from the concrete values.
        line: the user's line.
        number: where it is about a number that was drawn: the number, and what is asked.
        branches: by answer, the tensors or values that the function gets, and what follows.
    """

    values: tuple[Value, ...]
    function: Callable[..., Any] | None
    line: str
    number: tuple[Host, Callable[[Any], Any]] | None = None
    branches: dict[Any, Branch] = field(default_factory=dict)


@slotted(frozen=True)
class Told:
    """An answer about a number that was drawn."""

    kind: type
    text: str


@slotted(eq=False)
class Branch:
    """One answer: what the function was told, and the segment that follows."""

    results: Any
    follows: Segment | None = None


@slotted(eq=False)
class Segment:
    """A graph that runs in one go.

    Attributes:
        nodes: as they were staged, for replays.
        graph: from ``needs`` to ``gives``.
        drawn: the last draw that is made before it runs, by its place in the table.
        expects: what is assumed of numbers that were drawn after a question.
    """

    nodes: list[Node]
    needs: list[Value]
    gives: list[Value]
    effects: list[Effect] = field(default_factory=list)
    drawn: int | None = None
    expects: list[Predicate] = field(default_factory=list)
    question: Question | None = None
    finish: Finish | None = None
    graph: Graph = field(init=False)

    def __post_init__(self) -> None:
        self.graph = Graph(self.needs, self.nodes, self.gives, "segment")


@slotted(eq=False)
class Predicate:
    """An answer about a Python number that the program assumes."""

    host: Host
    ask: Callable[[Any], Any]
    answer: Any
    line: str

    def holds(self, numbers: Any, values: dict[int, Any] | None = None) -> bool:
        """Whether the numbers of a call give the same answer."""
        return same(self.answer_for(numbers, values), self.answer)

    def answer_for(self, numbers: Any, values: dict[int, Any] | None = None) -> Any:
        """What the numbers of a call answer; an error is an answer too: its type and its text."""
        return answer(self.ask, self.host, numbers, values)

    def is_so(self, value: Any) -> bool:
        """Whether the number, as it is in a call, gives the same answer."""
        try:
            return same(self.ask(value), self.answer)
        except ERRORS as error:
            if was_sent(error):
                raise
            return same((type(error), str(error)), self.answer)


@slotted(eq=False)
class Program:
    """All that is known about the function for arguments of one kind.

    Attributes:
        sources: where each input comes from.
        numbers: where Python numbers come from: an argument's place, an axis of one, or a dict and
            its key.
        table: what is computed of them.
        predicates: what is assumed of them.
        gathered: for each leaf whose earlier gradient matters, whether there was one.
        reads_gradients: whether it reads one while it records, so that a history of that matters.
        lies: of inputs where it matters, where their parts lie: a mesh and placements, or None.
        random: whether it draws from a generator.
        written: weak references to the cells that it writes into as a script does.
        layouts: how the inputs lie of which it asked that (``steps_of`` in ``fx/writing``).
        shapes: the hash of those that somebody was told, in order, since the first length of a
            slice was asked for, or where ``axes`` vary (``short/lengths.py``).
        kind: the key without sizes.
        axes: of the arguments that are tensors, by their places, of which others have other sizes.
    """

    name: str
    root: Segment | None = None
    sources: dict[Value, Source] = field(default_factory=dict)
    numbers: list[Any] = field(default_factory=list)
    table: Table = field(default_factory=Table)
    predicates: list[Predicate] = field(default_factory=list)
    gathered: list[tuple[Owner, bool]] = field(default_factory=list)
    reads_gradients: bool = False
    lies: dict[Value, Any] = field(default_factory=dict)
    guards: Any = None
    reason: str = ""
    line: str = ""
    segments: int = 0
    random: bool = False
    kind: Any = None
    axes: tuple[tuple[int, int], ...] = ()
    varied: bool = False  # whether another is for arguments of other sizes
    outward: bool = False  # whether it changes Python's state, or draws from it
    written: list[Any] = field(default_factory=list)
    layouts: dict[Value, Any] = field(default_factory=dict)
    lengths: Any = None  # those that its short way has served, where it is for any
    shapes: int = 0
    differentiates: bool = False  # whether .backward() may go on from a result
    rule: str = ""  # why results cannot be differentiated outside of the function
    asks_history: bool = False  # whether it asks if something requires grad
    silences: bool = False  # whether no_grad hides some of it from what is differentiated
    calls: int = 0
    plan: Any = None  # the short way of a call, once it is known (fast.py)
    key: Any = None  # of the arguments
    number: int = 0  # of those of its function
    tally: list[int] = field(default_factory=lambda: [0])  # of calls by the short way
    seconds: float | None = None  # that its first call took
    history: list[str] = field(default_factory=list)  # why branches were added
    graphs: list[Graph] = field(default_factory=list)  # that were compiled

    def staged_elsewhere(self) -> bool:
        """Whether another thread stages it now."""
        me = get_ident()
        return _stagers.get(id(self), me) != me


def lengths_of(program: Program) -> list[Predicate]:
    """What is assumed of how long axes and slices are."""
    return [p for p in program.predicates if type(p.ask) is Length]


class GiveUp(BaseException):
    """The function cannot be compiled for these arguments, for a reason; it runs as it is.

    It is no ``Exception``: ``except Exception`` in the function is about other things. What catches
    everything catches this too, which the recording notes.

    Args:
        reason: for the warning; "" if there is nothing to say, for this call ends with an error.
        lasting: whether that is so for every call of its kind, or for this one alone.
    """

    def __init__(self, reason: str, lasting: bool = True) -> None:
        super().__init__(reason)
        self.lasting = lasting


class Again(GiveUp):
    """The function is staged once more: it is known which numbers it counts, or a signal came."""

    def __init__(self) -> None:
        super().__init__("", lasting=False)


class Busy(GiveUp):
    """Another thread stages the program that would serve: the function runs as it is, this once.

    Nobody waits for a thread that stages, since that thread may wait for this one.
    """

    def __init__(self) -> None:
        super().__init__("", lasting=False)


class staging:
    """A block in which this thread alone stages a program.

    Raises:
        Busy: if another thread does.
    """

    __slots__ = ("_first", "_program")

    def __init__(self, program: Program) -> None:
        self._program = program

    def __enter__(self) -> None:
        place, me = id(self._program), get_ident()
        self._first = place not in _stagers
        if _stagers.setdefault(place, me) != me:
            raise Busy

    def __exit__(self, *error: object) -> None:
        if self._first:
            _stagers.pop(id(self._program), None)


_stagers: dict[int, int] = {}  # the thread that stages a program, by the program's id
if hasattr(os, "register_at_fork"):  # a child has none of the other threads
    os.register_at_fork(after_in_child=_stagers.clear)


def concrete(x: Any) -> Tensor:
    """The known tensor at the bottom of ``x``."""

    return bare(x)


def lazily(name: str) -> Any:
    """A module of this folder that is loaded when a function is first compiled."""
    return import_module(f"fx.transforms.jitting.{name}")
