"""What jit is told of optimizers: options of groups, which slots there are, and hooks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fx.holding import Holding, Part, Setting
from fx.numbers import Numbers
from fx.staged_number import is_dynamic
from fx.state import Cell
from fx.tensor import Tensor
from fx.versions import around_steps

_STATE = ".state"


class Steps(Holding):
    """Of an optimizer: numbers among its options are inputs of a program, and no settings."""

    method = "step"
    internal = frozenset(("state", "param_groups", "defaults", "_opt_called"))
    renewed = frozenset((_STATE,))
    read = True
    around = around_steps

    def settings(self, x: Any, _matters: Callable[[Any, str], bool]) -> Iterator[Setting]:
        for name, value in x.__dict__.items():
            if name not in self.internal:
                yield Setting(f".{name}", value, x, name)
        yield Setting("the hooks of all optimizers", self.around)
        yield Setting(".param_groups", list(x.param_groups))
        for i, group in enumerate(x.param_groups):
            for key, value in _fixed(group):
                yield Setting(f".param_groups[{i}][{key!r}]", value)
        yield Setting(_STATE, _states(x))

    def kept(self, x: Any) -> Iterable[Any]:
        return [x.state, *dict.values(x.state)]

    def tensors(self, x: Any) -> Iterable[Part]:
        return [
            Part(f"[{key}]", ("param_groups", i, key), value)
            for i, group in enumerate(x.param_groups)
            for key, value in dict.items(group)
            if isinstance(value, Tensor)
        ]


def _states(optimizer: Any) -> list[Any]:
    """What is kept for each parameter: which cells, and what is no number."""
    state = optimizer.state
    out: list[Any] = [id(state)]
    for group in optimizer.param_groups:
        for p in dict.__getitem__(group, "params"):
            held = dict.get(state, p)
            if isinstance(held, dict):
                named = sorted(_fixed(held, True), key=lambda pair: str(pair[0]))
                out.append([held, *named])
            else:
                out.append(held)
    return out


def _fixed(group: dict[Any, Any], cells: bool = False) -> Iterable[tuple[Any, Any]]:
    """The entries of a group that are no numbers and no tensors, save cells."""
    tuples = group.tuples if isinstance(group, Numbers) else {}
    for key, value in dict.items(group):
        if key in tuples:
            yield key, id(tuples[key])  # whose numbers are inputs
        elif isinstance(value, Cell) and cells:
            yield key, value
        elif is_dynamic(value):
            yield key, type(value).__name__
        elif key == "params" or not isinstance(value, Tensor):
            yield key, list(value) if key == "params" else value
