"""A count of the changes of Python state that compiled programs depend on, as a Module's settings.

Whoever holds such state adds to the count when it changes; a program that was compiled looks at its
settings again only if the count has moved. The containers that Modules and optimizers keep it in do
so by themselves: every method that changes one counts, after the change, so that whoever sees the
old count has looked at nothing new.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from itertools import count
from typing import Any

_PLAIN = frozenset((bool, int, float, complex, str, bytes, type(None)))
_SIGNED = frozenset((float, complex))  # which have two zeros
_MUTATORS = (
    "__setitem__", "__delitem__", "__ior__", "__iadd__", "__imul__", "append", "clear", "extend",
    "insert", "move_to_end", "pop", "popitem", "remove", "reverse", "setdefault", "sort", "update",
)  # fmt: skip


class Changes:
    """The count.

    Attributes:
        count: of changes; only whether it is another one matters.
        loads: another number after each transaction (``fx.transaction``).
    """

    __slots__ = ("count", "loads")

    def __init__(self) -> None:
        self.count = 0
        self.loads = 0


changes = Changes()


def note_change(before: Any, after: Any) -> None:
    """Count a change of a setting, unless it is set to what it was."""
    if before is after:
        return
    kind = type(before)
    if (
        kind is type(after)
        and kind in _PLAIN
        and before == after
        and (after or kind not in _SIGNED)
    ):
        return
    changes.count += 1


def touch() -> None:
    """Count a change."""
    changes.count += 1


_epochs = count(1 << 40, 1 << 40)


def fresh() -> int:
    """A count that was never there: for who stores one together with what it counts.

    One more than a count that was read earlier may meanwhile be known as somebody else's.
    """
    return next(_epochs)


def observed(cls: Any) -> Any:
    """A container class whose inherited methods count when they change it."""
    for name in _MUTATORS:
        if name not in vars(cls) and hasattr(cls, name):
            setattr(cls, name, _counting(getattr(cls, name)))
    return cls


def _counting(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def counted(self: Any, *args: Any, **more: Any) -> Any:
        try:
            return method(self, *args, **more)
        finally:
            changes.count += 1

    return counted


@observed
class Watched(dict[Any, Any]):
    """A dict whose changes count; what is set to what it was is none. Elsewhere it is a dict."""

    __slots__ = ()

    def __setitem__(self, key: Any, value: Any) -> None:
        before = dict.get(self, key, changes)
        dict.__setitem__(self, key, value)
        note_change(before, value)

    def copy(self) -> dict[Any, Any]:  # type: ignore[override]
        return dict(self)

    def __reduce__(self) -> Any:
        return dict, (dict(self),)


@observed
class WatchedList(list[Any]):
    """A list whose changes count. Elsewhere it is a list."""

    __slots__ = ()

    def __reduce__(self) -> Any:
        return list, (list(self),)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__reduce__()


@observed
class Hooks(OrderedDict[int, Any]):
    """Functions that are called besides a Module, a step or a backward pass, by number."""

    @classmethod
    def of(cls, items: Any) -> Hooks:
        """Hooks of pairs of a number and a function, which count as no change."""
        out = cls()
        for number, hook in items:
            OrderedDict.__setitem__(out, number, hook)
        return out


class Hook:
    """A forward hook of a Module with the way in which it wants to be called."""

    __slots__ = ("always", "function", "kwargs")

    def __init__(self, function: Callable[..., Any], kwargs: bool, always: bool = False) -> None:
        self.function = function
        self.kwargs = kwargs
        self.always = always

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Hook)
            and self.function == other.function
            and (self.kwargs, self.always) == (other.kwargs, other.always)
        )

    def __hash__(self) -> int:
        return hash(self.function)

    def map(self, change: Callable[[Any], Any]) -> Hook:
        """The same with what ``change`` makes of the function."""
        function = change(self.function)
        return self if function is self.function else Hook(function, self.kwargs, self.always)

    def __call__(self, module: Any, args: Any, kwargs: Any, *out: Any) -> Any:
        if self.kwargs:
            return self.function(module, args, kwargs, *out)
        return self.function(module, args, *out)


for_all: dict[str, Hooks] = {}  # by kind, the hooks that every Module calls
around_steps = (Hooks(), Hooks())  # what every optimizer calls before and after its step
