"""Matrices: transpose, diagonal, trace, cross product, and products that add."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

from numpy import empty, ndarray

import fx.prims.linear as prims
import fx.prims.reduction as reduction
import fx.prims.shape as shape_prims
from fx.config import modes
from fx.dtypes import float32
from fx.errors import ShapeError
from fx.ops.autocasting import cast_to, in_half
from fx.ops.axes import integer, normal_axis, ordered_axes
from fx.ops.indexing.views import along
from fx.ops.operands import argument, operands, promoted, public, viewed
from fx.ops.products.linear import bmm, mm, mv
from fx.ops.reductions.reduction import sum
from fx.prims.families import broadcast_shapes
from fx.prims.fused import fuse
from fx.quick import quick
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
    a, b = axis1 if dim1 is None else dim1, axis2 if dim2 is None else dim2
    if modes.views:  # each step is noted as one
        return _diagonal_in_steps(x, offset=offset, axis1=a, axis2=b)
    return _diagonal_of(x, offset, a, b)  # type: ignore[no-any-return]


class _Lie(NamedTuple):
    """How the diagonals of matrices lie in a shape."""

    order: tuple[int, ...]  # of the axes, those of the matrices last
    turned: tuple[int, ...]  # the shape with its axes in that order
    start: int  # where the diagonal begins in a matrix, where it ends, and its step
    stop: int
    step: int


def _lie(shape: tuple[int, ...], offset: Any, axis1: Any, axis2: Any) -> _Lie:
    a, b = ordered_axes("diagonal", (axis1, axis2), shape)
    offset = integer("diagonal", "offset", offset)
    order = (*[i for i in range(len(shape)) if i not in (a, b)], a, b)
    turned = tuple([shape[i] for i in order])
    m, n = turned[-2:]
    top, left = max(-offset, 0), max(offset, 0)
    count = min(m - top, n - left)
    if count <= 0:
        return _Lie(order, turned, 0, 0, 1)
    start = top * n + left
    return _Lie(order, turned, start, start + (count - 1) * (n + 1) + 1, n + 1)


def _diagonal_in_steps(x: Tensor, *, offset: Any, axis1: Any, axis2: Any) -> Tensor:
    order, turned, start, stop, step = _lie(x._shape, offset, axis1, axis2)
    lead = turned[:-2]
    flat = shape_prims.reshaped(shape_prims.transposed(x, order), (*lead, prod(turned[-2:])))
    return along(flat, len(lead), start, stop, step)


def _diagonal_vjp(needs: Any, x: Tensor, *, offset: Any, axis1: Any, axis2: Any) -> Any:
    shape = x._shape
    plain = type(offset) is type(axis1) is type(axis2) is int
    found = None if plain else _lie(shape, offset, axis1, axis2)  # a cell may hold another later

    def pullback(ct: Tensor) -> tuple[Tensor]:
        order, turned, start, stop, step = found or _lie(shape, offset, axis1, axis2)
        lead = turned[:-2]
        flat = (*lead, prod(turned[-2:]))
        placed = shape_prims.slice_transpose(
            ct, flat, start=(*[0] * len(lead), start), stop=(*lead, stop),
            step=(*[1] * len(lead), step),
        )  # fmt: skip
        back = [order.index(i) for i in range(len(order))]
        return (shape_prims.transposed(shape_prims.reshaped(placed, turned), tuple(back)),)

    return pullback


def _diagonal_array(x: ndarray, *, offset: int, axis1: int, axis2: int) -> ndarray | None:
    """The same view of an array; None for what NumPy does not take, and the steps say why."""
    try:
        out = x.diagonal(offset, axis1, axis2)
    except (TypeError, ValueError):
        return None
    if x.flags.writeable:
        out.setflags(write=True)
    return out


_diagonal = fuse(
    "diagonal", cpu=_diagonal_array, reference=_diagonal_in_steps, vjp=_diagonal_vjp,
    torch_name="Diagonal",
)  # fmt: skip
_diagonal_of = quick(_diagonal, "offset", "axis1", "axis2")


def trace(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The sum of the diagonal of the matrices that two axes span.

    Example:
        >>> import fx
        >>> fx.trace(fx.tensor([[1, 2], [3, 4]]))
        tensor(5)
    """
    x = argument("trace", x)
    if modes.autocast is not None:
        x = cast_to(float32, x)
    return _trace_of(x, offset, axis1, axis2)  # type: ignore[no-any-return]


def _trace_in_steps(x: Tensor, *, offset: Any, axis1: Any, axis2: Any) -> Tensor:
    return sum(diagonal(x, offset, axis1, axis2), -1)


def _trace_array(x: ndarray, *, offset: int, axis1: int, axis2: int) -> ndarray | None:
    if x.dtype.kind != "f":
        return None
    try:
        line = x.diagonal(offset, axis1, axis2).copy()
    except (TypeError, ValueError):  # as of ``_diagonal_array``
        return None
    return reduction.sum.cpu(line, axes=(line.ndim - 1,), keepdims=False)  # type: ignore[no-any-return]


def _trace_vjp(needs: Any, x: Tensor, *, offset: Any, axis1: Any, axis2: Any) -> Any:
    back = _diagonal_vjp(needs, x, offset=offset, axis1=axis1, axis2=axis2)
    shape = x._shape
    plain = type(offset) is type(axis1) is type(axis2) is int
    found = None if plain else _lie(shape, offset, axis1, axis2)

    def pullback(ct: Tensor) -> tuple[Tensor]:
        lie = found or _lie(shape, offset, axis1, axis2)
        count = -(-(lie.stop - lie.start) // lie.step)
        lines = shape_prims.reshaped(ct, (*ct._shape, 1))
        return back(shape_prims.stretched(lines, (*ct._shape, count)))  # type: ignore[no-any-return]

    return pullback


_trace = fuse(
    "trace", cpu=_trace_array, reference=_trace_in_steps, vjp=_trace_vjp, torch_name="Trace"
)
_trace_of = quick(_trace, "offset", "axis1", "axis2")


def cross(x: Any, other: Any, axis: int = -1, *, dim: int | None = None) -> Tensor:
    """The cross product of vectors of size 3 along an axis; the rest broadcasts.

    Raises:
        ShapeError: if the axis has another size.

    Example:
        >>> import fx
        >>> fx.cross(fx.tensor([1, 0, 0]), fx.tensor([0, 1, 0]))
        tensor([0, 0, 1])
    """
    x, other = operands("cross", x, other)
    axis = axis if dim is None else dim
    shape = broadcast_shapes("cross", x.shape, other.shape)
    at = normal_axis("cross", axis, shape)
    x, other = [a if a.shape == shape else shape_prims.stretched(a, shape) for a in (x, other)]
    if shape[at] != 3:
        raise ShapeError(f"cross: axis {at} of {shape} must have size 3, got {shape[at]}")

    return _cross(x, other, axis=at)  # type: ignore[no-any-return]


def _cross_in_steps(x: Tensor, y: Tensor, *, axis: int) -> Tensor:
    a, b, c = (along(x, axis, k, k + 1) for k in range(3))
    u, v, w = (along(y, axis, k, k + 1) for k in range(3))
    return shape_prims.concatenate(  # type: ignore[no-any-return]
        b * w - c * v, c * u - a * w, a * v - b * u, axis=axis
    )


def _cross_array(x: ndarray, y: ndarray, *, axis: int) -> ndarray | None:
    """The same of arrays, each product rounded by itself: x by itself is 0."""
    if x.dtype.kind == "b":
        return None
    before, out = (slice(None),) * axis, empty(x.shape, x.dtype)
    places = [(*before, k) for k in range(3)]
    for at, i, j in zip(places, (*places[1:], places[0]), (places[2], *places[:2])):
        out[at] = x[i] * y[j]
        out[at] -= x[j] * y[i]
    return out


def _cross_vjp(needs: Any, x: Tensor, y: Tensor, *, axis: int) -> Any:
    left, right = needs[0] is not None, needs[1] is not None
    x, y = x if right else None, y if left else None  # type: ignore[assignment]

    def pullback(ct: Tensor) -> tuple[Tensor | None, Tensor | None]:
        return (
            _cross(y, ct, axis=axis) if left else None,
            _cross(ct, x, axis=axis) if right else None,
        )

    return pullback


_cross = fuse(
    "cross", cpu=_cross_array, reference=_cross_in_steps, vjp=_cross_vjp, torch_name="LinalgCross"
)


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
