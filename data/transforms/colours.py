"""Colours of pictures, and blur: pure functions of tensors (..., channels, height, width)."""

from __future__ import annotations

from typing import Any

import fx
from fx.data.transforms.pictures import convert_image_dtype, pad, pair
from fx.errors import ShapeError
from fx.tensor import Tensor


def _blend(x: Tensor, other: Any, ratio: Any) -> Tensor:
    """``ratio`` of a picture and the rest of another, within the range of the dtype."""
    real = x.dtype in fx.dtypes.FLOATING
    most = 1.0 if real else fx.iinfo(x.dtype).max
    values = x if real else x.astype(fx.float32)
    return fx.clip(values * ratio + other * (1 - ratio), 0, most).astype(x.dtype)


def rgb_to_grayscale(x: Tensor, num_output_channels: int = 1) -> Tensor:
    """A picture without colours.

    Args:
        x: (..., 3, height, width), or with one channel.
        num_output_channels: 1 or 3.

    Example:
        >>> import fx
        >>> fx.data.transforms.functional.rgb_to_grayscale(fx.ones((3, 1, 1)))
        tensor([[[0.9999]]])
    """
    if x.shape[-3] not in (1, 3):
        raise ShapeError(f"rgb_to_grayscale: a picture has 1 or 3 channels, got {x.shape}")
    out = x
    if x.shape[-3] == 3:
        values = x if x.dtype in fx.dtypes.FLOATING else x.astype(fx.float32)
        red, green, blue = (values[..., i : i + 1, :, :] for i in range(3))
        out = (0.2989 * red + 0.587 * green + 0.114 * blue).astype(x.dtype)
    shape = (*out.shape[:-3], num_output_channels, *out.shape[-2:])
    return fx.broadcast_to(out, shape) if num_output_channels != out.shape[-3] else out


def adjust_brightness(x: Tensor, brightness_factor: Any) -> Tensor:
    """A picture brighter or darker: 0 is black, 1 the picture.

    Example:
        >>> import fx
        >>> fx.data.transforms.functional.adjust_brightness(fx.ones((1, 1, 1)), 0.5)
        tensor([[[0.5000]]])
    """
    return _blend(x, 0, brightness_factor)


def adjust_contrast(x: Tensor, contrast_factor: Any) -> Tensor:
    """A picture with more or less contrast: 0 is grey, 1 the picture.

    Example:
        >>> import fx
        >>> fx.data.transforms.functional.adjust_contrast(fx.tensor([[[0.0, 1.0]]]), 0.0)
        tensor([[[0.5000, 0.5000]]])
    """
    grey = rgb_to_grayscale(x)
    if x.dtype not in fx.dtypes.FLOATING:
        grey = grey.astype(fx.float32)
    return _blend(x, fx.mean(grey, axis=(-3, -2, -1), keepdims=True), contrast_factor)


def adjust_saturation(x: Tensor, saturation_factor: Any) -> Tensor:
    """A picture with more or less colour: 0 is without, 1 the picture.

    Example:
        >>> import fx
        >>> fx.data.transforms.functional.adjust_saturation(fx.ones((3, 1, 1)), 1.0).shape
        (3, 1, 1)
    """
    if x.shape[-3] == 1:
        return x
    grey = rgb_to_grayscale(x)
    if x.dtype not in fx.dtypes.FLOATING:
        grey = grey.astype(fx.float32)
    return _blend(x, grey, saturation_factor)


def adjust_hue(x: Tensor, hue_factor: Any) -> Tensor:
    """A picture with its colours moved around the circle.

    Args:
        x: (..., 3, height, width), or with one channel, which has no colour.
        hue_factor: how far, in [-0.5, 0.5]; 0 is the picture.

    Example:
        >>> import fx
        >>> red = fx.tensor([1.0, 0.0, 0.0]).reshape(3, 1, 1)
        >>> fx.data.transforms.functional.adjust_hue(red, 1 / 3).reshape(3)
        tensor([0., 1., 0.])
    """
    if isinstance(hue_factor, int | float) and not -0.5 <= hue_factor <= 0.5:
        raise ValueError(f"hue_factor ({hue_factor}) is not in [-0.5, 0.5].")
    if x.shape[-3] == 1:
        return x
    values = convert_image_dtype(x, x.dtype if x.dtype in fx.dtypes.FLOATING else fx.float32)
    red, green, blue = (values[..., i, :, :] for i in range(3))
    most = fx.maximum(fx.maximum(red, green), blue)
    range_ = most - fx.minimum(fx.minimum(red, green), blue)
    safe = fx.where(range_ == 0, fx.ones_like(range_), range_)
    hue = fx.where(
        most == red,
        (green - blue) / safe,
        fx.where(most == green, 2 + (blue - red) / safe, 4 + (red - green) / safe),
    )
    hue = hue + 6 * hue_factor

    def channel(n: int) -> Tensor:
        k = (hue + n) % 6
        return most - range_ * fx.clip(fx.minimum(k, 4 - k), 0, 1)

    out = fx.stack([channel(5), channel(3), channel(1)], axis=-3)
    return convert_image_dtype(out, x.dtype)


def gaussian_blur(x: Tensor, kernel_size: Any, sigma: Any = None) -> Tensor:
    """A picture blurred; its edges are reflected.

    Args:
        x: (..., height, width).
        kernel_size: odd, one number or (along the width, along the height).
        sigma: the same, in pixels; what goes with the kernel unless told.

    Example:
        >>> import fx
        >>> fx.data.transforms.functional.gaussian_blur(fx.ones((3, 3)), 3).shape
        (3, 3)
    """
    sizes = pair(kernel_size)
    if any(size <= 0 or size % 2 == 0 for size in sizes):
        raise ValueError(f"Kernel size value should be an odd and positive number, got {sizes}")
    if sigma is None:
        sigma = [0.3 * ((size - 1) * 0.5 - 1) + 0.8 for size in sizes]
    wide, high = (sigma, sigma) if not isinstance(sigma, list | tuple) else (sigma * 2)[:2]
    real = x.dtype in fx.dtypes.FLOATING
    out = x if real else x.astype(fx.float32)
    for axis, size, spread in ((-1, sizes[0], wide), (-2, sizes[1], high)):
        half = size // 2
        weights = fx.exp(-0.5 * (fx.arange(-half, half + 1, dtype=out.dtype) / spread) ** 2)
        weights = weights / fx.sum(weights)
        around = (half, 0) if axis == -1 else (0, half)
        padded = pad(out, around, padding_mode="reflect")
        n = out.shape[axis]
        parts = [
            padded[..., i : i + n] if axis == -1 else padded[..., i : i + n, :] for i in range(size)
        ]
        out = sum((part * weights[i] for i, part in enumerate(parts)), fx.zeros_like(out))
    return out if real else fx.round(out).astype(x.dtype)
