"""NumPy's names of what puts values into tensors, between their elements, or takes some out."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from fx import dtypes
from fx.errors import ShapeError
from fx.ops.axes import normal_axis
from fx.ops.convert import as_tensor
from fx.ops.indexing.searching import where
from fx.ops.making.interop import asarray
from fx.ops.numpy_names.parts import resize
from fx.ops.operands import argument, cast, iota
from fx.ops.shapes.broadcasting import broadcast_to
from fx.ops.shapes.joining import concat
from fx.ops.shapes.manipulation import moveaxis, ravel, reshape
from fx.tensor import Tensor


def _numbers(name: str, ind: Any, n: int, mode: str | None) -> Tensor:
    i = cast(ravel(asarray(ind)), dtypes.int64)
    if mode in (None, "clip"):
        return i if mode is None else i.clamp(0, n - 1)
    if mode == "wrap":
        return i % n
    raise ValueError(f"{name}: mode is None, 'clip' or 'wrap', got {mode!r}")


def put(a: Any, ind: Any, v: Any, mode: str | None = None, *, inplace: bool = False) -> Tensor:
    """``a`` with values at places that are numbered in order; ``v`` repeats where it is short.

    Args:
        inplace: refused unless False: the changed tensor is returned.

    Example:
        >>> import fx
        >>> fx.put(fx.tensor([1, 2, 3]), [0, 2], [7, 8])
        tensor([7, 2, 8])
    """
    _not_in_place("put", inplace)
    x = argument("put", a)
    i = _numbers("put", ind, x.numel(), mode)
    values = resize(cast(asarray(v), x.dtype), i.shape)
    return reshape(ravel(x).at[i].set(values), x.shape)


def put_along_axis(
    arr: Any, indices: Any, values: Any, axis: int | None = None, *, inplace: bool = False
) -> Tensor:
    """``arr`` with ``values`` where ``indices`` say along an axis; see ``take_along_axis``.

    Example:
        >>> import fx
        >>> fx.put_along_axis(fx.tensor([[1, 2], [3, 4]]), fx.tensor([[1], [0]]), 9, axis=1)
        tensor([[1, 9],
                [9, 4]])
    """
    _not_in_place("put_along_axis", inplace)
    x = argument("put_along_axis", arr)
    shape = x.shape
    if axis is None:
        x, axis = ravel(x), 0
    axis = normal_axis("put_along_axis", axis, x.shape)
    i = cast(asarray(indices), dtypes.int64)
    lead = list(x.shape)
    lead[axis] = i.shape[axis]
    i = broadcast_to(i, tuple(lead))
    places = [
        reshape(iota(n, i), [-1 if j == k else 1 for j in range(x.ndim)])
        for k, n in enumerate(lead)
    ]
    places[axis] = i
    return reshape(x.at[tuple(places)].set(cast(asarray(values), x.dtype)), shape)


def place(arr: Any, mask: Any, vals: Any, *, inplace: bool = False) -> Tensor:
    """``arr`` with the first values, again from the first where there are too few, at a mask.

    Example:
        >>> import fx
        >>> fx.place(fx.tensor([1, 2, 3]), fx.tensor([True, False, True]), [7, 8])
        tensor([7, 2, 8])
    """
    _not_in_place("place", inplace)
    x = argument("place", arr)
    flat = ravel(asarray(mask)) != 0
    values = ravel(cast(asarray(vals), x.dtype))
    number = (flat.astype(dtypes.int64).cumsum(0) - 1) % max(values.shape[0], 1)
    chosen = values[number.clamp(min=0)] if values.shape[0] else ravel(x)
    return reshape(where(flat, chosen, ravel(x)), x.shape)


def fill_diagonal(a: Any, val: Any, wrap: bool = False, *, inplace: bool = False) -> Tensor:
    """``a`` with a number or the elements of a vector on its main diagonal.

    Args:
        wrap: begin again behind the end of a tall matrix.

    Example:
        >>> import fx
        >>> fx.fill_diagonal(fx.zeros(2, 2), 5.0)
        tensor([[5., 0.],
                [0., 5.]])
    """
    _not_in_place("fill_diagonal", inplace)
    x = argument("fill_diagonal", a)
    if x.ndim < 2 or (x.ndim > 2 and len(set(x.shape)) > 1):
        raise ShapeError(f"fill_diagonal takes matrices, or axes of one size, got shape {x.shape}")
    step = sum(prod(x.shape[k + 1 :]) for k in range(x.ndim))
    end = x.numel() if wrap or x.ndim > 2 else min(x.numel(), x.shape[1] * x.shape[1])
    count = -(-end // step)
    values = resize(cast(asarray(val), x.dtype), (count,))
    return reshape(ravel(x).at[iota(count, x) * step].set(values), x.shape)


def _not_in_place(name: str, inplace: bool) -> None:
    if inplace:
        raise ValueError(
            f"{name}: tensors are immutable, so that inplace=True is refused; write "
            f"a = fx.{name}(a, ...)"
        )


def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Tensor:
    """``arr`` with values in front of places of an axis; flat where there is no axis.

    Args:
        obj: an integer, a slice, or a list of integers: places of ``arr`` as it was.
        values: for one place everything that goes there, for several one slice each.

    Example:
        >>> import fx
        >>> fx.insert(fx.tensor([1, 2]), 1, 9)
        tensor([1, 9, 2])
    """
    x = argument("insert", arr)
    if axis is None:
        x, axis = ravel(x), 0
    axis = normal_axis("insert", axis, x.shape)
    n = x.shape[axis]
    v = cast(asarray(values), x.dtype)
    rest = x.shape[:axis] + x.shape[axis + 1 :]
    if isinstance(obj, int):
        at = _inside("insert", obj, n + 1, n)
        v = moveaxis(v, 0, axis) if v.ndim and v.ndim == x.ndim and axis else v
        v = reshape(v, (1,) * (x.ndim - v.ndim) + v.shape)
        if v.shape[:axis] + v.shape[axis + 1 :] != rest:
            v = broadcast_to(v, (*rest[:axis], v.shape[axis], *rest[axis:]))
        return concat([x[(slice(None),) * axis + (slice(at),)], v,
                       x[(slice(None),) * axis + (slice(at, None),)]], axis)  # fmt: skip
    places = list(range(n))[obj] if isinstance(obj, slice) else asarray(obj).reshape(-1).tolist()
    places = [_inside("insert", p, n + 1, n) for p in places]
    count = len(places)
    v = broadcast_to(v, (*rest[:axis], count, *rest[axis:]))
    ranked = sorted(range(count), key=places.__getitem__)
    order = np.insert(np.arange(n), [places[k] for k in ranked], [n + k for k in ranked])
    return concat([x, v], axis).index_select(axis, as_tensor(order))  # type: ignore[no-any-return]


def _inside(name: str, p: int, count: int, n: int) -> int:
    at = p + n if p < 0 else p
    if not 0 <= at < count:
        raise IndexError(f"{name}: place {p} is outside of an axis of size {n}")
    return at


def delete(arr: Any, obj: Any, axis: int | None = None) -> Tensor:
    """``arr`` without places of an axis; flat where there is no axis.

    Args:
        obj: an integer, a slice, a list of integers, or a bool vector.

    Example:
        >>> import fx
        >>> fx.delete(fx.tensor([1, 2, 3]), 1)
        tensor([1, 3])
    """
    x = argument("delete", arr)
    if axis is None:
        x, axis = ravel(x), 0
    axis = normal_axis("delete", axis, x.shape)
    n = x.shape[axis]
    if isinstance(obj, int | slice):
        gone = {_inside("delete", obj, n, n)} if isinstance(obj, int) else set(range(n)[obj])
    else:
        given = asarray(obj).reshape(-1)
        if given.dtype == dtypes.bool_:
            (given,) = given.nonzero(as_tuple=True)
        gone = {_inside("delete", p, n, n) for p in given.tolist()}
    kept = np.delete(np.arange(n), list(gone))
    return x.index_select(axis, as_tensor(kept, device=x.device))  # type: ignore[no-any-return]
