"""Noting: views are noted when they are made, from the first write of a process on.

Before it, of tracers and cells only, and where memory could not tell it afterwards.
"""

from __future__ import annotations

from math import prod
from typing import Any
from weakref import ref

import numpy as np

from fx.config import modes, writing
from fx.handles import Data, Part
from fx.levels import live
from fx.primitive import Primitive
from fx.prims.compare import stop_gradient
from fx.prims.complex import conj, part
from fx.prims.shape import broadcast_to, reshape, slice, transpose
from fx.tape import CELL, Leaf
from fx.tensor import Tensor, _new
from fx.writing import host
from fx.writing.layouts import gives_view, has_positions, lies_as_told, owner_of, shares, strides_of
from fx.writing.records import Family, Storage, View, copies, new_record, origins
from fx.writing.written import PLAIN, begin, member_of

SURELY = 2  # the value of ``modes.views`` while a reshape gives a view wherever elements lie


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
        undone: what gives all of the tensor of what is to stand there, where that is all of it.
    """

    __slots__ = ("cpu", "function", "undone")

    def __init__(self, function: Any, cpu: Any, undone: Any = None) -> None:
        self.function = function
        self.cpu = cpu
        self.undone = undone

    def __call__(self, x: Any, **params: Any) -> Any:
        """The elements, as a view of ``x``."""
        if type(x) is Tensor and not writing.started and not modes.views:
            out, own = self.function(x, **params), x._a  # whose memory tells of it
            if type(out) is Tensor and type(own) is np.ndarray:
                base = out._a.base
                if base is not None and (base is own or base is own.base):
                    return out
        views, modes.views = modes.views, False
        try:
            out = self.function(x, **params)
        finally:
            modes.views = views
        held = x.read() if x.level == CELL else x
        if type(held) is Tensor and type(held._a) is np.ndarray and prod(out._shape):
            if type(out) is not Tensor:  # staged, for its places are: no memory tells of it
                views = views or not writing.started
            else:
                base, own = out._a.base, held._a
                if base is None or (base is not own and base is not own.base):
                    place = self.cpu(own, **params)  # the function has copied
                    if place.base is not None:
                        out._a = place
        if views and out is not x:
            return link(x, out, self, params)
        return out


def link(x: Any, out: Any, primitive: Any, params: dict[str, Any]) -> Any:
    """Note that ``out``, just made, is a view of ``x``; ``out``, or another object for it."""
    if type(out) is Tensor:
        if type(x) is Tensor:
            if _of_plain(x, out, primitive, params):
                return out
        elif x.written:
            made = _of_written(x, out, primitive, params)
            if made is not None:
                return made
        elif _of_cell(x, out, primitive, params):
            return out
    lead: tuple[Any, ...] = ()
    plain = type(out) is Tensor and type(x) is Tensor
    if not plain and isinstance(x, Data):
        x, lead = behind(x)
    record = getattr(x, "_view", None)
    if record is None or record.family is None:
        record = new_record(x)
    family = record.family
    step = (primitive, params)
    path = (*record.path, *lead, step) if lead else (*record.path, step)
    base, detached = None, primitive is stop_gradient
    cut = record.cut or bool(lead) or detached
    moves = primitive is reshape and modes.views is not SURELY  # whether it may move elements
    if plain:
        if moves and _moves(family, path, x._a, out._a):
            return out
        node = x._node
        if out._node is not None:
            base = x
        elif node is not None:
            cut = True
        if host.memories and not shares(x._a, out._a) and host.is_hosted(x._a):
            start()  # what NumPy writes is seen by what is looked up through a cell
            begin(x._view.family)
            return link(x, out, primitive, params)
    else:
        if out.written:  # what made it is made of views, and the family has begun
            known = out._view
            known.path, known.cut = path, cut or known.cut
            known.kept = known.kept or record.kept or detached
            known.source = None
            return out
        held = x
        if x.level != CELL:
            base = x
        else:
            held = x.read()
            if (type(out) is not Tensor or detached) and out is held:
                # all of it: but what a cell holds is no object of the user's
                out = Primitive.__call__(reshape, out, shape=out.shape)
        if moves:
            if x.written and type(held) is Tensor and type(out) is Tensor:
                moved = _moves(family, path, held._a, out._a)
            else:
                moved = not gives_view(family, path)
            if moved:
                return out
        node = held._node
        if not cut and type(out) is Tensor and out._node is None and node is not None:
            cut = True
    made = View(family, path, base, cut)
    if detached:
        made.kept = True
    else:
        made.kept = record.kept
        if record.leaf is not None and not (type(out) is Tensor and out._node is None):
            made.leaf, made.at, made.cut, made.lost = record.leaf, record.at, True, record.lost
        elif record.path and type(node) is Leaf:
            made.leaf, made.at, made.cut = node, len(record.path), True
    if family.cell is not None:
        out = member_of(out, made)
    else:
        out._view = made
        if family.of_user:
            if not family.watched:
                writing.watched[id(family)] = family
                family.watched = True
            if not writing.started and type(out) is Tensor:
                if primitive is conj:
                    _note_copy(x, out)
                else:
                    note_origin(family, out._a)
    members = family.members
    if len(members) >= family.limit:
        members = family.swept()
    members.append(ref(out))
    return out


def _of_plain(x: Tensor, out: Any, primitive: Any, params: dict[str, Any]) -> bool:
    """Note a view of a tensor that was not written; False where more is to be looked at."""
    record: View | None = getattr(x, "_view", None)
    if record is None:
        return False
    family = record.family
    if family is None or record.leaf is not None or host.memories:
        return False
    if family.cell is not None or family.of_user:
        return False
    if primitive is reshape and modes.views is not SURELY:
        array, first = x._a, family.array
        if type(array) is not np.ndarray or not (array is first or array.base is first):
            return False
        if family.strides is not None or not first.flags.c_contiguous:
            return False
        base = out._a.base
        if base is None or not (base is array or base is array.base):
            return False  # it has moved the elements
    detached = primitive is stop_gradient
    base, cut = None, record.cut or detached
    path = record.path
    node = x._node
    if node is not None:
        if path and type(node) is Leaf:
            return False
        if out._node is None:
            cut = True
        else:
            base = x  # whose history is that of the first
    out._noted = (family, path, primitive, params, base, cut, detached or record.kept)
    members = family.members
    if len(members) >= family.limit:
        members = family.swept()
    members.append(ref(out))
    return True


def _of_cell(x: Any, out: Any, primitive: Any, params: dict[str, Any]) -> bool:
    """Note a view of a parameter that was not written; False where more is to be looked at."""
    record = getattr(x, "_view", None)
    if record is None or record.path or record.leaf is not None or primitive is conj:
        return False
    family = record.family
    if family.cell is not None or not family.of_user or (live and modes.stage is not None):
        return False
    if primitive is reshape and modes.views is not SURELY:
        return False
    detached = primitive is stop_gradient
    lost = detached or (out._node is None and x._node is not None)
    kept = detached or record.kept
    out._noted = (family, (), primitive, params, None, record.cut or lost, kept)
    if not family.watched:
        writing.watched[id(family)] = family
        family.watched = True
    if not writing.started:
        note_origin(family, out._a)
    members = family.members
    if len(members) >= family.limit:
        members = family.swept()
    members.append(ref(out))
    return True


def _of_written(x: Any, out: Tensor, primitive: Any, params: dict[str, Any]) -> Any:
    """A view of a written tensor to which no gradient flows; None where more is to be looked at."""
    record = x._view
    family = record.family
    cell = family.cell
    if type(cell) is not Storage or record.leaf is not None or modes.stage is not None:
        return None
    base = cell.value
    if type(base) is not Tensor or out is base or out._node is not None:
        return None
    detached = primitive is stop_gradient
    if base._node is not None and not (record.cut or detached):
        return None
    array = base._a
    if type(array) is not np.ndarray or array.base is not None:
        return None
    if id(array) in host.memories and host.is_hosted(array):
        return None
    in_order = family.strides is None and out._a.base is array and array.flags.c_contiguous
    if primitive is reshape and not in_order and modes.views is not SURELY:
        return None  # it may have moved the elements
    made = View(family, (*record.path, (primitive, params)), None, record.cut or detached)
    if detached or record.kept:
        made.kept = True
    looked = out._a
    made.shape, made.dtype = looked.shape, looked.dtype
    made.source, made.value = base, out
    view = _new(PLAIN)
    view._noted = made
    members = family.members
    if len(members) >= family.limit:
        members = family.swept()
    members.append(ref(view))
    return view


def _moves(family: Family, path: Any, before: Any, after: Any) -> bool:
    """Whether a reshape, the last step of a path, moves elements in PyTorch.

    Args:
        before, after: what it makes of the array here.
    """
    if prod(before.shape) == 1:
        return False
    if lies_as_told(family, before):
        return not shares(before, after)
    return not gives_view(family, path)


def behind(x: Any) -> tuple[Any, tuple[Any, ...]]:
    """The parameter that a handle, ``p.data`` or a part of it, is of, and the steps from there."""
    if not isinstance(x, Data) or x.owner is None:
        return x, ()
    owner, lead = behind(x.owner)
    if isinstance(x, Part):
        from fx.ops.indexing import getting
        from fx.ops.indexing.views import fixed
        from fx.writing.views import index_of

        if has_positions({"index": x.index}):
            return owner, (*lead, (getting.at_positions, {"index": x.index}))
        return owner, (*lead, (index_of, {"index": fixed(x.index)}))
    return owner, (*lead, (stop_gradient, {}))


def moved(x: Any, out: Any, surely: bool) -> None:
    """Before the first write: note a view for which elements had to be moved.

    Args:
        x: a plain tensor of the CPU.
        out: it, reshaped.
        surely: whether PyTorch gives a view or raises; else it moves elements where its strides,
            which are those of the array unless that is flipped, ask for it.
    """
    array = x._a
    flipped = strides_of(array) is None and all(array.strides)
    if shares(array, out._a) or not (surely or flipped):
        return
    elsewhere(x, out, reshape, {"shape": out.shape})


def elsewhere(x: Any, out: Any, primitive: Any, params: dict[str, Any]) -> Any:
    """Before the first write: note a view that does not lie in the memory of ``x``.

    Returns:
        ``out``, or another object for it.
    """
    writing.apart = True
    views, modes.views = modes.views, SURELY
    try:
        out = link(x, out, primitive, params)
    finally:
        modes.views = views
    if not writing.started:
        _note_copy(x, out)
    return out


def _note_copy(x: Any, out: Any) -> None:
    """Note a view of ``x`` with memory of its own; others may be cut of that when it is gone."""
    array = out._a
    if type(array) is np.ndarray:
        owner = owner_of(array)
        number = id(owner)

        def gone(_: Any, forget: Any = copies.pop) -> None:
            forget(number, None)

        copies[number] = ref(owner, gone), x, out._view, array.shape, out._node is not None


def note_origin(family: Family, array: Any) -> None:
    """Note in what memory a parameter was when a view of it was taken, and where in it."""
    if type(array) is np.ndarray:
        owner = array if array.base is None else owner_of(array)
        found = origins.get(id(owner))
        if found is None or found[0]() is not owner:
            origins[id(owner)] = ref(owner), family, *_place_in(owner, family)
        elif found[1] is not family:
            origins[id(owner)] = ref(owner), False, None, None
        family.told = ref(owner)


def _place_in(owner: Any, family: Family) -> tuple[Any, Any]:
    """Dtype, offset and strides of a parameter in memory, None if it lies elsewhere; its tensor."""
    value = getattr(family.root(), "value", None)
    held = getattr(value, "_a", None)
    if type(held) is not np.ndarray or owner_of(held) is not owner:
        return None, None
    offset = held.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
    return (held.dtype, offset, held.strides), ref(value)


def _primitives() -> tuple[Any, ...]:
    return reshape, transpose, slice, broadcast_to, stop_gradient, part, conj


def watch_views() -> None:
    """From now on view primitives note what they give of tracers and cells, where they are told."""
    for primitive in _primitives():
        primitive.__class__ = ViewPrimitive
    writing.note, writing.moved, writing.elsewhere = link, moved, elsewhere


def start() -> None:
    """Before the first write: find the views that there are, and note all from now on."""
    if writing.started:
        return
    from fx.writing import finding, views

    finding.families()
    writing.started = True
    writing.moved = writing.elsewhere = None
    for primitive in _primitives():
        primitive.__class__ = Noting
    views.follow()


def forget() -> None:
    """Be as before the first write, for tests; what was written by then must be gone."""
    if not writing.started:
        return
    from fx.writing import views

    writing.started = False
    writing.moved, writing.elsewhere = moved, elsewhere
    for primitive in _primitives():
        primitive.__class__ = ViewPrimitive
    views.follow(False)
