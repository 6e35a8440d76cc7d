"""Arrays that broadcast, seen with as few axes as tell them apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fx.backends.cpu._arrays import memory_order
from fx.backends.cpu.llvm.formulas import Shape


def common_order(arrays: Sequence[np.ndarray]) -> tuple[int, ...] | None:
    """The axes in the order of memory, where that is another, of arrays that lie alike."""
    full = [a for a in arrays if a.shape]
    x = full[0]
    if x.flags.c_contiguous or any(a.shape != x.shape for a in full):
        return None
    steps = [s // x.itemsize for s in x.strides]
    for a in full[1:]:
        if [s // a.itemsize for s in a.strides] != steps:
            return None
    return memory_order(full[:1])


_LETTERS = "abcdefgh"


def joined(
    arrays: Sequence[np.ndarray], shape: tuple[int, ...]
) -> tuple[list[int], list[Shape], list[Any]]:
    """Arrays that broadcast to ``shape``, with as few axes as tell them apart.

    Neighbouring axes that the same arrays have are one: of (2, 3, 4) and (4,) there are two, of
    sizes 6 and 4, and the shapes are ("a", "b") and ("1", "b"). What repeats its elements is cut to
    one of them: the last of the results are indices, or None.
    """
    rank = len(shape)
    has = []  # of each array and axis, whether it is more than one number repeated
    for a in arrays:
        own = [n != 1 and s != 0 for n, s in zip(a.shape, a.strides)]
        has.append([False] * (rank - a.ndim) + own)
    sizes: list[int] = []
    columns: list[tuple[bool, ...]] = []
    for i, n in enumerate(shape):
        if n == 1:
            continue
        if not any(mine[i] for mine in has):  # one of them is written out
            whole = [
                k for k, a in enumerate(arrays) if a.ndim >= rank - i and a.shape[i - rank] == n
            ]
            has[whole[0]][i] = True
        column = tuple([mine[i] for mine in has])
        if columns and columns[-1] == column:
            sizes[-1] *= n
        else:
            sizes.append(n)
            columns.append(column)
    shapes: list[Shape] = []
    cuts: list[Any] = []
    for k, (a, mine) in enumerate(zip(arrays, has)):
        names = [_LETTERS[j] if c[k] else "1" for j, c in enumerate(columns)]
        shapes.append(tuple(names) if any(mine) else ())
        own = mine[rank - a.ndim :]
        cut = (*[slice(None) if m else 0 for m in own], ...)
        cuts.append(None if all(own) else cut)
    return sizes, shapes, cuts
