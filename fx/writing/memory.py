"""Memory: where the elements of written tensors lie, and whether anybody else holds them.

Python's counts of references tell that of arrays and of the tensors around them.
"""

from __future__ import annotations

from sys import getrefcount
from typing import Any

from numpy import ndarray

from fx.config import is_grad_enabled, modes, writing
from fx.errors import WriteError
from fx.handles import Data, Gradient
from fx.state import Cell
from fx.tape import CELL, GradTracer, Leaf
from fx.tensor import Tensor, new_tensor
from fx.writing import host
from fx.writing.layouts import first_expanded, place_in
from fx.writing.records import Storage, View, is_whole, record_of, view_of
from fx.writing.written import begin, begin_alone


def is_plain(*values: Any) -> bool:
    """Whether these are arrays of the CPU, of which nothing would be recorded."""
    recording = is_grad_enabled()
    return modes.stage is None and all(
        type(x) is Tensor and type(x._a) is ndarray and not (recording and x._node is not None)
        for x in values
    )


def plain_whole(x: Any, parts: bool = False) -> View | None:
    """The record of a written tensor that is all of its family, at most detached.

    None where something is to be looked at before a write: what is staged, noted, recorded, shared
    with NumPy, or not known yet.

    Args:
        parts: whether it may be a part of its family, of which each element is another one.
    """
    if not x.written:
        return None
    now = modes.__dict__  # one look at what the thread has: an attribute of it costs as much
    if now["stage"] is not None or now["journal"] is not None:
        return None
    record: View = x._noted
    family = record.family
    cell = family.cell
    if record.leaf is not None or type(cell) is not Storage or family.unclear:
        return None
    path = record.path
    if path and not is_whole(path) and not (parts and first_expanded(path) == len(path)):
        return None
    base = cell.value
    if type(base) is not Tensor or (base._node is not None and now["record0"] and not record.cut):
        return None
    array = base._a
    if type(array) is not ndarray or array.base is not None:
        return None
    if id(array) in host.memories and host.is_hosted(array):
        return None
    return record


def own_memory(x: Any, parts: bool = False) -> Any:
    """The array of a tensor that is written, which nobody else holds; None where that is not so.

    Or where that takes a longer look, which ``memory`` has. With ``parts`` also the part of such
    an array in which a view lies.
    """
    if not x.written:
        return _memory_of_cell(x) if x.level == CELL else None
    record = plain_whole(x, parts)
    if record is None:
        return None
    family = record.family
    if family.members:
        _outdate(family)
    base = family.cell.value
    array = base._a
    # `base` is held by the cell and this frame, the array by `base` and this frame
    if getrefcount(base) > 3 or getrefcount(array) > 3:
        return None
    return place_in(record, array) if parts and record.path else array


# elements that NumPy writes before another thread may run, which could take a parameter meanwhile
_AT_ONCE = 500


def _memory_of_cell(x: Any) -> Any:
    """The same of a parameter or buffer, and of its ``data`` and ``grad``."""
    now = modes.__dict__
    if now["stage"] is not None or now["journal"] is not None or now["transaction"] is not None:
        return None
    cell = x.owner if type(x) is Data else x
    if not isinstance(cell, Cell) or isinstance(cell, Data):
        return None
    if cell is x and x.leaf is not None and now["record0"]:  # which is refused
        return None
    record = getattr(cell, "_view", None)
    if record is not None and (record.family.cell is not None or record.family.swept()):
        return None
    base = cell.value
    if type(base) is not Tensor:
        return None
    array = base._a
    if type(array) is not ndarray or array.base is not None or array.size > _AT_ONCE:
        return None
    if id(array) in host.memories and host.is_hosted(array):
        return None
    resting = type(cell) is Gradient and cell.place.grad is base  # which holds it as well
    return None if getrefcount(base) > 3 + resting or getrefcount(array) > 3 else array


def plain_record(x: Any, alone: bool = False) -> View | None:
    """The record of a tensor that is written as a NumPy array is, with nothing else to do.

    None where something is staged or noted, would be recorded or refused, or is not known yet.
    """
    if modes.stage is not None or modes.journal is not None:
        return None
    if not x.written:
        if alone and begin_alone(x):
            return x._noted  # type: ignore[no-any-return]
        new = type(x) is Tensor and writing.started and getattr(x, "_noted", None) is None
        if not new or x._node is not None or not x._a.ndim:
            return None
        begin(record_of(x).family, alone)
    record: View = x._noted
    family = record.family
    cell = family.cell
    if type(cell) is not Storage or family.unclear or record.leaf is not None:
        return None
    base = cell.value
    if type(base) is not Tensor or type(base._a) is not ndarray:
        return None
    if base._node is not None and modes.barrier < 0 and not record.cut:  # recorded, or refused
        return None
    if record.path and first_expanded(record.path) < len(record.path):
        return None
    return record


def _outdate(family: Any) -> None:
    """Forget what the members of a family were: its memory is about to change."""
    members = family.members
    if members:
        family.members = [held for held in members if _outdated(held())]
    root = family.root()
    if root is not None and root._view.source is not None:
        _outdated(root)


def _outdated(member: Any) -> bool:
    """Forget what a member of a family was; False if that is gone."""
    if member is None:
        return False
    record = view_of(member)
    record.source = record.value = None
    return True


def memory(family: Any) -> Any:
    """The array of a family, which nobody else holds: its own, or else a copy in its place."""
    cell = family.cell
    base = cell.value
    array = base._a
    own = type(array) is ndarray and array.base is None
    if (not own or id(array) in host.memories) and host.is_shared(cell):
        del base, array
        return host.settled(family)
    _outdate(family)
    # What runs again needs what was there before. Else `base` is held by the cell and by this
    # frame, and the array by `base` and by this frame.
    if (
        own
        and modes.journal is None
        and getrefcount(base) <= 3
        and getrefcount(array) <= 3
        and array.flags.writeable
    ):
        return array
    held = new_tensor(array.copy("K"))
    held._node = base._node
    hold(cell, held)
    return held._a


def hold(cell: Storage, value: Any) -> None:
    """Let a storage hold another value."""
    stage = modes.stage
    if stage is not None and stage.lasts(cell):
        if type(value) is GradTracer and type(value._node) is Leaf:
            value = value.value  # the leaf stays the cell's
        if value._node is not None:
            stage.give_up("it writes a value that requires grad into a tensor outside")
        cell.rebind(value)
        stage.writes(cell)
        return
    if modes.journal is not None:
        modes.journal.append((cell, cell.value))
    if type(value) is not Tensor and value.level > cell.born:
        raise WriteError(
            f"a value {value.spec!r} inside {value.transform} is written into a tensor that was "
            f"made outside of it and lives longer; return it from the transformed function, or "
            f"write into x.clone()"
        )
    cell.value = value
