"""The tensors of found programs: of every dtype, in every layout, with special values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import fx
from fx.dtypes import COMPLEX, FLOATING, as_dtype

LAYOUTS = (
    "dense", "columns", "steps", "reversed", "broadcast", "overlapping", "transposed", "shifted",
)  # fmt: skip
STRIDED = ("dense", "columns", "steps", "reversed", "transposed", "shifted")
SPECIAL = ("none", "zeros", "infinite", "nan", "extreme", "constant")
SIZES = (0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 130)


def array(
    shape: Sequence[int], dtype: str, seed: int, layout: str = "dense", special: str = "none"
) -> np.ndarray:
    """An array of small numbers, eighths where they have fractions, so that sums are exact.

    Args:
        shape: of it.
        dtype: the name of its dtype.
        seed: of its values.
        layout: how it lies in memory, one of ``LAYOUTS``.
        special: what else stands in it, one of ``SPECIAL``.
    """
    shape = tuple(shape)
    wide = _laid_out(shape, layout)
    if wide is None:
        return _values(shape, dtype, seed, special)
    base, view = wide
    return view(_values(base, dtype, seed, special))  # type: ignore[no-any-return]


def strided(array: np.ndarray, layout: str) -> np.ndarray:
    """The same values in a layout that repeats none of them; what lies between is no number."""
    found = _laid_out(array.shape, layout) if layout in STRIDED else None
    if found is None:
        return array
    shape, view = found
    gap = np.nan if array.dtype.kind in "fcV" else 1
    base = np.full(shape, gap, array.dtype)
    view(base)[...] = array
    return view(base)  # type: ignore[no-any-return]


def _laid_out(shape: tuple[int, ...], layout: str) -> Any:
    """The shape of the memory, and the view of it that has the shape."""
    if not shape or layout == "dense":
        return None
    first, last = shape[0], shape[-1]
    if layout == "columns":
        return (*shape, 3), lambda a: a[..., 1]
    if layout == "steps":
        return (2 * first + 1, *shape[1:]), lambda a: a[1::2]
    if layout == "reversed":
        return shape, lambda a: a[..., ::-1]
    if layout == "broadcast":
        return (1, *shape[1:]), lambda a: np.broadcast_to(a, shape)
    if layout == "overlapping" and len(shape) > 1 and last:
        length = (*shape[:-2], shape[-2] + last - 1)
        return length, lambda a: np.lib.stride_tricks.sliding_window_view(a, last, -1)
    if layout == "transposed":
        return shape[::-1], lambda a: a.T
    if layout == "shifted":  # begins in the middle of a vector
        return (first + 1, *shape[1:]), lambda a: a[1:]
    return None


def _values(shape: tuple[int, ...], dtype: str, seed: int, special: str) -> np.ndarray:
    rng, kind = np.random.default_rng(seed), as_dtype(dtype)
    low = 0 if kind.kind in "u" else -8
    out = rng.integers(low, 9, shape).astype(np.float64)
    if special == "constant":
        out = np.full(shape, 2.0)
    if kind in FLOATING or kind in COMPLEX:
        out = out / 8 + rng.integers(-1, 2, shape)
    if kind in COMPLEX:
        out = out + 1j * rng.integers(-8, 9, shape) / 8
    if kind.kind == "b":
        return np.asarray(out > 0)
    out = np.asarray(out).astype(kind)
    if out.size and special not in ("none", "constant"):
        places = rng.integers(0, out.size, 1 + out.size // 8)
        found = _specials(kind, special)
        out.reshape(-1)[places] = np.asarray(found, kind)[rng.integers(0, len(found), places.size)]
    return out


def _specials(kind: np.dtype, special: str) -> list[Any]:
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        return [0] if special in ("zeros", "infinite", "nan") else [limits.min, limits.max]
    if special == "zeros":
        return [0.0, -0.0]
    if special == "infinite":
        return [np.inf, -np.inf, 0.0]
    if special == "nan":
        return [np.nan]
    limits = fx.finfo(kind)
    return [limits.max, limits.min, limits.smallest_normal]


def tensor(
    shape: Sequence[int], dtype: str, seed: int, layout: str = "dense", special: str = "none"
) -> fx.Tensor:
    """The tensor of ``array``, without a copy."""
    return fx.from_numpy(array(shape, dtype, seed, layout, special))
