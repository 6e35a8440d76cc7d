"""NumPy's names of what joins tensors, takes parts of them and puts parts into them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from fx import dtypes
from fx.errors import ShapeError
from fx.ops.axes import normal_axis
from fx.ops.convert import as_tensor
from fx.ops.given import listed, sizes
from fx.ops.indexing.searching import where
from fx.ops.making.creation import zeros
from fx.ops.making.interop import asarray
from fx.ops.operands import argument, cast, iota
from fx.ops.pointwise import elementwise
from fx.ops.reductions.ordering import sort
from fx.ops.shapes.joining import concat, stack, tensor_split, tile, vstack
from fx.ops.shapes.manipulation import (
    broadcast_arrays,
    broadcast_shapes,
    broadcast_to,
    expand_dims,
    moveaxis,
    ravel,
    reshape,
)
from fx.tensor import Tensor

row_stack = vstack


def append(arr: Any, values: Any, axis: int | None = None) -> Tensor:
    """``values`` behind ``arr`` along an axis; flat where there is no axis.

    Example:
        >>> import fx
        >>> fx.append(fx.tensor([1, 2]), 3)
        tensor([1, 2, 3])
    """
    x, y = asarray(arr), asarray(values)
    return concat([ravel(x), ravel(y)]) if axis is None else concat([x, y], axis)


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> tuple[Tensor, ...]:
    """Parts along an axis, the first ones longer where they cannot be equal.

    Example:
        >>> import fx
        >>> fx.array_split(fx.tensor([1, 2, 3]), 2)
        (tensor([1, 2]), tensor([3]))
    """
    return tensor_split(ary, indices_or_sections, axis)


def block(arrays: Any) -> Tensor:
    """A tensor from nested lists of blocks: the innermost lists join along the last axis.

    Example:
        >>> import fx
        >>> fx.block([[fx.ones(1, 1), fx.zeros(1, 2)], [fx.zeros(1, 1), fx.ones(1, 2)]])
        tensor([[1., 0., 0.],
                [0., 1., 1.]])
    """
    depth = _depth(arrays)
    rank = max([depth, *[x.ndim for x in _leaves(arrays)]])

    def join(part: Any, level: int) -> Tensor:
        if not isinstance(part, list):
            x = asarray(part)
            return reshape(x, (1,) * (rank - x.ndim) + x.shape)
        return concat([join(x, level + 1) for x in part], level - depth)

    return join(arrays, 0)


def _depth(part: Any) -> int:
    if not isinstance(part, list):
        return 0
    depths = {_depth(x) for x in part}
    if len(depths) != 1:
        raise ShapeError("block: lists must be nested to one depth, and none may be empty")
    return 1 + depths.pop()


def _leaves(part: Any) -> list[Tensor]:
    return [x for p in part for x in _leaves(p)] if isinstance(part, list) else [asarray(part)]


def rollaxis(a: Any, axis: int, start: int = 0) -> Tensor:
    """``a`` with one axis moved in front of another.

    Example:
        >>> import fx
        >>> fx.rollaxis(fx.ones(2, 3, 4), 2).shape
        (4, 2, 3)
    """
    x = argument("rollaxis", a)
    at = normal_axis("rollaxis", axis, x.shape)
    start += x.ndim if start < 0 else 0
    return moveaxis(x, at, start - 1 if start > at else start)


def resize(a: Any, new_shape: Any) -> Tensor:
    """The elements of ``a`` in order, again from the first where there are too few.

    Example:
        >>> import fx
        >>> fx.resize(fx.tensor([1, 2, 3]), (2, 2))
        tensor([[1, 2],
                [3, 1]])
    """
    x = ravel(argument("resize", a))
    wanted = sizes("resize", "new_shape", new_shape)
    count = prod(wanted)
    if not x.shape[0]:
        return zeros(wanted, dtype=x.dtype)
    return reshape(tile(x, (-(-count // x.shape[0]),))[:count], wanted)


def trim_zeros(filt: Any, trim: str = "fb") -> Tensor:
    """A vector without the zeros at its front (``"f"``) and its back (``"b"``).

    Example:
        >>> import fx
        >>> fx.trim_zeros(fx.tensor([0, 1, 0, 2, 0]))
        tensor([1, 0, 2])
    """
    x = argument("trim_zeros", filt)
    if x.ndim != 1 or not isinstance(trim, str):
        raise ShapeError(
            f"trim_zeros takes a vector and 'f', 'b' or 'fb', got {x.shape}, {trim!r:.60}"
        )
    (places,) = (x != 0).nonzero(as_tuple=True)
    if not places.shape[0]:
        return x[:0]  # type: ignore[no-any-return]
    first = int(places[0]) if "f" in trim.lower() else 0
    last = int(places[-1]) + 1 if "b" in trim.lower() else x.shape[0]
    return x[first:last]  # type: ignore[no-any-return]


# taken ------------------------------------------------------------------------------------------


def flatnonzero(a: Any) -> Tensor:
    """The numbers, in order, of the elements that are not 0.

    Example:
        >>> import fx
        >>> fx.flatnonzero(fx.tensor([0, 3, 0, 4]))
        tensor([1, 3])
    """
    return (ravel(argument("flatnonzero", a)) != 0).nonzero(as_tuple=True)[0]  # type: ignore[no-any-return]


def extract(condition: Any, arr: Any) -> Tensor:
    """The elements of ``arr`` where ``condition`` is not 0, as a vector.

    Example:
        >>> import fx
        >>> fx.extract(fx.tensor([True, False]), fx.tensor([1, 2]))
        tensor([1])
    """
    x = argument("extract", arr)
    return ravel(x)[ravel(asarray(condition)) != 0]  # type: ignore[no-any-return]


def compress(condition: Any, a: Any, axis: int | None = None) -> Tensor:
    """The slices of an axis where a vector of conditions is true; flat where there is no axis.

    Example:
        >>> import fx
        >>> fx.compress(fx.tensor([False, True]), fx.tensor([[1, 2], [3, 4]]), axis=0)
        tensor([[3, 4]])
    """
    x = argument("compress", a)
    if axis is None:
        x, axis = ravel(x), 0
    (places,) = (ravel(asarray(condition)) != 0).nonzero(as_tuple=True)
    return x.index_select(axis, places)  # type: ignore[no-any-return]


def choose(a: Any, choices: Any, mode: str = "raise") -> Tensor:
    """At each place the element of the choice that ``a`` numbers.

    Args:
        a: integers.
        choices: a list of tensors, or one whose first axis they are; all broadcast together.
        mode: numbers outside are an error (``"raise"``), the nearest (``"clip"``) or go round
            (``"wrap"``).

    Example:
        >>> import fx
        >>> fx.choose(fx.tensor([1, 0]), [fx.tensor([1, 2]), fx.tensor([10, 20])])
        tensor([10,  2])
    """
    i = asarray(a)
    rows = _together(choices)
    n = rows.shape[0]
    if mode == "clip":
        i = i.clamp(0, n - 1)
    elif mode == "wrap":
        i = i % n
    elif mode != "raise":
        raise ValueError(f"choose: mode is 'raise', 'clip' or 'wrap', got {mode!r}")
    elif bool(((i < 0) | (i >= n)).any()):
        raise IndexError(f"choose: there are {n} choices, and a number is none of 0 to {n - 1}")
    shape = broadcast_shapes(i.shape, rows.shape[1:])
    i = broadcast_to(i, shape)
    rows = broadcast_to(
        reshape(rows, (n, *(1,) * (len(shape) + 1 - rows.ndim), *rows.shape[1:])),
        (n, *shape),
    )
    return rows.gather(0, cast(expand_dims(i, 0), dtypes.int64))[0]  # type: ignore[no-any-return]


def _together(choices: Any) -> Tensor:
    """Choices as one tensor, along its first axis."""
    if isinstance(choices, Tensor):
        return choices
    return stack(
        list(broadcast_arrays(*[asarray(c) for c in listed("choose", "choices", choices)]))
    )


def argpartition(a: Any, kth: int, axis: int = -1) -> Tensor:
    """Places of the elements along an axis, those before ``kth`` none larger than those behind.

    Example:
        >>> import fx
        >>> fx.argpartition(fx.tensor([3, 1, 2]), 1)
        tensor([1, 2, 0])
    """
    return _partitioned("argpartition", a, kth, axis).argsort(axis)  # type: ignore[no-any-return]


def partition(a: Any, kth: int, axis: int = -1) -> Tensor:
    """The elements along an axis, those before ``kth`` none larger than those behind.

    Example:
        >>> import fx
        >>> fx.partition(fx.tensor([3, 1, 2]), 1)
        tensor([1, 2, 3])
    """
    return sort(_partitioned("partition", a, kth, axis), axis)


def _partitioned(name: str, a: Any, kth: int, axis: int) -> Tensor:
    x = argument(name, a)
    n = x.shape[normal_axis(name, axis, x.shape)]
    if not -n <= kth < n:
        raise IndexError(f"{name}: kth={kth} is outside of an axis of size {n}")
    return x


def lexsort(keys: Any, axis: int = -1) -> Tensor:
    """Places that sort by the last key, and where that is equal by the one before.

    Args:
        keys: a sequence of tensors of one shape.

    Example:
        >>> import fx
        >>> fx.lexsort((fx.tensor([2, 1, 3]), fx.tensor([1, 1, 0])))
        tensor([2, 1, 0])
    """
    every = [asarray(k) for k in listed("lexsort", "keys", keys)]
    if not every:
        raise ShapeError("lexsort takes at least one key")
    order = every[0].argsort(axis, stable=True)
    for key in every[1:]:
        again = key.take_along_dim(order, axis).argsort(axis, stable=True)
        order = order.take_along_dim(again, axis)
    return order  # type: ignore[no-any-return]


def sort_complex(a: Any) -> Tensor:
    """Complex numbers along the last axis by their real, then their imaginary parts.

    Example:
        >>> import fx
        >>> fx.sort_complex(fx.tensor([2 + 1j, 1 + 5j, 1 + 2j]))
        tensor([1.+2.j, 1.+5.j, 2.+1.j])
    """
    x = asarray(a)
    if x.dtype not in dtypes.COMPLEX:
        x = x * (1 + 0j)
    order = lexsort([elementwise.imag(x), elementwise.real(x)])
    return x.take_along_dim(order, -1)  # type: ignore[no-any-return]


# put --------------------------------------------------------------------------------------------


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
    return x.index_select(axis, as_tensor(kept))  # type: ignore[no-any-return]


# applied ----------------------------------------------------------------------------------------


def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any
) -> Any:
    """A function of vectors on each line along an axis; what it returns takes that axis' place.

    Example:
        >>> import fx
        >>> fx.apply_along_axis(fx.cumsum, 1, fx.ones(2, 3))
        tensor([[1., 2., 3.],
                [1., 2., 3.]])
    """
    from fx import tree
    from fx.transforms import vmap

    x = argument("apply_along_axis", arr)
    at = normal_axis("apply_along_axis", axis, x.shape)
    lead = x.shape[:at] + x.shape[at + 1 :]
    rows = reshape(moveaxis(x, at, -1), (-1, x.shape[at]))
    out = vmap(lambda row: func1d(row, *args, **kwargs))(rows)

    def back(y: Tensor) -> Tensor:
        y = reshape(y, (*lead, *y.shape[1:]))
        for k in range(y.ndim - len(lead)):
            y = moveaxis(y, len(lead) + k, at + k)
        return y

    return tree.map(back, out)


def apply_over_axes(func: Callable[..., Any], a: Any, axes: int | Sequence[int]) -> Tensor:
    """``func(a, axis)`` for one axis after the other; axes that it drops are put back as 1.

    Example:
        >>> import fx
        >>> fx.apply_over_axes(fx.sum, fx.ones(2, 3, 4), (0, 2))
        tensor([[[8.],
                 [8.],
                 [8.]]])
    """
    x = argument("apply_over_axes", a)
    rank = x.ndim
    for axis in (axes,) if isinstance(axes, int) else listed("apply_over_axes", "axes", axes):
        y = asarray(func(x, axis))
        x = expand_dims(y, normal_axis("apply_over_axes", axis, x.shape)) if y.ndim < rank else y
        if x.ndim != rank:
            raise ShapeError("apply_over_axes: the function must keep the axis or drop it")
    return x
