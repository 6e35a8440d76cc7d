"""Samples of distributions, drawn with keys: uint32 (*B, 6) -> (*B, *shape).

Which words an element gets is the contract of every backend. A draw of k words an element reads
``random_bits`` of shape (k, *shape): the first plane holds the highest words. A float32 draw takes
one plane and a float64 draw two, so the float32 numbers are the float64 numbers, rounded. The
rejection samplers are described in ``_nb_rejection``.
"""

from __future__ import annotations

import math
from functools import cache
from math import prod
from typing import Any

import numpy as np

from fx import limits
from fx.backends.cpu import _np_draws, philox
from fx.backends.cpu._arrays import contiguous
from fx.backends.cpu.llvm import library
from fx.backends.cpu.philox import KEY_WORDS, is_early, random_bits

_FLOAT32 = np.dtype(np.float32)
_FLOAT64 = np.dtype(np.float64)
_TRUNCATED = {"float16": np.uint32(0xFFFFE000), "bfloat16": np.uint32(0xFFFF0000)}

_nb: Any = None


def _kernels() -> Any:
    global _nb
    if _nb is None:
        from fx.backends.cpu import _nb_draws

        _nb = _nb_draws
    return _nb


def _words(key: np.ndarray, planes: int, shape: tuple[int, ...]) -> np.ndarray:
    """Words as the kernels take them: (rows, planes, n)."""
    words = random_bits(key, shape=(planes, *shape))
    return words.reshape(math.prod(key.shape[:-1]), planes, math.prod(shape))


def random_draw(key: np.ndarray, *, family: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Samples of a standard distribution: uniform, normal, exponential, gumbel, laplace, logistic.

    float16 and bfloat16 are the float32 numbers rounded, uniform ones rounded down so that 1 is
    never reached.
    """
    nb = _nb
    if key.ndim == 1:
        like = _LIKES.get(dtype)
        n = prod(shape)
        if nb is None and not _loaded and family in _FIRST and is_early(n):
            nb = _np_draws
        elif like is not None and n:
            run = _loaded.get((family, dtype)) or _native(family, dtype)
            if run is not None:
                out = library.empty([like, *shape])
                chunk = 0 if n < _FEW else _chunk(n)
                run([-(-n // limits.DRAW_PIECE), chunk, _dense(key), out, n, None])
                return out
    elif nb is None and family in _FIRST and is_early(math.prod((*key.shape[:-1], *shape))):
        nb = _np_draws
    wide = dtype == _FLOAT64
    out = np.empty((*key.shape[:-1], *shape), _FLOAT64 if wide else _FLOAT32)
    keys, rows = _rows(key, out, shape)
    if nb is None:
        nb = _kernels()
    if family == "uniform":
        (nb.uniform64 if wide else nb.uniform32)(keys, rows)
    elif family == "normal":
        (nb.normal64 if wide else nb.normal32)(keys, rows)
    else:
        getattr(nb, family)(keys, rows, wide)
    if out.dtype == dtype:
        return out
    if family == "uniform":  # keep the bits that the narrow dtype has, drop the others
        out = (out.view(np.uint32) & _TRUNCATED[dtype.name]).view(_FLOAT32)
    return out.astype(dtype)


_FIRST = ("uniform", "normal")
_FEW = 2048  # samples: that are drawn without a word about threads
_INT64 = np.dtype(np.int64)
_UINT32 = np.dtype(np.uint32)
_LIKES = {dtype: np.zeros(1, dtype) for dtype in (_FLOAT32, _FLOAT64, _INT64, _UINT32)}
_loaded: dict[Any, Any] = {}  # kernels that have been asked for
limits.on_change(_loaded.clear)


def _dense(key: np.ndarray) -> np.ndarray:
    return key if key.flags.c_contiguous else key.copy()


def _chunk(n: int) -> int:
    tasks = -(-n // limits.DRAW_PIECE)
    return library.chunk_of(tasks, 1.5 * min(n, limits.DRAW_PIECE))


def _native(family: str, dtype: Any) -> Any:
    """The kernel of a family; None where there is no compiler."""
    if not library.available():
        return None
    found = _loaded[family, dtype] = library.kernel("draws", family, dtype.char)
    return found


def random_integers(
    key: np.ndarray, *, shape: tuple[int, ...], low: int, high: int, dtype: Any
) -> np.ndarray | None:
    """Whole numbers in [low, high), at most 2 ** 32 of them, of one key; else None."""
    if key.ndim != 1 or dtype is not _INT64 or high - low > 1 << 32:
        return None
    n = math.prod(shape)
    if not n or (_nb is None and not _loaded and is_early(2 * n)):
        return None
    run = _loaded.get(("integers", dtype)) or _native("integers", dtype)
    if run is None:
        return None
    out = library.empty([_LIKES[_INT64], *shape])
    tasks, chunk = -(-n // limits.DRAW_PIECE), 0 if n < _FEW else _chunk(n)
    run([tasks, chunk, _dense(key), out, n, None, high - low, low])
    return out


_KEY_LIKE = np.zeros(1, np.uint32)


def with_next_key(
    key: np.ndarray, family: str, shape: tuple[int, ...], dtype: Any, *more: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """A small draw and the key of the call after it, by one call of a kernel that has been loaded.

    Args:
        key: (6,) uint32.
        family: as of ``draw``, or ``"integers"``, or ``"bits"`` of uint32.
        more: the span and the least of integers.
    """
    run = _loaded.get((family, dtype)) if family != "bits" else philox.loaded()
    n = prod(shape)
    if run is None or not 0 < n < _FEW:
        return None
    if not key.flags.c_contiguous:
        key = key.copy()
    empty = library.empty
    out, following = empty([_LIKES[dtype], *shape]), empty([_KEY_LIKE, KEY_WORDS])
    run([-(-n // limits.DRAW_PIECE), 0, key, out, n, following, *more])
    return out, following


def _rows(key: np.ndarray, out: np.ndarray, shape: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    """The keys (rows, 6) and the output (rows, n), as the kernels take them."""
    if key.ndim == 1:
        return contiguous(key)[None], out.reshape(1, -1)
    rows = math.prod(key.shape[:-1])
    return contiguous(key).reshape(rows, KEY_WORDS), out.reshape(rows, math.prod(shape))


def random_truncated_normal(
    key: np.ndarray, *, lower: float, upper: float, shape: tuple[int, ...], dtype: Any
) -> np.ndarray:
    """A standard normal under the condition that it lies in [lower, upper]."""
    mirrored = lower > 0.0  # probabilities near 0 are precise, those near 1 are not
    a, b = (-upper, -lower) if mirrored else (lower, upper)
    out = np.empty((*key.shape[:-1], *shape), _FLOAT64)
    root = math.sqrt(0.5)
    below, above = 0.5 * math.erfc(-a * root), 0.5 * math.erfc(-b * root)
    _kernels().truncated_normal(*_rows(key, out, shape), dtype == _FLOAT64, below, above)
    if mirrored:
        np.negative(out, out=out)
    clipped = np.clip(out.astype(dtype), *_inside(lower, upper, dtype))  # bfloat16: in float32
    return clipped.astype(dtype, copy=False)


def _inside(lower: float, upper: float, dtype: Any) -> list[Any]:
    """The bounds in ``dtype``, rounded inwards."""
    out = []
    for bound, other in ((lower, upper), (upper, lower)):
        rounded = np.asarray(bound, dtype)
        outside = rounded < bound if bound < other else rounded > bound
        out.append(np.nextafter(rounded, np.asarray(other, dtype)) if outside else rounded)
    return out


def random_below(
    key: np.ndarray, span: np.ndarray, *, planes: int, shape: tuple[int, ...]
) -> np.ndarray:
    """Whole numbers in [0, span): span uint64 (0 stands for 2 ** 64), broadcast; -> uint64.

    floor(w * span / 2 ** bits) for a word w of 64 bits (2 planes) or 128 (4 planes). No value is
    likelier than another by more than span / 2 ** bits of its probability.
    """
    words = _words(key, planes, shape)
    out = np.empty((*key.shape[:-1], *shape), np.uint64)
    early = _nb is None and is_early(words.size)
    kernels = _np_draws if early else _kernels()
    kernels.below(words, _flat(span, out), out.reshape(words.shape[0], words.shape[2]))
    return out


def random_gamma(
    key: np.ndarray, alpha: np.ndarray, *, shape: tuple[int, ...], logarithm: bool
) -> np.ndarray:
    """Standard gamma variates of shape ``alpha``, broadcast, in its dtype; or their logarithms."""
    from fx.backends.cpu import _nb_rejection as nb

    out = np.empty((*key.shape[:-1], *shape), _FLOAT64)
    keys, rows = _rows(key, out, shape)
    nb.gamma(keys, _flat(alpha, out, _FLOAT64), rows, logarithm)
    return out.astype(alpha.dtype, copy=False)


def random_poisson(
    key: np.ndarray, rate: np.ndarray, *, shape: tuple[int, ...], dtype: Any
) -> np.ndarray:
    """Poisson variates of ``rate``, broadcast; an invalid rate gives NaN.

    Integers are -1 there, and where they cannot hold the count.
    """
    from fx.backends.cpu import _nb_rejection as nb

    out = np.empty((*key.shape[:-1], *shape), _FLOAT64)
    keys, rows = _rows(key, out, shape)
    nb.poisson(keys, _flat(rate, out, _FLOAT64), _log_factorials(), rows)
    if np.dtype(dtype).kind in "iu":
        out[~(out < np.iinfo(dtype).max)] = -1.0
    return out.astype(dtype, copy=False)


@cache
def _log_factorials() -> np.ndarray:
    return np.array([math.lgamma(k + 1) for k in range(16)])


def random_permutation(key: np.ndarray, *, shape: tuple[int, ...]) -> np.ndarray:
    """Independent permutations of range(n) along the last axis: int64 (*B, *shape).

    The order of random 64-bit words. Up to 2 ** 20 places, the low bits of a word give way to its
    place, which makes the words distinct and leaves at least 44 random bits; beyond, equal words
    keep their order.
    """
    words = random_bits(key, shape=(2, *shape)).reshape(*key.shape[:-1], 2, *shape)
    high, low = np.moveaxis(words, key.ndim - 1, 0)
    keys = (high.astype(np.uint64) << np.uint64(32)) | low
    n = shape[-1]
    if n > 1 << 20:
        return np.argsort(keys, axis=-1, kind="stable").astype(np.int64, copy=False)
    mask = np.uint64((1 << max(n - 1, 0).bit_length()) - 1)
    keys &= ~mask
    keys |= np.arange(n, dtype=np.uint64)
    keys.sort(axis=-1)
    keys &= mask
    return keys.view(np.int64)


def _flat(x: np.ndarray, out: np.ndarray, dtype: Any = None) -> np.ndarray:
    """A parameter as the kernels take it: one value, or one for each element of ``out``."""
    if dtype is not None and x.dtype != dtype:
        x = x.astype(dtype)
    if x.size != 1:
        x = np.broadcast_to(x, out.shape)
    return contiguous(x).reshape(-1)
