"""Resizing: a matrix for each axis, so that a picture of another size is two products."""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from typing import Any

import numpy as np

import fx
from fx.errors import ShapeError
from fx.ops.axes import integers
from fx.tensor import Tensor


class InterpolationMode(Enum):
    """How values between pixels are found; torchvision's names."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"


def _linear(x: np.ndarray) -> np.ndarray:
    return np.clip(1 - np.abs(x), 0, None)


def _cubic(x: np.ndarray, a: float) -> np.ndarray:
    x = np.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * a
    return np.where(x < 1, near, np.where(x < 2, far, 0))


@lru_cache(64)
def weights(old: int, new: int, mode: str, antialias: bool) -> np.ndarray:
    """The matrix (new, old) that resizes an axis.

    Args:
        old, new: sizes.
        mode: a value of ``InterpolationMode``.
        antialias: whether a smaller picture averages over what it leaves out.

    Source: PyTorch's ``interpolate`` with ``align_corners=False``.
    """
    scale = old / new
    places = np.arange(new)
    if mode.startswith("nearest"):
        where = places * scale if mode == "nearest" else (places + 0.5) * scale
        out = np.zeros((new, old))
        out[places, np.minimum(where.astype(int), old - 1)] = 1
        return out
    reach = 1 if mode == "bilinear" else 2
    centre = (places[:, None] + 0.5) * scale
    if antialias:
        wide = max(scale, 1.0)
        first = np.maximum((centre - reach * wide + 0.5).astype(int), 0)
        last = np.minimum((centre + reach * wide + 0.5).astype(int), old)
        pixels = np.arange(old)[None]
        distance = (pixels - centre + 0.5) / wide
        out = _linear(distance) if mode == "bilinear" else _cubic(distance, -0.5)
        out = np.where((pixels >= first) & (pixels < last), out, 0)
        return out / out.sum(axis=1, keepdims=True)
    centre = centre[:, 0] - 0.5
    if mode == "bilinear":
        centre = np.maximum(centre, 0)
    begin = np.floor(centre).astype(int) - (reach - 1)
    out = np.zeros((new, old))
    for i in range(2 * reach):
        distance = centre - (begin + i)
        value = _linear(distance) if mode == "bilinear" else _cubic(distance, -0.75)
        np.add.at(out, (places, np.clip(begin + i, 0, old - 1)), value)
    return out


def new_size(shape: tuple[int, ...], size: Any, max_size: int | None) -> tuple[int, int]:
    """Height and width: as told, or the shorter side as told and the other in proportion."""
    height, width = shape[-2:]
    sizes = integers("resize", "size", size)
    if len(sizes) == 2:
        return sizes[0], sizes[1]
    short, long = sorted((height, width))
    if len(sizes) != 1 or sizes[0] < 1 or short < 1:
        raise ShapeError(
            f"resize: size must be a positive int or (height, width), got {size!r:.60} for a "
            f"picture of shape {shape}"
        )
    size = sizes[0]
    first, second = size, int(size * long / short)
    if max_size is not None and second > max_size:
        first, second = int(max_size * first / second), max_size
    return (first, second) if height <= width else (second, first)


def resize(
    x: Tensor,
    size: Any,
    interpolation: Any = InterpolationMode.BILINEAR,
    max_size: int | None = None,
    antialias: bool = True,
) -> Tensor:
    """A picture of another size.

    Args:
        x: (..., height, width); integers are rounded at the end.
        size: (height, width), or an int for the shorter side.
        interpolation: an ``InterpolationMode`` or its value.
        max_size: of the longer side, where ``size`` is an int.
        antialias: whether a smaller picture averages over what it leaves out.

    Raises:
        ShapeError: if ``x`` has fewer than two axes or the size is not positive.

    Source: ``torchvision.transforms.functional.resize``.

    Example:
        >>> import fx
        >>> fx.data.transforms.functional.resize(fx.tensor([[0.0, 2.0], [4.0, 6.0]]), (1, 1))
        tensor([[3.]])
    """
    if x.ndim < 2:
        raise ShapeError(f"resize: a picture is (..., height, width), got {x.shape}")
    new = new_size(x.shape, size, max_size)
    if min(new) < 1 or min(x.shape[-2:]) < 1:
        raise ShapeError(f"resize: {x.shape[-2:]} cannot become {new}; sizes are at least 1")
    mode = InterpolationMode(interpolation).value
    dtype = x.dtype
    real = dtype in fx.dtypes.FLOATING
    if new == tuple(x.shape[-2:]):
        return x
    out = x if real else x.astype(fx.float32)
    for axis, to in ((-2, new[0]), (-1, new[1])):
        if to != out.shape[axis]:
            matrix = fx.asarray(weights(out.shape[axis], to, mode, antialias).astype(out.dtype))
            out = matrix @ out if axis == -2 else out @ matrix.T
    if real:
        return out
    info = fx.iinfo(dtype)
    return fx.clip(fx.round(out), info.min, info.max).astype(dtype)
