"""Normalising layers."""

from __future__ import annotations

from typing import Any, ClassVar

from fx.errors import ShapeError
from fx.nn import functional as F
from fx.nn import init
from fx.nn.base.factory import filled, parameter
from fx.nn.base.module import Module
from fx.nn.functional.normalization import batch_norm_counting
from fx.ops.axes import integers
from fx.ops.operands import argument
from fx.tensor import Tensor


class _NormBase(Module):
    """Weight and bias, running statistics, and their settings."""

    _version = 2  # from which on the state dict holds num_batches_tracked

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        shape = (num_features,)
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            made = parameter(shape, device, dtype) if wanted else None
            self.register_parameter(name, made)
        for name in ("running_mean", "running_var"):
            held = filled(shape, 0, device, dtype) if track_running_stats else None
            self.register_buffer(name, held)
        count = filled((), 0, device, "int64") if track_running_stats else None
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Forget what was seen: mean 0, variance 1, no batches."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Forget what was seen and what was learned."""
        self.reset_running_stats()
        _ones_and_zeros(self)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any
    ) -> None:
        version = local_metadata.get("version")
        if (version is None or version < 2) and self.track_running_stats:
            count = self.num_batches_tracked
            held = None if count is None or count.device.name == "meta" else count.detach()
            found = filled((), 0, None, "int64") if held is None else held
            state_dict.setdefault(prefix + "num_batches_tracked", found)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def extra_repr(self) -> str:
        """The number of features and the settings."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_NormBase):
    ranks: ClassVar[tuple[int, ...]]
    layouts: ClassVar[str]

    def forward(self, input: Any) -> Tensor:
        """The normalised input; in training the running statistics follow it."""
        input = argument(type(self).__name__, input)
        if input.ndim not in self.ranks:
            raise ShapeError(
                f"{type(self).__name__} takes {self.layouts}, got an input of shape {input.shape}"
            )
        training, follows = self.training, self.training and self.track_running_stats
        mean, var = self.running_mean, self.running_var
        momentum: Any = self.momentum
        counts = []
        if follows:
            tracked = self.num_batches_tracked
            seen = tracked.read() + 1
            counts.append((tracked, seen))
            if momentum is None:  # the mean over all batches so far
                momentum = 1.0 / seen.astype(mean._dtype)
        elif training:
            mean = var = None
        return batch_norm_counting(
            input,
            mean,
            var,
            self.weight,
            self.bias,
            training or mean is None,
            0.0 if momentum is None else momentum,
            self.eps,
            counts,
            self._over_all() if training else None,
        )

    def _over_all(self) -> Any:
        """What adds up over all who have a part of the batch; None where it is whole."""
        return None


class BatchNorm1d(_BatchNorm):
    """Batch normalisation of (batch, features) or (batch, features, length); see ``BatchNorm2d``.

    Example:
        >>> import fx
        >>> fx.nn.BatchNorm1d(3)(fx.ones((2, 3))).shape
        (2, 3)
    """

    ranks = (2, 3)
    layouts = "(batch, features) or (batch, features, length)"


class BatchNorm2d(_BatchNorm):
    """Batch normalisation of (batch, channels, height, width).

    In training each channel is normalised by the statistics of the batch, and the running ones
    follow; in evaluation by the running ones. Under ``vmap`` each lane would have statistics of its
    own, of which the running ones cannot follow all: call ``eval()``, or pass
    ``track_running_stats=False``, or give each lane its own buffers with ``functional_call``.

    Args:
        num_features: the channels.
        eps: added to the variance.
        momentum: the weight of a new batch in the running statistics; None for the mean over all
            batches so far.
        affine: whether a weight (and a bias) is learned.
        track_running_stats: whether running statistics are kept; without them evaluation uses the
            batch too.
        device, dtype: of parameters and buffers.
        bias: whether an affine layer has one.

    Attributes:
        weight, bias: (num_features,), ones and zeros at first, or None.
        running_mean, running_var: (num_features,), or None.
        num_batches_tracked: int64, (), or None.

    Raises:
        ShapeError: if the input does not have 4 axes.
        ValueError: in training, for one value a channel.

    Example:
        >>> import fx
        >>> layer = fx.nn.BatchNorm2d(3)
        >>> layer(fx.ones((2, 3, 4, 4))).shape
        (2, 3, 4, 4)
        >>> layer.running_mean
        tensor([0.1000, 0.1000, 0.1000])
    """

    ranks = (4,)
    layouts = "(batch, channels, height, width)"


class BatchNorm3d(_BatchNorm):
    """Batch normalisation of (batch, channels, depth, height, width); see ``BatchNorm2d``.

    Example:
        >>> import fx
        >>> fx.nn.BatchNorm3d(3)(fx.ones((2, 3, 2, 2, 2))).shape
        (2, 3, 2, 2, 2)
    """

    ranks = (5,)
    layouts = "(batch, channels, depth, height, width)"


class LayerNorm(Module):
    """Normalisation over the last axes.

    Args:
        normalized_shape: their sizes, an int for one axis.
        eps: added to the variance.
        elementwise_affine: whether a weight (and a bias) is learned.
        bias: whether an affine layer has one.
        device, dtype: of the parameters.

    Attributes:
        weight, bias: of ``normalized_shape``, ones and zeros at first, or None.

    Example:
        >>> import fx
        >>> fx.nn.LayerNorm(2)(fx.tensor([[1.0, 3.0]])).detach()
        tensor([[-1.0000,  1.0000]])
    """

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = integers("LayerNorm", "normalized_shape", normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        for name, wanted in (
            ("weight", elementwise_affine),
            ("bias", elementwise_affine and bias),
        ):
            made = parameter(self.normalized_shape, device, dtype) if wanted else None
            self.register_parameter(name, made)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weight ones, bias zeros."""
        _ones_and_zeros(self)

    def forward(self, input: Any) -> Tensor:
        """The normalised input, of its shape."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The sizes and the settings."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class GroupNorm(Module):
    """Normalisation of each sample over groups of channels and all positions.

    Args:
        num_groups: how many groups.
        num_channels: how many channels, a multiple of it.
        eps: added to the variance.
        affine: whether a weight (and a bias) is learned.
        device, dtype: of the parameters.
        bias: whether an affine layer has one.

    Attributes:
        weight, bias: (num_channels,), ones and zeros at first, or None.

    Raises:
        ValueError: if the channels cannot be cut evenly.

    Example:
        >>> import fx
        >>> fx.nn.GroupNorm(2, 4)(fx.ones((1, 4, 5))).shape
        (1, 4, 5)
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_groups < 1 or num_channels % num_groups:
            raise ValueError(
                f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})"
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            made = parameter((num_channels,), device, dtype) if wanted else None
            self.register_parameter(name, made)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weight ones, bias zeros."""
        _ones_and_zeros(self)

    def forward(self, input: Any) -> Tensor:
        """(batch, num_channels, ...), normalised."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The sizes and the settings."""
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


def _ones_and_zeros(layer: Any) -> None:
    if layer.weight is not None:
        init.ones_(layer.weight)
    if layer.bias is not None:
        init.zeros_(layer.bias)
