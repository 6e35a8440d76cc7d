"""Gathers and scatters along one axis."""

import math
from functools import wraps
from typing import Any

import numpy as np

from fx import limits
from fx.backends.cpu._arrays import contiguous, narrowed, widen
from fx.backends.cpu.llvm import any_size
from fx.errors import IndexingError

_MODES = {"set": 0, "add": 1, "mul": 2, "min": 3, "max": 4}  # the numbers of irregular/scatter.py
_BOOL_MODES = {"set": "set", "add": "max", "mul": "min", "min": "min", "max": "max"}
_UINT64 = np.dtype(np.uint64)
_INT64 = np.dtype(np.int64)
_NONE = np.full(1, -1)  # no index is bad
_WORDS = {1: "B", 2: "H", 4: "I", 8: "L"}  # moved by the size of an element
_LIKES = {np.dtype(char): np.zeros(1, char) for char in "lifd"}
_FEW = 32  # indices that are looked at faster as Python's numbers
_KINDS = frozenset("bBhHiIlLfd")
_Known = dict[Any, tuple[Any, ...]]
# what runs where nothing has to be converted, by the shapes and dtypes, the axis and the mode
_slices: _Known = {}
_ways: _Known = {}
_MOST = 1024
limits.on_change(_slices.clear)
limits.on_change(_ways.clear)


def _located(kernel: Any) -> Any:
    """The kernel, whose IndexError names the operation, the axis and its size."""
    name = kernel.__name__

    def refused(error: Exception, x: np.ndarray, axis: int) -> IndexingError:
        return _out_of_range(name, error, x.shape[axis], f"axis {axis} of {x.shape}")

    @wraps(kernel)
    def taking(x: np.ndarray, idx: np.ndarray, *, axis: int) -> np.ndarray:
        try:
            return kernel(x, idx, axis=axis)
        except IndexError as error:
            raise refused(error, x, axis) from None

    @wraps(kernel)
    def scattering(
        x: np.ndarray, idx: np.ndarray, updates: np.ndarray, *, axis: int, mode: str
    ) -> np.ndarray:
        if updates.dtype != x.dtype:
            raise TypeError("dtypes differ")  # and the spec rule says how
        try:
            return kernel(x, idx, updates, axis=axis, mode=mode)
        except IndexError as error:
            raise refused(error, x, axis) from None

    return scattering if name.startswith("scatter") else taking


def _out_of_range(name: str, error: Exception, n: int, where: str) -> IndexingError:
    words = str(error)
    index = words.partition(" is out of")[0] if words.startswith("index ") else "an index"
    valid = f"valid are {-n}..{n - 1}" if n else "an empty axis has no valid index"
    return IndexingError(
        f"{name}: {index} is out of range for {where}, which has size {n}; {valid}"
    )


@_located
def take(x: np.ndarray, idx: np.ndarray, *, axis: int) -> np.ndarray:
    """The slices of `x` along `axis` that `idx` names, as `numpy.take`.

    x (*A, n, *B), idx any integer array (*I), negative from the end -> (*A, *I, *B).
    Raises IndexError where an index is out of bounds.
    """
    idx = _integers(idx)
    axis = _axis(axis, x.ndim)
    if not x.flags.c_contiguous and idx.size < x.shape[axis]:
        # np.take would first copy the whole of x.
        return np.asarray(x[(slice(None),) * axis + (idx,)], order="C")
    return np.asarray(x.take(idx, axis))


def bags(table: np.ndarray, idx: np.ndarray) -> np.ndarray | None:
    """The sums of the rows of table (rows, width) that bags idx (bags, n) name: (bags, width).

    None where an index is out of range, or no kernel does it.
    """
    (rows, width), (count, n) = table.shape, idx.shape
    if not (rows and width and idx.size) or table.dtype.char not in "fd":
        return None
    if not any_size.available():
        return None
    out, bad = any_size.empty([table, count, width]), _NONE.copy()
    chunk = any_size.chunk_of(count, 2.0 * n * (1 + width / 8))
    words = [count, chunk, _dense(table), _dense(_integers(idx)), out, rows, n, width, bad]
    any_size.kernel("bags", "sum", table.dtype.char)(words)
    return None if bad.item() >= 0 else out


@_located
def scatter(
    x: np.ndarray, idx: np.ndarray, updates: np.ndarray, *, axis: int, mode: str
) -> np.ndarray:
    """A copy of `x` with `updates` combined into the slices along `axis` that `idx` names.

    x (*A, n, *B), idx (*I) integer, updates (*A, *I, *B); `mode` is "set", "add", "mul", "min" or
    "max". Updates apply in the C order of idx: under "set" the last of equal indices wins, the
    other modes accumulate in that order. "min" and "max" propagate NaN; on bool, "add" is or and
    "mul" is and. Raises IndexError where an index is out of bounds.
    """
    key = x.shape, idx.shape, updates.shape, axis, x.dtype, idx.dtype, mode
    way = _slices.get(key)
    if way is not None:
        run, a, chunk, n, m, b, more = way
        at, out = _nonnegative(idx if idx.ndim == 1 else idx.reshape(-1), n), _copied(x)
        run([a, chunk, out, at, contiguous(updates), n, m, b, *more])
        return out
    axis = _axis(axis, x.ndim)
    before, n, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    _expect(updates, before + idx.shape + after, x)
    at = _nonnegative(_integers(idx).reshape(-1), n)  # (m,)
    if x.dtype.kind == "c" and mode != "set":
        return _accumulate_complex(x, (slice(None),) * axis + (idx,), updates, mode)
    more: list[int] = []
    if mode == "set":  # moves elements of any dtype
        cells, values, char = x, updates, _WORDS.get(x.itemsize)
    else:
        cells, values, mode = _operands(x, updates, mode)
        char = cells.dtype.char
        more = [_MODES[mode]]
    out = _copied(cells)
    if not at.size or not out.size:
        return _restored(out, x.dtype)
    a, m, b = math.prod(before), at.size, math.prod(after)
    values = contiguous(values)
    if char is None:  # of 16 bytes, which no kernel moves
        out.reshape(a, n, b)[:, at] = values.reshape(a, m, b)
        return out
    chunk = any_size.chunk_of(a, 1.0 * m * max(b, 2))
    run = any_size.kernel("scatter", "accumulate" if more else "put", char)
    if cells is x and idx.dtype is _INT64:
        _remember(_slices, key, (run, a, chunk, n, m, b, more))
    run([a, chunk, out, at, values, n, m, b, *more])
    return _restored(out, x.dtype)


@_located
def take_along_axis(x: np.ndarray, idx: np.ndarray, *, axis: int) -> np.ndarray:
    """out[a, j, b] = x[a, idx[a, j, b], b], as `numpy.take_along_axis`.

    x (*A, n, *B), idx (*A, m, *B) integer, negative from the end -> (*A, m, *B).
    Raises IndexError where an index is out of bounds.
    """
    a, n, m, b = _along(x, idx, axis)
    at = _dense(_integers(idx))
    word = _WORDS.get(x.itemsize)
    if word is None or not any_size.available():
        return np.asarray(x[_grid(_nonnegative(at, n), axis)])
    x = _dense(x)
    out, bad = any_size.empty([x, *at.shape]), _NONE.copy()
    chunk = any_size.chunk_of(a, m * b)
    if m == b == 1:
        any_size.kernel("places", "take_one", word)([a, chunk, x, at, out, n, bad])
    else:
        any_size.kernel("places", "take", word)([a, chunk, x, at, out, n, m, b, bad])
    if bad.item() >= 0:
        _refuse(bad.item(), at, n)
    return out


@_located
def scatter_along_axis(
    x: np.ndarray, idx: np.ndarray, updates: np.ndarray, *, axis: int, mode: str
) -> np.ndarray:
    """A copy of `x` where cell [a, idx[a, j, b], b] is combined with updates[a, j, b].

    x (*A, n, *B), idx and updates (*A, m, *B). Modes, order and errors as in `scatter`.
    """
    key = x.shape, idx.shape, updates.shape, axis, x.dtype, idx.dtype, mode
    way = _ways.get(key)
    if way is not None:
        run, a, chunk, n, m, b = way
        at, out, bad = _dense(idx), _copied(x), _NONE.copy()
        run([a, chunk, out, at, _dense(updates), n, m, b, bad])
        if bad.item() >= 0:
            _refuse(bad.item(), at, n)
        return out
    a, n, m, b = _along(x, idx, axis)
    _expect(updates, idx.shape, x)
    if x.dtype.kind == "c" and mode != "set":
        _nonnegative(_integers(idx), n)
        return _accumulate_complex(x, _grid(idx, axis), updates, mode)
    at = _dense(_integers(idx))
    if mode == "set":
        cells, values, char = x, updates, _WORDS.get(x.itemsize)
    else:
        cells, values, mode = _operands(x, updates, mode)
        char = cells.dtype.char if cells.dtype.char in _KINDS else None
    out = _copied(cells)
    if at.size:
        if char is not None and any_size.available():
            bad, run = _NONE.copy(), any_size.kernel("places", mode, char)
            chunk = any_size.chunk_of(a, m * b)
            if cells is x and idx.dtype is _INT64:
                _remember(_ways, key, (run, a, chunk, n, m, b))
            run([a, chunk, out, at, _dense(values), n, m, b, bad])
            if bad.item() >= 0:
                _refuse(bad.item(), at, n)
        else:
            _combine(out, _grid(_nonnegative(at, n), axis), values, mode)
    return _restored(out, x.dtype)


def _remember(known: _Known, key: Any, way: tuple[Any, ...]) -> None:
    if len(known) >= _MOST:
        known.clear()
    known[key] = way


_JOINED = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}


def _combine(out: np.ndarray, at: tuple[np.ndarray, ...], values: np.ndarray, mode: str) -> None:
    """The same with NumPy."""
    if mode == "set":
        out[at] = values
    else:
        _JOINED[mode].at(out, at, values)


def _grid(idx: np.ndarray, axis: int) -> tuple[np.ndarray, ...]:
    """What stands in brackets for an index an element along an axis."""
    grid = list(np.ogrid[tuple(map(slice, idx.shape))])
    grid[axis] = idx
    return tuple(grid)


def _dense(x: np.ndarray) -> np.ndarray:
    flags = x.flags
    return x if flags.c_contiguous and flags.aligned else x.copy("C")


def one_hot(x: np.ndarray, *, count: int, dtype: np.dtype) -> np.ndarray | None:
    """Rows of ``count`` zeros with a one at each of x; None where a kernel is not for it."""
    like = _LIKES.get(dtype)
    if x.dtype is not _INT64 or like is None or count < 1 or not any_size.available():
        return None
    out, bad = any_size.empty([like, *x.shape, count]), _NONE.copy()
    any_size.kernel("places", "class", dtype.char)(
        [x.size, any_size.chunk_of(x.size, count), _dense(x), out, count, bad]
    )
    return out if bad.item() < 0 else None


def wrap_index(idx: np.ndarray, *, size: int) -> np.ndarray:
    """`idx` as int64 in [0, size), negative ones counted from the end.

    Raises IndexingError where an index is out of bounds.
    """
    try:
        return _nonnegative(_integers(idx), size).copy()
    except IndexError as error:
        raise _out_of_range("indexing", error, size, "the axis") from None


def _operands(x: np.ndarray, updates: np.ndarray, mode: str) -> tuple[np.ndarray, np.ndarray, str]:
    """x and updates in a dtype that the kernel of `mode` is compiled for, and that mode."""
    if mode not in _MODES:
        raise ValueError(f"mode must be one of {', '.join(_MODES)}, got {mode!r}")
    dtype = x.dtype
    if updates.dtype != dtype:
        updates = updates.astype(dtype)
    if dtype in _LIKES:
        return x, updates, mode
    if x.dtype.kind == "b":
        return x.view(np.uint8), updates.view(np.uint8), _BOOL_MODES[mode]
    return widen(x), widen(updates), mode


def _accumulate_complex(
    x: np.ndarray, at: tuple[slice | np.ndarray, ...], updates: np.ndarray, mode: str
) -> np.ndarray:
    if mode not in ("add", "mul"):
        raise TypeError(f"scatter mode {mode!r} is not one for {x.dtype}: use set, add or mul")
    out = np.array(x, order="C", copy=True)
    (np.add if mode == "add" else np.multiply).at(out, at, updates)
    return out


def _copied(x: np.ndarray) -> np.ndarray:
    """A C-contiguous copy; of a broadcast zero, memory that the system hands out when touched."""
    if x.flags.c_contiguous:
        return x.copy()
    if not any(x.strides) and x.size > 1 and not x[(0,) * x.ndim]:
        return np.zeros(x.shape, x.dtype)
    return np.array(x, order="C", copy=True)


def _restored(out: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Back from the unsigned view of bools, or from the wider float, of `_operands`."""
    if out.dtype is dtype:
        return out
    if out.dtype.kind == "u" and out.dtype.itemsize == dtype.itemsize:
        return out.view(dtype)
    return narrowed(out, dtype)


def _nonnegative(idx: np.ndarray, n: int) -> np.ndarray:
    """`idx` as C-contiguous int64 in [0, n), negative ones counted from the end; maybe itself."""
    idx = contiguous(idx if idx.dtype is _INT64 else idx.astype(_INT64))
    if idx.size > _FEW:
        if int(np.minimum.reduce(idx, None)) >= 0 and int(np.maximum.reduce(idx, None)) < n:
            return idx
    elif idx.size:
        some = idx.tolist() if idx.ndim == 1 else idx.reshape(-1).tolist()
        if min(some) >= 0 and max(some) < n:
            return idx
    out = np.where(idx < 0, idx + n, idx)
    bad = (out < 0) | (out >= n)
    if bad.any():
        _refuse(int(bad.argmax()), idx, n)
    return out


def _least(at: np.ndarray) -> int:
    """The least of some integers, of a few of which Python finds it sooner than NumPy."""
    if at.size > _FEW:
        return int(np.minimum.reduce(at, None))
    return min(at.reshape(-1).tolist())  # type: ignore[no-any-return]


def _refuse(bad: int, idx: np.ndarray, n: int) -> None:
    """Say which index is out of bounds, if one is: the one at position `bad` >= 0."""
    if bad >= 0:
        raise IndexError(f"index {idx.reshape(-1)[bad]} is out of bounds for an axis of size {n}")


def _along(x: np.ndarray, idx: np.ndarray, axis: int) -> tuple[int, int, int, int]:
    shape, rank = x.shape, x.ndim
    if not 0 <= axis < rank:
        axis = _axis(axis, rank)
    n = shape[axis]
    if axis == rank - 1 and n and idx.shape == shape:
        return x.size // n, n, n, 1
    m = idx.shape[axis] if idx.ndim == rank else 0
    if idx.ndim != x.ndim or idx.shape != x.shape[:axis] + (m,) + x.shape[axis + 1 :]:
        raise ValueError(
            f"idx {idx.shape} must have the shape of x {x.shape} in all but axis {axis}"
        )
    return math.prod(shape[:axis]), n, m, math.prod(shape[axis + 1 :])


def _integers(idx: np.ndarray) -> np.ndarray:
    if idx.dtype is _INT64:
        return idx
    if idx.dtype.kind not in "iu":
        raise TypeError(f"indices must be integers, got {idx.dtype}")
    if idx.dtype == _UINT64:
        at = idx.view(_INT64)
        if at.size and _least(at) < 0:
            raise IndexError(f"index {idx.max()} is out of bounds")
        return at
    return idx.astype(_INT64, copy=False)


def _axis(axis: int, ndim: int) -> int:
    if not -ndim <= axis < ndim:
        raise ValueError(f"axis {axis} is out of range for an array of ndim {ndim}")
    return axis % ndim


def _expect(updates: np.ndarray, shape: tuple[int, ...], x: np.ndarray) -> None:
    if updates.shape != shape:
        raise ValueError(f"updates for x {x.shape} must have shape {shape}, got {updates.shape}")
