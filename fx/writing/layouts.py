"""Layouts: where in memory the elements of a view lie, as PyTorch has it."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from fx.config import modes
from fx.graph.named import Named, array_of
from fx.graph.staging import memory_steps
from fx.levels import live
from fx.ops.indexing.positions import has_tensor
from fx.primitive import Primitive
from fx.prims.compare import stop_gradient
from fx.prims.complex import conj, part
from fx.prims.shape import broadcast_to, reshape
from fx.tape import GradTracer
from fx.tensor import Tensor

if TYPE_CHECKING:
    from fx.writing.records import Family, View


def owner_of(array: Any) -> Any:
    """The array that owns the memory of another; those of other devices own theirs."""
    if type(array) is not ndarray and not isinstance(array, ndarray):
        return array
    while (base := array.base) is not None:
        if type(base) is not ndarray and not isinstance(base, ndarray):
            base = getattr(base, "base", None)  # `as_strided` has something in between
            if not isinstance(base, ndarray):
                return array
        array = base
    return array


def strides_of(array: Any) -> tuple[int, ...] | None:
    """The steps of an array in elements; None if it lies in the order of its axes, or as no tensor
    of PyTorch's does: one that runs backwards is there a copy that runs forwards."""
    if type(array) is not np.ndarray or array.flags.c_contiguous or not array.size:
        return None
    shape = array.shape  # along an axis of one, as x[None] has it, nothing is repeated
    steps = tuple([abs(k) // array.itemsize or int(n == 1) for n, k in zip(shape, array.strides)])
    dense = 1
    for n, step in zip(reversed(shape), reversed(steps)):
        if n > 1 and step != dense:
            return steps if all(steps) else None
        dense *= n
    return None


def steps_of(x: Any) -> tuple[int, ...] | None:
    """The steps of a tensor in elements, as ``strides_of`` has them, or of what stands for it.

    The function that is being staged is compiled for these alone from then on.
    """
    while isinstance(x, GradTracer):
        x = x.value
    if type(x) is Tensor:
        return strides_of(x._a)
    if type(x) is Named and modes.stage is None:
        return strides_of(array_of(x))
    return memory_steps(x)


def steps_after(
    shape: tuple[int, ...], steps: tuple[int, ...] | None, path: Any
) -> tuple[int, ...] | None:
    """The steps of what a path of views leads to from a tensor of a shape and steps."""
    return strides_of(followed(shape, steps, path))


def repeats(array: Any) -> bool:
    """Whether an array shows more elements than there are, as what is expanded."""
    spans = sum((n - 1) * abs(step) for n, step in zip(array.shape, array.strides))
    return bool(array.nbytes > spans + array.itemsize)


_shape = attrgetter("shape")


def _nothing(at: Any) -> Any:
    """Of what lies in order, which every reshape keeps, whatever its sizes are."""


def layout(family: Family, path: Any, tells: Callable[[Any], Any] = _shape) -> Any:
    """An array that lies in memory as a member does; ``tells`` what of it is made use of."""
    found = followed(family.shape, family.strides, path)
    if live and modes.stage is not None:
        for member in family.alive():
            if type(member) is Named:  # another call may find one there that lies otherwise
                steps_of(member)
        modes.stage.was_told(tells(found))
    return found


def followed(shape: tuple[int, ...], strides: tuple[int, ...] | None, path: Any) -> Any:
    """An array at the end of a path from one of this shape and these steps."""
    dtype: Any = np.bool_
    if any(primitive is part for primitive, _ in path):
        dtype = np.complex64  # of which a part is every second number
    if strides is None:
        at = np.empty(shape, dtype)
    else:
        span = 1 + sum((n - 1) * step for n, step in zip(shape, strides))
        at = np.empty(span, dtype)
        at = np.ndarray(shape, dtype, at, strides=[step * at.itemsize for step in strides])
    for primitive, params in path:
        at = on_array(primitive, at, params)
    return at


def on_array(primitive: Primitive, array: Any, params: dict[str, Any]) -> Any:
    """A view primitive on an array."""
    if primitive is stop_gradient or primitive is conj:
        return array
    if primitive is broadcast_to:  # whose kernel may copy
        return np.broadcast_to(array, params["shape"])
    return primitive.cpu(array, **params)


def place_in(record: View, array: Any) -> Any:
    """The part of the memory of a family where a member lies; None where that cannot be said."""
    owner = array if type(array.base) is not np.ndarray else array.base
    conjugated = False
    for primitive, params in record.path:
        if primitive is conj:
            conjugated = not conjugated
            continue
        if conjugated and primitive is part:
            if params["turn"]:  # the negative of what lies there
                return None
            conjugated = False
        before, array = array, on_array(primitive, array, params)
        if not (array.base is owner or array is before):
            return None
    return array if array.flags.writeable and not conjugated else None


def first_expanded(path: Any) -> int:
    """The place in a path of the first step that repeats elements; the length if there is none."""
    for i, (primitive, params) in enumerate(path):
        if primitive is broadcast_to or "stride" in params:
            return i
        if "size" in params and params["step"] < params["size"]:  # windows
            return i
    return len(path)


def has_positions(params: dict[str, Any]) -> bool:
    """Whether a step goes to places that became tensors (``fx/ops/indexing/positions.py``)."""
    index = params.get("index")
    return type(index) is tuple and has_tensor(index)


def overlaps(record: View) -> bool:
    """Whether several elements of a member are one in memory, as far as PyTorch looks."""
    at = layout(record.family, record.path)
    return any(n > 1 and not step for n, step in zip(at.shape, at.strides))


def crosses(record: View) -> bool:
    """Whether elements of a member may be one in memory, where PyTorch does not look."""
    at, reach = layout(record.family, record.path), 0
    for step, n in sorted((abs(step), n) for step, n in zip(at.strides, at.shape) if n > 1):
        if step <= reach:
            return True
        reach += step * (n - 1)
    return False


def shares(a: Any, b: Any) -> bool:
    """Whether ``b``, reshaped from ``a``, lies in its memory."""
    if type(b) is not np.ndarray:
        return True
    base = b.base
    return b is a or (base is not None and (base is a or base is a.base))


def lies_as_told(family: Family, array: Any) -> bool:
    """Whether the array of a plain member surely lies in memory as PyTorch's would."""
    holder = family.root() if family.of_user and family.cell is None else family.cell
    held = family.array if holder is None else getattr(getattr(holder, "value", None), "_a", None)
    if type(held) is not np.ndarray or not shares(held, array):
        return False
    return held.flags.c_contiguous if family.strides is None else holder is None


def gives_view(family: Family, path: Any) -> bool:
    """Whether a reshape at the end of a path moves no elements."""
    plain = family.strides is None and all(primitive is reshape for primitive, _ in path[:-1])
    before = layout(family, path[:-1], _nothing if plain else _shape)
    if before.size <= 1:  # NumPy gives a number, not a view, for one element
        return True
    return shares(before, on_array(*path[-1][:1], before, path[-1][1]))
