"""Pooling layers."""

from __future__ import annotations

from typing import Any

from fx.nn import functional as F
from fx.nn.base.module import Module


class _MaxPool(Module):
    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def _pool(self, function: Any, input: Any) -> Any:
        return function(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode,
            self.return_indices,
        )  # fmt: skip

    def extra_repr(self) -> str:
        """The sizes."""
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool):
    """The maximum of each window of one spatial dimension; see ``MaxPool2d``.

    Example:
        >>> import fx
        >>> fx.nn.MaxPool1d(2)(fx.ones((1, 3, 8))).shape
        (1, 3, 4)
    """

    def forward(self, input: Any) -> Any:
        """(batch, channels, length) to (batch, channels, out_length)."""
        return self._pool(F.max_pool1d, input)


class MaxPool2d(_MaxPool):
    """The maximum of each window of two spatial dimensions.

    Args:
        kernel_size, stride, padding, dilation, return_indices, ceil_mode: see
            ``functional.max_pool2d``.

    Example:
        >>> import fx
        >>> fx.nn.MaxPool2d(2)(fx.ones((1, 3, 8, 8))).shape
        (1, 3, 4, 4)
    """

    def forward(self, input: Any) -> Any:
        """(batch, channels, height, width) to (batch, channels, ...)."""
        return self._pool(F.max_pool2d, input)


class MaxPool3d(_MaxPool):
    """The maximum of each window of three spatial dimensions; see ``MaxPool2d``.

    Example:
        >>> import fx
        >>> fx.nn.MaxPool3d(2)(fx.ones((1, 3, 4, 4, 4))).shape
        (1, 3, 2, 2, 2)
    """

    def forward(self, input: Any) -> Any:
        """(batch, channels, depth, height, width) to (batch, channels, ...)."""
        return self._pool(F.max_pool3d, input)


class AvgPool1d(Module):
    """The mean of each window of one spatial dimension; see ``functional.avg_pool2d``.

    Example:
        >>> import fx
        >>> fx.nn.AvgPool1d(2)(fx.ones((1, 3, 8))).shape
        (1, 3, 4)
    """

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = _single(kernel_size)
        self.stride = self.kernel_size if stride is None else _single(stride)
        self.padding = _single(padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Any) -> Any:
        """(batch, channels, length) to (batch, channels, out_length)."""
        return F.avg_pool1d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
            self.count_include_pad,
        )  # fmt: skip

    def extra_repr(self) -> str:
        """The sizes."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


def _single(value: Any) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, tuple | list) else (value,)


class AvgPool2d(Module):
    """The mean of each window of two spatial dimensions.

    Args:
        kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override: see
            ``functional.avg_pool2d``.

    Example:
        >>> import fx
        >>> fx.nn.AvgPool2d(2)(fx.ones((1, 3, 8, 8))).shape
        (1, 3, 4, 4)
    """

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def _pool(self, function: Any, input: Any) -> Any:
        return function(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
            self.count_include_pad, self.divisor_override,
        )  # fmt: skip

    def forward(self, input: Any) -> Any:
        """(batch, channels, height, width) to (batch, channels, ...)."""
        return self._pool(F.avg_pool2d, input)

    extra_repr = AvgPool1d.extra_repr


class AvgPool3d(AvgPool2d):
    """The mean of each window of three spatial dimensions; see ``AvgPool2d``.

    Example:
        >>> import fx
        >>> fx.nn.AvgPool3d(2)(fx.ones((1, 3, 4, 4, 4))).shape
        (1, 3, 2, 2, 2)
    """

    def forward(self, input: Any) -> Any:
        """(batch, channels, depth, height, width) to (batch, channels, ...)."""
        return self._pool(F.avg_pool3d, input)
