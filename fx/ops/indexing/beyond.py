"""Indices out of range: JAX's ``mode=`` of ``take``, ``x.at[i].get`` and ``x.at[i].set``.

An axis is made one longer for what is to be filled or dropped: an index out of range goes there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fx.prims.compare as compare
import fx.prims.indexing as prims
import fx.prims.shape as shape_prims
from fx import dtypes
from fx.errors import DTypeError
from fx.ops.convert import as_tensor
from fx.ops.operands import cast
from fx.prims.creation import constant_like, full
from fx.tensor import Tensor

MODES = ("clip", "wrap", "fill", "drop", "promise_in_bounds", "raise")


def mode_of(name: str, mode: Any) -> str:
    """A mode, with the names that mean the same as one.

    Raises:
        ValueError: if there is none of that name.
    """
    text = str(getattr(mode, "name", mode)).lower()
    text = {"fill_or_drop": "fill", "drop": "fill", "promise_in_bounds": "raise"}.get(text, text)
    if text not in ("clip", "wrap", "fill", "raise"):
        raise ValueError(f"{name}: mode must be one of {', '.join(MODES)}, got {mode!r:.60}")
    return text


def _filling(x: Tensor, fill_value: Any) -> Any:
    """What stands where there is nothing, unless told: NaN, True, or the integer farthest off."""
    if fill_value is not None:
        return fill_value
    if x.dtype in dtypes.INEXACT:
        return float("nan")
    if x.dtype == dtypes.bool_:
        return True
    limits = np.iinfo(x.dtype)
    return int(limits.min or limits.max)


def _longer(x: Tensor, axis: int, value: Any) -> Tensor:
    """``x`` with one place more along an axis."""
    shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    if isinstance(value, Tensor):
        end = shape_prims.stretched(cast(value, x.dtype), shape)
    else:
        end = full(shape=shape, value=value, dtype=x.dtype, device=x.device.name)
    return shape_prims.concatenate(x, end, axis=axis)


def _counted(places: Tensor, n: int, mode: str) -> Tensor:
    """Places in [0, n], n for what is out of range, or brought into it by the mode."""
    places = cast(places, dtypes.int64)
    if mode == "wrap":
        return places % max(n, 1)
    zero = constant_like(0, places)
    places = compare.where(compare.less(places, zero), places + n, places)
    if mode == "clip":
        return places.clamp(0, max(n - 1, 0))
    inside = compare.greater_equal(places, zero) & compare.less(places, constant_like(n, places))
    return compare.where(inside, places, constant_like(n, places))


def taken_beyond(x: Tensor, indices: Tensor, axis: int, mode: Any, fill_value: Any) -> Tensor:
    """``take`` with a mode."""
    kind, n = mode_of("take", mode), x.shape[axis]
    if kind == "raise":
        return prims.taken(x, indices, axis)  # type: ignore[no-any-return]
    if kind == "clip":  # there a negative index is the first element's
        places = cast(indices, dtypes.int64).clamp(0, max(n - 1, 0))
    else:
        places = _counted(indices, n, kind)
    if kind == "fill":
        x = _longer(x, axis, _filling(x, fill_value))
    return prims.taken(x, places, axis)  # type: ignore[no-any-return]


def beyond(
    x: Tensor, index: Any, mode: Any, fill_value: Any, act: Callable[[Tensor, Any], Tensor],
    changes: bool,
) -> Tensor:  # fmt: skip
    """What ``act`` gives of a tensor and an index, with indices out of range brought into range.

    Args:
        act: of the tensor and the index: it gives elements of the tensor, or a changed copy.
        changes: whether it gives a copy: what is written out of range is dropped.
        fill_value: what an index out of range finds.
    """
    kind = mode_of("x.at", mode)
    if kind == "raise":
        return act(x, index)
    if kind == "wrap":
        raise ValueError("x.at: mode 'wrap' is fx.take's; write x.at[i % n]")
    given = list(index) if isinstance(index, tuple) else [index]
    used = 0
    for e in given:
        if e is not None and e is not Ellipsis:
            used += np.ndim(e) if _is_mask(e) else 1
    axis, whole, longer = 0, x.shape, []
    for i, e in enumerate(given):
        if e is Ellipsis:
            axis += len(whole) - used
        elif e is None:
            continue
        elif isinstance(e, slice):
            axis += 1
        elif _is_mask(e):
            axis += np.ndim(e)
        else:
            places = _counted(as_tensor(e, device=x.device), whole[axis], kind)
            if places.dtype not in dtypes.INTEGRAL:
                raise DTypeError(f"x.at: an index is an integer, got {places.dtype.name}")
            given[i] = places
            longer.append(axis)
            axis += 1
    if kind != "fill" or not longer:
        return act(x, tuple(given))
    value = constant_like(0, x) if changes else _filling(x, fill_value)
    for axis in longer:
        x = _longer(x, axis, value)
    out = act(x, tuple(given))
    return _cut(out, whole) if changes else out


def _is_mask(e: Any) -> bool:
    if isinstance(e, bool | np.bool_):
        return True
    return getattr(e, "dtype", None) == np.bool_


def _cut(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    rank = len(shape)
    return shape_prims.slice(x, start=(0,) * rank, stop=shape, step=(1,) * rank)
