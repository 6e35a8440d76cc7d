"""What an optimizer holds: its state and its groups, whose changes compiled steps hear of."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from fx.config import modes
from fx.numbers import Numbers
from fx.state import Cell
from fx.tensor import Tensor
from fx.versions import WatchedList, observed, touch


class Slots(Numbers):
    """What is kept for one parameter: a tensor that is stored becomes a cell of its own.

    Its Python numbers are inputs of a jitted step, as those of a group are. What is new in it, or
    leaves it, while a function is staged was not there when the call began: that call runs as it
    is, and the next one finds what it made.
    """

    __slots__ = ("__weakref__",)

    def __setitem__(self, name: Any, value: Any) -> None:
        stage, before = modes.stage, dict.get(self, name)
        if stage is not None and (name not in self or isinstance(value, Cell)):
            stage.postpone()
        if isinstance(value, Tensor) and not isinstance(value, Cell):
            value = Cell(value, name=str(name))
            if stage is not None:
                stage.replace(self, name, before, value)
                dict.__setitem__(self, name, value)
                return
        super().__setitem__(name, value)

    def __delitem__(self, name: Any) -> None:
        _refuse_staged()
        super().__delitem__(name)

    def pop(self, name: Any, *default: Any) -> Any:
        _refuse_staged()
        return super().pop(name, *default)

    def clear(self) -> None:
        _refuse_staged()
        super().clear()

    def fill(self, cells: dict[str, Any]) -> None:
        """Keep cells that are as if they had been there before: a stage that runs goes on."""
        if modes.stage is not None:
            for name in cells.keys() - self.keys():
                modes.stage.makes(self, name)
        dict.update(self, cells)
        touch()

    def __reduce__(self) -> Any:
        return dict, (dict(dict.items(self)),)


def _refuse_staged() -> None:
    if modes.stage is not None:
        modes.stage.postpone()


@observed
class _WatchedDefaults(defaultdict[Any, Any]):
    """A defaultdict whose changes count."""


class States(_WatchedDefaults):
    """The state of an optimizer: ``Slots`` by parameter, made when they are first asked for."""

    def __init__(self, items: Any = (), make: Any = Slots) -> None:
        super().__init__(make)
        for p, held in dict(items).items():
            dict.__setitem__(self, p, self._kept(held))

    def __setitem__(self, p: Any, held: Any) -> None:
        if p in self:
            _refuse_staged()
        elif modes.stage is not None:
            modes.stage.makes(self, p)
        super().__setitem__(p, self._kept(held))

    def _kept(self, held: Any) -> Any:
        make: Any = self.default_factory
        return make(held) if type(held) is dict and make is not dict else held

    def update(self, *others: Any, **more: Any) -> None:
        for p, held in dict(*others, **more).items():
            self[p] = held

    def __ior__(self, other: Any) -> States:  # type: ignore[override,misc]
        self.update(other)
        return self

    def setdefault(self, p: Any, default: Any = None) -> Any:
        if p not in self:
            self[p] = {} if default is None else default
        return self[p]

    def __delitem__(self, p: Any) -> None:
        _refuse_staged()
        super().__delitem__(p)

    def pop(self, p: Any, *default: Any) -> Any:
        _refuse_staged()
        return super().pop(p, *default)

    def popitem(self) -> Any:
        _refuse_staged()
        return super().popitem()

    def clear(self) -> None:
        _refuse_staged()
        super().clear()

    def copy(self) -> Any:
        return defaultdict(dict, self)

    def __reduce__(self) -> Any:
        return defaultdict, (dict, dict(self.items()))


class Group(Numbers):
    """A group of parameters with its options."""

    __slots__ = ("__weakref__",)  # guards refer to it weakly, for it holds the parameters

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        if type(dict.get(self, "params")) is list:
            dict.__setitem__(self, "params", WatchedList(dict.__getitem__(self, "params")))

    def __setitem__(self, key: Any, value: Any) -> None:
        if key == "params" and type(value) is list:
            value = WatchedList(value)
        super().__setitem__(key, value)

    def __reduce__(self) -> Any:
        return Numbers, (_plain(self),)


def _plain(group: Group) -> dict[Any, Any]:
    return {k: list(v) if type(v) is WatchedList else v for k, v in dict.items(group)}


class Groups(WatchedList):
    """The groups of an optimizer: what is put among them becomes a ``Group``."""

    __slots__ = ()

    def __init__(self, groups: Iterable[Any] = ()) -> None:
        super().__init__(map(_group, groups))

    def __setitem__(self, place: Any, group: Any) -> None:
        group = [*map(_group, group)] if isinstance(place, slice) else _group(group)
        super().__setitem__(place, group)

    def append(self, group: Any) -> None:
        super().append(_group(group))

    def insert(self, place: Any, group: Any) -> None:
        super().insert(place, _group(group))

    def extend(self, groups: Any) -> None:
        super().extend(map(_group, groups))

    def __iadd__(self, groups: Any) -> Groups:  # type: ignore[override,misc]
        self.extend(groups)
        return self


def _group(group: Any) -> Any:
    return Group(dict.items(group)) if type(group) in (dict, Numbers) else group
