"""Memory of the host: NumPy's arrays that share theirs with tensors, both ways.

``x.numpy()`` lends NumPy the memory of ``x``, and ``from_numpy`` takes an array's. Who writes into
such an array says nothing to fx: the new values are there at once for all that lies in this memory,
as in PyTorch. So it is the one memory that does not move while NumPy has it. What fx writes goes
into it in place, and who holds the values of before (a pullback, a parameter that was loaded) gets
a copy of them first.

    x._a        memory that fx owns
      ^ base
    a view      of which nobody else knows: each array that is lent counts as one holder of x._a
      ^ obj
    a capsule   where NumPy stops looking for a base: what is cut of the array holds that array
      ^ base
    a           what ``x.numpy()`` gives; a weak reference tells whether NumPy still has it

Of an array that is taken the tensor's own is the one above, a memoryview is in between, and the
reference count of what lies below tells whether NumPy still has it.
"""

from __future__ import annotations

from sys import getrefcount
from typing import Any

import numpy as np

from fx.config import modes
from fx.errors import WriteError
from fx.handles import Data
from fx.tensor import Tensor
from fx.writing.layouts import owner_of
from fx.writing.records import array_in, twin, view_of

# weak references to what was lent, by the id of the array that owns the memory
memories: dict[int, tuple[Any, ...]] = {}


def is_hosted(array: Any) -> bool:
    """Whether NumPy has an array in the memory of this one, into which it may be written."""
    if type(array) is not np.ndarray:
        return False
    if array.base is None:
        return id(array) in memories and _count(array) > 0
    owner = owner_of(array)
    outside = owner.base
    if outside is not None and _is_taken(outside):
        return bool(array.flags.writeable)
    return id(owner) in memories and _count(owner) > 0


def is_shared(cell: Any) -> bool:
    """Whether a cell holds values in memory that NumPy shares."""
    value = cell.value
    if type(value) is not Tensor:
        return False
    array = value._a
    if type(array) is np.ndarray and array.base is None and id(array) not in memories:
        return False
    return is_hosted(array)


def is_apart(value: Any, base: Any) -> bool:
    """Whether a value that was looked up lies elsewhere, and ``base`` may change at any time."""
    if type(base) is not Tensor:
        return False
    array = base._a
    if type(array) is not np.ndarray or (array.base is None and id(array) not in memories):
        return False
    if not is_hosted(array):
        return False
    return type(value) is not Tensor or owner_of(value._a) is not owner_of(array)


def _is_taken(outside: Any) -> bool:
    """Whether somebody else holds the memory that a tensor took."""
    if type(outside) is not memoryview:
        return False
    taken = outside.obj  # a view that nobody else knows
    below = getattr(taken, "base", None)
    if type(below) is not np.ndarray or below.base is not None:
        return True
    return getrefcount(below) > 3  # the view, `below`, and the argument


def _count(owner: Any) -> int:
    """How many arrays NumPy was lent of a memory, and still has."""
    return sum(held() is not None for held in memories.get(id(owner), ()))


def settled(family: Any) -> Any:
    """The array of a family that NumPy shares, where values may change: who holds them moved.

    Raises:
        WriteError: where the values cannot be told apart, or must be put back afterwards.
    """
    cell = family.cell
    for member in (*family.alive(), family.root()):
        if member is not None and member.written:
            _forget(view_of(member), cell.value)
    del member
    return _alone(cell)


def _forget(record: Any, base: Any) -> None:
    """Let a member be looked up again; what it was has memory of its own if somebody holds that."""
    value, record.value, record.source = record.value, None, None
    if value is not None and value is not base and getrefcount(value) > 2:
        value._a = value._a.copy("K")


def _alone(cell: Any) -> Any:
    """The array of a cell, of which nobody else holds the values any more."""
    if modes.journal is not None:
        raise WriteError(
            "a tensor that shares its memory with a NumPy array is written inside of what runs "
            "again, and the array cannot be put back; write x = x.clone() before"
        )
    base = cell.value
    array = base._a
    if getrefcount(base) > 3:  # but for the cell, this frame and the argument
        held = twin(base)
        base._a = array.copy("K")
        cell.value = base = held
    del base
    owner = owner_of(array)
    for moved in (False, True):
        count = _count(owner)
        # the tensor, this frame and the argument; what is lent holds what owns the memory
        if owner is array:
            others = getrefcount(array) > count + 4
        else:
            others = getrefcount(array) > 3 or getrefcount(owner) > count + 3
        if not others:
            return array
        if not moved:
            _move(owner, cell.value)
    raise WriteError(
        "a tensor that shares its memory with a NumPy array is written, and something else holds "
        "its values: a compiled function that goes backward, or a read-only array; write "
        "x = x.clone() before"
    )


def _move(owner: Any, but: Any) -> None:
    """Give the tensors that lie in a memory copies of their values, but for one."""
    from fx.writing.finding import _array, _tensors

    for x in _tensors()[0]:
        if x is not but:
            array = _array(x)
            if type(array) is np.ndarray and owner_of(array) is owner:
                array_in.__set__(x, array.copy("K"))


def part(members: Any) -> None:
    """Let what members were before the first write, a moment ago, have memory of its own."""
    for x in members:
        record = view_of(x)
        if type(record.first) is Tensor:  # not what a function was staged with that gave up
            record.first._a = record.first._a.copy("K")
        record.source = record.value = None


def put(cell: Any, array: Any, value: Any) -> None:
    """Let a cell hold another value in the memory that it has.

    Raises:
        WriteError: for a value inside a transform.
    """
    if type(value) is not Tensor or type(value._a) is not np.ndarray:
        raise WriteError(
            f"a value {value.spec!r} inside {value.transform} is written into a tensor that shares "
            f"its memory with a NumPy array; write into x.clone()"
        )
    array[...] = value._a
    held = twin(value)
    held._a = array
    cell.value = held


def renewed(cell: Any, family: Any, rebind: Any) -> Any:
    """What ``rebind`` gives, after which a parameter holds what it holds in the memory it had."""
    while isinstance(cell, Data) and cell.owner is not None:
        cell = cell.owner
    if not is_shared(cell):
        return rebind()
    if family is not None and family.cell is not None:
        array = settled(family)
    else:
        array = _alone(cell)
    out = rebind()
    held = cell.value
    array[...] = held._a
    held._a = array
    return out
