"""Pure functions of pictures: tensors (..., channels, height, width). They grad, vmap and jit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import fx
from fx.data.transforms.resizing import InterpolationMode, resize
from fx.errors import DTypeError, ShapeError
from fx.ops.axes import integers
from fx.ops.operands import argument
from fx.tensor import Tensor


def pair(value: Any) -> tuple[int, int]:
    """Height and width, from one number or two.

    Raises:
        TypeError, ValueError: if it is anything else.
    """
    one = integers("a picture's size", "it", value)
    if len(one) not in (1, 2):
        raise ValueError(f"a size is an int or (height, width), got {value!r:.60}")
    return one[0], one[-1]


def sides(name: str, x: Any) -> tuple[int, int]:
    """Height and width of a picture.

    Raises:
        DTypeError: if it is no tensor.
        ShapeError: if it has fewer than two axes.
    """
    shape = argument(name, x).shape
    if len(shape) < 2:
        raise ShapeError(
            f"{name}: a picture is (..., height, width), got shape {shape}; write "
            f"to_tensor(picture) for one of pillow"
        )
    return shape[-2:]  # type: ignore[return-value]


# from and to pictures ---------------------------------------------------------------------------


def pil_to_tensor(picture: Any) -> Tensor:
    """A picture of pillow, or an array (height, width[, channels]), as a tensor of its dtype.

    Returns:
        (channels, height, width).

    Example:
        >>> import fx, numpy as np
        >>> fx.data.transforms.functional.pil_to_tensor(np.zeros((2, 3, 4), np.uint8)).shape
        (4, 2, 3)
    """
    if isinstance(picture, Tensor):
        return picture
    array = np.asarray(picture)
    if array.ndim not in (2, 3):
        raise ShapeError(f"a picture is (height, width[, channels]), got {array.shape}")
    array = array[None] if array.ndim == 2 else array.transpose(2, 0, 1)
    return fx.asarray(np.ascontiguousarray(array))


def to_tensor(picture: Any) -> Tensor:
    """A picture of pillow, or an array (height, width[, channels]), as a tensor.

    Returns:
        (channels, height, width): float32 in [0, 1] for uint8 and bool pictures, else the dtype of
        the picture.

    Source: ``torchvision.transforms.functional.to_tensor``.

    Example:
        >>> import fx, numpy as np
        >>> fx.data.transforms.functional.to_tensor(np.full((1, 2), 255, np.uint8))
        tensor([[[1., 1.]]])
    """
    x = pil_to_tensor(picture)
    if x.dtype == fx.uint8:
        return x.astype(fx.float32) / 255
    return x.astype(fx.float32) if x.dtype == fx.bool else x


def convert_image_dtype(x: Tensor, dtype: Any = None) -> Tensor:
    """Another dtype, and the range that goes with it: [0, 1], or that of the integers.

    Example:
        >>> import fx
        >>> fx.data.transforms.functional.convert_image_dtype(fx.tensor([0.5]), fx.uint8)
        tensor([127], dtype=fx.uint8)
    """
    dtype = fx.dtypes.as_dtype(fx.float32 if dtype is None else dtype)
    if x.dtype == dtype:
        return x
    real, wanted = x.dtype in fx.dtypes.FLOATING, dtype in fx.dtypes.FLOATING
    if real and wanted:
        return x.astype(dtype)
    if real:
        return (x * (fx.iinfo(dtype).max + 1 - 1e-3)).astype(dtype)
    if wanted:
        return x.astype(dtype) / fx.iinfo(x.dtype).max
    old, new = fx.iinfo(x.dtype).max, fx.iinfo(dtype).max
    if old > new:
        return (x // ((old + 1) // (new + 1))).astype(dtype)
    return x.astype(dtype) * ((new + 1) // (old + 1))


def normalize(x: Tensor, mean: Any, std: Any, inplace: bool = False) -> Tensor:
    """``(x - mean) / std``, by channel.

    Args:
        x: (..., channels, height, width), floating.
        mean, std: a number for each channel.
        inplace: accepted for torchvision's sake.

    Raises:
        DTypeError: if ``x`` is not floating.
        ValueError: if a ``std`` is 0.

    Example:
        >>> import fx
        >>> fx.data.transforms.functional.normalize(fx.ones((1, 1, 2)), [0.5], [0.25])
        tensor([[[2., 2.]]])
    """
    if x.dtype not in fx.dtypes.FLOATING:
        raise DTypeError(
            f"normalize takes a floating picture, got {x.dtype.name}; write to_tensor(picture)"
        )
    if x.ndim < 3:
        raise ShapeError(f"normalize: a picture is (..., channels, height, width), got {x.shape}")
    low, spread = (np.asarray(v, x.dtype).reshape(-1, 1, 1) for v in (mean, std))
    if not spread.all():
        raise ValueError(f"normalize: std is 0 after conversion to {x.dtype.name}: {std}")
    return (x - fx.asarray(low)) / fx.asarray(spread)


# places -----------------------------------------------------------------------------------------


def hflip(x: Tensor) -> Tensor:
    """Left and right exchanged.

    Example:
        >>> import fx
        >>> fx.data.transforms.functional.hflip(fx.tensor([[1, 2]]))
        tensor([[2, 1]])
    """
    return fx.flip(x, axis=-1)


def vflip(x: Tensor) -> Tensor:
    """Top and bottom exchanged.

    Example:
        >>> import fx
        >>> fx.data.transforms.functional.vflip(fx.tensor([[1], [2]]))
        tensor([[2],
                [1]])
    """
    return fx.flip(x, axis=-2)


_MODES = ("constant", "edge", "reflect", "symmetric")


def pad(x: Tensor, padding: Any, fill: Any = 0, padding_mode: str = "constant") -> Tensor:
    """Pixels around a picture.

    Args:
        x: (..., height, width).
        padding: one number; or (left and right, top and bottom); or (left, top, right, bottom).
        fill: their value, for ``padding_mode="constant"``.
        padding_mode: ``"constant"``, ``"edge"``, ``"reflect"`` or ``"symmetric"``.

    Raises:
        ValueError: for another number of paddings, or another mode.

    Example:
        >>> import fx
        >>> fx.data.transforms.functional.pad(fx.tensor([[1, 2]]), (1, 0))
        tensor([[0, 1, 2, 0]])
    """
    sides = integers("pad", "padding", padding)
    if len(sides) not in (1, 2, 4):
        raise ValueError(f"Padding must be an int or a 1, 2, or 4 element tuple, not {padding}")
    left, top, right, bottom = (sides * (4 // len(sides)))[:4]
    if padding_mode not in _MODES:
        raise ValueError(
            f"Padding mode should be either constant, edge, reflect or symmetric, got "
            f"{padding_mode!r}"
        )
    widths = [(0, 0)] * (x.ndim - 2) + [(top, bottom), (left, right)]
    return fx.pad(x, widths, padding_mode, fill)


def crop(x: Tensor, top: Any, left: Any, height: int, width: int) -> Tensor:
    """A part of a picture; what lies outside is 0.

    Args:
        x: (..., height, width).
        top, left: where it begins: ints, or integer tensors (), which ``jit`` and ``vmap`` take.
        height, width: its size.

    Example:
        >>> import fx
        >>> fx.data.transforms.functional.crop(fx.arange(6).reshape(2, 3), 0, 1, 1, 2)
        tensor([[1, 2]])
    """
    if isinstance(top, int) and isinstance(left, int):
        inside = top >= 0 and left >= 0 and top + height <= x.shape[-2]
        if not inside or left + width > x.shape[-1]:
            x = pad(x, (-left, -top, left + width - x.shape[-1], top + height - x.shape[-2]))
            return x
        return x[..., top : top + height, left : left + width]
    rows = fx.arange(height) + top
    columns = fx.arange(width) + left
    out = fx.take(x, fx.clip(rows, 0, x.shape[-2] - 1), axis=-2)
    out = fx.take(out, fx.clip(columns, 0, x.shape[-1] - 1), axis=-1)
    seen = ((rows >= 0) & (rows < x.shape[-2]))[:, None] & (columns >= 0) & (columns < x.shape[-1])
    return fx.where(seen, out, fx.zeros_like(out))


def center_crop(x: Tensor, output_size: Any) -> Tensor:
    """The middle of a picture; one that is too small gets zeros around it.

    Example:
        >>> import fx
        >>> fx.data.transforms.functional.center_crop(fx.arange(9).reshape(3, 3), 1)
        tensor([[4]])
    """
    height, width = pair(output_size)
    rows, columns = sides("center_crop", x)
    lack = max(height - rows, 0), max(width - columns, 0)
    if any(lack):
        x = pad(x, (lack[1] // 2, lack[0] // 2, (lack[1] + 1) // 2, (lack[0] + 1) // 2))
        rows, columns = x.shape[-2:]
    return crop(x, round((rows - height) / 2), round((columns - width) / 2), height, width)


def resized_crop(
    x: Tensor, top: int, left: int, height: int, width: int, size: Any,
    interpolation: Any = InterpolationMode.BILINEAR, antialias: bool = True,
) -> Tensor:  # fmt: skip
    """A part of a picture, in another size.

    Example:
        >>> import fx
        >>> fx.data.transforms.functional.resized_crop(fx.ones((4, 4)), 0, 0, 2, 2, (1, 1))
        tensor([[1.]])
    """
    return resize(crop(x, top, left, height, width), size, interpolation, antialias=antialias)


def sample(x: Tensor, rows: Tensor, columns: Tensor, bilinear: bool, fill: float = 0) -> Tensor:
    """The values of a picture at places between its pixels; outside of it, ``fill``.

    Args:
        x: (..., height, width), floating.
        rows, columns: (h, w) places, in pixels from the middle of the first.
        bilinear: whether to mix the four pixels around a place, or take the nearest.
        fill: what stands outside.

    Returns:
        (..., h, w).
    """
    height, width = x.shape[-2:]
    flat = x.reshape(*x.shape[:-2], height * width)

    def at(r: Tensor, c: Tensor) -> Tensor:
        inside = (r >= 0) & (r < height) & (c >= 0) & (c < width)
        where = fx.clip(r, 0, height - 1) * width + fx.clip(c, 0, width - 1)
        found = fx.take(flat, where.reshape(-1).astype(fx.int64), axis=-1)
        found = found.reshape(*x.shape[:-2], *r.shape)
        return fx.where(inside, found, fx.full_like(found, fill))

    if not bilinear:
        return at(fx.round(rows), fx.round(columns))
    top, left = fx.floor(rows), fx.floor(columns)
    down, right = rows - top, columns - left
    return (
        at(top, left) * ((1 - down) * (1 - right))
        + at(top, left + 1) * ((1 - down) * right)
        + at(top + 1, left) * (down * (1 - right))
        + at(top + 1, left + 1) * (down * right)
    )


def rotate(
    x: Tensor, angle: Any, interpolation: Any = InterpolationMode.NEAREST, fill: float = 0
) -> Tensor:
    """A picture turned about its middle.

    Args:
        x: (..., height, width).
        angle: degrees, counter-clockwise; a number or a tensor ().
        interpolation: nearest or bilinear.
        fill: what comes in from outside.

    Example:
        >>> import fx
        >>> fx.data.transforms.functional.rotate(fx.arange(4.0).reshape(2, 2), 90)
        tensor([[1., 3.],
                [0., 2.]])
    """
    height, width = sides("rotate", x)
    mode = InterpolationMode(interpolation)
    real = x.dtype in fx.dtypes.FLOATING
    values = x if real else x.astype(fx.float32)
    turn = fx.asarray(angle, dtype=values.dtype) * (math.pi / 180)
    cos, sin = fx.cos(turn), fx.sin(turn)
    rows = fx.arange(height, dtype=values.dtype)[:, None] - (height - 1) / 2
    columns = fx.arange(width, dtype=values.dtype)[None] - (width - 1) / 2
    out = sample(
        values,
        sin * columns + cos * rows + (height - 1) / 2,
        cos * columns - sin * rows + (width - 1) / 2,
        mode is InterpolationMode.BILINEAR,
        fill,
    )
    return out if real else fx.round(out).astype(x.dtype)


def erase(x: Tensor, i: int, j: int, h: int, w: int, v: Any, inplace: bool = False) -> Tensor:
    """A rectangle of a picture replaced.

    Args:
        x: (..., height, width).
        i, j: its first row and column.
        h, w: its size.
        v: what stands there then: broadcasts to (..., h, w).
        inplace: accepted for torchvision's sake.

    Example:
        >>> import fx
        >>> fx.data.transforms.functional.erase(fx.ones((1, 3)), 0, 1, 1, 2, 0)
        tensor([[1., 0., 0.]])
    """
    sides("erase", x)
    return fx.asarray(x).at[..., i : i + h, j : j + w].set(v)
