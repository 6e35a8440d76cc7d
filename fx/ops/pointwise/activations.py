"""Activation functions, softmax and its logarithm."""

from __future__ import annotations

from typing import Any

import fx.prims.activations as fused
import fx.prims.elementwise as prims
from fx.dtypes import COMPLEX, float32
from fx.ops.axes import normal_axis
from fx.ops.operands import argument, cast, floating, of_scalar, public, requested
from fx.ops.pointwise import complex_rows
from fx.ops.pointwise.elementwise import sigmoid
from fx.quick import quick
from fx.tensor import Tensor


def relu(x: Any) -> Tensor:
    """max(x, 0), with gradient 0 at 0.

    Example:
        >>> import fx
        >>> fx.relu(fx.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """
    return _relu(x if type(x) is Tensor else argument("relu", x))  # type: ignore[no-any-return]


_relu, _silu = quick(prims.relu), quick(fused.silu)
_gelu, _gelu_tanh = quick(fused.gelu), quick(fused.gelu_tanh)


def softplus(x: Any) -> Tensor:
    """log(1 + exp(x)), without overflow.

    Example:
        >>> import fx
        >>> fx.softplus(fx.tensor(0.0))
        tensor(0.6931)
    """
    return prims.softplus(floating("softplus", x))


def silu(x: Any) -> Tensor:
    """x * sigmoid(x), also called swish.

    Example:
        >>> import fx
        >>> fx.silu(fx.tensor([0.0, 1.0]))
        tensor([0.0000, 0.7311])
    """
    x = floating("silu", x)
    if x._dtype.itemsize == 2:
        return cast(silu(cast(x, float32)), x._dtype)
    if x._dtype in COMPLEX:
        return x * sigmoid(x)  # type: ignore[no-any-return]
    return _silu(x)  # type: ignore[no-any-return]


def gelu(x: Any, approximate: str = "none") -> Tensor:
    """x * Phi(x), Phi being the normal distribution function.

    Args:
        x: a tensor of any shape; integers and bool become the default floating dtype.
        approximate: ``"none"`` for the exact function by erf, ``"tanh"`` for its approximation.

    Raises:
        ValueError: for another ``approximate``.

    Source: Hendrycks and Gimpel, "Gaussian Error Linear Units", arXiv:1606.08415.

    Example:
        >>> import fx
        >>> fx.gelu(fx.tensor([0.0, 1.0]))
        tensor([0.0000, 0.8413])
    """
    x = floating("gelu", x)
    if x._dtype.itemsize == 2:
        return cast(gelu(cast(x, float32), approximate), x._dtype)
    if approximate == "none":
        return _gelu(x)  # type: ignore[no-any-return]
    if approximate == "tanh":
        return _gelu_tanh(x)  # type: ignore[no-any-return]
    raise ValueError(f"gelu: approximate must be 'none' or 'tanh', got {approximate!r}")


def softmax(x: Any, axis: int = -1, dtype: Any = None, *, dim: int | None = None) -> Tensor:
    """exp(x) / sum(exp(x)) along an axis, without overflow.

    Args:
        x: a tensor with at least one axis; integers and bool become the default floating dtype.
        axis: the axis along which the result adds up to 1.
        dtype: the dtype to compute in.
        dim: PyTorch's word for ``axis``.

    Raises:
        AxisError: if the axis is out of range.

    Example:
        >>> import fx
        >>> fx.softmax(fx.tensor([0.0, 0.0]))
        tensor([0.5000, 0.5000])
    """
    x = floating("softmax", requested(argument("softmax", x), dtype))
    axis, shape = axis if dim is None else dim, x._shape
    if not shape:
        return of_scalar(softmax, x, axis)  # type: ignore[no-any-return]
    at = normal_axis("softmax", axis, shape)
    return complex_rows.softmax_along(x, at)


def log_softmax(x: Any, axis: int = -1, dtype: Any = None, *, dim: int | None = None) -> Tensor:
    """log(softmax(x)) along an axis, exact where softmax is near 0; see ``softmax``.

    Example:
        >>> import fx
        >>> fx.log_softmax(fx.tensor([0.0, 0.0]))
        tensor([-0.6931, -0.6931])
    """
    x = floating("log_softmax", requested(argument("log_softmax", x), dtype))
    axis, shape = axis if dim is None else dim, x._shape
    if not shape:
        return of_scalar(log_softmax, x, axis)  # type: ignore[no-any-return]
    at = normal_axis("log_softmax", axis, shape)
    return complex_rows.log_softmax_along(x, at)


__all__ = public(globals())
