"""How often numbers occur: of classes, and between edges. None where a reference has to do it."""

from __future__ import annotations

import numpy as np

from fx.backends.cpu.formulas import dense
from fx.backends.cpu.llvm import any_size


def bincount(x: np.ndarray, *, minlength: int) -> np.ndarray | None:
    """How often each of 0, 1, ... occurs in x (n,): int64, as long as it takes or ``minlength``."""
    if x.dtype.kind != "i" and x.itemsize > 4:
        return None
    try:
        return np.bincount(x, minlength=minlength).astype(np.int64, copy=False)
    except ValueError:  # of negative ones the reference tells
        return None


def counts_between(x: np.ndarray, edges: np.ndarray, *, even: bool) -> np.ndarray | None:
    """How many of x (n,) lie between edges (bins + 1,), in their dtype; ``even`` says they are."""
    if x.dtype is not edges.dtype or x.dtype.char not in "fd" or len(edges) < 2:
        return None
    run = any_size.if_ready("histogram", "between", x.dtype.char)
    if run is None:
        return None
    bins, length = len(edges) - 1, float(edges[-1]) - float(edges[0])
    scale = bins / length if even and 0.0 < length < np.inf else 0.0
    counts = np.zeros(bins, np.int64)
    chunk = any_size.chunk_of(1, 3.0 * x.size)
    run([1, chunk, dense(x), dense(edges), counts, x.size, bins, scale])
    return counts.astype(x.dtype)
