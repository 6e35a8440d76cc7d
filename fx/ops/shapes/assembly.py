"""Putting together and taking apart: blocks, columns, products of lists, parts put back."""

from __future__ import annotations

from typing import Any

import numpy as np

import fx.prims.shape as shape_prims
from fx import dtypes
from fx.errors import ShapeError
from fx.ops.axes import integer, normal_axis
from fx.ops.convert import as_tensor
from fx.ops.given import listed, sizes
from fx.ops.making.creation import zeros
from fx.ops.making.patterns import meshgrid
from fx.ops.operands import argument, cast, iota, promoted, public, viewed
from fx.ops.shapes.joining import concat, stack
from fx.ops.shapes.manipulation import expand_dims, flip, ravel, reshape
from fx.ops.shapes.splitting import tensor_split
from fx.prims.creation import constant_like
from fx.prims.fused import fuse
from fx.tensor import Tensor

# axes in front ----------------------------------------------------------------------------------


def _at_least(name: str, count: int, given: tuple[Any, ...]) -> Any:
    if len(given) == 1 and isinstance(given[0], tuple | list):
        return tuple([_one(name, count, x) for x in given[0]])
    out = tuple([_one(name, count, x) for x in given])
    return out[0] if len(out) == 1 else out


def _one(name: str, count: int, x: Any) -> Tensor:
    x = argument(name, x)
    shape = x._shape
    if len(shape) >= count:
        return x
    if count == 3 and len(shape) == 2:
        return reshape(x, (*shape, 1))
    return reshape(
        x, (1,) * (count - len(shape)) + shape if count < 3 else (1, *(shape or (1,)), 1)
    )


def atleast_1d(*tensors: Any) -> Any:
    """The tensor with at least one axis; several tensors, or a list of them, give a tuple.

    Example:
        >>> import fx
        >>> from fx.ops.shapes.assembly import atleast_1d
        >>> atleast_1d(fx.tensor(1.0))
        tensor([1.])
    """
    return _at_least("atleast_1d", 1, tensors)


def atleast_2d(*tensors: Any) -> Any:
    """The tensor with at least two axes, new ones in front.

    Example:
        >>> import fx
        >>> fx.atleast_2d(fx.tensor([1.0, 2.0]))
        tensor([[1., 2.]])
    """
    return _at_least("atleast_2d", 2, tensors)


def atleast_3d(*tensors: Any) -> Any:
    """The tensor with at least three axes: (n,) becomes (1, n, 1), (n, m) becomes (n, m, 1).

    Example:
        >>> import fx
        >>> fx.atleast_3d(fx.tensor([1.0, 2.0])).shape
        (1, 2, 1)
    """
    return _at_least("atleast_3d", 3, tensors)


# join -------------------------------------------------------------------------------------------


def column_stack(tensors: Any) -> Tensor:
    """Vectors as columns beside each other; matrices as they are.

    Example:
        >>> import fx
        >>> from fx.ops.shapes.assembly import column_stack
        >>> column_stack([fx.tensor([1, 2]), fx.tensor([3, 4])])
        tensor([[1, 3],
                [2, 4]])
    """
    columns = [argument("column_stack", x) for x in listed("column_stack", "tensors", tensors)]
    return concat([reshape(x, (x.numel(), 1)) if x.ndim < 2 else x for x in columns], 1)


def dstack(tensors: Any) -> Tensor:
    """One behind another along the third axis.

    Example:
        >>> import fx
        >>> fx.dstack([fx.tensor([1, 2]), fx.tensor([3, 4])])
        tensor([[[1, 3],
                 [2, 4]]])
    """
    return concat([atleast_3d(x) for x in listed("dstack", "tensors", tensors)], 2)


def block_diag(*tensors: Any) -> Tensor:
    """The matrix with the given matrices along its diagonal, zeros elsewhere.

    Args:
        tensors: numbers, vectors (one row each) or matrices, promoted to one dtype.

    Raises:
        ShapeError: if one has more than two axes.

    Example:
        >>> import fx
        >>> from fx.ops.shapes.assembly import block_diag
        >>> block_diag(fx.ones(1, 2), fx.tensor(3.0))
        tensor([[1., 1., 0.],
                [0., 0., 3.]])
    """
    if not tensors:
        return zeros((1, 0))
    blocks = [atleast_2d(x) for x in promoted("block_diag", *tensors)]
    for x in blocks:
        if x.ndim > 2:
            raise ShapeError(f"block_diag takes matrices, got shape {x.shape}")
    width = sum(x.shape[1] for x in blocks)
    rows, left = [], 0
    for x in blocks:
        right = width - left - x.shape[1]
        rows.append(
            shape_prims.padded(x, constant_like(0, x), (0, left), (0, right), (0, 0))
            if left or right
            else x
        )
        left += x.shape[1]
    return concat(rows)


def cartesian_prod(*tensors: Any) -> Tensor:
    """Every choice of one element from each vector: (product of the lengths, number of vectors).

    Example:
        >>> import fx
        >>> from fx.ops.shapes.assembly import cartesian_prod
        >>> cartesian_prod(fx.tensor([1, 2]), fx.tensor([8, 9]))
        tensor([[1, 8],
                [1, 9],
                [2, 8],
                [2, 9]])
    """
    if len(tensors) == 1:
        return argument("cartesian_prod", tensors[0])
    return stack([ravel(x) for x in meshgrid(*tensors, indexing="ij")], -1)


def combinations(x: Any, r: int = 2, with_replacement: bool = False) -> Tensor:
    """Every choice of ``r`` elements of a vector, in order: (count, r)."""
    x = argument("combinations", x)
    if x.ndim != 1:
        raise ShapeError(f"combinations takes a vector, got shape {x.shape}; write x.reshape(-1)")
    n, r = x._shape[0], integer("combinations", "r", r)
    if r < 0:
        raise ShapeError(f"combinations: r must not be negative, got {r}")
    columns = [np.arange(n)]
    for _ in range(r - 1):  # each row goes on with every place from its last one on, or behind it
        first = columns[-1] if with_replacement else columns[-1] + 1
        counts = n - first
        columns = [*[np.repeat(c, counts) for c in columns], _runs(first, counts)]
    if not r or not columns[0].size:
        return zeros((0, r) if r else (0,), dtype=x._dtype)
    return x[as_tensor(np.stack(columns, -1))]  # type: ignore[no-any-return]


def _runs(first: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """One after another ``counts[i]`` integers from ``first[i]`` on."""
    ends = np.cumsum(counts)
    return np.repeat(first - ends + counts, counts) + np.arange(ends[-1] if len(ends) else 0)


# split ------------------------------------------------------------------------------------------


def _splitter(name: str, axis: int, least: int, sentence: str) -> Any:
    def function(x: Any, indices_or_sections: Any) -> tuple[Tensor, ...]:
        x = viewed(name, x)
        if x.ndim < least:
            raise ShapeError(f"{name} takes tensors of at least {least} axes, got shape {x.shape}")
        at = 0 if name == "hsplit" and x.ndim == 1 else axis
        cuts = indices_or_sections
        if isinstance(cuts, int) and cuts > 0 and x.shape[at] % cuts:
            raise ShapeError(
                f"{name}: axis {at} of shape {x.shape} cannot be cut into {indices_or_sections} "
                f"equal parts; write fx.tensor_split(x, {indices_or_sections}, {at})"
            )
        return tensor_split(x, indices_or_sections, at)

    function.__name__ = function.__qualname__ = name
    example = f"[tuple(x.shape) for x in fx.{name}(fx.ones(2, 2, 2), 2)]"
    part = tuple([1 if i == axis else 2 for i in range(3)])
    function.__doc__ = (
        f"{sentence}\n\n    Example:\n        >>> import fx\n        >>> {example}\n"
        f"        {[part, part]}\n    "
    )
    return function


hsplit = _splitter("hsplit", 1, 1, "Parts along the second axis (of a vector, the first).")
vsplit = _splitter("vsplit", 0, 2, "Parts along the first axis.")
dsplit = _splitter("dsplit", 2, 3, "Parts along the third axis.")


def fliplr(x: Any) -> Tensor:
    """The columns in reverse order.

    Example:
        >>> import fx
        >>> fx.fliplr(fx.tensor([[1, 2], [3, 4]]))
        tensor([[2, 1],
                [4, 3]])
    """
    x = argument("fliplr", x)
    if x.ndim < 2:
        raise ShapeError(f"fliplr takes tensors of at least two axes, got shape {x.shape}")
    return flip(x, 1)


def flipud(x: Any) -> Tensor:
    """The rows in reverse order.

    Example:
        >>> import fx
        >>> fx.flipud(fx.tensor([[1, 2], [3, 4]]))
        tensor([[3, 4],
                [1, 2]])
    """
    x = argument("flipud", x)
    if x.ndim < 1:
        raise ShapeError("flipud takes tensors of at least one axis, got a scalar")
    return flip(x, 0)


# diagonals and triangles ------------------------------------------------------------------------


def diag_embed(x: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Matrices with the last axis of ``x`` on a diagonal, their axes at ``dim1`` and ``dim2``.

    Args:
        x: (..., n).
        offset: the diagonal: above the main one where positive.
        dim1, dim2: where the two axes of size n + abs(offset) of the result stand.

    Example:
        >>> import fx
        >>> from fx.ops.shapes.assembly import diag_embed
        >>> diag_embed(fx.tensor([1, 2]))
        tensor([[1, 0],
                [0, 2]])
    """
    x = argument("diag_embed", x)
    if not x.ndim:
        raise ShapeError("diag_embed takes tensors of at least one axis, got a scalar")
    n = x._shape[-1]
    side = n + abs(offset)
    out_shape = (*x._shape[:-1], side, side)
    one, two = (
        normal_axis("diag_embed", dim1, out_shape),
        normal_axis("diag_embed", dim2, out_shape),
    )
    if one == two:
        raise ShapeError(f"diag_embed: dim1 and dim2 are both {one}")
    lead = (0,) * (x.ndim - 1)
    low = max(-offset, 0) * side + max(offset, 0)
    reach = n + max(n - 1, 0) * side  # from the first to the last, side by side in memory
    # between neighbours on a diagonal there is a row
    flat = shape_prims.padded(
        x, constant_like(0, x), (*lead, low), (*lead, side * side - low - reach), (*lead, side)
    )
    out = shape_prims.reshaped(flat, out_shape)
    return out.movedim((-2, -1), (one, two))  # type: ignore[no-any-return]


def diagflat(x: Any, offset: int = 0) -> Tensor:
    """The matrix with all elements of ``x`` on a diagonal.

    Example:
        >>> import fx
        >>> fx.diagflat(fx.tensor([1, 2]))
        tensor([[1, 0],
                [0, 2]])
    """
    return diag_embed(ravel(argument("diagflat", x)), offset)


def _triangle(name: str, row: int, col: int, offset: int, upper: bool, dtype: Any) -> Tensor:
    row, col = integer(name, "row", row), integer(name, "col", col)
    i = np.arange(row)
    cut = np.clip(i + (offset if upper else offset + 1), 0, max(col, 0))
    first, counts = (cut, col - cut) if upper else (np.zeros_like(i), cut)
    found = np.array((np.repeat(i, counts), _runs(first, counts)))
    return as_tensor(found, dtype=dtypes.as_dtype(dtype or dtypes.int64))


def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None) -> Tensor:
    """The rows and columns of the lower triangle of a (row, col) matrix: (2, count) int64."""
    return _triangle("tril_indices", row, col, offset, False, dtype)


def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None) -> Tensor:
    """The rows and columns of the upper triangle of a (row, col) matrix: (2, count) int64."""
    return _triangle("triu_indices", row, col, offset, True, dtype)


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Tensor:
    """The powers of a vector's elements as columns, the highest first unless ``increasing``.

    Example:
        >>> import fx
        >>> fx.vander(fx.tensor([2, 3]), 3)
        tensor([[4, 2, 1],
                [9, 3, 1]])
    """
    x = argument("vander", x)
    n = x._shape[-1] if N is None else integer("vander", "N", N)
    return _powers(x, n=n, increasing=bool(increasing))


def _powers_in_steps(x: Tensor, *, n: int, increasing: bool) -> Tensor:
    out = expand_dims(x, -1) ** iota(n, x)
    return out if increasing else flip(out, -1)


_powers = fuse("vander", reference=_powers_in_steps)


def unravel_index(indices: Any, shape: Any) -> tuple[Tensor, ...]:
    """The place in a tensor of ``shape`` of elements numbered in order, one tensor an axis.

    Example:
        >>> import fx
        >>> fx.unravel_index(fx.tensor([5, 2]), (2, 3))
        (tensor([1, 0]), tensor([2, 2]))
    """
    flat = cast(argument("unravel_index", indices), dtypes.int64)
    out: list[Tensor] = []
    for n in reversed(sizes("unravel_index", "shape", shape)):
        out.append(flat % n)
        flat = flat // n
    return tuple(out[::-1])


# parts put back ---------------------------------------------------------------------------------


def select_scatter(x: Any, src: Any, dim: int, index: int) -> Tensor:
    """``x`` with ``src`` at one place of an axis."""
    x = argument("select_scatter", x)
    at = normal_axis("select_scatter", dim, x._shape)
    return x.at[(slice(None),) * at + (index,)].set(src)  # type: ignore[no-any-return]


def slice_scatter(
    x: Any, src: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """``x`` with ``src`` in a slice of an axis."""
    x = argument("slice_scatter", x)
    at = normal_axis("slice_scatter", dim, x._shape)
    place = (slice(None),) * at + (slice(start, end, step),)
    return x.at[place].set(src)  # type: ignore[no-any-return]


def diagonal_scatter(x: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """``x`` with ``src`` on a diagonal of the axes ``dim1`` and ``dim2``."""
    x = argument("diagonal_scatter", x)
    last = x.movedim((dim1, dim2), (-2, -1))
    n, m = last.shape[-2:]
    count = max(0, min(n - max(-offset, 0), m - max(offset, 0)))
    i = iota(count, x)
    out = last.at[..., i + max(-offset, 0), i + max(offset, 0)].set(src)
    return out.movedim((-2, -1), (dim1, dim2))  # type: ignore[no-any-return]


__all__ = public(globals())
