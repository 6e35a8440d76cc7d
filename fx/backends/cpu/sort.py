"""Stable sorting, selection and binary search: the kernels of ``irregular/order.py``, and NumPy's.

NumPy's are their reference, and serve the first calls where the kernels would have to be compiled.
"""

import math
from typing import Any

import ml_dtypes
import numpy as np

from fx import limits
from fx.backends.cpu._arrays import widen
from fx.backends.cpu.cumulative import cumsum
from fx.backends.cpu.llvm import any_size

_LIKE = np.zeros(1, np.int64)
_CHARS = {1: "b", 2: "h", 4: "i", 8: "l"}
_SIGNED, _UNSIGNED = 0, 1
_INFINITY = {
    np.dtype(np.float16): 0x7C00, np.dtype(ml_dtypes.bfloat16): 0x7F80,
    np.dtype(np.float32): 0x7F800000, np.dtype(np.float64): 0x7FF0 << 48,
}  # fmt: skip
# dtype: the letter of the integer of its size, and the kind of its keys
WORDS = {dtype: (_CHARS[dtype.itemsize], bits) for dtype, bits in _INFINITY.items()}
for _char in "?bBhHiIlL":
    _dtype = np.dtype(_char)
    WORDS[_dtype] = (_CHARS[_dtype.itemsize], _SIGNED if _dtype.kind == "i" else _UNSIGNED)
_MOST = 1 << 32  # elements of a line whose places fit beside a key
_COUNTERS = 2048  # words


def argsort(x: np.ndarray, *, axis: int, descending: bool) -> np.ndarray:
    """The stable order of `x` along `axis`: int64, the shape of x.

    Equal elements keep their order in both directions. NaN counts as larger than every number: it
    comes last, or first when descending.
    """
    return top_k_indices(x, k=x.shape[axis], axis=axis, largest=descending)


def top_k_indices(x: np.ndarray, *, k: int, axis: int, largest: bool) -> np.ndarray:
    """The positions along `axis` of the k largest (or smallest) elements, best first: int64.

    x (*A, n, *B) -> (*A, k, *B). Equal elements are taken lowest position first; NaN counts as
    larger than every number. Raises ValueError unless 0 <= k <= n.
    """
    n = x.shape[axis]
    if not 0 <= k <= n:
        raise ValueError(f"k must lie in 0..{n}, the size of axis {axis} of {x.shape}, got {k}")
    found = _first(x, k, axis, largest)
    if found is not None:
        return found[1]
    order = _stable(np.moveaxis(x, axis, -1), largest)[..., :k]
    return np.ascontiguousarray(np.moveaxis(order, -1, axis))


def first(
    x: np.ndarray, *, k: int, axis: int, largest: bool, drop: bool = False
) -> tuple[np.ndarray, ...] | None:
    """The k first elements along an axis in order, and their positions; see ``top_k_indices``.

    None where there is no kernel. ``drop`` leaves the axis out, of one element.
    """
    return _first(x, k, axis, largest, True, drop)


def _first(
    x: np.ndarray, k: int, axis: int, largest: bool, valued: bool = False, drop: bool = False
) -> tuple[np.ndarray, np.ndarray] | None:
    key = x.shape, x.dtype, k, axis, drop
    way = _first_ways.get(key)
    if way is None:
        way = _first_way(*key)
        if way is None:
            return None
        _keep(_first_ways, key, way)
    run, shape, lines, chunk, n, step, kind, work, room = way
    empty, x = any_size.empty, _dense(x)
    places = empty([_LIKE, *shape])
    values = empty([x, *shape]) if valued else places
    run([
        lines, chunk, x, values, places, n, k, step, kind, int(largest), int(valued),
        limits.RANKED_ROW, empty(work), room, chunk or lines,
    ])  # fmt: skip
    return values, places


# what runs on arrays of a shape, and all that it is told of them
_first_ways: dict[Any, tuple[Any, ...]] = {}
_ranked_ways: dict[Any, tuple[Any, ...]] = {}
limits.on_change(_first_ways.clear)
limits.on_change(_ranked_ways.clear)


def _keep(ways: dict[Any, Any], key: Any, way: Any) -> None:
    if len(ways) >= _MOST_WAYS:
        ways.clear()
    ways[key] = way


_MOST_WAYS = 1024


def _first_way(
    shape: tuple[int, ...], dtype: np.dtype, k: int, axis: int, drop: bool
) -> tuple[Any, ...] | None:
    """The kernel of ``_first``, the shape it gives, and its words; None where there is none."""
    word = WORDS.get(dtype)
    if word is None or 0 in shape or not k:
        return None
    char, kind = word
    run = any_size.if_ready("order", "first", char)
    if run is None:
        return None
    given, lines, chunk, n, step, words, room = _sizes(shape, k, axis, dtype.itemsize, drop)
    if n >= _MOST:
        return None
    return run, given, lines, chunk, n, step, kind, [_LIKE, words], room


def _sizes(
    shape: tuple[int, ...], k: int, axis: int, itemsize: int, drop: bool
) -> tuple[tuple[int, ...], int, int, int, int, int, int]:
    """Of the k first along an axis: the result's shape, the lines, how many of them at once, the
    elements of one and the step between them; the words that all take besides, and that a lot does.
    """
    n, lines = shape[axis], math.prod(shape) // shape[axis]
    axis %= len(shape)
    behind = shape[axis + 1 :]
    chunk = any_size.chunk_of(lines, price(n, k, itemsize))
    room = work_words(n, k)
    words = -(-lines // (chunk or lines)) * room
    kept = () if drop else (k,)
    return (*shape[:axis], *kept, *behind), lines, chunk, n, math.prod(behind), words, room


def ranked_indices(x: np.ndarray, ranks: np.ndarray, *, axis: int, lost: str) -> np.ndarray:
    """The positions along ``axis`` of the elements that have some ranks in the order: int64.

    x (*A, n, *B) and ranks int64 (*A, m, *B) -> (*A, m, *B). Rank 0 is the smallest; NaN counts as
    larger than every number, and equal elements keep their order. A rank outside of 0 .. n - 1
    counts as the nearest. In a line with a NaN every rank is that of its first NaN where ``lost``
    is "first", of its last where it is "last", and nothing changes where it is "no".
    """
    found = _ranked(x, ranks, axis, lost)
    if found is not None:
        return found[1]
    order = _stable(np.moveaxis(x, axis, -1), False)
    n, lines = order.shape[-1], np.moveaxis(ranks, axis, -1).clip(0, max(x.shape[axis] - 1, 0))
    if lost != "no" and x.dtype.kind not in "biu":
        missing = np.moveaxis(x != x, axis, -1).sum(-1, keepdims=True)
        lines = np.where(missing > 0, n - (missing if lost == "first" else 1), lines)
    return np.ascontiguousarray(np.moveaxis(np.take_along_axis(order, lines, -1), -1, axis))


def ranked(
    x: np.ndarray, ranks: np.ndarray, *, axis: int, lost: str, drop: bool
) -> tuple[np.ndarray, ...] | None:
    """The elements of some ranks along an axis, and their positions; see ``ranked_indices``.

    None where there is no kernel. ``drop`` leaves the axis out, of one rank.
    """
    return _ranked(x, ranks, axis, lost, True, drop)


LOST = {"no": 0, "first": 1, "last": 2}


def _ranked(
    x: np.ndarray, ranks: np.ndarray, axis: int, lost: str, valued: bool = False, drop: bool = False
) -> tuple[np.ndarray, np.ndarray] | None:
    key = x.shape, x.dtype, ranks.shape, ranks.dtype, axis, drop
    way = _ranked_ways.get(key)
    if way is None:
        way = _ranked_way(*key)
        if way is None:
            return None
        _keep(_ranked_ways, key, way)
    run, shape, lines, chunk, n, m, step, kind, work, room = way
    empty, x, ranks = any_size.empty, _dense(x), _dense(ranks)
    places = empty([_LIKE, *shape])
    values = empty([x, *shape]) if valued else places
    run([
        lines, chunk, x, ranks, values, places, n, m, step, kind, LOST[lost], int(valued),
        limits.RANKED_FEW, empty(work), room, chunk or lines,
    ])  # fmt: skip
    return values, places


def _ranked_way(
    shape: tuple[int, ...], dtype: np.dtype, ranks: tuple[int, ...], kind_of_ranks: np.dtype,
    axis: int, drop: bool,
) -> tuple[Any, ...] | None:  # fmt: skip
    """The kernel of ``_ranked``, the shape it gives, and its words; None where there is none."""
    behind = shape[axis + 1 :]
    fits = ranks[:axis] == shape[:axis] and ranks[axis + 1 :] == behind
    if not fits or kind_of_ranks != _LIKE.dtype or len(ranks) != len(shape):
        raise ValueError(f"ranks {kind_of_ranks} {ranks} do not fit {shape} along axis {axis}")
    word, m = WORDS.get(dtype), ranks[axis]
    if word is None or 0 in shape or not m:
        return None
    char, kind = word
    run = any_size.if_ready("order", "ranked", char)
    n = shape[axis]
    if run is None or n >= _MOST:
        return None
    given = (*shape[:axis], *behind) if drop else ranks
    lines, room = math.prod(shape) // n, ranked_words(n, m)
    chunk = any_size.chunk_of(lines, ranked_price(n, m, dtype.itemsize))
    work = [_LIKE, -(-lines // (chunk or lines)) * room]
    return run, given, lines, chunk, n, m, math.prod(behind), kind, work, room


def ranked_words(n: int, m: int) -> int:
    """Words of memory that a line of n elements with m ranks takes besides."""
    return (n if m <= limits.RANKED_FEW else 2 * n) + _COUNTERS


def ranked_price(n: int, m: int, itemsize: int) -> float:
    """Nanoseconds of a line."""
    return 200 + 4.0 * n * m if m <= limits.RANKED_FEW else price(n, n, itemsize) + 2.0 * m


def work_words(n: int, k: int) -> int:
    """Words of memory that a line of n elements takes besides."""
    if k == 1:
        return 0
    return 2 * n if n <= limits.RANKED_ROW else 2 * n + _COUNTERS


def most_words(n: int) -> int:
    """As many as a line takes at the most, whichever way it goes."""
    return 2 * n + _COUNTERS


def price(n: int, k: int, itemsize: int) -> float:
    """Nanoseconds of a line."""
    if k == 1:
        return 5 + 1.5 * n
    if n <= limits.RANKED_ROW:
        return 20 + n * n / 6
    whole = 500 + 3.0 * n * max(itemsize, 2)
    return whole if k == n else 500 + 5.0 * n + whole * k / n


def searchsorted(sorted_seq: np.ndarray, values: np.ndarray, *, side: str) -> np.ndarray:
    """Where `values` would be inserted to keep `sorted_seq` sorted along its last axis: int64.

    sorted_seq (n,) with values (*V), or sorted_seq (*B, n) with values (*B, m) row by row; the
    result has the shape of values. "left" gives the first such place, "right" the last. NaN counts
    as larger than every number.
    """
    if side not in ("left", "right"):
        raise ValueError(f"side must be 'left' or 'right', got {side!r}")
    if sorted_seq.dtype is not values.dtype:
        dtype = np.result_type(sorted_seq.dtype, values.dtype)
        sorted_seq, values = sorted_seq.astype(dtype), values.astype(dtype)
    rows = sorted_seq.ndim > 1
    if rows and sorted_seq.shape[:-1] != values.shape[:-1]:
        raise ValueError(
            f"sorted_seq {sorted_seq.shape} and values {values.shape} must agree in all but the "
            f"last axis"
        )
    size, word = values.size, WORDS.get(values.dtype)
    run = any_size.if_ready("order", "search", word[0]) if word else None
    if run is None or word is None or not size:
        return _searched(widen(sorted_seq), widen(values), side)
    out = any_size.empty([_LIKE, *values.shape])
    n, m = sorted_seq.shape[-1], values.shape[-1] if rows else size
    chunk = any_size.chunk_of(size, search_price(n))
    given = _dense(sorted_seq), _dense(np.asarray(values))
    run([size, chunk, *given, out, n, m, int(rows), word[1], int(side == "right")])
    return out


def places_at_shares(weights: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Where the shares u (*A, m) of all weights (*A, n), in their order, fall: int64 (*A, m)."""
    totals = cumsum(weights.astype(np.float64), axis=weights.ndim - 1, reverse=False)
    wanted = u * totals[..., -1:]
    n = weights.shape[-1]
    if weights.ndim == 1:
        place = totals.searchsorted(wanted, "right")
    elif wanted.size * n <= limits.COUNTED_PLACES and not _is_searched(totals.dtype):
        place = np.add.reduce(totals[..., None, :] <= wanted[..., None], -1, np.int64)
    else:
        place = searchsorted(totals, wanted, side="right")
    return np.minimum(place, n - 1)  # type: ignore[no-any-return]


def _is_searched(dtype: np.dtype) -> bool:
    """Whether there is a kernel that searches rows of a dtype."""
    return any_size.if_ready("order", "search", WORDS[dtype][0]) is not None


def search_price(n: int) -> float:
    """Nanoseconds of a value."""
    return 3.0 + 3.0 * n.bit_length()


def _searched(rows: np.ndarray, values: np.ndarray, side: Any) -> np.ndarray:
    """The same with NumPy."""
    if rows.ndim == 1:
        return np.asarray(np.searchsorted(rows, values, side), np.int64)
    out = np.empty(values.shape, np.int64)
    for at in np.ndindex(values.shape[:-1]):
        out[at] = np.searchsorted(rows[at], values[at], side)
    return out


def _stable(rows: np.ndarray, descending: bool) -> np.ndarray:
    """NumPy's stable argsort of the last axis; descending is the reverse order of the reverse."""
    rows = widen(rows)
    if not descending:
        return rows.argsort(-1, "stable").astype(np.int64, copy=False)
    order = rows[..., ::-1].argsort(-1, "stable")[..., ::-1]
    return np.subtract(rows.shape[-1] - 1, order, dtype=np.int64)


def _dense(x: np.ndarray) -> np.ndarray:
    flags = x.flags
    return x if flags.c_contiguous and flags.aligned else x.copy("C")
