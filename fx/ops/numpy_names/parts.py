"""NumPy's names of what joins tensors, takes parts of them and puts parts into them."""

from __future__ import annotations

from math import prod
from typing import Any

from fx import dtypes
from fx.errors import ShapeError
from fx.ops.axes import normal_axis
from fx.ops.given import listed, sizes
from fx.ops.indexing import sized
from fx.ops.making.creation import zeros
from fx.ops.making.interop import asarray
from fx.ops.operands import argument, cast
from fx.ops.pointwise import elementwise
from fx.ops.reductions.ordering import sort
from fx.ops.shapes.broadcasting import broadcast_arrays, broadcast_shapes, broadcast_to
from fx.ops.shapes.joining import concat, stack, tile, vstack
from fx.ops.shapes.manipulation import expand_dims, moveaxis, ravel, reshape
from fx.ops.shapes.splitting import tensor_split
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


def flatnonzero(a: Any, *, size: int | None = None, fill_value: Any = None) -> Tensor:
    """The numbers, in order, of the elements that are not 0; ``size`` as of ``nonzero``.

    Example:
        >>> import fx
        >>> fx.flatnonzero(fx.tensor([0, 3, 0, 4]))
        tensor([1, 3])
    """
    if size is not None:
        return sized.nonzero("flatnonzero", ravel(argument("flatnonzero", a)), size, fill_value)[0]
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
