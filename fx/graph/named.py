"""Named tensors: those that a variable of the user's holds while a function is staged.

``w * s`` of two global tensors computes at once, for neither is a tracer; yet another call may find
other tensors under these names. So while a function is staged, the tensors that it reads through
closures, globals and containers are of a class of their own, and are read as cells are.
To other threads they are plain tensors all along.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from fx import forking
from fx.config import modes
from fx.devices import Device, name_of
from fx.tape import CELL
from fx.tensor import PLAIN, Tensor, new_tensor

array_of = Tensor.__dict__["_a"].__get__  # whatever the class says
node_of = Tensor.__dict__["_node"].__get__
_set_node = Tensor.__dict__["_node"].__set__


class Named(Tensor):
    """A plain tensor while it is named."""

    __slots__ = ()

    @property
    def level(self) -> int:  # type: ignore[override]
        """That of a cell while this thread stages a function: ``bind`` reads it first."""
        return PLAIN if modes.stage is None else CELL

    def read(self) -> Tensor:
        """What stands for the tensor while a function is staged."""
        stage = modes.stage
        return self if stage is None else stage.read_named(self)  # type: ignore[no-any-return]

    @property
    def _a(self) -> Any:
        """The array; while a function is staged, a value that this function asks for."""
        return array_of(self) if modes.stage is None else self.read()._a

    @property
    def _node(self) -> Any:
        return node_of(self) if modes.stage is None else self.read()._node

    @_node.setter
    def _node(self, node: Any) -> None:
        _set_node(self, node)

    def __copy__(self) -> Tensor:
        return new_tensor(array_of(self)) if modes.stage is None else self.read()

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        return self.__copy__()

    @property
    def shape(self) -> tuple[int, ...]:
        return self._asked().shape  # type: ignore[no-any-return]

    @property
    def dtype(self) -> Any:
        return self._asked().dtype

    @property
    def device(self) -> Device:
        return Device(name_of(self._asked()))

    def _asked(self) -> Any:
        """The array, of which a function that is being staged is told how it is made."""
        stage = modes.stage
        if stage is not None:
            stage.asked(self)
        return array_of(self)


class naming:
    """A block in which tensors are named."""

    __slots__ = ("_tensors",)

    def __init__(self, tensors: Iterable[Any]) -> None:
        self._tensors = [x for x in tensors if type(x) in (Tensor, Named)]

    def __enter__(self) -> None:
        with _lock:
            for x in self._tensors:
                _blocks[id(x)] = (_blocks[id(x)][0] + 1 if id(x) in _blocks else 1, x)
                x.__class__ = Named

    def __exit__(self, *error: object) -> None:
        with _lock:
            for x in self._tensors:
                count, _ = _blocks.pop(id(x))
                if count > 1:
                    _blocks[id(x)] = (count - 1, x)
                elif type(x) is Named:  # else another thread has written into it
                    x.__class__ = Tensor


def _forget() -> None:
    """In a forked child: the threads that named tensors are not there."""
    if modes.stage is None:
        for _, x in _blocks.values():
            x.__class__ = Tensor
        _blocks.clear()


_blocks: dict[int, tuple[int, Any]] = {}  # how many blocks name a tensor, and that, by its id
_lock = forking.instant(threading.Lock())
forking.in_child(_forget)
