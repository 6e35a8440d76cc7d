"""Channels that become pixels, pixels that become channels, and channels in another order."""

from __future__ import annotations

from typing import Any

import fx.prims.shape as shape_prims
from fx.errors import ShapeError
from fx.ops.axes import integer
from fx.ops.operands import argument
from fx.tensor import Tensor


def _checked(name: str, word: str, input: Any, factor: Any, least: int) -> tuple[Tensor, int]:
    x, n = argument(name, input), integer(name, word, factor)
    if x.ndim < least:
        raise ShapeError(
            f"{name} takes (..., channels, height, width), at least {least} axes, got {x.shape}"
        )
    if n < 1:
        raise ShapeError(f"{name}: {word} must be positive, got {n}")
    return x, n


def pixel_shuffle(input: Any, upscale_factor: int) -> Tensor:
    """Channels become pixels: (..., c * r * r, h, w) to (..., c, h * r, w * r).

    Raises:
        ShapeError: if the channels are no multiple of the square of ``upscale_factor``.

    Source: Shi et al., "Real-time single image and video super-resolution using an efficient
    sub-pixel convolutional neural network", 2016.

    Example:
        >>> import fx
        >>> fx.nn.functional.pixel_shuffle(fx.arange(4.0).reshape(4, 1, 1), 2)
        tensor([[[0., 1.],
                 [2., 3.]]])
    """
    x, r = _checked("pixel_shuffle", "upscale_factor", input, upscale_factor, 3)
    lead, (c, h, w) = x.shape[:-3], x.shape[-3:]
    if c % (r * r):
        raise ShapeError(
            f"pixel_shuffle: the channels of an input of shape {x.shape}, {c}, must be divisible "
            f"by the square of upscale_factor {r}"
        )
    x = shape_prims.reshaped(x, (*lead, c // (r * r), r, r, h, w))
    n = len(lead)
    axes = (*range(n + 1), n + 3, n + 1, n + 4, n + 2)  # (..., c, h, r, w, r)
    x = shape_prims.transposed(x, axes)
    return shape_prims.reshaped(x, (*lead, c // (r * r), h * r, w * r))


def pixel_unshuffle(input: Any, downscale_factor: int) -> Tensor:
    """Pixels become channels: (..., c, h * r, w * r) to (..., c * r * r, h, w).

    Raises:
        ShapeError: if height or width is no multiple of ``downscale_factor``.

    Example:
        >>> import fx
        >>> fx.nn.functional.pixel_unshuffle(fx.ones((1, 4, 6)), 2).shape
        (4, 2, 3)
    """
    x, r = _checked("pixel_unshuffle", "downscale_factor", input, downscale_factor, 3)
    lead, (c, h, w) = x.shape[:-3], x.shape[-3:]
    if h % r or w % r:
        raise ShapeError(
            f"pixel_unshuffle: height and width of an input of shape {x.shape} must be divisible "
            f"by downscale_factor {r}"
        )
    x = shape_prims.reshaped(x, (*lead, c, h // r, r, w // r, r))
    n = len(lead)
    axes = (*range(n + 1), n + 2, n + 4, n + 1, n + 3)  # (..., c, r, r, h, w)
    x = shape_prims.transposed(x, axes)
    return shape_prims.reshaped(x, (*lead, c * r * r, h // r, w // r))


def channel_shuffle(input: Any, groups: int) -> Tensor:
    """The channels, cut into groups, dealt out one from each group in turn.

    Args:
        input: (batch, channels, ...), with at least three axes.
        groups: how many groups.

    Raises:
        ShapeError: if the channels cannot be cut evenly.

    Source: Zhang et al., "ShuffleNet", 2017.

    Example:
        >>> import fx
        >>> fx.nn.functional.channel_shuffle(fx.arange(4.0).reshape(1, 4, 1), 2).flatten()
        tensor([0., 2., 1., 3.])
    """
    x, groups = _checked("channel_shuffle", "groups", input, groups, 3)
    shape = x.shape
    if shape[1] % groups:
        raise ShapeError(
            f"channel_shuffle: the channels of an input of shape {shape}, {shape[1]}, must be "
            f"divisible by groups {groups}"
        )
    x = shape_prims.reshaped(x, (shape[0], groups, shape[1] // groups, *shape[2:]))
    x = shape_prims.transposed(x, (0, 2, 1, *range(3, x.ndim)))
    return shape_prims.reshaped(x, shape)


native_channel_shuffle = channel_shuffle
