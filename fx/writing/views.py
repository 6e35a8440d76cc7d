"""Views: the methods of which PyTorch gives the elements themselves, not copies.

Only what these give is noted as a view. Other functions are made of the same primitives, and what
they give has elements of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from sys import _getframe
from types import CodeType
from typing import Any

from numpy.lib.stride_tricks import as_strided, sliding_window_view

from fx.config import modes
from fx.frames import is_internal
from fx.ops.interop import clone
from fx.ops.methods_core import contiguous as in_order
from fx.ops.views import note_views
from fx.ops.views import view as cut
from fx.prims.shape import reshape
from fx.tensor import Tensor
from fx.writing.records import SURELY, Selection, layout, link, strides_of

VIEWS = frozenset(
    """
    __getitem__ view reshape view_as reshape_as permute transpose swapaxes swapdims
    movedim moveaxis t T mT H mH adjoint squeeze unsqueeze expand expand_as broadcast_to flatten
    ravel unflatten narrow select chunk split split_with_sizes tensor_split hsplit vsplit dsplit
    unbind unstack diagonal unfold as_strided real imag data detach
    """.split()  # noqa: SIM905
)
# of what these give PyTorch says that it is a view or raises, by strides that may be others here
ALWAYS = frozenset(("view", "view_as", "unflatten"))
_SEQUENCES = frozenset((list, tuple))
# what gives the tensor itself where nothing is to be done
ITSELF = frozenset(("flatten", "real", "atleast_1d", "atleast_2d", "atleast_3d"))
# what gives the tensor itself in fx where nothing is to be done, and a copy in PyTorch
COPIES = frozenset(
    """
    repeat tile roll flip fliplr flipud rot90 sum_to_size floor ceil round trunc fix
    repeat_interleave clamp clip clamp_min clamp_max tril triu cat concat concatenate stack hstack
    vstack masked_fill cumsum cumprod index_fill index_copy index_add scatter take_along_dim sort
    nan_to_num sum prod mean amax amin max min
    """.split()  # noqa: SIM905
)


def noting(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, whose results are noted as views where the user calls it."""
    itself = function.__name__ in ITSELF
    way = SURELY if function.__name__ in ALWAYS else True

    @wraps(function)
    def viewing(self: Any, *args: Any, **kwargs: Any) -> Any:
        if modes.views or _is_inside(_getframe(1).f_code):
            return function(self, *args, **kwargs)
        modes.views = way
        try:
            out = function(self, *args, **kwargs)
            if out is self:
                return out if itself else _alias(out)
            if type(out) is tuple and any(x is self for x in out):
                return tuple([_alias(x) if x is self else x for x in out])
            return out
        finally:
            modes.views = False

    return viewing


def copying(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which gives no tensor that it was given."""

    @wraps(function)
    def copied(*args: Any, **kwargs: Any) -> Any:
        out = function(*args, **kwargs)
        if args:
            first = args[0]
            if out is first:
                return clone(out) if isinstance(out, Tensor) else out
            if type(first) in _SEQUENCES:
                for x in first:
                    if out is x:
                        return clone(out)
        return out

    return copied


def _alias(x: Any) -> Any:
    """Another tensor of the same elements."""
    return reshape(x, shape=x._shape)


_inside: dict[CodeType, bool] = {}


def _is_inside(code: CodeType) -> bool:
    """Whether fx itself calls."""
    found = _inside.get(code)
    if found is None:
        found = _inside[code] = is_internal(code.co_filename)
    return found


def noted(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What a function gives, with its views noted."""
    before, modes.views = modes.views, True
    try:
        return function(*args, **kwargs)
    finally:
        modes.views = before


def _rows(before: Callable[..., Any]) -> Callable[..., Any]:
    def __iter__(self: Any) -> Any:
        if modes.views or not self.ndim or _is_inside(_getframe(1).f_code):
            return before(self)
        return iter(noted(lambda: [self[i] for i in range(self.shape[0])]))

    return __iter__


def contiguous(self: Any, memory_format: Any = None) -> Any:
    """The same values in the order of the axes; itself if they are."""
    if is_contiguous(self):
        return self
    before, modes.views = modes.views, False
    try:
        return in_order(clone(self))  # in memory of its own
    finally:
        modes.views = before


def ravel(self: Any) -> Any:
    """All elements along one axis: a view if they lie in memory in the order of the axes."""
    return reshape(contiguous(self), shape=(-1,)) if self.ndim != 1 else contiguous(self)


def is_contiguous(self: Any, memory_format: Any = None) -> bool:
    """Whether the elements lie in memory in the order of the axes."""
    record = getattr(self, "_view", None)
    if record is None:
        return type(self) is not Tensor or strides_of(self._a) is None
    return bool(layout(record.family, record.path).flags.c_contiguous)


# selections -------------------------------------------------------------------------------------


def _diagonal(x: Any, offset: int, dim1: int, dim2: int) -> Any:
    out = x.diagonal(offset, dim1, dim2)
    out.flags.writeable = x.flags.writeable
    return out


def _unfolded(x: Any, dim: int, size: int, step: int) -> Any:
    windows = sliding_window_view(x, size, axis=dim, writeable=True)
    return windows[(slice(None),) * (dim % x.ndim) + (slice(None, None, step),)]


def _strided(x: Any, size: Any, stride: Any, storage_offset: int) -> Any:
    flat = x.reshape(-1)[storage_offset:]
    steps = [step * x.itemsize for step in stride]
    return as_strided(flat, size, steps)


def _selections() -> None:
    """Diagonals, windows and strides, whose primitives do not say where the elements lie."""
    diagonal = Selection(Tensor.diagonal, _diagonal, copies=True)
    unfold = Selection(Tensor.unfold, _unfolded, copies=True)
    strided = Selection(Tensor.as_strided, _strided, copies=True)

    def diagonal_(self: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
        return diagonal(self, offset=offset, dim1=dim1, dim2=dim2)

    def unfold_(self: Any, dimension: int, size: int, step: int) -> Any:
        return unfold(self, dim=dimension, size=size, step=step)

    def as_strided_(self: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
        offset = storage_offset or 0
        return strided(self, size=tuple(size), stride=tuple(stride), storage_offset=offset)

    for name, method in (
        ("diagonal", diagonal_), ("unfold", unfold_), ("as_strided", as_strided_)
    ):  # fmt: skip
        method.__name__, method.__doc__ = name, getattr(Tensor, name).__doc__
        setattr(Tensor, name, method)


index_of = Selection(cut, lambda x, *, index: x[index])


def _note(x: Any, out: Any, index: Any) -> Any:
    return link(x, out, index_of, {"index": index})


def attach() -> None:
    """Put them on Tensor."""
    _selections()
    note_views(_note)
    Tensor.ravel = ravel
    Tensor.__iter__ = _rows(Tensor.__iter__)
    for name in VIEWS:
        found = Tensor.__dict__.get(name)
        if isinstance(found, property):
            changed: Any = property(noting(found.fget), found.fset, doc=found.__doc__)
        elif found is not None:
            changed = noting(found)
        else:
            continue
        setattr(Tensor, name, changed)
    for name in COPIES:
        if name in Tensor.__dict__:
            setattr(Tensor, name, copying(Tensor.__dict__[name]))
    Tensor.contiguous, Tensor.is_contiguous = contiguous, is_contiguous
