"""Data: the elements of another tensor, given by ``detach()`` and ``x.data``, or taken.

``x.data = v``, ``set_`` and ``detach_`` let a tensor show other elements than it did, or without
their history: it is then another member of another family.
"""

from __future__ import annotations

from sys import _getframe
from typing import Any

from numpy import ndarray

from fx.config import modes, no_grad, writing
from fx.errors import WriteError
from fx.levels import Tracer
from fx.prims.compare import stop_gradient
from fx.prims.shape import reshape
from fx.tape import CELL
from fx.tensor import Tensor, _blank, new_tensor
from fx.writing import views
from fx.writing.checking import check
from fx.writing.noting import link, start
from fx.writing.records import CUT, detached, leads_to, record_of, shortened, twin
from fx.writing.resizing import shows
from fx.writing.storing import is_untold, refill
from fx.writing.who import writes
from fx.writing.written import begin


def adopt(x: Any, other: Any, name: str) -> Any:
    """Let ``x`` be another view of its own family, or one of the family of ``other``."""
    start()
    record, new = record_of(x), record_of(other)
    check(x, name, writes=False)
    if not x.written:
        begin(record.family)
    if new.family.cell is None:
        begin(new.family)
    if x.level == CELL and not x.written:
        raise WriteError(f"{name}: a parameter keeps its shape; write p.data = ...")
    shape, dtype = other.shape, other.dtype
    own = record.family is new.family
    same = new.path[-1:] == ((reshape, {"shape": x.shape}),)
    if own and same and leads_to(record.path, new.path, 1):
        return x  # nothing was to be squeezed
    path = new.path if record.leaf is not None else shortened(new.path)
    shows(x, new.family, path, new.cut, shape, dtype)
    return x


def set_(self: Any, source: Any = None) -> Any:
    """Be another tensor, whose elements it shares from then on."""
    if source is None:
        source = self.new_empty((0,))
    leaf = self._node
    if leaf is not None:
        raise WriteError("set_: a tensor that requires grad keeps its history; write x.data = y")
    return adopt(self, source, "set_")


def detach(self: Any) -> Any:
    """The same elements, through which nothing is differentiated."""
    if type(self) is Tensor and not writing.started and type(array := self._a) is ndarray:
        return _marked(array)
    held = self.read() if self.level == CELL else self
    if type(held) is not Tensor or type(array := held._a) is not ndarray:
        return stop_gradient(self)
    out = new_tensor(array)
    return link(self, out, stop_gradient, {}) if modes.views else out


def _marked(array: ndarray) -> Tensor:
    """What is detached before the first write: a tensor of an array, with the mark of that."""
    out = _blank()
    out._a = array
    out._node = None
    out._noted = CUT
    base = array.base
    detached.add(id(array if base is None else base))
    return out


def _get_data(self: Any) -> Any:
    """The same elements, through which nothing is differentiated, and which steps change too."""
    if type(self) is Tensor and not writing.started and type(array := self._a) is ndarray:
        return _marked(array)
    out = detach(self)
    if (getattr(out, "_noted", None) or CUT) is not CUT:
        out._view.kept = (getattr(self, "_view", None) or CUT).kept
    return out


def _cut(x: Any) -> Any:
    """The same elements without their history, noted as a view."""
    return views.noted(detach, x)


def detach_(self: Any) -> Any:
    """Have no history from now on."""
    if isinstance(self, Tracer) and not self.written:
        raise WriteError("detach_: inside a transform write x = x.detach()")
    if self._node is None:
        return self
    record = record_of(self)
    if record.path and not record.cut:
        raise WriteError("Can't detach views in-place. Use detach() instead")
    if record.cut:
        if record.kept and self.written and record.value is not None:
            record.value = twin(self.read().detach())
        record.leaf = record.source = None
        if not self.written:
            self._node = None
        return self
    with no_grad():  # the same elements; what was cut of it keeps its history
        return adopt(self, _cut(self), "detach_")


def _set_data(self: Any, value: Any) -> None:
    """``x.data = value``."""
    if not writes(_getframe(1)):
        _refuse(self, value)
    hold(self, value)


def hold(self: Any, value: Any) -> None:
    """Hold the elements of another tensor from now on; it stays the leaf that it is."""
    from fx.ops.convert import as_tensor

    if value is self or _is_data_of(value, self):  # as `x.data -= v` ends
        return
    value = as_tensor(value)
    node = self._node
    record = getattr(self, "_view", None)
    if self.written and getattr(record.family.cell, "kept", False):
        refill(self, value)
        return
    _part(self)
    if node is None:
        adopt(self, value if value._node is None else _cut(value), "x.data = v")
        return
    with no_grad():
        adopt(self, _cut(value), "x.data = v")
    record = record_of(self)
    record.leaf, record.cut, record.at = node, True, len(record.path)


def _part(x: Any) -> None:
    """Before ``x.data = v``: PyTorch goes on taking its views, and it, for views of one tensor."""
    start()
    record = record_of(x)
    family = record.family
    root = family.root()
    others = [y for y in (*family.alive(), root) if y is not None and y is not x]
    related = [y for y in map(record_of, others) if _is_related(record, y)]
    for one in (*related, record) if related else ():
        one.parted = True


def _is_related(one: Any, two: Any) -> bool:
    """Whether nothing was detached on the way from one to the other, as far as that is known."""
    if one.family.found and (is_untold(one) or is_untold(two)):
        return True
    path, other, same = one.path, two.path, 0
    while same < min(len(path), len(other)) and path[same] is other[same]:
        same += 1
    return not any(step is stop_gradient for step, _ in (*path[same:], *other[same:]))


def _is_data_of(x: Any, owner: Any) -> bool:
    """Whether ``x`` is what ``owner.data`` gives."""
    mine, its = getattr(x, "_view", None), getattr(owner, "_view", None)
    if mine is None or its is None or mine.family is not its.family or not mine.path:
        return False
    return mine.path[-1][0] is stop_gradient and leads_to(its.path, mine.path, 1)


_refuse: Any = None


def attach() -> None:
    """Put them on Tensor."""
    global _refuse
    _refuse = Tensor.__dict__["data"].fset
    Tensor.detach = detach  # type: ignore[attr-defined]
    Tensor.data = property(_get_data, _set_data, doc=detach.__doc__)  # type: ignore[attr-defined]
