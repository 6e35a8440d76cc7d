"""Pure functions of pictures; those that are random take a key first. All vmap and jit."""

from fx.data.transforms.colours import (
    adjust_brightness,
    adjust_contrast,
    adjust_hue,
    adjust_saturation,
    gaussian_blur,
    rgb_to_grayscale,
)
from fx.data.transforms.drawing import (
    random_crop,
    random_erasing,
    random_horizontal_flip,
    random_resized_crop,
    random_rotation,
    random_vertical_flip,
)
from fx.data.transforms.pictures import (
    center_crop,
    convert_image_dtype,
    crop,
    erase,
    hflip,
    normalize,
    pad,
    pil_to_tensor,
    resized_crop,
    rotate,
    to_tensor,
    vflip,
)
from fx.data.transforms.resizing import InterpolationMode, resize

__all__ = [
    "InterpolationMode", "adjust_brightness", "adjust_contrast", "adjust_hue", "adjust_saturation",
    "center_crop", "convert_image_dtype", "crop", "erase", "gaussian_blur", "hflip", "normalize",
    "pad", "pil_to_tensor", "random_crop", "random_erasing", "random_horizontal_flip",
    "random_resized_crop", "random_rotation", "random_vertical_flip", "resize", "resized_crop",
    "rgb_to_grayscale", "rotate", "to_tensor", "vflip",
]  # fmt: skip
