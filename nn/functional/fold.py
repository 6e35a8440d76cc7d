"""Windows of images as columns, and columns added up to images again."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

import fx.prims.indexing as indexing
import fx.prims.shape as shape_prims
from fx.errors import ShapeError
from fx.nn.functional._windows import Ints, batched, entries, key, unbatched
from fx.ops.convert import as_tensor
from fx.ops.operands import argument
from fx.prims.creation import constant_like
from fx.prims.fused import fuse
from fx.tensor import Tensor


def unfold(
    input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """The windows of an image as columns.

    Args:
        input: (batch, channels, height, width), or without the batch axis.
        kernel_size: the size of the window; an int or one a dimension, as the three that follow.
        dilation: the step between the elements of a window.
        padding: zeros on both sides.
        stride: the step of the window.

    Returns:
        (batch, channels * kernel_height * kernel_width, windows).

    Raises:
        ShapeError: if sizes do not fit.

    Example:
        >>> import fx
        >>> fx.nn.functional.unfold(fx.arange(6.0).reshape(1, 1, 2, 3), 2)
        tensor([[[0., 1.],
                 [1., 2.],
                 [3., 4.],
                 [4., 5.]]])
    """
    x, single = batched("unfold", input, 2, "height, width")
    window, pads, counts, steps = _plan(
        "unfold", x.shape[2:], key(kernel_size), key(dilation), key(padding), key(stride)
    )
    sizes = tuple(x.shape[2:])
    x = _columns(x, sizes=sizes, window=window, pads=pads, counts=counts, steps=steps)
    return unbatched(x, single)


def fold(
    input: Any,
    output_size: Any,
    kernel_size: Any,
    dilation: Any = 1,
    padding: Any = 0,
    stride: Any = 1,
) -> Tensor:
    """The transpose of ``unfold``: columns become windows of an image, and overlaps add up.

    Args:
        input: (batch, channels * kernel_height * kernel_width, windows), or without the batch axis.
        output_size: the sizes of the image; an int or (height, width).
        kernel_size, dilation, padding, stride: those of ``unfold``.

    Returns:
        (batch, channels, *output_size).

    Raises:
        ShapeError: if sizes do not fit.

    Example:
        >>> import fx
        >>> fx.nn.functional.fold(fx.ones((1, 4, 2)), (2, 3), 2)
        tensor([[[[1., 2., 1.],
                  [1., 2., 1.]]]])
    """
    x = argument("fold", input)
    if x.ndim not in (2, 3):
        raise ShapeError(
            f"fold takes (batch, channels * kernel sizes, windows), or without the batch axis, got "
            f"shape {x.shape}"
        )
    single = x.ndim == 2
    if single:
        x = shape_prims.reshaped(x, (1, *x._shape))
    sizes = entries("fold", "output_size", output_size, 2)
    window, pads, counts, steps = _plan(
        "fold", sizes, key(kernel_size), key(dilation), key(padding), key(stride)
    )
    volume, (rows, columns) = window[0] * window[1], counts
    if x._shape[1] % volume or x._shape[2] != rows * columns:
        raise ShapeError(
            f"fold: windows {window} over an image of sizes {sizes} give columns of a multiple of "
            f"{volume} elements, {rows} * {columns} = {rows * columns} of them; got an input of "
            f"shape {x.shape}"
        )
    x = _image(x, sizes=sizes, window=window, pads=pads, counts=counts, steps=steps)
    return unbatched(x, single)


def _columns_in_steps(
    x: Tensor, *, sizes: Ints, window: Ints, pads: Ints, counts: Ints, steps: tuple[Ints, ...]
) -> Tensor:
    if any(pads):
        width = (0, 0, *pads)
        x = shape_prims.pad(x, constant_like(0, x), low=width, high=width, inside=(0,) * 4)
    for axis, lines in zip((2, 4), _places(window, counts, steps), strict=True):
        x = indexing.take(x, as_tensor(lines, device=x.device), axis=axis)
    # (batch, channels, kernel height, rows, kernel width, columns)
    x = shape_prims.transposed(x, (0, 1, 2, 4, 3, 5))
    columns = x.shape[1] * window[0] * window[1]
    return shape_prims.reshaped(x, (x.shape[0], columns, counts[0] * counts[1]))


def _image_in_steps(
    x: Tensor, *, sizes: Ints, window: Ints, pads: Ints, counts: Ints, steps: tuple[Ints, ...]
) -> Tensor:
    lead = (x._shape[0], x._shape[1] // (window[0] * window[1]))
    x = shape_prims.reshaped(x, (*lead, *window, *counts))
    x = shape_prims.transposed(x, (0, 1, 2, 4, 3, 5))
    whole = tuple([n + 2 * p for n, p in zip(sizes, pads, strict=True)])
    across, along = _places(window, counts, steps)
    for axis, n, lines in ((4, whole[1], along), (2, whole[0], across)):
        into = indexing.zeros(x, (*x._shape[:axis], n, *x._shape[axis + 2 :]))
        x = indexing.scatter(into, as_tensor(lines, device=x.device), x, axis=axis, mode="add")
    if any(pads):
        ends = tuple([p + n for n, p in zip(sizes, pads, strict=True)])
        x = shape_prims.slice(x, start=(0, 0, *pads), stop=(*lead, *ends), step=(1, 1, 1, 1))
    return x


_columns = fuse(  # x (batch, channels, *sizes) to (batch, channels * window, windows)
    "unfolded_image", reference=_columns_in_steps, torch_name="Im2Col",
    vjp=lambda needs, x, **how: lambda ct: (_image(ct, **how),),
)  # fmt: skip
_image = fuse(
    "folded_image", reference=_image_in_steps, torch_name="Col2Im",
    vjp=lambda needs, x, **how: lambda ct: (_columns(ct, **how),),
)  # fmt: skip


@lru_cache(maxsize=256)
def _plan(
    name: str, sizes: Ints, kernel_size: Any, dilation: Any, padding: Any, stride: Any
) -> tuple[Ints, Ints, Ints, tuple[Ints, ...]]:
    """Window, padding, the number of windows of each dimension, and its dilation and stride."""
    window = entries(name, "kernel_size", kernel_size, 2)
    steps = entries(name, "dilation", dilation, 2)
    pads = entries(name, "padding", padding, 2, least=0)
    strides = entries(name, "stride", stride, 2)
    counts = []
    for n, k, d, p, s in zip(sizes, window, steps, pads, strides, strict=True):
        room = n + 2 * p - d * (k - 1) - 1
        if room < 0:
            raise ShapeError(
                f"{name}: a window {window} with dilation {steps} does not fit into sizes {sizes} "
                f"with padding {pads}"
            )
        counts.append(room // s + 1)
    return window, pads, tuple(counts), tuple(zip(steps, strides, strict=True))


def _places(window: Ints, counts: Ints, steps: tuple[Ints, ...]) -> list[np.ndarray]:
    """By dimension the places (kernel, windows) that are seen."""
    return [
        np.arange(k)[:, None] * d + np.arange(n) * s
        for k, n, (d, s) in zip(window, counts, steps, strict=True)
    ]
