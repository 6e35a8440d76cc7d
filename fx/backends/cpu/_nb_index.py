"""Numba kernels of gather and scatter.

Indices reach `put` and `accumulate` through `wrap`. What has an index an element stands in
`llvm/library/places.py`.
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
