"""How many elements lie between edges."""

from numba import int64

from fx.backends.cpu.irregular.language import ARRAY, FLOAT, INT, INT64S


# fmt: off
def between(
    begin, end, x: ARRAY, edges: ARRAY, counts: INT64S, n: INT, bins: INT, scale: FLOAT,
):
    # fmt: on
    """counts (bins,), zeros on entry, += how many of x (n,) lie in each bin of edges (bins + 1,).

    A bin holds its lower edge, the last one both. ``scale`` is the bins by the length of all where
    they are alike, which gives a place to look from, or 0. There is one task.
    """
    low, high = edges[0], edges[bins]
    for _ in range(begin, end):
        for i in range(n):
            value = x[i]
            if not (value >= low and value <= high):
                continue
            at = int64(0)
            if scale > 0.0:
                at = min(max(int64((value - low) * scale), 0), bins - 1)
                while value < edges[at]:
                    at -= 1
                while at < bins - 1 and value >= edges[at + 1]:
                    at += 1
            else:
                left = bins
                while left > 1:
                    half = left >> 1
                    at += half if edges[at + half] <= value else 0
                    left -= half
            counts[at] += 1
