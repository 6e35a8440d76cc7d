"""Transforms of pictures: torchvision's classes, over pure functions that ``vmap`` and ``jit``.

``fx.data.transforms.functional`` has the functions: of a tensor (..., channels, height, width),
those that are random of a key and a tensor.
"""

from fx.data.transforms import functional
from fx.data.transforms.classes import (
    CenterCrop,
    Compose,
    ConvertImageDtype,
    GaussianBlur,
    Grayscale,
    Lambda,
    Normalize,
    Pad,
    PILToTensor,
    Resize,
    ToPILImage,
    ToTensor,
)
from fx.data.transforms.randomised import (
    ColorJitter,
    RandomApply,
    RandomChoice,
    RandomCrop,
    RandomErasing,
    RandomGrayscale,
    RandomHorizontalFlip,
    RandomOrder,
    RandomResizedCrop,
    RandomRotation,
    RandomVerticalFlip,
)
from fx.data.transforms.resizing import InterpolationMode
from fx.ops.operands import offered as _offered

__all__ = _offered(globals(), "functional")
