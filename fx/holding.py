"""What jit is told of Modules and optimizers: objects that hold tensors, settings and hooks.

A compiled program depends on what such an object is like, and looks at it again when
``fx.versions`` has counted a change. The class says itself what that is, in a ``Holding`` that it
registers:

    register(Module, _Layers())

so that transforms know no layer and no optimizer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from fx.versions import Hooks


class Setting(NamedTuple):
    """Something that a program depends on.

    Attributes:
        name: what messages call it, after the name of the object.
        value: numbers, strings and sequences of such are compared, all else is by identity.
        owner: the object whose attribute it is, if it is one.
        attribute: the name of that.
    """

    name: str
    value: Any
    owner: Any = None
    attribute: str = ""


class Part(NamedTuple):
    """Where something is found in an object.

    Attributes:
        name: what messages call it, after the name of the object.
        path: an attribute, and the keys of containers from there on.
        value: what is there.
    """

    name: str
    path: tuple[Any, ...]
    value: Any


class Holding:
    """What one class says; each answer is about one of its objects.

    Attributes:
        method: the name of what runs when such an object is used.
        internal: attributes that ``settings`` and the methods below speak of.
        renewed: names of settings that a first call begins.
        read: whether its attributes are noted when a function reads them.
        around: hooks that all such objects call.
    """

    method = ""
    internal: frozenset[str] = frozenset()
    renewed: frozenset[str] = frozenset()
    read = False
    around: tuple[Hooks, ...] = ()

    def settings(self, x: Any, matters: Callable[[Any, str], bool]) -> Iterable[Setting]:
        """All that a program depends on; ``matters(object, attribute)`` leaves some out."""
        raise NotImplementedError

    def inner(self, x: Any) -> Iterable[Part]:
        """The objects of its kind that it holds."""
        return ()

    def cells(self, x: Any) -> Iterable[Part]:
        """The cells that it holds, whose hooks may run and whose attributes may be read."""
        return ()

    def kept(self, x: Any) -> Iterable[Any]:
        """The containers of what ``renewed`` names."""
        return ()

    def tensors(self, x: Any) -> Iterable[Part]:
        """Tensors among its settings: inputs of a program."""
        return ()


_holdings: dict[type, Holding] = {}


def register(cls: type, holding: Holding) -> None:
    """Say what jit is told of the objects of a class and of those derived from it."""
    _holdings[cls] = holding


def base_of(cls: type) -> type | None:
    """The registered class from which one derives."""
    return next((base for base in cls.__mro__ if base in _holdings), None)


def holding_of(cls: type) -> Holding | None:
    """What a class says, None if jit knows nothing of it."""
    base = base_of(cls)
    return None if base is None else _holdings[base]
