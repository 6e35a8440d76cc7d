"""Draws in NumPy: the reference of the compiled kernels, to the bit, and what serves at first.

Loading a compiler takes some tenths of a second, a small draw with these a quarter of a
millisecond. ``keys`` are (rows, 6) uint32, what is drawn is (rows, n).
"""

from collections.abc import Callable

import numpy as np

from fx.backends.cpu import _formulas as formulas

_LOW = 0xFFFFFFFF
_DERIVE = 0x80000000


def _state(keys: np.ndarray) -> tuple:
    """Of keys (n, 6): four columns (n, 1), or for one key four plain ints."""
    if len(keys) == 1:
        k0, k1, *counter = keys[0].tolist()
    else:
        k0, k1, *counter = keys.astype(np.uint64).T[:, :, None]
    return formulas.philox(*counter, k0, k1)


def bits(keys: np.ndarray, n: int) -> np.ndarray:
    """The first n words of each key: uint32."""
    k0, k1, c2, c3 = _state(keys)
    block = np.arange(-(-n // 4), dtype=np.uint64)[None]
    words = formulas.philox(block & _LOW, block >> 32, c2, c3, k0, k1)  # four of (rows, blocks)
    return np.stack(words, -1).reshape(len(keys), 4 * block.size)[:, :n].astype(np.uint32)


def derive(keys: np.ndarray, data: np.ndarray) -> np.ndarray:
    """The keys derived from keys[i] and data[i]: (n, 6)."""
    k0, k1, c2, c3 = _state(keys)
    words = formulas.philox(data.astype(np.uint64)[:, None], _DERIVE, c2, c3, k0, k1)
    return np.concatenate([*words, words[0] * 0, words[0] * 0], 1).astype(np.uint32)


def draw(keys: np.ndarray, family: str, n: int, wide: bool) -> np.ndarray:
    """n samples of a standard distribution for each key: float64 if ``wide``, else float32."""
    planes = words(keys, n, 1 + wide)
    if family == "uniform":
        return _uniform(*planes)
    if family == "normal":
        return _normal64(*planes) if wide else _normal32(*planes)
    return _OF_UNIT[family](open_unit(*planes)).astype(np.float64 if wide else np.float32)


def words(keys: np.ndarray, n: int, planes: int) -> list[np.ndarray]:
    """Words as draws take them: ``planes`` of (rows, n), the highest first."""
    found = bits(keys, planes * n)
    return [found[:, i * n : (i + 1) * n] for i in range(planes)]


def _uniform(high: np.ndarray, low: np.ndarray | None = None) -> np.ndarray:
    """[0, 1) in steps of 2 ** -24, or 2 ** -53."""
    if low is None:
        return (high >> 8).astype(np.float32) * np.float32(2.0**-24)
    return ((high.astype(np.uint64) << 21) | (low >> 11)).astype(np.float64) * 2.0**-53


def open_unit(high: np.ndarray, low: np.ndarray | None = None) -> np.ndarray:
    """A float64 in the open interval (0, 1), from 32 bits, or from 52."""
    if low is None:
        return (high.astype(np.float64) + 0.5) * 2.0**-32
    whole = (high.astype(np.uint64) << 20) | (low >> 12)
    return (whole.astype(np.float64) + 0.5) * 2.0**-52


def _log32(x: np.ndarray) -> np.ndarray:
    bits = x.view(np.int32) + np.int32(0x3F800000 - 0x3F3504F3)
    k = ((bits >> 23) - 127).astype(np.float32)
    m = ((bits & 0x007FFFFF) + 0x3F3504F3).view(np.float32)
    return formulas.log_of_parts32(k, m - np.float32(1.0))


def _log64(x: np.ndarray) -> np.ndarray:
    bits = x.view(np.int64) + (0x3FF0000000000000 - 0x3FE6A09E00000000)
    k = ((bits >> 52) - 1023).astype(np.float64)
    m = ((bits & 0x000FFFFFFFFFFFFF) + 0x3FE6A09E00000000).view(np.float64)
    return formulas.log_of_parts64(k, m - 1.0)


def _laplace(u: np.ndarray) -> np.ndarray:
    size = _log64(2.0 * np.minimum(u, 1.0 - u))
    return np.where(u < 0.5, size, -size)


_OF_UNIT: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exponential": lambda u: -_log64(u),
    "gumbel": lambda u: -_log64(-_log64(u)),
    "laplace": _laplace,
    "logistic": lambda u: _log64(u / (1.0 - u)),
}


def _normal32(w: np.ndarray) -> np.ndarray:
    """The normal quantile of 32 bits: |z| <= 6.4."""
    half, scale = np.float32(0.5), np.float32(2.0**-32)
    x = w.view(np.int32)
    y = x ^ (x >> 31)  # x, or -1 - x where it is negative
    q = (x.astype(np.float32) + half) * scale
    tail = ((0x7FFFFFFF - y).astype(np.float32) + half) * scale
    t = np.sqrt(-_log32(tail))
    return _choose(q, np.float32(0.425), formulas.center32(q), formulas.outer32(t))


def _normal64(high: np.ndarray, low: np.ndarray) -> np.ndarray:
    """The normal quantile of 64 bits: |z| <= 9.2."""
    x = ((high.astype(np.uint64) << 32) | low).view(np.int64)
    y = x ^ (x >> 63)
    q = (x.astype(np.float64) + 0.5) * 2.0**-64
    tail = ((0x7FFFFFFFFFFFFFFF - y).astype(np.float64) + 0.5) * 2.0**-64
    return normal_quantile(q, tail)


def normal_quantile(q: np.ndarray, tail: np.ndarray) -> np.ndarray:
    """The x with P(X <= x) = 1/2 + q for a standard normal X; tail = 1/2 - |q| > 1e-300."""
    t = np.sqrt(-_log64(tail))
    with np.errstate(all="ignore"):  # each formula sees also the places of the other
        outer = np.where(t <= 5.0, formulas.middle64(t), formulas.far64(t))
    return _choose(q, 0.425, formulas.center64(q), outer)


def _choose(q: np.ndarray, split: float, center: np.ndarray, outer: np.ndarray) -> np.ndarray:
    return np.where(np.abs(q) <= split, center, np.where(q < 0, -outer, outer))


def truncated(keys: np.ndarray, n: int, wide: bool, below: float, above: float) -> np.ndarray:
    """The normal quantile of a uniform probability in (below, above): float64."""
    p = below + open_unit(*words(keys, n, 1 + wide)) * (above - below)
    return normal_quantile(p - 0.5, np.maximum(np.minimum(p, 1.0 - p), 1e-300))


def _high_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The upper 64 bits of the 128-bit products of uint64 arrays."""
    a0, a1, b0, b1 = a & _LOW, a >> 32, b & _LOW, b >> 32
    middle = a1 * b0 + ((a0 * b0) >> 32)
    other = a0 * b1 + (middle & _LOW)
    return a1 * b1 + (middle >> 32) + (other >> 32)


def below(keys: np.ndarray, spans: np.ndarray, n: int, planes: int) -> np.ndarray:
    """floor(w * span / 2 ** bits) of a word w of 64 or 128 bits; a span of 0 stands for 2 ** 64.

    spans (rows, n) or (1) uint64; -> (rows, n) uint64.
    """
    halves = [w.astype(np.uint64) for w in words(keys, n, planes)]
    w = (halves[0] << 32) | halves[1]
    value = _high_product(w, spans)
    if planes == 4:
        rest = (halves[2] << 32) | halves[3]
        low = w * spans
        value += low + _high_product(rest, spans) < low  # the carry
    return np.where(spans == 0, w, value)
