"""Adaptive pooling layers: windows chosen for an asked-for output size."""

from __future__ import annotations

from typing import Any

from fx.nn import functional as F
from fx.nn.base.module import Module


class _AdaptiveAvgPool(Module):
    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def extra_repr(self) -> str:
        """The output size."""
        return f"output_size={self.output_size}"


class _AdaptiveMaxPool(Module):
    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def extra_repr(self) -> str:
        """The output size."""
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """Means of windows chosen for an output length; see ``AdaptiveAvgPool2d``.

    Example:
        >>> import fx
        >>> fx.nn.AdaptiveAvgPool1d(3)(fx.ones((1, 2, 8))).shape
        (1, 2, 3)
    """

    def forward(self, input: Any) -> Any:
        """(batch, channels, length) to (batch, channels, output_size)."""
        return F.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """Means of windows chosen for an output size.

    Args:
        output_size: an int or (height, width); None keeps the size of a dimension.

    Example:
        >>> import fx
        >>> fx.nn.AdaptiveAvgPool2d((1, None))(fx.ones((1, 2, 8, 5))).shape
        (1, 2, 1, 5)
    """

    def forward(self, input: Any) -> Any:
        """(batch, channels, height, width) to (batch, channels, *output_size)."""
        return F.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """Means of windows chosen for an output size; see ``AdaptiveAvgPool2d``.

    Example:
        >>> import fx
        >>> fx.nn.AdaptiveAvgPool3d(1)(fx.ones((1, 2, 4, 4, 4))).shape
        (1, 2, 1, 1, 1)
    """

    def forward(self, input: Any) -> Any:
        """(batch, channels, depth, height, width) to (batch, channels, *output_size)."""
        return F.adaptive_avg_pool3d(input, self.output_size)


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """Maxima of windows chosen for an output length; see ``AdaptiveMaxPool2d``.

    Example:
        >>> import fx
        >>> fx.nn.AdaptiveMaxPool1d(3)(fx.ones((1, 2, 8))).shape
        (1, 2, 3)
    """

    def forward(self, input: Any) -> Any:
        """(batch, channels, length) to (batch, channels, output_size)."""
        return F.adaptive_max_pool1d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """Maxima of windows chosen for an output size.

    Args:
        output_size: an int or (height, width); None keeps the size of a dimension.
        return_indices: whether the places of the maxima are given too.

    Example:
        >>> import fx
        >>> fx.nn.AdaptiveMaxPool2d((1, None))(fx.ones((1, 2, 8, 5))).shape
        (1, 2, 1, 5)
    """

    def forward(self, input: Any) -> Any:
        """(batch, channels, height, width) to (batch, channels, *output_size)."""
        return F.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """Maxima of windows chosen for an output size; see ``AdaptiveMaxPool2d``.

    Example:
        >>> import fx
        >>> fx.nn.AdaptiveMaxPool3d(1)(fx.ones((1, 2, 4, 4, 4))).shape
        (1, 2, 1, 1, 1)
    """

    def forward(self, input: Any) -> Any:
        """(batch, channels, depth, height, width) to (batch, channels, *output_size)."""
        return F.adaptive_max_pool3d(input, self.output_size, self.return_indices)
