"""What names in a file may stand for: functions of the table, and what the user declared safe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Maker:
    """What a name in a file stands for if it may be called.

    Args:
        name: as the file calls it.
        make: the function that is called in its place.
        keyed: whether it is given the machine first, which checks the keys of what it makes.
    """

    __slots__ = ("keyed", "make", "name")

    def __init__(self, name: str, make: Callable[..., Any], keyed: bool = False) -> None:
        self.name = name
        self.make = make
        self.keyed = keyed

    def __call__(self, *args: Any) -> Any:
        return self.make(*args)

    def __repr__(self) -> str:
        return f"<{self.name} of a file>"


class Trusted:
    """A class or function that the user has declared safe: it may be called, made and filled."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Theirs(Exception):
    """An error of a user's function, on its way through a reader that has errors of its own."""

    def __init__(self, error: Exception) -> None:
        self.error = error
