"""Sums of exponentials with weights and signs."""

from __future__ import annotations

from typing import Any

import fx.prims.compare as compare
import fx.prims.elementwise as elementwise
from fx import dtypes
from fx.errors import DTypeError
from fx.ops.axes import reduced_axes
from fx.ops.operands import floating
from fx.ops.reductions import reduction
from fx.ops.reductions.masked import mask_of
from fx.ops.shapes.broadcasting import broadcast_arrays
from fx.prims.creation import constant_like
from fx.tensor import Tensor

Axes = int | tuple[int, ...] | None


def logsumexp(
    a: Any,
    axis: Axes = None,
    b: Any = None,
    keepdims: bool = False,
    return_sign: bool = False,
    *,
    where: Any = None,
    dim: Axes = None,
    keepdim: bool = False,
) -> Any:
    """log(sum(b * exp(a))) along axes, without overflow.

    Args:
        a: any shape; integers and bool become the default floating dtype.
        axis: the axes to reduce, all of them for None.
        b: weights that broadcast with ``a``.
        keepdims: keep the reduced axes, with size 1.
        return_sign: give the logarithm of the sum's magnitude, and its sign. Without it a negative
            sum gives NaN.
        where: bool, broadcasts with ``a``: other elements are left out.
        dim, keepdim: PyTorch's words for ``axis`` and ``keepdims``.

    Returns:
        a tensor; a pair of tensors with ``return_sign``.

    Raises:
        AxisError: if an axis is out of range.
        DTypeError: if ``b`` is complex, or ``where`` is not bool.

    Source: ``scipy.special.logsumexp``, ``jax.nn.logsumexp``.

    Example:
        >>> import fx
        >>> fx.special.logsumexp(fx.tensor([0.0, 0.0]), b=fx.tensor([1.0, -3.0]), return_sign=True)
        (tensor(0.6931), tensor(-1.))
    """
    axis, keepdims = axis if dim is None else dim, keepdims or keepdim
    x = floating("logsumexp", a)
    if where is not None:
        x = held("logsumexp", x, where)[1]
    if b is None and not return_sign:
        return reduction.logsumexp(x, axis, keepdims)
    if x.dtype in dtypes.COMPLEX:
        raise DTypeError("logsumexp: weights and signs are for real numbers; write b=None")
    weights = constant_like(1.0, x) if b is None else floating("logsumexp", b)
    x, weights = broadcast_arrays(x, weights)
    zero = constant_like(0.0, weights)
    # where the weight is 0 an infinite exponential must not count
    counted = compare.where(compare.equal(weights, zero), constant_like(float("-inf"), x), x)
    axes = reduced_axes("logsumexp", axis, x.shape)
    top = compare.stop_gradient(reduction.max(counted, axes, keepdims=True))
    top = compare.where(compare.isfinite(top), top, constant_like(0.0, top))
    total = reduction.sum(
        elementwise.multiply(weights, elementwise.exp(elementwise.subtract(counted, top))),
        axes,
        keepdims=True,
    )
    sign = elementwise.sign(total)
    size = elementwise.abs(total) if return_sign else total
    out = elementwise.add(elementwise.log(size), top)
    if not keepdims:
        kept = tuple([n for i, n in enumerate(x.shape) if i not in axes])
        out, sign = out.reshape(kept), sign.reshape(kept)
    return (out, compare.stop_gradient(sign)) if return_sign else out


def held(name: str, x: Tensor, where: Any) -> tuple[Tensor, Tensor]:
    """``where`` as a mask of the shape of ``x``, and ``x`` with -inf where it is False."""
    mask = mask_of(name, x, where)
    return mask, compare.where(mask, x, constant_like(float("-inf"), x))
