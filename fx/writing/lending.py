"""Lending NumPy the memory of a tensor, and taking that of an array.

Both ways what is written to one the other sees; ``host.py`` says how, and what it costs others.
"""

from __future__ import annotations

import warnings
from sys import _getframe
from typing import Any
from weakref import ref

import numpy as np

import fx.ops.making.interop as interop
from fx import dtypes
from fx.config import modes, writing
from fx.errors import BackwardError, WriteError
from fx.levels import live
from fx.prims.compare import stop_gradient
from fx.prims.complex import conjugated
from fx.prims.creation import constants_of
from fx.tape import CELL
from fx.tensor import Tensor, _blank, new_tensor
from fx.writing.host import is_hosted, memories
from fx.writing.layouts import owner_of, place_in
from fx.writing.records import Family, Storage, copies, view_of
from fx.writing.who import writes

_most = [64]  # memories before those that NumPy has no more are dropped
_SWEPT = 4  # views that are gone, of a family that is asked again and again

# lending ----------------------------------------------------------------------------------------


def numpy(self: Any, *, force: bool = False) -> Any:
    """The values as a NumPy array that shares memory: what is written to one the other sees.

    In a module that does not import ``fx.torch``, and while a function is staged, a read-only one.

    Args:
        force: whether to detach first.

    Raises:
        BackwardError: if it requires grad; write ``x.detach().numpy()``.
    """
    if (live and modes.stage is not None) or not writes(_getframe(1)):
        return interop.numpy(self, force=force)
    if not force:
        return lent(self)
    if not writing.started:
        return lent(self.detach())
    from fx.writing.views import noted

    return lent(noted(self.detach))


def is_conjugate(x: Any) -> bool:
    """Whether a tensor is a view of conjugates, or cut of one."""
    if type(x) is Tensor and copies and id(owner_of(x._a)) in copies:
        from fx.writing.noting import start

        start()  # only then it is known what is cut of a view with memory of its own
    record = getattr(x, "_view", None)
    return record is not None and conjugated(record.path)


def resolve_conj(self: Any) -> Any:
    """The same values: a view of conjugates as a copy, another tensor itself."""
    return interop.clone(self) if is_conjugate(self) else self


def __array__(self: Any, dtype: Any = None, copy: bool | None = None) -> Any:
    """What ``np.asarray(x)`` takes: an array that shares memory unless another dtype is asked."""
    same = dtype is None or self._dtype == dtype
    if copy or not same or modes.stage is not None or not writes(_getframe(1)):
        return interop.__array__(self, dtype, copy)
    return lent(self)


def lent(x: Any) -> Any:
    """An array in the memory of a tensor."""
    if type(x) is Tensor and x._node is None and type(array := x._a) is np.ndarray:
        owner = array if array.base is None else array.base
        if type(owner) is np.ndarray and owner.base is None and owner.size > 1:
            if writing.started:
                shared = _is_in_one(x)
            else:  # all views share memory
                shared = not writing.apart and array.dtype.kind != "c"
            if shared:
                return _lend(array, owner)
    if not writing.started and (writing.apart or x._dtype.kind == "c"):
        from fx.writing.noting import start

        start()  # a view with memory of its own, as conj gives, is to see what NumPy writes
    if is_conjugate(x):
        raise WriteError(
            "Can't call numpy() on Tensor that has conjugate bit set. Use "
            "tensor.resolve_conj().numpy() instead."
        )
    record = getattr(x, "_view", None)
    if type(x) is Tensor:
        if record is None or record.family is None or _lies_there(x, record):
            return _lend_own(x)
        from fx.writing.checking import begun

        begun(x)
    if x.level != CELL:
        return interop.readable(x, "x.numpy()")
    value = x.read()
    if x.written and value._node is None:
        record = view_of(x)
        family = record.family
        if type(family.cell) is Storage and type(family.cell.value) is Tensor:
            from fx.writing.memory import memory

            del value  # who holds it would get a copy of the memory
            place = place_in(record, memory(family))
            if place is not None:
                return _lend(place, owner_of(place))
            return interop.readable(x.read(), "x.numpy()")
    return _lend_own(value) if type(value) is Tensor else interop.readable(value, "x.numpy()")


def _lies_there(x: Tensor, record: Any) -> bool:
    """Whether a tensor, the family of which was not written, lies in the memory of all of it."""
    family = record.family
    if family.of_user:  # what was cut of a parameter keeps the memory that this had then
        held = getattr(family.root(), "value", None)
        return type(held) is Tensor and place_in(record, held._a) is not None
    return family.cell is None and type(family.array) is np.ndarray and _is_one(family)


def _is_one(family: Any) -> bool:
    """Whether the views of a tensor lie in its memory, all of them."""
    owner, gone = owner_of(family.array), 0
    for held in family.members:
        member = held()
        if member is None:
            gone += 1
            continue
        if type(member) is not Tensor:
            return False
        array = member._a
        if array is not owner and array.base is not owner and owner_of(array) is not owner:
            return False
    if gone > _SWEPT:
        family.swept()
    return True


def _is_in_one(x: Tensor) -> bool:
    """The same of a plain tensor, no part of a complex one; without a record made to look at."""
    noted = getattr(x, "_noted", None)
    if noted is None:
        return not copies
    if type(noted) is not Family:
        if type(noted) is not tuple or noted[1] or noted[2] is not stop_gradient:
            return False  # the record tells more
        noted = noted[0]
    if copies:
        return False
    if noted.of_user:  # what was detached of a parameter keeps the memory that this had then
        held = getattr(noted.root(), "value", None)
        return type(held) is Tensor and type(held._a) is np.ndarray and held._a.flags.writeable
    return noted.cell is None and type(noted.array) is np.ndarray and _is_one(noted)


def _lend_own(x: Tensor) -> Any:
    """An array in the memory of a tensor, which is not that of a number that is kept for later.

    Raises:
        BackwardError: if it requires grad.
    """
    if x._node is not None:
        raise BackwardError(
            "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
        )
    array = x._a
    if type(array) is not np.ndarray:
        return interop.readable(x, "x.numpy()")
    owner = array if array.base is None else owner_of(array)
    if owner.size == 1:
        value = owner.item()
        known = constants_of(owner.dtype, "cpu")
        kept = known.get(value if value else repr(value))
        if kept is not None and owner_of(kept._a) is owner:
            x._a = array = owner = array.copy()
    return _lend(array, owner)


def _lend(array: Any, owner: Any) -> Any:
    """Another array in the memory of one, of which is known whether NumPy still has it."""
    try:
        out = _passed(array[...])
    except (ValueError, BufferError):  # of a dtype that buffers do not know, bfloat16
        view = array.view()
        view.flags.writeable = False
        return view
    key = id(owner)
    before = memories.get(key)
    if before is None:
        if len(memories) >= _most[0]:
            _drop()
        memories[key] = (ref(out),)
    elif len(before) == 1 and before[0]() is None:
        memories[key] = (ref(out),)
    else:
        memories[key] = (*[held for held in before if held() is not None], ref(out))
    return out


def _through_buffer(array: Any) -> Any:
    return np.asarray(memoryview(array))


# both put something in between that is no array; the first is quicker, where it may be written to
_passed = np.from_dlpack if np.from_dlpack(np.ones(1)).flags.writeable else _through_buffer


def _drop() -> None:
    gone = [key for key, arrays in list(memories.items()) if all(held() is None for held in arrays)]
    for key in gone:
        memories.pop(key, None)
    _most[0] = 2 * len(memories) + 64


# taking -----------------------------------------------------------------------------------------


def from_numpy(ndarray: Any) -> Tensor:
    """The tensor that shares the memory of a NumPy array: what is written to one the other sees.

    Args:
        ndarray: of any dtype that fx has.

    Raises:
        TypeError: if it is no NumPy array, or of a dtype that fx does not have.
        ValueError: if it runs backwards, or is of another byte order.
    """
    array = ndarray
    if type(array) is not np.ndarray or (live and modes.stage is not None):
        return interop.from_numpy(array)
    dtype = array.dtype
    known = _KNOWN.get(dtype)
    if known is not None and array.flags.carray:
        out = _blank()
        out._a = np.asarray(memoryview(array[...] if known is dtype else array.view(known)))
        out._node = out._noted = None
        return out
    dtype = dtypes.as_dtype(dtype)
    if not array.dtype.isnative:
        raise ValueError(
            "given numpy array has byte order different from the native byte order; write "
            "array.astype(array.dtype.newbyteorder('='))"
        )
    if min(array.strides, default=0) < 0:
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative "
            "strides are not supported; write array.copy()"
        )
    if not array.flags.writeable:
        warnings.warn(
            "The given NumPy array is not writable: what is written into the tensor goes into a "
            "copy, and the array keeps its values",
            stacklevel=2,
        )
    try:
        return new_tensor(np.asarray(memoryview(array.view(dtype))))
    except ValueError:
        return interop.from_numpy(array)


_KNOWN = {d: d for d in map(np.dtype, ("f4", "f8", "i8", "i4", "u1", "?"))}


def attach() -> None:
    """Put them on Tensor."""
    writing.hosted = is_hosted
    Tensor.resolve_conj = resolve_conj
    Tensor.numpy, Tensor.__array__ = numpy, __array__  # type: ignore[attr-defined]
