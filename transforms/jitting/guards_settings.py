"""Settings: what Modules and optimizers hold besides tensors, looked at when it may have changed.

Whoever changes such a setting adds to one count (``fx.versions``). While that stands, a guard on a
whole model is the comparison of one integer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from weakref import ref

from fx.numbers import Numbers, is_dynamic
from fx.state import Cell
from fx.tensor import Tensor
from fx.versions import Hooks, changes, for_all

_PLAIN = frozenset((bool, int, float, complex, str, bytes, type(None)))
_HELD = frozenset(("_parameters", "_buffers", "_modules", "_ties", "_non_persistent_buffers_set"))


class Settings:
    """What Modules and optimizers were like.

    Attributes:
        seen: the count of changes when they were looked at last.
    """

    __slots__ = ("_of", "seen")

    def __init__(self) -> None:
        self.seen = changes.count
        self._of: list[tuple[ref[Any], str, Any, dict[Any, Any]]] = []

    def __bool__(self) -> bool:
        return bool(self._of)

    def add(self, holder: Any, name: str, filters: dict[type, frozenset[str] | None]) -> None:
        """Note what a Module or an optimizer is like.

        Args:
            holder: the object.
            name: what messages call it.
            filters: for a class of Modules, the attributes that matter; None for all.
        """
        self._of.append((ref(holder), name, filters, _found(holder, filters)))

    def same(self) -> bool:
        """Whether all of it is as it was."""
        count = changes.count
        if self.changed() is not None:
            return False
        self.seen = count
        return True

    def changed(self) -> tuple[str, Any, Any] | None:
        """The name of a setting that has changed, what it was and what it is."""
        for holder, name, filters, was in self._of:
            held = holder()
            if held is None:
                return name, "an object", "gone"
            now = _found(held, filters)
            for key, value in was.items():
                if key not in now:
                    return f"{name}{key}", value, "missing"
                if not _same(now[key], value):
                    return f"{name}{key}", value, now[key]
            for key, value in now.items():
                if key not in was:
                    return f"{name}{key}", "missing", value
        return None


class _Object:
    """An object that is compared by identity and not kept alive."""

    __slots__ = ("held", "leaf", "name")

    def __init__(self, held: Any) -> None:
        try:
            self.held: Any = ref(held)
        except TypeError:
            self.held = lambda: held
        self.leaf = type(held) is not Tensor and isinstance(held, Cell) and held.leaf is not None
        self.name = type(held).__name__

    def __repr__(self) -> str:
        return f"a {self.name}{' that requires grad' if self.leaf else ''}"


def _same(now: Any, was: Any) -> bool:
    if type(was) is _Object:
        if type(now) is not _Object:
            return False
        held = now.held()
        return held is not None and held is was.held() and now.leaf == was.leaf
    if type(now) is not type(was):
        return False
    if type(was) is tuple or type(was) is list:
        return len(now) == len(was) and all(map(_same, now, was))
    return bool(now == was) or now != now


def _entry(value: Any) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is tuple or kind is list:
        return kind([_entry(x) for x in value])
    if isinstance(value, Hooks):
        return [_entry(x) for x in value.values()]
    return _Object(value)


def _found(holder: Any, filters: dict[type, frozenset[str] | None]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if hasattr(holder, "_modules"):
        _module(holder, "", filters, found, set())
        found["the hooks of all Modules"] = [_entry(hooks) for hooks in for_all.values()]
    else:
        _optimizer(holder, found)
    return found


def _module(
    module: Any,
    path: str,
    filters: dict[type, frozenset[str] | None],
    found: dict[str, Any],
    seen: set[int],
) -> None:
    seen.add(id(module))
    own = module.__dict__
    only = filters.get(type(module))
    for name, value in own.items():
        hooks = type(value) is Hooks
        if name not in _HELD and (only is None or name == "training" or name in only or hooks):
            found[f"{path}.{name}"] = _entry(value)
    for kind in ("_parameters", "_buffers"):
        for name, value in own[kind].items():
            found[f"{path}.{name}"] = _entry(value)
    for name, below in own["_modules"].items():
        found[f"{path}.{name}"] = _entry(below)
        if below is not None and id(below) not in seen:
            _module(below, f"{path}.{name}", filters, found, seen)


def _optimizer(optimizer: Any, found: dict[str, Any]) -> None:
    found[".state"] = id(optimizer.state)
    groups = optimizer.param_groups
    found[".param_groups"] = len(groups)
    for i, group in enumerate(groups):
        for key, value in _fixed(group):
            found[f".param_groups[{i}][{key!r}]"] = _entry(value)


def _fixed(group: dict[Any, Any]) -> Iterable[tuple[Any, Any]]:
    """The entries of a group that are no numbers and no tensors."""
    tuples = group.tuples if type(group) is Numbers else {}
    for key, value in dict.items(group):
        if key in tuples:
            yield key, id(tuples[key])  # whose numbers are inputs
            continue
        if key == "params" or not (is_dynamic(value) or isinstance(value, Tensor)):
            yield key, value
