"""Numba kernels of scans, which carry float32 in float64: an error does not grow along a line."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def accumulate(x, out, product, reverse):
    """Sums or products so far along k of x and out (left, k, right); from the end in reverse."""
    left, n, right = out.shape
    carried = np.empty(right, np.float64)
    for at in range(left):
        carried[:] = 1.0 if product else 0.0
        for step in range(n):
            k = n - 1 - step if reverse else step
            if right == 1:
                now = carried[0] * x[at, k, 0] if product else carried[0] + x[at, k, 0]
                carried[0] = now
                out[at, k, 0] = now
            elif product:
                for r in range(right):
                    now = carried[r] * x[at, k, r]
                    carried[r] = now
                    out[at, k, r] = now
            else:
                for r in range(right):
                    now = carried[r] + x[at, k, r]
                    carried[r] = now
                    out[at, k, r] = now


@njit(cache=True, nogil=True)
def recurrence(a, b, out, carried, reverse):
    """out[l, k, r] = a[l, k, r] * out[l, k - 1, r] + b[l, k, r]; in reverse k + 1 comes before.

    ``carried`` (right,) holds out[l, k - 1, :] with more digits.
    """
    n = out.shape[1]
    for left in range(out.shape[0]):
        for step in range(n):
            k = n - 1 - step if reverse else step
            if step == 0:
                for r in range(out.shape[2]):
                    carried[r] = b[left, k, r]
                    out[left, k, r] = b[left, k, r]
            else:
                for r in range(out.shape[2]):
                    now = a[left, k, r] * carried[r] + b[left, k, r]
                    carried[r] = now
                    out[left, k, r] = now
