"""What torch's pullbacks keep while a program of ``twins.py`` runs: copies, which NumPy reaches.

torch keeps the tensors themselves, and refuses its gradients where something was written into one
since; fx keeps the values of then. What NumPy writes neither is told: it is there at once for all
that lies in the memory, in both libraries, also for what a pullback has kept.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any
from weakref import WeakSet

HOSTED = re.compile(r"numpy\(|asarray\(|\bn\d+\b")  # statements in which NumPy may write


class Saved:
    """What torch's pullbacks keep: copies of the values of then, which only NumPy changes."""

    def __init__(self) -> None:
        self._kept: WeakSet[Copy] = WeakSet()

    def copied(self, x: Any) -> Copy:
        """What is kept for ``x``."""
        copy = Copy(x)
        self._kept.add(copy)
        return copy

    @contextlib.contextmanager
    def following(self, line: str) -> Iterator[None]:
        """Copies that nobody has written under since see what NumPy writes in a statement."""
        same = []
        if HOSTED.search(line):
            same = [(x, x.memory._version) for x in self._kept if x.is_same()]
        yield
        for x, version in same:
            if x.memory._version == version:  # torch counts its own writes, and none of NumPy's
                x.values.copy_(x.memory)


class Copy:
    """The values of a tensor, and the memory in which it lies."""

    def __init__(self, x: Any) -> None:
        self.memory = x.detach()
        self.values = self.memory.clone()

    def is_same(self) -> bool:
        """Whether nothing but NumPy has written there since."""
        return bool(self.memory.equal(self.values))


def values_of(x: Copy) -> Any:
    """What a pullback of torch's computes with."""
    return x.values
