"""Methods of Tensor that change its shape, as PyTorch defines them.

``axis`` is understood wherever PyTorch says ``dim``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import fx.prims.linear as linear
import fx.prims.shape as shape_prims
from fx import dtypes
from fx.config import writing
from fx.dtypes import as_dtype
from fx.errors import DTypeError, ShapeError
from fx.ops.axes import Axis, infer_size, normal_axes, normal_axis, sizes
from fx.ops.operands import argument, cast, same_view
from fx.ops.pointwise.elementwise import conj
from fx.ops.products import matrices
from fx.ops.shapes import broadcasting, joining, manipulation
from fx.prims.compare import bitcast
from fx.tensor import Tensor

_IN_BITS = dtypes.FLOATING | dtypes.INTEGRAL
_SIZES = (int, tuple, list, Tensor)


def reshape(self: Tensor, *shape: Any) -> Tensor:
    """The same elements in another shape; one size may be -1."""
    return _reshaped(self, shape, False)


def _reshaped(self: Tensor, shape: tuple[Any, ...], surely: bool) -> Tensor:
    own = self._shape
    wanted = sizes(shape, "reshape")
    if -1 in wanted:
        wanted = infer_size("reshape", own, wanted)
    if wanted == own:
        return same_view(self)
    out: Tensor = shape_prims.reshaped(self, wanted)
    if writing.moved is not None and type(self) is Tensor:
        array = self._a
        if type(array) is np.ndarray and not array.flags.c_contiguous:
            writing.moved(self, out, surely)
    return out


def view(self: Tensor, *shape: Any) -> Tensor:
    """The same elements in another shape, or in another dtype of the same size."""
    if len(shape) == 1 and type(shape[0]) is not int and not isinstance(shape[0], _SIZES):
        wanted = as_dtype(shape[0])
        if wanted == self._dtype:
            return same_view(self)
        both = {wanted, self._dtype}
        if both <= _IN_BITS and wanted.itemsize == self._dtype.itemsize:
            return in_bits(self, wanted)
        raise DTypeError(
            f"x.view({wanted.name}) would read the bytes of {self.dtype.name} anew, which integers "
            f"and floats of one width do: write x.astype(fx.{wanted.name}) to convert the values, "
            f"or fx.from_numpy(x.numpy().view(...)) for a copy of the bytes"
        )
    return _reshaped(self, shape, True)


def in_bits(x: Tensor, wanted: Any) -> Tensor:
    """The bits of numbers read as a dtype as wide; scripts get a view (``fx/writing``)."""
    return bitcast(x, dtype=wanted)  # type: ignore[no-any-return]


def view_as(self: Tensor, other: Tensor) -> Tensor:
    """The same elements in the shape of ``other``."""
    return _reshaped(self, (argument("view_as", other).shape,), True)


def permute(self: Tensor, *order: Any, dims: Any = None, axes: Any = None) -> Tensor:
    """The axes in another order."""
    if not order:
        order = (axes if dims is None else dims,)
    return manipulation.permute_dims(self, sizes(order, "permute") if order != (None,) else None)


def transpose(
    self: Tensor, dim0: Any = None, dim1: Any = None, *more: int, axes: Any = None
) -> Tensor:
    """Two axes exchanged; as in NumPy all of them in another order, in the reverse one for none."""
    if type(dim1) is not int or more or axes is not None:
        return manipulation.transposed(self, dim0, dim1, more, axes)
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
    return shape_prims.transposed(self, tuple(range(self.ndim))[::-1])


def adjoint(self: Tensor) -> Tensor:
    """The conjugate of the matrix transpose."""
    return matrices.matrix_transpose(conj(self))


def squeeze(self: Tensor, dim: Axis = None, *, axis: Axis = None) -> Tensor:
    """Without axes of size 1: all of them, or those of ``dim`` that have size 1."""
    shape = self._shape
    axes = normal_axes("squeeze", axis if dim is None else dim, shape)
    if len(axes) == 1:
        (at,) = axes
        kept = shape if shape[at] != 1 else shape[:at] + shape[at + 1 :]
    else:
        kept = tuple([n for i, n in enumerate(shape) if n != 1 or i not in axes])
    if kept == shape:
        return same_view(self)
    return shape_prims.reshaped(self, kept)


def expand(self: Tensor, *shape: Any) -> Tensor:
    """Repeated along axes of size 1, and along new ones in front; -1 keeps a size."""
    wanted, own = sizes(shape, "expand"), self._shape
    lead = len(wanted) - len(own)
    if lead < 0:
        raise ShapeError(f"x.expand{wanted} has fewer axes than {own}")
    if -1 in wanted:
        given = (*wanted[:lead], *own)  # a new axis has no size to keep
        wanted = tuple([n if w == -1 else w for n, w in zip(given, wanted)])
    return broadcasting.stretched(self, wanted)


def expand_as(self: Tensor, other: Tensor) -> Tensor:
    """Broadcast to the shape of ``other``."""
    return broadcasting.broadcast_to(self, argument("expand_as", other).shape)


def repeat(self: Tensor, *counts: Any, repeats: Any = None, axis: int | None = None) -> Tensor:
    """The whole tensor several times along each axis; with ``axis``, as NumPy, each slice of it."""
    if axis is not None:
        told = counts[0] if len(counts) == 1 else repeats
        return joining.repeat(self, counts if told is None else told, axis)
    times = sizes(counts if repeats is None else (repeats,), "repeat")
    if len(times) < self.ndim:
        raise ShapeError(f"x.repeat{times} needs a count for each of the axes of {self.shape}")
    return joining.tile(self, times)


def tile(self: Tensor, *counts: Any, dims: Any = None) -> Tensor:
    """The whole tensor several times along each axis; missing counts are 1."""
    return joining.tile(self, sizes(counts if dims is None else (dims,), "tile"))


def flip(self: Tensor, *order: Any, dims: Axis = None, axis: Axis = None) -> Tensor:
    """The elements in reverse order along axes."""
    return manipulation.flip(
        self, sizes(order, "flip") if order else axis if dims is None else dims
    )


def roll(self: Tensor, shifts: Any, dims: Axis = None, *, axis: Axis = None) -> Tensor:
    """Moved along axes, what leaves at one end coming in at the other."""
    return manipulation.roll(self, shifts, axis if dims is None else dims)


def sum_to_size(self: Tensor, *shape: Any, size: Any = None) -> Tensor:
    """Summed over the axes along which a tensor of ``shape`` would be broadcast."""
    wanted = sizes(shape if size is None else (size,), "sum_to_size")
    if wanted == self._shape:
        return self if type(self) is Tensor or self.written else same_view(self)
    summed = self if self._dtype in dtypes.INEXACT else cast(self, dtypes.int64)
    return shape_prims.sum_to(summed, shape=wanted)


def select(self: Tensor, dim: int = 0, index: int = 0, *, axis: int | None = None) -> Tensor:
    """The slice at one place of an axis."""
    at = normal_axis("select", dim if axis is None else axis, self._shape)
    return self[(slice(None),) * at + (index,)]


def _of_a_matrix(self: Tensor) -> Tensor:
    """The conjugate transpose of a matrix (n, m), as (m, n).

    Raises:
        ShapeError: if ``x`` is a vector or a batch, for which there is ``x.mH``.
    """
    if self.ndim not in (0, 2):
        batch = ". For batches of matrices, write x.mH" if self.ndim > 2 else ""
        raise ShapeError(f"x.H is only supported on matrices (2-D tensors), not {self}{batch}")
    return adjoint(self) if self.ndim else self.conj()


T = property(_reversed)
mT = property(matrices.matrix_transpose)
H = property(_of_a_matrix)
mH = property(adjoint, doc="The conjugate transposes of the matrices.")

METHODS = """
    reshape view view_as permute t squeeze expand expand_as repeat tile flip roll sum_to_size select
    adjoint transpose swapaxes swapdims T mT H mH
"""
