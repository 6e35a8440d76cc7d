"""Records: which tensors are views of one another, and what stands behind those that were written.

Tensors that share elements, as PyTorch sees it, are a ``Family``: the one that came first and all
that are cut, reshaped or transposed from it. Each has a ``View`` that says how it comes from the
first. At the first write the values of the family move into one cell (``Storage``), and every
member is from then on read through it (``written.py``).
"""

from __future__ import annotations

from typing import Any
from weakref import ref

import numpy as np

from fx.config import modes, writing
from fx.handles import Data, Part
from fx.levels import newest_level
from fx.primitive import Primitive
from fx.state import Cell
from fx.tape import CELL, Leaf
from fx.tensor import Tensor, _new

SURELY = 2  # the value of ``modes.views`` while a reshape gives a view wherever elements lie
_MOST = 16  # members before those that are gone are looked for

# before the first write: the memory that parameters had when views of them were noted, and that of
# tensors without history that were detached, by the ids of the arrays
origins: dict[int, tuple[Any, Any]] = {}
detached: set[int] = set()

view_of = Tensor.__dict__["_view"].__get__  # of any class; AttributeError where there is none
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
        self.born = newest_level()
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
        found: whether members were found by their memory, which does not tell what was detached.
        unclear: weak references to what may be a view of these, or not.
    """

    __slots__ = (
        "__weakref__", "array", "cell", "found", "limit", "members", "of_user", "root", "shape",
        "strides", "unclear",
    )  # fmt: skip

    def __init__(self, root: Any, array: Any = None) -> None:
        self.root = _GONE if root is None else ref(root)
        self.of_user = isinstance(root, Cell)
        self.cell: Any = None
        self.array = root._a if type(root) is Tensor else array
        self.shape = self.array.shape if root is None else root.shape
        self.strides = strides_of(self.array)
        self.unclear: Any = ()
        self.found = False
        self.members: list[Any] = []
        self.limit = _MOST

    def add(self, member: Tensor) -> None:
        """Another view."""
        members = self.members
        if len(members) >= self.limit:
            self.members = members = [m for m in members if m() is not None]
            self.limit = 2 * len(members) + _MOST
        members.append(ref(member))

    def alive(self) -> list[Tensor]:
        """The views that there are."""
        return [m for m in [held() for held in self.members] if m is not None]


def _GONE() -> None:
    """What a weak reference to a tensor gives that is not there any more."""


class View:
    """How a member of a family comes from the first, and what it was before the first write.

    Attributes:
        path: pairs of a primitive and its parameters.
        base: what keeps the first alive where its history is needed.
        cut: whether no gradient passes from here to the first; None where that is not known.
        since: the number of the first write on the tape: what was recorded before had ``first``.
        leaf, at: the place of a gradient, if it or what it comes from is a leaf apart from the
            first, and how many steps of the path lead to that.
        source, value: what the family held when it was last read, and what that was here.
    """

    __slots__ = (
        "at", "base", "cut", "dtype", "family", "first", "leaf", "path", "shape", "since", "source",
        "value",
    )  # fmt: skip

    def __init__(self, family: Family, path: tuple[Any, ...], base: Any, cut: bool) -> None:
        self.family = family
        self.path = path
        self.base = base
        self.cut = cut
        self.since = self.at = 0
        self.first = self.leaf = self.source = self.value = None


CUT = View(None, (), None, True)  # type: ignore[arg-type] # of a detached tensor, before the first write


def record_of(x: Any) -> View:
    """The record of a tensor, made when first asked for."""
    found: View | None = getattr(x, "_view", None)
    if found is None or found is CUT:
        x._view = found = View(Family(x), (), None, False)
    return found


def owner_of(array: Any) -> Any:
    """The array that owns the memory of another."""
    while True:
        base = array.base
        if not isinstance(base, np.ndarray):  # `as_strided` has something in between
            base = getattr(base, "base", None)
            if not isinstance(base, np.ndarray):
                return array
        array = base


def link(x: Any, out: Any, primitive: Any, params: dict[str, Any]) -> Any:
    """Note that ``out``, just made, is a view of ``x``; ``out``, or another object for it."""
    x, lead = _behind(x)
    record = record_of(x)
    family = record.family
    path = (*record.path, *lead, (primitive, params))
    base, cut = None, record.cut or bool(lead) or primitive is _stop
    if out.written:  # what made it is made of views, and the family has begun
        known = out._view
        known.path, known.cut = path, cut or known.cut
        known.source = None
        return out
    moves = primitive is _reshape and modes.views is not SURELY  # whether it may move elements
    if type(out) is Tensor and type(x) is Tensor:
        if moves:
            chosen = family.strides is None and not _lies(family.array)
            one = x._a.size == 1
            if not (one or (_is_view(family, path) if chosen else _shares(x._a, out._a))):
                return out
        if out._node is not None:
            base = x
        elif x._node is not None:
            cut = True
    else:
        if x.level != CELL:
            base = x
        elif out is x.read():  # all of it: but what a cell holds is no object of the user's
            out = Primitive.__call__(_reshape, out, shape=out.shape)
        if moves and not _is_view(family, path):
            return out
    out._view = made = View(family, path, base, cut)
    if record.leaf is not None:
        made.leaf, made.at, made.cut = record.leaf, record.at, True
    elif record.path and primitive is not _stop and type(x._node) is Leaf:
        made.leaf, made.at, made.cut = x._node, len(record.path), True
    if primitive is _stop:
        made.leaf = None
    family.add(out)
    if not writing.started and family.of_user and type(out) is Tensor:
        _note_origin(family, out._a)
    if family.cell is not None:
        from fx.writing.written import convert

        convert(out, 0)
    return out


def _lies(array: Any) -> bool:
    """Whether an array that has no strides of its own lies in the order of its axes."""
    return type(array) is not np.ndarray or array.flags.c_contiguous


def moved(x: Any, out: Any, surely: bool) -> None:
    """Before the first write: note a view for which elements had to be moved.

    Args:
        x: a plain tensor of the CPU.
        out: it, reshaped.
        surely: whether PyTorch gives a view or raises; else it moves elements where its strides,
            which are those of the array unless that is expanded or flipped, ask for it.
    """
    array = x._a
    if _shares(array, out._a) or not (surely or strides_of(array) is None):
        return
    views, modes.views = modes.views, SURELY
    try:
        link(x, out, _reshape, {"shape": out.shape})
    finally:
        modes.views = views


def _note_origin(family: Family, array: Any) -> None:
    """Note in what memory a parameter was when a view of it was taken."""
    if type(array) is np.ndarray:
        owner = owner_of(array)
        held, known = origins.get(id(owner), (None, None))
        if held is None or held() is not owner:
            origins[id(owner)] = ref(owner), family
        elif known is not family:
            origins[id(owner)] = ref(owner), False


def _behind(x: Any) -> tuple[Any, tuple[Any, ...]]:
    """The parameter that a handle, ``p.data`` or a part of it, is of, and the steps from there."""
    if not isinstance(x, Data) or x.owner is None:
        return x, ()
    owner, lead = _behind(x.owner)
    if isinstance(x, Part):
        from fx.ops.views import fixed
        from fx.writing.views import index_of

        return owner, (*lead, (index_of, {"index": fixed(x.index)}))
    return owner, (*lead, (_stop, {}))


def _shares(a: Any, b: Any) -> bool:
    """Whether ``b``, reshaped from ``a``, lies in its memory."""
    if type(b) is not np.ndarray:
        return True
    base = b.base
    return b is a or (base is not None and (base is a or base is a.base))


def _is_view(family: Family, path: Any) -> bool:
    """Whether a reshape at the end of a path moves no elements."""
    before = layout(family, path[:-1])
    if before.size <= 1:  # NumPy gives a number, not a view, for one element
        return True
    return _shares(before, _kernel(*path[-1][:1], before, path[-1][1]))


def layout(family: Family, path: Any) -> Any:
    """An array that lies in memory as a member does."""
    shape, strides = family.shape, family.strides
    if strides is None:
        at = np.empty(shape, np.bool_)
    else:
        span = 1 + sum((n - 1) * step for n, step in zip(shape, strides))
        at = np.ndarray(shape, np.bool_, np.empty(span, np.bool_), strides=strides)
    for primitive, params in path:
        at = _kernel(primitive, at, params)
    return at


def strides_of(array: Any) -> tuple[int, ...] | None:
    """The steps of an array in elements; None if it lies in the order of its axes, or as no tensor
    of PyTorch's does: one that runs backwards is there a copy that runs forwards."""
    if type(array) is not np.ndarray or array.flags.c_contiguous or not array.size:
        return None
    steps = tuple([abs(step) // array.itemsize for step in array.strides])
    dense = 1
    for n, step in zip(reversed(array.shape), reversed(steps)):
        if n > 1 and step != dense:
            return steps if all(steps) else None
        dense *= n
    return None


def _kernel(primitive: Primitive, array: Any, params: dict[str, Any]) -> Any:
    """A view primitive on an array."""
    if primitive is _stop:
        return array
    if primitive is _expand:  # whose kernel may copy
        return np.broadcast_to(array, params["shape"])
    return primitive.cpu(array, **params)


def overlaps(record: View) -> bool:
    """Whether several elements of a member are one in memory, as far as PyTorch looks."""
    at = layout(record.family, record.path)
    return any(n > 1 and not step for n, step in zip(at.shape, at.strides))


class Steps:
    """Several steps of a path as one, on arrays."""

    __slots__ = ("path",)

    def __init__(self, path: Any) -> None:
        self.path = path

    def cpu(self, array: Any) -> Any:
        """What the steps select."""
        for primitive, params in self.path:
            array = _kernel(primitive, array, params)
        return array


def place_in(record: View, array: Any) -> Any:
    """The part of the memory of a family where a member lies; None where that cannot be said."""
    owner = array
    for primitive, params in record.path:
        before, array = array, _kernel(primitive, array, params)
        if not (array is owner or array.base is owner or array is before):
            return None
    return array if array.flags.writeable else None


class ViewPrimitive(Primitive):
    """A primitive whose result shares the elements of its argument, where a program may write."""

    __slots__ = ()
    is_view = True

    def _dispatch(self, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        (x,) = args
        if isinstance(x, Tensor) and x.level == CELL:
            value = x.read()
            plain = type(value) is Tensor and type(value._a) is np.ndarray
            if plain:
                out = Primitive.__call__(self, value, **params)
            else:
                out = super()._dispatch((value,), params)
        else:
            out = super()._dispatch(args, params)
        if modes.views and out is not x:
            return link(x, out, self, params)
        return out


class Noting(ViewPrimitive):
    """The same in a program that writes, of whose plain tensors views are noted too."""

    __slots__ = ()

    def __call__(self, x: Any, **params: Any) -> Any:  # type: ignore[override]
        """Bind, and note the view."""
        if type(x) is not Tensor or type(x._a) is not np.ndarray:
            return self._dispatch((x,), params)
        out = Primitive.__call__(self, x, **params)
        if out is not x and modes.views:
            return link(x, out, self, params)
        return out


class Selection:
    """A choice of elements that no single primitive makes, such as a diagonal.

    Args:
        function: of a tensor.
        cpu: the same of an array, as a view of it.
    """

    __slots__ = ("cpu", "function")

    def __init__(self, function: Any, cpu: Any) -> None:
        self.function = function
        self.cpu = cpu

    def __call__(self, x: Any, **params: Any) -> Any:
        """The elements, as a view of ``x``."""
        views, modes.views = modes.views, False
        try:
            out = self.function(x, **params)
        finally:
            modes.views = views
        if type(x) is Tensor and type(x._a) is np.ndarray and out.size:
            place = self.cpu(x._a, **params)  # the function may have copied
            if place.base is not None:
                out._a = place
        if views and out is not x:
            return link(x, out, self, params)
        return out


def twin(x: Any) -> Any:
    """Another object of the same value and history, which nobody else has."""
    if x.level == CELL:
        x = x.read()
    cls = type(x)
    out = _new(cls)
    for name in _slots(cls):
        try:
            value = getattr(x, name)
        except AttributeError:
            continue
        setattr(out, name, value)
    if cls is not Tensor:
        stage = getattr(out, "stage", None)
        if stage is not None:
            stage.note(out, out.ref)
    return out


def _slots(cls: Any) -> tuple[str, ...]:
    if cls is Tensor:
        return ("_a", "_node")
    found: list[str] = []
    for base in cls.__mro__:
        own = base.__dict__.get("__slots__", ())
        found += (own,) if isinstance(own, str) else own
    skipped = {"__weakref__", "_view", "_a"}
    return tuple([n for n in dict.fromkeys(found) if n not in skipped and _is_slot(cls, n)])


def _is_slot(cls: Any, name: str) -> bool:
    """Whether the attribute of a class is a slot, not a property that hides one."""
    for base in cls.__mro__:
        if name in base.__dict__:
            return type(base.__dict__[name]) is _MEMBER
    return False


_MEMBER = type(array_in)
_reshape: Any = None
_stop: Any = None
_expand: Any = None


def _primitives() -> tuple[Any, ...]:
    from fx.prims.complex import part
    from fx.prims.shape import slice, transpose

    return _reshape, transpose, slice, _expand, _stop, part


def watch_views() -> None:
    """From now on view primitives note what they give of tracers and cells, where they are told."""
    global _reshape, _stop, _expand
    from fx.prims.compare import stop_gradient
    from fx.prims.shape import broadcast_to, reshape

    _reshape, _stop, _expand = reshape, stop_gradient, broadcast_to
    for primitive in _primitives():
        primitive.__class__ = ViewPrimitive
    writing.moved = moved


def start() -> None:
    """Before the first write: find the views that there are, and note all from now on."""
    if writing.started:
        return
    from fx.writing import finding, views

    finding.families()
    writing.started = True
    writing.moved = None
    for primitive in _primitives():
        primitive.__class__ = Noting
    views.follow()


def forget() -> None:
    """Be as before the first write, for tests; what was written by then must be gone."""
    if not writing.started:
        return
    from fx.writing import views

    writing.started = False
    writing.moved = moved
    for primitive in _primitives():
        primitive.__class__ = ViewPrimitive
    views.follow(False)
