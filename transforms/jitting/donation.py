"""Donation: arguments whose memory results may take, and what is left of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fx import tree
from fx.devices import device_of_array
from fx.errors import DonatedError
from fx.frames import user_line
from fx.tensor import Tensor


class Gone:
    """What a donated tensor holds instead of its array: whoever asks is told what happened."""

    __slots__ = ("function", "line")
    __array_priority__ = 2000

    def __init__(self, function: str, line: str) -> None:
        self.function = function
        self.line = line

    def __getattr__(self, name: str) -> Any:
        raise DonatedError(
            f"this tensor was donated to {self.function} (at {self.line}), and its memory belongs "
            f"to what that returned. Use the result, pass x.clone(), or take the argument out of "
            f"donate_argnums"
        )

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return self.dtype

    def __array_ufunc__(self, *args: Any, **kwargs: Any) -> Any:
        return self.dtype

    def __array_function__(self, *args: Any, **kwargs: Any) -> Any:
        return self.dtype


device_of_array[Gone] = "cpu"


def donated_leaves(args: Sequence[Any], argnums: Iterable[int], is_leaf: Any) -> set[int]:
    """The numbers of the leaves of the donated arguments among the leaves of all."""
    wanted = {i % len(args) for i in argnums if -len(args) <= i < len(args)}
    found: set[int] = set()
    at = 0
    for i, arg in enumerate(args):
        count = len(tree.leaves(arg, is_leaf))
        if i in wanted:
            found.update(range(at, at + count))
        at += count
    return found


def give_away(tensors: Iterable[Any], function: str) -> None:
    """Leave nothing in tensors that were donated; those of a transform stay."""
    gone = Gone(function, user_line())
    for x in tensors:
        if type(x) is Tensor and x._node is None:
            x._a = gone
