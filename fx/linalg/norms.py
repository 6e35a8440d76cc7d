"""Norms of vectors and matrices, and condition numbers."""

from __future__ import annotations

from typing import Any

import fx.prims.compare as compare
import fx.prims.shape as shape_prims
from fx.errors import ShapeError
from fx.linalg.operands import matrices, square
from fx.linalg.spectral import svdvals
from fx.ops.axes import normal_axis
from fx.ops.operands import cast, floating
from fx.ops.reductions.norms import norm as norm_along
from fx.prims.creation import constant_like
from fx.prims.linalg.solve import inv as inverted
from fx.tensor import Tensor

_INF = float("inf")
_BY_SUMS, _BY_VALUES = (1, -1, _INF, -_INF), (2, -2, "nuc")


def vector_norm(
    x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: float = 2, dtype: Any = None
) -> Tensor:
    """The ``ord``-norm of the elements along axes, of all of them unless told.

    Args:
        x: floating or complex; integers become the default floating dtype.
        axis: an axis, or several, or None.
        keepdims: whether these axes stay, of size 1.
        ord: any number, inf and -inf among them; 0 counts what is not 0.
        dtype: what is computed in.

    Source: Python Array API standard 2024.12, ``linalg.vector_norm``.

    Example:
        >>> import fx
        >>> fx.linalg.vector_norm(fx.tensor([3.0, 4.0]))
        tensor(5.)
    """
    x = floating("linalg.vector_norm", x)
    return norm_along(x if dtype is None else cast(x, dtype), ord, axis, keepdims)


def matrix_norm(
    x: Any, /, *, keepdims: bool = False, ord: Any = "fro", axis: Any = (-2, -1), dtype: Any = None
) -> Tensor:
    """The norm of matrices.

    Args:
        x: (*B, m, n).
        keepdims: whether the axes of matrices stay, of size 1.
        ord: ``"fro"``, ``"nuc"``, 1, -1, 2, -2, inf or -inf.
        axis: the axes of rows and columns.
        dtype: what is computed in.

    Returns:
        (*B), real.

    Raises:
        ValueError: for another ``ord``.

    Source: Python Array API standard 2024.12, ``linalg.matrix_norm``.

    Example:
        >>> import fx
        >>> fx.linalg.matrix_norm(fx.tensor([[1.0, -2.0], [3.0, 4.0]]), ord=1)
        tensor(6.)
    """
    name = "linalg.matrix_norm"
    x = floating(name, x)
    x = matrices(name, x if dtype is None else cast(x, dtype))
    rows, columns = (normal_axis(name, d, x._shape) for d in axis)
    if rows == columns:
        raise ShapeError(f"{name}: dims must be different. Got ({axis[0]}, {axis[1]})")
    if ord == "fro":
        return norm_along(x, 2, (rows, columns), keepdims)
    if ord in _BY_VALUES:
        return _by_values(x, ord, rows, columns, keepdims)
    if ord not in _BY_SUMS:
        raise ValueError(
            f"{name}: Order {ord!r} not supported; expected 'fro', 'nuc', 1, -1, 2, -2, inf or -inf"
        )
    along, other = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = x.abs().sum(along, True)
    out = sums.amax(other, True) if ord > 0 else sums.amin(other, True)
    return out if keepdims else out.squeeze((rows, columns))  # type: ignore[no-any-return]


def _by_values(x: Tensor, ord: Any, rows: int, columns: int, keepdims: bool) -> Tensor:
    rest = [i for i in range(x.ndim) if i not in (rows, columns)]
    moved = shape_prims.transposed(x, (*rest, rows, columns))
    values = svdvals(moved)
    out = values.sum(-1) if ord == "nuc" else values.amax(-1) if ord == 2 else values.amin(-1)
    if not keepdims:
        return out  # type: ignore[no-any-return]
    shape = tuple([1 if i in (rows, columns) else n for i, n in enumerate(x._shape)])
    return shape_prims.reshaped(out, shape)  # type: ignore[no-any-return]


def norm(
    x: Any, /, ord: Any = None, axis: Any = None, keepdims: bool = False, *, dtype: Any = None
) -> Tensor:
    """A vector norm; of two axes, or of a matrix and an ``ord``, the matrix norm.

    Raises:
        ShapeError: with an ``ord`` and neither one nor two axes.

    Source: ``numpy.linalg.norm``, ``torch.linalg.norm``.

    Example:
        >>> import fx
        >>> fx.linalg.norm(fx.tensor([[3.0, 0.0], [4.0, 0.0]]), float("inf"))
        tensor(4.)
    """
    x = floating("linalg.norm", x)
    how: dict[str, Any] = {"keepdims": keepdims, "dtype": dtype}
    if ord is None:
        return vector_norm(x, axis=axis, **how)
    if isinstance(axis, tuple | list) and len(axis) == 2:
        return matrix_norm(x, ord=ord, axis=axis, **how)
    if axis is None and x.ndim == 2:
        return matrix_norm(x, ord=ord, axis=(0, 1), **how)
    if axis is None and x.ndim != 1:
        raise ShapeError(f"linalg.norm: with ord={ord!r}, shape {x.shape} needs axes")
    return vector_norm(x, ord=ord, axis=axis, **how)


def cond(x: Any, /, p: Any = None) -> Tensor:
    """The condition number: the norm of a matrix times that of its inverse.

    Args:
        x: (*B, m, n), square unless ``p`` is None, 2 or -2.
        p: which norm, as of ``matrix_norm``; None is 2.

    Returns:
        (*B), real; infinite of singular matrices.

    Source: ``numpy.linalg.cond``, ``torch.linalg.cond``.

    Example:
        >>> import fx
        >>> fx.linalg.cond(fx.tensor([[2.0, 0.0], [0.0, 4.0]]), 1)
        tensor(2.)
    """
    if p is None or p in (2, -2):
        values = svdvals(matrices("linalg.cond", x))
        largest, smallest = values[..., 0], values[..., -1]
        return smallest / largest if p == -2 else largest / smallest  # type: ignore[no-any-return]
    x = square("linalg.cond", x)
    inverse, info = inverted(x)
    found = matrix_norm(x, ord=p) * matrix_norm(inverse, ord=p)
    singular = compare.not_equal(info, constant_like(0, info))
    return compare.where(singular, constant_like(_INF, found), found)  # type: ignore[no-any-return]
