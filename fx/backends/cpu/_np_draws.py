"""The kernels of the first small draws, in NumPy: the bits that Numba's kernels draw.

Loading a compiler takes some tenths of a second, a small draw with these a quarter of a
millisecond. They have the names and the arguments of ``_nb_philox`` and ``_nb_draws``.
"""

import numpy as np

from fx.backends.cpu import _formulas as formulas

_M0, _M1, _W0, _W1 = 0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85
_LOW = 0xFFFFFFFF
_DERIVE = 0x80000000


def _block(c0, c1, c2, c3, k0, k1):
    """Philox 4x32-10 of words held in 64 bits: uint64 arrays, or plain ints."""
    for _ in range(10):
        p0, p1 = c0 * _M0, c2 * _M1
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & _LOW, (p0 >> 32) ^ c3 ^ k1, p0 & _LOW
        k0, k1 = (k0 + _W0) & _LOW, (k1 + _W1) & _LOW
    return c0, c1, c2, c3


def _state(keys):
    """Of keys (n, 6): four columns (n, 1), or for one key four plain ints."""
    if len(keys) == 1:
        k0, k1, *counter = keys[0].tolist()
    else:
        k0, k1, *counter = keys.astype(np.uint64).T[:, :, None]
    return _block(*counter, k0, k1)


def fill(keys, out):
    """Row i of out (n, length) = the first `length` words drawn with keys[i]; keys (n, 6)."""
    n, length = out.shape
    k0, k1, c2, c3 = _state(keys)
    block = np.arange(-(-length // 4), dtype=np.uint64)[None]
    words = _block(block & _LOW, block >> 32, c2, c3, k0, k1)  # four of (n, blocks)
    out[...] = np.stack(words, -1).reshape(n, 4 * block.size)[:, :length]


def derive(keys, data, out):
    """out[i] = the key derived from keys[i] and data[i]; keys (n, 6), data (n,), out (n, 6)."""
    k0, k1, c2, c3 = _state(keys)
    words = _block(data.astype(np.uint64)[:, None], _DERIVE, c2, c3, k0, k1)
    out[:, :4] = np.concatenate(words, 1)
    out[:, 4:] = 0


def _words(keys, n, planes):
    """Words as draws take them: ``planes`` of (rows, n)."""
    words = np.empty((len(keys), planes * n), np.uint32)
    fill(keys, words)
    return [words[:, i * n : (i + 1) * n] for i in range(planes)]


def uniform32(keys, out):
    """[0, 1) in steps of 2 ** -24."""
    (w,) = _words(keys, out.shape[1], 1)
    out[...] = (w >> 8).astype(np.float32) * np.float32(2.0**-24)


def uniform64(keys, out):
    """[0, 1) in steps of 2 ** -53."""
    high, low = _words(keys, out.shape[1], 2)
    out[...] = ((high.astype(np.uint64) << 21) | (low >> 11)).astype(np.float64) * 2.0**-53


def normal32(keys, out):
    """The normal quantile of 32 bits: |z| <= 6.4."""
    (w,) = _words(keys, out.shape[1], 1)
    half, scale = np.float32(0.5), np.float32(2.0**-32)
    x = w.view(np.int32)
    y = x ^ (x >> 31)  # x, or -1 - x where it is negative
    q = (x.astype(np.float32) + half) * scale
    tail = ((0x7FFFFFFF - y).astype(np.float32) + half) * scale
    bits = tail.view(np.int32) + np.int32(0x3F800000 - 0x3F3504F3)
    k = ((bits >> 23) - 127).astype(np.float32)
    m = ((bits & 0x007FFFFF) + 0x3F3504F3).view(np.float32)
    t = np.sqrt(-formulas.log_of_parts32(k, m - np.float32(1.0)))
    _choose(q, np.float32(0.425), formulas.center32(q), formulas.outer32(t), out)


def normal64(keys, out):
    """The normal quantile of 64 bits: |z| <= 9.2."""
    high, low = _words(keys, out.shape[1], 2)
    x = ((high.astype(np.uint64) << 32) | low).view(np.int64)
    y = x ^ (x >> 63)
    q = (x.astype(np.float64) + 0.5) * 2.0**-64
    tail = ((0x7FFFFFFFFFFFFFFF - y).astype(np.float64) + 0.5) * 2.0**-64
    bits = tail.view(np.int64) + (0x3FF0000000000000 - 0x3FE6A09E00000000)
    k = ((bits >> 52) - 1023).astype(np.float64)
    m = ((bits & 0x000FFFFFFFFFFFFF) + 0x3FE6A09E00000000).view(np.float64)
    t = np.sqrt(-formulas.log_of_parts64(k, m - 1.0))
    with np.errstate(all="ignore"):  # each formula sees also the places of the other
        outer = np.where(t <= 5.0, formulas.middle64(t), formulas.far64(t))
    _choose(q, 0.425, formulas.center64(q), outer, out)


def _choose(q, split, center, outer, out):
    out[...] = np.where(np.abs(q) <= split, center, np.where(q < 0, -outer, outer))


def _high_product(a, b):
    """The upper 64 bits of the 128-bit products of uint64 arrays."""
    a0, a1, b0, b1 = a & _LOW, a >> 32, b & _LOW, b >> 32
    middle = a1 * b0 + ((a0 * b0) >> 32)
    other = a0 * b1 + (middle & _LOW)
    return a1 * b1 + (middle >> 32) + (other >> 32)


def below(words, spans, out):
    """floor(w * span / 2 ** bits) of a word w of 64 or 128 bits; a span of 0 stands for 2 ** 64.

    words (rows, 2 or 4, n) uint32; spans (rows * n) or (1) uint64; out (rows, n) uint64.
    """
    span = spans.reshape(out.shape) if spans.size > 1 else spans
    words = words.astype(np.uint64)
    w = (words[:, 0] << 32) | words[:, 1]
    value = _high_product(w, span)
    if words.shape[1] == 4:
        rest = (words[:, 2] << 32) | words[:, 3]
        low = w * span
        value += low + _high_product(rest, span) < low  # the carry
    out[...] = np.where(span == 0, w, value)
