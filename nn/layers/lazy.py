"""Lazy layers: they learn the size of their input from the first call, and become ordinary ones."""

from __future__ import annotations

from typing import Any, ClassVar

from fx.config import modes
from fx.errors import FxError, ShapeError
from fx.nn.base.factory import filled
from fx.nn.base.locating import locate
from fx.nn.base.module import Module
from fx.nn.base.uninitialized import UninitializedBuffer, UninitializedParameter, is_lazy
from fx.nn.layers.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from fx.nn.layers.instance_norms import InstanceNorm1d, InstanceNorm2d, InstanceNorm3d
from fx.nn.layers.linear import Linear
from fx.nn.layers.normalization import BatchNorm1d, BatchNorm2d, BatchNorm3d
from fx.ops.operands import argument
from fx.transaction import whole
from fx.versions import touch


class LazyModuleMixin(Module):
    """What makes a layer lazy, for layers of one's own too.

    A subclass declares ``UninitializedParameter``s and gives ``initialize_parameters(*args)``,
    which materialises them from the arguments of the first call. The module then becomes a
    ``cls_to_become``, if there is one. Nothing is learned of the arguments but their shapes.
    """

    cls_to_become: ClassVar[type | None] = None

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Materialise the parameters for these arguments of ``forward``."""
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}"
        )

    def has_uninitialized_params(self) -> bool:
        """Whether some parameters or buffers have no shape yet."""
        return any(map(is_lazy, (*self._parameters.values(), *self._buffers.values())))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.cls_to_become is None and not self.has_uninitialized_params():
            return super().__call__(*args, **kwargs)
        # made at once and once, by no compiled program and for no single lane
        around = modes.stage, modes.lanes, modes.turn
        modes.stage, modes.lanes, modes.turn = None, (), None
        try:
            self.initialize_parameters(*args, **kwargs)
        except FxError as error:
            locate(error, self)
            raise
        finally:
            modes.stage, modes.lanes, modes.turn = around
        if self.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
        touch()
        if self.cls_to_become is None:
            return super().__call__(*args, **kwargs)
        self.__class__ = self.cls_to_become
        return self(*args, **kwargs)

    @whole
    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        for name, cell in (*self._parameters.items(), *self._buffers.items()):
            given = state_dict.get(prefix + name)
            if is_lazy(cell) and given is not None and not is_lazy(given):
                modes.transaction.keep(cell, "value", "__class__")
                cell.materialize(tuple(given.shape))
                touch()
        super()._load_from_state_dict(state_dict, prefix, *rest)


def _size(layer: Module, input: Any, axis: int) -> int:
    """The size of an axis of the first input, by which a layer makes room."""
    name = type(layer).__name__
    shape = argument(name, input).shape
    if len(shape) <= max(axis, 0):
        raise ShapeError(
            f"{name}: the first input needs at least {max(axis, 0) + 1} axes, got shape {shape}; "
            f"add one with x[None]"
        )
    return shape[axis]


class LazyLinear(LazyModuleMixin, Linear):
    """``Linear`` that takes ``in_features`` from the last size of its first input.

    Args:
        out_features: the last size of the result.
        bias: whether there is one.
        device, dtype: of the parameters.

    Example:
        >>> import fx
        >>> layer = fx.nn.LazyLinear(2)
        >>> layer
        LazyLinear(in_features=0, out_features=2, bias=True)
        >>> _ = layer(fx.ones((5, 3)))
        >>> layer
        Linear(in_features=3, out_features=2, bias=True)
    """

    cls_to_become = Linear

    def __init__(
        self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(0, 0, False)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw new values, once there is room for them."""
        if not self.has_uninitialized_params() and self.in_features:
            super().reset_parameters()

    def initialize_parameters(self, input: Any) -> None:
        """Make room for an input (..., in_features)."""
        fresh = self.has_uninitialized_params()
        self.in_features = _size(self, input, -1) if fresh else self.weight.shape[1]
        if fresh:
            self.weight.materialize((self.out_features, self.in_features))
            if self.bias is not None:
                self.bias.materialize((self.out_features,))
            self.reset_parameters()


class _LazyConvolution(LazyModuleMixin):
    def _begin(self, out_channels: int, bias: bool, device: Any, dtype: Any) -> None:
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if out_channels % self.groups:
            raise ValueError(
                f"{type(self).__name__}: out_channels {out_channels} must be divisible by groups "
                f"{self.groups}"
            )
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw new values, once there is room for them."""
        if not self.has_uninitialized_params() and self.in_channels:
            super().reset_parameters()

    def initialize_parameters(self, input: Any, *args: Any, **kwargs: Any) -> None:
        """Make room for an input (batch, channels, ...) or (channels, ...)."""
        groups, sizes = self.groups, self.kernel_size
        if not self.has_uninitialized_params():
            shape = self.weight.shape
            self.in_channels = shape[0] if self.transposed else shape[1] * groups
            return
        rank, name = self.rank, type(self).__name__
        if argument(name, input).ndim not in (rank + 1, rank + 2):
            raise ShapeError(
                f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to {name}, but "
                f"got input of size: {tuple(input.shape)}"
            )
        channels = input.shape[-rank - 1]
        if channels % groups:
            raise ShapeError(
                f"{name}: in_channels must be divisible by groups, got {channels} channels and "
                f"groups={groups}"
            )
        self.in_channels = channels
        first, second = self.out_channels, channels // groups
        if self.transposed:
            first, second = channels, self.out_channels // groups
        self.weight.materialize((first, second, *sizes))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()


class _LazyConv(_LazyConvolution):
    def __init__(
        self,
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
        super().__init__(
            0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device, dtype
        )
        self._begin(out_channels, bias, device, dtype)


class _LazyConvTranspose(_LazyConvolution):
    def __init__(
        self,
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
        super().__init__(
            0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation,
            padding_mode, device, dtype,
        )  # fmt: skip
        self._begin(out_channels, bias, device, dtype)


class _LazyNorm(LazyModuleMixin):
    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False, device, dtype, bias=False)
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = UninitializedParameter(device=device, dtype=dtype)
            if bias:
                self.bias = UninitializedParameter(device=device, dtype=dtype)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.register_buffer("num_batches_tracked", filled((), 0, device, "int64"))

    def reset_parameters(self) -> None:
        """Begin anew, once there is room."""
        if not self.has_uninitialized_params() and self.num_features:
            super().reset_parameters()

    def initialize_parameters(self, input: Any) -> None:
        """Make room for an input (batch, features, ...)."""
        held = [self.weight, self.bias, self.running_mean, self.running_var]
        held = [x for x in held if x is not None]
        if not self.has_uninitialized_params():
            self.num_features = held[0].shape[0] if held else _size(self, input, 1)
            return
        self.num_features = _size(self, input, 1)
        for cell in held:
            cell.materialize((self.num_features,))
        self.reset_parameters()


def _lazy(name: str, base: type, becomes: type, learns: str) -> type:
    """A lazy layer of the class ``becomes``."""
    doc = f"``{becomes.__name__}`` that takes ``{learns}`` from its first input.\n\n    The other "
    doc += f"arguments are those of ``{becomes.__name__}``."
    body = {"__doc__": doc, "__module__": __name__, "cls_to_become": becomes}
    return type(name, (base, becomes), body)


LazyConv1d = _lazy("LazyConv1d", _LazyConv, Conv1d, "in_channels")
LazyConv2d = _lazy("LazyConv2d", _LazyConv, Conv2d, "in_channels")
LazyConv3d = _lazy("LazyConv3d", _LazyConv, Conv3d, "in_channels")
LazyConvTranspose1d = _lazy(
    "LazyConvTranspose1d", _LazyConvTranspose, ConvTranspose1d, "in_channels"
)
LazyConvTranspose2d = _lazy(
    "LazyConvTranspose2d", _LazyConvTranspose, ConvTranspose2d, "in_channels"
)
LazyConvTranspose3d = _lazy(
    "LazyConvTranspose3d", _LazyConvTranspose, ConvTranspose3d, "in_channels"
)
LazyBatchNorm1d = _lazy("LazyBatchNorm1d", _LazyNorm, BatchNorm1d, "num_features")
LazyBatchNorm2d = _lazy("LazyBatchNorm2d", _LazyNorm, BatchNorm2d, "num_features")
LazyBatchNorm3d = _lazy("LazyBatchNorm3d", _LazyNorm, BatchNorm3d, "num_features")
LazyInstanceNorm1d = _lazy("LazyInstanceNorm1d", _LazyNorm, InstanceNorm1d, "num_features")
LazyInstanceNorm2d = _lazy("LazyInstanceNorm2d", _LazyNorm, InstanceNorm2d, "num_features")
LazyInstanceNorm3d = _lazy("LazyInstanceNorm3d", _LazyNorm, InstanceNorm3d, "num_features")
