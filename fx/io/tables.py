"""Bounds on the work of hash tables: keys of a file whose hashes its writer could choose.

Python salts the hashes of text and bytes; those of numbers, and of tuples and sets of numbers, are
known to whoever writes a file. It can choose keys that all have one hash, or keys of many hashes
whose searches run through the same occupied places, and then each key costs as much as there are
keys before it. So the searches are followed here, on a table of marks, before keys are let in:

    keys 0, 1, 2, …              one or two places for each key
    keys of one hash             1, 2, 3, … places: refused
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

FEW = 256  # keys that may cost what they want: at most that many places each
_MOST = 256  # places for each key, on average; powers of two as floats have about 40
_LINE = 9  # neighbours that a set looks at before it jumps
_WORD = (1 << 64) - 1
_SALTED = (str, bytes)


class Table:
    """The places that the keys of one dict or set take, as CPython searches for them.

    Args:
        target: the container; it is kept, so that its identity stays its own.
    """

    __slots__ = ("hashes", "line", "marks", "target", "work")

    def __init__(self, target: Any) -> None:
        self.target = target
        self.line = _LINE if isinstance(target, set | frozenset) else 0
        self.hashes: list[int] = []
        self.marks = bytearray(8)
        self.work = 0

    def add(self, keys: Iterable[Any]) -> None:
        """Follow the searches for more keys.

        Raises:
            ValueError: if they take many more places than keys have by accident.
        """
        hashes = self.hashes
        for key in keys:
            if not self.line and 3 * len(hashes) >= 2 * len(self.marks) - 2:
                self.grow(2)
            hashes.append(hash(key) & _WORD)
            self.place(hashes[-1])
            if self.line and 5 * len(hashes) >= 3 * (len(self.marks) - 1):
                self.grow(2 if len(hashes) > 50_000 else 4)

    def grow(self, times: int) -> None:
        """Begin again with more room, as CPython does when a dict or set fills up."""
        self.marks = bytearray(times * len(self.marks))
        for value in self.hashes:
            self.place(value)

    def place(self, value: int) -> None:
        """Mark the place of a hash."""
        marks, line = self.marks, self.line
        mask = len(marks) - 1
        at, rest, steps = value & mask, value, 1
        while marks[at]:
            if line and at + line <= mask:
                free = marks.find(0, at, at + line + 1)
                if free >= 0:
                    at = free
                    break
                steps += line
            rest >>= 5
            at = (5 * at + rest + 1) & mask
            steps += 1
        marks[at] = 1
        self.work += steps
        if self.work > _MOST * (len(self.hashes) + FEW):
            raise ValueError(
                f"keys whose hashes were chosen to collide: {len(self.hashes)} of them take more "
                f"than {_MOST} steps each"
            )


class Tables:
    """The tables of the containers of one file that have many keys with known hashes."""

    def __init__(self) -> None:
        self._of: dict[int, Table] = {}

    def admit(self, target: Any, keys: list[Any]) -> None:
        """Refuse keys that make a container slow.

        Args:
            target: the dict or set that is to take them.
            keys: those of them whose hashes are not salted.

        Raises:
            ValueError: if they were chosen to collide.
        """
        if len(target) + len(keys) <= FEW:
            return
        table = self._of.get(id(target))
        if table is None:
            table = self._of[id(target)] = Table(target)
            table.add(key for key in target if type(key) not in _SALTED)
        table.add(keys)
