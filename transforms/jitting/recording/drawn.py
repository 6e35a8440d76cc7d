"""Drawn: what one call has drawn from random generators, and where these were before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Drawn:
    """What one call has drawn.

    Attributes:
        values: of a program's table, by their places.
    """

    __slots__ = ("_backs", "values")

    def __init__(self) -> None:
        self.values: dict[int, Any] = {}
        self._backs: dict[int, Callable[[], None]] = {}

    def note(self, generators: Any) -> None:
        """Random generators are about to be used: note where they are."""
        for x in generators:
            if x is not None and id(x) not in self._backs:
                from fx.transforms.jitting.watching.impure import (
                    state_of,  # which loads numpy.random
                )

                self._backs[id(x)] = state_of(x)

    def put_back(self) -> None:
        """Put the generators back to where they were: the function will run, and draw again."""
        for back in self._backs.values():
            back()
        self.values, self._backs = {}, {}
