"""A bucket of gradients, as a communication hook sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fx.tensor import Tensor


class GradBucket:
    """Gradients side by side in one tensor, which a communication hook sends.

    Args:
        index: its number; the last parameters of the model are in bucket 0.
        buffer: all gradients, (elements,).
        parameters: whose they are, in their order.
        last: whether no bucket comes after it in this pass.
    """

    def __init__(self, index: int, buffer: Tensor, parameters: Sequence[Any], last: bool) -> None:
        self._index, self._buffer, self._last = index, buffer, last
        self._parameters = list(parameters)

    def index(self) -> int:
        """Its number."""
        return self._index

    def is_last(self) -> bool:
        """Whether no bucket comes after it in this pass."""
        return self._last

    def buffer(self) -> Tensor:
        """All gradients, (elements,)."""
        return self._buffer

    def set_buffer(self, buffer: Tensor) -> None:
        """Put another tensor of as many elements there."""
        self._buffer = buffer

    def parameters(self) -> list[Any]:
        """Whose gradients they are."""
        return list(self._parameters)

    def gradients(self) -> list[Tensor]:
        """The gradients, each in its parameter's shape."""
        out, at = [], 0
        for p in self._parameters:
            out.append(self._buffer[at : at + p.size].reshape(p._shape))
            at += p.size
        return out
