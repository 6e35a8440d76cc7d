"""Items: ``x[i] = v``."""

from __future__ import annotations

from typing import Any

from numpy import generic, ndarray

from fx.config import modes
from fx.errors import WriteError
from fx.ops.convert import as_tensor
from fx.ops.indexing.putting import is_basic
from fx.tape import CELL
from fx.tensor import Tensor
from fx.writing.checking import check
from fx.writing.layouts import first_expanded, overlaps, place_in
from fx.writing.memory import is_plain, memory, own_memory, plain_record
from fx.writing.noting import start
from fx.writing.records import Storage, View, leads_to, record_of, view_of
from fx.writing.storing import store
from fx.writing.views import index_of, noted


def set_item(x: Any, index: Any, value: Any, alone: bool = False) -> None:
    """``x[index] = value``; ``alone``: whether nobody holds the object but who writes."""
    record = plain_record(x, alone)
    if record is not None and _put(record, index, value):
        return
    start()
    record = record_of(x)
    if index is not ... and first_expanded(record.path) < len(record.path) and overlaps(record):
        part = noted(lambda: x[index])  # of which elements may be written into
        if part is not x and getattr(part, "_view", None) is not None:
            set_item(part, ..., value)
            return
    record = check(x, "x[...] = v", alone=alone)
    cell = record.family.cell
    if isinstance(value, Tensor) and value.level == CELL:
        if value.written and _is_itself(record, index, value):
            return
        value = value.read()
    own = type(cell) is Storage and record.leaf is None and is_plain(cell.read())
    if own and _put(record, index, value):
        return
    if index is not ... and first_expanded(record.path) < len(record.path):
        part = noted(lambda: x[index])  # the rest, which shows some of the same, stays
        if not is_basic(index) or part is x or getattr(part, "_view", None) is None:
            raise WriteError(_SHARED.format(x.spec))
        set_item(part, ..., value)
        return
    store(record, with_item(x.read(), index, value))


_SHARED = (
    "x[...] = v: {!r} shows elements several times, and what it writes has a history; write into "
    "the tensor that it was made of"
)


def with_item(x: Tensor, index: Any, value: Any) -> Tensor:
    """``x`` with ``value``, cast to its dtype, at an index."""
    if not isinstance(value, Tensor):
        value = as_tensor(value, x._dtype, x.device)
    elif value._dtype != x._dtype:
        value = value.astype(x._dtype)
    return x.at[_read(index)].set(value)  # type: ignore[attr-defined, no-any-return]


def put_all(x: Any, value: Any) -> bool:
    """Let NumPy assign all elements of a written tensor; False where it cannot."""
    given = value._a if type(value) is Tensor and value._node is None else value
    kind = type(given)
    if kind is ndarray or kind in _NUMBERS:
        place = own_memory(x)
        if place is not None:
            return _assign(place, given)
    record = plain_record(x)
    if record is None:
        return False
    if type(value) not in _NUMBERS:
        if isinstance(value, Tensor) and value._dtype is not record.dtype:
            return False
        if value.ndim > len(record.shape):
            return False
    return _put(record, ..., value)


def _assign(place: Any, value: Any) -> bool:
    """Assign a number, or an array of the same dtype, to all elements; False where NumPy cannot."""
    try:
        if type(value) is not ndarray:
            place.fill(value)
        elif value.dtype is place.dtype and value.ndim <= place.ndim:
            place[...] = value
        else:
            return False
    except (ValueError, TypeError, OverflowError):
        return False  # the other way says why in better words
    return True


def _put(record: View, index: Any, value: Any) -> bool:
    """Let NumPy assign into memory that nobody else holds; False where it cannot."""
    family = record.family
    number = type(value) in _NUMBERS
    if not number:
        if isinstance(value, Tensor):
            if value.level == CELL:
                if value.written and _is_itself(record, index, value):
                    return True  # the end of `x[index] += v`, which has written through the view
                value = value.read()
            if type(value) is not Tensor or (value._node is not None and modes.barrier < 0):
                return False
            value = value._a
            if type(value) is not ndarray:
                return False
            if value.base is not None and value.base is family.cell.value._a:
                value = value.copy()
        elif not isinstance(value, ndarray | generic):
            return False
    place = memory(family)
    if record.path and (place := place_in(record, place)) is None:
        return False
    try:
        if index is not ...:
            place[index if type(index) is int else _indices(index)] = value
        elif number:
            place.fill(value)
        else:
            place[...] = value
    except (IndexError, ValueError, TypeError, OverflowError):
        return False  # the other way says why in better words
    return True


def _is_itself(record: View, index: Any, value: Any) -> bool:
    """Whether a member is ``x[index]`` itself."""
    own = view_of(value)
    if own.family is not record.family or modes.stage is not None:
        return False
    if bool(own.cut) != bool(record.cut):  # the same elements, and only one of them has a history
        return False
    if own.leaf is None and own.path and is_basic(index):
        primitive, params = own.path[-1]
        if primitive is index_of and params["index"] == index:
            return leads_to(record.path, own.path, 1)
    base = record.family.cell.value
    if type(base) is not Tensor or type(base._a) is not ndarray:
        return False
    place = place_in(record, base._a)
    array = value.read()._a
    try:
        part = None if place is None else place[_indices(index)]
    except (IndexError, ValueError, TypeError):
        return False
    return (
        type(part) is ndarray
        and part.shape == array.shape
        and part.strides == array.strides
        and part.ctypes.data == array.ctypes.data
    )


_NUMBERS = frozenset((int, float, bool, complex))


def _indices(index: Any) -> Any:
    """An index for NumPy."""
    kind = type(index)
    if kind is slice or kind is int:
        return index
    if kind is tuple:
        return tuple([_indices(i) for i in index])
    if isinstance(index, Tensor):
        return index._a
    return index


def _read(index: Any) -> Any:
    if isinstance(index, tuple):
        return tuple(map(_read, index))
    return index.read() if isinstance(index, Tensor) and index.level == CELL else index
