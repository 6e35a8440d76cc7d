"""Shape: reshape, permute, flip, roll.

Source: Python Array API standard 2024.12, "Manipulation functions".
"""

from __future__ import annotations

from itertools import permutations
from math import prod
from typing import Any

import fx.prims.shape as prims
from fx.config import modes
from fx.errors import AxisError, ShapeError
from fx.ops.axes import (
    Axis,
    infer_size,
    integer,
    new_axis,
    normal_axis,
    ordered_axes,
    sizes,
)
from fx.ops.axes import sizes as _sizes  # fmt: skip
from fx.ops.indexing.views import along
from fx.ops.operands import argument, own, public, same_view, viewed
from fx.prims.fused import fuse
from fx.quick import quick
from fx.tensor import Tensor

# reshape ----------------------------------------------------------------------------------------


def reshape(x: Any, shape: Any, copy: Any = None, *, order: str = "C") -> Tensor:
    """The same elements in another shape.

    Args:
        x: a tensor of any shape.
        shape: sizes, one of which may be -1: what is left.
        copy: accepted for the standard's sake; a tensor never changes, so nobody can tell.
        order: "C", or "F" for the order in which the first index runs fastest, as in NumPy, which
            has it in the place of ``copy``.

    Raises:
        ShapeError: if the sizes do not fit.
        ValueError: for another order.

    Example:
        >>> import fx
        >>> fx.reshape(fx.tensor([1, 2, 3, 4]), (2, -1))
        tensor([[1, 2],
                [3, 4]])
    """
    x = viewed("reshape", x)
    wanted = infer_size("reshape", x._shape, sizes((shape,), "reshape"))
    if order != "C" or isinstance(copy, str):
        return _in_order(x, wanted, copy if isinstance(copy, str) else order)
    return same_view(x) if wanted == x._shape else prims.reshaped(x, wanted)


def _in_order(x: Tensor, shape: tuple[int, ...], order: str) -> Tensor:
    """``reshape`` in the order "C" or "F"."""
    if order not in ("C", "F"):
        raise ValueError(f"reshape: order must be 'C' or 'F', got {order!r:.20}")
    if order == "C":
        return prims.reshaped(x, shape)
    turned = prims.transposed(x, tuple(range(x.ndim))[::-1])
    back = prims.reshaped(turned, shape[::-1])
    return prims.transposed(back, tuple(range(len(shape)))[::-1])


def ravel(x: Any, order: str = "C") -> Tensor:
    """All elements along one axis; ``order`` as of ``reshape``.

    Example:
        >>> import fx
        >>> fx.ravel(fx.tensor([[1, 2], [3, 4]]))
        tensor([1, 2, 3, 4])
    """
    return reshape(x, (-1,)) if order == "C" else reshape(x, (-1,), order=order)


def flatten(x: Any, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """The axes from ``start_dim`` to ``end_dim`` as one.

    Raises:
        AxisError: if an axis is out of range, or the last comes before the first.

    Example:
        >>> import fx
        >>> fx.flatten(fx.ones((2, 3, 4)), 1).shape
        (2, 12)
    """
    x = viewed("flatten", x)
    shape = x._shape
    if not shape:
        return prims.reshaped(x, (1,))  # type: ignore[no-any-return]
    first = normal_axis("flatten", start_dim, shape)
    last = normal_axis("flatten", end_dim, shape)
    if first > last:
        raise AxisError(f"flatten: start_dim {start_dim} comes after end_dim {end_dim}")
    if first == last:
        return x if type(x) is Tensor or x.written or modes.views else same_view(x)
    n = prod(shape[first : last + 1])
    return prims.reshaped(x, (*shape[:first], n, *shape[last + 1 :]))  # type: ignore[no-any-return]


def unflatten(
    x: Any, axis: int = 0, shape: Any = None, *, dim: int | None = None, sizes: Any = None
) -> Tensor:
    """One axis as several.

    Args:
        x: a tensor of any shape.
        axis: the axis.
        shape: its new sizes, one of which may be -1.
        dim, sizes: PyTorch's words for ``axis`` and ``shape``.

    Raises:
        ShapeError: if the sizes do not fit.

    Example:
        >>> import fx
        >>> fx.unflatten(fx.ones((2, 12)), 1, (3, -1)).shape
        (2, 3, 4)
    """
    x = viewed("unflatten", x)
    at = normal_axis("unflatten", axis if dim is None else dim, x._shape)
    wanted = _sizes((shape if sizes is None else sizes,), "unflatten")
    inner = infer_size("unflatten", x._shape[at : at + 1], wanted)
    return reshape(x, (*x._shape[:at], *inner, *x._shape[at + 1 :]))


def squeeze(x: Any, axis: Axis = None, *, dim: Axis = None) -> Tensor:
    """Without axes of size 1: those named, or all of them for None.

    Raises:
        ShapeError: if a named axis has another size. (The method ``x.squeeze(dim)`` leaves such an
            axis alone, as PyTorch does.)

    Example:
        >>> import fx
        >>> fx.squeeze(fx.ones((1, 3, 1)), axis=0).shape
        (3, 1)
    """
    x = viewed("squeeze", x)
    axis = axis if dim is None else dim
    if axis is None:
        return reshape(x, tuple([n for n in x._shape if n != 1]))
    axes = ordered_axes("squeeze", axis, x._shape)
    for a in axes:
        if x._shape[a] != 1:
            raise ShapeError(
                f"squeeze: axis {a} of {x.shape} has size {x.shape[a]}, not 1; "
                f"choose one place by indexing, or reduce with fx.sum(x, axis={a})"
            )
    return reshape(x, tuple([n for i, n in enumerate(x._shape) if i not in axes]))


def expand_dims(x: Any, axis: Axis = 0, *, dim: Axis = None) -> Tensor:
    """With new axes of size 1 where ``axis`` says, counted in the result.

    Raises:
        AxisError: if an axis is out of range.

    Example:
        >>> import fx
        >>> fx.expand_dims(fx.ones(3), axis=0).shape
        (1, 3)
    """
    if type(x) is not Tensor:
        x = viewed("expand_dims", x)
    axis = axis if dim is None else dim
    if type(axis) is int or not isinstance(axis, (tuple, list)):
        shape = x._shape
        at = new_axis("expand_dims", axis, shape)
        return prims.reshaped(x, (*shape[:at], 1, *shape[at:]))
    axes = ordered_axes("expand_dims", axis, (1,) * (x.ndim + len(axis)))
    old = iter(x._shape)
    return reshape(x, tuple([1 if i in axes else next(old) for i in range(x.ndim + len(axes))]))


unsqueeze = expand_dims


_ORDERS = frozenset([p for n in range(5) for p in permutations(range(n))])  # need no look

# permute ----------------------------------------------------------------------------------------


def permute_dims(x: Any, axes: Any = None, *, dims: Any = None) -> Tensor:
    """The axes in another order.

    Args:
        x: a tensor of any shape.
        axes: a permutation of its axes.
        dims: PyTorch's word for ``axes``.

    Raises:
        AxisError: if it is no permutation.

    Example:
        >>> import fx
        >>> fx.permute_dims(fx.ones((2, 3, 4)), (2, 0, 1)).shape
        (4, 2, 3)
    """
    if type(x) is not Tensor:
        x = viewed("permute_dims", x)
    order = axes if dims is None else dims
    shape = x._shape
    if order is None:
        raise AxisError(
            f"permute_dims: name all axes of {x.shape}, for example axes="
            f"{tuple(range(x.ndim))[::-1]}"
        )
    if type(order) is not tuple or order not in _ORDERS:
        order = ordered_axes("permute_dims", order, shape)
    if len(order) != len(shape):
        raise AxisError(
            f"permute_dims: {order} names {len(order)} of the {x.ndim} axes of {x.shape}"
        )
    return prims.transposed(x, order)


permute = permute_dims


def moveaxis(x: Any, source: Axis, destination: Axis) -> Tensor:
    """Axes moved to other places; the rest keep their order.

    Raises:
        AxisError: if an axis is out of range or named twice, or the counts differ.

    Example:
        >>> import fx
        >>> fx.moveaxis(fx.ones((2, 3, 4)), 0, -1).shape
        (3, 4, 2)
    """
    x = viewed("moveaxis", x)
    shape = x._shape or (1,)  # the one place of a scalar
    start = ordered_axes("moveaxis", source, shape)
    end = ordered_axes("moveaxis", destination, shape)
    if len(start) != len(end):
        raise AxisError(f"moveaxis: {source} and {destination} must name equally many axes")
    order = [i for i in range(len(x._shape)) if i not in start]
    for place, axis in sorted(zip(end, start)):
        order.insert(place, axis)
    return prims.transposed(x, tuple(order))


movedim = moveaxis


def swapaxes(x: Any, axis1: int, axis2: int) -> Tensor:
    """Two axes exchanged; ``fx.transpose(x, axis1, axis2)`` is the same.

    Example:
        >>> import fx
        >>> fx.swapaxes(fx.ones((2, 3, 4)), 0, 2).shape
        (4, 3, 2)
    """
    return exchanged("swapaxes", x, axis1, axis2)


def transpose(x: Any, axis1: Any = None, axis2: Any = None, *more: int, axes: Any = None) -> Tensor:
    """Two axes exchanged, as in PyTorch, or all axes in another order, as in NumPy.

    Args:
        x: a tensor of any shape.
        axis1, axis2: two axes, which are exchanged.
        more: where there are, all of these are a permutation of the axes of ``x``.
        axes: a permutation as a tuple, which may also stand in the place of ``axis1``; without any
            argument the order is reversed.

    Raises:
        AxisError: if an axis is out of range, or is named twice.

    Example:
        >>> import fx
        >>> fx.transpose(fx.ones((2, 3, 4)), 0, 2).shape
        (4, 3, 2)
        >>> fx.transpose(fx.ones((2, 3, 4)), (1, 2, 0)).shape
        (3, 4, 2)
    """
    if type(axis2) is not int or more or axes is not None:
        return transposed(x, axis1, axis2, more, axes)
    return exchanged("transpose", x, axis1, axis2)


def transposed(x: Any, axis1: Any, axis2: Any, more: tuple[int, ...], axes: Any) -> Tensor:
    """``transpose`` of other arguments than two plain ints."""
    if axes is None and axis1 is not None and axis2 is not None and not more:
        return exchanged("transpose", x, axis1, axis2)
    given = [axis for axis in (axis1, axis2, *more) if axis is not None]
    if axes is not None and given:
        raise TypeError(
            "transpose takes two axes, or axes= for the order of all; write fx.transpose(x, 0, 1)"
        )
    if len(given) == 1 and hasattr(given[0], "__iter__"):
        axes, given = given[0], []
    if axes is not None and not hasattr(axes, "__iter__"):
        axes = (axes,)
    wanted = tuple(given if axes is None else axes)
    x = viewed("transpose", x)
    rank = len(x._shape)
    if not wanted:
        return same_view(x) if rank < 2 else prims.transposed(x, tuple(range(rank))[::-1])
    return permute_dims(x, wanted)


def exchanged(name: str, x: Any, axis1: int, axis2: int) -> Tensor:
    """Two axes exchanged by the function ``name``; a scalar has none, and stays as it is."""
    if type(x) is not Tensor:
        x = viewed(name, x)
    shape = x._shape
    a, b = normal_axis(name, axis1, shape or (1,)), normal_axis(name, axis2, shape or (1,))
    if a == b:
        return same_view(x)
    order = list(range(len(shape)))
    order[a], order[b] = b, a
    return prims.transposed(x, tuple(order))


def flip(x: Any, axis: Axis = None, *, dims: Axis = None) -> Tensor:
    """The elements in reverse order along axes, all of them for None.

    Example:
        >>> import fx
        >>> fx.flip(fx.tensor([1, 2, 3]))
        tensor([3, 2, 1])
    """
    x = argument("flip", x)
    return own(prims.flipped(x, ordered_axes("flip", axis if dims is None else dims, x._shape)))


def rot90(x: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Tensor:
    """Turned ``k`` times by 90 degrees, from the first towards the second of two axes.

    Example:
        >>> import fx
        >>> fx.rot90(fx.tensor([[1, 2], [3, 4]]))
        tensor([[2, 4],
                [1, 3]])
    """
    x = argument("rot90", x)
    pair = ordered_axes("rot90", axes, x._shape)
    if len(pair) != 2:
        raise AxisError(f"rot90 turns a plane of two axes of {x.shape}, got axes={axes}")
    a, b = pair
    k = integer("rot90", "k", k)
    if k % 4 == 2:
        x = prims.flip(x, axes=(a, b))
    elif k % 4 == 1:
        x = swapaxes(prims.flip(x, axes=(b,)), a, b)
    elif k % 4:
        x = prims.flip(swapaxes(x, a, b), axes=(b,))
    return own(x)


def roll(
    x: Any, shift: Any = None, axis: Axis = None, *, shifts: Any = None, dims: Axis = None
) -> Tensor:
    """Moved along axes, what leaves at one end coming in at the other.

    Args:
        x: a tensor of any shape.
        shift: by how many places, an int or one an axis.
        axis: the axes; None rolls the flattened tensor.
        shifts, dims: PyTorch's words for ``shift`` and ``axis``.

    Raises:
        AxisError: if an axis is out of range, or shifts and axes differ in number.

    Example:
        >>> import fx
        >>> fx.roll(fx.tensor([1, 2, 3, 4]), 1)
        tensor([4, 1, 2, 3])
    """
    x = argument("roll", x)
    shift, axis = shift if shifts is None else shifts, axis if dims is None else dims
    if axis is None:
        return prims.reshaped(roll(ravel(x), shift, 0), x._shape)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    steps = shift if isinstance(shift, (tuple, list)) else (shift,) * len(axes)
    if len(steps) != len(axes):
        raise AxisError(f"roll: {len(steps)} shifts {shift} do not fit {len(axes)} axes {axis}")
    cuts = [0] * x.ndim
    for step, a in zip(steps, axes, strict=True):
        at = normal_axis("roll", a, x._shape)
        n = x._shape[at]
        cuts[at] = (cuts[at] - integer("roll", "shift", step)) % n if n else 0
    return _rolled_by(x, tuple(cuts)) if any(cuts) else own(x)  # type: ignore[no-any-return]


def _rolled_in_steps(x: Tensor, *, cuts: tuple[int, ...]) -> Tensor:
    """What is before the cut of an axis comes behind the rest."""
    for at, (cut, n) in enumerate(zip(cuts, x._shape, strict=True)):
        if cut:
            x = prims.concatenate(along(x, at, cut, n), along(x, at, 0, cut), axis=at)
    return x


def _rolled_vjp(needs: Any, x: Tensor, *, cuts: tuple[int, ...]) -> Any:
    back = tuple([(n - cut) % n if n else 0 for cut, n in zip(cuts, x._shape, strict=True)])
    return lambda ct: (_rolled(ct, cuts=back),)


_rolled = fuse("roll", reference=_rolled_in_steps, vjp=_rolled_vjp, torch_name="Roll")
_rolled_by = quick(_rolled, "cuts")


__all__ = public(globals(), but=("along", "exchanged", "transposed"))
