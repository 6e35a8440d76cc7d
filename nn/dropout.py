"""Dropout."""

from __future__ import annotations

from typing import Any

from fx.nn import functional as F
from fx.nn.module import Module
from fx.tensor import Tensor


class Dropout(Module):
    """In training, zeros elements with probability ``p`` and scales the others by ``1 / (1 - p)``.

    The default generator gives the random numbers: ``fx.manual_seed`` makes them repeatable.

    Args:
        p: the probability, in [0, 1].
        inplace: accepted for PyTorch's sake.

    Raises:
        ValueError: if ``p`` is not in [0, 1].

    Example:
        >>> import fx
        >>> fx.nn.Dropout(0.5).eval()(fx.ones(3))
        tensor([1., 1., 1.])
    """

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def forward(self, input: Any) -> Tensor:
        """Any shape; the result has it too."""
        return F.dropout(input, self.p, self.training)

    def extra_repr(self) -> str:
        """The probability."""
        return f"p={self.p}, inplace={self.inplace}"
