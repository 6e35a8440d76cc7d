"""What guards ask of classes: whose they are, and what stands in them."""

from __future__ import annotations

from abc import ABC
from types import FunctionType, SimpleNamespace
from typing import Any, Generic, Protocol

from fx.holding import base_of
from fx.transforms.jitting.guards.reads import Reads, origin_of_module

_STATEFUL = ("fx.optim.", "fx.data.", "fx.amp.", "fx.torch.")
_HARMLESS = (object, ABC, Generic, Protocol, dict, list, tuple, set, frozenset, str, int, float)


def is_fx(cls: type) -> bool:
    return any(origin_of_module(base.__module__) == "fx" for base in cls.__mro__)


def is_stateful(cls: type) -> bool:
    """Whether objects of a class of fx are Python state of a program, as schedulers are."""
    return cls.__module__.startswith(_STATEFUL)


def is_namespace(cls: type) -> bool:
    return cls is SimpleNamespace or (cls.__module__ == "argparse" and cls.__name__ == "Namespace")


def has_foreign_base(cls: type) -> bool:
    """Whether methods of a library may call those of a class."""
    return any(
        origin_of_module(base.__module__) != "user" and base not in _HARMLESS
        for base in cls.__mro__
    )


def all_methods(cls: type) -> Reads:
    reads = Reads()
    for base in cls.__mro__:
        if origin_of_module(base.__module__) == "user":
            for name, value in vars(base).items():
                if is_descriptor(value) and not (name[:2] == "__" == name[-2:]):
                    reads.of(name)
    return reads


def extends_kind(cls: type) -> bool:
    """Whether a class has methods of fx's besides those of the kind that it is of, as a layer's."""
    own = {base for base in cls.__mro__ if origin_of_module(base.__module__) == "fx"}
    base_class = base_of(cls)
    return base_class is None or not own <= set(base_class.__mro__)


def has_setter(x: Any) -> bool:
    """Whether an entry of a class goes before the attributes of an instance."""
    return hasattr(type(x), "__set__") or hasattr(type(x), "__delete__")


def is_descriptor(x: Any) -> bool:
    if isinstance(x, FunctionType | staticmethod | classmethod | property):
        return True
    return hasattr(type(x), "__get__") and not isinstance(x, type)


def held_by(x: Any) -> dict[str, Any]:
    """What an object keeps its attributes in, past what its class may answer in its place."""
    try:
        found = object.__getattribute__(x, "__dict__")
    except AttributeError:
        return {}
    return found if isinstance(found, dict) else {}
