"""Layers that normalise single samples, and batch normalisation across processes."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

from fx.errors import ShapeError
from fx.nn import functional as F
from fx.nn import init
from fx.nn.base.factory import parameter
from fx.nn.base.module import Module
from fx.nn.functional._windows import LAYOUTS
from fx.nn.layers.normalization import _BatchNorm, _NormBase
from fx.ops.axes import integers
from fx.ops.operands import argument
from fx.tensor import Tensor


class _InstanceNorm(_NormBase):
    rank: ClassVar[int]

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def forward(self, input: Any) -> Tensor:
        """(batch, channels, ...) or (channels, ...), normalised."""
        name = type(self).__name__
        x = argument(name, input)
        shape = x.shape
        if len(shape) not in (self.rank + 1, self.rank + 2):
            layout = LAYOUTS[self.rank]
            raise ShapeError(
                f"{name} takes an input (batch, channels, {layout}) or (channels, {layout}), got "
                f"shape {shape}"
            )
        single = len(shape) == self.rank + 1
        channels = shape[0 if single else 1]
        if channels != self.num_features:
            said = (
                f"{name}: expected input's size at dim={len(shape) - self.rank - 1} to match "
                f"num_features ({self.num_features}), but got: {channels}"
            )
            if self.affine or self.track_running_stats:
                raise ShapeError(f"{said}; write {name}({channels}) for an input of shape {shape}")
            warnings.warn(f"{said}; it is not used, because affine=False", stacklevel=3)
        out = F.instance_norm(
            x[None] if single else x,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return out[0] if single else out


class InstanceNorm1d(_InstanceNorm):
    """Instance normalisation of (batch, channels, length); see ``InstanceNorm2d``.

    Example:
        >>> import fx
        >>> fx.nn.InstanceNorm1d(3)(fx.ones((2, 3, 4))).shape
        (2, 3, 4)
    """

    rank = 1


class InstanceNorm2d(_InstanceNorm):
    """Instance normalisation of (batch, channels, height, width): each channel of each sample.

    Args:
        num_features: the channels.
        eps: added to the variance.
        momentum: the weight of a new batch in the running statistics.
        affine: whether a weight (and a bias) is learned.
        track_running_stats: whether running statistics are kept, which evaluation then uses.
        device, dtype: of parameters and buffers.
        bias: whether an affine layer has one.

    Attributes:
        weight, bias: (num_features,), ones and zeros at first, or None.
        running_mean, running_var: (num_features,), or None.
        num_batches_tracked: int64, (), or None; it stays 0, as in PyTorch.

    Raises:
        ShapeError: if the input has another number of axes or of channels.
        ValueError: for one position a channel.

    Example:
        >>> import fx
        >>> fx.nn.InstanceNorm2d(3, affine=True)(fx.ones((2, 3, 4, 4))).shape
        (2, 3, 4, 4)
    """

    rank = 2


class InstanceNorm3d(_InstanceNorm):
    """Instance normalisation of (batch, channels, depth, height, width); see ``InstanceNorm2d``.

    Example:
        >>> import fx
        >>> fx.nn.InstanceNorm3d(3)(fx.ones((2, 3, 2, 2, 2))).shape
        (2, 3, 2, 2, 2)
    """

    rank = 3


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation of (batch, channels, ...), a part of whose batch each process has.

    In training the statistics are those of all parts, which may differ in size; gradients flow to
    all of them. All processes call it alike. Where there is one process it is ``BatchNorm2d``.

    Args:
        num_features, eps, momentum, affine, track_running_stats: see ``BatchNorm2d``.
        process_group: the ranks that share a batch; None: all, once there is a process group. The
            name of an axis of a running ``vmap`` or ``shard_map`` means its lanes or ranks.
        device, dtype, bias: see ``BatchNorm2d``.

    Raises:
        ShapeError: if the input has fewer than 2 axes.
        AxisError: if nothing that runs has an axis of that name.

    Example:
        >>> import fx
        >>> model = fx.nn.Sequential(fx.nn.Conv2d(1, 3, 2), fx.nn.BatchNorm2d(3))
        >>> fx.nn.SyncBatchNorm.convert_sync_batchnorm(model)[1](fx.ones((2, 3, 4, 4))).shape
        (2, 3, 4, 4)
    """

    ranks = tuple(range(2, 65))
    layouts = "(batch, channels, ...)"

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )
        self.process_group = process_group

    def _over_all(self) -> Any:
        from fx.distributed import groups

        group = self.process_group
        if isinstance(group, str):
            from fx.transforms.collectives import psum

            return lambda *sums: psum(sums, group)
        if group is None and not groups.is_initialized():
            return None
        group = groups.world(group)
        if group.size() == 1:
            return None
        from fx.distributed import staged

        return lambda *sums: staged.summed(group, sums)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """The module with each batch normalisation in it replaced by one of this class.

        Parameters and buffers are the same cells, so optimizers that hold them stay right.
        """
        out = module
        if isinstance(module, _BatchNorm):
            out = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
                bias=module.bias is not None,
            )
            for name, held in module._parameters.items():
                out.register_parameter(name, held)
            for name, held in module._buffers.items():
                out.register_buffer(name, held)
            out.training = module.training
        for name, child in module.named_children():
            out.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return out


class RMSNorm(Module):
    """Division by the root mean square over the last axes.

    Args:
        normalized_shape: their sizes, an int for one axis.
        eps: added to the mean of the squares; the machine epsilon unless told.
        elementwise_affine: whether a weight is learned.
        device, dtype: of the parameter.

    Attributes:
        weight: of ``normalized_shape``, ones at first, or None.

    Example:
        >>> import fx
        >>> fx.nn.RMSNorm(2)(fx.tensor([1.0, 7.0])).detach()
        tensor([0.2000, 1.4000])
    """

    def __init__(
        self,
        normalized_shape: Any,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = integers("RMSNorm", "normalized_shape", normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        made = parameter(self.normalized_shape, device, dtype) if elementwise_affine else None
        self.register_parameter("weight", made)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weight ones."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: Any) -> Tensor:
        """The normalised input, of its shape."""
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """The sizes and the settings."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


class LocalResponseNorm(Module):
    """Division by a power of the mean square of neighbouring channels.

    Args:
        size, alpha, beta, k: see ``functional.local_response_norm``.

    Example:
        >>> import fx
        >>> fx.nn.LocalResponseNorm(2)(fx.ones((2, 4, 3))).shape
        (2, 4, 3)
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Any) -> Tensor:
        """(batch, channels, ...), normalised."""
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        """The settings."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(LocalResponseNorm):
    """``LocalResponseNorm`` for images only, an older name of it.

    PyTorch's own layer of this name goes on counting the first channel for all later ones, and its
    gradient does not; here both are those of the formula.

    Raises:
        ShapeError: if the input does not have 4 axes.

    Example:
        >>> import fx
        >>> fx.nn.CrossMapLRN2d(3)(fx.ones((2, 4, 3, 3))).shape
        (2, 4, 3, 3)
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__(size, alpha, beta, k)

    def forward(self, input: Any) -> Tensor:
        """(batch, channels, height, width), normalised."""
        x = argument("CrossMapLRN2d", input)
        if x.ndim != 4:
            raise ShapeError(
                f"CrossMapLRN2d takes (batch, channels, height, width), got shape {x.shape}"
            )
        return super().forward(x)
