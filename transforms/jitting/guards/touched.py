"""Touched: what a function was seen to read while it was staged."""

from __future__ import annotations

from dataclasses import field
from types import CodeType
from typing import Any
from weakref import ref

from fx.slotted import slotted
from fx.transforms.jitting.guards.code import PLAIN


class Asked:
    """A call that guards make again; the user's objects among its arguments are not kept alive."""

    __slots__ = ("args", "function")

    def __init__(self, function: Any, args: list[Any]) -> None:
        self.function = function
        self.args = [(lambda x=x: x) if type(x) in PLAIN else ref(x) for x in args]

    def __call__(self) -> Any:
        found = self.function(*[arg() for arg in self.args])
        return tuple(found.items()) if type(found) is dict else found


@slotted(eq=False)
class Touched:
    """What was read, by the ids of objects.

    Attributes:
        ids: of objects that an instruction worked on.
        names: by object, the attributes that were read; and by namespace, the names.
        whole: objects of which any attribute may have been read.
        identity: objects of which it mattered which one they are.
        stored: containers that something was put into; those among them that are not in ``ids``
            were not looked at.
        keys: by dict, those that something was stored under.
        counters: numbers that the function changes as well as reads, which are inputs: by the id of
            what holds them, and the key.
        written: objects, with the attribute or None for a container, that were changed.
        renewed: objects, with an attribute that got a value before it was read: what it was does
            not matter, unless another run reads it.
        functions: those that were run and not made while they were.
        owners: classes whose special methods were used, and modules and classes that were read.
        spaces: namespaces of which names were read that are in no function's code.
        kept: containers that a cache gave.
        asked: what guards ask again, since it is not told by what it is asked with alone.
        made: the code of functions that were made.
        classes: the qualified names of classes that were made.
        untraced: whether nobody looked on any more when the last run ended.
        why: why the function cannot be compiled, if so.
    """

    ids: set[int] = field(default_factory=set)
    names: dict[int, set[str]] = field(default_factory=dict)
    whole: set[int] = field(default_factory=set)
    identity: set[int] = field(default_factory=set)
    counters: set[tuple[int, Any]] = field(default_factory=set)
    stored: set[int] = field(default_factory=set)
    keys: dict[int, dict[Any, None]] = field(default_factory=dict)
    written: set[tuple[int, str | None]] = field(default_factory=set)
    renewed: set[tuple[int, str]] = field(default_factory=set)
    functions: dict[int, ref[Any]] = field(default_factory=dict)
    special: dict[int, ref[Any]] = field(default_factory=dict)
    owners: dict[int, ref[Any]] = field(default_factory=dict)
    spaces: dict[int, dict[str, Any]] = field(default_factory=dict)
    kept: dict[int, Any] = field(default_factory=dict)
    asked: dict[Any, Asked] = field(default_factory=dict)
    made: set[CodeType] = field(default_factory=set)
    classes: set[str] = field(default_factory=set)
    untraced: bool = False
    why: str = ""

    def is_unread(self, x: Any) -> bool:
        """Whether something was put into a container that nobody has looked at."""
        return id(x) in self.stored and id(x) not in self.ids

    def is_counted(self, holder: Any, key: Any, value: Any) -> bool:
        """Whether a number is an input, and not compared."""
        kind = type(value)
        return (kind is int or kind is float) and (id(holder), key) in self.counters

    def is_renewed(self, holder: Any, name: str) -> bool:
        """Whether an attribute is never read before it gets a value."""
        key = id(holder)
        return (
            (key, name) in self.renewed
            and name not in self.names.get(key, ())
            and key not in self.whole
        )

    def merge(self, other: Touched, held: bool = False) -> None:
        """Add what another one knows; what that keeps alive only if ``held``."""
        if held:
            self.spaces.update(other.spaces)
            self.kept.update(other.kept)
            self.asked.update(other.asked)
        self.ids |= other.ids
        self.stored |= other.stored
        self.counters |= other.counters
        self.renewed |= other.renewed
        for key, names in other.names.items():
            self.names.setdefault(key, set()).update(names)
        self.whole |= other.whole
        self.identity |= other.identity
        self.functions.update(other.functions)
        self.special.update(other.special)
        self.owners.update(other.owners)
        self.made |= other.made
        self.classes |= other.classes
        self.untraced = other.untraced
