"""Cross-entropy with integer targets, and its gradient: compiled kernels.

None says that there is no kernel for these arguments. The sizes and the dtype decide, and whether
there is a compiler, but no earlier call.
"""

from __future__ import annotations

import math

import numpy as np

from fx import limits
from fx.backends.cpu import sums
from fx.backends.cpu.formulas import dense
from fx.backends.cpu.llvm import any_size

_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
_INT64 = np.dtype(np.int64)


def compiled(x: np.ndarray) -> bool:
    """Whether an array is for the compiled kernels."""
    return x.size >= limits.FUSED_FROM and x.dtype in _FLOATS and any_size.available()


# cross-entropy ----------------------------------------------------------------------------------


def cross_entropy(
    x: np.ndarray, y: np.ndarray, *, ignore_index: int, reduction: str
) -> np.ndarray | None:
    """The loss of logits x (rows, classes) at the classes y int64 (rows,).

    Raises:
        IndexError: for a class that there is not.
    """
    if not compiled(x) or y.dtype is not _INT64:
        return None
    rows, n = x.shape
    losses, wrong = np.empty(rows, x.dtype), np.zeros(1, np.int64)
    any_size.kernel("rows", "cross_entropy", x.dtype.char)(
        [rows, any_size.chunk_of(rows, 0.12 * n * x.itemsize), dense(x), dense(y), losses, wrong, n,
         ignore_index]
    )  # fmt: skip
    if wrong.item():
        raise IndexError("a class outside of the logits")
    if reduction == "none":
        return losses
    total = np.asarray(sums.total(losses, (0,)))
    if reduction == "mean":
        np.divide(total, _count(y, ignore_index), total)
    return total


def _count(y: np.ndarray, ignore_index: int) -> float:
    """How many targets count; 0 of them divide without a warning."""
    if y.size <= _FEW:
        ignored = y.tolist().count(ignore_index)
    else:
        ignored = int(np.count_nonzero(y == ignore_index))
    return float(y.size - ignored) or math.nan


_FEW = 64  # targets that are counted faster as Python's numbers


def cross_entropy_grad(
    ct: np.ndarray, x: np.ndarray, y: np.ndarray, *, ignore_index: int, reduction: str
) -> np.ndarray | None:
    """The cotangent of the logits."""
    if not compiled(x) or ct.dtype is not x.dtype or y.dtype is not _INT64:
        return None
    if reduction == "mean":
        ct = np.asarray(ct / x.dtype.type(_count(y, ignore_index)))
    rows, n = x.shape
    out = any_size.empty([x, rows, n])
    any_size.kernel("rows", "cross_entropy_grad", x.dtype.char)(
        [rows, any_size.chunk_of(rows, 0.18 * n * x.itemsize), dense(ct), dense(x), dense(y), out,
         n, ignore_index, ct.ndim]
    )  # fmt: skip
    return out
