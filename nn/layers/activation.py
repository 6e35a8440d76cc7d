"""Activation functions as layers."""

from __future__ import annotations

from typing import Any

from fx.nn import functional as F
from fx.nn.base.module import Module
from fx.tensor import Tensor
from fx.writing.inplace import layer_may_write


class _InPlace(Module):
    """Takes PyTorch's ``inplace``, which changes nothing here."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        """``inplace=True`` where it was asked for."""
        return "inplace=True" if self.inplace else ""


class ReLU(_InPlace):
    """``max(x, 0)``.

    Example:
        >>> import fx
        >>> fx.nn.ReLU()(fx.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """

    @layer_may_write
    def forward(self, input: Any) -> Tensor:
        """Any shape."""
        return F.relu(input)


class ReLU6(_InPlace):
    """``min(max(x, 0), 6)``.

    Example:
        >>> import fx
        >>> fx.nn.ReLU6()(fx.tensor([-1.0, 8.0]))
        tensor([0., 6.])
    """

    @layer_may_write
    def forward(self, input: Any) -> Tensor:
        """Any shape."""
        return F.relu6(input)


class SiLU(_InPlace):
    """``x * sigmoid(x)``.

    Example:
        >>> import fx
        >>> fx.nn.SiLU()(fx.tensor([0.0]))
        tensor([0.])
    """

    @layer_may_write
    def forward(self, input: Any) -> Tensor:
        """Any shape."""
        return F.silu(input)


class LeakyReLU(Module):
    """``x`` where positive, ``negative_slope * x`` elsewhere.

    Example:
        >>> import fx
        >>> fx.nn.LeakyReLU(0.5)(fx.tensor([-1.0, 2.0]))
        tensor([-0.5000,  2.0000])
    """

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    @layer_may_write
    def forward(self, input: Any) -> Tensor:
        """Any shape."""
        return F.leaky_relu(input, self.negative_slope)

    def extra_repr(self) -> str:
        """The slope."""
        return f"negative_slope={self.negative_slope}" + ", inplace=True" * self.inplace


class ELU(Module):
    """``x`` where positive, ``alpha * (exp(x) - 1)`` elsewhere.

    Example:
        >>> import fx
        >>> fx.nn.ELU()(fx.tensor([-1.0, 2.0]))
        tensor([-0.6321,  2.0000])
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    @layer_may_write
    def forward(self, input: Any) -> Tensor:
        """Any shape."""
        return F.elu(input, self.alpha)

    def extra_repr(self) -> str:
        """The factor."""
        return f"alpha={self.alpha}" + ", inplace=True" * self.inplace


class GELU(Module):
    """``x`` times the standard normal distribution function at ``x``.

    Args:
        approximate: ``"none"`` or ``"tanh"``.

    Example:
        >>> import fx
        >>> fx.nn.GELU()(fx.tensor([-1.0, 2.0]))
        tensor([-0.1587,  1.9545])
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Any) -> Tensor:
        """Any shape."""
        return F.gelu(input, self.approximate)

    def extra_repr(self) -> str:
        """The approximation."""
        return f"approximate={self.approximate!r}"


class Sigmoid(Module):
    """``1 / (1 + exp(-x))``.

    Example:
        >>> import fx
        >>> fx.nn.Sigmoid()(fx.tensor([0.0]))
        tensor([0.5000])
    """

    def forward(self, input: Any) -> Tensor:
        """Any shape."""
        return F.sigmoid(input)


class LogSigmoid(Module):
    """``log(sigmoid(x))``.

    Example:
        >>> import fx
        >>> fx.nn.LogSigmoid()(fx.tensor([0.0]))
        tensor([-0.6931])
    """

    def forward(self, input: Any) -> Tensor:
        """Any shape."""
        return F.logsigmoid(input)


class Tanh(Module):
    """The hyperbolic tangent.

    Example:
        >>> import fx
        >>> fx.nn.Tanh()(fx.tensor([0.0]))
        tensor([0.])
    """

    def forward(self, input: Any) -> Tensor:
        """Any shape."""
        return F.tanh(input)


class Softplus(Module):
    """``log(1 + exp(beta * x)) / beta``, and ``x`` itself where ``beta * x > threshold``.

    Example:
        >>> import fx
        >>> fx.nn.Softplus()(fx.tensor([0.0]))
        tensor([0.6931])
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Any) -> Tensor:
        """Any shape."""
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        """The two settings."""
        return f"beta={self.beta}, threshold={self.threshold}"


class _AlongAxis(Module):
    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        """The axis."""
        return f"dim={self.dim}"


class Softmax(_AlongAxis):
    """``exp(x) / sum(exp(x))`` along an axis.

    Args:
        dim: the axis; where None, as ``functional.softmax`` chooses it.

    Example:
        >>> import fx
        >>> fx.nn.Softmax(dim=-1)(fx.tensor([0.0, 0.0]))
        tensor([0.5000, 0.5000])
    """

    def forward(self, input: Any) -> Tensor:
        """Any shape."""
        return F.softmax(input, self.dim)


class LogSoftmax(_AlongAxis):
    """``log(softmax(x))`` along an axis.

    Example:
        >>> import fx
        >>> fx.nn.LogSoftmax(dim=-1)(fx.tensor([0.0, 0.0]))
        tensor([-0.6931, -0.6931])
    """

    def forward(self, input: Any) -> Tensor:
        """Any shape."""
        return F.log_softmax(input, self.dim)
