"""Numba kernels that turn uniform words into samples of a distribution, one element at a time.

``words`` is (rows, planes, n) uint32: plane 0 holds the high word of every element, plane 1 the low
word of a 64-bit draw. A draw with one plane is thus the coarse form of the draw with two.
"""

import numpy as np
from numba import float32, float64, int32, int64, njit, uint32, uint64

from fx.backends.cpu._nb_quantiles import log64, normal_quantile32, normal_quantile64

_32 = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


@njit(inline="always", error_model="numpy")
def open_unit(high, low, wide):
    """A float64 in the open interval (0, 1), from 52 bits if ``wide``, else from 32."""
    if wide:
        n = (uint64(high) << np.uint64(20)) | uint64(uint32(low) >> np.uint32(12))
        return (float64(int64(n)) + 0.5) * 2.0**-52
    return (float64(high) + 0.5) * 2.0**-32


@njit(inline="always", error_model="numpy")
def normal64(high, low):
    """A standard normal float64 from 64 bits, as precise in the tails as at the center."""
    x = int64((uint64(high) << _32) | uint64(low))
    y = x ^ (x >> np.int64(63))  # x, or -1 - x where it is negative
    q = (float64(x) + 0.5) * 2.0**-64
    tail = (float64(np.int64(0x7FFFFFFFFFFFFFFF) - y) + 0.5) * 2.0**-64
    return normal_quantile64(q, tail)


@njit(cache=True, nogil=True, error_model="numpy")
def uniform32(words, out):
    """[0, 1) in steps of 2 ** -24."""
    for row in range(out.shape[0]):
        w = words[row, 0]
        for i in range(out.shape[1]):
            out[row, i] = float32(int32(w[i] >> np.uint32(8))) * np.float32(2.0**-24)


@njit(cache=True, nogil=True, error_model="numpy")
def uniform64(words, out):
    """[0, 1) in steps of 2 ** -53."""
    for row in range(out.shape[0]):
        high, low = words[row, 0], words[row, 1]
        for i in range(out.shape[1]):
            n = (uint64(high[i]) << np.uint64(21)) | uint64(low[i] >> np.uint32(11))
            out[row, i] = float64(int64(n)) * 2.0**-53


@njit(cache=True, nogil=True, error_model="numpy")
def standard_normal32(words, out):
    """The normal quantile of 32 bits: |z| <= 6.4."""
    half, scale = np.float32(0.5), np.float32(2.0**-32)
    for row in range(out.shape[0]):
        w = words[row, 0]
        for i in range(out.shape[1]):
            x = int32(w[i])
            y = int32(x ^ (x >> np.int32(31)))
            q = (float32(x) + half) * scale
            tail = (float32(int32(np.int32(0x7FFFFFFF) - y)) + half) * scale
            out[row, i] = normal_quantile32(q, tail)


@njit(cache=True, nogil=True, error_model="numpy")
def standard_normal64(words, out):
    """The normal quantile of 64 bits: |z| <= 9.2."""
    for row in range(out.shape[0]):
        high, low = words[row, 0], words[row, 1]
        for i in range(out.shape[1]):
            out[row, i] = normal64(high[i], low[i])


@njit(cache=True, nogil=True, error_model="numpy")
def exponential(words, out):
    """-log u."""
    wide = words.shape[1] == 2
    for row in range(out.shape[0]):
        high, low = words[row, 0], words[row, -1]
        for i in range(out.shape[1]):
            out[row, i] = -log64(open_unit(high[i], low[i], wide))


@njit(cache=True, nogil=True, error_model="numpy")
def gumbel(words, out):
    """-log(-log u)."""
    wide = words.shape[1] == 2
    for row in range(out.shape[0]):
        high, low = words[row, 0], words[row, -1]
        for i in range(out.shape[1]):
            out[row, i] = -log64(-log64(open_unit(high[i], low[i], wide)))


@njit(cache=True, nogil=True, error_model="numpy")
def laplace(words, out):
    """log 2u below the median, -log 2(1 - u) above it."""
    wide = words.shape[1] == 2
    for row in range(out.shape[0]):
        high, low = words[row, 0], words[row, -1]
        for i in range(out.shape[1]):
            u = open_unit(high[i], low[i], wide)
            magnitude = log64(2.0 * min(u, 1.0 - u))
            out[row, i] = magnitude if u < 0.5 else -magnitude


@njit(cache=True, nogil=True, error_model="numpy")
def logistic(words, out):
    """log(u / (1 - u))."""
    wide = words.shape[1] == 2
    for row in range(out.shape[0]):
        high, low = words[row, 0], words[row, -1]
        for i in range(out.shape[1]):
            u = open_unit(high[i], low[i], wide)
            out[row, i] = log64(u / (1.0 - u))


@njit(cache=True, nogil=True, error_model="numpy")
def truncated_normal(words, out, below, above):
    """The normal quantile of (below, above), which are probabilities."""
    wide = words.shape[1] == 2
    for row in range(out.shape[0]):
        high, low = words[row, 0], words[row, -1]
        for i in range(out.shape[1]):
            p = below + open_unit(high[i], low[i], wide) * (above - below)
            out[row, i] = normal_quantile64(p - 0.5, max(min(p, 1.0 - p), 1e-300))


@njit(inline="always")
def _high_product(a, b):
    """The upper 64 bits of the 128-bit product of two uint64."""
    a0, a1, b0, b1 = a & _LOW, a >> _32, b & _LOW, b >> _32
    middle = a1 * b0 + ((a0 * b0) >> _32)
    other = a0 * b1 + (middle & _LOW)
    return a1 * b1 + (middle >> _32) + (other >> _32)


@njit(cache=True, nogil=True)
def below(words, spans, out):
    """floor(w * span / 2 ** bits) of a word w of 64 or 128 bits; a span of 0 stands for 2 ** 64.

    words (rows, 2 or 4, n) uint32; spans (rows * n) or (1) uint64; out (rows, n) uint64.
    """
    rows, n = out.shape
    step = 1 if spans.size > 1 else 0
    wide = words.shape[1] == 4
    for row in range(rows):
        for i in range(n):
            span = spans[(row * n + i) * step]
            w = (uint64(words[row, 0, i]) << _32) | uint64(words[row, 1, i])
            if span == 0:
                out[row, i] = w
                continue
            value = _high_product(w, span)
            if wide:
                rest = (uint64(words[row, 2, i]) << _32) | uint64(words[row, 3, i])
                carried = w * span + _high_product(rest, span)
                value += uint64(1) if carried < w * span else uint64(0)
            out[row, i] = value
