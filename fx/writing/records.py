"""Records: which tensors are views of one another, and what stands behind those that were written.

Tensors that share elements, as PyTorch sees it, are a ``Family``: the one that came first and all
that are cut, reshaped or transposed from it. Each has a ``View`` that says how it comes from the
first. At the first write the values of the family move into one cell (``Storage``), and every
member is from then on read through it (``written.py``).
"""

from __future__ import annotations

from typing import Any
from weakref import ref

from numpy import ndarray

from fx.config import modes, writing
from fx.graph.named import Named
from fx.levels import Tracer, live
from fx.modes import level_here
from fx.prims.compare import stop_gradient
from fx.prims.shape import reshape, transpose
from fx.state import Cell
from fx.tape import CELL
from fx.tensor import Tensor, _new
from fx.writing.layouts import repeats, steps_of, strides_of

_MOST = 16  # members before those that are gone are looked for

# before the first write: the memory that parameters had when views of them were noted, and that of
# tensors that were detached, by the ids of the arrays
origins: dict[int, tuple[Any, Any, Any, Any]] = {}
detached: set[int] = set()
# and the views that have memory of their own, by the ids of the arrays that own it: a weak
# reference to that, what they are of, the record, the shape, whether there is a history
copies: dict[int, tuple[Any, Any, View, Any, bool]] = {}

array_in = Tensor.__dict__["_a"]
node_in = Tensor.__dict__["_node"]


class Storage(Cell):
    """What the tensors of a family hold, with its history."""

    __slots__ = ("kept",)
    kept: bool  # whether an optimizer has it

    def __init__(self, value: Tensor) -> None:
        self.kept = False
        self.name = "a tensor that is written"
        self.reduction = None
        self.born = level_here()
        self.handle = None
        self.leaf = None
        self.value = value

    def holding(self, value: Tensor) -> Tensor:
        held = super().holding(value)
        before = self.value
        if self.leaf is None and type(before) is Tensor:
            held._node = before._node  # what is stored here has no history of its own
        return held


class Family:
    """Tensors of one memory.

    Attributes:
        cell: what holds the values: None before the first write.
        root: a weak reference to the tensor that came first.
        array: its array, where it is a plain one.
        strides: the steps from element to element along its axes; None where they are those of the
            order of the axes.
        members: weak references to the views.
        watched: whether the next step of an optimizer looks at it.
        told: a weak reference to the memory of a parameter that ``origins`` know of.
        inner: whether there is more of that memory, of which nothing is known since it was written.
        repeated: whether the first shows elements several times.
        found: whether members were found by their memory, which does not tell what was detached.
        unclear: weak references to what may be a view of these, or not.
    """

    __slots__ = (
        "__weakref__", "array", "cell", "found", "inner", "limit", "members", "of_user",
        "repeated", "root", "shape", "strides", "told", "unclear", "watched",
    )  # fmt: skip
    strides: tuple[int, ...] | None

    def __init__(self, root: Any, array: Any = None) -> None:
        self.cell: Any = None
        self.members: list[Any] = []
        self.limit = _MOST
        self.of_user = self.found = self.watched = self.inner = self.repeated = False
        self.unclear: Any = ()
        self.told: Any = None
        if type(root) is Tensor and type(array := root._a) is ndarray and array.flags.c_contiguous:
            self.root = ref(root)
            self.array = array
            self.shape = array.shape
            self.strides = None
            return
        if type(root) is Tensor or type(root) is Named:
            self.root = ref(root)
            self.array = array = array_in.__get__(root)
            self.shape = array.shape
        else:
            self.root = _GONE if root is None else ref(root)
            self.of_user = isinstance(root, Cell)
            self.array = array
            self.shape = array.shape if root is None else root._shape
        if modes.stage is not None and root is not None and not self.of_user:
            self.strides = steps_of(root)  # which is noted, if another call may have others
        else:
            self.strides = strides_of(array)
        if type(array) is ndarray and not array.flags.c_contiguous:
            self.repeated = repeats(array)

    def add(self, member: Tensor) -> None:
        """Another view."""
        members = self.members if len(self.members) < self.limit else self.swept()
        members.append(ref(member))

    def swept(self) -> list[Any]:
        """The members, those left out that are gone."""
        self.members = members = [m for m in self.members if m() is not None]
        self.limit = 2 * len(members) + _MOST
        return members

    def alive(self) -> list[Tensor]:
        """The views that there are; what a transform that is over has left is none."""
        return [m for held in self.members if (m := held()) is not None and not _is_over(m)]


def _is_over(x: Any) -> bool:
    """Whether a tensor was a value of a transform that runs no more."""
    return isinstance(x, Tracer) and x.level != CELL and x.level & ~1 not in live


def _GONE() -> None:
    """What a weak reference to a tensor gives that is not there any more."""


class View:
    """How a member of a family comes from the first, and what it was before the first write.

    Attributes:
        path: pairs of a primitive and its parameters.
        base: what keeps the first alive where its history is needed.
        cut: whether no gradient passes from here to the first; None where that is not known.
        kept: whether it comes from ``detach()``: what an optimizer makes of a parameter it ignores.
        since: the number of the first write on the tape: what was recorded before had ``first``.
        leaf, at: the place of a gradient, if it or what it comes from is a leaf apart from the
            first, and how many steps of the path lead to that.
        lost: whether that is the history of before the first required grad no more. What is then
            written with a history gives it that one, as its place in PyTorch's base does.
        parted: whether one of these has other memory since ``x.data = v``.
        source, value: what the family held when it was last read, and what that was here.
        shown: the cell of what is shown here, where a staged function has read what is ``kept``.
    """

    __slots__ = (
        "__weakref__", "at", "base", "cut", "dtype", "family", "first", "kept", "leaf", "lost",
        "parted", "path", "shape", "shown", "since", "source", "value",
    )  # fmt: skip
    shape: Any
    dtype: Any

    def __init__(self, family: Family, path: tuple[Any, ...], base: Any, cut: bool | None) -> None:
        self.family = family
        self.path = path
        self.base = base
        self.cut = cut
        self.kept = self.lost = self.parted = False
        self.since = self.at = 0
        self.first: Any = None
        self.leaf: Any = None
        self.source: Any = None
        self.value: Any = None
        self.shown: Any = None

    def another(self, x: Tensor) -> View:
        """The mark of another tensor that shows all of ``x``, which has this mark."""
        return View(None, (), x, True)  # type: ignore[arg-type]


def view_of(x: Any) -> Any:
    """The record of a tensor, None if there is none.

    Most are asked for by no write, so what is noted of a plain tensor is little until then: the
    family alone for one that came first, for a view the arguments of its record.
    """
    noted = x._noted
    if type(noted) is tuple:
        family, path, primitive, params, base, cut, kept = noted
        x._noted = noted = View(family, (*path, (primitive, params)), base, cut)
        noted.kept = kept
    elif type(noted) is Family:
        x._noted = noted = View(noted, (), None, False)
    return noted


def _note(x: Any, record: View | None) -> None:
    x._noted = record


Tensor._view = property(view_of, _note, doc=view_of.__doc__)  # type: ignore[attr-defined]

# the mark of a detached tensor before the first write; that of another tensor of it has a ``base``
CUT = View(None, (), None, True)  # type: ignore[arg-type]


def is_marked(record: View | None) -> bool:
    """Whether it is only a mark, as detached tensors have before the first write."""
    return record is not None and record.family is None


def record_of(x: Any) -> View:
    """The record of a tensor, made when first asked for."""
    found: View | None = getattr(x, "_view", None)
    return new_record(x) if found is None or found.family is None else found


def new_record(x: Any) -> View:
    """The record of a tensor of which nothing was noted: the first of a family."""
    family = Family(x)
    x._noted = made = View(family, (), None, False)
    if family.repeated and writing.started:  # what it was expanded from came first
        from fx.writing.widening import widen

        widen(family)
    return made


def new_family(x: Tensor) -> Any:
    """The family of a plain tensor of which nothing was noted, as it is noted; or its record."""
    x._noted = made = Family(x)
    if made.repeated and writing.started:  # what it was expanded from came first
        from fx.writing.widening import widen

        widen(made)
    return x._noted


def is_whole(path: Any) -> bool:
    """Whether what a path leads to is all of the family, as it lies: at most detached."""
    for primitive, _ in path:  # noqa: SIM110 # mostly one, of which a loop is quicker
        if primitive is not stop_gradient:
            return False
    return True


def leads_to(path: Any, other: Any, more: int) -> bool:
    """Whether ``other`` is a path with so many steps more."""
    if len(other) != len(path) + more:
        return False
    return not path or all(a is b for a, b in zip(path, other))


def shortened(path: tuple[Any, ...]) -> tuple[Any, ...]:
    """A path, its last two steps as one where both reshape or both transpose."""
    if len(path) < 2 or path[-2][0] is not path[-1][0]:
        return path
    (_, before), (primitive, params) = path[-2:]
    if primitive is transpose:
        params = {"axes": tuple([before["axes"][a] for a in params["axes"]])}
    elif primitive is not reshape:
        return path
    return (*path[:-2], (primitive, params))


def twin(x: Any) -> Any:
    """Another object of the same value and history, which nobody else has."""
    if x.level == CELL:
        x = x.read()
    cls = type(x)
    out = _new(cls)
    if cls is Tensor:
        out._a, out._node, out._noted = x._a, x._node, None
        return out
    for name in _slots(cls):
        try:
            value = getattr(x, name)
        except AttributeError:
            continue
        setattr(out, name, value)
    stage = getattr(out, "stage", None)
    if stage is not None:
        stage.note(out, out.ref)
    return out


def _slots(cls: Any) -> tuple[str, ...]:
    found: list[str] = []
    for base in cls.__mro__:
        own = base.__dict__.get("__slots__", ())
        found += (own,) if isinstance(own, str) else own
    skipped = {"__weakref__", "_noted", "_a"}
    return tuple([n for n in dict.fromkeys(found) if n not in skipped and _is_slot(cls, n)])


def _is_slot(cls: Any, name: str) -> bool:
    """Whether the attribute of a class is a slot, not a property that hides one."""
    for base in cls.__mro__:
        if name in base.__dict__:
            return type(base.__dict__[name]) is _MEMBER
    return False


_MEMBER = type(array_in)
