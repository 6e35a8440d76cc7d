"""Tensors with a pattern: the identity, triangles, diagonals, grids."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

import fx.prims.compare as compare
import fx.prims.creation as prims
import fx.prims.shape as shape_prims
from fx import dtypes
from fx.config import default_dtype, modes
from fx.errors import ShapeError
from fx.ops.axes import integer
from fx.ops.convert import as_tensor, device_name
from fx.ops.making.interop import with_grad
from fx.ops.operands import own, promoted
from fx.ops.products.matrices import diagonal
from fx.prims.fused import fuse
from fx.quick import quick
from fx.tensor import Tensor, new_tensor


def _places(n: int, m: int, k: int, device: str) -> tuple[Tensor, Tensor]:
    """The column number of diagonal ``k`` in every row, and of every column: (n, 1), (1, m)."""
    rows = prims.iota(shape=(n, 1), axis=0, start=k, step=1, dtype=dtypes.int64, device=device)
    columns = prims.iota(shape=(1, m), axis=1, start=0, step=1, dtype=dtypes.int64, device=device)
    return rows, columns


def _sides(name: str, n: Any, m: Any) -> tuple[int, int]:
    n = integer(name, "the number of rows", n)
    m = n if m is None else integer(name, "the number of columns", m)
    if n < 0 or m < 0:
        raise ShapeError(f"{name}: sizes must not be negative, got {(n, m)}")
    return n, m


def eye(
    N: int,
    M: int | None = None,
    k: int = 0,
    dtype: Any = None,
    *,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A matrix with ones on one diagonal.

    Args:
        N: the number of rows.
        M: the number of columns; as many as rows unless told.
        k: the diagonal: above the main one where positive.
        dtype: the default dtype unless told.
        device: the default device unless told.
        requires_grad: whether ``.backward()`` accumulates a gradient for it.

    Example:
        >>> import fx
        >>> fx.eye(2, 3, k=1)
        tensor([[0., 1., 0.],
                [0., 0., 1.]])
    """
    n, m = _sides("eye", N, M)
    k = integer("eye", "k", k)
    wanted = default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    where = device_name(device)
    out = None
    if where == "cpu" and modes.stage is None:
        with suppress(ValueError):  # too large for an address, which the steps refuse by name
            out = new_tensor(_eye(n, m, k, wanted))
    if out is None:
        out = compare.astype(compare.equal(*_places(n, m, k, where)), dtype=wanted)
    return with_grad(out, "eye") if requires_grad else out


def _eye(n: int, m: int, k: int, dtype: Any) -> np.ndarray:
    """An (n, m) matrix with ones on its diagonal ``k``."""
    out = np.zeros((n, m), dtype)
    row, column = max(-k, 0), max(k, 0)
    count = min(n - row, m - column)
    if count > 0:
        first = row * m + column
        out.reshape(-1)[first : first + (count - 1) * (m + 1) + 1 : m + 1] = 1
    return out


def tri(
    n_rows: int,
    n_cols: int | None = None,
    k: int = 0,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A matrix with ones on and below one diagonal; arguments as in ``fx.eye``.

    Example:
        >>> import fx
        >>> fx.tri(2, 3)
        tensor([[1., 0., 0.],
                [1., 1., 0.]])
    """
    n, m = _sides("tri", n_rows, n_cols)
    k = integer("tri", "k", k)
    wanted = default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    ones = compare.greater_equal(*_places(n, m, k, device_name(device)))
    out = compare.astype(ones, dtype=wanted)
    return with_grad(out, "tri") if requires_grad else out


def tril(x: Any, /, k: int = 0) -> Tensor:
    """The lower triangles of the matrices in ``x``, zeros above.

    Args:
        x: (..., n, m), any dtype.
        k: the highest diagonal that is kept.

    Raises:
        ShapeError: if ``x`` has fewer than two axes.

    Example:
        >>> import fx
        >>> fx.tril(fx.ones(2, 2))
        tensor([[1., 0.],
                [1., 1.]])
    """
    return _triangle("tril", x, k, upper=False)


def triu(x: Any, /, k: int = 0) -> Tensor:
    """The upper triangles of the matrices in ``x``, zeros below.

    Args:
        x: (..., n, m), any dtype.
        k: the lowest diagonal that is kept.

    Raises:
        ShapeError: if ``x`` has fewer than two axes.

    Example:
        >>> import fx
        >>> fx.triu(fx.ones(2, 2), k=1)
        tensor([[0., 1.],
                [0., 0.]])
    """
    return _triangle("triu", x, k, upper=True)


def _triangle(name: str, x: Any, k: int, upper: bool) -> Tensor:
    x = as_tensor(x)
    shape = x._shape
    if len(shape) < 2:
        raise ShapeError(f"{name} takes matrices, got shape {shape}; write x[None, :] for a row")
    part = _upper if upper else _lower
    return part(x, integer(name, "k", k), upper)  # type: ignore[no-any-return]


def _part_in_steps(x: Tensor, *, k: int, upper: bool) -> Tensor:
    n, m = x._shape[-2:]
    keep = (compare.less_equal if upper else compare.greater_equal)(
        *_places(n, m, k, x.device.name)
    )
    return compare.where(keep, x, prims.constant_like(0, x))


def _part(name: str) -> Any:
    """``(x, k, upper)``: the triangle on and below the diagonal k, or on and above it."""
    triangle = fuse(
        "triangle", reference=_part_in_steps, torch_name=name,
        vjp=lambda needs, x, *, k, upper: lambda ct: (part(ct, k, upper),),
    )  # fmt: skip
    part = quick(triangle, "k", "upper")
    return part


_lower, _upper = _part("Tril"), _part("Triu")


def diag(x: Any, /, k: int = 0) -> Tensor:
    """The matrix with a vector on a diagonal, or the diagonal of a matrix.

    Args:
        x: (n,) gives (n + abs(k), n + abs(k)); (n, m) gives the diagonal as a vector.
        k: the diagonal: above the main one where positive.

    Raises:
        ShapeError: if ``x`` has neither one nor two axes.

    Source: ``numpy.diag``, ``torch.diag``.

    Example:
        >>> import fx
        >>> fx.diag(fx.tensor([1, 2]))
        tensor([[1, 0],
                [0, 2]])
        >>> fx.diag(fx.tensor([[1, 2], [3, 4]]), k=1)
        tensor([2])
    """
    x = as_tensor(x)
    if x.ndim == 1:
        k, n = integer("diag", "k", k), x._shape[0]
        side = n + abs(k)
        start = max(k, 0) + max(-k, 0) * side  # in all elements of the matrix, side + 1 apart
        gap = side if n else 0
        reach = n + max(n - 1, 0) * gap
        flat = shape_prims.pad(
            x, prims.constant_like(0, x), low=(start,), high=(side * side - start - reach,),
            inside=(gap,),
        )  # fmt: skip
        return shape_prims.reshaped(flat, (side, side))
    if x.ndim != 2:
        raise ShapeError(
            f"diag takes a vector or a matrix, got shape {x.shape}; "
            f"write fx.linalg.diagonal(x) for stacks of matrices"
        )
    return own(diagonal(x, k))


def meshgrid(*arrays: Any, indexing: str = "xy") -> tuple[Tensor, ...]:
    """The coordinates of a grid, one tensor an axis.

    Args:
        arrays: vectors (n_i,), or numbers: the coordinates along each axis, promoted to one dtype.
        indexing: ``"ij"`` gives tensors of shape (n_0, n_1, n_2, ...); ``"xy"``, the default,
            (n_1, n_0, n_2, ...).

    Raises:
        ShapeError: if an array has more than one axis.
        ValueError: for another ``indexing``.

    Source: Python Array API standard 2024.12, ``meshgrid``. (PyTorch's default is "ij".)

    Example:
        >>> import fx
        >>> x, y = fx.meshgrid(fx.arange(3), fx.arange(2))
        >>> x
        tensor([[0, 1, 2],
                [0, 1, 2]])
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing must be 'xy' or 'ij', got {indexing!r}")
    if not arrays:
        return ()
    vectors = promoted("meshgrid", *arrays)
    for x in vectors:
        if x.ndim > 1:
            raise ShapeError(f"meshgrid takes vectors, got shape {x.shape}; write x.reshape(-1)")
    sizes = [x.size + 0 for x in vectors]
    order = list(range(len(sizes)))
    if indexing == "xy" and len(order) > 1:
        order[:2] = 1, 0
    shape = tuple([sizes[i] for i in order])
    out = []
    for i, x in enumerate(vectors):
        line = [1] * len(order)
        line[order.index(i)] = sizes[i]
        line = shape_prims.reshaped(x, tuple(line))
        out.append(shape_prims.stretched(line, shape))
    return tuple(out)
