"""Numba kernels of gather and scatter.

Indices reach `put` and `accumulate` through `wrap`. The kernels with an index an element wrap them
on the way and return the first bad position, or -1; what they wrote is then of no use.
"""

from numba import njit

ADD, MUL, MIN, MAX = 1, 2, 3, 4


@njit(cache=True, nogil=True)
def wrap(idx, n, out):
    """out = idx with negative entries counted from the end; the first bad position, or -1."""
    for i in range(idx.shape[0]):
        at = idx[i]
        if at < 0:
            at += n
        if at < 0 or at >= n:
            return i
        out[i] = at
    return -1


@njit(cache=True, nogil=True)
def put(out, idx, updates):
    """out[a, idx[j], b] = updates[a, j, b]; out (A, n, B), idx (m,), updates (A, m, B)."""
    for a in range(out.shape[0]):
        for j in range(idx.shape[0]):
            row = idx[j]
            for b in range(out.shape[2]):
                out[a, row, b] = updates[a, j, b]


@njit(cache=True, nogil=True)
def accumulate(out, idx, updates, mode):
    """As `put`, with the cell and the update combined. NaN wins a comparison from either side."""
    lanes = out.shape[2]
    for a in range(out.shape[0]):
        for j in range(idx.shape[0]):
            row = idx[j]
            if mode == ADD:
                for b in range(lanes):
                    out[a, row, b] += updates[a, j, b]
            elif mode == MUL:
                for b in range(lanes):
                    out[a, row, b] *= updates[a, j, b]
            elif mode == MIN:
                for b in range(lanes):
                    u = updates[a, j, b]
                    if u < out[a, row, b] or u != u:
                        out[a, row, b] = u
            else:
                for b in range(lanes):
                    u = updates[a, j, b]
                    if u > out[a, row, b] or u != u:
                        out[a, row, b] = u


@njit(cache=True, nogil=True)
def take_along(x, idx, out):
    """out[a, j, b] = x[a, idx[a, j, b], b]; x (A, n, B), idx and out (A, m, B)."""
    n, m, lanes = x.shape[1], out.shape[1], out.shape[2]
    for a in range(out.shape[0]):
        for j in range(m):
            for b in range(lanes):
                row = idx[a, j, b]
                if row < 0:
                    row += n
                if row < 0 or row >= n:
                    return (a * m + j) * lanes + b
                out[a, j, b] = x[a, row, b]
    return -1


@njit(cache=True, nogil=True)
def put_along(out, idx, updates):
    """out[a, idx[a, j, b], b] = updates[a, j, b]; out (A, n, B), idx and updates (A, m, B)."""
    n, m, lanes = out.shape[1], idx.shape[1], idx.shape[2]
    for a in range(idx.shape[0]):
        for j in range(m):
            for b in range(lanes):
                row = idx[a, j, b]
                if row < 0:
                    row += n
                if row < 0 or row >= n:
                    return (a * m + j) * lanes + b
                out[a, row, b] = updates[a, j, b]
    return -1


@njit(cache=True, nogil=True)
def accumulate_along(out, idx, updates, mode):
    """As `put_along`, with the cell and the update combined as in `accumulate`."""
    n, m, lanes = out.shape[1], idx.shape[1], idx.shape[2]
    for a in range(idx.shape[0]):
        for j in range(m):
            for b in range(lanes):
                row = idx[a, j, b]
                if row < 0:
                    row += n
                if row < 0 or row >= n:
                    return (a * m + j) * lanes + b
                u = updates[a, j, b]
                if mode == ADD:
                    out[a, row, b] += u
                elif mode == MUL:
                    out[a, row, b] *= u
                elif mode == MIN:
                    if u < out[a, row, b] or u != u:
                        out[a, row, b] = u
                elif u > out[a, row, b] or u != u:
                    out[a, row, b] = u
    return -1
