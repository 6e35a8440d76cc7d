"""Commit: several stores into slots and dicts that happen all at once.

Python handles signals, and lets other threads run, between byte codes only. So the stores are
listed first, and then done by one call of a function in C that goes through other functions in C:
what interrupts it finds either none of them done or all. What was there before is held until the
end, since its end may run anything.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import chain, repeat, starmap
from operator import is_not
from typing import Any

from fx.versions import changes, fresh


class Stores:
    """Stores that wait for ``commit``.

    Example:
        >>> from fx.commit import Stores
        >>> numbers = {"lr": 0.1}
        >>> stores = Stores()
        >>> stores.put(numbers, "lr", 0.01)
        >>> stores.commit()
        True
        >>> numbers
        {'lr': 0.01}
    """

    __slots__ = (
        "_dicts", "_drops", "_keys", "_names", "_owners", "_things", "_values", "calls", "done",
        "noted",
    )  # fmt: skip

    def __init__(self) -> None:
        self._owners: list[Any] = []
        self._names: list[str] = []
        self._values: list[Any] = []
        self._dicts: list[dict[Any, Any]] = []
        self._keys: list[Any] = []
        self._things: list[Any] = []
        self._drops: list[tuple[dict[Any, Any], Any]] = []
        self.calls: list[tuple[Any, tuple[Any, ...]]] = []  # of functions in C
        self.done = False
        self.noted = False  # whether they count as changes (fx.versions)

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

    def drop(self, held: dict[Any, Any], key: Any) -> None:
        """Take a key out of a dict, if it is there."""
        self._drops.append((held, key))

    def call(self, run: Any, *args: Any) -> None:
        """Call a function in C."""
        self.calls.append((run, args))

    def places(self) -> Iterator[tuple[Any, Any, bool]]:
        """What they change: an object and a name, or a dict and a key; whether it is a dict."""
        yield from zip(self._owners, self._names, repeat(False))
        yield from zip(self._dicts, self._keys, repeat(True))
        yield from [(held, key, True) for held, key in self._drops]

    def commit(self, refused: type | None = None) -> bool:
        """Do them; ``done`` says so from the same instant on.

        Args:
            refused: a class; where an object holds something of it under a name, none is done.

        Returns:
            Whether they were done.
        """
        before = [*map(getattr, self._owners, self._names, repeat(None))]
        before += [*map(dict.get, self._dicts, self._keys)]
        stores = chain(
            map(setattr, self._owners, self._names, self._values),
            map(dict.__setitem__, self._dicts, self._keys, self._things),
            starmap(dict.pop, [(held, key, None) for held, key in self._drops]),
            *[starmap(run, (args,)) for run, args in self.calls],
            map(setattr, (changes,), ("count",), (fresh(),) if self.noted else ()),
            map(setattr, (self,), ("done",), (True,)),
        )
        if refused is not None:
            held = map(type, map(getattr, self._owners, self._names, repeat(None)))
            stores = chain(map(_ONLY_TRUE, map(is_not, held, repeat(refused))), stores)
        try:
            deque(stores, 0)
        except KeyError as error:
            if refused is None or error.args != (False,):
                raise
            return False
        del before
        return True


_ONLY_TRUE = {True: None}.__getitem__
