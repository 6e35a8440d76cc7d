"""Dropout layers: of elements, of whole channels, and for self-normalising networks."""

from __future__ import annotations

from typing import Any

from fx.nn import functional as F
from fx.nn.base.module import Module
from fx.tensor import Tensor
from fx.writing.inplace import layer_may_write


class _Dropout(Module):
    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        """The probability."""
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
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

    @layer_may_write
    def forward(self, input: Any) -> Tensor:
        """Any shape; the result has it too."""
        return F.dropout(input, self.p, self.training)


class Dropout1d(_Dropout):
    """In training, zeros whole channels of (batch, channels, length); see ``Dropout``.

    Example:
        >>> import fx
        >>> fx.nn.Dropout1d(0.2)(fx.ones((2, 3, 4))).shape
        (2, 3, 4)
    """

    @layer_may_write
    def forward(self, input: Any) -> Tensor:
        """(batch, channels, length) or (channels, length)."""
        return F.dropout1d(input, self.p, self.training)


class Dropout2d(_Dropout):
    """In training, zeros whole channels of (batch, channels, height, width); see ``Dropout``.

    Example:
        >>> import fx
        >>> fx.nn.Dropout2d(0.2)(fx.ones((2, 3, 4, 4))).shape
        (2, 3, 4, 4)
    """

    @layer_may_write
    def forward(self, input: Any) -> Tensor:
        """(batch, channels, height, width)."""
        return F.dropout2d(input, self.p, self.training)


class Dropout3d(_Dropout):
    """In training, zeros whole channels of (batch, channels, depth, height, width).

    Example:
        >>> import fx
        >>> fx.nn.Dropout3d(0.2)(fx.ones((2, 3, 4, 4, 4))).shape
        (2, 3, 4, 4, 4)
    """

    @layer_may_write
    def forward(self, input: Any) -> Tensor:
        """(batch, channels, depth, height, width), or without the batch axis."""
        return F.dropout3d(input, self.p, self.training)


class AlphaDropout(_Dropout):
    """Dropout that keeps mean 0 and variance 1; see ``functional.alpha_dropout``.

    Example:
        >>> import fx
        >>> fx.nn.AlphaDropout(0.2)(fx.ones((2, 3))).shape
        (2, 3)
    """

    @layer_may_write
    def forward(self, input: Any) -> Tensor:
        """Any shape; the result has it too."""
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_Dropout):
    """``AlphaDropout`` of whole channels.

    Example:
        >>> import fx
        >>> fx.nn.FeatureAlphaDropout(0.2)(fx.ones((2, 3, 4))).shape
        (2, 3, 4)
    """

    @layer_may_write
    def forward(self, input: Any) -> Tensor:
        """(batch, channels, ...)."""
        return F.feature_alpha_dropout(input, self.p, self.training)
