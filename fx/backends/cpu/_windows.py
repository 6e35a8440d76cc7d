"""The geometry of sliding windows, shared by convolution and pooling.

One to three spatial dimensions become three, and everything that a compiled kernel needs to know
about them becomes one int64 array, computed once for each combination of sizes:

    geo[0:3]    input sizes D, H, W          geo[9:12]   low padding
    geo[3:6]    window sizes                 geo[12:15]  dilation
    geo[6:9]    stride                       geo[15:18]  output sizes
    geo[18 + 2*k], geo[19 + 2*k]             for tap k of the last dimension: the outputs
                                             [first, last) at which it lies inside the input
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows sliding over a padded input of one to three spatial dimensions."""

    geo: np.ndarray  # (18 + 2 * window[-1],) int64, never written to
    out: tuple[int, ...]  # output sizes, one for each spatial dimension
    positions: int  # product of `out`
    taps: int  # elements in a window
    volume: int  # elements in an unpadded input
    pointwise: bool  # each window is one input element, in order: nothing moves
    whole: bool  # one window, no padding, no dilation


@lru_cache(maxsize=1024)
def windows(
    size: tuple[int, ...],
    window: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
    dilation: tuple[int, ...],
) -> Windows:
    """The geometry; all arguments have one entry for each spatial dimension.

    A dimension in which the window does not fit has no output. Raises ValueError where the
    numbers of entries differ or an entry is out of range.
    """
    rank = len(size)
    if not 1 <= rank <= 3:
        raise ValueError(f"windows slide over 1 to 3 spatial dimensions, got sizes {size}")
    for name, entries in dict(
        window=window, stride=stride, padding=padding, dilation=dilation
    ).items():
        if len(entries) != rank:
            raise ValueError(f"{name} must have {rank} entries, got {entries}")
    if min(window) < 1 or min(stride) < 1 or min(dilation) < 1 or min(map(min, padding)) < 0:
        raise ValueError(
            "window, stride and dilation must be at least 1 and padding at least 0, got "
            f"{window=}, {stride=}, {dilation=}, {padding=}"
        )
    out = tuple(
        max(0, (s + lo + hi - d * (k - 1) - 1) // st + 1)
        for s, k, st, (lo, hi), d in zip(size, window, stride, padding, dilation)
    )

    def lifted(entries: tuple[int, ...], fill: int) -> list[int]:
        return [fill] * (3 - rank) + list(entries)

    spans = []
    for tap in range(window[-1]):
        offset = tap * dilation[-1] - padding[-1][0]  # where output 0 reads
        first = max(0, -(offset // stride[-1]))
        last = min(out[-1], max(0, (size[-1] - 1 - offset) // stride[-1] + 1))
        spans += [min(first, last), last]
    low = tuple(lo for lo, _ in padding)
    fields = [(size, 1), (window, 1), (stride, 1), (low, 0), (dilation, 1), (out, 1)]
    geo = [entry for field in fields for entry in lifted(*field)] + spans
    unpadded = all(pair == (0, 0) for pair in padding)
    return Windows(
        geo=np.array(geo, np.int64),
        out=out,
        positions=math.prod(out),
        taps=math.prod(window),
        volume=math.prod(size),
        pointwise=unpadded and set(window) == {1} and set(stride) == {1},
        whole=unpadded and window == size and set(dilation) == {1} and math.prod(size) > 0,
    )
