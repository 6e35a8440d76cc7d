"""Capturing: the outputs of chosen Modules while a call runs, with nothing left in the Modules."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from fx import forking
from fx.versions import Hooks


class _Captures(threading.local):
    """What the running blocks of this thread capture, the outermost first."""

    running: tuple[dict[int, list[Any]], ...] = ()  # outputs of each wanted module, by its id


_captures = _Captures()
_users: dict[int, int] = {}  # how many running captures want a module, by its id
_lock = forking.instant(threading.Lock())


class capturing:
    """A block in which the outputs of ``modules`` are kept.

    Args:
        modules: whose calls look for hooks while the block runs, so that ``note`` hears of them.
    """

    def __init__(self, modules: Iterable[Any]) -> None:
        self._modules = list(modules)

    def __enter__(self) -> dict[int, list[Any]]:
        outputs: dict[int, list[Any]] = {id(m): [] for m in self._modules}
        _captures.running += (outputs,)
        with _lock:
            for m in self._modules:
                users = _users.get(id(m), 0)
                if users or not m.__dict__.get("_hooked"):
                    _users[id(m)] = users + 1
                    m.__dict__["_hooked"] = True
        return outputs

    def __exit__(self, *error: object) -> None:
        _captures.running = _captures.running[:-1]
        with _lock:
            for m in self._modules:
                users = _users.get(id(m), 0)
                if users > 1:
                    _users[id(m)] = users - 1
                elif users:
                    del _users[id(m)]
                    if not any(isinstance(x, Hooks) and x for x in m.__dict__.values()):
                        del m.__dict__["_hooked"]


def note(module: Any, output: Any) -> None:
    """Keep the output of a module if it is wanted."""
    for outputs in _captures.running:
        if id(module) in outputs:
            outputs[id(module)].append(output)
