"""What is remembered of an object for as long as that lives."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, ref

T = TypeVar("T")
_MISSING = object()


def remembered(function: Callable[[Any], T]) -> Callable[[Any], T]:
    """A function of one code object or class; what it gives must not refer to that."""
    known: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

    @wraps(function)
    def found(x: Any) -> T:
        value = known.get(x, _MISSING)
        if value is _MISSING:
            value = known[x] = function(x)
        return value  # type: ignore[no-any-return]

    return found


def weakly(x: Any) -> Callable[[], Any]:
    """What gives an object without keeping it alive, where there is such a thing."""
    try:
        return ref(x)
    except TypeError:
        return lambda: x
