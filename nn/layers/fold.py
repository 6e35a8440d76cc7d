"""Layers that rearrange: windows and columns, channels and pixels."""

from __future__ import annotations

from typing import Any

from fx.nn import functional as F
from fx.nn.base.module import Module
from fx.tensor import Tensor


class Unfold(Module):
    """The windows of an image as columns.

    Args:
        kernel_size, dilation, padding, stride: see ``functional.unfold``.

    Example:
        >>> import fx
        >>> fx.nn.Unfold(kernel_size=(2, 3))(fx.ones((2, 5, 3, 4))).shape
        (2, 30, 4)
    """

    def __init__(
        self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Any) -> Tensor:
        """(batch, channels, height, width) to (batch, channels * kernel sizes, windows)."""
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        """The sizes."""
        return (
            f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, "
            f"stride={self.stride}"
        )


class Fold(Module):
    """Columns that become windows of an image, where overlaps add up.

    Args:
        output_size, kernel_size, dilation, padding, stride: see ``functional.fold``.

    Example:
        >>> import fx
        >>> fx.nn.Fold(output_size=(4, 5), kernel_size=2)(fx.ones((1, 12, 12))).shape
        (1, 3, 4, 5)
    """

    def __init__(
        self,
        output_size: Any,
        kernel_size: Any,
        dilation: Any = 1,
        padding: Any = 0,
        stride: Any = 1,
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Any) -> Tensor:
        """(batch, channels * kernel sizes, windows) to (batch, channels, *output_size)."""
        return F.fold(
            input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride
        )

    def extra_repr(self) -> str:
        """The sizes."""
        return (
            f"output_size={self.output_size}, kernel_size={self.kernel_size}, "
            f"dilation={self.dilation}, padding={self.padding}, stride={self.stride}"
        )


class PixelShuffle(Module):
    """Channels become pixels: (..., c * r * r, h, w) to (..., c, h * r, w * r).

    Example:
        >>> import fx
        >>> fx.nn.PixelShuffle(3)(fx.ones((1, 9, 4, 4))).shape
        (1, 1, 12, 12)
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Any) -> Tensor:
        """(..., channels, height, width)."""
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        """The factor."""
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """Pixels become channels: (..., c, h * r, w * r) to (..., c * r * r, h, w).

    Example:
        >>> import fx
        >>> fx.nn.PixelUnshuffle(3)(fx.ones((1, 1, 12, 12))).shape
        (1, 9, 4, 4)
    """

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Any) -> Tensor:
        """(..., channels, height, width)."""
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        """The factor."""
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """The channels, cut into groups, dealt out one from each group in turn.

    Example:
        >>> import fx
        >>> fx.nn.ChannelShuffle(2)(fx.arange(4.0).reshape(1, 4, 1)).flatten()
        tensor([0., 2., 1., 3.])
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Any) -> Tensor:
        """(batch, channels, ...), of which only the order of the channels changes."""
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        """The groups."""
        return f"groups={self.groups}"
