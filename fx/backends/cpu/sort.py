"""Stable sorting, selection and binary search."""

import math

import numpy as np

from fx import limits
from fx.backends.cpu._arrays import contiguous, is_narrow, widen
from fx.backends.cpu.llvm import library

_PLAIN = frozenset("bBhHiIlLfd")
_LIKE = np.zeros(1, np.int64)
_nb = None


def _kernels():
    global _nb
    if _nb is None:
        from fx.backends.cpu import _nb_sort

        _nb = _nb_sort
    return _nb


def argsort(x: np.ndarray, *, axis: int, descending: bool) -> np.ndarray:
    """The stable order of `x` along `axis`: int64, the shape of x.

    Equal elements keep their order in both directions. NaN counts as larger than every number: it
    comes last, or first when descending.
    """
    last = axis in (-1, x.ndim - 1)
    rows = x if last else np.moveaxis(x, axis, -1)  # (*B, n)
    keys = _packed_keys(rows, descending)
    if keys is not None:
        keys.sort(axis=-1)
        order = _positions(keys)
    else:
        order = _stable(rows, descending)
    return np.ascontiguousarray(order if last else np.moveaxis(order, -1, axis))


def top_k_indices(x: np.ndarray, *, k: int, axis: int, largest: bool) -> np.ndarray:
    """The positions along `axis` of the k largest (or smallest) elements, best first: int64.

    x (*A, n, *B) -> (*A, k, *B). Equal elements are taken lowest position first; NaN counts as
    larger than every number. Raises ValueError unless 0 <= k <= n.
    """
    n = x.shape[axis]
    if not 0 <= k <= n:
        raise ValueError(f"k must lie in 0..{n}, the size of axis {axis} of {x.shape}, got {k}")
    last = axis in (-1, x.ndim - 1)
    rows = x if last else np.moveaxis(x, axis, -1)  # (*B, n)
    keys = _packed_keys(rows, largest)
    if keys is None:
        order = _stable(rows, largest)[..., :k]
    else:
        if 0 < k < n:
            keys.partition(k - 1, axis=-1)
        best = keys[..., :k]
        best.sort(axis=-1)
        order = _positions(best)
    return np.ascontiguousarray(order if last else np.moveaxis(order, -1, axis))


def first(
    x: np.ndarray, *, k: int, axis: int, largest: bool, drop: bool = False
) -> tuple[np.ndarray, ...] | None:
    """The k first of a short last axis in order, and their positions; see ``top_k_indices``.

    None where rows are long, or of another kind. ``drop`` leaves the axis out, of one element.
    """
    size = x.size
    if axis != x.ndim - 1 or x.dtype.char not in _PLAIN or not size or not k:
        return None
    *shape, n = x.shape
    if n * k > limits.INSERTION or not library.available():
        return None
    flags = x.flags
    if not (flags.c_contiguous and flags.aligned):
        x = x.copy("C")
    rows = size // n
    if not drop:
        shape.append(k)
    values, places = library.empty([x, *shape]), library.empty([_LIKE, *shape])
    library.kernel("places", "first", x.dtype.char)(
        [rows, library.chunk_of(rows, n * k), x, values, places, n, k, int(largest)]
    )
    return values, places


def searchsorted(sorted_seq: np.ndarray, values: np.ndarray, *, side: str) -> np.ndarray:
    """Where `values` would be inserted to keep `sorted_seq` sorted along its last axis: int64.

    sorted_seq (n,) with values (*V), or sorted_seq (*B, n) with values (*B, m) row by row; the
    result has the shape of values. "left" gives the first such place, "right" the last. NaN counts
    as larger than every number.
    """
    if side not in ("left", "right"):
        raise ValueError(f"side must be 'left' or 'right', got {side!r}")
    dtype = np.result_type(sorted_seq.dtype, values.dtype)
    seq = widen(sorted_seq.astype(dtype, copy=False))
    values = widen(values.astype(dtype, copy=False))
    if seq.ndim == 1:
        return np.asarray(np.searchsorted(seq, values, side=side), np.int64)
    if seq.shape[:-1] != values.shape[:-1]:
        raise ValueError(
            f"sorted_seq {seq.shape} and values {values.shape} must agree in all but the last axis"
        )
    if seq.dtype.kind in "bu" and seq.dtype.itemsize < 8:
        seq, values = seq.astype(np.int64), values.astype(np.int64)
    out = np.empty(values.shape, np.int64)
    if out.size:
        batch = math.prod(values.shape[:-1])
        _kernels().searchsorted(
            contiguous(seq).reshape(batch, seq.shape[-1]),
            contiguous(values).reshape(batch, values.shape[-1]),
            side == "right",
            out.reshape(batch, values.shape[-1]),
        )
    return out


def _stable(rows: np.ndarray, descending: bool) -> np.ndarray:
    """NumPy's stable argsort of the last axis; descending is the reverse order of the reverse."""
    rows = widen(rows)
    if not descending:
        return rows.argsort(-1, "stable").astype(np.int64, copy=False)
    order = rows[..., ::-1].argsort(-1, "stable")[..., ::-1]
    return np.subtract(rows.shape[-1] - 1, order, dtype=np.int64)


def _packed_keys(rows: np.ndarray, descending: bool) -> np.ndarray | None:
    """uint64 keys (*B, n) whose plain order is the wanted stable order, or None.

    The high half orders the value, the low half holds its position. No two keys are equal, so
    NumPy's vectorised (unstable) sort of them is stable; it is several times faster than argsort.
    """
    dtype = rows.dtype
    n = rows.shape[-1]
    if n < limits.SORT_ROW or n > 0xFFFFFFFF or rows.size < limits.SORT_SIZE:
        return None
    if dtype == np.float32 or is_narrow(dtype):
        rows = widen(rows) + np.float32(0)  # -0 becomes +0, its equal
        bits = np.ascontiguousarray(rows).view(np.int32)  # (*B, n)
        # Negative floats order backwards by their bits.
        bits = bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))
        np.copyto(bits, np.int32(0x7FFFFFFF), where=np.isnan(rows))
        high = bits.astype(np.int64) + 0x80000000
    elif dtype.kind in "iub" and dtype.itemsize <= 4:
        high = rows.astype(np.int64) + (0x80000000 if dtype.kind == "i" else 0)
    else:
        return None
    if descending:
        high = 0xFFFFFFFF - high
    keys = np.left_shift(high.view(np.uint64), np.uint64(32))
    keys |= np.arange(n, dtype=np.uint64)
    return np.ascontiguousarray(keys)


def _positions(keys: np.ndarray) -> np.ndarray:
    return (keys & np.uint64(0xFFFFFFFF)).view(np.int64)
