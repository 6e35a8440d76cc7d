"""What functions are given: lists, pairs and sizes, refused by name where they are none."""

from __future__ import annotations

from collections.abc import Iterable
from operator import index
from typing import Any

from fx.errors import ArgumentError
from fx.tensor import Tensor


def listed(name: str, word: str, value: Any) -> list[Any]:
    """The items of a sequence; of a tensor its slices along the first axis.

    Raises:
        ArgumentError: if it is none.
    """
    several = value.ndim > 0 if isinstance(value, Tensor) else isinstance(value, Iterable)
    if not several or isinstance(value, str | bytes | type):
        raise ArgumentError(f"{name}: {word} must be a sequence, got {value!r:.60}")
    return list(value)


def pair(name: str, word: str, value: Any) -> tuple[Any, Any]:
    """Two numbers.

    Raises:
        ArgumentError: if they are not.
    """
    found = listed(name, word, value)
    if len(found) != 2 or any(getattr(x, "shape", ()) != () for x in found):
        raise ArgumentError(f"{name}: {word} must be two numbers, got {value!r:.60}")
    return found[0], found[1]


def sizes(name: str, word: str, value: Any) -> tuple[int, ...]:
    """A shape: an integer or a sequence of them, none negative.

    Raises:
        ArgumentError: if it is none.
    """
    try:
        found = (index(value),) if hasattr(value, "__index__") else tuple(map(index, value))
    except TypeError:
        found = (-1,)
    if any(n < 0 for n in found):
        raise ArgumentError(f"{name}: {word} must be sizes, got {value!r:.60}; write (2, 3)")
    return found
