"""Losses at the classes of targets, of x (*A, classes, *B) and y int64 (*A, *B)."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from fx.backends.cpu import sums
from fx.backends.cpu.formulas import dense
from fx.backends.cpu.llvm import any_size

_ONE = {char: np.ones(1, char) for char in "fd"}
_NONE = np.full(1, -1)  # no target is bad


def nll(
    x: np.ndarray, y: np.ndarray, *weight: np.ndarray, axis: int, ignore_index: int, reduction: str
) -> Any:
    """-x * weight at the targets, one each, their sum or their weighted mean.

    Raises:
        IndexError: for a class that there is not.
    """
    w = _factors(x, weight)
    if w is None or not x.size:
        return None
    count, shape = y.size, x.shape
    behind = prod(shape[axis + 1 :]) if axis + 1 < len(shape) else 1
    both, bad = any_size.empty([x, 2, count]), _NONE.copy()
    any_size.kernel("places", "pick", x.dtype.char)([
        count, any_size.chunk_of(count, 2.0), dense(x), dense(y), dense(w) if weight else w, both,
        count, shape[axis], behind, len(weight), ignore_index, bad,
    ])  # fmt: skip
    if bad.item() >= 0:
        raise IndexError("a class outside of the input")
    if reduction == "none":
        return both[0].reshape(y.shape)
    if reduction == "sum":
        return sums.total(both[0], (0,))
    loss, number = sums.total(both, (1,)).tolist()
    out = any_size.empty([x])
    out.fill(loss / number if number else np.nan)  # rounded as a quotient of their own dtype
    return out


def nll_grad(
    ct: np.ndarray, y: np.ndarray, *weight: np.ndarray,
    shape: tuple[int, ...], axis: int, ignore_index: int, reduction: str,
) -> Any:  # fmt: skip
    """The cotangent of x, whose shape is ``shape``; the classes are known to be there."""
    w = _factors(ct, weight)
    if w is None or not y.size:
        return None
    if reduction == "mean":
        used = y != ignore_index
        number = w[y[used]].sum(dtype=np.float64) if weight else np.count_nonzero(used)
        ct = ct / ct.dtype.type(number)
    out = np.zeros(shape, w.dtype)
    any_size.kernel("places", "lay", w.dtype.char)([
        y.size, any_size.chunk_of(y.size, 2.0), dense(np.asarray(ct)), dense(y), dense(w), out,
        shape[axis], prod(shape[axis + 1 :]), len(weight), int(reduction == "none"), ignore_index,
    ])  # fmt: skip
    return out


def multilabel_margin(x: np.ndarray, y: np.ndarray) -> np.ndarray | None:
    """The losses (rows,) of scores x and labels y int64, both (rows, classes)."""
    if not _are_labels(x, y):
        return None
    rows, classes = x.shape
    out = any_size.empty([x, rows])
    chunk = any_size.chunk_of(rows, 0.5 * classes**2)
    run = any_size.kernel("margins", "multilabel", x.dtype.char)
    run([rows, chunk, dense(x), dense(y), out, classes])
    return out


def multilabel_margin_grad(ct: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray | None:
    """The cotangent of x, from that of the losses."""
    if not _are_labels(x, y) or ct.dtype is not x.dtype:
        return None
    rows, classes = x.shape
    out = any_size.empty([x, rows, classes])
    chunk = any_size.chunk_of(rows, 1.0 * classes**2)
    run = any_size.kernel("margins", "multilabel_grad", x.dtype.char)
    run([rows, chunk, dense(ct), dense(x), dense(y), out, classes])
    return out


def _are_labels(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether there is a kernel: all labels are classes, or end a row."""
    known = x.dtype.char in _ONE and x.size > 0 and any_size.available()
    return bool(known and np.maximum.reduce(y, None) < x.shape[1])


def _factors(x: np.ndarray, weight: tuple[np.ndarray, ...]) -> np.ndarray | None:
    """The weights of the classes, or a 1 for all; None where there is no kernel."""
    one = _ONE.get(x.dtype.char)
    if one is None or not any_size.available():
        return None
    if not weight:
        return one
    return weight[0] if weight[0].dtype is x.dtype else None
