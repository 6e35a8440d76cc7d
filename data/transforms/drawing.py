"""Random transforms as pure functions: of a key and a tensor (..., channels, height, width).

What is drawn decides values, never shapes, so each of them is the same program for every picture:
``vmap(random_crop, (0, 0, None))(keys, pictures, 28)`` treats each picture differently.
"""

from __future__ import annotations

import math
from typing import Any

import fx
from fx import random
from fx.data.transforms.pictures import crop, hflip, pad, pair, rotate, sample, sides, vflip
from fx.data.transforms.resizing import InterpolationMode
from fx.errors import ShapeError
from fx.tensor import Tensor

_TRIES = 10  # rectangles that are drawn until one fits, as in torchvision


def random_horizontal_flip(key: Tensor, x: Tensor, p: float = 0.5) -> Tensor:
    """Left and right exchanged, with probability ``p``.

    Example:
        >>> import fx
        >>> key = fx.random.key(0)
        >>> fx.data.transforms.functional.random_horizontal_flip(key, fx.tensor([[1, 2]]), 1.0)
        tensor([[2, 1]])
    """
    return fx.where(random.uniform(key, ()) < p, hflip(x), x)


def random_vertical_flip(key: Tensor, x: Tensor, p: float = 0.5) -> Tensor:
    """Top and bottom exchanged, with probability ``p``.

    Example:
        >>> import fx
        >>> key = fx.random.key(0)
        >>> fx.data.transforms.functional.random_vertical_flip(key, fx.tensor([[1, 2]]))
        tensor([[1, 2]])
    """
    return fx.where(random.uniform(key, ()) < p, vflip(x), x)


def random_crop(
    key: Tensor, x: Tensor, size: Any, padding: Any = None, pad_if_needed: bool = False,
    fill: Any = 0, padding_mode: str = "constant",
) -> Tensor:  # fmt: skip
    """A part of a picture, anywhere in it.

    Args:
        key: uint32 (6,).
        x: (..., height, width).
        size: (height, width), or one number.
        padding: pixels that are put around it first, as in ``pad``.
        pad_if_needed: whether a picture that is too small gets more.
        fill, padding_mode: of these pixels, as in ``pad``.

    Raises:
        ShapeError: if the picture is too small.

    Example:
        >>> import fx
        >>> x = fx.ones((3, 8, 8))
        >>> fx.data.transforms.functional.random_crop(fx.random.key(0), x, 5).shape
        (3, 5, 5)
    """
    height, width = pair(size)
    sides("random_crop", x)
    if padding is not None:
        x = pad(x, padding, fill, padding_mode)
    if pad_if_needed:
        across, down = max(width - x.shape[-1], 0), max(height - x.shape[-2], 0)
        x = pad(x, (across, down), fill, padding_mode)
    rows, columns = x.shape[-2] - height, x.shape[-1] - width
    if rows < 0 or columns < 0:
        raise ShapeError(
            f"Required crop size {(height, width)} is larger than input image size "
            f"{tuple(x.shape[-2:])}; write pad_if_needed=True"
        )
    first, second = random.split(key)
    top = random.randint(first, (), 0, rows + 1)
    left = random.randint(second, (), 0, columns + 1)
    return crop(x, top, left, height, width)


def _rectangle(
    key: Tensor, height: int, width: int, scale: Any, ratio: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The first of some rectangles that fits: whether one does, top, left, height, width."""
    areas, ratios, places = random.split(key, 3)
    area = height * width * random.uniform(areas, (_TRIES,), low=scale[0], high=scale[1])
    low, high = math.log(ratio[0]), math.log(ratio[1])
    aspect = fx.exp(random.uniform(ratios, (_TRIES,), low=low, high=high))
    return (*_first(area, aspect, height, width), random.uniform(places, (2,)))


def _first(area: Tensor, aspect: Tensor, height: int, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """Whether a rectangle fits, and the height and width of the first that does."""
    high, wide = fx.round(fx.sqrt(area / aspect)), fx.round(fx.sqrt(area * aspect))
    fits = (high >= 1) & (wide >= 1) & (high <= height) & (wide <= width)
    which = fx.argmax(fits.astype(fx.int32))
    return fx.any(fits), fx.take(high, which, axis=0), fx.take(wide, which, axis=0)


def random_resized_crop(
    key: Tensor, x: Tensor, size: Any, scale: Any = (0.08, 1.0), ratio: Any = (3 / 4, 4 / 3),
    interpolation: Any = InterpolationMode.BILINEAR,
) -> Tensor:  # fmt: skip
    """A part of a picture of random size and form, in one size.

    Where no part that is drawn fits, the middle is taken. Values between pixels are mixed of the
    four around a place: no average over what a smaller picture leaves out, because how much that
    is differs from picture to picture.

    Args:
        key: uint32 (6,).
        x: (..., height, width).
        size: (height, width) of the result, or one number.
        scale: the least and the greatest part of the picture's area.
        ratio: the least and the greatest width over height.
        interpolation: nearest or bilinear.

    Example:
        >>> import fx
        >>> x = fx.ones((3, 32, 24))
        >>> fx.data.transforms.functional.random_resized_crop(fx.random.key(0), x, 8).shape
        (3, 8, 8)
    """
    new = pair(size)
    height, width = sides("random_resized_crop", x)
    if min(*new, height, width) < 1:
        raise ShapeError(
            f"random_resized_crop: {(height, width)} cannot become {new}; sizes are at least 1"
        )
    fits, high, wide, place = _rectangle(key, height, width, scale, ratio)
    form = width / height
    middle = (
        (width / ratio[0] if form < ratio[0] else height),
        (height * ratio[1] if form > ratio[1] else width),
    )
    high = fx.where(fits, high, float(min(round(middle[0]), height)))
    wide = fx.where(fits, wide, float(min(round(middle[1]), width)))
    place = fx.where(fits, place, fx.full_like(place, 0.5))
    top, left = fx.floor(place[0] * (height - high + 1)), fx.floor(place[1] * (width - wide + 1))
    real = x.dtype in fx.dtypes.FLOATING
    rows = _lines(new[0], top, high)
    columns = _lines(new[1], left, wide)
    out = sample(
        x if real else x.astype(fx.float32),
        fx.broadcast_to(rows[:, None], new),
        fx.broadcast_to(columns[None], new),
        InterpolationMode(interpolation) is InterpolationMode.BILINEAR,
    )
    return out if real else fx.round(out).astype(x.dtype)


def _lines(count: int, begin: Tensor, size: Tensor) -> Tensor:
    """Where the lines of the result lie in the picture, within the part that is taken."""
    lines = (fx.arange(count, dtype=size.dtype) + 0.5) * (size / count) - 0.5
    return begin + fx.clip(lines, 0, size - 1)


def random_rotation(
    key: Tensor, x: Tensor, degrees: Any, interpolation: Any = InterpolationMode.NEAREST,
    fill: float = 0,
) -> Tensor:  # fmt: skip
    """A picture turned about its middle.

    Args:
        key: uint32 (6,).
        x: (..., height, width).
        degrees: the least and the greatest angle, or one number for both directions.
        interpolation: nearest or bilinear.
        fill: what comes in from outside.

    Example:
        >>> import fx
        >>> x = fx.ones((1, 4, 4))
        >>> fx.data.transforms.functional.random_rotation(fx.random.key(0), x, 30).shape
        (1, 4, 4)
    """
    if not isinstance(degrees, int | float):
        if not isinstance(degrees, tuple | list) or len(degrees) != 2:
            raise TypeError(
                f"random_rotation: degrees must be a number or (low, high), got {degrees!r:.60}"
            )
        low, high = degrees
    else:
        low, high = -degrees, degrees
    angle = random.uniform(key, (), low=low, high=high)
    return rotate(x, angle, interpolation, fill)


def random_erasing(
    key: Tensor, x: Tensor, p: float = 0.5, scale: Any = (0.02, 0.33), ratio: Any = (0.3, 3.3),
    value: Any = 0,
) -> Tensor:  # fmt: skip
    """A picture of which a rectangle is replaced, with probability ``p``.

    Args:
        key: uint32 (6,).
        x: (..., channels, height, width).
        p: the probability.
        scale: the least and the greatest part of the picture's area.
        ratio: the least and the greatest width over height.
        value: what stands there then: a number, one a channel, or ``"random"`` for normal numbers.

    Example:
        >>> import fx
        >>> x = fx.ones((3, 8, 8))
        >>> y = fx.data.transforms.functional.random_erasing(fx.random.key(0), x, p=1.0)
        >>> bool((y == 0).any()), y.shape
        (True, (3, 8, 8))
    """
    height, width = sides("random_erasing", x)
    whether, where, what = random.split(key, 3)
    fits, high, wide, place = _rectangle(where, height, width, scale, ratio)
    top, left = fx.floor(place[0] * (height - high + 1)), fx.floor(place[1] * (width - wide + 1))
    rows = fx.arange(height, dtype=high.dtype)[:, None]
    columns = fx.arange(width, dtype=high.dtype)
    inside = (rows >= top) & (rows < top + high) & (columns >= left) & (columns < left + wide)
    if isinstance(value, str):
        if value != "random":
            raise ValueError(f"If value is str, it should be 'random', got {value!r}")
        new = random.normal(what, x.shape).astype(x.dtype)
    elif isinstance(value, int | float):
        new = fx.full_like(x, value)
    else:
        new = fx.broadcast_to(fx.asarray(list(value), dtype=x.dtype)[:, None, None], x.shape)
    erased = inside & fits & (random.uniform(whether, ()) < p)
    return fx.where(erased, new, x)
