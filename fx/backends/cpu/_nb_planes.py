"""Numba kernels of convolution on padded planes. See `_planes` for the layout.

x is (n, C, P) and g or out (n, O, >= length). Loops run over slices from 0: only there does LLVM
know that no index is negative (and so wraps around), and vectorise.
"""

import numpy as np
from numba import njit

_FAST = {"contract", "reassoc", "nsz", "arcp"}


@njit(cache=True, nogil=True, fastmath=_FAST)
def correlate(x, w, out, offsets, length, groups, channels):
    """out[n, o, t] = sum over c and taps of w[o, c, tap] * x[n, c, t + offsets[tap]].

    ``channels`` at a time: the sums of each lot are added up, which keeps more digits.
    """
    per_group = w.shape[0] // groups
    taps = w.shape[2]
    part = np.empty(length if w.shape[1] > channels else 0, out.dtype)
    for n in range(x.shape[0]):
        for o in range(w.shape[0]):
            total = out[n, o]
            row = total if w.shape[1] <= channels else part
            for t in range(length):
                total[t] = 0
            for c in range(w.shape[1]):
                if c % channels == 0:
                    for t in range(length):
                        row[t] = 0
                plane = x[n, (o // per_group) * w.shape[1] + c]
                tap = 0
                while tap + 3 <= taps:  # three taps for each pass over the row
                    a0, a1, a2 = w[o, c, tap], w[o, c, tap + 1], w[o, c, tap + 2]
                    x0 = plane[offsets[tap] : offsets[tap] + length]
                    x1 = plane[offsets[tap + 1] : offsets[tap + 1] + length]
                    x2 = plane[offsets[tap + 2] : offsets[tap + 2] + length]
                    for t in range(length):
                        row[t] += a0 * x0[t] + a1 * x1[t] + a2 * x2[t]
                    tap += 3
                while tap < taps:
                    a0 = w[o, c, tap]
                    x0 = plane[offsets[tap] : offsets[tap] + length]
                    for t in range(length):
                        row[t] += a0 * x0[t]
                    tap += 1
                if w.shape[1] > channels and (c + 1 == w.shape[1] or (c + 1) % channels == 0):
                    for t in range(length):
                        total[t] += row[t]


@njit(cache=True, nogil=True, fastmath=_FAST)
def spread(g, w, out, offsets, length, groups):
    """The transpose of `correlate` in x: out (n, C, P)."""
    per_group = w.shape[0] // groups
    for n in range(g.shape[0]):
        for c in range(out.shape[1]):
            plane = out[n, c]
            for t in range(plane.shape[0]):
                plane[t] = 0
            first = (c // w.shape[1]) * per_group
            for o in range(first, first + per_group):
                row = g[n, o]
                for tap in range(w.shape[2]):
                    a = w[o, c % w.shape[1], tap]
                    target = plane[offsets[tap] : offsets[tap] + length]
                    for t in range(length):
                        target[t] += a * row[t]


@njit(cache=True, nogil=True, fastmath=_FAST)
def dots(x, g, out, offsets, length, groups):
    """The transpose of `correlate` in w, added to out (O, C//groups, taps)."""
    per_group = out.shape[0] // groups
    for n in range(g.shape[0]):
        for o in range(out.shape[0]):
            row = g[n, o]
            for c in range(out.shape[1]):
                plane = x[n, (o // per_group) * out.shape[1] + c]
                for tap in range(out.shape[2]):
                    source = plane[offsets[tap] : offsets[tap] + length]
                    total = out[o, c, tap]
                    for t in range(length):
                        total += row[t] * source[t]
                    out[o, c, tap] = total
