"""Initialisers: each gives a Parameter or Buffer new values and returns it.

A tensor never changes, so what is initialised is a cell; it is rebound. Random numbers come from
``generator``, or from the current generator.
"""

from __future__ import annotations

import math
from typing import Any

import fx.prims.elementwise as elementwise
from fx.config import no_grad
from fx.errors import InPlaceError, ShapeError
from fx.nn._factory import filled
from fx.prims.creation import constant_like
from fx.random import next_key, normal, truncated_normal, uniform
from fx.state import Cell
from fx.tensor import Tensor

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


def _put(tensor: Any, value: Tensor) -> Any:
    tensor.rebind(value)
    return tensor


def _cell(name: str, tensor: Any) -> Cell:
    if not isinstance(tensor, Cell):
        kind = repr(tensor.spec) if isinstance(tensor, Tensor) else type(tensor).__name__
        raise InPlaceError(
            f"init.{name} gives a Parameter or Buffer new values, and {kind} is a plain value that "
            f"never changes; write p = fx.nn.Parameter(x), then fx.nn.init.{name}(p)"
        )
    return tensor


def _uniform(tensor: Cell, low: float, high: float, generator: Any) -> Tensor:
    key = next_key(generator, tensor.device)
    return uniform(key, tensor.shape, low, high, tensor.dtype)


def _normal(tensor: Cell, mean: float, std: float, generator: Any) -> Tensor:
    key = next_key(generator, tensor.device)
    return normal(key, tensor.shape, mean, std, tensor.dtype)


# plain distributions and constants --------------------------------------------------------------


def uniform_(tensor: Any, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Any:
    """Uniform values in [a, b).

    Raises:
        InPlaceError: if ``tensor`` is no Parameter or Buffer; so do all initialisers.

    Example:
        >>> import fx
        >>> weight = fx.nn.init.uniform_(fx.nn.Parameter(fx.zeros(100)), 1.0, 2.0)
        >>> bool(((weight >= 1) & (weight < 2)).all())
        True
    """
    cell = _cell("uniform_", tensor)
    return _put(cell, _uniform(cell, a, b, generator))


def normal_(tensor: Any, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Any:
    """Normal values.

    Example:
        >>> import fx
        >>> fx.nn.init.normal_(fx.nn.Parameter(fx.zeros((3, 2))), std=0.02).shape
        (3, 2)
    """
    cell = _cell("normal_", tensor)
    return _put(cell, _normal(cell, mean, std, generator))


def trunc_normal_(
    tensor: Any,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Any = None,
) -> Any:
    """Values of the normal distribution that is cut to [a, b].

    Example:
        >>> import fx
        >>> weight = fx.nn.init.trunc_normal_(fx.nn.Parameter(fx.zeros(1000)), a=-1.0, b=1.0)
        >>> bool((abs(weight) <= 1).all())
        True
    """
    cell = _cell("trunc_normal_", tensor)

    key = next_key(generator, cell.device)
    low, high = (a - mean) / std, (b - mean) / std
    x = truncated_normal(key, low, high, cell.shape, cell.dtype)
    if std != 1 or mean:
        x = x * std + mean  # which may round past the ends
        low, high = constant_like(a, x), constant_like(b, x)
        x = elementwise.minimum(elementwise.maximum(x, low), high)
    return _put(cell, x)


def constant_(tensor: Any, val: float) -> Any:
    """``val`` everywhere.

    Example:
        >>> import fx
        >>> fx.nn.init.constant_(fx.nn.Buffer(fx.zeros(2)), 3.0)
        tensor([3., 3.])
    """
    cell = _cell("constant_", tensor)
    return _put(cell, filled(cell.shape, val, cell.device, cell.dtype))


def ones_(tensor: Any) -> Any:
    """Ones.

    Example:
        >>> import fx
        >>> fx.nn.init.ones_(fx.nn.Buffer(fx.zeros(2)))
        tensor([1., 1.])
    """
    return constant_(tensor, 1)


def zeros_(tensor: Any) -> Any:
    """Zeros.

    Example:
        >>> import fx
        >>> fx.nn.init.zeros_(fx.nn.Buffer(fx.ones(2)))
        tensor([0., 0.])
    """
    return constant_(tensor, 0)


def eye_(tensor: Any) -> Any:
    """The identity matrix.

    Raises:
        ShapeError: if ``tensor`` does not have two axes.

    Example:
        >>> import fx
        >>> fx.nn.init.eye_(fx.nn.Buffer(fx.zeros((2, 3))))
        tensor([[1., 0., 0.],
                [0., 1., 0.]])
    """
    from fx.ops.patterns import eye

    cell = _cell("eye_", tensor)
    if cell.ndim != 2:
        raise ShapeError(f"init.eye_ takes two axes, got shape {cell.shape}")
    return _put(cell, eye(*cell.shape, dtype=cell.dtype, device=cell.device))


# scaled by the number of inputs and outputs -----------------------------------------------------


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
    cell = _cell("xavier_uniform_", tensor)
    bound = gain * math.sqrt(6.0 / sum(fan_in_and_fan_out(cell)))
    return uniform_(cell, -bound, bound, generator)


def xavier_normal_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """Normal values with deviation ``gain * sqrt(2 / (fan_in + fan_out))``.

    Example:
        >>> import fx
        >>> fx.nn.init.xavier_normal_(fx.nn.Parameter(fx.zeros((3, 5)))).shape
        (3, 5)
    """
    cell = _cell("xavier_normal_", tensor)
    return normal_(cell, 0.0, gain * math.sqrt(2.0 / sum(fan_in_and_fan_out(cell))), generator)


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
    cell = _cell("kaiming_uniform_", tensor)
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
    cell = _cell("kaiming_normal_", tensor)
    return normal_(cell, 0.0, _kaiming_deviation(cell, a, mode, nonlinearity), generator)


def _kaiming_deviation(cell: Cell, a: float, mode: str, nonlinearity: str) -> float:
    if 0 in cell.shape:
        return 0.0
    fans = dict(zip(("fan_in", "fan_out"), fan_in_and_fan_out(cell), strict=True))
    if str(mode).lower() not in fans:
        raise ValueError(f"mode {mode} not supported, please use one of {list(fans)}")
    return calculate_gain(nonlinearity, a) / math.sqrt(fans[mode.lower()])


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


def orthogonal_(tensor: Any, gain: float = 1, generator: Any = None) -> Any:
    """A (semi-)orthogonal matrix: its rows, or its columns if those are fewer, are orthonormal.

    Further axes count as one with the second. It is the orthogonal factor of the polar
    decomposition of a normal matrix, found by Newton-Schulz iteration in float64.

    Raises:
        ShapeError: for fewer than two axes.

    Source: Saxe et al., "Exact solutions to the nonlinear dynamics of learning in deep linear
    neural networks", 2013.

    Example:
        >>> import fx
        >>> w = fx.nn.init.orthogonal_(fx.nn.Parameter(fx.zeros((2, 5))))
        >>> bool((abs(w @ w.mT - fx.eye(2)) < 1e-5).all())
        True
    """
    cell = _cell("orthogonal_", tensor)
    if cell.ndim < 2:
        raise ShapeError(f"init.orthogonal_ takes at least two axes, got shape {cell.shape}")
    if 0 in cell.shape:
        return cell
    rows, columns = cell.shape[0], math.prod(cell.shape[1:])
    with no_grad():
        key = next_key(generator, cell.device)
        x = normal(key, (min(rows, columns), max(rows, columns)), 0.0, 1.0, "float64")
        x = x / (x * x).sum() ** 0.5
        for _ in range(60):  # each multiplies the small singular values by 1.5, and 1 is fixed
            x = x * 1.5 - (x @ x.mT) @ x * 0.5
        q = (x if rows <= columns else x.mT) * gain
        return _put(cell, q.reshape(cell.shape).astype(cell.dtype))
