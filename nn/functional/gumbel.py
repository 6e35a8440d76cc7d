"""Samples of a categorical distribution that gradients pass through."""

from __future__ import annotations

from typing import Any

import fx.prims.compare as compare
import fx.prims.reduction as reduction
import fx.prims.shape as shape_prims
from fx.ops.axes import normal_axis
from fx.ops.operands import cast, floating, iota
from fx.random import gumbel, next_key
from fx.tensor import Tensor


def gumbel_softmax(
    logits: Any, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """A sample of the Gumbel-softmax distribution along an axis.

    Args:
        logits: unnormalised logarithms of probabilities, any shape.
        tau: the temperature: the smaller, the nearer to one-hot.
        hard: give the one-hot vector of the largest, with the gradient of the soft sample.
        eps: not used, as in PyTorch.
        dim: the axis along which the result adds up to 1.

    Raises:
        AxisError: if ``dim`` is out of range.

    Source: Jang et al., "Categorical reparameterization with Gumbel-softmax", 2016.

    Example:
        >>> import fx
        >>> fx.nn.functional.gumbel_softmax(fx.zeros((2, 5)), hard=True).sum(dim=-1)
        tensor([1., 1.])
    """
    x = floating("gumbel_softmax", logits)
    axis = normal_axis("gumbel_softmax", dim, x._shape)
    noise = cast(gumbel(next_key(device=x.device), x._shape, x._dtype), x._dtype)
    soft = reduction.softmax((x + noise) / tau, axis=axis)
    if not hard:
        return soft
    fixed = compare.stop_gradient(soft)
    place = reduction.argmax(fixed, axis=axis, keepdims=True)
    line = [1] * x.ndim
    line[axis] = x._shape[axis]
    steps = shape_prims.reshaped(iota(x._shape[axis], x), tuple(line))
    return cast(compare.equal(steps, place), x._dtype) + (soft - fixed)
