"""What jit is told of Modules: settings, parameters, submodules and hooks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fx.holding import Holding, Part, Setting
from fx.state import Cell
from fx.versions import Hooks, for_all


class Layers(Holding):
    """Of a Module and all below it."""

    method = "forward"
    internal = frozenset((
        "_parameters", "_buffers", "_modules", "_ties", "_non_persistent_buffers_set", "_computed",
        "_hooked",
    ))  # fmt: skip
    read = True

    def settings(self, x: Any, matters: Callable[[Any, str], bool]) -> Iterator[Setting]:
        yield from _settings(x, "", matters, set())
        yield Setting("the hooks of all Modules", list(for_all.values()))

    def inner(self, x: Any) -> Iterable[Part]:
        found = x._modules.items()
        return [Part(f".{n}", ("_modules", n), below) for n, below in found if below is not None]

    def cells(self, x: Any) -> Iterable[Part]:
        return [
            Part(f".{name}", (held, name), cell)
            for held in ("_parameters", "_buffers")
            for name, cell in getattr(x, held).items()
            if isinstance(cell, Cell)
        ]


_COMPARED = Layers.internal - {"_computed", "_hooked"}


def _settings(
    module: Any, path: str, matters: Callable[[Any, str], bool], seen: set[int]
) -> Iterator[Setting]:
    seen.add(id(module))
    own = module.__dict__
    yield Setting(f"{path}.__class__", type(module))
    for name, value in own.items():
        always = name == "training" or type(value) is Hooks
        if name not in _COMPARED and (always or matters(module, name)):
            yield Setting(f"{path}.{name}", value, module, name)
    for kind in ("_parameters", "_buffers"):
        for name, value in own[kind].items():
            yield Setting(f"{path}.{name}", value)
    for name, below in own["_modules"].items():
        yield Setting(f"{path}.{name}", below)
        if below is not None and id(below) not in seen:
            yield from _settings(below, f"{path}.{name}", matters, seen)
