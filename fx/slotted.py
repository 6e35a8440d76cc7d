"""Small classes of fx, made of their annotations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import FunctionType
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(field_specifiers=(field,))
def slotted(
    *, eq: bool = True, frozen: bool = False, repr: bool = True
) -> Callable[[type[T]], type[T]]:
    """Make a class a dataclass in slots whose methods count as fx's code, for jit as for traces."""

    def made(cls: type[T]) -> type[T]:
        make = dataclass(slots=True, weakref_slot=True, eq=eq, frozen=frozen, repr=repr)
        cls = make(cls)
        for method in vars(cls).values():
            if type(method) is FunctionType and method.__code__.co_filename == "<string>":
                method.__code__ = method.__code__.replace(co_filename=__file__)
        return cls

    return made
