"""Away: a tensor whose memory is being written into; who asks for its values waits.

Native code writes a new value into the memory of the old one where nobody else holds it, and gives
up the GIL if that takes long. Meanwhile the tensor is of this class: another thread that gets hold
of it finds no array there, and reads on once the new value is in its place. Only native code makes
tensors go and come (``fx/backends/cpu/llvm/commit``); its own thread runs no Python in between.
"""

from __future__ import annotations

from time import sleep
from typing import Any

from fx.tensor import Tensor

_SHORT, _LONG = 2e-5, 1e-3  # seconds between two looks: at first, and at most


class Away(Tensor):
    """A tensor while its memory is being written into."""

    __slots__ = ()

    @property
    def _a(self) -> Any:
        return settled(self)._a

    @property
    def _node(self) -> Any:
        return settled(self)._node

    @_node.setter
    def _node(self, node: Any) -> None:
        settled(self)._node = node

    def __copy__(self) -> Tensor:
        return settled(self).__copy__()  # type: ignore[operator, no-any-return]


def settled(x: Any) -> Any:
    """The same tensor, once it is back."""
    pause = _SHORT
    while type(x) is Away:
        sleep(pause)
        pause = min(2 * pause, _LONG)
    return x


def value_of(cell: Any) -> Any:
    """What a cell holds, once it is there."""
    pause = _SHORT
    while type(value := cell.value) is Away:
        sleep(pause)
        pause = min(2 * pause, _LONG)
    return value


def gradient_of(leaf: Any) -> Any:
    """What has been gathered at a leaf, once it is there."""
    pause = _SHORT
    while type(grad := leaf.grad) is Away:
        sleep(pause)
        pause = min(2 * pause, _LONG)
    return grad


def pause() -> None:
    """Let the thread go on that has what a call needs."""
    sleep(_SHORT)
