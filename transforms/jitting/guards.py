"""Guards: what a jitted function reads of Python's state, and whether that is as it was."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

from fx.tensor import Tensor

_PLAIN = (bool, int, float, complex, str, bytes, type(None))


class Guards:
    """The Python values that a function reads from closures and globals, as they were."""

    __slots__ = ("_checks", "_found")

    def __init__(self) -> None:
        self._checks: list[tuple[Callable[[], Any], Any, str]] = []
        self._found: dict[int, _Finder] = {}

    def hold(self) -> bool:
        """Whether everything is as it was."""
        return all(_same(get(), was) for get, was, _ in self._checks)

    def finder(self, x: Tensor) -> Any:
        """What gets the tensor anew, if a closure or a global holds it."""
        return self._found.get(id(x))


class _Finder:
    __slots__ = ("get", "name")

    def __init__(self, get: Callable[[], Any], name: str) -> None:
        self.get = get
        self.name = name

    def __call__(self) -> Any:
        return self.get()


def _same(now: Any, was: Any) -> bool:
    if now is was:
        return True
    return type(now) is type(was) and isinstance(now, _PLAIN) and (now == was or now != now)


def watch(function: Callable[..., Any], objects: list[Any]) -> Guards:
    """The guards of a function and of the objects that it is given."""
    guards = Guards()
    seen: set[int] = set()
    waiting: list[Any] = [function]
    while waiting:
        f = waiting.pop()
        f = getattr(f, "__func__", f)
        if not isinstance(f, FunctionType) or id(f) in seen:
            continue
        seen.add(id(f))
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or ()):
            _note(guards, waiting, name, lambda cell=cell: cell.cell_contents)
        for name in f.__code__.co_names:
            if name in f.__globals__:
                _note(guards, waiting, name, lambda g=f.__globals__, name=name: g.get(name))
    return guards


def _note(guards: Guards, waiting: list[Any], name: str, get: Callable[[], Any]) -> None:
    try:
        value = get()
    except ValueError:  # a variable of an enclosing function that is not bound yet
        return
    if isinstance(value, ModuleType):
        return
    if isinstance(value, Tensor) and value.level < 0:
        guards._found[id(value)] = _Finder(get, name)
    else:
        guards._checks.append((get, value, name))
    waiting.append(value)
