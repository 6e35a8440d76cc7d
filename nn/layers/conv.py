"""Convolutional layers, plain and transposed, over 1, 2 and 3 spatial dimensions."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from fx.errors import ShapeError
from fx.nn import functional as F
from fx.nn import init
from fx.nn.base.factory import parameter
from fx.nn.base.module import Module
from fx.nn.functional._windows import entries
from fx.nn.functional.padding import MODES
from fx.ops.axes import integers
from fx.ops.operands import argument
from fx.tensor import Tensor

_PADDING_MODES = ("zeros", *MODES[1:])


class _Convolution(Module):
    """What the six layers share."""

    rank: ClassVar[int]
    transposed: ClassVar[bool] = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        name, rank = type(self).__name__, self.rank
        if groups <= 0:
            raise ValueError(f"{name}: groups must be a positive integer, got {groups}")
        for what, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
            if channels % groups:
                raise ValueError(f"{name}: {what} {channels} must be divisible by groups {groups}")
        if padding_mode not in _PADDING_MODES:
            raise ValueError(
                f"{name}: padding_mode must be one of {', '.join(_PADDING_MODES)}, got "
                f"{padding_mode!r}"
            )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = entries(name, "kernel_size", kernel_size, rank)
        self.stride = entries(name, "stride", stride, rank)
        self.dilation = entries(name, "dilation", dilation, rank)
        self.output_padding = (0,) * rank
        if not isinstance(padding, str):
            self.padding: Any = entries(name, "padding", padding, rank, least=0)
        elif padding not in ("same", "valid"):
            raise ValueError(f"{name}: padding must be ints, 'same' or 'valid', got {padding!r}")
        elif padding == "same" and max(self.stride) > 1:
            raise ValueError(f"{name}: padding='same' is not supported for strided convolutions")
        else:
            self.padding = padding
        self.groups = groups
        self.padding_mode = padding_mode
        first, second = out_channels, in_channels // groups
        if self.transposed:
            first, second = in_channels, out_channels // groups
        self.weight = parameter((first, second, *self.kernel_size), device, dtype)
        if bias:
            self.bias = parameter((out_channels,), device, dtype)
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        init.bias_uniform_(self.bias, self.weight)

    def _padded(self, input: Any) -> tuple[Any, Any]:
        """The input and the padding that is left, after padding it in a mode but zeros."""
        if self.padding_mode == "zeros":
            return input, self.padding
        widths: list[int] = []
        for i in reversed(range(self.rank)):
            if isinstance(self.padding, str):
                total = self.dilation[i] * (self.kernel_size[i] - 1)
                both = (total // 2, total - total // 2) if self.padding == "same" else (0, 0)
            else:
                both = (self.padding[i], self.padding[i])
            widths += both
        return F.pad(input, widths, mode=self.padding_mode), 0

    def extra_repr(self) -> str:
        """Channels, sizes and what differs from the defaults."""
        ones, zeros = (1,) * self.rank, (0,) * self.rank
        out = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}"
        out += f", stride={self.stride}"
        out += f", padding={self.padding}" if self.padding != zeros else ""
        out += f", dilation={self.dilation}" if self.dilation != ones else ""
        out += f", output_padding={self.output_padding}" if self.output_padding != zeros else ""
        out += f", groups={self.groups}" if self.groups != 1 else ""
        out += ", bias=False" if self.bias is None else ""
        out += f", padding_mode={self.padding_mode}" if self.padding_mode != "zeros" else ""
        return out


class _Conv(_Convolution):
    def forward(self, input: Any) -> Tensor:
        """(batch, in_channels, ...) to (batch, out_channels, ...)."""
        x, padding = self._padded(input)
        function = (F.conv1d, F.conv2d, F.conv3d)[self.rank - 1]
        return function(x, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)


class Conv1d(_Conv):
    """Cross-correlation over one spatial dimension; see ``Conv2d``.

    Example:
        >>> import fx
        >>> fx.nn.Conv1d(4, 8, kernel_size=3)(fx.ones((2, 4, 10))).shape
        (2, 8, 8)
    """

    rank = 1


class Conv2d(_Conv):
    """Cross-correlation over two spatial dimensions; ``functional.conv2d`` has the arguments.

    Args:
        in_channels, out_channels: the channels of input and result.
        kernel_size: an int or (height, width), as stride, padding and dilation.
        stride, padding, dilation, groups: see ``functional.conv2d``.
        bias: whether there is one.
        padding_mode: ``"zeros"``, ``"reflect"``, ``"replicate"`` or ``"circular"``.
        device, dtype: of the parameters.

    Attributes:
        weight: (out_channels, in_channels // groups, *kernel_size), uniform in
            ``±1 / sqrt(fan_in)`` at first, where fan_in is how many inputs one output sees.
        bias: (out_channels,), the same, or None.

    Raises:
        ValueError, ShapeError: if the arguments do not fit together.

    Example:
        >>> import fx
        >>> layer = fx.nn.Conv2d(1, 6, kernel_size=3, padding=1)
        >>> layer
        Conv2d(1, 6, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))
        >>> layer(fx.ones((2, 1, 8, 8))).shape
        (2, 6, 8, 8)
    """

    rank = 2


class Conv3d(_Conv):
    """Cross-correlation over three spatial dimensions; see ``Conv2d``.

    Example:
        >>> import fx
        >>> fx.nn.Conv3d(1, 2, kernel_size=2)(fx.ones((1, 1, 4, 4, 4))).shape
        (1, 2, 3, 3, 3)
    """

    rank = 3


class _ConvTranspose(_Convolution):
    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros" or isinstance(padding, str):
            raise ValueError(
                f"{type(self).__name__}: only padding by numbers and padding_mode='zeros' are "
                f"supported for transposed convolutions"
            )
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias,
            padding_mode, device, dtype,
        )  # fmt: skip
        name = type(self).__name__
        self.output_padding = entries(name, "output_padding", output_padding, self.rank, least=0)

    def forward(self, input: Any, output_size: Any = None) -> Tensor:
        """(batch, in_channels, ...) to (batch, out_channels, ...).

        ``output_size`` chooses among the sizes that a strided convolution would map to this input.
        """
        function = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[self.rank - 1]
        longer = self.output_padding if output_size is None else self._longer(input, output_size)
        return function(
            input, self.weight, self.bias, self.stride, self.padding, longer, self.groups,
            self.dilation,
        )  # fmt: skip

    def _longer(self, input: Any, output_size: Any) -> tuple[int, ...]:
        name = type(self).__name__
        sizes = integers(name, "output_size", output_size)[-self.rank :]
        if len(sizes) != self.rank or argument(name, input).ndim < self.rank:
            raise ShapeError(
                f"{name}: output_size must have {self.rank} sizes, one for each of the last axes "
                f"of the input; got {output_size} for an input of shape {input.shape}"
            )
        least = [
            (n - 1) * s - 2 * p + d * (k - 1) + 1
            for n, s, p, d, k in zip(
                input.shape[-self.rank :],
                self.stride,
                self.padding,
                self.dilation,
                self.kernel_size,
                strict=True,
            )
        ]
        most = [a + s - 1 for a, s in zip(least, self.stride, strict=True)]
        fits = len(sizes) == self.rank and all(
            a <= n <= b for a, n, b in zip(least, sizes, most, strict=True)
        )
        if not fits:
            raise ShapeError(
                f"{name}: output_size {tuple(output_size)} must lie between {tuple(least)} and "
                f"{tuple(most)} for an input of shape {input.shape}"
            )
        return tuple([n - a for n, a in zip(sizes, least, strict=True)])


class ConvTranspose1d(_ConvTranspose):
    """Transposed convolution over one spatial dimension; see ``ConvTranspose2d``.

    Example:
        >>> import fx
        >>> fx.nn.ConvTranspose1d(4, 2, kernel_size=2, stride=2)(fx.ones((1, 4, 5))).shape
        (1, 2, 10)
    """

    rank = 1


class ConvTranspose2d(_ConvTranspose):
    """Transposed convolution over two spatial dimensions.

    Args:
        in_channels, out_channels: the channels of input and result.
        kernel_size: an int or (height, width), as the sizes that follow.
        stride, padding, output_padding, groups, dilation: see ``functional.conv_transpose2d``.
        bias: whether there is one.
        padding_mode: only ``"zeros"``.
        device, dtype: of the parameters.

    Attributes:
        weight: (in_channels, out_channels // groups, *kernel_size).
        bias: (out_channels,) or None.

    Example:
        >>> import fx
        >>> fx.nn.ConvTranspose2d(4, 2, 3, stride=2)(
        ...     fx.ones((1, 4, 5, 5)), output_size=(12, 12)
        ... ).shape
        (1, 2, 12, 12)
    """

    rank = 2


class ConvTranspose3d(_ConvTranspose):
    """Transposed convolution over three spatial dimensions; see ``ConvTranspose2d``.

    Example:
        >>> import fx
        >>> fx.nn.ConvTranspose3d(1, 1, kernel_size=2)(fx.ones((1, 1, 2, 2, 2))).shape
        (1, 1, 3, 3, 3)
    """

    rank = 3
