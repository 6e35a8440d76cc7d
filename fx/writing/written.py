"""Written tensors: names whose values were changed.

At its first write a tensor's class changes to one that is read as a cell is. ``bind`` reads it
before anything else, so that no rule keeps the object itself; a pullback that kept it before the
first write is told what it was then.
"""

from __future__ import annotations

from functools import cache
from typing import Any
from weakref import ref

from numpy import ndarray

from fx.backward_pass import note_writing
from fx.config import ENABLED, modes, set_modes, writing
from fx.errors import BackwardError, WriteError
from fx.gradients import leaves, moved
from fx.graph.named import Named
from fx.levels import live
from fx.primitive import Primitive
from fx.prims.shape import reshape
from fx.seen import keep
from fx.state import Cell, Held
from fx.state import copied as own_array
from fx.tape import CELL, Leaf
from fx.tape import _sequence as next_number
from fx.tensor import Tensor, _new, new_tensor
from fx.versions import touch
from fx.writing import host
from fx.writing.layouts import owner_of
from fx.writing.records import Family, Storage, View, array_in, node_in, twin, view_of


class Written(Held):
    """What the class of a tensor gets in front when it is written to."""

    __slots__ = ()
    written = True
    name = "a tensor"
    reduction = None
    _noted: View

    def read(self) -> Any:
        """The value of now; in a pullback that is older than the first write, that of then."""
        record = self._noted
        if record.since and modes.pulling < record.since and record.first is not None:
            return record.first
        cell = record.family.cell
        if type(cell) is not Storage:
            return _of_parameter(record, cell)
        base = cell.value
        if modes.stage is not None or type(base) is not Tensor:
            base = cell.read()
        if record.source is base:
            return record.value
        if not record.path and record.leaf is None:
            return base
        value = looked(record, base)
        if modes.stage is None and not host.is_apart(value, base):
            record.source, record.value = base, value
        return value

    def _set_node(self, node: Any) -> None:
        """Make a written tensor a leaf, or no leaf any more."""
        record = view_of(self)
        family = record.family
        value = twin(self)
        value._node = node
        if record.path:
            record.leaf, record.at = node, len(record.path)
            record.cut = True
            record.source = None
            if record.kept and record.value is not None:
                record.value = value  # which it shows, whatever the parameter holds
            return
        cell = family.cell
        if node is None:
            keep_histories(family)
        if (node is None) != (cell.leaf is None):
            touch()
        cell.value = value
        cell.leaf = node

    @property
    def resting(self) -> Any:
        """Under what its leaf waits while it does not require grad (fx.gradients)."""
        record = view_of(self)
        cell = record.family.cell
        return self if record.path or type(cell) is not Storage else cell

    @property
    def value(self) -> Any:
        return self.read().value

    def concrete(self) -> Any:
        return self.read().concrete()

    @property
    def born(self) -> int:
        return view_of(self).family.cell.born  # type: ignore[no-any-return]

    @property
    def shape(self) -> Any:
        shape = self._noted.shape
        if live and modes.stage is not None:
            modes.stage.tells(shape)  # in full: it need not be of a node
        return shape

    @property
    def dtype(self) -> Any:
        return self._noted.dtype

    def __reduce__(self) -> Any:
        from fx.ops.making.interop import reduce_tensor

        return reduce_tensor(self.read())

    def __copy__(self) -> Any:
        return copied(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            node = self._node
            if node is not None and type(node) is not Leaf:
                raise BackwardError(
                    "deepcopy: a tensor computed from others has a history that cannot be copied; "
                    "write copy.deepcopy(x.detach())"
                )
            out = memo[id(self)] = copied(self)
            if type(out) is Tensor:
                out._a = own_array(out._a)
            if node is not None and node.grad is not None:
                out._node.grad = node.grad.detach()
        return memo[id(self)]


keep(Written)


def copied(x: Any) -> Any:
    """Another tensor of these values; that of a leaf is a leaf."""
    out = twin(x)
    if type(out) is Tensor and type(out._node) is Leaf:
        out._node = None
        return out.requires_grad_()  # type: ignore[attr-defined]
    return out


@cache
def written_class(cls: Any) -> Any:
    """The class that the objects of a class get."""
    return type("Tensor" if cls is Tensor else cls.__name__, (Written, cls), {"__slots__": ()})


PLAIN = written_class(Tensor)


def begin(family: Family, alone: bool = False) -> None:
    """Move the values of a family into a cell, and let all members read it.

    Args:
        alone: whether it has one member that nobody holds but who writes.
    """
    if modes.stage is not None:
        root = family.root()
        if type(root) is Named or any(type(member) is Named for member in family.alive()):
            modes.stage.postpone()  # this call writes as it is; later ones find what is written
    note_writing(True)
    number = next_number()
    root = family.root()
    if family.of_user:
        family.cell = _Dead if root is None else root
    else:
        if root is None:
            value = _assembled(family, new_tensor(family.array))
        else:
            value = twin(root)
        family.cell = Storage(value)
        array = family.array
        if type(array) is ndarray and array.base is not None:
            family.inner = owner_of(array).nbytes > array.nbytes
        family.array = None
        if root is not None:
            convert(root, 0 if alone and not family.members else number)
            node = value._node
            if type(node) is Leaf:
                family.cell.leaf = node
            elif leaves:
                moved(root, family.cell)
    members = family.alive()
    for member in members:
        convert(member, number)
    if not family.of_user and host.is_shared(family.cell):
        host.part(members if root is None else [root, *members])


def begin_alone(x: Tensor) -> bool:
    """The same of a plain tensor that nobody holds but who writes, and of which nothing was noted.

    False where it has a history or no axes, does not lie in memory of its own in order, where
    something is staged or put back afterwards, or a leaf waits under it.
    """
    if type(x) is not Tensor or x._node is not None or not writing.started:
        return False
    array = x._a
    if type(array) is not ndarray or array.base is not None or not array.ndim:
        return False
    if not array.flags.c_contiguous or getattr(x, "_noted", None) is not None:
        return False
    if modes.stage is not None or modes.journal is not None or id(x) in leaves:
        return False
    note_writing(True)
    family = Family(x)
    family.cell = Storage(new_tensor(array))
    family.array = None
    x._noted = record = View(family, (), None, False)
    record.shape, record.dtype = array.shape, array.dtype
    x.__class__ = PLAIN
    array_in.__set__(x, None)
    node_in.__set__(x, None)
    return True


def _assembled(family: Family, value: Any) -> Any:
    """The value of a first that is gone, with the history of its views."""
    members = [x for x in family.alive() if view_of(x).cut is False]
    members = [x for x in members if x._node is not None and type(x._node) is not Leaf]
    if members and type(value) is Tensor:
        from fx.writing.replacing import changed

        before = modes.barrier, modes.silent
        set_modes(ENABLED, ENABLED)
        try:
            for x in members:
                value = changed(view_of(x), value, twin(x))
        finally:
            set_modes(*before)
    return value


class _Dead:
    """In the place of a cell that is gone."""

    value = leaf = None


def convert(x: Any, number: int) -> None:
    """Let a member that may have been kept before this write be read through its family's cell.

    Args:
        number: of the write on the tape; 0 where nobody has kept the object.
    """
    record: View = x._view
    if x.written:
        return
    kind = type(x)
    first = twin(x)
    if number:
        record.first, record.since = first, number
    _look_through(record, first, bool(number))
    x.__class__ = PLAIN if kind is Tensor else written_class(Tensor if kind is Named else kind)
    array_in.__set__(x, None)
    node_in.__set__(x, None)


def member_of(x: Any, record: View) -> Any:
    """A view of a family that has begun, just made: what is read through its cell, now ``x``."""
    if type(x) is not Tensor:
        x._view = record
        convert(x, 0)
        return x
    _look_through(record, x, False)
    out = _new(PLAIN)
    out._noted = record
    return out


def _look_through(record: View, first: Any, known: bool) -> None:
    """Fill in what is to be known of a member that is from now on read through a cell.

    Args:
        first: its value, in an object that nobody else has.
        known: whether it was there before this write.
    """
    held = first._a if type(first) is Tensor else first
    record.shape, record.dtype = held.shape, held.dtype
    record.base = None
    if not record.path:
        return
    node, cell = first._node, record.family.cell
    own = type(cell) is Storage
    if type(node) is Leaf:
        record.leaf, record.cut, record.at = node, True, len(record.path)
    elif node is not None and (cell.value._node if own else cell.leaf) is None:
        _keep_history(record, node)
    record.value = first
    # what a parameter holds may be another since it was taken
    if (own or not known) and modes.stage is None and not host.is_apart(first, cell.value):
        record.source = cell.value


def looked(record: View, base: Any) -> Any:
    """What a member is, where its family holds ``base``."""
    value = base
    saved = None
    views, modes.views = modes.views, False
    leaf, at = record.leaf, record.at
    if (leaf is not None or not record.cut) and not modes.record0:
        saved = modes.barrier, modes.silent
        set_modes(ENABLED, ENABLED)
    try:
        for i, (primitive, params) in enumerate(record.path):
            if leaf is not None and i == at:
                value = _as_leaf(value, leaf)
            if isinstance(primitive, Primitive):
                value = Primitive.__call__(primitive, value, **params)
            else:
                value = primitive(value, **params)
    finally:
        modes.views = views
        if saved is not None:
            set_modes(*saved)
    if leaf is not None:
        if at == len(record.path):
            value = _as_leaf(value, leaf)
    elif record.cut and value._node is not None:
        value = value.detach()
    elif value is base:
        whole = type(value._node) is Leaf  # a view of a leaf is none
        value = Primitive.__call__(reshape, value, shape=value._shape) if whole else twin(value)
    if record.cut is None and value._node is not None:
        raise WriteError(UNTOLD.format(value.spec))
    return value


UNTOLD = (
    "a view {!r} was taken before this program first wrote, and what it is cut of, or a part, was "
    "detached: it cannot be told whether gradients flow to it. Take it again after the write, "
    "x[...] or x.detach()[...]"
)


def _as_leaf(value: Any, leaf: Any) -> Any:
    if modes.stage is not None and type(value) is not Tensor and not leaf.level:
        modes.stage.give_up(
            f"it uses {value.spec!r}, a leaf apart from the tensor whose elements it shows"
        )
    value = twin(value.detach())
    value._node = leaf
    return value


def _of_parameter(record: View, cell: Any) -> Any:
    """A member of a parameter's family: what was detached is told of writes, not of steps."""
    if cell is _Dead:
        return record.value
    stage = modes.stage
    if stage is not None:
        if not record.kept or record.value is None:
            return looked(record, cell.read())
        written = stage.written_of(cell)
        if written is not None:
            return looked(record, written)
        if type(record.value) is not Tensor:
            return record.value
        if record.shown is None:
            record.shown = Shown(record)
        value = record.shown.read()
        return value if record.leaf is None else _as_leaf(value, record.leaf)
    if not record.kept or record.value is None:
        base = cell.read()
        if record.source is not base and type(base) is Tensor:
            record.source, record.value = base, looked(record, base)
    return record.value


class Shown(Cell):
    """What a view that ``detach()`` gave of a parameter shows, which staged functions read.

    It is not what the parameter holds, once an optimizer's step came after.
    """

    __slots__ = ("of",)

    def __init__(self, record: View) -> None:
        self.of = ref(record)
        self.born = record.family.cell.born
        self.name = "what detach() gave"
        self.reduction = self.handle = self.leaf = None

    @property
    def value(self) -> Any:
        """The tensor that is shown now."""
        record = self.of()
        return None if record is None else _of_parameter(record, record.family.cell)


def with_history(value: Any, old: Any, cut: bool = False) -> Any:
    """``value`` with the history of ``old``: what is written behind the tape's back.

    Args:
        cut: whether forward mode does not see it either, as what goes through ``detach()``;
            ``no_grad`` hides it from reverse mode alone.
    """
    if old.level == CELL:
        old = old.read()
    if type(old) is Tensor:
        out = twin(value)
        if old._node is not None:
            out._node = old._node
        return out
    out = old.graft(value, cut, with_history)
    return twin(value) if out is value else out


def keep_histories(family: Family) -> None:
    """Before what the members are views of requires grad no more: each keeps its history."""
    for member in family.alive():
        _keep_history(view_of(member), member.read()._node)


def _keep_history(record: View, node: Any) -> None:
    """Let a view have a history of its own: what it is a view of requires grad no more."""
    if node is not None and record.path and not record.cut:
        record.leaf, record.at, record.cut, record.lost = node, len(record.path), True, True
        record.source = None


def regain(family: Family) -> None:
    """The first of a family has a history again: let its views that lost theirs have that one."""
    for record in map(view_of, family.alive()):
        if record.lost:
            record.leaf, record.at, record.cut, record.lost = None, 0, False, False
            record.source = None
