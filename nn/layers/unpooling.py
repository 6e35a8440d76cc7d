"""Pooling layers by p-norms and at random places, and unpooling."""

from __future__ import annotations

from typing import Any, ClassVar

from fx.nn import functional as F
from fx.nn.base.module import Module
from fx.nn.functional._windows import entries
from fx.tensor import Tensor


class _LPPool(Module):
    def __init__(
        self,
        norm_type: float,
        kernel_size: Any,
        stride: Any = None,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def extra_repr(self) -> str:
        """The settings."""
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPool):
    """The p-norm of each window of one spatial dimension; see ``functional.lp_pool2d``.

    Example:
        >>> import fx
        >>> fx.nn.LPPool1d(2, 2)(fx.tensor([[3.0, 4.0, 0.0, 1.0]]))
        tensor([[5., 1.]])
    """

    def forward(self, input: Any) -> Tensor:
        """(batch, channels, length) to (batch, channels, out_length)."""
        return F.lp_pool1d(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )


class LPPool2d(_LPPool):
    """The p-norm of each window of two spatial dimensions; see ``functional.lp_pool2d``.

    Example:
        >>> import fx
        >>> fx.nn.LPPool2d(2, 2)(fx.ones((1, 1, 2, 2)))
        tensor([[[[2.]]]])
    """

    def forward(self, input: Any) -> Tensor:
        """(batch, channels, height, width) to (batch, channels, ...)."""
        return F.lp_pool2d(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )


class LPPool3d(_LPPool):
    """The p-norm of each window of three spatial dimensions; see ``functional.lp_pool2d``.

    Example:
        >>> import fx
        >>> fx.nn.LPPool3d(1, 2)(fx.ones((1, 1, 2, 2, 2)))
        tensor([[[[[8.]]]]])
    """

    def forward(self, input: Any) -> Tensor:
        """(batch, channels, depth, height, width) to (batch, channels, ...)."""
        return F.lp_pool3d(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )


class _MaxUnpool(Module):
    rank: ClassVar[int]

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        name, rank = type(self).__name__, self.rank
        self.kernel_size = entries(name, "kernel_size", kernel_size, rank)
        self.stride = self.kernel_size if stride is None else entries(name, "stride", stride, rank)
        self.padding = entries(name, "padding", padding, rank, least=0)

    def forward(self, input: Any, indices: Any, output_size: Any = None) -> Tensor:
        """Maxima and their places, (batch, channels, ...), to (batch, channels, *output_size)."""
        function = (F.max_unpool1d, F.max_unpool2d, F.max_unpool3d)[self.rank - 1]
        return function(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        """The sizes."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """Puts maxima back to their places; see ``MaxUnpool2d``.

    Example:
        >>> import fx
        >>> fx.nn.MaxUnpool1d(2)(fx.tensor([[5.0, 7.0]]), fx.tensor([[1, 2]]))
        tensor([[0., 5., 7., 0.]])
    """

    rank = 1


class MaxUnpool2d(_MaxUnpool):
    """Puts maxima back to their places, with zeros elsewhere; see ``functional.max_unpool2d``.

    Args:
        kernel_size, stride, padding: those of the pooling.

    Example:
        >>> import fx
        >>> pool = fx.nn.MaxPool2d(2, return_indices=True)
        >>> fx.nn.MaxUnpool2d(2)(*pool(fx.arange(16.0).reshape(1, 1, 4, 4)))[0, 0, 1]
        tensor([0., 5., 0., 7.])
    """

    rank = 2


class MaxUnpool3d(_MaxUnpool):
    """Puts maxima back to their places; see ``MaxUnpool2d``.

    Example:
        >>> import fx
        >>> pool = fx.nn.MaxPool3d(2, return_indices=True)
        >>> fx.nn.MaxUnpool3d(2)(*pool(fx.ones((1, 1, 4, 4, 4)))).shape
        (1, 1, 4, 4, 4)
    """

    rank = 3


class _FractionalMaxPool(Module):
    rank: ClassVar[int]

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Any = None,
    ) -> None:
        super().__init__()
        name, rank = type(self).__name__, self.rank
        self.kernel_size = entries(name, "kernel_size", kernel_size, rank)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        if (output_size is None) == (output_ratio is None):
            raise ValueError(
                f"{name} requires specifying either an output size or a pooling ratio, and only "
                f"one of output_size and output_ratio may be specified"
            )
        given = output_size is not None
        self.output_size = entries(name, "output_size", output_size, rank) if given else None
        many = isinstance(output_ratio, tuple | list)
        ratios = tuple(output_ratio) if many else (output_ratio,) * rank
        self.output_ratio = None if given else ratios
        if not given and not all(0 < r < 1 for r in ratios):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Any) -> Any:
        """(batch, channels, ...) to (batch, channels, *output_size), or that and the places."""
        function = F.fractional_max_pool2d if self.rank == 2 else F.fractional_max_pool3d
        return function(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices,
            _random_samples=self._random_samples,
        )  # fmt: skip


class FractionalMaxPool2d(_FractionalMaxPool):
    """Maxima of windows whose places are drawn at each call.

    Args:
        kernel_size, output_size, output_ratio, return_indices, _random_samples: see
            ``functional.fractional_max_pool2d``.

    Raises:
        ValueError: unless exactly one of ``output_size`` and ``output_ratio`` is given, or if a
            ratio is not in (0, 1).

    Example:
        >>> import fx
        >>> fx.nn.FractionalMaxPool2d(2, output_ratio=0.7)(fx.ones((1, 3, 10, 10))).shape
        (1, 3, 7, 7)
    """

    rank = 2


class FractionalMaxPool3d(_FractionalMaxPool):
    """Maxima of windows whose places are drawn; see ``FractionalMaxPool2d``.

    Example:
        >>> import fx
        >>> fx.nn.FractionalMaxPool3d(2, output_size=3)(fx.ones((1, 3, 7, 7, 7))).shape
        (1, 3, 3, 3, 3)
    """

    rank = 3
