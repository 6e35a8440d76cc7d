"""Broadcasting: tensors of a common shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import fx.prims.shape as prims
from fx.config import writing
from fx.ops.axes import sizes
from fx.ops.operands import argument, public, same_view, viewed
from fx.prims.families import broadcast_shapes as common_shape
from fx.tensor import Tensor


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that all the shapes broadcast to.

    Raises:
        ShapeError: if they do not broadcast.

    Example:
        >>> import fx
        >>> fx.broadcast_shapes((2, 1), (3,))
        (2, 3)
    """
    return common_shape(
        "broadcast_shapes", *[sizes((s,), "broadcast_shapes") for s in shapes] or [()]
    )


def broadcast_to(x: Any, shape: Any) -> Tensor:
    """The tensor repeated along axes of size 1, and along new ones in front.

    Raises:
        ShapeError: if it does not broadcast to ``shape``.

    Example:
        >>> import fx
        >>> fx.broadcast_to(fx.tensor([1, 2]), (2, 2))
        tensor([[1, 2],
                [1, 2]])
    """
    return stretched(viewed("broadcast_to", x), sizes((shape,), "broadcast_to"))


def stretched(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """``broadcast_to`` of a tensor and plain sizes."""
    own = x._shape
    if shape == own:
        return same_view(x)
    out: Tensor = prims.stretched(x, shape)
    if not own and writing.enabled and type(x) is Tensor and type(x._a) is np.ndarray:
        out._a = np.broadcast_to(x._a, shape)  # the kernel may have filled memory of its own
    return out


def broadcast_arrays(*arrays: Any) -> list[Tensor]:
    """All tensors broadcast to their common shape.

    Raises:
        ShapeError: if they do not broadcast.

    Example:
        >>> import fx
        >>> [x.shape for x in fx.broadcast_arrays(fx.ones((2, 1)), fx.ones(3))]
        [(2, 3), (2, 3)]
    """
    tensors = [argument("broadcast_arrays", x) for x in arrays]
    shape = common_shape("broadcast_arrays", *[x.shape for x in tensors] or [()])
    return [broadcast_to(x, shape) for x in tensors]


broadcast_tensors = broadcast_arrays


__all__ = public(globals(), but=("stretched",))
