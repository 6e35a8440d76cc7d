"""Kinds: how objects of a class are read: by attributes, by items, or in ways that nobody sees."""

from __future__ import annotations

import random
from collections import OrderedDict, defaultdict, deque
from enum import Enum
from types import BuiltinMethodType, CodeType, FunctionType, ModuleType, SimpleNamespace

import numpy as np

from fx.holding import holding_of
from fx.tensor import Tensor
from fx.transforms.jitting.guards.classes import is_stateful
from fx.transforms.jitting.guards.reads import origin_of_module
from fx.transforms.jitting.remembered import remembered
from fx.transforms.jitting.watching.operands import NOTHING

_PLAIN = (bool, int, float, complex, str, bytes, type(None), CodeType, slice, range)
CONTAINERS = (list, tuple, dict, set, frozenset)
IGNORED, CONTAINER, INSTANCE, OWNER, OPAQUE, MARKED = range(6)


def kind_of(cls: type) -> int:
    if cls in _PLAIN or cls is type(NOTHING):
        return IGNORED
    if issubclass(cls, Tensor):  # a parameter may carry attributes of the user's
        return MARKED if cls.__dictoffset__ else IGNORED
    if cls is FunctionType or issubclass(cls, type | ModuleType):
        return OWNER
    if cls in CONTAINERS:
        return CONTAINER
    holding = holding_of(cls)
    if origin_of_module(cls.__module__) == "fx":
        noted = is_stateful(cls) if holding is None else holding.read
        if not noted:
            return IGNORED
    return INSTANCE if shows_state(cls) else OPAQUE


@remembered
def holds_others(cls: type) -> bool:
    """Whether instances hold what may be read one by one, which is noted when it is."""
    return kind_of(cls) in (CONTAINER, INSTANCE, OPAQUE) and not issubclass(cls, np.generic | Enum)


@remembered
def shows_state(cls: type) -> bool:
    """Whether what instances hold is in attributes and items, not in what a class in C hides."""
    return all(
        base is object or base in _SHOWN or issubclass(base, BaseException) or not _is_native(base)
        for base in cls.__mro__
    )


_SHOWN = frozenset((
    *_PLAIN, *CONTAINERS, OrderedDict, defaultdict, deque, SimpleNamespace, random.Random,
    random.Random.__base__,
))  # fmt: skip


def _is_native(cls: type) -> bool:
    heap, immutable = 1 << 9, 1 << 8  # of tp_flags: made when the program runs; is never changed
    if not cls.__flags__ & heap or cls.__flags__ & immutable:
        return True
    return type(vars(cls).get("__new__")) is BuiltinMethodType


@remembered
def slots_of(cls: type) -> tuple[str, ...]:
    found: list[str] = []
    for base in cls.__mro__:
        names = vars(base).get("__slots__", ())
        found += (names,) if isinstance(names, str) else names
    return tuple([n for n in found if n not in ("__dict__", "__weakref__")])


def is_mark(cls: type, name: str) -> bool:
    """Whether an attribute of tensors of a class is none of fx's own."""
    found = next((base for base in cls.__mro__ if name in vars(base)), None)
    return name == "__dict__" or found is None or origin_of_module(found.__module__) != "fx"
