"""Numba kernel of batched binary search."""

from numba import njit


@njit(cache=True, nogil=True)
def searchsorted(seq, values, right, out):
    """Row by row; seq (B, n), values (B, m), out (B, m). NaN counts as larger than any number."""
    for row in range(values.shape[0]):
        for j in range(values.shape[1]):
            v = values[row, j]
            low = 0
            high = seq.shape[1]
            while low < high:
                middle = (low + high) // 2
                s = seq[row, middle]
                # before: s stands in front of the place that is looked for
                if right:
                    before = not (v < s or (s != s and v == v))
                else:
                    before = s < v or (v != v and s == s)
                if before:
                    low = middle + 1
                else:
                    high = middle
            out[row, j] = low
