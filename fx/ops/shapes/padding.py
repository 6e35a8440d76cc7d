"""Borders and windows: pad in every mode, sliding windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy import ndarray
from numpy.lib.stride_tricks import as_strided

import fx.prims.creation as creation
import fx.prims.indexing as indexing
import fx.prims.shape as prims
from fx.dtypes import int64
from fx.errors import ShapeError
from fx.ops.axes import integer, normal_axis, ordered_axes
from fx.ops.indexing.views import along
from fx.ops.operands import argument, own, partner, public
from fx.ops.shapes.manipulation import moveaxis
from fx.prims.fused import fuse, of_reference
from fx.quick import quick
from fx.tensor import Tensor

_MODES = {
    "constant": "constant", "reflect": "reflect", "symmetric": "symmetric", "edge": "edge",
    "replicate": "edge", "wrap": "wrap", "circular": "wrap",
}  # fmt: skip


def pad(x: Any, pad_width: Any, mode: str = "constant", constant_values: Any = 0) -> Tensor:
    """Borders around a tensor.

    Args:
        x: a tensor of any shape.
        pad_width: an int for every border, a pair (before, after) for every axis, or one pair an
            axis. With ``"constant"`` a negative width cuts off.
        mode: what stands in the border: ``"constant"``; ``"edge"`` (or ``"replicate"``), the
            outermost element; ``"reflect"``, the mirror image without the outermost element;
            ``"symmetric"``, the mirror image with it; ``"wrap"`` (or ``"circular"``), the other
            end.
        constant_values: the constant, a number or a tensor without axes.

    Raises:
        ShapeError: if the widths do not fit the shape.
        ValueError: for another ``mode``.

    Source: ``numpy.pad``. (``fx.nn.functional.pad`` takes PyTorch's order of widths.)

    Example:
        >>> import fx
        >>> fx.pad(fx.tensor([1, 2, 3]), (2, 1), mode="reflect")
        tensor([3, 2, 1, 2, 3, 2])
    """
    x = argument("pad", x)
    widths = _widths(pad_width, x._shape)
    if mode not in _MODES:
        raise ValueError(f"pad: mode must be one of {', '.join(_MODES)}, got {mode!r}")
    if mode == "constant":
        return with_constant(x, widths, constant_values)
    return with_own(x, widths, mode)


def with_own(x: Tensor, widths: list[tuple[int, int]], mode: str) -> Tensor:
    """``x`` with borders of its own elements, a pair (before, after) of plain ints an axis.

    Raises:
        ShapeError: if a width is negative, or reaches beyond the axis.
    """
    for axis, (before, after) in enumerate(widths):
        if before < 0 or after < 0:
            raise ShapeError(f"pad: widths must not be negative with mode={mode!r}, got {widths}")
        _check_reach(x._shape, axis, before, after, _MODES[mode])
    if not any(map(any, widths)):
        return x
    return _bordered(x, widths=tuple(widths), mode=_MODES[mode])  # type: ignore[no-any-return]


def _widths(given: Any, shape: tuple[int, ...]) -> list[tuple[int, int]]:
    if isinstance(given, int):
        return [(integer("pad", "a width", given),) * 2] * len(shape)
    if not isinstance(given, (tuple, list)):
        raise ShapeError(f"pad: widths must be an int or pairs of ints, got {given!r:.60}")
    pairs = [tuple(w) if isinstance(w, Sequence) else w for w in given]
    if len(pairs) == 2 and all(isinstance(w, int) for w in pairs):
        pairs = [tuple(pairs)] * len(shape)
    if len(pairs) == 1 and len(shape) > 1:
        pairs = pairs * len(shape)
    if len(pairs) != len(shape) or any(not isinstance(w, tuple) or len(w) != 2 for w in pairs):
        raise ShapeError(
            f"pad: widths {given!r} do not fit shape {shape}; give an int, a pair (before, after), "
            f"or {len(shape)} pairs"
        )
    return [(integer("pad", "a width", a), integer("pad", "a width", b)) for a, b in pairs]


def with_constant(x: Tensor, widths: list[tuple[int, int]], value: Any) -> Tensor:
    """``x`` with borders of a constant, a pair (before, after) of plain ints an axis."""
    low, high = tuple([a for a, _ in widths]), tuple([b for _, b in widths])
    if low and (min(low) < 0 or min(high) < 0):
        for axis, (before, after) in enumerate(widths):
            n = x._shape[axis]
            start, stop = max(-before, 0), n - max(-after, 0)
            if start > stop:
                raise ShapeError(f"pad: widths {widths} cut off more than {x.shape} has")
            x = along(x, axis, start, stop)
        low, high = (tuple([max(n, 0) for n in side]) for side in (low, high))
    if not any(low) and not any(high):
        return own(x)
    value = partner("pad", "the value", value, x)
    return prims.padded(x, value, low, high, (0,) * len(low))  # type: ignore[no-any-return]


def _check_reach(shape: tuple[int, ...], axis: int, before: int, after: int, mode: str) -> None:
    n = shape[axis]
    if not before and not after:
        return
    if mode == "edge":
        reach = n and max(before, after)
    else:
        reach = n - (mode == "reflect")
    if max(before, after) > reach:
        raise ShapeError(
            f"pad: widths ({before}, {after}) with mode={mode!r} reach beyond axis {axis} of "
            f"{shape}; at most {max(reach, 0)} fit"
        )


def _along_axis(x: Tensor, axis: int, before: int, after: int, mode: str) -> Tensor:
    """``x`` with borders along one axis, made of its own elements."""
    n, skip = x._shape[axis], int(mode == "reflect")
    parts = []
    if before:
        if mode == "edge":
            parts.append(_stretched(along(x, axis, 0, 1), axis, before))
        elif mode == "wrap":
            parts.append(along(x, axis, n - before, n))
        else:
            parts.append(prims.flip(along(x, axis, skip, skip + before), axes=(axis,)))
    parts.append(x)
    if after:
        if mode == "edge":
            parts.append(_stretched(along(x, axis, n - 1, n), axis, after))
        elif mode == "wrap":
            parts.append(along(x, axis, 0, after))
        else:
            end = n - skip
            parts.append(prims.flip(along(x, axis, end - after, end), axes=(axis,)))
    return prims.concatenate(*parts, axis=axis)


def _bordered_in_steps(x: Tensor, *, widths: tuple[tuple[int, int], ...], mode: str) -> Tensor:
    for axis, (before, after) in enumerate(widths):
        if before or after:
            x = _along_axis(x, axis, before, after, mode)
    return x


_bordered_vjp = of_reference(_bordered_in_steps)


def _folded_in_steps(ct: Tensor, *, widths: tuple[tuple[int, int], ...], mode: str) -> Tensor:
    shape = tuple([n - a - b for n, (a, b) in zip(ct._shape, widths, strict=True)])
    x = indexing.zeros(ct, shape)  # the map is linear
    return _bordered_vjp((True,), x, widths=widths, mode=mode)(ct)[0]  # type: ignore[no-any-return]


_folded = fuse("bordered_grad", reference=_folded_in_steps)
_bordered = fuse(
    "bordered", reference=_bordered_in_steps, torch_name="Pad",
    vjp=lambda needs, x, **how: lambda ct: (_folded(ct, **how),),
)  # fmt: skip


def _stretched(x: Tensor, axis: int, n: int) -> Tensor:
    return prims.stretched(x, (*x._shape[:axis], n, *x._shape[axis + 1 :]))


# windows ----------------------------------------------------------------------------------------


def unfold(
    x: Any, axis: int = 0, size: int = 1, step: int = 1, *, dim: int | None = None
) -> Tensor:
    """All windows along an axis, their elements as a new last axis.

    Args:
        x: (*A, n, *B).
        axis: the axis.
        size: the number of elements of a window.
        step: how far one window starts after the one before.
        dim: PyTorch's word for ``axis``.

    Returns:
        (*A, (n - size) // step + 1, *B, size).

    Raises:
        ShapeError: if no window fits.

    Source: ``torch.Tensor.unfold``.

    Example:
        >>> import fx
        >>> fx.unfold(fx.tensor([1, 2, 3, 4, 5]), 0, 3, 2)
        tensor([[1, 2, 3],
                [3, 4, 5]])
    """
    x = argument("unfold", x)
    at = normal_axis("unfold", axis if dim is None else dim, x._shape)
    n, size, step = x._shape[at], integer("unfold", "size", size), integer("unfold", "step", step)
    if not 0 <= size <= n or step < 1:
        raise ShapeError(
            f"unfold: windows of {size} elements, {step} apart, do not fit axis {at} of {x.shape}"
        )
    return _unfold(x, at, size, step)  # type: ignore[no-any-return]


def _places(n: int, size: int, step: int, device: str) -> Tensor:
    """Where the elements of the windows along an axis of size n stand: (count, size)."""
    where = {"dtype": int64, "device": device}
    begin = creation.iota(shape=((n - size) // step + 1, 1), axis=0, start=0, step=step, **where)
    return begin + creation.iota(shape=(1, size), axis=1, start=0, step=1, **where)


def _unfold_in_steps(x: Tensor, *, axis: int, size: int, step: int) -> Tensor:
    places = _places(x._shape[axis], size, step, x.device.name)
    return moveaxis(indexing.take(x, places, axis=axis), axis + 1, -1)


def _unfold_vjp(needs: Any, x: Tensor, *, axis: int, size: int, step: int) -> Any:
    n = x._shape[axis]
    return lambda ct: (_unfold_grad(ct, n=n, axis=axis, size=size, step=step),)


def _unfold_grad_in_steps(ct: Tensor, *, n: int, axis: int, size: int, step: int) -> Tensor:
    places = _places(n, size, step, ct.device.name)
    windows = moveaxis(ct, -1, axis + 1)  # (*A, count, size, *B)
    zeros = indexing.zeros(ct, (*ct._shape[:axis], n, *ct._shape[axis + 1 : -1]))
    return indexing.scatter(zeros, places, windows, axis=axis, mode="add")  # type: ignore[no-any-return]


_unfold_grad = fuse("unfold_grad", reference=_unfold_grad_in_steps)


def _windows_array(x: ndarray, *, axis: int, size: int, step: int) -> ndarray:
    """The same of an array, as a view."""
    before, behind = slice(axis), slice(axis + 1, None)
    shape, strides = x.shape, x.strides
    count = (shape[axis] - size) // step + 1
    return _lying(
        x,
        (*shape[before], count, *shape[behind], size),
        (*strides[before], strides[axis] * step, *strides[behind], strides[axis]),
    )


def _lying(x: ndarray, shape: Sequence[int], strides: Sequence[int]) -> ndarray:
    """Elements from the first of ``x`` on, as a view of the array that has the memory."""
    owner = x if type(x.base) is not ndarray else x.base
    if owner.flags.c_contiguous and x.flags.writeable and x.dtype.kind in "biufc":
        start = 0
        if owner is not x and (owner.nbytes != x.nbytes or not x.flags.c_contiguous):
            start = x.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
        return ndarray(shape, x.dtype, owner, start, strides)
    return as_strided(x, shape, strides)


_windows = fuse(
    "unfold", cpu=_windows_array, reference=_unfold_in_steps, vjp=_unfold_vjp, torch_name="Unfold"
)
_unfold = quick(_windows, "axis", "size", "step")


def sliding_window_view(x: Any, window_shape: Any, axis: Any = None) -> Tensor:
    """Windows that slide over axes one by one, their elements as new last axes.

    Args:
        x: a tensor with at least one axis.
        window_shape: the size of a window along each axis, an int or a sequence.
        axis: the axes, all of them for None.

    Raises:
        ShapeError: if a window does not fit, or sizes and axes differ in number.

    Source: ``numpy.lib.stride_tricks.sliding_window_view``.

    Example:
        >>> import fx
        >>> fx.sliding_window_view(fx.tensor([1, 2, 3, 4]), 3)
        tensor([[1, 2, 3],
                [2, 3, 4]])
    """
    x = argument("sliding_window_view", x)
    sides = tuple(window_shape) if isinstance(window_shape, (tuple, list)) else (window_shape,)
    axes = ordered_axes("sliding_window_view", axis, x._shape)
    if len(sides) != len(axes):
        raise ShapeError(
            f"sliding_window_view: {len(sides)} sizes {sides} do not fit {len(axes)} axes of "
            f"{x.shape}"
        )
    for at, size in zip(axes, sides, strict=True):
        x = unfold(x, at, size, 1)
    return x


__all__ = public(globals(), but=("with_constant", "with_own"))
