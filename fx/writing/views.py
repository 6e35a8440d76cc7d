"""Views: the methods of which PyTorch gives the elements themselves, not copies.

Only what these give is noted as a view. Other functions are made of the same primitives, and what
they give has elements of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from sys import _getframe
from typing import Any

from numpy import ndarray

import fx.ops.indexing.getting as indexing
from fx.config import modes, writing
from fx.errors import WriteError
from fx.frames import is_internal
from fx.graph.named import Named
from fx.levels import Tracer
from fx.ops.axes import normal_axis
from fx.ops.indexing.views import cut_array, fixed, note_views, rows
from fx.ops.indexing.views import view as cut
from fx.ops.making.interop import clone
from fx.ops.methods.own import contiguous as in_order
from fx.ops.methods.own import steps_of_ones
from fx.ops.methods.own import stride as stride_of
from fx.ops.operands import same_view
from fx.ops.products.matrices import _diagonal_array
from fx.ops.shapes.padding import _lying, _windows_array
from fx.prims.shape import reshape, transpose
from fx.state import Cell
from fx.tape import CELL
from fx.tensor import Tensor, new_tensor
from fx.writing.layouts import layout, lies_as_told, shares, steps_of, strides_of
from fx.writing.noting import Selection, link, start
from fx.writing.paths import selections
from fx.writing.quick_views import quick_ways
from fx.writing.records import CUT, Family
from fx.writing.viewing import watch

VIEWS = frozenset(
    """
    __getitem__ view reshape view_as reshape_as permute transpose swapaxes swapdims
    movedim moveaxis t T mT H mH adjoint squeeze unsqueeze expand expand_as broadcast_to flatten
    ravel unflatten narrow select chunk split split_with_sizes tensor_split hsplit vsplit dsplit
    unbind unstack diagonal unfold as_strided real imag conj data detach
    """.split()  # noqa: SIM905
)


def noted(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What a function gives, with its views noted."""
    start()
    before, modes.views = modes.views, True
    try:
        return function(*args, **kwargs)
    finally:
        modes.views = before


def _rows(before: Callable[..., Any]) -> Callable[..., Any]:
    def __iter__(self: Any) -> Any:
        if type(self) is Tensor and not writing.started and self.ndim:
            return iter(rows(self, 0))  # all at once, as the first write may be in the loop
        if modes.views or not self.ndim or is_internal(_getframe(1).f_code.co_filename):
            return before(self)
        return iter(noted(lambda: [self[i] for i in range(self.shape[0])]))

    return __iter__


def contiguous(self: Any, memory_format: Any = None) -> Any:
    """The same values in the order of the axes; itself if they are."""
    if type(self) is Tensor and type(array := self._a) is ndarray and array.flags.c_contiguous:
        noted = getattr(self, "_noted", None)
        if noted is None or noted is CUT:  # nothing was noted
            if array.size:
                return self
        elif type(noted) is Family and noted.array is array and noted.strides is None:
            return self  # the first, as it was made
        elif _is_of_dense(noted, array):
            return self
    if is_contiguous(self):
        return self
    before, modes.views = modes.views, False
    try:
        held = self if type(self) is Tensor or self.level != CELL else self.read()
        recorded = held._node is not None and modes.record0
        if not recorded and type(held) is Tensor and type(held._a) is ndarray:
            return new_tensor(held._a.copy())
        return in_order(clone(held))  # in memory of its own
    finally:
        modes.views = before


def _is_of_dense(noted: Any, array: ndarray) -> bool:
    """Whether a tensor of which something is noted is cut of one that lies in order, unwritten."""
    kind = type(noted)
    family = noted if kind is Family else noted[0] if kind is tuple else noted.family  # a View's
    if family is None or family.strides is not None or family.of_user:
        return False
    first = family.array  # None once it was written
    return first is not None and shares(first, array) and first.flags.c_contiguous


def ravel(self: Any) -> Any:
    """All elements along one axis: a view if they lie in memory in the order of the axes."""
    dense = contiguous(self)
    return same_view(dense) if self.ndim == 1 else reshape(dense, shape=(prod(self.shape),))


def is_contiguous(self: Any, memory_format: Any = None) -> bool:
    """Whether the elements lie in memory in the order of the axes."""
    record = getattr(self, "_view", None)
    if record is None or record.family is None:
        if type(self) is not Tensor:
            return modes.stage is None or steps_of(self) is None
        return _is_in_order(self._a)
    family = record.family
    held = self.read() if self.written else self
    if type(held) is Tensor and lies_as_told(family, held._a):
        return held._a.flags.c_contiguous  # type: ignore[no-any-return]
    if any(primitive is not transpose for primitive, _ in record.path) or family.strides:
        return bool(layout(family, record.path).flags.c_contiguous)
    return bool(layout(family, record.path, _in_turn).flags.c_contiguous)


def _in_turn(at: Any) -> Any:
    """What there is to tell of a layout that is one of whole axes: sizes above one are alike."""
    return at.flags.c_contiguous, tuple([min(n, 2) for n in at.shape])


def _is_in_order(array: Any) -> bool:
    """Whether an array of which nothing was noted lies so, and repeats no element."""
    if strides_of(array) is not None:
        return False
    return type(array) is not ndarray or all(
        s or n == 1 for n, s in zip(array.shape, array.strides)
    )


def stride(self: Any, dim: int | None = None) -> Any:
    """How many elements lie between neighbours along each axis, or along one."""
    record = getattr(self, "_view", None)
    if record is None or record.family is None or not self.written:
        return stride_of(self, dim)
    steps = steps_of_ones(self._shape, layout(record.family, record.path).strides)
    return steps if dim is None else steps[normal_axis("stride", dim, self._shape)]


# selections -------------------------------------------------------------------------------------


def _diagonal(x: Any, offset: int, dim1: int, dim2: int) -> Any:
    return _diagonal_array(x, offset=offset, axis1=dim1, axis2=dim2)


def _unfolded(x: Any, dim: int, size: int, step: int) -> Any:
    return _windows_array(x, axis=dim % x.ndim, size=size, step=step)


def _strided(x: Any, size: Any, stride: Any, storage_offset: int) -> Any:
    flat = x.reshape(-1)[storage_offset:]
    return _lying(flat, size, [step * x.itemsize for step in stride])


diagonal = Selection(Tensor.diagonal, _diagonal)
unfold = Selection(Tensor.unfold, _unfolded)
strided = Selection(Tensor.as_strided, _strided)
index_of = Selection(cut, cut_array)
selections.update(strided=strided, index_of=index_of)


def _diagonal_of(self: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    return diagonal(self, offset=offset, dim1=dim1, dim2=dim2)


def _windows_of(self: Any, dimension: int, size: int, step: int) -> Any:
    return unfold(self, dim=dimension, size=size, step=step)


def _strides_of(self: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
    if not (isinstance(size, tuple | list) and isinstance(stride, tuple | list)):
        return strided.function(self, size, stride, storage_offset)  # which refuses them
    offset = storage_offset or 0
    if not is_contiguous(self) or (storage_offset is not None and self.storage_offset()):
        raise WriteError(
            f"as_strided counts through the memory in which {self.spec!r} lies, which is that of "
            f"another tensor or in another order; take it of that tensor, or of x.clone()"
        )
    return strided(self, size=tuple(size), stride=tuple(stride), storage_offset=offset)


SELECTIONS = {"diagonal": _diagonal_of, "unfold": _windows_of, "as_strided": _strides_of}


def _note(x: Any, out: Any, index: Any) -> Any:
    if out is x:
        return out
    return link(x, out, index_of, {"index": index if type(index) is int else fixed(index)})


_QUICK = quick_ways(index_of)


def attach() -> None:
    """Put them on Tensor; what tracers and cells give is noted from now on."""
    for name, method in SELECTIONS.items():
        method.__name__, method.__doc__ = name, getattr(Tensor, name).__doc__
        setattr(Tensor, name, method)
    Tensor.contiguous, Tensor.is_contiguous, Tensor.stride = contiguous, is_contiguous, stride
    indexing.at_positions = Selection(indexing.at_positions, indexing.lying_at)
    Tensor.ravel = ravel
    Tensor.__iter__ = _rows(Tensor.__iter__)
    note_views(_note)
    for kind in (Cell, Tracer, Named):
        _watch(kind)


_before: dict[str, Any] = {}  # what Tensor had before the first write


def follow(on: bool = True) -> None:
    """From the first write on: what plain tensors give is noted too."""
    note_views(_note, plain=on)
    if on:
        _before.update((n, Tensor.__dict__[n]) for n in VIEWS if n in Tensor.__dict__)
        _watch(Tensor)
        return
    for name, found in _before.items():
        setattr(Tensor, name, found)


def _watch(kind: Any) -> None:
    """Have the views noted that the user takes of tensors of a class."""
    quick = _QUICK if kind is Cell or kind is Tensor else {}
    for name in VIEWS:
        own = name in kind.__dict__
        if own if kind is Tensor else not own and name in Tensor.__dict__:
            watch(kind, name, quick.get(name))
