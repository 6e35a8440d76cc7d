"""Distributions that are scaled by the number of inputs and outputs of a layer."""

from __future__ import annotations

import math
import warnings
from typing import Any

from fx.errors import ShapeError
from fx.nn.init.cells import as_cell
from fx.nn.init.distributions import normal_, uniform_
from fx.state import Cell

_GAINS = {
    **dict.fromkeys(("linear", "identity", "sigmoid"), 1.0),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), 1.0),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), 1.0),
    "tanh": 5.0 / 3.0,
    "relu": math.sqrt(2.0),
    "selu": 3.0 / 4.0,
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """By how much to scale weights in front of a nonlinearity, so that variances stay.

    Args:
        nonlinearity: ``"linear"``, ``"sigmoid"``, ``"tanh"``, ``"relu"``, ``"leaky_relu"``,
            ``"selu"``, or a kind of convolution.
        param: the negative slope of ``"leaky_relu"``, 0.01 unless told.

    Raises:
        ValueError: for another name.

    Example:
        >>> import fx
        >>> round(fx.nn.init.calculate_gain("relu"), 4)
        1.4142
    """
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, int | float):
            raise ValueError(f"calculate_gain: negative_slope {param} is not a number")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity not in _GAINS:
        raise ValueError(
            f"calculate_gain: unsupported nonlinearity {nonlinearity!r}; use one of "
            f"{', '.join([*_GAINS, 'leaky_relu'])}"
        )
    return _GAINS[nonlinearity]


def fan_in_and_fan_out(tensor: Any) -> tuple[int, int]:
    """How many inputs one output sees, and how many outputs one input reaches.

    Raises:
        ShapeError: for fewer than two axes.

    Example:
        >>> import fx
        >>> fx.nn.init.fan_in_and_fan_out(fx.zeros((8, 3, 5, 5)))
        (75, 200)
    """
    shape = tensor.shape
    if len(shape) < 2:
        raise ShapeError(
            f"fan in and fan out can not be computed for a tensor with fewer than 2 dimensions, "
            f"got shape {tuple(shape)}"
        )
    field = math.prod(shape[2:])
    return shape[1] * field, shape[0] * field


def xavier_uniform_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """Uniform values in ``±gain * sqrt(6 / (fan_in + fan_out))``.

    Source: Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural
    networks", 2010.

    Example:
        >>> import fx
        >>> fx.nn.init.xavier_uniform_(fx.nn.Parameter(fx.zeros((3, 5)))).shape
        (3, 5)
    """
    cell = as_cell("xavier_uniform_", tensor)
    bound = math.sqrt(3.0) * _xavier_deviation(cell, gain)
    return uniform_(cell, -bound, bound, generator)


def xavier_normal_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """Normal values with deviation ``gain * sqrt(2 / (fan_in + fan_out))``.

    Example:
        >>> import fx
        >>> fx.nn.init.xavier_normal_(fx.nn.Parameter(fx.zeros((3, 5)))).shape
        (3, 5)
    """
    cell = as_cell("xavier_normal_", tensor)
    return normal_(cell, 0.0, _xavier_deviation(cell, gain), generator)


def _xavier_deviation(cell: Cell, gain: float) -> float:
    fans = sum(fan_in_and_fan_out(cell))
    return gain * math.sqrt(2.0 / fans) if fans else 0.0


def kaiming_uniform_(
    tensor: Any,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Any:
    """Uniform values in ``±gain * sqrt(3 / fan)``.

    Args:
        tensor: a Parameter or Buffer with at least two axes.
        a: the negative slope of ``"leaky_relu"``.
        mode: ``"fan_in"`` or ``"fan_out"``.
        nonlinearity: what follows; see ``calculate_gain``.
        generator: of the random numbers.

    Raises:
        ValueError: for another ``mode`` or ``nonlinearity``.
        ShapeError: for fewer than two axes.

    Source: He et al., "Delving deep into rectifiers", 2015.

    Example:
        >>> import fx
        >>> fx.nn.init.kaiming_uniform_(fx.nn.Parameter(fx.zeros((3, 5)))).shape
        (3, 5)
    """
    cell = as_cell("kaiming_uniform_", tensor)
    bound = math.sqrt(3.0) * _kaiming_deviation(cell, a, mode, nonlinearity)
    return uniform_(cell, -bound, bound, generator)


def kaiming_normal_(
    tensor: Any,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Any:
    """Normal values with deviation ``gain / sqrt(fan)``; see ``kaiming_uniform_``.

    Example:
        >>> import fx
        >>> fx.nn.init.kaiming_normal_(fx.nn.Parameter(fx.zeros((3, 5)))).shape
        (3, 5)
    """
    cell = as_cell("kaiming_normal_", tensor)
    return normal_(cell, 0.0, _kaiming_deviation(cell, a, mode, nonlinearity), generator)


def correct_fan(tensor: Any, mode: str) -> int:
    """``fan_in`` or ``fan_out`` of a weight.

    Raises:
        ValueError: for another ``mode``.

    Example:
        >>> import fx
        >>> fx.nn.init.correct_fan(fx.zeros((8, 3, 5, 5)), "fan_in")
        75
    """
    fans = dict(zip(("fan_in", "fan_out"), fan_in_and_fan_out(tensor), strict=True))
    if str(mode).lower() not in fans:
        raise ValueError(f"mode {mode} not supported, please use one of {list(fans)}")
    return fans[mode.lower()]


def _kaiming_deviation(cell: Cell, a: float, mode: str, nonlinearity: str) -> float:
    if 0 in cell.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
        return 0.0
    return calculate_gain(nonlinearity, a) / math.sqrt(correct_fan(cell, mode))


def bias_uniform_(bias: Any, weight: Any, generator: Any = None) -> Any:
    """A layer's bias as PyTorch's layers draw it: uniform in ``±1 / sqrt(fan_in)`` of the weight.

    Example:
        >>> import fx
        >>> bias = fx.nn.Parameter(fx.zeros(3))
        >>> fx.nn.init.bias_uniform_(bias, fx.zeros((3, 4))).shape
        (3,)
    """
    if bias is None:
        return None
    fan_in, _ = fan_in_and_fan_out(weight)
    bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0.0
    return uniform_(bias, -bound, bound, generator)
