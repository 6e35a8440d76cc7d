"""Settings: what Modules and optimizers hold besides tensors, looked at when it may have changed.

Whoever changes such a setting adds to one count (``fx.versions``). While that stands, a guard on a
whole model is the comparison of one integer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from weakref import ref

from fx.numbers import Numbers
from fx.staged_number import is_dynamic
from fx.state import Cell
from fx.tensor import Tensor
from fx.transforms.jitting.guards_code import same
from fx.transforms.jitting.touched import Touched
from fx.versions import Hooks, around_steps, changes, for_all

_PLAIN = frozenset((bool, int, float, complex, str, bytes, type(None)))
_STATE = ".state"
_HELD = frozenset(("_parameters", "_buffers", "_modules", "_ties", "_non_persistent_buffers_set"))


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

    def renew(self) -> None:
        """Take the state that optimizers hold now for what they held."""
        for holder, _, _, was in self._of:
            held = holder()
            if held is not None and _STATE in was:
                was[_STATE] = _states(held)

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
    found: dict[str, Any] = {}
    if hasattr(holder, "_modules"):
        _module(holder, "", filters, found, set(), touched)
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
    touched: Touched,
) -> None:
    seen.add(id(module))
    own = module.__dict__
    only = filters.get(type(module))
    for name, value in own.items():
        hooks = type(value) is Hooks
        if name not in _HELD and (only is None or name == "training" or name in only or hooks):
            if touched.is_renewed(module, name):
                continue
            plain = isinstance(value, Tensor) and not isinstance(value, Cell)  # guarded where read
            counted = plain or touched.is_counted(module, name, value)
            found[f"{path}.{name}"] = _entry(type(value) if counted else value)
    for kind in ("_parameters", "_buffers"):
        for name, value in own[kind].items():
            found[f"{path}.{name}"] = _entry(value)
    for name, below in own["_modules"].items():
        found[f"{path}.{name}"] = _entry(below)
        if below is not None and id(below) not in seen:
            _module(below, f"{path}.{name}", filters, found, seen, touched)


def _optimizer(optimizer: Any, found: dict[str, Any]) -> None:
    for name, value in optimizer.__dict__.items():
        if name not in ("state", "param_groups", "defaults"):
            found[f".{name}"] = _entry(value)
    found["the hooks of all optimizers"] = [_entry(hooks) for hooks in around_steps]
    groups = optimizer.param_groups
    found[".param_groups"] = [_Object(group) for group in groups]
    for i, group in enumerate(groups):
        for key, value in _fixed(group):
            found[f".param_groups[{i}][{key!r}]"] = value
    found[_STATE] = _states(optimizer)


def _states(optimizer: Any) -> list[Any]:
    """What is kept for each parameter: which cells, and what is no number."""
    state = optimizer.state
    out: list[Any] = [id(state)]
    for group in optimizer.param_groups:
        for p in dict.__getitem__(group, "params"):
            held = dict.get(state, p)
            if isinstance(held, dict):
                named = sorted(_fixed(held, True), key=lambda pair: str(pair[0]))
                out.append([_Object(held), *named])
            else:
                out.append(_entry(held))
    return out


def _fixed(group: dict[Any, Any], cells: bool = False) -> Iterable[tuple[Any, Any]]:
    """The entries of a group that are no numbers and no tensors, save cells."""
    tuples = group.tuples if isinstance(group, Numbers) else {}
    for key, value in dict.items(group):
        if key in tuples:
            yield key, id(tuples[key])  # whose numbers are inputs
        elif isinstance(value, Cell) and cells:
            yield key, _Object(value)
        elif is_dynamic(value):
            yield key, type(value).__name__
        elif key == "params" or not isinstance(value, Tensor):
            yield key, _entry(list(value) if key == "params" else value)
