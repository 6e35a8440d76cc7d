"""Matrices: transpose, diagonal, trace, cross product, and products that add."""

from __future__ import annotations

from typing import Any

import fx.prims.linear as prims
import fx.prims.shape as shape_prims
from fx.errors import ShapeError
from fx.ops.autocasting import in_float32, in_half
from fx.ops.axes import integer, normal_axis, ordered_axes
from fx.ops.indexing.views import along
from fx.ops.operands import argument, operands, promoted, public, viewed
from fx.ops.products.linear import bmm, mm, mv
from fx.ops.reductions.reduction import sum
from fx.prims.families import broadcast_shapes
from fx.tensor import Tensor


def matrix_transpose(x: Any, /) -> Tensor:
    """The last two axes exchanged; ``x.mT`` is the same.

    Raises:
        ShapeError: if there are fewer than two axes.

    Example:
        >>> import fx
        >>> fx.matrix_transpose(fx.ones((5, 2, 3))).shape
        (5, 3, 2)
    """
    x = viewed("matrix_transpose", x)
    if x.ndim < 2:
        raise ShapeError(f"matrix_transpose takes matrices (*batch, m, n), got shape {x.shape}")
    return prims.swap_last(x)


def diagonal(
    x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, *,
    dim1: int | None = None, dim2: int | None = None,
) -> Tensor:  # fmt: skip
    """The diagonals of the matrices that two axes span, as a new last axis.

    Args:
        x: a tensor with at least two axes.
        offset: above the main diagonal where positive, below where negative.
        axis1, axis2: the axes of rows and columns.
        dim1, dim2: PyTorch's words for them.

    Example:
        >>> import fx
        >>> fx.diagonal(fx.tensor([[1, 2], [3, 4]]))
        tensor([1, 4])
    """
    x = viewed("diagonal", x)
    pair = (axis1 if dim1 is None else dim1, axis2 if dim2 is None else dim2)
    a, b = ordered_axes("diagonal", pair, x._shape)
    offset = integer("diagonal", "offset", offset)
    rest = [i for i in range(x.ndim) if i not in (a, b)]
    x = shape_prims.transposed(x, (*rest, a, b))
    lead, (m, n) = x._shape[:-2], x._shape[-2:]
    top, left = max(-offset, 0), max(offset, 0)
    count = max(0, min(m - top, n - left))
    if not count:
        return along(shape_prims.reshaped(x, (*lead, m * n)), len(lead), 0, 0)
    start = top * n + left
    flat = shape_prims.reshaped(x, (*lead, m * n))
    return along(flat, len(lead), start, start + (count - 1) * (n + 1) + 1, n + 1)


@in_float32
def trace(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The sum of the diagonal of the matrices that two axes span.

    Example:
        >>> import fx
        >>> fx.trace(fx.tensor([[1, 2], [3, 4]]))
        tensor(5)
    """
    return sum(diagonal(argument("trace", x), offset, axis1, axis2), -1)


def cross(x: Any, y: Any, axis: int = -1, *, dim: int | None = None) -> Tensor:
    """The cross product of vectors of size 3 along an axis; the rest broadcasts.

    Raises:
        ShapeError: if the axis has another size.

    Example:
        >>> import fx
        >>> fx.cross(fx.tensor([1, 0, 0]), fx.tensor([0, 1, 0]))
        tensor([0, 0, 1])
    """
    x, y = operands("cross", x, y)
    axis = axis if dim is None else dim
    shape = broadcast_shapes("cross", x.shape, y.shape)
    at = normal_axis("cross", axis, shape)
    x, y = [a if a.shape == shape else shape_prims.stretched(a, shape) for a in (x, y)]
    if shape[at] != 3:
        raise ShapeError(f"cross: axis {at} of {shape} must have size 3, got {shape[at]}")

    def turned(v: Tensor, by: int) -> Tensor:
        return shape_prims.concatenate(along(v, at, by, 3), along(v, at, 0, by), axis=at)

    return turned(x, 1) * turned(y, 2) - turned(x, 2) * turned(y, 1)


# products that add ------------------------------------------------------------------------------


def _plus(name: str, base: Any, product: Tensor, beta: float, alpha: float) -> Tensor:
    base, product = promoted(name, base, product)
    if alpha != 1:
        product = product * alpha
    if beta == 0:
        return product
    return product + (base if beta == 1 else base * beta)


@in_half
def addmm(x: Any, mat1: Any, mat2: Any, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * x + alpha * (mat1 @ mat2), for matrices.

    Example:
        >>> import fx
        >>> fx.addmm(fx.ones(2), fx.ones((1, 3)), fx.ones((3, 2)))
        tensor([[4., 4.]])
    """
    return _plus("addmm", x, mm(mat1, mat2), beta, alpha)


def addmv(x: Any, mat: Any, vec: Any, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * x + alpha * (mat @ vec), for a matrix and a vector.

    Example:
        >>> import fx
        >>> fx.addmv(fx.ones(2), fx.ones((2, 3)), fx.ones(3))
        tensor([4., 4.])
    """
    return _plus("addmv", x, mv(mat, vec), beta, alpha)


@in_half
def baddbmm(x: Any, batch1: Any, batch2: Any, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * x + alpha * (batch1 @ batch2), for stacks of matrices.

    Example:
        >>> import fx
        >>> fx.baddbmm(fx.ones(2), fx.ones((5, 1, 3)), fx.ones((5, 3, 2))).shape
        (5, 1, 2)
    """
    return _plus("baddbmm", x, bmm(batch1, batch2), beta, alpha)


__all__ = public(globals())
