"""Norms: of vectors along axes, and distances."""

from __future__ import annotations

from math import inf, isinf
from typing import Any

import fx.prims.compare as compare
import fx.prims.elementwise as elementwise
import fx.prims.lengths as lengths
import fx.prims.reduction as prims
import fx.prims.shape as shape_prims
from fx import dtypes
from fx.errors import ShapeError
from fx.ops.autocasting import in_float32
from fx.ops.axes import Axis, reduced_axes
from fx.ops.operands import averaged, cast, operands, public
from fx.prims.creation import constant_like
from fx.prims.families import broadcast_shapes
from fx.quick import quick
from fx.tensor import Tensor

_length = quick(lengths.length, "axes", "keepdims")


def norm(
    x: Any,
    p: Any = "fro",
    axis: Axis = None,
    keepdims: bool = False,
    dtype: Any = None,
    *,
    dim: Axis = None,
    keepdim: bool = False,
) -> Tensor:
    """The vector p-norm of the elements along axes; its gradient is 0 where it is 0.

    Args:
        x: a floating or complex tensor of any shape; float16 and bfloat16 go by float32.
        p: a number, ``float("inf")``, ``-float("inf")``, or ``"fro"`` for 2. The 0-norm counts what
            is not 0. ``"nuc"``: the sum of the singular values of matrices in two axes.
        axis: the axes to reduce, all of them for None.
        keepdims: keep the reduced axes, with size 1.
        dtype: the dtype to compute in.
        dim, keepdim: PyTorch's words for ``axis`` and ``keepdims``.

    Raises:
        DTypeError: for integers and bool.
        ValueError: for another ``p``.

    Example:
        >>> import fx
        >>> fx.norm(fx.tensor([3.0, 4.0]))
        tensor(5.)
    """
    x = averaged("norm", x, dtype)
    if p in ("fro", None):
        p = 2
    if p == "nuc":
        from fx import linalg

        axis = (dim if axis is None else axis) or ((0, 1) if x.ndim == 2 else None)
        if axis is None:
            raise ShapeError(f"norm: p='nuc' of shape {x.shape} needs the two axes of matrices")
        return linalg.matrix_norm(x, ord="nuc", axis=axis, keepdims=keepdims or keepdim)
    if not isinstance(p, int | float):
        raise ValueError(f"norm: p must be a number, 'fro' or 'nuc', got {p!r}")
    result = dtypes.real_of(x._dtype)
    if x._dtype.itemsize == 2:
        x = cast(x, dtypes.float32)
    axes = reduced_axes("norm", axis if dim is None else dim, x._shape)
    where = {"axes": axes, "keepdims": keepdims or keepdim}
    if p == 2:
        return cast(_length(x, axes, keepdims or keepdim), result)
    size = elementwise.abs(x)
    if isinf(p):
        out = (prims.max if p > 0 else prims.min)(size, **where)
    elif p == 1:
        out = prims.sum(size, **where)
    elif p == 0:
        one = constant_like(1.0, size)
        out = prims.sum(compare.where(size == 0, elementwise.sign(size), one), **where)
    else:
        out = lengths.safe_power(prims.sum(lengths.safe_power(size, p), **where), 1.0 / p)
    return cast(out, result)


def dist(x: Any, other: Any, p: float = 2) -> Tensor:
    """The p-norm of ``x - other``.

    Example:
        >>> import fx
        >>> fx.dist(fx.tensor([1.0, 1.0]), fx.tensor([4.0, 5.0]))
        tensor(5.)
    """
    x, other = operands("dist", x, other)
    return norm(x - other, p)


@in_float32
def cdist(x: Any, y: Any, p: float = 2.0) -> Tensor:
    """The p-norm distance of every row of ``x`` to every row of ``y``.

    Args:
        x: (*batch, m, d).
        y: (*batch, n, d), the batch broadcasting.
        p: the order of the norm.

    Returns:
        (*batch, m, n). Euclidean distances of many rows go by a product of them; where that loses
        digits, and in every other case, the differences themselves are formed.

    Raises:
        ShapeError: if the shapes do not fit.

    Example:
        >>> import fx
        >>> fx.cdist(fx.tensor([[0.0, 0.0]]), fx.tensor([[3.0, 4.0], [0.0, 1.0]]))
        tensor([[5., 1.]])
    """
    x, y = operands("cdist", x, y)
    if x.ndim < 2 or y.ndim < 2 or x.shape[-1] != y.shape[-1]:
        raise ShapeError(
            f"cdist: rows of {x.shape} and {y.shape} cannot be compared; expected (*batch, m, d) "
            f"and (*batch, n, d)"
        )
    if p > 0 and x._dtype.kind == "f":
        lead = broadcast_shapes("cdist", x._shape[:-2], y._shape[:-2])
        return lengths.distances(  # type: ignore[no-any-return]
            shape_prims.stretched(x, (*lead, *x._shape[-2:])),
            shape_prims.stretched(y, (*lead, *y._shape[-2:])),
            p=float(p),
        )
    rows = shape_prims.reshaped(x, (*x.shape[:-1], 1, x.shape[-1]))  # (*batch, m, 1, d)
    others = shape_prims.reshaped(y, (*y.shape[:-2], 1, *y.shape[-2:]))  # (*batch, 1, n, d)
    apart = rows - others
    return lengths.farthest(apart) if p == inf else norm(apart, p, -1)


__all__ = public(globals())
