"""Transforms that draw, as objects: each call takes a key from the current generator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import fx
from fx.data.transforms import functional as F
from fx.data.transforms.classes import Transform
from fx.random import next_key
from fx.tensor import Tensor


class RandomHorizontalFlip(Transform):
    """Left and right exchanged, with probability ``p``.

    Example:
        >>> import fx
        >>> fx.data.transforms.RandomHorizontalFlip(p=1.0)(fx.tensor([[[1, 2]]]))
        tensor([[[2, 1]]])
    """

    def __init__(self, p: float = 0.5) -> None:
        self.p = p

    def of_tensor(self, x: Tensor) -> Tensor:
        return F.random_horizontal_flip(next_key(), x, self.p)


class RandomVerticalFlip(Transform):
    """Top and bottom exchanged, with probability ``p``."""

    def __init__(self, p: float = 0.5) -> None:
        self.p = p

    def of_tensor(self, x: Tensor) -> Tensor:
        return F.random_vertical_flip(next_key(), x, self.p)


class RandomCrop(Transform):
    """A part of a picture, anywhere in it: see ``functional.random_crop``."""

    def __init__(
        self, size: Any, padding: Any = None, pad_if_needed: bool = False, fill: Any = 0,
        padding_mode: str = "constant",
    ) -> None:  # fmt: skip
        self.size, self.padding, self.pad_if_needed = size, padding, pad_if_needed
        self.fill, self.padding_mode = fill, padding_mode

    def of_tensor(self, x: Tensor) -> Tensor:
        return F.random_crop(
            next_key(), x, self.size, self.padding, self.pad_if_needed, self.fill,
            self.padding_mode,
        )  # fmt: skip


class RandomResizedCrop(Transform):
    """A part of random size and form, in one size: see ``functional.random_resized_crop``."""

    def __init__(
        self, size: Any, scale: Any = (0.08, 1.0), ratio: Any = (3 / 4, 4 / 3),
        interpolation: Any = F.InterpolationMode.BILINEAR, antialias: bool = True,
    ) -> None:  # fmt: skip
        self.size, self.scale, self.ratio = size, scale, ratio
        self.interpolation, self.antialias = interpolation, antialias

    def of_tensor(self, x: Tensor) -> Tensor:
        return F.random_resized_crop(
            next_key(), x, self.size, self.scale, self.ratio, self.interpolation
        )


class RandomRotation(Transform):
    """A picture turned by a random angle: see ``functional.random_rotation``."""

    def __init__(
        self, degrees: Any, interpolation: Any = F.InterpolationMode.NEAREST, fill: float = 0
    ) -> None:
        self.degrees, self.interpolation, self.fill = degrees, interpolation, fill

    def of_tensor(self, x: Tensor) -> Tensor:
        return F.random_rotation(next_key(), x, self.degrees, self.interpolation, self.fill)


class RandomErasing(Transform):
    """A rectangle replaced, with probability ``p``: see ``functional.random_erasing``."""

    def __init__(
        self, p: float = 0.5, scale: Any = (0.02, 0.33), ratio: Any = (0.3, 3.3), value: Any = 0,
        inplace: bool = False,
    ) -> None:  # fmt: skip
        self.p, self.scale, self.ratio = p, scale, ratio
        self.value, self.inplace = value, inplace

    def of_tensor(self, x: Tensor) -> Tensor:
        return F.random_erasing(next_key(), x, self.p, self.scale, self.ratio, self.value)


class RandomGrayscale(Transform):
    """Without colours, with probability ``p``."""

    def __init__(self, p: float = 0.1) -> None:
        self.p = p

    def of_tensor(self, x: Tensor) -> Tensor:
        grey = F.rgb_to_grayscale(x, x.shape[-3])
        return fx.where(fx.random.uniform(next_key(), ()) < self.p, grey, x)


class ColorJitter(Transform):
    """Brightness, contrast, saturation and hue moved at random, in random order.

    Args:
        brightness, contrast, saturation: the least and the greatest factor, or d for 1 - d to
            1 + d.
        hue: the least and the greatest move, or d for -d to d; at most 0.5.

    Example:
        >>> import fx
        >>> fx.data.transforms.ColorJitter(0.4, 0.4, 0.4, 0.1)(fx.ones((3, 2, 2))).shape
        (3, 2, 2)
    """

    def __init__(
        self, brightness: Any = 0, contrast: Any = 0, saturation: Any = 0, hue: Any = 0
    ) -> None:
        self.brightness = _range("brightness", brightness, 1)
        self.contrast = _range("contrast", contrast, 1)
        self.saturation = _range("saturation", saturation, 1)
        self.hue = _range("hue", hue, 0)

    def of_tensor(self, x: Tensor) -> Tensor:
        steps = [
            (F.adjust_brightness, self.brightness),
            (F.adjust_contrast, self.contrast),
            (F.adjust_saturation, self.saturation),
            (F.adjust_hue, self.hue),
        ]
        for i in fx.random.permutation(next_key(), 4).tolist():
            adjust, bounds = steps[i]
            if bounds is not None:
                factor = fx.random.uniform(next_key(), (), low=bounds[0], high=bounds[1])
                x = adjust(x, factor)
        return x


def _range(name: str, value: Any, middle: int) -> tuple[float, float] | None:
    """The least and the greatest factor; None for no change."""
    bounds = (0.0, float("inf")) if middle else (-0.5, 0.5)
    if isinstance(value, int | float):
        if value < 0:
            raise ValueError(f"If {name} is a single number, it must be non negative.")
        low, high = middle - value, middle + value
        if middle:
            low = max(low, 0.0)
    elif isinstance(value, tuple | list) and len(value) == 2:
        low, high = value
    else:
        raise TypeError(
            f"{name} should be a single number or a list/tuple with length 2, got {value!r:.60}"
        )
    if not bounds[0] <= low <= high <= bounds[1]:
        raise ValueError(f"{name} values should be between {bounds}, but got {(low, high)}.")
    return None if low == high == middle else (low, high)


class RandomApply(Transform):
    """Transforms that are applied with probability ``p``, or not at all."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]], p: float = 0.5) -> None:
        self.transforms, self.p = transforms, p

    def __call__(self, picture: Any) -> Any:
        if float(fx.random.uniform(next_key(), ())) < self.p:
            for transform in self.transforms:
                picture = transform(picture)
        return picture


class RandomChoice(Transform):
    """One of several transforms, drawn by weights ``p``."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]], p: Any = None) -> None:
        self.transforms, self.p = transforms, p

    def __call__(self, picture: Any) -> Any:
        weights = None if self.p is None else fx.asarray(list(self.p), dtype=fx.float32)
        which = int(fx.random.choice(next_key(), len(self.transforms), (), p=weights))
        return self.transforms[which](picture)


class RandomOrder(Transform):
    """Transforms in a random order."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        self.transforms = transforms

    def __call__(self, picture: Any) -> Any:
        for i in fx.random.permutation(next_key(), len(self.transforms)).tolist():
            picture = self.transforms[i](picture)
        return picture
