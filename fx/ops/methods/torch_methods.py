"""Methods of Tensor that PyTorch defines otherwise than the Array API defines the function.

``axis`` and ``keepdims`` are understood wherever PyTorch says ``dim`` and ``keepdim``.
"""

from __future__ import annotations

from typing import Any

import fx.prims.compare as compare
import fx.prims.elementwise as elementwise
import fx.prims.indexing as indexing
import fx.prims.linear as linear
import fx.prims.reduction as reduction
from fx.config import modes
from fx.dtypes import FLOATING, int64
from fx.errors import IndexingError, ShapeError
from fx.ops.autocasting import in_float32
from fx.ops.axes import Axis, normal_axis, reduced_axes
from fx.ops.convert import as_operand, promote
from fx.ops.indexing import scattering, searching
from fx.ops.making import patterns
from fx.ops.operands import argument, boolean, cast, flattened, of_scalar, operands, truth
from fx.ops.pointwise import composed as pointwise
from fx.ops.pointwise.complex_numbers import sgn as _sgn
from fx.ops.pointwise.elementwise import imag, power, real
from fx.ops.products.linear import matmul
from fx.ops.reductions import cumulative, ordering, statistics
from fx.ops.reductions.found import Found
from fx.ops.reductions.reduction import amax, amin, total
from fx.ops.shapes import broadcasting, joining, manipulation
from fx.primitive import bind_two
from fx.prims.creation import constant_like
from fx.prims.families import broadcast_shapes
from fx.prims.fused import elements
from fx.state import free_value
from fx.tensor import Tensor

# arithmetic -------------------------------------------------------------------------------------


def add(self: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """self + alpha * other."""
    return self + other if alpha == 1 else self + other * alpha  # type: ignore[no-any-return]


def sub(self: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """self - alpha * other."""
    return self - other if alpha == 1 else self - other * alpha  # type: ignore[no-any-return]


def pow(self: Tensor, exponent: Any) -> Tensor:
    """self to the power ``exponent``."""
    return power(self, exponent)  # type: ignore[no-any-return]


def where(self: Tensor, condition: Any, other: Any) -> Tensor:
    """self where the condition holds, ``other`` elsewhere."""
    return searching.where(condition, self, other)  # type: ignore[no-any-return]


def sign(self: Tensor) -> Tensor:
    """-1, 0 or 1 by the sign; 0 of NaN."""
    x = argument("sign", self)
    return _sign(x) if x._dtype in FLOATING else _sgn(x)  # type: ignore[no-any-return]


def sgn(self: Tensor) -> Tensor:
    """The sign; of a complex number itself divided by its absolute value, 0 for 0."""
    return sign(self)


_sign = elements(
    "sign_or_0", lambda x: compare.where(x != x, constant_like(0, x), elementwise.sign(x)),
    torch_name="Sign",
)  # fmt: skip


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

sum = total(reduction.sum, int64, reduced_axes)
prod = in_float32(total(reduction.prod, int64, reduced_axes))
sum.__doc__ = "The sum along axes; integers are added up in int64."
prod.__doc__ = "The product along axes; integers are multiplied in int64."


def count_nonzero(
    self: Tensor, dim: Axis = None, *, axis: Axis = None, keepdim: bool = False
) -> Tensor:
    """How many elements are not 0, along axes: int64."""
    return sum(truth(self), axis if dim is None else dim, keepdim)


def _correction(dim: Any, unbiased: Any, correction: Any) -> tuple[Any, float]:
    if isinstance(dim, bool):  # x.var(False)
        dim, unbiased = None, dim
    elif isinstance(dim, tuple | list) and not dim:
        dim = None
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    return dim, correction


def var(
    self: Tensor, dim: Axis = None, unbiased: bool | None = None, keepdim: bool = False, *,
    correction: float | None = None, axis: Axis = None, keepdims: bool = False,
    ddof: float | None = None,
) -> Tensor:  # fmt: skip
    """The variance along axes, with the unbiased divisor n - 1 unless told."""
    dim, correction = _correction(dim, unbiased, correction if ddof is None else ddof)
    return statistics.var(self, axis if dim is None else dim, correction, keepdim or keepdims)


def std(
    self: Tensor, dim: Axis = None, unbiased: bool | None = None, keepdim: bool = False, *,
    correction: float | None = None, axis: Axis = None, keepdims: bool = False,
    ddof: float | None = None,
) -> Tensor:  # fmt: skip
    """The standard deviation along axes, with the unbiased divisor n - 1 unless told."""
    dim, correction = _correction(dim, unbiased, correction if ddof is None else ddof)
    return statistics.std(self, axis if dim is None else dim, correction, keepdim or keepdims)


def _extremum(function: Any, elementwise_one: Any, largest: bool, name: str) -> Any:
    def method(
        self: Tensor, dim: Any = None, keepdim: bool = False, *,
        axis: int | None = None, keepdims: bool = False, other: Any = None,
    ) -> Any:  # fmt: skip
        if dim is None:
            dim = axis
        if dim is None and other is None:
            return function(self)
        if isinstance(dim, Tensor) or other is not None:
            return elementwise_one(*operands(name, self, dim if other is None else other))
        shape = self._shape
        if not shape:
            return of_scalar(method, self, dim)
        at, keep = normal_axis(name, dim, shape), keepdim or keepdims
        return ordering._extreme_along(name, self, at, keep, largest)

    method.__name__ = method.__qualname__ = name
    return method


max = _extremum(amax, elementwise.maximum, True, "max")
max.__doc__ = """The largest element; along ``dim`` a pair (values, indices), and with a tensor
    the larger of each pair of elements."""
min = _extremum(amin, elementwise.minimum, False, "min")
min.__doc__ = """The smallest element; along ``dim`` a pair (values, indices), and with a tensor
    the smaller of each pair of elements."""


def median(
    self: Tensor, dim: int | None = None, keepdim: bool = False, *,
    axis: int | None = None, keepdims: bool = False,
) -> Any:  # fmt: skip
    """The median, of two in the middle the lower; along ``dim`` a pair (values, indices)."""
    dim = axis if dim is None else dim
    if dim is None:
        flat = flattened(self)
        return ordering._of_equals(flat, ordering.lower_median(free_value(flat), 0, False).values)
    return ordering.lower_median(self, dim, keepdim or keepdims)


def sort(
    self: Tensor, dim: int = -1, descending: bool = False, stable: bool = True, *,
    axis: int | None = None,
) -> Found:  # fmt: skip
    """The elements along an axis in sorted order, and where they came from."""
    return ordering.sorted_along("sort", self, dim if axis is None else axis, descending)


def diff(
    self: Tensor, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None, *,
    axis: int | None = None,
) -> Tensor:  # fmt: skip
    """The n-th differences of neighbours along an axis."""
    return cumulative.diff(self, n, dim if axis is None else axis, prepend, append)


# selection --------------------------------------------------------------------------------------


def take(self: Tensor, index: Any, *, dim: int | None = None, axis: int | None = None) -> Tensor:
    """Elements of the flattened tensor, or slices along an axis if one is named."""
    axis = axis if dim is None else dim
    if axis is not None:
        return indexing.take(self, index, axis=normal_axis("take", axis, self._shape))
    return indexing.taken(flattened(self), index, 0)  # type: ignore[no-any-return]


def take_along_dim(
    self: Tensor, indices: Tensor, dim: int | None = None, *, axis: int | None = None
) -> Tensor:
    """One element of each line along an axis for every index; of all in one line unless told."""
    return scattering.take_along_axis(self, indices, axis if dim is None else dim)


def repeat_interleave(
    self: Tensor, repeats: Any, dim: int | None = None, *, output_size: int | None = None,
    axis: int | None = None,
) -> Tensor:  # fmt: skip
    """Each element, or slice along an axis, several times; how many come out follows from that."""
    return joining.repeat(self, repeats, axis if dim is None else dim)


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
    mask = boolean("masked_scatter", mask)
    shape = broadcast_shapes("masked_scatter", self._shape, mask._shape)
    self, mask = broadcasting.broadcast_to(self, shape), broadcasting.broadcast_to(mask, shape)
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
    return manipulation.reshape(flat, self._shape)


def nonzero(self: Tensor, *, as_tuple: bool = False) -> Any:
    """The places of what is not 0: (count, ndim) int64, or a tuple with one tensor an axis."""
    if as_tuple:
        return searching.nonzero(self if self._shape else manipulation.ravel(self))
    return searching.argwhere(self)


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


def _of_room(room: str, name: str) -> Any:
    """A function of a room that loads when it is first called."""

    def method(self: Tensor, *args: Any, **options: Any) -> Tensor:
        from importlib import import_module

        return getattr(import_module(f"fx.{room}"), name)(self, *args, **options)  # type: ignore[no-any-return]

    method.__doc__ = f"``fx.{room}.{name}`` of the tensor."
    return method


stft, istft = _of_room("signal", "stft"), _of_room("signal", "istft")
i0, igamma, igammac = [_of_room("special", name) for name in ("i0", "gammainc", "gammaincc")]


def polygamma(self: Tensor, n: int) -> Tensor:
    """The derivative of order n of ``digamma``."""
    from fx import special

    return special.polygamma(n, self)


real = property(real)
imag = property(imag)

METHODS = """
    add sub pow sign sgn where clamp_min clamp_max type_as sum prod count_nonzero var std max min
    median sort diff take take_along_dim repeat_interleave
    index_put masked_scatter nonzero tril triu diag real imag
    __matmul__ __rmatmul__ __divmod__ __rdivmod__ stft istft i0 igamma igammac
    polygamma
"""
