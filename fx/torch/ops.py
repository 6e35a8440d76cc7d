"""``torch.ops``: the names of the operators that send messages, by which ``CommDebugMode`` counts.

>>> import fx.torch as torch
>>> torch.ops.c10d_functional.all_reduce
'c10d_functional.all_reduce'
"""

from __future__ import annotations

from typing import Any

_ROOMS = ("c10d", "c10d_functional")


class _Names:
    """A room of operators, each of which is its name."""

    def __init__(self, room: str) -> None:
        self._room = room

    def __getattr__(self, name: str) -> str:
        if name.startswith("__"):
            raise AttributeError(name)
        return f"{self._room}.{name}"


c10d, c10d_functional = map(_Names, _ROOMS)


def __getattr__(name: str) -> Any:
    raise AttributeError(
        f"fx has no torch.ops.{name}: operators of PyTorch's libraries are not there; write the "
        f"function of fx.torch"
    )
