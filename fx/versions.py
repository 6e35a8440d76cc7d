"""A count of the changes of Python state that compiled programs depend on, as a Module's settings.

Whoever holds such state adds to the count when it changes; a program that was compiled looks at its
settings again only if the count has moved.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

_PLAIN = frozenset((bool, int, float, complex, str, bytes, type(None)))


class Changes:
    """The count."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


changes = Changes()


def note_change(before: Any, after: Any) -> None:
    """Count a change of a setting, unless it is set to what it was."""
    if before is after:
        return
    kind = type(before)
    if kind is type(after) and kind in _PLAIN and before == after and (after or kind is not float):
        return
    changes.count += 1


def touch() -> None:
    """Count a change."""
    changes.count += 1


class Hooks(OrderedDict[int, Any]):
    """Functions that a Module calls besides its own, by number; each change counts."""

    @classmethod
    def of(cls, items: Any) -> Hooks:
        """Hooks of pairs of a number and a function, which count as no change."""
        out = cls()
        for number, hook in items:
            OrderedDict.__setitem__(out, number, hook)
        return out

    def __setitem__(self, number: int, hook: Any) -> None:
        touch()
        super().__setitem__(number, hook)

    def __delitem__(self, number: int) -> None:
        touch()
        super().__delitem__(number)

    def pop(self, number: int, *default: Any) -> Any:
        touch()
        return super().pop(number, *default)

    def popitem(self, last: bool = True) -> Any:
        touch()
        return super().popitem(last)

    def clear(self) -> None:
        touch()
        super().clear()

    def move_to_end(self, number: int, last: bool = True) -> None:
        touch()
        super().move_to_end(number, last)


for_all: dict[str, Hooks] = {}  # by kind, the hooks that every Module calls
