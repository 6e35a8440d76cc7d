"""NumPy's names of what makes tensors, grids and places."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

from fx import dtypes
from fx.errors import ShapeError
from fx.ops.convert import as_tensor
from fx.ops.given import listed, sizes
from fx.ops.making.creation import linspace
from fx.ops.making.interop import asarray
from fx.ops.making.patterns import eye, meshgrid
from fx.ops.making.ranges import arange
from fx.ops.operands import argument
from fx.ops.pointwise.elementwise import exp, log, sign
from fx.ops.shapes import assembly
from fx.ops.shapes.assembly import atleast_1d
from fx.ops.shapes.joining import concat, stack
from fx.ops.shapes.manipulation import reshape
from fx.tensor import Tensor

s_ = index_exp = type("_Index", (), {"__getitem__": lambda self, index: index})()


def array(object: Any, dtype: Any = None, copy: bool = True, *, ndmin: int = 0) -> Tensor:
    """A tensor of numbers, lists, arrays or tensors, with at least ``ndmin`` axes.

    Example:
        >>> import fx
        >>> fx.array([1.0, 2.0], ndmin=2)
        tensor([[1., 2.]])
    """
    x = asarray(object, dtype=dtype, copy=copy or None)
    return reshape(x, (1,) * (ndmin - x.ndim) + x.shape) if x.ndim < ndmin else x


def copy(a: Any) -> Tensor:
    """A tensor of the same values in memory of its own.

    Example:
        >>> import fx
        >>> fx.copy(fx.tensor([1.0]))
        tensor([1.])
    """
    return asarray(a, copy=True)


def identity(n: int, dtype: Any = None) -> Tensor:
    """The unit matrix (n, n).

    Example:
        >>> import fx
        >>> fx.identity(2)
        tensor([[1., 0.],
                [0., 1.]])
    """
    return eye(n, dtype=dtype)


def shape(a: Any) -> tuple[int, ...]:
    """The shape, of numbers and lists too.

    Example:
        >>> import fx
        >>> fx.shape([[1, 2, 3]])
        (1, 3)
    """
    return as_tensor(a).shape


def ndim(a: Any) -> int:
    """The number of axes.

    Example:
        >>> import fx
        >>> fx.ndim(fx.ones(2, 3))
        2
    """
    return as_tensor(a).ndim


def size(a: Any, axis: int | None = None) -> int:
    """The number of elements, or of those along an axis.

    Example:
        >>> import fx
        >>> fx.size(fx.ones(2, 3))
        6
    """
    x = as_tensor(a)
    return x.numel() if axis is None else x.shape[axis]


def isscalar(element: Any) -> bool:
    """Whether it is a number, or a tensor without axes.

    Example:
        >>> import fx
        >>> fx.isscalar(3.0), fx.isscalar([3.0])
        (True, False)
    """
    return isinstance(element, (builtins.int, float, complex)) or getattr(element, "shape", 1) == ()


def geomspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None
) -> Tensor:
    """``num`` numbers from ``start`` to ``stop``, each the same multiple of the one before.

    Raises:
        ValueError: if one is 0, or they have different signs.

    Example:
        >>> import fx
        >>> fx.geomspace(1.0, 1000.0, 4)
        tensor([   1.,   10.,  100., 1000.])
    """
    if not start * stop > 0:
        raise ValueError(f"geomspace: the ends must have one sign, not 0; got {start} and {stop}")
    first, last = (
        as_tensor(abs(start), dtype=dtypes.float64),
        as_tensor(abs(stop), dtype=dtypes.float64),
    )
    out = exp(
        linspace(float(log(first)), float(log(last)), num, dtype=dtypes.float64, endpoint=endpoint)
    )
    if num:
        out = out.at[0].set(first)
    if num > 1 and endpoint:
        out = out.at[-1].set(last)
    out = out * sign(as_tensor(float(start), dtype=dtypes.float64))
    return out.astype(dtypes.as_dtype(dtype) if dtype is not None else linspace(0, 1, 2).dtype)  # type: ignore[no-any-return]


def fromfunction(function: Callable[..., Any], shape: Any, *, dtype: Any = float) -> Any:
    """``function`` of the coordinates of each place of a shape.

    Example:
        >>> import fx
        >>> fx.fromfunction(lambda i, j: i + j, (2, 2))
        tensor([[0., 1.],
                [1., 2.]])
    """
    return function(*[x.astype(dtypes.as_dtype(dtype)) for x in indices(shape, sparse=False)])


def indices(dimensions: Any, dtype: Any = None, sparse: bool = False) -> Any:
    """The coordinates of each place of a shape: (number of axes, \\*shape), or an open grid.

    Example:
        >>> import fx
        >>> rows, columns = fx.indices((2, 2))
        >>> columns
        tensor([[0, 1],
                [0, 1]])
    """
    kind = dtypes.as_dtype(dtype) if dtype is not None else dtypes.int64
    lines = [arange(n, dtype=kind) for n in sizes("indices", "dimensions", dimensions)]
    if sparse:
        return tuple(ix_(*lines))
    return stack(meshgrid(*lines, indexing="ij")) if lines else as_tensor([], dtype=kind)


def ix_(*args: Any) -> tuple[Tensor, ...]:
    """Vectors shaped to pick the grid of their places; bool vectors pick where they are True.

    Example:
        >>> import fx
        >>> fx.tensor([[1, 2], [3, 4]])[fx.ix_([1], [0, 1])]
        tensor([[3, 4]])
    """
    out = []
    for i, given in enumerate(args):
        x = asarray(given)
        if x.ndim != 1:
            raise ShapeError(f"ix_ takes vectors, got shape {x.shape}")
        if x.dtype == dtypes.bool_:
            (x,) = x.nonzero(as_tuple=True)
        out.append(reshape(x, [-1 if j == i else 1 for j in builtins.range(len(args))]))
    return tuple(out)


def _line(part: slice) -> Tensor:
    start = 0 if part.start is None else part.start
    if isinstance(part.step, complex):
        return linspace(start, part.stop, builtins.int(abs(part.step)))
    return arange(start, part.stop, 1 if part.step is None else part.step)


class _Grid:
    """``mgrid`` and ``ogrid``: grids written as slices; a step of ``5j`` means five places."""

    def __init__(self, sparse: bool) -> None:
        self._sparse = sparse

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return _line(key)
        lines = [_line(part) for part in key]
        if self._sparse:
            return tuple(ix_(*lines))
        return stack(meshgrid(*lines, indexing="ij"))


mgrid, ogrid = _Grid(False), _Grid(True)


class _Joined:
    """``r_`` and ``c_``: tensors, numbers and slices one after the other."""

    def __init__(self, columns: bool) -> None:
        self._columns = columns

    def __getitem__(self, key: Any) -> Tensor:
        parts = [
            _line(part) if isinstance(part, slice) else atleast_1d(asarray(part))
            for part in (key if isinstance(key, tuple) else (key,))
        ]
        if not self._columns:
            return concat(parts)
        return concat([reshape(x, (-1, 1)) if x.ndim == 1 else x for x in parts], -1)


r_, c_ = _Joined(False), _Joined(True)


# places -----------------------------------------------------------------------------------------


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Tensor, Tensor]:
    """The rows and the columns of the lower triangle of an (n, m) matrix.

    Example:
        >>> import fx
        >>> fx.tril_indices(2)
        (tensor([0, 1, 1]), tensor([0, 0, 1]))
    """
    rows, columns = assembly.tril_indices(n, n if m is None else m, k)
    return rows, columns


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Tensor, Tensor]:
    """The rows and the columns of the upper triangle of an (n, m) matrix.

    Example:
        >>> import fx
        >>> fx.triu_indices(2)
        (tensor([0, 0, 1]), tensor([0, 1, 1]))
    """
    rows, columns = assembly.triu_indices(n, n if m is None else m, k)
    return rows, columns


def _matrix(name: str, arr: Any) -> tuple[int, int]:
    found = argument(name, arr).shape
    if len(found) != 2:
        raise ShapeError(f"{name} takes a matrix, got shape {found}")
    return found


def tril_indices_from(arr: Any, k: int = 0) -> tuple[Tensor, Tensor]:
    """``tril_indices`` for the shape of a matrix.

    Example:
        >>> import fx
        >>> fx.tril_indices_from(fx.ones(2, 2))
        (tensor([0, 1, 1]), tensor([0, 0, 1]))
    """
    n, m = _matrix("tril_indices_from", arr)
    return tril_indices(n, k, m)


def triu_indices_from(arr: Any, k: int = 0) -> tuple[Tensor, Tensor]:
    """``triu_indices`` for the shape of a matrix.

    Example:
        >>> import fx
        >>> fx.triu_indices_from(fx.ones(2, 2))
        (tensor([0, 0, 1]), tensor([0, 1, 1]))
    """
    n, m = _matrix("triu_indices_from", arr)
    return triu_indices(n, k, m)


def mask_indices(n: int, mask_func: Callable[..., Any], k: Any = 0) -> tuple[Tensor, ...]:
    """The places where ``mask_func(ones(n, n), k)`` is not 0.

    Example:
        >>> import fx
        >>> fx.mask_indices(2, fx.triu)
        (tensor([0, 0, 1]), tensor([0, 1, 1]))
    """
    full = eye(n) * 0 + 1
    return (mask_func(full, k) != 0).nonzero(as_tuple=True)  # type: ignore[no-any-return]


def diag_indices(n: int, ndim: int = 2) -> tuple[Tensor, ...]:
    """The places of the main diagonal of a tensor with ``ndim`` axes of size n.

    Example:
        >>> import fx
        >>> fx.diag_indices(2)
        (tensor([0, 1]), tensor([0, 1]))
    """
    return (arange(n),) * ndim


def diag_indices_from(arr: Any) -> tuple[Tensor, ...]:
    """``diag_indices`` for the shape of a tensor whose axes have one size.

    Example:
        >>> import fx
        >>> fx.diag_indices_from(fx.ones(2, 2))
        (tensor([0, 1]), tensor([0, 1]))
    """
    x = argument("diag_indices_from", arr)
    if x.ndim < 2 or len(set(x.shape)) > 1:
        raise ShapeError(f"diag_indices_from takes at least two axes of one size, got {x.shape}")
    return diag_indices(x.shape[0], x.ndim)


def ravel_multi_index(multi_index: Any, dims: Any, mode: str = "raise", order: str = "C") -> Tensor:
    """The numbers, in order, of places of a tensor of shape ``dims``.

    Args:
        multi_index: one integer tensor an axis.
        mode: places outside are an error (``"raise"``), the nearest (``"clip"``) or go round
            (``"wrap"``).
        order: ``"C"``, the last axis fastest, or ``"F"``.

    Example:
        >>> import fx
        >>> fx.ravel_multi_index((fx.tensor([1]), fx.tensor([2])), (2, 3))
        tensor([5])
    """
    if mode not in ("raise", "clip", "wrap") or order not in ("C", "F"):
        raise ValueError(
            f"ravel_multi_index: mode is 'raise', 'clip' or 'wrap' and order 'C' or 'F', got "
            f"{mode!r} and {order!r}"
        )
    shape = sizes("ravel_multi_index", "dims", dims)
    given = listed("ravel_multi_index", "multi_index", multi_index)
    if len(given) != len(shape):
        raise ShapeError(f"ravel_multi_index: {len(given)} places for {len(shape)} axes")
    places = list(zip(given, shape))
    out: Any = 0
    for place, n in places if order == "C" else reversed(places):
        x = as_tensor(place)
        if mode == "clip":
            x = x.clamp(0, n - 1)
        elif mode == "wrap":
            x = x % n
        elif bool(((x < 0) | (x >= n)).any()):
            raise IndexError(f"ravel_multi_index: a place is outside of the axis of size {n}")
        out = out * n + x
    return as_tensor(out)
