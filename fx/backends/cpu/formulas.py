"""Formulas as eager kernels: compiled once for dtypes and kinds of shapes, for arrays of any size.

A kernel gives None where it has nothing for its arguments. The sizes and the dtypes decide, and
whether there is a compiler, but no earlier call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from fx import limits
from fx.backends.cpu._arrays import memory_order, transposed_back
from fx.backends.cpu.llvm import library
from fx.backends.cpu.llvm.formulas import MOST_SIZES, Shape, program


def dense(x: np.ndarray) -> np.ndarray:
    """The array, C-contiguous and aligned."""
    flags = x.flags
    return x if flags.c_contiguous and flags.aligned else x.copy("C")


class Elements:
    """A formula of the elements in the same place of its arguments, which broadcast.

    Args:
        name: of the formula, unique.
        formula: ``(*tensors, **numbers) -> tensor``; a number comes as a tensor without axes.
        words: the names of its numbers.

    Called with arrays and Python's numbers by name it gives an array, or None.
    """

    def __init__(self, name: str, formula: Callable[..., Any], words: Sequence[str] = ()) -> None:
        self.name, self.formula, self.words = name, formula, tuple(words)
        self.kernels: dict[Any, Any] = {}  # by dtypes and shapes
        limits.on_change(self.kernels.clear)

    def __call__(self, *arrays: np.ndarray, **numbers: Any) -> np.ndarray | None:
        x = arrays[0]
        shape, key, alike = x.shape, "", True
        for a in arrays:
            key += a.dtype.char
            if a.shape != shape:
                if a.shape:
                    alike = False
                key += "."
            flags = a.flags
            if not (flags.c_contiguous and flags.aligned):
                alike = False
        args: list[Any] = [*arrays]
        if numbers:
            for word in self.words:
                value = numbers[word]
                if type(value) is not float:
                    if type(value) is not int:
                        return None
                    value = float(value)
                args.append(value)
        if not alike:
            return self._broadcast(arrays, args)
        n = x.size
        if n < limits.FUSED_FROM:
            return None
        found = self.kernels.get(key)
        if found is None:
            shapes = [("a",) if a.shape == shape else () for a in arrays]
            found = self.kernels[key] = self._kernel(arrays, shapes)
        run, like = found
        if run is None:
            return None
        out = library.empty([like, *shape])
        args.append(out)
        run(args, (n,))
        return out

    def _kernel(self, arrays: Sequence[np.ndarray], shapes: Sequence[Shape]) -> tuple[Any, Any]:
        chars = "".join([a.dtype.char for a in arrays])
        floats = set(chars) - {"?"}
        if len(floats) != 1 or not floats <= set("fd") or not library.available():
            return None, None
        count = len(self.words)
        shapes, chars = [*shapes, *[()] * count], chars + "P" * count
        made = program(self.name, self._formula, shapes, chars)
        return made.run, np.zeros(1, made.results[0])

    def _formula(self, *xs: Any) -> Any:
        k = len(xs) - len(self.words)
        return self.formula(*xs[:k], **dict(zip(self.words, xs[k:])))

    def _broadcast(self, arrays: Sequence[np.ndarray], args: list[Any]) -> np.ndarray | None:
        """The same of arrays of several shapes, or that are not dense."""
        count = len(arrays)
        order = _memory_order(arrays)
        if order is not None:
            numbers = dict(zip(self.words, args[count:]))
            out = self(*[a.transpose(order) for a in arrays], **numbers)
            return None if out is None else transposed_back(out, order)
        shape = np.broadcast_shapes(*[a.shape for a in arrays])
        if prod(shape) < limits.FUSED_FROM:
            return None
        sizes, shapes, taken = joined(arrays, shape)
        if not 0 < len(sizes) <= MOST_SIZES:
            return None
        key = tuple([(a.dtype.char, s) for a, s in zip(arrays, shapes)])
        found = self.kernels.get(key)
        if found is None:
            found = self.kernels[key] = self._kernel(arrays, shapes)
        run, like = found
        if run is None:
            return None
        out = library.empty([like, *shape])
        run([*taken, *args[count:], out], tuple(sizes))
        return out


def _memory_order(arrays: Sequence[np.ndarray]) -> tuple[int, ...] | None:
    """The axes in the order of memory, where that is another, of arrays that lie alike."""
    x = arrays[0]
    if x.flags.c_contiguous or any(a.shape != x.shape for a in arrays):
        return None
    steps = [s // x.itemsize for s in x.strides]
    for a in arrays[1:]:
        if [s // a.itemsize for s in a.strides] != steps:
            return None
    return memory_order(arrays[:1])


_LETTERS = "abcdefgh"


def joined(
    arrays: Sequence[np.ndarray], shape: tuple[int, ...]
) -> tuple[list[int], list[Shape], list[np.ndarray]]:
    """Arrays that broadcast to ``shape``, with as few axes as tell them apart.

    Neighbouring axes that the same arrays have are one: of (2, 3, 4) and (4,) there are two, of
    sizes 6 and 4, and the shapes are ("a", "b") and ("1", "b").
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
    taken = []
    for k, (a, mine) in enumerate(zip(arrays, has)):
        names = [_LETTERS[j] if c[k] else "1" for j, c in enumerate(columns)]
        shapes.append(tuple(names) if any(mine) else ())
        own = mine[rank - a.ndim :]
        if not all(own):
            a = a[tuple([slice(None) if m else 0 for m in own])]
        taken.append(dense(np.asarray(a)))
    return sizes, shapes, taken
