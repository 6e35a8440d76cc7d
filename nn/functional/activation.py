"""Activation functions."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import fx.prims.activations as prims
import fx.prims.elementwise as elementwise
from fx.dtypes import INTEGRAL
from fx.ops.axes import normal_axis
from fx.ops.operands import argument, floating, number_or_partner, of_scalar, requested
from fx.ops.pointwise import activations as ops
from fx.ops.pointwise import complex_rows
from fx.tensor import Tensor
from fx.writing.inplace import may_write


@may_write
def relu(input: Any, inplace: bool = False) -> Tensor:
    """``max(x, 0)``, elementwise.

    Example:
        >>> import fx
        >>> fx.nn.functional.relu(fx.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """
    return ops.relu(input)


@may_write
def relu6(input: Any, inplace: bool = False) -> Tensor:
    """``min(max(x, 0), 6)``, elementwise.

    Example:
        >>> import fx
        >>> fx.nn.functional.relu6(fx.tensor([-1.0, 2.0, 8.0]))
        tensor([0., 2., 6.])
    """
    return hardtanh(input, 0.0, 6.0)


@may_write
def hardtanh(
    input: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """``x`` held between ``min_val`` and ``max_val``; outside of them its derivative is 0.

    Integers stay integers, and the limits are cut to such.

    Example:
        >>> import fx
        >>> fx.nn.functional.hardtanh(fx.tensor([-3.0, 0.5]))
        tensor([-1.0000,  0.5000])
    """
    x = argument("hardtanh", input)
    if type(min_val) is type(max_val) is float and min_val > max_val:
        raise ValueError(f"hardtanh: min_val {min_val} is greater than max_val {max_val}")
    if x._dtype in INTEGRAL:
        min_val, max_val = int(min_val), int(max_val)
    else:
        x = floating("hardtanh", x)
    low = number_or_partner("hardtanh", "min_val", min_val, x)
    return prims.clamped(x, low=low, high=number_or_partner("hardtanh", "max_val", max_val, x))


@may_write
def leaky_relu(input: Any, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """``x`` where positive, ``negative_slope * x`` elsewhere.

    Example:
        >>> import fx
        >>> fx.nn.functional.leaky_relu(fx.tensor([-1.0, 2.0]), 0.5)
        tensor([-0.5000,  2.0000])
    """
    x = floating("leaky_relu", input)
    return prims.leaky_relu(x, slope=negative_slope)


@may_write
def elu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """``x`` where positive, ``alpha * (exp(x) - 1)`` elsewhere.

    Source: Clevert et al., "Fast and accurate deep network learning by exponential linear units",
    2015.

    Example:
        >>> import fx
        >>> fx.nn.functional.elu(fx.tensor([-1.0, 2.0]))
        tensor([-0.6321,  2.0000])
    """
    return prims.bent(floating("elu", input), steep=alpha, scale=1.0, inner=1.0)


def gelu(input: Any, approximate: str = "none") -> Tensor:
    """``x`` times the standard normal distribution function at ``x``.

    Args:
        input: any shape, floating.
        approximate: ``"none"``, or ``"tanh"`` for the approximation by a tanh.

    Raises:
        ValueError: for another ``approximate``.

    Source: Hendrycks and Gimpel, "Gaussian error linear units", 2016.

    Example:
        >>> import fx
        >>> fx.nn.functional.gelu(fx.tensor([-1.0, 2.0]))
        tensor([-0.1587,  1.9545])
    """
    return ops.gelu(input, approximate)


@may_write
def silu(input: Any, inplace: bool = False) -> Tensor:
    """``x * sigmoid(x)``, elementwise.

    Example:
        >>> import fx
        >>> fx.nn.functional.silu(fx.tensor([-1.0, 2.0]))
        tensor([-0.2689,  1.7616])
    """
    return ops.silu(input)


def sigmoid(input: Any) -> Tensor:
    """``1 / (1 + exp(-x))``, elementwise.

    Example:
        >>> import fx
        >>> fx.nn.functional.sigmoid(fx.tensor([0.0]))
        tensor([0.5000])
    """
    return elementwise.sigmoid(floating("sigmoid", input))


def tanh(input: Any) -> Tensor:
    """The hyperbolic tangent, elementwise.

    Example:
        >>> import fx
        >>> fx.nn.functional.tanh(fx.tensor([0.0, 1.0]))
        tensor([0.0000, 0.7616])
    """
    return elementwise.tanh(floating("tanh", input))


def softplus(input: Any, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """``log(1 + exp(beta * x)) / beta``, and ``x`` itself where ``beta * x > threshold``.

    Example:
        >>> import fx
        >>> fx.nn.functional.softplus(fx.tensor([0.0, 30.0]))
        tensor([ 0.6931, 30.0000])
    """
    return prims.softplus(floating("softplus", input), beta=beta, threshold=threshold)


def logsigmoid(input: Any) -> Tensor:
    """``log(sigmoid(x))``, elementwise.

    Example:
        >>> import fx
        >>> fx.nn.functional.logsigmoid(fx.tensor([0.0]))
        tensor([-0.6931])
    """
    return prims.logsigmoid(floating("logsigmoid", input))


def softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """``exp(x) / sum(exp(x))`` along an axis.

    Args:
        input: any shape, floating.
        dim: the axis; where None, 0 for 0, 1 and 3 axes and else 1, as in PyTorch.
        dtype: cast to it first.

    Raises:
        AxisError: if ``dim`` is out of range.

    Example:
        >>> import fx
        >>> fx.nn.functional.softmax(fx.tensor([0.0, 0.0]), dim=0)
        tensor([0.5000, 0.5000])
    """
    x = floating("softmax", requested(argument("softmax", input), dtype))
    return _along(complex_rows.softmax_along, "softmax", dim, x)


def log_softmax(
    input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """``log(softmax(x))`` along an axis; see ``softmax``.

    Example:
        >>> import fx
        >>> fx.nn.functional.log_softmax(fx.tensor([0.0, 0.0]), dim=0)
        tensor([-0.6931, -0.6931])
    """
    x = floating("log_softmax", requested(argument("log_softmax", input), dtype))
    return _along(complex_rows.log_softmax_along, "log_softmax", dim, x)


def softmin(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """``softmax(-x)`` along an axis.

    Example:
        >>> import fx
        >>> fx.nn.functional.softmin(fx.tensor([0.0, 1.0]), dim=0)
        tensor([0.7311, 0.2689])
    """
    x = floating("softmin", requested(argument("softmin", input), dtype))
    return _along(complex_rows.softmax_along, "softmin", dim, -x)


def _along(function: Any, name: str, dim: int | None, x: Tensor) -> Tensor:
    """A softmax along ``dim``; the axis that PyTorch chooses, with its warning, if that is None."""
    if dim is None:
        dim = 0 if x.ndim in (0, 1, 3) else 1
        warnings.warn(
            f"Implicit dimension choice for {name} has been deprecated. Change the call to "
            f"include dim=X as an argument: dim={dim} is what is taken for {x._shape}.",
            stacklevel=3,
        )
    shape = x._shape
    if not shape:
        return of_scalar(partial(_along, function, name, dim), x)
    return function(x, normal_axis(name, dim, shape))
