"""Linear layers and what only rearranges."""

from __future__ import annotations

import math
from typing import Any

from fx.nn import functional as F
from fx.nn import init
from fx.nn.base.factory import parameter
from fx.nn.base.module import Module
from fx.ops.operands import argument
from fx.tensor import Tensor


class Linear(Module):
    """``x @ weight.T + bias``.

    Args:
        in_features: the last size of the input.
        out_features: the last size of the result.
        bias: whether there is one.
        device, dtype: of the parameters.

    Attributes:
        weight: (out_features, in_features), uniform in ``±1 / sqrt(in_features)`` at first.
        bias: (out_features,), the same, or None.

    Example:
        >>> import fx
        >>> layer = fx.nn.Linear(3, 2)
        >>> layer(fx.ones((5, 3))).shape
        (5, 2)
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = parameter((out_features, in_features), device, dtype)
        if bias:
            self.bias = parameter((out_features,), device, dtype)
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        init.bias_uniform_(self.bias, self.weight)

    def forward(self, input: Any) -> Tensor:
        """(..., in_features) to (..., out_features)."""
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """The sizes."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class Bilinear(Module):
    """``x1 @ weight[k] @ x2 + bias[k]`` for each output feature k.

    Args:
        in1_features, in2_features: the last sizes of the two inputs.
        out_features: the last size of the result.
        bias: whether there is one.
        device, dtype: of the parameters.

    Attributes:
        weight: (out_features, in1_features, in2_features), uniform in ``±1 / sqrt(in1_features)``
            at first.
        bias: (out_features,), the same, or None.

    Raises:
        ValueError: if ``in1_features`` is not positive.

    Example:
        >>> import fx
        >>> fx.nn.Bilinear(2, 3, 4)(fx.ones((5, 2)), fx.ones((5, 3))).shape
        (5, 4)
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got (in1_features={in1_features})")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        self.weight = parameter((out_features, in1_features, in2_features), device, dtype)
        made = parameter((out_features,), device, dtype) if bias else None
        self.register_parameter("bias", made)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values."""
        bound = 1 / math.sqrt(self.in1_features)
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Any, input2: Any) -> Tensor:
        """(..., in1_features) and (..., in2_features) to (..., out_features)."""
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        """The sizes."""
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


class Identity(Module):
    """Gives back its input, whatever arguments it was made with.

    Example:
        >>> import fx
        >>> fx.nn.Identity(54, unused=True)(fx.ones(2))
        tensor([1., 1.])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        """The input."""
        return input


class Flatten(Module):
    """Joins the axes from ``start_dim`` to ``end_dim`` into one; the batch axis stays by default.

    Example:
        >>> import fx
        >>> fx.nn.Flatten()(fx.ones((2, 3, 4))).shape
        (2, 12)
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Any) -> Tensor:
        """The same elements in fewer axes."""
        return argument("Flatten", input).flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """The axes."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Splits axis ``dim`` into axes of the sizes ``unflattened_size``.

    Example:
        >>> import fx
        >>> fx.nn.Unflatten(1, (3, 4))(fx.ones((2, 12))).shape
        (2, 3, 4)
    """

    def __init__(self, dim: int, unflattened_size: tuple[int, ...]) -> None:
        super().__init__()
        if not isinstance(unflattened_size, tuple | list):
            raise TypeError(
                f"Unflatten: unflattened_size must be a tuple of ints, got {unflattened_size!r}; "
                f"write ({unflattened_size!r},)"
            )
        self.dim = dim
        self.unflattened_size = tuple(unflattened_size)

    def forward(self, input: Any) -> Tensor:
        """The same elements in more axes."""
        return argument("Unflatten", input).unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        """The axis and its new sizes."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
