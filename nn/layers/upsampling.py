"""Upsampling layers."""

from __future__ import annotations

from typing import Any

from fx.nn import functional as F
from fx.nn.base.module import Module
from fx.tensor import Tensor


class Upsample(Module):
    """The input at another size.

    Args:
        size, scale_factor, mode, align_corners, recompute_scale_factor: see
            ``functional.interpolate``.

    Example:
        >>> import fx
        >>> fx.nn.Upsample(scale_factor=2)(fx.ones((1, 3, 4, 5))).shape
        (1, 3, 8, 10)
    """

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        if isinstance(scale_factor, tuple):
            self.scale_factor: Any = tuple([float(f) for f in scale_factor])
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Any) -> Tensor:
        """(batch, channels, ...) to (batch, channels, *size)."""
        return F.interpolate(
            input, self.size, self.scale_factor, self.mode, self.align_corners,
            recompute_scale_factor=self.recompute_scale_factor,
        )  # fmt: skip

    def extra_repr(self) -> str:
        """The size or the factor, and the mode."""
        if self.scale_factor is not None:
            return f"scale_factor={self.scale_factor!r}, mode={self.mode!r}"
        return f"size={self.size!r}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """``Upsample`` of images with ``mode="nearest"``.

    Example:
        >>> import fx
        >>> fx.nn.UpsamplingNearest2d(size=(4, 6))(fx.ones((1, 3, 2, 2))).shape
        (1, 3, 4, 6)
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """``Upsample`` of images with ``mode="bilinear"`` and ``align_corners=True``.

    Example:
        >>> import fx
        >>> fx.nn.UpsamplingBilinear2d(scale_factor=2)(fx.ones((1, 3, 2, 2))).shape
        (1, 3, 4, 4)
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
