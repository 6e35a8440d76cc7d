"""Numbers: Python numbers that a program changes, as a learning rate or a step count.

Eagerly they are plain Python numbers. While a function is staged, those that live in a ``Numbers``
dict or behind a ``Number`` attribute become inputs of the graph, and writing one becomes an output:
a jitted step is not compiled again because a scheduler moved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fx.commit import Stores
from fx.config import modes
from fx.staged_number import StagedNumber, is_dynamic
from fx.versions import changes, note_change, touch


class Number:
    """An attribute that holds a Python number which jitted functions may read and write.

    Example:
        >>> from fx.numbers import Number
        >>> class Schedule:
        ...     rate = Number()
        >>> schedule = Schedule()
        >>> schedule.rate = 0.5
        >>> schedule.rate
        0.5
    """

    __slots__ = ("name",)

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        try:
            held = instance.__dict__
            if modes.stage is None or not is_dynamic(held[self.name]):
                return held[self.name]
        except KeyError:
            raise AttributeError(
                f"{type(instance).__name__!r} object has no attribute {self.name!r}"
            ) from None
        return modes.stage.read_number(held, self.name)

    def __set__(self, instance: Any, value: Any) -> None:
        held = instance.__dict__
        stage = modes.stage
        if stage is not None and stage.write_number(held, self.name, value):
            return
        held[self.name] = value


class Numbers(dict[Any, Any]):
    """A dict whose numbers jitted functions may read and write, as an optimizer's options are.

    Numbers in a tuple, as Adam's betas, are read in the same way; who writes another tuple does so
    outside of staging, or by ``on_host``.

    Attributes:
        tuples: for each key whose value is a tuple of numbers, these by their place.
    """

    __slots__ = ("tuples",)

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.tuples: dict[Any, dict[int, Any]] = {}
        for key, value in dict.items(self):
            if type(value) is tuple:
                self._note_tuple(key, value)

    def _note_tuple(self, key: Any, value: Any) -> bool:
        """Keep the numbers of a tuple where they are read; whether only their values changed."""
        held = self.tuples.get(key)
        if type(value) is not tuple or not value or not all(map(is_dynamic, value)):
            self.tuples.pop(key, None)
            return False
        same = held is not None and [*map(type, held.values())] == [*map(type, value)]
        if not same:
            held = self.tuples[key] = {}
        held.update(enumerate(value))  # type: ignore[union-attr]
        return same

    def __getitem__(self, key: Any) -> Any:
        value = dict.__getitem__(self, key)
        stage = modes.stage
        if stage is None:
            return value
        if is_dynamic(value):
            return value if type(value) is StagedNumber else stage.read_number(self, key)
        held = self.tuples.get(key)
        return value if held is None else tuple([stage.read_number(held, i) for i in held])

    def get(self, key: Any, default: Any = None) -> Any:
        return self[key] if key in self else default  # noqa: SIM401 - through __getitem__

    def __setitem__(self, key: Any, value: Any) -> None:
        stage = modes.stage
        if stage is not None and stage.write_number(self, key, value):
            return
        if type(value) is not float and type(value) is not int:
            if type(value) is not tuple and key not in self.tuples:
                note_change(dict.get(self, key, changes), value)
            elif not self._note_tuple(key, value):
                touch()
        elif key in self.tuples:
            del self.tuples[key]
            touch()
        dict.__setitem__(self, key, value)

    def plan(self, stores: Stores, key: Any, value: Any) -> None:
        """List the stores that set a number, or another value, outside of staging."""
        stores.put(self, key, value)
        held = self.tuples.get(key)
        if type(value) is not tuple or not value or not all(map(is_dynamic, value)):
            stores.drop(self.tuples, key)
        elif held is not None and [*map(type, held.values())] == [*map(type, value)]:
            for i, x in enumerate(value):
                stores.put(held, i, x)
        else:
            stores.put(self.tuples, key, dict(enumerate(value)))
        stores.noted = True

    def __delitem__(self, key: Any) -> None:
        self.tuples.pop(key, None)
        touch()
        dict.__delitem__(self, key)

    def pop(self, key: Any, *default: Any) -> Any:
        self.tuples.pop(key, None)
        touch()
        return dict.pop(self, key, *default)

    def clear(self) -> None:
        self.tuples.clear()
        touch()
        dict.clear(self)

    def update(self, *others: Any, **more: Any) -> None:
        for key, value in dict(*others, **more).items():
            self[key] = value

    def setdefault(self, key: Any, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def __ior__(self, other: Any) -> Numbers:  # type: ignore[override,misc]
        self.update(other)
        return self

    def items(self) -> Any:
        if modes.stage is None:
            return dict.items(self)
        return [(key, self[key]) for key in self]

    def values(self) -> Any:
        if modes.stage is None:
            return dict.values(self)
        return [self[key] for key in self]

    def __reduce__(self) -> Any:
        return Numbers, (dict(dict.items(self)),)


def on_host(effect: Callable[..., None], held: tuple[dict[Any, Any], ...], *args: Any) -> None:
    """Do something with Python numbers that no graph holds, as a scheduler's step does.

    Eagerly that is a call. While a function is staged, ``effect`` becomes a part of the program: it
    is called again in every call of the compiled function, before the numbers that are read after
    it are fetched.

    Args:
        effect: changes numbers in ``held``, and nothing else.
        held: the dicts that it changes, so that it can be undone.
        args: tensors whose values it gets; then it is called at the end of the program.
    """
    stage = modes.stage
    if stage is None:
        before = [(d, dict(dict.items(d))) for d in held]
        try:
            effect(*args)
        except BaseException:
            for d, was in before:
                dict.clear(d)
                dict.update(d, was)
            raise
    else:
        parts = [part for x in held if isinstance(x, Numbers) for part in x.tuples.values()]
        stage.host(effect, (*held, *parts), args)
