"""Numba kernels that draw samples of a distribution: keys (rows, 6) uint32, out (rows, n).

Element i of n takes word i of the bits of its key; a ``wide`` draw, of 64 bits, takes word n + i as
well, for its low half. A narrow draw is thus the coarse form of the wide one. Words are made and
used a piece at a time, so that they stay in the nearest cache.
"""

import numpy as np
from numba import float32, float64, int32, int64, njit, uint32, uint64

from fx import limits
from fx.backends.cpu._nb_philox import _state, fill_from
from fx.backends.cpu._nb_quantiles import log64, normal_quantile32, normal_quantile64

_32 = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_PIECE = limits.NUMBA_PIECE


@njit(inline="always", error_model="numpy")
def open_unit(high, low, wide):
    """A float64 in the open interval (0, 1), from 52 bits if ``wide``, else from 32."""
    if wide:
        n = (uint64(high) << np.uint64(20)) | uint64(uint32(low) >> np.uint32(12))
        return (float64(int64(n)) + 0.5) * 2.0**-52
    return (float64(high) + 0.5) * 2.0**-32


@njit(inline="always", error_model="numpy")
def normal_of(high, low):
    """A standard normal float64 from 64 bits, as precise in the tails as at the center."""
    x = int64((uint64(high) << _32) | uint64(low))
    y = x ^ (x >> np.int64(63))  # x, or -1 - x where it is negative
    q = (float64(x) + 0.5) * 2.0**-64
    tail = (float64(np.int64(0x7FFFFFFFFFFFFFFF) - y) + 0.5) * 2.0**-64
    return normal_quantile64(q, tail)


@njit
def _buffer(n):
    """Room for the words of a piece, wherever in a block they begin."""
    return np.empty(min(n, _PIECE) + 3, np.uint32)


@njit
def _read(state, first, count, buffer):
    """Words ``first``, first + 1, ... of a state, as a view of the buffer."""
    skip = first % 4
    fill_from(state, first // 4, buffer[: skip + count])
    return buffer[skip : skip + count]


@njit(cache=limits.NORMAL_AT_START, nogil=True, error_model="numpy")
def uniform32(keys, out):
    """[0, 1) in steps of 2 ** -24."""
    rows, n = out.shape
    buffer = _buffer(n)
    for row in range(rows):
        state = _state(keys[row])
        for start in range(0, n, _PIECE):
            count = min(_PIECE, n - start)
            piece = out[row, start : start + count]
            w = _read(state, start, count, buffer)
            for i in range(count):
                piece[i] = float32(int32(w[i] >> np.uint32(8))) * np.float32(2.0**-24)


@njit(cache=limits.NORMAL_AT_START, nogil=True, error_model="numpy")
def uniform64(keys, out):
    """[0, 1) in steps of 2 ** -53."""
    rows, n = out.shape
    buffer, other = _buffer(n), _buffer(n)
    for row in range(rows):
        state = _state(keys[row])
        for start in range(0, n, _PIECE):
            count = min(_PIECE, n - start)
            piece = out[row, start : start + count]
            high = _read(state, start, count, buffer)
            low = _read(state, n + start, count, other)
            for i in range(count):
                whole = (uint64(high[i]) << np.uint64(21)) | uint64(low[i] >> np.uint32(11))
                piece[i] = float64(int64(whole)) * 2.0**-53


@njit(cache=limits.NORMAL_AT_START, nogil=True, error_model="numpy")
def normal32(keys, out):
    """The normal quantile of 32 bits: |z| <= 6.4."""
    rows, n = out.shape
    buffer = _buffer(n)
    half, scale = np.float32(0.5), np.float32(2.0**-32)
    for row in range(rows):
        state = _state(keys[row])
        for start in range(0, n, _PIECE):
            count = min(_PIECE, n - start)
            piece = out[row, start : start + count]
            w = _read(state, start, count, buffer)
            for i in range(count):
                x = int32(w[i])
                y = int32(x ^ (x >> np.int32(31)))
                q = (float32(x) + half) * scale
                tail = (float32(int32(np.int32(0x7FFFFFFF) - y)) + half) * scale
                piece[i] = normal_quantile32(q, tail)


@njit(cache=limits.NORMAL_AT_START, nogil=True, error_model="numpy")
def normal64(keys, out):
    """The normal quantile of 64 bits: |z| <= 9.2."""
    rows, n = out.shape
    buffer, other = _buffer(n), _buffer(n)
    for row in range(rows):
        state = _state(keys[row])
        for start in range(0, n, _PIECE):
            count = min(_PIECE, n - start)
            piece = out[row, start : start + count]
            high = _read(state, start, count, buffer)
            low = _read(state, n + start, count, other)
            for i in range(count):
                piece[i] = normal_of(high[i], low[i])


@njit(cache=limits.NORMAL_AT_START, nogil=True, error_model="numpy")
def exponential(keys, out, wide):
    """-log u."""
    rows, n = out.shape
    buffer, other = _buffer(n), _buffer(n)
    for row in range(rows):
        state = _state(keys[row])
        for start in range(0, n, _PIECE):
            count = min(_PIECE, n - start)
            piece = out[row, start : start + count]
            high = _read(state, start, count, buffer)
            low = _read(state, n + start, count, other) if wide else high
            for i in range(count):
                piece[i] = -log64(open_unit(high[i], low[i], wide))


@njit(cache=limits.NORMAL_AT_START, nogil=True, error_model="numpy")
def gumbel(keys, out, wide):
    """-log(-log u)."""
    rows, n = out.shape
    buffer, other = _buffer(n), _buffer(n)
    for row in range(rows):
        state = _state(keys[row])
        for start in range(0, n, _PIECE):
            count = min(_PIECE, n - start)
            piece = out[row, start : start + count]
            high = _read(state, start, count, buffer)
            low = _read(state, n + start, count, other) if wide else high
            for i in range(count):
                piece[i] = -log64(-log64(open_unit(high[i], low[i], wide)))


@njit(cache=limits.NORMAL_AT_START, nogil=True, error_model="numpy")
def laplace(keys, out, wide):
    """log 2u below the median, -log 2(1 - u) above it."""
    rows, n = out.shape
    buffer, other = _buffer(n), _buffer(n)
    for row in range(rows):
        state = _state(keys[row])
        for start in range(0, n, _PIECE):
            count = min(_PIECE, n - start)
            piece = out[row, start : start + count]
            high = _read(state, start, count, buffer)
            low = _read(state, n + start, count, other) if wide else high
            for i in range(count):
                u = open_unit(high[i], low[i], wide)
                magnitude = log64(2.0 * min(u, 1.0 - u))
                piece[i] = magnitude if u < 0.5 else -magnitude


@njit(cache=limits.NORMAL_AT_START, nogil=True, error_model="numpy")
def logistic(keys, out, wide):
    """log(u / (1 - u))."""
    rows, n = out.shape
    buffer, other = _buffer(n), _buffer(n)
    for row in range(rows):
        state = _state(keys[row])
        for start in range(0, n, _PIECE):
            count = min(_PIECE, n - start)
            piece = out[row, start : start + count]
            high = _read(state, start, count, buffer)
            low = _read(state, n + start, count, other) if wide else high
            for i in range(count):
                u = open_unit(high[i], low[i], wide)
                piece[i] = log64(u / (1.0 - u))


@njit(cache=limits.NORMAL_AT_START, nogil=True, error_model="numpy")
def truncated_normal(keys, out, wide, below, above):
    """The normal quantile of a uniform probability in (below, above)."""
    rows, n = out.shape
    buffer, other = _buffer(n), _buffer(n)
    for row in range(rows):
        state = _state(keys[row])
        for start in range(0, n, _PIECE):
            count = min(_PIECE, n - start)
            piece = out[row, start : start + count]
            high = _read(state, start, count, buffer)
            low = _read(state, n + start, count, other) if wide else high
            for i in range(count):
                p = below + open_unit(high[i], low[i], wide) * (above - below)
                piece[i] = normal_quantile64(p - 0.5, max(min(p, 1.0 - p), 1e-300))


@njit(inline="always")
def _high_product(a, b):
    """The upper 64 bits of the 128-bit product of two uint64."""
    a0, a1, b0, b1 = a & _LOW, a >> _32, b & _LOW, b >> _32
    middle = a1 * b0 + ((a0 * b0) >> _32)
    other = a0 * b1 + (middle & _LOW)
    return a1 * b1 + (middle >> _32) + (other >> _32)


@njit(cache=limits.NORMAL_AT_START, nogil=True)
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
