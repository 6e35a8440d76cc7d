"""Selection with an index an element: take_along_axis, gather, and the scatters.

Tensors never change: every scatter returns a new one. ``dim`` is PyTorch's word for ``axis``.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import fx.prims.compare as compare
import fx.prims.indexing as prims
import fx.prims.shape as shape_prims
from fx.dtypes import COMPLEX, bool_, int64
from fx.errors import DTypeError, ShapeError
from fx.ops.axes import normal_axis
from fx.ops.indexing.views import along
from fx.ops.operands import argument, cast, of_scalar, partner, public
from fx.ops.shapes.broadcasting import broadcast_to
from fx.ops.shapes.manipulation import ravel
from fx.prims.creation import constant
from fx.prims.families import broadcast_shapes
from fx.tensor import Tensor


def take_along_axis(
    x: Any, indices: Any, axis: int | None = -1, *, dim: int | None = None
) -> Tensor:
    """One element of each line along an axis for every index.

    Args:
        x: (*A, n, *B).
        indices: integers in [-n, n) of shape (*A, m, *B), up to broadcasting.
        axis: the axis; None takes from the flattened tensor.
        dim: PyTorch's word for ``axis``.

    Returns:
        (*A, m, *B): ``out[a, j, b] = x[a, indices[a, j, b], b]``.

    Raises:
        ShapeError: if the shapes do not fit.
        IndexingError: if an index is out of range.

    Source: Python Array API standard 2024.12, ``take_along_axis``.

    Example:
        >>> import fx
        >>> x = fx.tensor([[1, 2], [3, 4]])
        >>> fx.take_along_axis(x, fx.tensor([[1], [0]]), axis=1)
        tensor([[2],
                [3]])
    """
    x, indices = argument("take_along_axis", x), argument("take_along_axis", indices)
    axis = axis if dim is None else dim
    if axis is None:
        return prims.take_along_axis(ravel(x), ravel(indices), axis=0)
    at = normal_axis("take_along_axis", axis, x._shape)
    if x.ndim != indices.ndim:
        raise ShapeError(
            f"take_along_axis: indices {indices.shape} must have as many axes as x {x.shape}"
        )
    others = [(*a.shape[:at], 1, *a.shape[at + 1 :]) for a in (x, indices)]
    if others[0] != others[1]:
        shape = broadcast_shapes("take_along_axis", *others)
        x, indices = [
            broadcast_to(a, (*shape[:at], a.shape[at], *shape[at + 1 :])) for a in (x, indices)
        ]
    return prims.taken_along(x, indices, at)  # type: ignore[no-any-return]


def _corner(name: str, x: Tensor, index: Tensor, at: int) -> Tensor:
    """The part of ``x`` that an index of smaller sides along the other axes reaches."""
    if x.ndim != index.ndim:
        raise ShapeError(f"{name}: index {index.shape} must have as many axes as x {x.shape}")
    for i, (n, m) in enumerate(zip(x._shape, index._shape, strict=True)):
        if i != at and m > n:
            raise ShapeError(
                f"{name}: index {index.shape} exceeds x {x.shape} in axis {i}; only axis {at} may "
                f"be longer"
            )
        if i != at and m < n:
            x = along(x, i, 0, m)
    return x


def gather(
    x: Any, axis: int = 0, index: Any = None, *, dim: int | None = None, sparse_grad: bool = False
) -> Tensor:
    """One element of each line along an axis for every index, in PyTorch's form.

    Args:
        x: a tensor with at least one axis.
        axis: the axis.
        index: integers in [-n, n) for an axis of length n, with as many axes as ``x``, no longer
            than ``x`` in the others. PyTorch refuses negative ones.
        dim: PyTorch's word for ``axis``.
        sparse_grad: accepted; gradients are dense.

    Returns:
        a tensor of the shape of ``index``: ``out[i, j] = x[index[i, j], j]`` for axis 0.

    Raises:
        ShapeError: if the shapes do not fit.
        IndexingError: if an index is out of range.

    Example:
        >>> import fx
        >>> fx.gather(fx.tensor([[1, 2], [3, 4]]), 1, fx.tensor([[0, 0], [1, 0]]))
        tensor([[1, 1],
                [4, 3]])
    """
    x, index, axis = argument("gather", x), argument("gather", index), axis if dim is None else dim
    shape = x._shape
    if not shape:
        return of_scalar(gather, x, axis, index).reshape(index._shape)  # type: ignore[no-any-return]
    at = normal_axis("gather", axis, shape)
    if index.ndim != len(shape) and 0 in index._shape:  # nothing is asked for
        return cast(index, x._dtype)
    if shape != index._shape:
        x = _corner("gather", x, index, at)
    return prims.taken_along(x, index, at)  # type: ignore[no-any-return]


_REDUCE = {
    None: "set", "add": "add", "sum": "add", "multiply": "mul", "prod": "mul", "amax": "max",
    "amin": "min",
}  # fmt: skip


def scatter(
    x: Any,
    axis: int = 0,
    index: Any = None,
    src: Any = None,
    *,
    value: Any = None,
    reduce: str | None = None,
    dim: int | None = None,
) -> Tensor:
    """``x`` with one element of each line along an axis changed for every index.

    Args:
        x: a tensor with at least one axis.
        axis: the axis.
        index: integers with as many axes as ``x``, no longer than ``x`` in the others.
        src: what is put there, a number or a tensor no shorter than ``index``.
        value: another word for a number as ``src``.
        reduce: None to replace, ``"add"`` or ``"multiply"`` to combine with what is there.
        dim: PyTorch's word for ``axis``.

    Returns:
        a tensor of the shape of ``x``. Of several updates of one element the last wins, in C order.

    Raises:
        ShapeError: if the shapes do not fit.
        IndexingError: if an index is out of range.

    Example:
        >>> import fx
        >>> fx.scatter(fx.zeros((1, 3)), 1, fx.tensor([[2, 0]]), fx.tensor([[5.0, 6.0]]))
        tensor([[6., 0., 5.]])
    """
    src = value if src is None else src
    return _scatter("scatter", x, axis if dim is None else dim, index, src, reduce)


def _scatter(name: str, x: Any, axis: int, index: Any, src: Any, reduce: str | None) -> Tensor:
    x, index = argument(name, x), argument(name, index)
    shape = x._shape
    if not shape:
        return of_scalar(partial(_scatter, name), x, axis, index, src, reduce)  # type: ignore[no-any-return]
    at = normal_axis(name, axis, shape)
    if reduce not in _REDUCE:
        words = ", ".join(repr(w) for w in _REDUCE)
        raise ValueError(f"{name}: reduce must be one of {words}, got {reduce!r}")
    src = partner(name, "src", src, x)
    if not src._shape:
        src = shape_prims.stretched(src, index._shape)
    if shape == index._shape == src._shape:
        return prims.scattered_along(x, index, src, at, _REDUCE[reduce])  # type: ignore[no-any-return]
    src = _cut(name, src, index)
    corner = x if shape == index._shape else _corner(name, x, index, at)
    out = prims.scatter_along_axis(corner, index, src, axis=at, mode=_REDUCE[reduce])
    for i in range(x.ndim):  # put what the index does not reach back, axis by axis
        if out.shape[i] < x._shape[i]:
            rest = along(x, i, out.shape[i], x._shape[i])
            for j in range(i + 1, x.ndim):
                rest = along(rest, j, 0, out.shape[j])
            out = shape_prims.concatenate(out, rest, axis=i)
    return out


def _cut(name: str, src: Tensor, index: Tensor) -> Tensor:
    if src.ndim != index.ndim or any(n < m for n, m in zip(src._shape, index._shape, strict=True)):
        raise ShapeError(f"{name}: src {src.shape} must be at least as long as index {index.shape}")
    if src._shape != index._shape:
        for i, m in enumerate(index._shape):
            src = along(src, i, 0, m) if src._shape[i] > m else src
    return src


def scatter_add(
    x: Any, axis: int = 0, index: Any = None, src: Any = None, *, dim: int | None = None
) -> Tensor:
    """``x`` with ``src`` added at the places that the index names; see ``scatter``.

    Example:
        >>> import fx
        >>> fx.scatter_add(fx.zeros(3), 0, fx.tensor([0, 0, 2]), fx.ones(3))
        tensor([2., 0., 1.])
    """
    return _scatter("scatter_add", x, axis if dim is None else dim, index, src, "add")


def scatter_reduce(
    x: Any, axis: int = 0, index: Any = None, src: Any = None, reduce: str = "sum", *,
    include_self: bool = True, dim: int | None = None,
) -> Tensor:  # fmt: skip
    """``x`` with ``src`` combined into the places that the index names; see ``scatter``.

    Args:
        x, axis, index, src, dim: as in ``scatter``.
        reduce: ``"sum"``, ``"prod"``, ``"mean"``, ``"amax"`` or ``"amin"``.
        include_self: whether what is there counts as well.

    Raises:
        ValueError: for another ``reduce``.

    Example:
        >>> import fx
        >>> x, index = fx.tensor([1.0, 9.0]), fx.tensor([0, 0])
        >>> fx.scatter_reduce(x, 0, index, fx.tensor([3.0, 5.0]), "mean")
        tensor([3., 9.])
    """
    x, axis = argument("scatter_reduce", x), axis if dim is None else dim
    if not isinstance(reduce, str) or reduce not in ("sum", "prod", "mean", "amax", "amin"):
        raise ValueError(
            f"scatter_reduce: reduce must be sum, prod, mean, amax or amin, got {reduce!r}"
        )
    mode = "sum" if reduce == "mean" else reduce
    start = x
    if not include_self:  # the neutral element where something arrives
        start = _scatter("scatter_reduce", x, axis, index, _neutral(mode, x._dtype), None)
    out = _scatter("scatter_reduce", start, axis, index, src, mode)
    if reduce == "mean":
        one = constant(1, int64, x.device.name)
        first = broadcast_to(one if include_self else one * 0, x._shape)
        count = _scatter("scatter_reduce", first, axis, index, 1, "add")
        count = compare.where(count == 0, one, count)
        count = cast(count, x._dtype)
        out = out // count if x._dtype.kind in "iu" else out / count
    return out


def _neutral(mode: str, dtype: Any) -> Any:
    if mode in ("sum", "prod"):
        return int(mode == "prod")
    if dtype in COMPLEX:
        raise DTypeError(f"scatter_reduce: {dtype.name} has no order")
    if dtype.kind in "iu":
        bits = 8 * dtype.itemsize
        if dtype.kind == "u":
            return 0 if mode == "amax" else 2**bits - 1
        return -(2 ** (bits - 1)) if mode == "amax" else 2 ** (bits - 1) - 1
    if dtype == bool_:
        return mode == "amin"
    return float("-inf") if mode == "amax" else float("inf")


__all__ = public(globals())
