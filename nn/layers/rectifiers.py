"""Activation layers that are pieced together, gated, learned, or shrink towards zero."""

from __future__ import annotations

from typing import Any

from fx.errors import ShapeError
from fx.nn import functional as F
from fx.nn import init
from fx.nn.base.factory import parameter
from fx.nn.base.module import Module
from fx.nn.layers.activation import _InPlace
from fx.ops.operands import argument
from fx.tensor import Tensor
from fx.writing.inplace import layer_may_write


class Threshold(Module):
    """``x`` where it is above ``threshold``, ``value`` elsewhere.

    Example:
        >>> import fx
        >>> fx.nn.Threshold(1.0, 9.0)(fx.tensor([0.0, 2.0]))
        tensor([9., 2.])
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    @layer_may_write
    def forward(self, input: Any) -> Tensor:
        """Any shape."""
        return F.threshold(input, self.threshold, self.value)

    def extra_repr(self) -> str:
        """The two numbers."""
        return f"threshold={self.threshold}, value={self.value}" + ", inplace=True" * self.inplace


class Hardtanh(Module):
    """``x`` held between ``min_val`` and ``max_val``.

    Args:
        min_val, max_val: the ends.
        inplace: accepted for PyTorch's sake.
        min_value, max_value: older words for the ends.

    Raises:
        ValueError: if the ends are not in order.

    Example:
        >>> import fx
        >>> fx.nn.Hardtanh()(fx.tensor([-3.0, 0.5]))
        tensor([-1.0000,  0.5000])
    """

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        self.min_val = min_val if min_value is None else min_value
        self.max_val = max_val if max_value is None else max_value
        if self.min_val >= self.max_val:
            raise ValueError(
                f"Hardtanh: max_val {self.max_val} must be larger than min_val {self.min_val}"
            )
        self.inplace = inplace

    @layer_may_write
    def forward(self, input: Any) -> Tensor:
        """Any shape."""
        return F.hardtanh(input, self.min_val, self.max_val)

    def extra_repr(self) -> str:
        """The ends."""
        return f"min_val={self.min_val}, max_val={self.max_val}" + ", inplace=True" * self.inplace


class CELU(Module):
    """``x`` where positive, ``alpha * (exp(x / alpha) - 1)`` elsewhere.

    Example:
        >>> import fx
        >>> fx.nn.CELU(2.0)(fx.tensor([-1.0, 2.0]))
        tensor([-0.7869,  2.0000])
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    @layer_may_write
    def forward(self, input: Any) -> Tensor:
        """Any shape."""
        return F.celu(input, self.alpha)

    def extra_repr(self) -> str:
        """The factor."""
        return f"alpha={self.alpha}" + ", inplace=True" * self.inplace


class SELU(_InPlace):
    """``1.0507 * elu(x, alpha=1.6733)``; see ``functional.selu``.

    Example:
        >>> import fx
        >>> fx.nn.SELU()(fx.tensor([-1.0, 2.0]))
        tensor([-1.1113,  2.1014])
    """

    @layer_may_write
    def forward(self, input: Any) -> Tensor:
        """Any shape."""
        return F.selu(input)


class PReLU(Module):
    """``x`` where positive, ``weight * x`` elsewhere, with a learned weight.

    Args:
        num_parameters: 1, or the number of channels.
        init: the first value of the weight.
        device, dtype: of the parameter.

    Attributes:
        weight: (num_parameters,).

    Example:
        >>> import fx
        >>> fx.nn.PReLU()(fx.tensor([-1.0, 2.0])).detach()
        tensor([-0.2500,  2.0000])
    """

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = parameter((num_parameters,), device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """The weight it began with."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Any) -> Tensor:
        """Any shape; with more than one weight the second axis is the channels."""
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """How many weights."""
        return f"num_parameters={self.num_parameters}"


class RReLU(Module):
    """``x`` where positive, ``a * x`` elsewhere; ``a`` is drawn in training and else the mean.

    Args:
        lower, upper: the range that slopes are drawn from.
        inplace: accepted for PyTorch's sake.

    Example:
        >>> import fx
        >>> fx.nn.RReLU(0.0, 1.0).eval()(fx.tensor([-6.0, 2.0]))
        tensor([-3.,  2.])
    """

    def __init__(
        self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False
    ) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    @layer_may_write
    def forward(self, input: Any) -> Tensor:
        """Any shape."""
        return F.rrelu(input, self.lower, self.upper, self.training)

    def extra_repr(self) -> str:
        """The range."""
        return f"lower={self.lower}, upper={self.upper}" + ", inplace=True" * self.inplace


class Hardsigmoid(Module):
    """``min(max(x + 3, 0), 6) / 6``.

    Example:
        >>> import fx
        >>> fx.nn.Hardsigmoid()(fx.tensor([-4.0, 0.0]))
        tensor([0.0000, 0.5000])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    @layer_may_write
    def forward(self, input: Any) -> Tensor:
        """Any shape."""
        return F.hardsigmoid(input)


class Hardswish(Module):
    """``x * hardsigmoid(x)``.

    Example:
        >>> import fx
        >>> fx.nn.Hardswish()(fx.tensor([1.5, 4.0]))
        tensor([1.1250, 4.0000])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    @layer_may_write
    def forward(self, input: Any) -> Tensor:
        """Any shape."""
        return F.hardswish(input)


class Mish(_InPlace):
    """``x * tanh(softplus(x))``.

    Example:
        >>> import fx
        >>> fx.nn.Mish()(fx.tensor([-1.0, 2.0]))
        tensor([-0.3034,  1.9440])
    """

    @layer_may_write
    def forward(self, input: Any) -> Tensor:
        """Any shape."""
        return F.mish(input)


class GLU(Module):
    """The first half along an axis, times the sigmoid of the second half.

    Example:
        >>> import fx
        >>> fx.nn.GLU()(fx.tensor([3.0, 4.0, 0.0, 0.0]))
        tensor([1.5000, 2.0000])
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Any) -> Tensor:
        """Any shape with an even size at ``dim``, which is halved."""
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        """The axis."""
        return f"dim={self.dim}"


class _Shrink(Module):
    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        """The width."""
        return str(self.lambd)


class Hardshrink(_Shrink):
    """``x`` outside of [-lambd, lambd], and 0 inside.

    Example:
        >>> import fx
        >>> fx.nn.Hardshrink()(fx.tensor([-1.0, 0.25]))
        tensor([-1.,  0.])
    """

    def forward(self, input: Any) -> Tensor:
        """Any shape."""
        return F.hardshrink(input, self.lambd)


class Softshrink(_Shrink):
    """``x`` brought nearer to 0 by ``lambd``, and 0 where it is nearer already.

    Example:
        >>> import fx
        >>> fx.nn.Softshrink()(fx.tensor([-1.0, 0.25]))
        tensor([-0.5000,  0.0000])
    """

    def forward(self, input: Any) -> Tensor:
        """Any shape."""
        return F.softshrink(input, self.lambd)


class Tanhshrink(Module):
    """``x - tanh(x)``.

    Example:
        >>> import fx
        >>> fx.nn.Tanhshrink()(fx.tensor([0.0, 2.0]))
        tensor([0.0000, 1.0360])
    """

    def forward(self, input: Any) -> Tensor:
        """Any shape."""
        return F.tanhshrink(input)


class Softsign(Module):
    """``x / (1 + |x|)``.

    Example:
        >>> import fx
        >>> fx.nn.Softsign()(fx.tensor([-1.0, 3.0]))
        tensor([-0.5000,  0.7500])
    """

    def forward(self, input: Any) -> Tensor:
        """Any shape."""
        return F.softsign(input)


class Softmin(Module):
    """``softmax(-x)`` along an axis.

    Example:
        >>> import fx
        >>> fx.nn.Softmin(dim=0)(fx.tensor([0.0, 1.0]))
        tensor([0.7311, 0.2689])
    """

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Any) -> Tensor:
        """Any shape."""
        return F.softmin(input, self.dim)

    def extra_repr(self) -> str:
        """The axis."""
        return f"dim={self.dim}"


class Softmax2d(Module):
    """Softmax over the channels of each position of an image.

    Raises:
        ShapeError: if the input has neither 3 nor 4 axes.

    Example:
        >>> import fx
        >>> fx.nn.Softmax2d()(fx.zeros((1, 2, 1, 1))).flatten()
        tensor([0.5000, 0.5000])
    """

    def forward(self, input: Any) -> Tensor:
        """(batch, channels, height, width) or (channels, height, width)."""
        x = argument("Softmax2d", input)
        if x.ndim not in (3, 4):
            raise ShapeError(
                f"Softmax2d: expected input to be 3D or 4D, (channels, height, width) with or "
                f"without a batch axis, got shape {x.shape}"
            )
        return F.softmax(x, -3)
