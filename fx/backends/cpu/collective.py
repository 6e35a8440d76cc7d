"""Collectives over lanes that all hold the same: what is left of one where nothing is batched."""

from __future__ import annotations

import numpy as np

from fx.backends.cpu._arrays import narrowed, widen


def psum(x: np.ndarray, *, axis: int, size: int) -> np.ndarray:
    """The sum of ``size`` equal terms, in the dtype of ``x``; any() of bool."""
    if x.dtype == bool:
        return x if size else np.zeros_like(x)
    wide = widen(x)
    return narrowed(np.multiply(wide, wide.dtype.type(size)), x.dtype)


def pmax(x: np.ndarray, *, axis: int, size: int) -> np.ndarray:
    """The extremum of equal values."""
    return x


pmin = pmax


def all_gather(x: np.ndarray, lane: np.ndarray, *, axis: int, size: int) -> np.ndarray:
    """The sum over ``size`` lanes that each put ``x`` into row ``lane``: x (*S) -> (size, *S)."""
    out = np.zeros((size, *x.shape), x.dtype)
    out[int(lane)] = psum(x, axis=axis, size=size)
    return out


def ppermute(
    x: np.ndarray, lane: np.ndarray, *, axis: int, size: int, sources: tuple[int, ...]
) -> np.ndarray:
    """``x``, or zeros where nobody sends to ``lane``."""
    return x if sources[int(lane)] >= 0 else np.zeros_like(x)
