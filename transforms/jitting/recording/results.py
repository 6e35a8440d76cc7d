"""Results that are no tensors: in each call Python would find them, or make them anew.

What was there before the call is the same object in each call: an argument's own container, or what
a variable holds. What the function has made is made again, where that is known to be right: arrays
and sets are copied, containers rebuilt. A function that makes other objects runs as it is.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from enum import Enum
from types import (
    BuiltinFunctionType,
    EllipsisType,
    FunctionType,
    ModuleType,
    NotImplementedType,
)
from typing import Any

import numpy as np

from fx.holding import holding_of
from fx.seen import TorchDType
from fx.tape import CELL
from fx.tensor import Tensor
from fx.transforms.jitting.guards.containers import is_plain
from fx.transforms.jitting.guards.reads import origin_of_module
from fx.transforms.jitting.program import Anew
from fx.transforms.jitting.signature import holds_state

_CONSTANT = (
    bool, int, float, complex, str, bytes, type(None), type, ModuleType, BuiltinFunctionType,
    EllipsisType, NotImplementedType, Enum, range, slice, np.generic, np.dtype, TorchDType,
)  # fmt: skip
_VALUES = frozenset(("datetime", "decimal", "fractions", "pathlib", "pathlib._local", "uuid"))
Places = dict[int, tuple[Any, tuple[Any, ...]]]  # by id, a container and the steps to it


def containers_of(given: Any) -> Places:
    """The containers that arguments are rebuilt with, and where each is."""
    found: Places = {}
    todo: list[tuple[Any, tuple[Any, ...]]] = [(given, ())]
    while todo:
        x, path = todo.pop()
        if isinstance(x, dict):
            todo += [(value, (*path, (False, key))) for key, value in dict.items(x)]
        elif isinstance(x, list | tuple | deque):
            todo += [(value, (*path, (False, i))) for i, value in enumerate(x)]
        elif _has_fields(x):
            todo += [(value, (*path, (True, name))) for name, value in vars(x).items()]
        else:
            continue
        if len(path) > 1 and not isinstance(x, tuple):
            found[id(x)] = x, path
    return found


def _has_fields(x: Any) -> bool:
    is_one = dataclasses.is_dataclass(x) or hasattr(type(x), "__attrs_attrs__")
    return is_one and not isinstance(x, type) and hasattr(x, "__dict__")


def called_argument(x: Any, part: str) -> str:
    """What messages call a container among the arguments."""
    return f"an argument, a {type(x).__name__}{part}"


class Results:
    """What becomes of results that are no tensors.

    Args:
        guards: of the function.
        reached: what was there before, besides the arguments.
        places: the containers of the arguments.
        objects: the leaves of the arguments that are neither tensors nor numbers.
    """

    def __init__(self, guards: Any, reached: Any, places: Places, objects: Any) -> None:
        self._guards = guards
        self._reached = reached
        self._places = places
        self._objects = {id(x) for x in objects}

    def is_leaf(self, x: Any) -> bool:
        """Whether a result is handed out as the object that it is."""
        if type(x) is tuple or isinstance(x, Tensor):
            return False
        return id(x) in self._places or self._reached.knows(x) or holds_state(x)

    def knows(self, x: Any) -> bool:
        """Whether an object was there before the call."""
        return id(x) in self._objects or self._reached.knows(x)

    def place_of(self, x: Any) -> tuple[Any, ...] | None:
        """The steps to a container among the arguments; None for what is none."""
        found = self._places.get(id(x))
        return None if found is None else found[1]

    def held(self, x: Any, recording: Any) -> Any:
        """What a call returns for an object, or ``Anew``."""
        if isinstance(x, Tensor):  # a cell
            if x.level == CELL and not recording.lasts(x):
                recording.give_up(f"it returns a {type(x).__name__} that it makes")
            return x
        if isinstance(x, _CONSTANT) or type(x).__module__ in _VALUES:
            return x
        if id(x) in self._places:
            return Anew(_Passed(self._places[id(x)][1]))
        if id(x) in self._objects:
            return x
        if self._reached.knows(x):
            find = self._guards.finder(x)
            return x if find is None else Anew(lambda F, O, args, kwargs: find(F, O))
        if isinstance(x, frozenset) and is_plain(x):
            return x
        if (type(x) is set and is_plain(x)) or type(x) is bytearray:
            return Anew(lambda F, O, args, kwargs: x.copy())
        if type(x) is np.ndarray and not x.dtype.hasobject:
            x = x.copy(order="K")
            return Anew(lambda F, O, args, kwargs: x.copy(order="K"))
        if isinstance(x, FunctionType) and not x.__closure__:
            return x
        ours = origin_of_module(type(x).__module__) == "fx"
        if ours and holding_of(type(x)) is None:  # a dtype, a device
            return x
        return recording.give_up(f"it returns a {type(x).__name__} that it makes")


class _Passed:
    """Finds a container among the arguments of a call."""

    __slots__ = ("_steps",)

    def __init__(self, steps: tuple[Any, ...]) -> None:
        self._steps = steps

    def __call__(self, F: Any, O: Any, args: Any, kwargs: Any) -> Any:
        x: Any = (args, kwargs)
        for attribute, which in self._steps:
            x = getattr(x, which) if attribute else x[which]
        return x
