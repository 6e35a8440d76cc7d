"""Power-average pooling: the p-norm of each window."""

from __future__ import annotations

from math import inf, prod
from typing import Any

import fx.prims.compare as compare
from fx.nn.functional._narrow import narrow, widened
from fx.nn.functional._windows import entries
from fx.nn.functional.pooling import (
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from fx.ops.operands import floating
from fx.prims.creation import constant_like
from fx.tensor import Tensor


def lp_pool1d(
    input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """The p-norm of each window of one spatial dimension; see ``lp_pool2d``.

    Example:
        >>> import fx
        >>> fx.nn.functional.lp_pool1d(fx.tensor([[[3.0, 4.0, 0.0, 1.0]]]), 2, 2)
        tensor([[[5., 1.]]])
    """
    return _lp_pool("lp_pool1d", 1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """``(sum of x ** p) ** (1 / p)`` over each window of two spatial dimensions.

    A window that ceil mode puts partly outside counts as if it were full.

    Args:
        input: (batch, channels, height, width), or without the batch axis.
        norm_type: the p; infinite for the largest magnitude of a window.
        kernel_size: the size of the window; an int or one a dimension.
        stride: its step, ``kernel_size`` unless told.
        ceil_mode: whether a last window that is only partly inside counts.

    Returns:
        (batch, channels, out_height, out_width); its gradient is 0 where it is 0.

    Raises:
        ShapeError: if sizes do not fit.

    Example:
        >>> import fx
        >>> fx.nn.functional.lp_pool2d(fx.ones((1, 1, 4, 4)), 2, 2)
        tensor([[[[2., 2.],
                  [2., 2.]]]])
    """
    return _lp_pool("lp_pool2d", 2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """The p-norm of each window of three spatial dimensions; see ``lp_pool2d``.

    Example:
        >>> import fx
        >>> fx.nn.functional.lp_pool3d(fx.ones((1, 1, 2, 2, 2)), 1, 2)
        tensor([[[[[8.]]]]])
    """
    return _lp_pool("lp_pool3d", 3, input, norm_type, kernel_size, stride, ceil_mode)


def _lp_pool(
    name: str,
    rank: int,
    input: Any,
    norm_type: float,
    kernel_size: Any,
    stride: Any,
    ceil_mode: bool,
) -> Tensor:
    x = floating(name, input)
    if narrow(x):
        given = (norm_type, kernel_size, stride, ceil_mode)
        return widened(lambda x: _lp_pool(name, rank, x, *given), x)
    if abs(norm_type) == inf:
        largest = (max_pool1d, max_pool2d, max_pool3d)[rank - 1]
        sign = 1 if norm_type > 0 else -1
        return largest(abs(x) * sign, kernel_size, stride, 0, 1, ceil_mode) * sign
    if norm_type == 0:
        raise ValueError(f"lp_pool{rank}d: norm_type must not be 0; write norm_type=2")
    mean = (avg_pool1d, avg_pool2d, avg_pool3d)[rank - 1]
    total = mean(x**norm_type, kernel_size, stride, 0, ceil_mode)
    total = total * prod(entries(name, "kernel_size", kernel_size, rank))
    none = total == 0
    safe = compare.where(none, constant_like(1.0, total), total)
    return compare.where(none, constant_like(0.0, total), safe ** (1.0 / norm_type))
