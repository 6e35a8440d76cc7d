"""Settings: what Modules and optimizers hold besides tensors, looked at when it may have changed.

Whoever changes such a setting adds to one count (``fx.versions``). While that stands, a guard on a
whole model is the comparison of one integer.
"""

from __future__ import annotations

from typing import Any
from weakref import ref

from fx.holding import Holding, holding_of
from fx.state import Cell
from fx.tensor import Tensor
from fx.transforms.jitting.guards.code import same
from fx.transforms.jitting.guards.touched import Touched
from fx.versions import Hooks, changes

_PLAIN = frozenset((bool, int, float, complex, str, bytes, type(None)))


class Settings:
    """What Modules and optimizers were like.

    Attributes:
        seen: the count of changes when they were looked at last.
    """

    __slots__ = ("_of", "_touched", "seen")

    def __init__(self, touched: Touched) -> None:
        self.seen = changes.count
        self._touched = touched
        self._of: list[tuple[ref[Any], str, Any, dict[str, Any]]] = []

    def __bool__(self) -> bool:
        return bool(self._of)

    def add(self, holder: Any, name: str, filters: dict[type, frozenset[str] | None]) -> None:
        """Note what a Module or an optimizer is like.

        Args:
            holder: the object.
            name: what messages call it.
            filters: for a class of Modules, the attributes that matter; None for all.
        """
        self._of.append((ref(holder), name, filters, _found(holder, filters, self._touched)))

    def renew(self, touched: Touched) -> None:
        """Take the state that optimizers hold now for what they held, unless it was looked at."""
        for holder, _, filters, was in self._of:
            held = holder()
            begun = () if held is None else _holding(held).renewed
            if begun and not any(id(x) in touched.ids for x in _holding(held).kept(held)):
                now = _found(held, filters, self._touched)
                was.update({name: now[name] for name in begun})

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
            now = _found(held, filters, self._touched)
            if list(now) != list(was) and now.keys() == was.keys():
                return name, "an order", "another one"
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

    __slots__ = ("held", "hooks", "leaf", "name")

    def __init__(self, held: Any) -> None:
        try:
            self.held: Any = ref(held)
        except TypeError:
            self.held = lambda: held
        leaf = held.leaf if isinstance(held, Cell) else None
        self.leaf = leaf is not None
        self.hooks = () if leaf is None or leaf.extra is None else leaf.extra.numbers()
        self.name = type(held).__name__

    def __repr__(self) -> str:
        hooks = f" with {len(self.hooks)} hooks" if self.hooks else ""
        return f"a {self.name}{' that requires grad' if self.leaf else ''}{hooks}"


def _same(now: Any, was: Any) -> bool:
    if type(was) is _Object:
        if type(now) is not _Object:
            return False
        held = now.held()
        same_leaf = now.leaf == was.leaf and now.hooks == was.hooks
        return held is not None and held is was.held() and same_leaf
    if type(now) is not type(was):
        return False
    if type(was) is tuple or type(was) is list:
        return len(now) == len(was) and all(map(_same, now, was))
    return same(now, was)


def _entry(value: Any) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is tuple or kind is list:
        return kind([_entry(x) for x in value])
    if isinstance(value, Hooks):
        return [_entry(x) for x in value.values()]
    return _Object(value)


def _found(
    holder: Any, filters: dict[type, frozenset[str] | None], touched: Touched
) -> dict[str, Any]:
    def matters(x: Any, attribute: str) -> bool:
        only = filters.get(type(x))
        return only is None or attribute in only

    found: dict[str, Any] = {}
    for name, value, owner, attribute in _holding(holder).settings(holder, matters):
        if owner is not None:
            if touched.is_renewed(owner, attribute):
                continue
            plain = isinstance(value, Tensor) and not isinstance(value, Cell)  # guarded where read
            value = type(value) if plain or touched.is_counted(owner, attribute, value) else value
        found[name] = _entry(value)
    return found


def _holding(holder: Any) -> Holding:
    found = holding_of(type(holder))
    assert found is not None, type(holder)
    return found
