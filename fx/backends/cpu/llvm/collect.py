"""Collect: a builtin that gathers the arrays of cells and gradients for a compiled call.

In Python that is a dozen operations for each parameter of a model, in every step. Here it is one
call: for each item the native code goes from the weak reference to the cell, its tensor and its
array, checks that the array is what was compiled for and, where its memory will be written into,
that nobody else holds the tensor or the array. If anything is otherwise it says False, and the
caller takes the long way.

Where the slots of the objects lie in memory is looked up once, on objects made for it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any
from weakref import ref

import attrs
import numpy as np

from fx.backends.cpu.llvm import disk_cache, engine, python_api
from fx.backends.cpu.llvm.python_api import DATA, DENSE, FLAGS, LIST_ITEMS, TYPE, WRITEABLE
from fx.state import Cell
from fx.tape import Leaf
from fx.tensor import Tensor, new_tensor

# byte offsets in a weak reference and in NumPy 2's ndarray, checked below
REFERENT = 16
AXES, DIMS, BASE, DTYPE = 24, 32, 48, 56
_FIELDS = 8  # words of an item: reference, kind, dtype, axes, dims, position, flags, owned


@attrs.frozen(eq=False)
class Item:
    """One array to gather.

    Attributes:
        cell: a weak reference to the cell.
        gradient: whether its gradient is meant, and not what it holds.
        dtype, shape: what the array must have.
        position: in the list that is filled.
        owned: whether nobody else may hold it.
    """

    cell: Any
    gradient: bool
    dtype: Any
    shape: tuple[int, ...]
    position: int
    owned: bool


def collector(items: Sequence[Item]) -> Any:
    """A builtin ``collect(list) -> bool`` that fills in the arrays; None where there can be none.

    The places that it fills must hold None.
    """
    places = _places()
    if places is None:
        return None
    dims = np.array([n for item in items for n in (*item.shape, 0)], np.int64)
    me = python_api.owner(2 + _FIELDS * len(items))
    me[0], me[1] = len(items), id(np.ndarray)
    word, place = 2, dims.ctypes.data
    for item in items:
        need = DENSE | WRITEABLE if item.owned else DENSE
        me[word : word + _FIELDS] = (
            id(item.cell), item.gradient, id(item.dtype), len(item.shape), place, item.position,
            need, item.owned,
        )  # fmt: skip
        word += _FIELDS
        place += 8 * (len(item.shape) + 1)
    me.keep = (_loaded(), [(item.cell, item.dtype) for item in items], dims)
    return python_api.builtin("collect", _loaded().address("collect"), me)


@cache
def _loaded() -> engine.Loaded:
    places = _places()
    assert places is not None
    symbols = {"fx_none": id(None), "fx_true": id(True), "fx_false": id(False)}
    symbols["tensor_type"] = id(Tensor)
    return engine.Loaded([disk_cache.code_of(_TEXT.format(**places))], ["collect"], symbols)


@cache
def _places() -> dict[str, int] | None:
    """Where slots lie; None where objects do not look as expected."""
    if not python_api.DIRECT:
        return None
    tensor = new_tensor(np.zeros((2, 3), np.float32))
    cell = Cell(tensor, requires_grad=True)
    leaf = cell.leaf
    assert leaf is not None
    leaf.grad = gradient = new_tensor(np.ones((2, 3), np.float32))
    held, array = cell.value, cell.value._a
    found = {
        "value": _slot(cell, held, Cell.__basicsize__),
        "leaf": _slot(cell, leaf, Cell.__basicsize__),
        "grad": _slot(leaf, gradient, Leaf.__basicsize__),
        "array": _slot(held, array, Tensor.__basicsize__),
        "node": _slot(gradient, None, Tensor.__basicsize__),
    }
    view = array[:1]
    weak = ref(cell)
    as_expected = (
        None not in found.values()
        and _word(id(weak) + REFERENT) == id(cell)
        and _word(id(array) + DTYPE) == id(array.dtype)
        and _word(id(array) + AXES) & 0xFFFFFFFF == 2
        and _word(_word(id(array) + DIMS)) == 2
        and _word(_word(id(array) + DIMS) + 8) == 3
        and _word(id(array) + BASE) == 0
        and _word(id(view) + BASE) == id(array)
        and _word(id(held)) == _count(held)
    )
    offsets = {
        "referent": REFERENT, "type": TYPE, "data": DATA, "items": LIST_ITEMS, "axes": AXES,
        "dims": DIMS, "base": BASE, "dtype": DTYPE, "flags": FLAGS,
    }  # fmt: skip
    return {**offsets, **found} if as_expected else None  # type: ignore[dict-item]


def _count(x: Any) -> int:
    """The reference count of ``x`` in memory, but for the ones that asking takes."""
    from sys import getrefcount

    return getrefcount(x) - 2


def _word(address: int) -> int:
    return int(ctypes.c_size_t.from_address(address).value)


def _slot(owner: Any, held: Any, size: int) -> int | None:
    """The offset at which an object holds another."""
    found = [at for at in range(16, size, 8) if _word(id(owner) + at) == id(held)]
    return found[0] if len(found) == 1 else None


_TEXT = """
@fx_none = external global i8
@fx_true = external global i8
@fx_false = external global i8
@tensor_type = external global i8

define ptr @collect(ptr %me, ptr %list) {{
entry:
  %words.at = getelementptr i8, ptr %me, i64 {data}
  %words = load ptr, ptr %words.at
  %count = load i64, ptr %words
  %array.at = getelementptr i64, ptr %words, i64 1
  %array.type = load ptr, ptr %array.at
  %items.at = getelementptr i8, ptr %list, i64 {items}
  %items = load ptr, ptr %items.at
  %first = getelementptr i64, ptr %words, i64 2
  br label %item
item:
  %i = phi i64 [ 0, %entry ], [ %i.next, %taken ]
  %fields = phi ptr [ %first, %entry ], [ %fields.next, %taken ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %look, label %yes
look:
  %weak = load ptr, ptr %fields
  %cell.at = getelementptr i8, ptr %weak, i64 {referent}
  %cell = load ptr, ptr %cell.at
  %gone = icmp eq ptr %cell, @fx_none
  br i1 %gone, label %no, label %kind
kind:
  %kind.at = getelementptr i64, ptr %fields, i64 1
  %gradient = load i64, ptr %kind.at
  %is.gradient = icmp ne i64 %gradient, 0
  br i1 %is.gradient, label %of.leaf, label %of.cell
of.cell:
  %value.at = getelementptr i8, ptr %cell, i64 {value}
  %value = load ptr, ptr %value.at
  br label %tensor
of.leaf:
  %leaf.at = getelementptr i8, ptr %cell, i64 {leaf}
  %leaf = load ptr, ptr %leaf.at
  %no.leaf = icmp eq ptr %leaf, @fx_none
  br i1 %no.leaf, label %no, label %grad
grad:
  %grad.at = getelementptr i8, ptr %leaf, i64 {grad}
  %found = load ptr, ptr %grad.at
  %found.type.at = getelementptr i8, ptr %found, i64 {type}
  %found.type = load ptr, ptr %found.type.at
  %plain = icmp eq ptr %found.type, @tensor_type
  br i1 %plain, label %unrecorded, label %no
unrecorded:
  %node.at = getelementptr i8, ptr %found, i64 {node}
  %node = load ptr, ptr %node.at
  %bare = icmp eq ptr %node, @fx_none
  br i1 %bare, label %tensor, label %no
tensor:
  %t = phi ptr [ %value, %of.cell ], [ %found, %unrecorded ]
  %t.type.at = getelementptr i8, ptr %t, i64 {type}
  %t.type = load ptr, ptr %t.type.at
  %is.tensor = icmp eq ptr %t.type, @tensor_type
  br i1 %is.tensor, label %array, label %no
array:
  %a.at = getelementptr i8, ptr %t, i64 {array}
  %a = load ptr, ptr %a.at
  %a.type.at = getelementptr i8, ptr %a, i64 {type}
  %a.type = load ptr, ptr %a.type.at
  %is.array = icmp eq ptr %a.type, %array.type
  br i1 %is.array, label %spec, label %no
spec:
  %dtype.at = getelementptr i8, ptr %a, i64 {dtype}
  %dtype = load ptr, ptr %dtype.at
  %wanted.dtype.at = getelementptr i64, ptr %fields, i64 2
  %wanted.dtype = load ptr, ptr %wanted.dtype.at
  %same.dtype = icmp eq ptr %dtype, %wanted.dtype
  %axes.at = getelementptr i8, ptr %a, i64 {axes}
  %axes.narrow = load i32, ptr %axes.at
  %axes = zext i32 %axes.narrow to i64
  %wanted.axes.at = getelementptr i64, ptr %fields, i64 3
  %wanted.axes = load i64, ptr %wanted.axes.at
  %same.axes = icmp eq i64 %axes, %wanted.axes
  %flags.at = getelementptr i8, ptr %a, i64 {flags}
  %flags.narrow = load i32, ptr %flags.at
  %flags = zext i32 %flags.narrow to i64
  %need.at = getelementptr i64, ptr %fields, i64 6
  %need = load i64, ptr %need.at
  %kept = and i64 %flags, %need
  %same.flags = icmp eq i64 %kept, %need
  %same.two = and i1 %same.dtype, %same.axes
  %same = and i1 %same.two, %same.flags
  %wanted.dims.at = getelementptr i64, ptr %fields, i64 4
  %wanted.dims = load ptr, ptr %wanted.dims.at
  %dims.at = getelementptr i8, ptr %a, i64 {dims}
  %dims = load ptr, ptr %dims.at
  br i1 %same, label %axis, label %no
axis:
  %k = phi i64 [ 0, %spec ], [ %k.next, %size ]
  %k.more = icmp ult i64 %k, %axes
  br i1 %k.more, label %size, label %hold
size:
  %n.at = getelementptr i64, ptr %dims, i64 %k
  %n = load i64, ptr %n.at
  %wanted.n.at = getelementptr i64, ptr %wanted.dims, i64 %k
  %wanted.n = load i64, ptr %wanted.n.at
  %k.next = add i64 %k, 1
  %same.n = icmp eq i64 %n, %wanted.n
  br i1 %same.n, label %axis, label %no
hold:
  %owned.at = getelementptr i64, ptr %fields, i64 7
  %owned = load i64, ptr %owned.at
  %is.owned = icmp ne i64 %owned, 0
  br i1 %is.owned, label %alone, label %taken
alone:
  %t.count = load i64, ptr %t
  %a.count = load i64, ptr %a
  %base.at = getelementptr i8, ptr %a, i64 {base}
  %base = load i64, ptr %base.at
  %t.alone = icmp eq i64 %t.count, 1
  %a.alone = icmp eq i64 %a.count, 1
  %own = icmp eq i64 %base, 0
  %both = and i1 %t.alone, %a.alone
  %all = and i1 %both, %own
  br i1 %all, label %taken, label %no
taken:
  %position.at = getelementptr i64, ptr %fields, i64 5
  %position = load i64, ptr %position.at
  %place = getelementptr ptr, ptr %items, i64 %position
  %a.before = load i64, ptr %a
  %a.after = add i64 %a.before, 1
  store i64 %a.after, ptr %a
  %none.before = load i64, ptr @fx_none
  %none.after = sub i64 %none.before, 1
  store i64 %none.after, ptr @fx_none
  store ptr %a, ptr %place
  %fields.next = getelementptr i64, ptr %fields, i64 8
  %i.next = add i64 %i, 1
  br label %item
yes:
  %true.before = load i64, ptr @fx_true
  %true.after = add i64 %true.before, 1
  store i64 %true.after, ptr @fx_true
  ret ptr @fx_true
no:
  %false.before = load i64, ptr @fx_false
  %false.after = add i64 %false.before, 1
  store i64 %false.after, ptr @fx_false
  ret ptr @fx_false
}}
"""
