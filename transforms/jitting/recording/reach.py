"""Reach: the Python state that a function reaches, as it was before the function was staged.

A program holds operations on tensors. Whatever else a function changes - a list that it appends to,
an attribute, an entry of a dict, a global - it would change while it is staged, and never again. So
all of that is looked at before and after; what has changed is put back.
"""

from __future__ import annotations

import dis
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from types import CodeType, FunctionType, MemberDescriptorType, ModuleType
from typing import Any

import numpy as np

from fx.holding import holding_of
from fx.transforms.jitting.guards.classes import held_by, is_namespace, is_stateful
from fx.transforms.jitting.guards.reads import origin, origin_of, origin_of_module
from fx.transforms.jitting.remembered import remembered
from fx.versions import Hooks, touch

_PLAIN = frozenset((int, float, complex, bool, str, bytes, type(None)))
_MOST_BYTES = 1 << 20  # of an array that is copied


class Reach:
    """What a function reaches.

    Args:
        objects: all of it.
        name_of: what messages call one of them, or an attribute of it (".rate").
    """

    def __init__(self, objects: Iterable[Any], name_of: Callable[[Any, str], str]) -> None:
        self._name_of = name_of
        self._alive: list[Any] = []  # so that their ids stay theirs
        self.parts: list[Any] = []  # what may change of it
        self._known: set[int] = set()
        waiting = list(objects)
        while waiting:
            x = waiting.pop()
            if id(x) in self._known:
                continue
            self._known.add(id(x))
            self._alive.append(x)
            parts = _parts(x)
            self.parts += parts
            if parts or type(x) is tuple:
                waiting += [y for y in _held_by(x) if type(y) not in _PLAIN]

    def knows(self, x: Any) -> bool:
        """Whether an object was there before, and can be found in other calls."""
        return id(x) in self._known

    def put_back(self) -> str | None:
        """Put back what has changed; what that was, None for nothing."""
        found = None
        for part in self.parts:
            if part.changed():
                part.put_back()
                found = found or self.name(part)
        return found

    def name(self, part: Any) -> str:
        """What messages call a part that has changed."""
        return part.named or self._name_of(part.owner, part.detail) or "the object that is called"


class _Items:
    """A container: what it holds, and in which order."""

    detail = ""  # of the owner
    named = ""  # what messages say of it, if not by its owner

    def __init__(self, owner: Any) -> None:
        self.owner = owner
        self.was = self._now()

    def _now(self) -> list[Any]:
        return list(self.owner)

    def changed(self) -> bool:
        now = self._now()
        return len(now) != len(self.was) or any(a is not b for a, b in zip(now, self.was))

    def put_back(self) -> None:
        base = list if isinstance(self.owner, list) else deque
        base.clear(self.owner)
        base.extend(self.owner, self.was)


class _Set(_Items):
    """A set, whose order is its own."""

    def changed(self) -> bool:
        return len(self.owner) != len(self.was) or any(x not in self.owner for x in self.was)

    def put_back(self) -> None:
        set.clear(self.owner)
        set.update(self.owner, self.was)


class _Entries(_Items):
    """A dict."""

    def _now(self) -> list[Any]:
        base: Any = OrderedDict if isinstance(self.owner, OrderedDict) else dict
        return [x for pair in base.items(self.owner) for x in pair]

    def put_back(self) -> None:
        base: Any = OrderedDict if isinstance(self.owner, OrderedDict) else dict
        base.clear(self.owner)
        for key, value in zip(self.was[::2], self.was[1::2]):
            base.__setitem__(self.owner, key, value)


class _Bytes(_Items):
    """A bytearray."""

    def put_back(self) -> None:
        self.owner[:] = bytes(self.was)


class _Array(_Items):
    """An array: its bytes."""

    def _now(self) -> Any:
        return self.owner.copy()

    def changed(self) -> bool:
        return bool(self.owner.tobytes() != self.was.tobytes())

    def put_back(self) -> None:
        self.owner[...] = self.was


class _Attributes(_Items):
    """Attributes of an object, or names of a namespace; those that are fx's own keep their way."""

    def __init__(self, owner: Any, held: Any, names: frozenset[str] | None = None) -> None:
        self.held = held
        self.names = names
        holding = holding_of(type(owner))
        self._internal = _own_names(type(owner)) if holding is None else holding.internal
        self.detail = ""
        super().__init__(owner)

    def _now(self) -> Any:
        if self.names is not None:
            return {n: self.held[n] for n in self.names if n in self.held}
        return {
            n: x
            for n, x in self.held.items()
            if n not in self._internal and not (n[:2] == "__" == n[-2:]) and type(x) is not Hooks
        }

    def changed(self) -> bool:
        now = self._now()
        names = [n for n in {**self.was, **now} if now.get(n, self) is not self.was.get(n, self)]
        self.detail = f".{names[0]}" if names else ""
        if names and self.names is not None:
            self.named = f"global `{names[0]}`"
        return bool(names)

    def put_back(self) -> None:
        now = self._now()
        for name in {**self.was, **now}:
            if now.get(name, self) is not self.was.get(name, self):
                self._set(name)
        touch()

    def _set(self, name: str) -> None:
        if name in self.was:
            dict.__setitem__(self.held, name, self.was[name])
        else:
            dict.__delitem__(self.held, name)


class _OfClass(_Attributes):
    """Those of a class, or in slots."""

    def _set(self, name: str) -> None:
        if name in self.was:
            type.__setattr__(self.owner, name, self.was[name])
        else:
            type.__delattr__(self.owner, name)


class _Slots(_Items):
    """The slots of an object."""

    def _now(self) -> Any:
        return {n: getattr(self.owner, n) for n in _slots(type(self.owner)) if self._has(n)}

    def _has(self, name: str) -> bool:
        return hasattr(self.owner, name)

    def changed(self) -> bool:
        now = self._now()
        return now.keys() != self.was.keys() or any(now[n] is not x for n, x in self.was.items())

    def put_back(self) -> None:
        for name in self._now():
            object.__delattr__(self.owner, name)
        for name, value in self.was.items():
            object.__setattr__(self.owner, name, value)


class _Variable(_Items):
    """A variable of an enclosing function."""

    def __init__(self, owner: Any, cell: Any, name: str) -> None:
        self.cell = cell
        self.name = name
        self.named = f"closure variable `{name}`"
        super().__init__(owner)

    def _now(self) -> list[Any]:
        try:
            return [self.cell.cell_contents]
        except ValueError:
            return []

    def put_back(self) -> None:
        if self.was:
            self.cell.cell_contents = self.was[0]
        else:
            del self.cell.cell_contents


def _held_by(x: Any) -> Iterable[Any]:
    """What a container or an object of the user's holds, which may change by way of it."""
    if isinstance(x, dict):
        return dict.values(x)
    if isinstance(x, list | tuple | set | deque):
        return x
    if isinstance(x, FunctionType | ModuleType | type | np.ndarray | bytearray):
        return ()  # what is read by way of those was looked for by name
    return [*held_by(x).values(), *[getattr(x, n, None) for n in _slots(type(x))]]


def _parts(x: Any) -> list[Any]:
    """What may change of an object."""
    cls = type(x)
    if isinstance(x, FunctionType):
        if origin(x.__code__.co_filename) != "user":
            return []
        cells = zip(x.__code__.co_freevars, x.__closure__ or ())
        found: list[Any] = [_Variable(x, cell, name) for name, cell in cells]
        names = _stored(x.__code__)
        found += [_Attributes(x, x.__globals__, names)] if names else []
        return [*found, _Attributes(x, x.__dict__)]
    if isinstance(x, ModuleType):
        return [_Attributes(x, vars(x))] if origin_of(x) == "user" else []
    if isinstance(x, type):
        return [_OfClass(x, vars(x))] if origin_of_module(x.__module__) == "user" else []
    whose = origin_of_module(cls.__module__)
    if whose == "fx":  # what the user has put there
        known = holding_of(cls) is not None or (is_stateful(cls) and hasattr(x, "__dict__"))
        return [_Attributes(x, x.__dict__)] if known else []
    found = []
    if isinstance(x, list | deque):
        found.append(_Items(x))
    elif isinstance(x, set):
        found.append(_Set(x))
    elif isinstance(x, dict):
        found.append(_Entries(x))
    elif isinstance(x, bytearray):
        found.append(_Bytes(x))
    elif isinstance(x, np.ndarray):
        return [_Array(x)] if x.nbytes <= _MOST_BYTES and not x.dtype.hasobject else []
    if whose == "user" or is_namespace(cls):
        if cls.__dictoffset__:
            found.append(_Attributes(x, held_by(x)))
        if _slots(cls):
            found.append(_Slots(x))
    return found


@remembered
def _slots(cls: type) -> tuple[str, ...]:
    return tuple(
        [
            name
            for base in cls.__mro__
            if origin_of_module(base.__module__) == "user"
            for name, raw in vars(base).items()
            if isinstance(raw, MemberDescriptorType)
        ]
    )


@remembered
def _own_names(cls: type) -> frozenset[str]:
    """The attributes that fx's own methods set: it sees to those itself."""
    found: set[str] = set()
    for base in cls.__mro__:
        if origin_of_module(base.__module__) == "fx":
            codes = [f.__code__ for f in vars(base).values() if isinstance(f, FunctionType)]
            found.update(
                at.argval
                for code in codes
                for at in dis.get_instructions(code)
                if at.opname == "STORE_ATTR"
            )
    return frozenset(found)


@remembered
def _stored(code: CodeType) -> frozenset[str]:
    """The globals that code sets."""
    found = {
        at.argval
        for at in dis.get_instructions(code)
        if at.opname in ("STORE_GLOBAL", "DELETE_GLOBAL")
    }
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _stored(constant)
    return frozenset(found)
