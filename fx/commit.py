"""Commit: several stores into slots and dicts that happen all at once.

Python handles signals, and lets other threads run, between byte codes only. So the stores are
listed first, and then done by one call of a function in C that goes through other functions in C:
what interrupts it finds either none of them done or all. What was there before is held until the
end, since its end may run anything.
"""

from __future__ import annotations

from collections import deque
from itertools import chain, starmap
from typing import Any


class Stores:
    """Stores that wait for ``commit``.

    Example:
        >>> from fx.commit import Stores
        >>> numbers = {"lr": 0.1}
        >>> stores = Stores()
        >>> stores.put(numbers, "lr", 0.01)
        >>> stores.commit()
        >>> numbers
        {'lr': 0.01}
    """

    __slots__ = ("_dicts", "_keys", "_names", "_owners", "_things", "_values", "calls", "done")

    def __init__(self) -> None:
        self._owners: list[Any] = []
        self._names: list[str] = []
        self._values: list[Any] = []
        self._dicts: list[dict[Any, Any]] = []
        self._keys: list[Any] = []
        self._things: list[Any] = []
        self.calls: list[tuple[Any, tuple[Any, ...]]] = []  # of functions in C
        self.done = False

    def add(self, owner: Any, name: str, value: Any) -> None:
        """Store into a slot of an object; setting it must run no Python."""
        self._owners.append(owner)
        self._names.append(name)
        self._values.append(value)

    def put(self, held: dict[Any, Any], key: Any, value: Any) -> None:
        """Store into a dict, as ``dict`` itself does."""
        self._dicts.append(held)
        self._keys.append(key)
        self._things.append(value)

    def commit(self) -> None:
        """Do them; ``done`` says so from the same instant on."""
        before = [*map(getattr, self._owners, self._names, [None] * len(self._owners))]
        stores = chain(
            map(setattr, self._owners, self._names, self._values),
            map(dict.__setitem__, self._dicts, self._keys, self._things),
            *[starmap(run, (args,)) for run, args in self.calls],
            map(setattr, (self,), ("done",), (True,)),
        )
        deque(stores, 0)
        del before
