"""Methods of Tensor that PyTorch defines otherwise than the Array API defines the function.

``axis`` and ``keepdims`` are understood wherever PyTorch says ``dim`` and ``keepdim``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import fx.prims.complex as complex_prims
import fx.prims.elementwise as elementwise
import fx.prims.indexing as indexing
import fx.prims.linear as linear
import fx.prims.reduction as reduction
import fx.prims.shape as shape_prims
from fx.config import modes, writing
from fx.dtypes import as_dtype, int64
from fx.errors import DTypeError, IndexingError, ShapeError
from fx.ops import (
    cumulative,
    joining,
    manipulation,
    matrices,
    patterns,
    pointwise,
    searching,
    statistics,
)
from fx.ops.autocasting import in_float32
from fx.ops.axes import Axis, infer_size, normal_axes, normal_axis, sizes
from fx.ops.convert import as_operand, promote
from fx.ops.elementwise import imag, real
from fx.ops.linear import matmul
from fx.ops.operands import argument, boolean, cast, of_scalar, operands, same_view
from fx.ops.reduction import amax, amin, total
from fx.ops.searching import Found
from fx.primitive import bind_two
from fx.tensor import Tensor

# arithmetic -------------------------------------------------------------------------------------


def add(self: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """self + alpha * other."""
    return self + other if alpha == 1 else self + other * alpha  # type: ignore[no-any-return]


def sub(self: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """self - alpha * other."""
    return self - other if alpha == 1 else self - other * alpha  # type: ignore[no-any-return]


def where(self: Tensor, condition: Any, other: Any) -> Tensor:
    """self where the condition holds, ``other`` elsewhere."""
    return searching.where(condition, self, other)  # type: ignore[no-any-return]


def clamp_min(self: Tensor, min: Any) -> Tensor:
    """The elements, but at least ``min``."""
    return pointwise.clip(self, min)


def clamp_max(self: Tensor, max: Any) -> Tensor:
    """The elements, but at most ``max``."""
    return pointwise.clip(self, None, max)


def type_as(self: Tensor, other: Tensor) -> Tensor:
    """In the dtype of ``other``."""
    return cast(argument("type_as", self), argument("type_as", other).dtype)


# reductions -------------------------------------------------------------------------------------

sum = total(reduction.sum, int64)
prod = in_float32(total(reduction.prod, int64))
sum.__doc__ = "The sum along axes; integers are added up in int64."
prod.__doc__ = "The product along axes; integers are multiplied in int64."


def _correction(dim: Any, unbiased: Any, correction: Any) -> tuple[Any, float]:
    if isinstance(dim, bool):  # x.var(False)
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    return dim, correction


def var(
    self: Tensor, dim: Axis = None, unbiased: bool | None = None, keepdim: bool = False, *,
    correction: float | None = None, axis: Axis = None, keepdims: bool = False,
) -> Tensor:  # fmt: skip
    """The variance along axes, with the unbiased divisor n - 1 unless told."""
    dim, correction = _correction(dim, unbiased, correction)
    return statistics.var(self, axis if dim is None else dim, correction, keepdim or keepdims)


def std(
    self: Tensor, dim: Axis = None, unbiased: bool | None = None, keepdim: bool = False, *,
    correction: float | None = None, axis: Axis = None, keepdims: bool = False,
) -> Tensor:  # fmt: skip
    """The standard deviation along axes, with the unbiased divisor n - 1 unless told."""
    dim, correction = _correction(dim, unbiased, correction)
    return statistics.std(self, axis if dim is None else dim, correction, keepdim or keepdims)


def _extremum(function: Any, elementwise_one: Any, place: Any, name: str) -> Any:
    def method(
        self: Tensor, dim: Any = None, keepdim: bool = False, *,
        axis: int | None = None, keepdims: bool = False, other: Any = None,
    ) -> Any:  # fmt: skip
        if dim is None:
            dim = axis
        if isinstance(dim, Tensor) or other is not None:
            return elementwise_one(*operands(name, self, dim if other is None else other))
        if dim is None:
            return function(self)
        shape = self._shape
        if not shape:
            return of_scalar(method, self, dim)
        at, keep = normal_axis(name, dim, shape), keepdim or keepdims
        if type(self) is Tensor and self._node is None:
            return Found(function(self, at, keep), place(self, axis=at, keepdims=keep))
        places = place(self, axis=at, keepdims=True)  # the derivative belongs to one of those equal
        return searching.without_axis(self, places, at, keep)

    method.__name__ = method.__qualname__ = name
    return method


max = _extremum(amax, elementwise.maximum, reduction.argmax, "max")
max.__doc__ = """The largest element; along ``dim`` a pair (values, indices), and with a tensor
    the larger of each pair of elements."""
min = _extremum(amin, elementwise.minimum, reduction.argmin, "min")
min.__doc__ = """The smallest element; along ``dim`` a pair (values, indices), and with a tensor
    the smaller of each pair of elements."""


def median(
    self: Tensor, dim: int | None = None, keepdim: bool = False, *,
    axis: int | None = None, keepdims: bool = False,
) -> Any:  # fmt: skip
    """The median, of two in the middle the lower; along ``dim`` a pair (values, indices)."""
    dim = axis if dim is None else dim
    if dim is None:
        return searching.lower_median(manipulation.ravel(self), 0, False).values
    return searching.lower_median(self, dim, keepdim or keepdims)


def sort(
    self: Tensor, dim: int = -1, descending: bool = False, stable: bool = True, *,
    axis: int | None = None,
) -> Found:  # fmt: skip
    """The elements along an axis in sorted order, and where they came from."""
    return searching.sorted_along("sort", self, dim if axis is None else axis, descending)


def diff(
    self: Tensor, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None, *,
    axis: int | None = None,
) -> Tensor:  # fmt: skip
    """The n-th differences of neighbours along an axis."""
    return cumulative.diff(self, dim if axis is None else axis, n, prepend, append)


# shape ------------------------------------------------------------------------------------------


_SIZES = (int, tuple, list, Tensor)


def reshape(self: Tensor, *shape: Any) -> Tensor:
    """The same elements in another shape; one size may be -1."""
    return _reshaped(self, shape, False)


def _reshaped(self: Tensor, shape: tuple[Any, ...], surely: bool) -> Tensor:
    own = self._shape
    wanted = infer_size("reshape", own, sizes(shape, "reshape"))
    if wanted == own:
        return same_view(self)
    out: Tensor = shape_prims.reshape(self, shape=wanted)
    if writing.moved is not None and type(self) is Tensor:
        array = self._a
        if type(array) is np.ndarray and not array.flags.c_contiguous:
            writing.moved(self, out, surely)
    return out


def view(self: Tensor, *shape: Any) -> Tensor:
    """The same elements in another shape, or in another dtype of the same size."""
    if len(shape) == 1 and not isinstance(shape[0], _SIZES):
        wanted = as_dtype(shape[0])
        if wanted == self.dtype:
            return same_view(self)
        raise DTypeError(
            f"x.view({wanted.name}) would read the bytes of {self.dtype.name} anew; fx tensors do "
            f"not show their bytes: write x.astype(fx.{wanted.name}) to convert the values, or "
            f"fx.from_numpy(x.numpy().view(...)) for the bytes"
        )
    return _reshaped(self, shape, True)


def view_as(self: Tensor, other: Tensor) -> Tensor:
    """The same elements in the shape of ``other``."""
    return _reshaped(self, (argument("view_as", other).shape,), True)


def permute(self: Tensor, *order: Any, dims: Any = None, axes: Any = None) -> Tensor:
    """The axes in another order."""
    if not order:
        order = (axes if dims is None else dims,)
    return manipulation.permute_dims(self, sizes(order, "permute") if order != (None,) else None)


def transpose(self: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two axes exchanged."""
    return manipulation.exchanged("transpose", self, dim0, dim1)


def swapaxes(self: Tensor, axis0: int, axis1: int) -> Tensor:
    """Two axes exchanged; ``transpose`` by NumPy's name."""
    return manipulation.exchanged("swapaxes", self, axis0, axis1)


def swapdims(self: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two axes exchanged; ``transpose`` by a third name."""
    return manipulation.exchanged("swapdims", self, dim0, dim1)


def t(self: Tensor) -> Tensor:
    """The transpose of a matrix; a vector or a scalar stays itself."""
    if self.ndim > 2:
        raise ShapeError(
            f"x.t() takes at most two axes, got {self.shape}; write x.mT or x.transpose(0, 1)"
        )
    return linear.swap_last(self) if self.ndim == 2 else same_view(self)


def _reversed(self: Tensor) -> Tensor:
    """All axes in reverse order."""
    return shape_prims.transpose(self, axes=tuple(range(self.ndim))[::-1])


def adjoint(self: Tensor) -> Tensor:
    """The conjugate of the matrix transpose."""
    out = matrices.matrix_transpose(self)
    return complex_prims.conj(out) if self.dtype.kind == "c" else out


def squeeze(self: Tensor, dim: Axis = None, *, axis: Axis = None) -> Tensor:
    """Without axes of size 1: all of them, or those of ``dim`` that have size 1."""
    axes = normal_axes("squeeze", axis if dim is None else dim, self._shape)
    kept = tuple([n for i, n in enumerate(self._shape) if n != 1 or i not in axes])
    if kept == self._shape:
        return same_view(self)
    return shape_prims.reshape(self, shape=kept)


def expand(self: Tensor, *shape: Any) -> Tensor:
    """Repeated along axes of size 1, and along new ones in front; -1 keeps a size."""
    wanted, own = sizes(shape, "expand"), self._shape
    lead = len(wanted) - len(own)
    if lead < 0:
        raise ShapeError(f"x.expand{wanted} has fewer axes than {own}")
    full = tuple([own[i - lead] if n == -1 and i >= lead else n for i, n in enumerate(wanted)])
    return manipulation.broadcast_to(self, full)


def expand_as(self: Tensor, other: Tensor) -> Tensor:
    """Broadcast to the shape of ``other``."""
    return manipulation.broadcast_to(self, argument("expand_as", other).shape)


def repeat(self: Tensor, *repeats: Any) -> Tensor:
    """The whole tensor several times along each axis."""
    times = sizes(repeats, "repeat")
    if len(times) < self.ndim:
        raise ShapeError(f"x.repeat{times} needs a count for each of the axes of {self.shape}")
    return joining.tile(self, times)


def tile(self: Tensor, *dims: Any) -> Tensor:
    """The whole tensor several times along each axis; missing counts are 1."""
    return joining.tile(self, sizes(dims, "tile"))


def flip(self: Tensor, *order: Any, dims: Axis = None, axis: Axis = None) -> Tensor:
    """The elements in reverse order along axes."""
    return manipulation.flip(
        self, sizes(order, "flip") if order else axis if dims is None else dims
    )


def roll(self: Tensor, shifts: Any, dims: Axis = None, *, axis: Axis = None) -> Tensor:
    """Moved along axes, what leaves at one end coming in at the other."""
    return manipulation.roll(self, shifts, axis if dims is None else dims)


def sum_to_size(self: Tensor, *shape: Any) -> Tensor:
    """Summed over the axes along which a tensor of ``shape`` would be broadcast."""
    wanted = sizes(shape, "sum_to_size")
    if wanted == self.shape:
        return self if type(self) is Tensor or self.written else same_view(self)
    return shape_prims.sum_to(self, shape=wanted)


def select(self: Tensor, dim: int = 0, index: int = 0, *, axis: int | None = None) -> Tensor:
    """The slice at one place of an axis."""
    at = normal_axis("select", dim if axis is None else axis, self.shape)
    return self[(slice(None),) * at + (index,)]


# selection --------------------------------------------------------------------------------------


def take(self: Tensor, index: Any, *, dim: int | None = None, axis: int | None = None) -> Tensor:
    """Elements of the flattened tensor, or slices along an axis if one is named."""
    axis = axis if dim is None else dim
    if axis is not None:
        return indexing.take(self, index, axis=normal_axis("take", axis, self.shape))
    return indexing.take(manipulation.ravel(self), index, axis=0)


def index_put(self: Tensor, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
    """With ``values`` put, or added, where a tuple of index tensors says."""
    if not isinstance(indices, (tuple, list)):
        raise IndexingError(
            f"index_put takes a tuple of index tensors, got {type(indices).__name__}; "
            f"write x.index_put((index,), values)"
        )
    place = self.at[tuple(indices)]
    return place.add(values) if accumulate else place.set(values)  # type: ignore[no-any-return]


def masked_scatter(self: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """With the elements of ``source``, one after another, where the mask is true."""
    mask = manipulation.broadcast_to(boolean("masked_scatter", mask), self.shape)
    places = searching.true_places("masked_scatter", mask)
    source = argument("masked_scatter", source)
    values = manipulation.ravel(source)
    if values.shape[0] < places.shape[0]:
        raise ShapeError(
            f"masked_scatter: the mask selects {places.shape[0]} elements, source {source.shape} "
            f"has fewer"
        )
    values = manipulation.along(values, 0, 0, places.shape[0])
    flat = indexing.scatter(manipulation.ravel(self), places, values, axis=0, mode="set")
    return manipulation.reshape(flat, self.shape)


def nonzero(self: Tensor, *, as_tuple: bool = False) -> Any:
    """The places of what is not 0: (count, ndim) int64, or a tuple with one tensor an axis."""
    return searching.nonzero(self) if as_tuple else searching.argwhere(self)


def tril(self: Tensor, diagonal: int = 0) -> Tensor:
    """The lower triangles, zeros above."""
    return patterns.tril(self, k=diagonal)


def triu(self: Tensor, diagonal: int = 0) -> Tensor:
    """The upper triangles, zeros below."""
    return patterns.triu(self, k=diagonal)


def diag(self: Tensor, diagonal: int = 0) -> Tensor:
    """The matrix with a vector on a diagonal, or the diagonal of a matrix."""
    return patterns.diag(self, diagonal)


# Python's operators -----------------------------------------------------------------------------


def __matmul__(self: Tensor, other: Any) -> Any:
    if type(self) is Tensor and type(other) is Tensor:
        if self._a.ndim > 1 and other._a.ndim > 1 and modes.autocast is None:
            return _matrix_product(self, other)
    elif not isinstance(other, Tensor):
        other = as_operand(other, self)
        if other is NotImplemented:
            return other
    return matmul(self, other)


_matrix_product = bind_two(linear.matmul, matmul)


def __rmatmul__(self: Tensor, other: Any) -> Any:
    other = as_operand(other, self)
    return other if other is NotImplemented else __matmul__(other, self)


def __divmod__(self: Tensor, other: Any) -> Any:
    other = as_operand(other, self)
    if other is NotImplemented:
        return other
    x, y = promote(self, other)
    return elementwise.floor_divide(x, y), elementwise.remainder(x, y)


def __rdivmod__(self: Tensor, other: Any) -> Any:
    other = as_operand(other, self)
    return other if other is NotImplemented else __divmod__(other, self)


T = property(_reversed)
mT = property(matrices.matrix_transpose)
H = property(adjoint, doc="The conjugate transpose of a matrix.")
mH = property(adjoint, doc="The conjugate transposes of the matrices.")
real = property(real)
imag = property(imag)

METHODS = """
    add sub where clamp_min clamp_max type_as sum prod var std max min median sort diff reshape
    view view_as permute t squeeze expand expand_as repeat tile flip roll sum_to_size select take
    index_put masked_scatter nonzero adjoint tril triu diag transpose swapaxes swapdims T mT H mH
    real imag
    __matmul__ __rmatmul__ __divmod__ __rdivmod__
"""
