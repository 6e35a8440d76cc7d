"""Away: a tensor whose memory is being written into; who asks for its values waits.

Native code writes a new value into the memory of the old one where nobody else holds it, and gives
up the GIL if that takes long. Meanwhile the tensor is of this class: another thread that gets hold
of it finds no array there, and reads on once the new value is in its place. Only native code makes
tensors go and come (``fx/backends/cpu/llvm/commit``); its own thread runs no Python in between.

A thread that trains has its tensors away nearly all the time, and in what is left of it the GIL. So
who waits asks for a turn: until it has looked, or has been silent for a moment, no step begins.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, sleep
from typing import Any

from fx.tensor import Tensor

_SHORT, _LONG = 2e-5, 2e-4  # seconds between two looks: at first, and at most
_TURN = 2e-3  # seconds for which one that has not looked again is waited for


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


class _Turns:
    """Whose turn it is: that of steps, or of one who waits for a tensor."""

    def __init__(self) -> None:
        self.asked: Any = None  # a byte that native code looks at, once there is such code
        self.until = 0.0

    def wait(self, seconds: float) -> float:
        """Ask for a turn, and sleep; how long to sleep the next time."""
        if self.asked is not None:
            self.until = monotonic() + _TURN
            self.asked.value = 1
        sleep(seconds)
        return min(2 * seconds, _LONG)

    def give_back(self) -> None:
        """Let steps begin."""
        if self.asked is not None:
            self.asked.value = 0


turns = _Turns()


def _waited(read: Callable[[], Any]) -> Any:
    """What a function reads, once that is there."""
    pause = _SHORT
    while type(found := read()) is Away:
        pause = turns.wait(pause)
    if pause is not _SHORT:
        turns.give_back()
    return found


def settled(x: Any) -> Any:
    """The same tensor, once it is back."""
    return x if type(x) is not Away else _waited(lambda: x)


def value_of(cell: Any) -> Any:
    """What a cell holds, once it is there."""
    value = cell.value
    return value if type(value) is not Away else _waited(lambda: cell.value)


def gradient_of(leaf: Any) -> Any:
    """What has been gathered at a leaf, once it is there."""
    grad = leaf.grad
    return grad if type(grad) is not Away else _waited(lambda: leaf.grad)


def pause() -> None:
    """Let the thread go on that has what a step needs, or waits for its turn."""
    sleep(_SHORT)
    if monotonic() > turns.until:
        turns.give_back()
