"""Resizing: what ``x.resize_(shape)`` shows, and ``out=x`` of another shape.

As in PyTorch the elements are counted through the memory in which ``x`` lies, from its first on,
whatever it showed of that. Where it ends too early all that lies in it moves into a larger one.

    x = torch.arange(6.).view(2, 3); v = x[:, 1]
    v.resize_(3)    # 1, 2, 3: a view of x, as before
    v.resize_(8)    # x, and v from its second element on, are views of a memory of 9
"""

from __future__ import annotations

from math import prod
from typing import Any

from fx.config import modes
from fx.errors import WriteError
from fx.gradients import rest, woken
from fx.prims.compare import stop_gradient
from fx.prims.complex import conj, conjugated
from fx.prims.shape import inverse_permutation, reshape, slice, transpose
from fx.state import Cell
from fx.writing import host
from fx.writing.checking import check
from fx.writing.layouts import has_positions, layout, owner_of
from fx.writing.noting import start
from fx.writing.paths import Path
from fx.writing.records import Family, Storage, View, record_of, view_of
from fx.writing.storing import _put
from fx.writing.widening import lead, widen


def resize_(self: Any, *sizes: Any, memory_format: Any = None) -> Any:
    """Be of another shape: of the elements of its memory from its first on, and zeros behind it."""
    shape = tuple(sizes[0]) if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    return resized(self, tuple(map(int, shape)), "resize_")


def resize_as_(self: Any, other: Any, memory_format: Any = None) -> Any:
    """Be of the shape of another tensor."""
    return resize_(self, other.shape)


def resized(x: Any, shape: tuple[int, ...], name: str) -> Any:
    """``x``, from now on of this shape.

    Raises:
        WriteError: if it requires grad, if its memory cannot grow, or if it cannot be told what of
            it ``x`` shows.
    """
    if x._node is not None:
        raise WriteError("cannot resize variables that require grad; write x = x.reshape(...)")
    if shape == tuple(x._shape):
        return x
    if isinstance(x, Cell):
        raise WriteError(f"{name}: a parameter or buffer keeps its shape; write m.x = new values")
    start()
    record = record_of(x)
    if record.family.cell is None:
        widen(record.family)
    check(x, name, writes=False)
    family, n = record.family, prod(shape)
    stage = modes.stage
    if stage is not None and (type(family.cell) is not Storage or stage.lasts(family.cell)):
        stage.give_up(f"{name} gives a tensor outside another shape")
    first, size = _place(x, record, name)
    if first + n > size:
        _grow(family, size, first + n, name)
        size = first + n
    path = _in_order(family)
    if path is None:
        raise WriteError(_UNTOLD.format(name, x.spec))
    if n < size:
        path += ((slice, {"start": (first,), "stop": (first + n,), "step": (1,)}),)
    if shape != (n,) or not (path or family.root() is x):
        path += ((reshape, {"shape": shape}),)
    if conjugated(record.path):
        path += ((conj, {}),)
    if record.cut:
        path = (_cut_of(record), *path)
    shows(x, family, path, record.cut, shape, record.dtype)
    return x


def _cut_of(record: View) -> Any:
    """The step at which a view was detached, as its own views know it."""
    cuts = [i for i, (primitive, _) in enumerate(record.path) if primitive is stop_gradient]
    if cuts == [0]:
        return record.path[0]
    for member in record.family.alive():  # where it was a part, no step from the first is that one
        if view_of(member).cut:
            view_of(member).parted = True
    return stop_gradient, {}


_UNTOLD = (
    "{}: it cannot be told where in memory {!r} lies; write x = x.reshape(...) or "
    "x = torch.zeros(...)"
)


def shows(x: Any, family: Family, path: Path, cut: Any, shape: Any, dtype: Any) -> None:
    """Let ``x``, which is written, be a view of a family from now on."""
    record = view_of(x)
    member = record.family is family and (record.path or family.root() is not x)
    waiting = woken(x)
    record.family, record.path, record.cut = family, path, cut
    record.shape, record.dtype = shape, dtype
    record.source = record.value = None
    if not member:
        family.add(x)
    if waiting is not None:
        rest(x, waiting)


def _place(x: Any, record: View, name: str) -> tuple[int, int]:
    """The place of the first element in the memory of a family, and how many that has."""
    family = record.family
    held = family.cell.value
    if any(has_positions(params) for _, params in record.path) or held.dtype != record.dtype:
        raise WriteError(_UNTOLD.format(name, x.spec))
    if held._node is not None and not record.cut:
        raise WriteError("cannot resize variables that require grad; write x = x.reshape(...)")
    at = layout(family, record.path)
    whole = owner_of(at)
    return at.ctypes.data - whole.ctypes.data, whole.size


def _in_order(family: Family) -> Path | None:
    """The steps to the elements in the order of memory; None if there are gaps between them."""
    shape, strides = family.shape, family.strides
    flat = (reshape, {"shape": (prod(shape),)})
    if strides is None:
        return () if len(shape) == 1 else (flat,)
    order = tuple(sorted(range(len(shape)), key=lambda axis: -strides[axis]))
    dense = 1
    for axis in reversed(order):
        if shape[axis] > 1 and strides[axis] != dense:
            return None
        dense *= shape[axis]
    return (transpose, {"axes": order}), flat


def _grow(family: Family, size: int, more: int, name: str) -> None:
    """Let the memory of a family, of ``size`` elements, have more."""
    cell, order = family.cell, _in_order(family)
    if type(cell) is not Storage or cell.kept or cell.read()._node is not None:
        raise WriteError(
            f"{name}: the memory of a parameter, or of what requires grad, does not grow; write "
            f"x = torch.zeros(...)"
        )
    if host.is_shared(cell):
        raise WriteError(
            f"{name}: Trying to resize storage that is not resizable, for NumPy shares it; write "
            f"x = x.clone() before"
        )
    if family.inner or order is None:
        raise WriteError(
            f"{name}: what was written is cut of a tensor that has no name, and it cannot be told "
            f"what lies behind it; write x = x.clone() before"
        )
    from fx.ops.shapes.joining import concat

    base = cell.read()
    for primitive, params in order:
        base = primitive(base, **params)
    grown = concat([base, base.new_zeros((more - size,))])
    way: Path = ((slice, {"start": (0,), "stop": (size,), "step": (1,)}),)
    shape = family.shape
    if len(order) == 2:
        axes = order[0][1]["axes"]
        way += ((reshape, {"shape": tuple([shape[a] for a in axes])}),)
        way += ((transpose, {"axes": inverse_permutation(axes)}),)
    elif order:
        way += ((reshape, {"shape": shape}),)
    lead(family, way, more)
    _put(family, grown)
