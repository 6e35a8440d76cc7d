"""Items: ``x[i] = v``."""

from __future__ import annotations

from typing import Any

import numpy as np

from fx.config import modes
from fx.ops.convert import as_tensor
from fx.tape import CELL
from fx.tensor import Tensor
from fx.writing.checking import check
from fx.writing.layouts import first_expanded, overlaps, place_in
from fx.writing.noting import start
from fx.writing.records import Storage, View, record_of, view_of
from fx.writing.storing import is_plain, memory, store
from fx.writing.views import noted


def set_item(x: Any, index: Any, value: Any) -> None:
    """``x[index] = value``."""
    start()
    record = record_of(x)
    if index is not ... and first_expanded(record.path) < len(record.path) and overlaps(record):
        part = noted(lambda: x[index])  # of which elements may be written into
        if part is not x and getattr(part, "_view", None) is not None:
            set_item(part, ..., value)
            return
    record = check(x, "x[...] = v")
    cell = record.family.cell
    if isinstance(value, Tensor) and value.level == CELL:
        if value.written and _is_itself(record, index, value):
            return  # the end of `x[index] += v`, which has written through the view
        value = value.read()
    own = type(cell) is Storage and record.leaf is None and is_plain(cell.read())
    if own and (type(value) in _NUMBERS or _is_array(value)):
        place = place_in(record, memory(record.family))
        if place is not None and _assigned(place, index, value):
            return
    now = x.read()
    if not isinstance(value, Tensor):
        value = as_tensor(value, x.dtype, x.device)
    elif value.dtype != x.dtype:
        value = value.astype(x.dtype)
    store(record, now.at[_read(index)].set(value))


def _is_itself(record: View, index: Any, value: Any) -> bool:
    """Whether a member is ``x[index]`` itself."""
    if view_of(value).family is not record.family or modes.stage is not None:
        return False
    base = record.family.cell.value
    if type(base) is not Tensor or type(base._a) is not np.ndarray:
        return False
    place = place_in(record, base._a)
    array = value.read()._a
    try:
        part = None if place is None else place[_indices(index)]
    except (IndexError, ValueError, TypeError):
        return False
    return (
        type(part) is np.ndarray
        and part.shape == array.shape
        and part.strides == array.strides
        and part.ctypes.data == array.ctypes.data
    )


_NUMBERS = frozenset((int, float, bool, complex))


def _is_array(value: Any) -> bool:
    return (isinstance(value, Tensor) and is_plain(value)) or isinstance(
        value, np.ndarray | np.generic
    )


def _assigned(place: Any, index: Any, value: Any) -> bool:
    """Whether NumPy could assign; if not, the other way says why in better words."""
    try:
        place[_indices(index)] = value._a if isinstance(value, Tensor) else value
    except (IndexError, ValueError, TypeError, OverflowError):
        return False
    return True


def _indices(index: Any) -> Any:
    """An index for NumPy."""
    kind = type(index)
    if kind is int or kind is slice:
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
