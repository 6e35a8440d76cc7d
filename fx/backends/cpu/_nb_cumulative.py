"""Numba kernels of scans that NumPy has no ufunc for."""

from numba import njit


@njit(cache=True, nogil=True)
def recurrence(a, b, out, reverse):
    """out[l, k, r] = a[l, k, r] * out[l, k - 1, r] + b[l, k, r]; in reverse k + 1 comes before."""
    n = out.shape[1]
    for left in range(out.shape[0]):
        for step in range(n):
            k = n - 1 - step if reverse else step
            before = k + 1 if reverse else k - 1
            if step == 0:
                for r in range(out.shape[2]):
                    out[left, k, r] = b[left, k, r]
            else:
                for r in range(out.shape[2]):
                    out[left, k, r] = a[left, k, r] * out[left, before, r] + b[left, k, r]
