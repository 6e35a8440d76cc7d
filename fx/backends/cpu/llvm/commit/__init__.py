"""Commit: builtins that take what a step needs, run it, and store what comes out, in one C call.

Python handles signals and lets other threads run between byte codes. A step that writes into the
memory of the old values must therefore be one call: from the look at the reference counts, which
say that nobody else holds that memory, to the new values in their cells. What interrupts it finds
everything as before or as after. Where the work is long it gives up the GIL; then the tensors are
``Away`` (``fx/away.py``), and who asks for one waits.

``stepper`` makes the builtin of a compiled program, ``updater`` the one of an optimizer's step.
Where the slots of the objects lie in memory is looked up once, on objects made for it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from time import sleep
from typing import Any

import numpy as np

from fx import forking
from fx.away import Away, turns
from fx.backends.cpu.llvm import engine, entry, parallel, python_api
from fx.backends.cpu.llvm.commit import records, step, take, update
from fx.backends.cpu.llvm.entry import objects
from fx.backends.cpu.llvm.python_api import DENSE, WRITEABLE
from fx.slotted import slotted
from fx.state import Cell
from fx.tape import Leaf
from fx.tensor import Tensor, new_tensor


@slotted(eq=False)
class Item:
    """One thing that a step looks at, gathers or gives a new value.

    Attributes:
        kind: ``CELL``: what a cell holds; ``GATHERED``: its gradient; ``SPACE``: memory for a new
            gradient, that of the old one where it may be taken; ``GIVEN``: an argument, a tensor
            in the list, whose memory may be taken; ``ABSENT`` and ``PRESENT``: that there is no
            gradient, or one; ``CLEARED``: a gradient that nobody looks at.
        cell: a weak reference to the cell; None for an argument.
        dtype, shape: what the array must have.
        position: of the array in the list that is filled; -1 for none.
        owned: whether it is written into, so that one that somebody else holds is copied.
        place: the output that is stored there; ``NOWHERE``, ``NOTHING`` or ``TAKEN``.
        checked: whether what a cell holds must be of this dtype and shape.
    """

    kind: int
    cell: Any = None
    dtype: Any = None
    shape: tuple[int, ...] = ()
    position: int = -1
    owned: bool = False
    place: int = records.NOWHERE
    checked: bool = True


def stepper(
    items: Sequence[Item],
    numbers: Sequence[tuple[Any, Any, Any, int]],
    run: Callable[[list[Any]], list[Any]],
    native: bool,
    gone: Any,
    gives: bool = False,
) -> Any:
    """A builtin ``step(list)`` that fills in the arrays, runs, and stores what comes out.

    It gives the outputs, and empties the list; or False if things are not as expected, or None if
    something is away. Then, and if it raises, nothing has happened.

    Args:
        items: the places in the list that they fill hold None; of arguments, the tensors.
        numbers: dict, key, and the number or None and the output that it is.
        run: takes the list, gives the outputs.
        native: whether that runs no Python.
        gone: what arguments hold afterwards that were given away.
        gives: whether the list holds the outputs afterwards, instead of nothing.

    Returns:
        None where objects do not look as expected, and there can be no such builtin.
    """
    places = _places()
    if places is None:
        return None
    dims = np.array([n for item in items for n in (*item.shape, 0)], np.int64)
    table = np.zeros((max(len(numbers), 1), 4), np.int64)
    kept: list[Any] = [dims, table, run, gone, items, list(numbers)]
    for i, (held, key, known, place) in enumerate(numbers):
        table[i] = id(held), id(key), 0 if known is None else id(known), place
    me = python_api.owner(records.HEAD + records.FIELDS * len(items))
    method = "item"
    me[: records.WORDS] = (
        len(items), id(run), len(numbers), table.ctypes.data, id(gone), native, id(method), gives,
    )  # fmt: skip
    word, place = records.HEAD, dims.ctypes.data
    for item in items:
        need = DENSE | WRITEABLE
        fields = (
            0 if item.cell is None else id(item.cell), item.kind,
            0 if item.dtype is None else id(item.dtype), len(item.shape), place, item.position,
            need, item.owned, item.place, item.checked,
        )  # fmt: skip
        me[word : word + records.FIELDS] = np.array(fields, np.int64).view(np.uint64)
        word += records.FIELDS
        place += 8 * (len(item.shape) + 1)
    me.keep = (_loaded(), kept, method)
    return python_api.builtin("step", _loaded().address("step"), me)


@cache
def updater() -> Any:
    """The builtin ``update([sweep, ..., stores])`` of an optimizer's step; None if there is none.

    A sweep is a list: the words of its layout, then for each parameter its cell, the array of its
    gradient and the cells of its slots. ``stores`` is a list of cells and what they hold then. It
    gives True, or False and None as a step does.
    """
    if _places() is None:
        return None
    me = python_api.owner(1)
    me.keep = _loaded()
    return python_api.builtin("update", _loaded().address("update"), me)


class _Gate:
    """Closed, no step begins, and what is away is back: a process can be copied."""

    def __init__(self, loaded: engine.Loaded) -> None:
        self.closed = ctypes.c_uint8.from_address(loaded.address("fx_gate"))
        self.asked = ctypes.c_uint8.from_address(loaded.address("fx_gate") + 1)
        self.inside = ctypes.c_int64.from_address(loaded.address("fx_inside"))

    def close(self) -> None:
        """Return when all is in its place."""
        self.closed.value = 1
        while self.inside.value:
            sleep(1e-5)

    def open(self) -> None:
        self.closed.value = 0


@cache
def _loaded() -> engine.Loaded:
    places = _places()
    assert places is not None
    symbols = entry.symbols()
    symbols |= {"tensor_type": id(Tensor), "away_type": id(Away), "fx_parallel": parallel.address()}
    text = objects.TEXT + objects.TASKS + records.TEXT + take.TEXT + step.TEXT + update.TEXT
    code = entry.code_of(text, **places)
    loaded = engine.Loaded([code], ("step", "update", "fx_gate", "fx_inside"), symbols)
    gate = _Gate(loaded)
    forking.around(gate.close, gate.open)
    turns.asked = gate.asked
    return loaded


@cache
def _places() -> dict[str, int] | None:
    """Where slots lie; None where objects do not look as expected."""
    if not python_api.DIRECT:
        return None
    tensor = new_tensor(np.zeros((2, 3), np.float32))
    cell = Cell(tensor, requires_grad=True)
    leaf = cell.leaf
    assert leaf is not None
    leaf.grad = gradient = new_tensor(np.ones((2, 3), np.float32))
    gradient._noted = tensor  # so that one slot alone is None
    held, array = cell.value, cell.value._a
    found = {
        "value": _slot(cell, held, Cell.__basicsize__),
        "leaf": _slot(cell, leaf, Cell.__basicsize__),
        "grad": _slot(leaf, gradient, Leaf.__basicsize__),
        "array": _slot(held, array, Tensor.__basicsize__),
        "node": _slot(gradient, None, Tensor.__basicsize__),
    }
    gradient._noted = None
    as_expected = (
        None not in found.values()
        and _word(id(held)) == _count(held)
        and Away.__basicsize__ == Tensor.__basicsize__
    )
    return found if as_expected else None  # type: ignore[return-value]


def _count(x: Any) -> int:
    """The reference count of ``x`` in memory, but for the ones that asking takes."""
    from sys import getrefcount

    return getrefcount(x) - 2


def _word(address: int) -> int:
    return int(ctypes.c_size_t.from_address(address).value)


def _slot(owner: Any, held: Any, size: int) -> int | None:
    """The offset at which an object holds another."""
    found = [at for at in range(16, size, 8) if _word(id(owner) + at) == id(held)]
    return found[0] if len(found) == 1 else None
