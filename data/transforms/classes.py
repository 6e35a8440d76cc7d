"""Transforms that draw nothing, as objects: torchvision's names over the pure functions.

Each takes a tensor (..., channels, height, width), an array (height, width[, channels]) or a
picture of pillow, and gives the same kind back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import fx
from fx.data.transforms import functional as F
from fx.tensor import Tensor


class Transform:
    """Something that is called with a picture."""

    def __call__(self, picture: Any) -> Any:
        return through(self.of_tensor, picture)

    def of_tensor(self, x: Tensor) -> Tensor:
        """The transform of a tensor (..., channels, height, width)."""
        raise NotImplementedError(f"{type(self).__name__} must define of_tensor(self, x)")

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value}" for name, value in vars(self).items())
        return f"{type(self).__name__}({shown})"


def through(function: Callable[[Tensor], Tensor], picture: Any) -> Any:
    """A function of tensors, applied to whatever kind of picture this is."""
    if isinstance(picture, Tensor):
        return function(picture)
    out = function(F.pil_to_tensor(picture))
    array = out.numpy()
    flat = array.shape[0] == 1 and np.ndim(picture) != 3
    array = array[0] if flat else array.transpose(1, 2, 0)
    if isinstance(picture, np.ndarray):
        return array
    return _image(array)


def _image(array: np.ndarray) -> Any:
    from PIL import Image

    return Image.fromarray(np.ascontiguousarray(array))


class Compose:
    """One transform after the other.

    Example:
        >>> import fx
        >>> T = fx.data.transforms
        >>> T.Compose([T.CenterCrop(2), T.Normalize([0.5], [0.5])])(fx.ones((1, 4, 4))).shape
        (1, 2, 2)
    """

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        self.transforms = transforms

    def __call__(self, picture: Any) -> Any:
        for transform in self.transforms:
            picture = transform(picture)
        return picture

    def __repr__(self) -> str:
        return "\n".join(["Compose(", *[f"    {t}" for t in self.transforms], ")"])


class Lambda(Transform):
    """A function, as a transform.

    Example:
        >>> import fx
        >>> fx.data.transforms.Lambda(lambda x: x + 1)(2)
        3
    """

    def __init__(self, lambd: Callable[[Any], Any]) -> None:
        if not callable(lambd):
            raise TypeError(f"Argument lambd should be callable, got {type(lambd).__name__!r}")
        self.lambd = lambd

    def __call__(self, picture: Any) -> Any:
        return self.lambd(picture)

    def __repr__(self) -> str:
        return "Lambda()"


class ToTensor(Transform):
    """A picture as a tensor (channels, height, width), in [0, 1]: see ``functional.to_tensor``."""

    def __call__(self, picture: Any) -> Tensor:
        return F.to_tensor(picture)


class PILToTensor(Transform):
    """A picture as a tensor (channels, height, width) of its dtype."""

    def __call__(self, picture: Any) -> Tensor:
        return F.pil_to_tensor(picture)


class ToPILImage(Transform):
    """A tensor (channels, height, width), floating in [0, 1] or uint8, as a picture of pillow."""

    def __init__(self, mode: str | None = None) -> None:
        self.mode = mode

    def __call__(self, picture: Any) -> Any:
        if isinstance(picture, Tensor):
            x = picture if picture.ndim == 3 else picture[None]
            array = (x * 255 if x.dtype in fx.dtypes.FLOATING else x).astype(fx.uint8).numpy()
            picture = array[0] if array.shape[0] == 1 else array.transpose(1, 2, 0)
        image = _image(np.asarray(picture))
        return image if self.mode is None else image.convert(self.mode)


class ConvertImageDtype(Transform):
    """Another dtype, and the range that goes with it: see ``functional.convert_image_dtype``."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype

    def of_tensor(self, x: Tensor) -> Tensor:
        return F.convert_image_dtype(x, self.dtype)


class Normalize(Transform):
    """``(x - mean) / std``, by channel.

    Example:
        >>> import fx
        >>> fx.data.transforms.Normalize((0.5,), (0.5,))(fx.ones((1, 1, 1)))
        tensor([[[1.]]])
    """

    def __init__(self, mean: Any, std: Any, inplace: bool = False) -> None:
        self.mean, self.std, self.inplace = mean, std, inplace

    def of_tensor(self, x: Tensor) -> Tensor:
        return F.normalize(x, self.mean, self.std)

    def __repr__(self) -> str:
        return f"Normalize(mean={self.mean}, std={self.std})"


class Resize(Transform):
    """A picture of another size: see ``functional.resize``."""

    def __init__(
        self, size: Any, interpolation: Any = F.InterpolationMode.BILINEAR,
        max_size: int | None = None, antialias: bool = True,
    ) -> None:  # fmt: skip
        self.size, self.interpolation = size, interpolation
        self.max_size, self.antialias = max_size, antialias

    def of_tensor(self, x: Tensor) -> Tensor:
        return F.resize(x, self.size, self.interpolation, self.max_size, bool(self.antialias))


class CenterCrop(Transform):
    """The middle of a picture: see ``functional.center_crop``."""

    def __init__(self, size: Any) -> None:
        self.size = size

    def of_tensor(self, x: Tensor) -> Tensor:
        return F.center_crop(x, self.size)


class Pad(Transform):
    """Pixels around a picture: see ``functional.pad``."""

    def __init__(self, padding: Any, fill: Any = 0, padding_mode: str = "constant") -> None:
        self.padding, self.fill, self.padding_mode = padding, fill, padding_mode

    def of_tensor(self, x: Tensor) -> Tensor:
        return F.pad(x, self.padding, self.fill, self.padding_mode)


class Grayscale(Transform):
    """A picture without colours, with 1 or 3 channels."""

    def __init__(self, num_output_channels: int = 1) -> None:
        self.num_output_channels = num_output_channels

    def of_tensor(self, x: Tensor) -> Tensor:
        return F.rgb_to_grayscale(x, self.num_output_channels)


class GaussianBlur(Transform):
    """A picture blurred, by a random ``sigma`` between two: see ``functional.gaussian_blur``."""

    def __init__(self, kernel_size: Any, sigma: Any = (0.1, 2.0)) -> None:
        self.kernel_size = kernel_size
        if isinstance(sigma, int | float):
            sigma = (sigma, sigma)
        if not isinstance(sigma, tuple | list) or len(sigma) != 2:
            raise TypeError(
                f"sigma should be a single number or a list/tuple with length 2, got {sigma!r:.60}"
            )
        self.sigma = tuple(sigma)

    def of_tensor(self, x: Tensor) -> Tensor:
        low, high = self.sigma
        sigma = fx.random.uniform(fx.random.next_key(), (), low=low, high=high)
        return F.gaussian_blur(x, self.kernel_size, sigma)
