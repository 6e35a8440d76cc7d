"""Storing: what a write does to the values of a family.

Where nothing is recorded the new elements are written into the family's own memory, if nobody else
holds that, and into a copy otherwise. Else the value is a new one, computed as ``x.at[i].set(v)``
computes it, so that gradients flow and transforms see it.
"""

from __future__ import annotations

from typing import Any

from numpy import ascontiguousarray, ndarray

from fx.config import is_grad_enabled, modes, writing
from fx.dtypes import INEXACT, bool_
from fx.errors import WriteError
from fx.prims.compare import chosen, stop_gradient
from fx.prims.creation import constant
from fx.state import Cell, _fits
from fx.tape import CELL, Leaf, Select
from fx.tensor import Tensor, new_tensor
from fx.writing import host
from fx.writing.checking import check
from fx.writing.layouts import first_expanded, place_in
from fx.writing.memory import hold, is_plain, memory, plain_record, plain_whole
from fx.writing.records import Family, Storage, View, is_whole, record_of, twin, view_of
from fx.writing.replacing import changed, replaced
from fx.writing.written import UNTOLD, convert, looked, next_number, regain, with_history


def renew(x: Any, operation: str, value: Any, alone: bool = False) -> Any:
    """Let ``x`` be what an operation in place gives: of its shape, and cast to its dtype.

    Args:
        x: the tensor.
        operation: how the user calls it.
        value: what it gives.
        alone: whether nobody holds the object but who writes.

    Raises:
        WriteError: if it has another shape, or a dtype that does not fit.
    """
    if type(value) is Tensor and (replaced_all(x, value) or _renewed(x, value, alone)):
        return x
    dtype, shape = x._dtype, x._shape
    if value._dtype != dtype:
        if not _fits(value._dtype, dtype):
            raise WriteError(
                f"{operation}: result type {value.dtype.name} can't be cast to the desired output "
                f"type {dtype.name}; write x = x.to(torch.{value.dtype.name}) first"
            )
        value = value.astype(dtype)
    if value._shape != shape:
        raise WriteError(
            f"{operation}: output with shape {list(shape)} doesn't match the broadcast shape "
            f"{list(value.shape)}"
        )
    record = check(x, operation, alone=alone)
    store(record, value)
    return x


def replaced_all(x: Any, value: Tensor) -> bool:
    """Let all of a family be plain values; False where something may stand in the way."""
    record = plain_whole(x)
    if record is None or (value._node is not None and modes.record0):
        return False
    array, family = value._a, record.family
    if type(array) is not ndarray or array.dtype is not record.dtype:
        return False
    if array.shape != record.shape or family.strides is not None or not array.flags.c_contiguous:
        return False
    cell = family.cell
    held = new_tensor(array)
    held._node = cell.value._node
    cell.value = held
    return True


def _renewed(x: Any, value: Tensor, alone: bool) -> bool:
    """Store plain values where nothing stands in the way; False where ``renew`` has to look."""
    record = plain_record(x, alone)
    if record is None:
        return False
    family, array = record.family, value._a
    if type(array) is not ndarray or array.dtype is not record.dtype:
        return False
    if array.shape != record.shape or (value._node is not None and modes.barrier < 0):
        return False
    cell = family.cell
    if not is_whole(record.path) or host.is_shared(cell):
        if first_expanded(record.path) < len(record.path):
            return False
        place = place_in(record, memory(family))
        if place is None:
            return False
        place[...] = array
        return True
    if family.strides is None and not array.flags.c_contiguous:
        return False
    held = new_tensor(array)
    held._node = cell.value._node
    cell.value = held
    return True


def records(x: Any, value: Any) -> bool:
    """Whether a write of ``value`` into a tensor that was not written yet would be recorded."""
    if not modes.record0 or type(x) is not Tensor or type(x._node) is Leaf:
        return False
    return x._node is not None or (isinstance(value, Tensor) and value._node is not None)


def take(x: Tensor, value: Any) -> bool:
    """Let a tensor that nobody else holds be a recorded value; False where that cannot be.

    No pullback can have kept it, and no view of it is alive: whether its elements changed or its
    name was bound again nobody could tell. So it stays a plain tensor.
    """
    if modes.stage is not None or modes.journal is not None or not writing.started:
        return False
    if type(value) is not Tensor:
        return False
    known = getattr(x, "_view", None)
    if known is not None:
        family = known.family
        if family is None or family.cell is not None or known.path or family.unclear:
            return False
        if family.alive():
            return False
    array, held, before = value._a, x._a, x._node
    if type(array) is not ndarray or type(held) is not ndarray:
        return False
    if array.dtype is not held.dtype or array.shape != held.shape or host.is_hosted(held):
        return False
    if not (array.flags.c_contiguous and held.flags.c_contiguous) or type(before) is Leaf:
        return False
    if before is not None and not _comes_from(value._node, before):
        return False
    if known is not None:
        x._view = None
    x._a, x._node = array, value._node
    return True


def place_of_sum(old: Any, new: Any) -> Any:
    """The slot, and its value, by which a written gradient gets another value; None if it cannot.

    Args:
        new: just computed, of the same shape and dtype.
    """
    record = plain_record(old)
    if record is None or type(new) is not Tensor or new._node is not None:
        return None
    family, array = record.family, new._a
    if not is_whole(record.path) or family.strides is not None or host.is_shared(family.cell):
        return None
    if type(array) is not ndarray or not array.flags.c_contiguous:
        return None
    return None if family.cell.value._node is not None else (family.cell, "value", new)


def store(record: View, value: Any) -> None:
    """Let a member have this value, of its shape and dtype."""
    if value.level == CELL:
        value = value.read()
    family = record.family
    cell = family.cell
    if is_grad_enabled():
        if record.cut is None and value._node is not None:
            raise WriteError(UNTOLD.format(value.spec))
        if value._node is not None and any(map(_is_leaf, family.alive())):
            raise WriteError(_LEAVES.format(value.spec))
        if record.parted and (value._node is not None or cell.read()._node is not None):
            raise WriteError(_PARTED.format(value.spec))
        if not record.cut and cell.read()._node is not None:
            base = cell.read()
            if not record.path and record.leaf is None:
                before = base
            else:
                before = record.value if record.source is cell.value else looked(record, base)
            del base
            value = recorded(before, value)
            del before
        elif record.cut and (value._node is not None or record.leaf is not None):
            _store_apart(record, value)
            return
    if not record.path and type(cell) is Storage:
        keeps = not is_grad_enabled()
        _put(family, with_history(value, cell.read()) if keeps else twin(value))
        return
    if type(cell) is Storage and is_plain(cell.read(), value):
        place = place_in(record, memory(family))
        if place is not None:
            place[...] = value._a
            return
    _put(family, changed(record, cell.read(), value))


_LEAVES = (
    "{!r} is written, with a history, where a view lies that is a leaf of its own since "
    "v.requires_grad_(): it could not have that history and stay one. Write "
    "v = v.detach().clone().requires_grad_(), or write inside `with torch.no_grad():`"
)
_PARTED = (
    "{!r} is written, with a history, into a tensor that has another memory than its views since "
    "`x.data = v`, or is such a view, or shares its memory with what was detached of a part and "
    "resized: gradients would flow to values that are not there. Write x.data.copy_(v) instead of "
    "x.data = v, or x = v"
)


def _store_apart(record: View, value: Any) -> None:
    """Let what is cut of a tensor have a value with a history of its own.

    As ``d = x.detach(); d.mul_(w)``: the elements are those of ``x``, whose history stays what it
    was; that of ``d`` and of the views of ``d`` begins here.
    """
    family, path = record.family, record.path
    at = record.at
    if record.leaf is None:
        cuts = [i for i, (primitive, _) in enumerate(path) if primitive is stop_gradient]
        at = cuts[-1] + 1 if cuts else -1
    if modes.stage is not None:
        modes.stage.give_up("it writes a value that requires grad into a detached tensor")
    base = family.cell.read()
    if family.found and any(map(is_untold, map(view_of, family.alive()))):
        at = -1
    if first_expanded(path[:at]) < at:  # of elements that are there twice one has two values
        at = -1
    if at < 0 or type(base) is not Tensor or type(value) is not Tensor:
        raise WriteError(
            "a value that requires grad is written into a detached tensor, through which no "
            "gradient can flow; write v.detach(), or write inside `with torch.no_grad():`"
        )
    head, rest = path[:at], path[at:]
    apart = View(family, head, None, True)
    apart.leaf, apart.at = record.leaf, at
    before = looked(apart, base)
    after = recorded(before, replaced(rest, before, value))
    new = with_history(replaced(head, stop_gradient(base), after.detach()), base, cut=True)
    for member in family.alive():
        other = view_of(member)
        steps = other.path[:at]
        of_it = len(steps) == at and all(a is b for a, b in zip(steps, head))
        if of_it and not any(primitive is stop_gradient for primitive, _ in other.path[at:]):
            other.leaf, other.at, other.cut = after._node, at, True
            other.source = None
    _put(family, new)


def _is_leaf(x: Any) -> bool:
    """Whether a view, with nothing detached on its way, is a leaf apart from its first."""
    record = view_of(x)
    if type(record.leaf) is not Leaf or record.lost or record.at != len(record.path):
        return False
    return all(step is not stop_gradient for step, _ in record.path)


def is_untold(record: View) -> bool:
    """Whether it is not told of a view what it is cut of, a tensor or what was detached of it."""
    return record.cut is not False and all(step is not stop_gradient for step, _ in record.path)


def recorded(before: Any, value: Any) -> Any:
    """``value``; where what was there required grad, it still does, and gets zeros."""
    if value.dtype not in INEXACT:
        return value
    if before._node is None or _comes_from(value._node, before._node):
        return value
    return chosen(constant(False, bool_, value.device.name), before, value)  # type: ignore[no-any-return]


def _comes_from(node: Any, before: Any) -> bool:
    """Whether a few steps lead from a node to one before; what overwrites all comes from others."""
    near = [node]
    for _ in range(8):
        if not near:
            break
        node = near.pop()
        if node is before:
            return True
        if type(node) is Select or (node is not None and node.seq > before.seq):
            near += node.parents
    return False


def _put(family: Any, base: Any) -> None:
    """Let a family hold another value."""
    cell = family.cell
    if type(cell) is Storage:
        gains = base._node is not None and cell.value._node is None
        if modes.stage is None and host.is_shared(cell):
            host.put(cell, memory(family), base)
            return
        if type(base) is Tensor and family.strides is None:
            _order(base)
        hold(cell, base)
        if gains:
            regain(family)
        return
    if type(cell).rebind is None:  # pragma: no cover
        return
    cell._forgets(base)
    if modes.stage is None and host.memories:
        host.renewed(cell, family, lambda: cell.rebind(base))
    else:
        cell.rebind(base)
    if modes.stage is None:
        refresh(family)
    elif modes.stage.lasts(cell):
        modes.stage.writes(cell)


def _order(x: Tensor) -> None:
    """Let the elements lie in the order of the axes, as they did before the write."""
    array = x._a
    if type(array) is ndarray and not array.flags.c_contiguous:
        x._a = ascontiguousarray(array)


def refresh(family: Any) -> None:
    """Let the members of a parameter's family see what it holds now."""
    base = family.cell.read()
    for member in family.alive():
        record = view_of(member)
        record.source, record.value = base, looked(record, base)


def left(family: Any, value: Any, members: list[Any]) -> None:
    """The cell of a family gets other memory: its views stay what they are, of the old one.

    Args:
        value: what the cell holds, whose memory it leaves.
        members: the views.
    """
    if not members:
        return
    first = None if type(value) is Tensor else twin(value)
    apart = Family(first, getattr(value, "_a", None))
    if family.cell is not None:
        apart.cell = Storage(twin(value))
    for y in members:
        seen = view_of(y)
        seen.family, seen.source = apart, None
        seen.base = seen.base if first is None else first
        apart.add(y)
    family.members = []


def refill(x: Any, value: Any) -> None:
    """``x.data = value`` of a tensor whose cell an optimizer has: that goes on with the new values.

    What was cut of ``x`` keeps the old ones, and ``value`` is from now on a view of ``x``.

    Raises:
        WriteError: if ``value`` is of another shape or dtype, or shares its elements with others.
    """
    record, own = record_of(x), record_of(value)
    family, cell = record.family, record.family.cell
    if family is own.family:
        raise WriteError("x.data = v: v is a part of x; write x.data.copy_(v)")
    holders = (*own.family.alive(), own.family.root())
    others = [y for y in holders if y is not None and y is not value]
    same = (value.shape, value.dtype) == (x.shape, x.dtype)
    if others or not same or isinstance(value, Cell) or value._node is not None:
        raise WriteError(
            f"x.data = v: an optimizer has x, {x.spec!r}, and v, {value.spec!r}, is of another "
            f"shape or dtype, shares its elements with others or requires grad; write "
            f"x.data = v.detach().clone(), or make the optimizer afterwards"
        )
    if modes.stage is not None:
        modes.stage.give_up("it assigns to x.data of a tensor that an optimizer has")
    now, before = twin(value), cell.read()
    left(family, before, [y for y in family.alive() if y is not x])
    cell.rebind(now)
    value._view = made = View(family, ((stop_gradient, {}),), None, True)
    made.shape, made.dtype = x.shape, x.dtype
    family.add(value)
    convert(value, next_number())
