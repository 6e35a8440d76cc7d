"""A count of the changes of Python state that compiled programs depend on, as a Module's settings.

Whoever holds such state adds to the count when it changes; a program that was compiled looks at its
settings again only if the count has moved.
"""

from __future__ import annotations

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
