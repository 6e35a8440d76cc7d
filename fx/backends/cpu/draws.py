"""Samples of distributions, drawn with keys: uint32 (*B, 6) -> (*B, *shape).

Which words an element gets is the contract of every backend. A draw of k words an element reads
``random_bits`` of shape (k, *shape): the first plane holds the highest words. A float32 draw takes
one plane and a float64 draw two, so the float32 numbers are the float64 numbers, rounded. The
rejection samplers are described in ``irregular/rejection.py`` and ``trials.py``.
"""

from __future__ import annotations

import math
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from fx import limits
from fx.backends.cpu import _np_draws, philox
from fx.backends.cpu.llvm import any_size
from fx.backends.cpu.philox import dense, drawn, key_rows
from fx.prims.random import KEY_WORDS

_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
_INT64, _UINT64 = np.dtype(np.int64), np.dtype(np.uint64)
_LIKE = np.zeros(1, np.int64)
_TRUNCATED = {"float16": np.uint32(0xFFFFE000), "bfloat16": np.uint32(0xFFFF0000)}
PRICE = {  # nanoseconds a sample
    "bits": 0.6, "uniform": 0.8, "normal": 2.0, "exponential": 2.5, "gumbel": 4.0, "laplace": 2.5,
    "logistic": 2.5, "truncated": 12.0, "below2": 2.2, "below4": 3.4, "gamma": 40.0,
    "poisson": 60.0, "binomial": 60.0, "multinomial": 60.0,
}  # fmt: skip
MOST_SHUFFLED = 1 << 20  # places that fit beside 44 random bits


def random_draw(key: np.ndarray, *, family: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Samples of a standard distribution: uniform, normal, exponential, gumbel, laplace, logistic.

    float16 and bfloat16 are the float32 numbers rounded, uniform ones rounded down so that 1 is
    never reached.
    """
    out = drawn(family, dtype, key, shape)
    if out is not None:
        return out
    wide = dtype == _FLOAT64
    out = _np_draws.draw(key_rows(key), family, prod(shape), wide)
    if family == "uniform" and dtype.itemsize == 2:  # the bits that the dtype has, and no others
        out = (out.view(np.uint32) & _TRUNCATED[dtype.name]).view(_FLOAT32)
    return out.astype(dtype, copy=False).reshape((*key.shape[:-1], *shape))


def random_integers(
    key: np.ndarray, *, shape: tuple[int, ...], low: int, high: int, dtype: Any
) -> np.ndarray | None:
    """Whole numbers in [low, high), at most 2 ** 32 of them, of one key; else None."""
    if key.ndim != 1 or dtype is not _INT64 or high - low > 1 << 32:
        return None
    return drawn("integers", dtype, key, shape, high - low, low)


def random_truncated_normal(
    key: np.ndarray, *, lower: float, upper: float, shape: tuple[int, ...], dtype: Any
) -> np.ndarray:
    """A standard normal under the condition that it lies in [lower, upper]."""
    ends = truncation(lower, upper, dtype)
    found = drawn("truncated", dtype, key, shape, *ends)
    if found is not None:
        return found
    below, above, least, most, mirrored = ends
    out = _np_draws.truncated(key_rows(key), prod(shape), dtype == _FLOAT64, below, above)
    out = -out if mirrored else out
    if dtype != _FLOAT64:
        out = out.astype(_FLOAT32).astype(dtype).astype(_FLOAT32)
    return out.clip(least, most).astype(dtype, copy=False).reshape((*key.shape[:-1], *shape))


def truncation(lower: float, upper: float, dtype: Any) -> tuple[float, float, float, float, int]:
    """Probabilities and bounds of a truncated normal, and whether its samples are negated.

    Probabilities near 0 are precise, those near 1 are not. The bounds are rounded inwards.
    """
    mirrored = lower > 0.0
    a, b = (-upper, -lower) if mirrored else (lower, upper)
    root = math.sqrt(0.5)
    below, above = 0.5 * math.erfc(-a * root), 0.5 * math.erfc(-b * root)
    return below, above, *_inside(lower, upper, dtype), int(mirrored)


def _inside(lower: float, upper: float, dtype: Any) -> list[float]:
    """The bounds in ``dtype``, rounded inwards."""
    out = []
    for bound, other in ((lower, upper), (upper, lower)):
        rounded = np.asarray(bound, dtype)
        outside = rounded < bound if bound < other else rounded > bound
        out.append(float(np.nextafter(rounded, np.asarray(other, dtype)) if outside else rounded))
    return out


def random_below(
    key: np.ndarray, span: np.ndarray, *, planes: int, shape: tuple[int, ...]
) -> np.ndarray:
    """Whole numbers in [0, span): span uint64 (0 stands for 2 ** 64), broadcast; -> uint64.

    floor(w * span / 2 ** bits) for a word w of 64 bits (2 planes) or 128 (4 planes). No value is
    likelier than another by more than span / 2 ** bits of its probability.
    """
    full = (*key.shape[:-1], *shape)
    spans = _flat(span, full)
    found = drawn(f"below{planes}", _UINT64, key, shape, spans, int(spans.size > 1))
    if found is not None:
        return found
    rows, n = key_rows(key), prod(shape)
    spans = spans.reshape(len(rows), n) if spans.size > 1 else spans
    return _np_draws.below(rows, spans, n, planes).reshape(full)


def with_next_key(
    key: np.ndarray, family: str, shape: tuple[int, ...], dtype: Any, more: tuple[Any, ...],
    out: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray] | None:  # fmt: skip
    """A small draw and the key of the call after it, by one call of a kernel that has been loaded.

    Args:
        key: (6,) uint32.
        family: as of ``draw``, or ``"integers"``, ``"bits"`` of uint32, ``"permutation"``,
            ``"chances"``.
        more: the span and the least of integers; the probabilities of chances, of that dtype.
        out: C-contiguous, for the samples of a standard distribution; None makes an array.
    """
    way = _small.get((family, shape, dtype))
    if way is None:
        way = _small_way(family, shape, dtype)
        if way is None:
            make = _MADE.get(family)
            if make is None or not philox.loaded or not 0 < prod(shape) < philox.FEW:
                return None
            return make(key, shape, dtype, *more)  # type: ignore[no-any-return]
    run, tasks, n, spec = way
    if out is None:
        out = any_size.empty(spec)
    following = any_size.empty(_KEY_SPEC)
    run([tasks, 0, key if key.flags.c_contiguous else dense(key), out, n, following, *more])
    return out, following


def _small_way(family: str, shape: tuple[int, ...], dtype: Any) -> tuple[Any, ...] | None:
    """Of a small draw by a kernel that has been loaded: that, its tasks and samples, its result."""
    found = philox.loaded.get((family, dtype))
    n = prod(shape)
    if found is None or not 0 < n < philox.FEW:
        return None
    if len(_small) >= _MOST_SMALL:
        _small.clear()
    run, like = found
    way = _small[family, shape, dtype] = run, -(-n // limits.DRAW_PIECE), n, [like, *shape]
    return way


_small: dict[tuple[str, tuple[int, ...], Any], tuple[Any, ...]] = {}
_MOST_SMALL = 1024
limits.on_change(_small.clear)
_KEY_LIKE = np.zeros(1, np.uint32)
_KEY_SPEC = [_KEY_LIKE, KEY_WORDS]


def _chances(
    key: np.ndarray, shape: tuple[int, ...], dtype: np.dtype, p: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """1 with probability p, else 0; None where one is no probability, and for 16-bit floats."""
    if dtype.char not in "fd":
        return None
    empty, wrong = any_size.empty, np.zeros(1, np.int64)
    out, following = empty([p, *shape]), empty(_KEY_SPEC)
    n = prod(shape)
    tasks = -(-n // limits.DRAW_PIECE)
    run = any_size.kernel("draws", "chances", "float32" if dtype.char == "f" else "float64")
    run([tasks, 0, dense(key), out, n, following, dense(p), wrong])
    return None if wrong.item() else (out, following)


def _permuted(
    key: np.ndarray, shape: tuple[int, ...], dtype: np.dtype
) -> tuple[np.ndarray, np.ndarray]:
    return random_permutation(key, shape=shape), philox.next_key(key)


# small draws that a kernel of another kind makes
_MADE: dict[str, Any] = {
    "permutation": _permuted,
    "chances": _chances,
}


def random_gamma(
    key: np.ndarray, alpha: np.ndarray, *, shape: tuple[int, ...], logarithm: bool
) -> np.ndarray:
    """Standard gamma variates of shape ``alpha``, broadcast, in its dtype; or their logarithms."""
    out = _rejection("rejection", "gamma", key, (alpha,), shape, int(logarithm))
    return out.astype(alpha.dtype, copy=False)


def random_poisson(
    key: np.ndarray, rate: np.ndarray, *, shape: tuple[int, ...], dtype: Any
) -> np.ndarray:
    """Poisson variates of ``rate``, broadcast; an invalid rate gives NaN."""
    return _counts(_rejection("rejection", "poisson", key, (rate,), shape), dtype)


def random_binomial(
    key: np.ndarray, count: np.ndarray, chance: np.ndarray, *, shape: tuple[int, ...], dtype: Any
) -> np.ndarray:
    """Binomial variates, of parameters that are broadcast; invalid ones give NaN."""
    return _counts(_rejection("trials", "binomial", key, (count, chance), shape), dtype)


def random_multinomial(
    key: np.ndarray, count: np.ndarray, weights: np.ndarray, *, shape: tuple[int, ...], dtype: Any
) -> np.ndarray:
    """How often each class, along the last axis, comes in ``count`` (..., 1) draws by weight."""
    full, classes = (*key.shape[:-1], *shape), shape[-1]
    out = np.empty(full, _FLOAT64)
    if out.size:
        tasks, n = out.size // classes, prod(shape) // classes
        left = _flat(count.astype(_FLOAT64, copy=False), (*full[:-1], 1))
        given = _flat(weights.astype(_FLOAT64, copy=False), full)
        any_size.kernel("trials", "multinomial", "d")([
            tasks, any_size.chunk_of(tasks, classes * PRICE["multinomial"]), dense(key), left,
            given, out, n, int(left.size > 1), int(given.size > 1), classes,
        ])  # fmt: skip
    return _counts(out, dtype)


def _counts(out: np.ndarray, dtype: Any) -> np.ndarray:
    """Counts in their dtype; an integer is -1 for NaN, and where it cannot hold the count."""
    if np.dtype(dtype).kind in "iu":
        out[~(out < np.iinfo(dtype).max)] = -1.0
    return out.astype(dtype, copy=False)


def _rejection(
    group: str, name: str, key: np.ndarray, parameters: tuple[np.ndarray, ...],
    shape: tuple[int, ...], *more: int,
) -> np.ndarray:  # fmt: skip
    """float64 variates of parameters that are broadcast."""
    full = (*key.shape[:-1], *shape)
    out = np.empty(full, _FLOAT64)
    tasks = out.size
    if tasks:
        words = [tasks, any_size.chunk_of(tasks, PRICE[name]), dense(key)]
        steps = []
        for parameter in parameters:
            given = _flat(parameter.astype(_FLOAT64, copy=False), full)
            words.append(given)
            steps.append(int(given.size > 1))
        any_size.kernel(group, name, "d")([*words, out, prod(shape), *steps, *more])
    return out


def random_permutation(key: np.ndarray, *, shape: tuple[int, ...]) -> np.ndarray:
    """Independent permutations of range(n) along the last axis: int64 (*B, *shape).

    The order of random 64-bit words. Up to 2 ** 20 places, the low bits of a word give way to its
    place, which makes the words distinct and leaves at least 44 random bits; beyond, equal words
    keep their order.
    """
    full = (*key.shape[:-1], *shape)
    n, size = shape[-1], prod(full)
    if size and n <= MOST_SHUFFLED and (philox.loaded or not philox.is_early(2 * size)):
        run = any_size.if_ready("shuffle", "permutation", "l")
        if run is not None:
            tasks, chunk, words, room = _shuffling(size // n, n)
            out, work = any_size.empty([_LIKE, *full]), any_size.empty([_LIKE, words])
            run([
                tasks, chunk, dense(key), out, n, prod(shape[:-1]), limits.RANKED_ROW, work, room,
                chunk or tasks,
            ])  # fmt: skip
            return out
    words = philox.random_bits(key, shape=(2, *shape))
    high, low = np.moveaxis(words, key.ndim - 1, 0)
    keys = (high.astype(np.uint64) << np.uint64(32)) | low
    if n > MOST_SHUFFLED:
        return np.argsort(keys, axis=-1, kind="stable").astype(np.int64, copy=False)
    mask = np.uint64((1 << max(n - 1, 0).bit_length()) - 1)
    keys &= ~mask
    keys |= np.arange(n, dtype=np.uint64)
    keys.sort(axis=-1)
    keys &= mask
    return keys.view(np.int64)


@lru_cache(1024)
def _shuffling(tasks: int, n: int) -> tuple[int, int, int, int]:
    """Permutations, how many at once, and the words that all take besides, and those at once."""
    chunk, room = any_size.chunk_of(tasks, shuffle_price(n)), shuffle_words(n)
    return tasks, chunk, -(-tasks // (chunk or tasks)) * room, room


limits.on_change(_shuffling.cache_clear)


def shuffle_price(n: int) -> float:
    """Nanoseconds of a permutation."""
    return 50 + n * (5 + n / 6) if n <= limits.RANKED_ROW else 1000 + 25.0 * n


def shuffle_words(n: int) -> int:
    """Words of memory that a permutation takes besides."""
    return n if n <= limits.RANKED_ROW else n + 2048


def _flat(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """A parameter as the kernels take it: one value, or one for each element of a shape."""
    if x.size != 1 and x.shape != shape:
        x = np.broadcast_to(x, shape)
    return dense(x).reshape(-1)
