"""Numba kernels of the Philox 4x32-10 generator."""

import numpy as np
from numba import njit, uint32, uint64

from fx import limits

_M0 = np.uint64(0xD2511F53)
_M1 = np.uint64(0xCD9E8D57)
_W0 = np.uint32(0x9E3779B9)
_W1 = np.uint32(0xBB67AE85)
_HALF = np.uint64(32)
_DERIVE = np.uint32(0x80000000)  # top bit of the block number: set for derived keys only
_LANES = limits.PHILOX_BLOCKS  # the round loop vectorises over them
_SCALAR_BELOW = limits.PHILOX_SCALAR


@njit(inline="always")
def _round(c0, c1, c2, c3, k0, k1):
    p0 = _M0 * uint64(c0)
    p1 = _M1 * uint64(c2)
    return (
        uint32(uint32(p1 >> _HALF) ^ c1 ^ k0),
        uint32(p1),
        uint32(uint32(p0 >> _HALF) ^ c3 ^ k1),
        uint32(p0),
    )


@njit(inline="always")
def _block(c0, c1, c2, c3, k0, k1):
    for _ in range(10):
        c0, c1, c2, c3 = _round(c0, c1, c2, c3, k0, k1)
        k0 = uint32(k0 + _W0)
        k1 = uint32(k1 + _W1)
    return c0, c1, c2, c3


@njit(cache=limits.NORMAL_AT_START, nogil=True)
def blocks(counters, keys, out):
    """out[i] = Philox(counters[i], keys[i]); counters (n, 4), keys (n, 2), out (n, 4)."""
    for i in range(out.shape[0]):
        c = counters[i]
        out[i, 0], out[i, 1], out[i, 2], out[i, 3] = _block(
            c[0], c[1], c[2], c[3], keys[i, 0], keys[i, 1]
        )


@njit(inline="always")
def _state(key):
    return _block(key[2], key[3], key[4], key[5], key[0], key[1])


@njit(cache=limits.NORMAL_AT_START, nogil=True)
def derive(keys, data, out):
    """out[i] = the key derived from keys[i] and data[i]; keys (n, 6), data (n,), out (n, 6)."""
    for i in range(out.shape[0]):
        k0, k1, c2, c3 = _state(keys[i])
        out[i, 0], out[i, 1], out[i, 2], out[i, 3] = _block(data[i], _DERIVE, c2, c3, k0, k1)
        out[i, 4] = 0
        out[i, 5] = 0


@njit
def fill_from(state, first, words):
    """words (length,) = the words of blocks `first`, first + 1, ... of a state."""
    k0, k1, c2, c3 = state
    length = words.shape[0]
    whole = length // 4
    x0 = np.empty(_LANES, np.uint32)
    x1 = np.empty(_LANES, np.uint32)
    x2 = np.empty(_LANES, np.uint32)
    x3 = np.empty(_LANES, np.uint32)
    i = 0
    while whole - i >= _SCALAR_BELOW:
        for lane in range(_LANES):
            block = uint64(first + i + lane)
            x0[lane] = uint32(block)
            x1[lane] = uint32(block >> _HALF)
            x2[lane] = c2
            x3[lane] = c3
        a = k0
        b = k1
        for _ in range(10):
            for lane in range(_LANES):
                x0[lane], x1[lane], x2[lane], x3[lane] = _round(
                    x0[lane], x1[lane], x2[lane], x3[lane], a, b
                )
            a = uint32(a + _W0)
            b = uint32(b + _W1)
        used = min(_LANES, whole - i)
        for lane in range(used):
            at = 4 * (i + lane)
            words[at] = x0[lane]
            words[at + 1] = x1[lane]
            words[at + 2] = x2[lane]
            words[at + 3] = x3[lane]
        i += used
    while 4 * i < length:
        block = uint64(first + i)
        found = _block(uint32(block), uint32(block >> _HALF), c2, c3, k0, k1)
        for word in range(min(4, length - 4 * i)):
            words[4 * i + word] = found[word]
        i += 1


@njit(cache=limits.NORMAL_AT_START, nogil=True)
def fill(keys, out):
    """Row i of out (n, length) = the first `length` words drawn with keys[i]; keys (n, 6)."""
    for row in range(out.shape[0]):
        fill_from(_state(keys[row]), 0, out[row])
