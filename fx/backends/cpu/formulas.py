"""Formulas as eager kernels: compiled once for dtypes and kinds of shapes, for arrays of any size.

A kernel gives None where it has nothing for its arguments. The sizes and the dtypes decide, and
whether there is a compiler, but no earlier call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from inspect import CO_VARARGS
from math import prod
from typing import Any

import numpy as np

from fx import limits
from fx.backends.cpu import _written
from fx.backends.cpu._arrays import copied, transposed_back
from fx.backends.cpu._broadcasting import common_order, joined
from fx.backends.cpu._written import DENSE
from fx.backends.cpu.llvm import any_size
from fx.backends.cpu.llvm.formulas import CLASSES, MOST_SIZES, Shape, program


def dense(x: np.ndarray) -> np.ndarray:
    """The array, C-contiguous and aligned."""
    return x if x.flags.num & DENSE == DENSE else copied(x)


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
        self.kernels: dict[Any, Any] = {}  # by dtypes and kinds of shapes
        self.alike: dict[Any, tuple[Any, ...]] = {}  # what runs, by the shapes and dtypes
        self.ways: dict[Any, tuple[Any, ...]] = {}  # by how arrays lie that are not alike
        for known in (self.kernels, self.alike, self.ways):
            limits.on_change(known.clear)
        self.calls: dict[int, Any] = {}

    def __call__(self, *arrays: np.ndarray, **numbers: Any) -> np.ndarray | None:
        return self.of(len(arrays))(*arrays, **numbers)  # type: ignore[no-any-return]

    def of(self, count: int) -> Any:
        """The same of ``count`` arrays, written out."""
        found = self.calls.get(count)
        if found is None:
            given = (self.alike, self._alike, self._broadcast, count, self.words)
            found = self.calls[count] = _written.elements(*given)
            found.into = partial(self.into, count)
        return found

    def into(self, count: int) -> Any:
        """``f(*arrays, out, **numbers)``: what is written into an array, which may be one of these.

        It gives that array; None where they are not dense and alike, or there is no kernel.
        """
        return _written.elements_into(self.alike, self._alike, count, self.words)

    def call(self) -> Any:
        """The same of as many arrays as the formula is of, where it says so."""
        code = getattr(self.formula, "__code__", None)
        if code is None or code.co_flags & CO_VARARGS:
            return self
        return self.of(code.co_argcount)

    def _alike(self, arrays: Sequence[np.ndarray]) -> tuple[Any, Any, list[int]]:
        """What runs on dense arrays of one shape, and numbers.

        With it are the likeness of the result and the words behind.
        """
        if len(self.alike) >= _MOST:
            self.alike.clear()
        shape = arrays[0].shape
        run, spec, sizes = None, None, []
        if (n := prod(shape)) >= limits.FUSED_FROM:
            shapes: list[Shape] = [("a",) if a.shape == shape else () for a in arrays]
            key = tuple([(a.dtype.char, s) for a, s in zip(arrays, shapes)])
            found = self.kernels.get(key)
            if found is None:
                found = self.kernels[key] = self._kernel(arrays, shapes)
            made, like = found
            if made is not None:
                run, sizes = made.at((n,))
                spec = [like, *shape]
        self.alike[tuple([part for a in arrays for part in (a.shape, a.dtype)])] = run, spec, sizes
        return run, spec, sizes

    def _kernel(self, arrays: Sequence[np.ndarray], shapes: Sequence[Shape]) -> tuple[Any, Any]:
        chars = "".join([a.dtype.char for a in arrays])
        if not _computes(chars, "fdeE"):  # "E" is bfloat16
            return None, None
        count = len(self.words)
        shapes, chars = [*shapes, *[()] * count], chars + "P" * count
        made = program(self.name, self._formula, shapes, chars)
        return (None, None) if made is None else (made, np.zeros(1, made.results[0]))

    def _formula(self, *xs: Any) -> Any:
        k = len(xs) - len(self.words)
        return self.formula(*xs[:k], **dict(zip(self.words, xs[k:])))

    def _broadcast(self, arrays: Sequence[np.ndarray], args: list[Any]) -> np.ndarray | None:
        """The same of arrays of several shapes, or that are not dense."""
        count = len(arrays)
        key = tuple([(a.shape, a.strides, a.dtype.char) for a in arrays])
        way = self.ways.get(key)
        if way is None:
            if len(self.ways) >= _MOST:
                self.ways.clear()
            way = self.ways[key] = self._way(arrays)
        run, spec, order, cuts, behind = way
        if run is None:
            if order is None:
                return None
            numbers = dict(zip(self.words, args[2 + count :]))
            out = self(*[a.transpose(order) if a.shape else a for a in arrays], **numbers)
            return None if out is None else transposed_back(out, order)
        words: list[Any] = [1, 0]
        for a, cut in zip(arrays, cuts):
            words.append(dense(a if cut is None else a[cut]))
        out = any_size.empty(spec)
        run([*words, *args[2 + count :], out, *behind])
        return out

    def _way(self, arrays: Sequence[np.ndarray]) -> tuple[Any, ...]:
        """What runs on such arrays, the likeness of the result, what is cut out of each, and words.

        Where nothing runs: the order of axes in which they are dense, if there is one.
        """
        order = common_order(arrays)
        if order is not None:
            return None, None, order, (), ()
        try:
            shape = np.broadcast_shapes(*[a.shape for a in arrays])
        except ValueError:
            from fx.prims.families import broadcast_shapes  # which says what does not fit

            shape = broadcast_shapes(self.name, *[a.shape for a in arrays])
        sizes, shapes, cuts = joined(arrays, shape)
        if prod(shape) < limits.FUSED_FROM or not 0 < len(sizes) <= MOST_SIZES:
            return None, None, None, (), ()
        key = tuple([(a.dtype.char, s) for a, s in zip(arrays, shapes)])
        found = self.kernels.get(key)
        if found is None:
            found = self.kernels[key] = self._kernel(arrays, shapes)
        made, like = found
        if made is None:
            return None, None, None, (), ()
        run, behind = made.at(tuple(sizes))
        return run, [like, *shape], None, cuts, behind


_MOST = 1024  # kinds of arrays that a formula remembers
_INT64 = np.dtype(np.int64)


class Rows:
    """A formula of arrays with named axes, which may reduce along them.

    Args:
        name: of the formula, unique.
        formula: ``(*tensors, **numbers) -> tensor`` or a tuple of tensors.
        shapes: what the tensors are seen as, a letter an axis, 1 one of size 1: ``"ab a1 b"``.
            One of int64 has ":l" behind it, and nothing before that if it is a number.
        words: the names of its numbers.
        along: the axis by whose size there are classes: where it is short few vectors lie along it,
            and where it is long no row is kept between passes.
        keeps: whether anything would be kept.
    """

    def __init__(
        self, name: str, formula: Callable[..., Any], shapes: str, words: Sequence[str] = (),
        along: str = "b", keeps: bool = True,
    ) -> None:  # fmt: skip
        self.name, self.formula, self.words = name, formula, tuple(words)
        told = [s.partition(":") for s in shapes.split(" ")]
        self.shapes: list[Shape] = [tuple(s) for s, _, _ in told]
        self.fixed = [_INT64 if char else None for _, _, char in told]
        letters = sorted({n for s in self.shapes for n in s} - {"1"})
        self.along = letters.index(along)
        self.large = max(range(len(self.shapes)), key=lambda i: len({*self.shapes[i]} - {"1"}))
        # with two axes a row is a line of memory, with three as many lines as a vector has lanes
        self.shift = 0 if len(letters) < 3 else 4
        self.keeps = keeps
        self.kernels: dict[str, dict[Any, Any]] = {kind: {} for kind in CLASSES}
        self.ways: dict[Any, tuple[Any, ...]] = {}  # by dtype, sizes and the shapes of the results
        for known in (*self.kernels.values(), self.ways):
            limits.on_change(known.clear)
        # f(arrays, sizes, results, *numbers) gives what the formula gives, or None: of arrays in
        # the order of memory that their shapes have, the sizes of the axes in the order of their
        # letters, and the shapes of what it gives
        self.call: Callable[..., Any] = _written.rows(
            self.ways, self._way, self.fixed, self.large, len(self.words)
        )

    def _way(
        self, x: np.ndarray, sizes: tuple[int, ...], results: tuple[tuple[int, ...], ...]
    ) -> tuple[Any, ...]:
        if len(self.ways) >= _MOST:
            self.ways.clear()
        way = self.ways[x.dtype, sizes, results] = self.chosen(x.dtype, x.size, sizes, results)
        return way

    def chosen(
        self, dtype: np.dtype, size: int, sizes: tuple[int, ...],
        results: Sequence[tuple[int, ...]],
    ) -> tuple[Any, ...]:  # fmt: skip
        """What runs for so many elements with axes of such sizes.

        With it are the likenesses of its results, and the words behind them.
        """
        if size < limits.FUSED_FROM:
            return None, None, ()
        n = sizes[self.along]
        if n <= limits.ROW_SHORT:
            kind = "short"
        else:
            kind = "long" if self.keeps and n > limits.ROW_KEPT >> self.shift else "usual"
        found = self.kernels[kind].get(dtype)
        if found is None:
            found = self.kernels[kind][dtype] = self._kernel(dtype.char, kind)
        made, likes = found
        if made is None:
            return None, None, ()
        run, behind = made.at(sizes)
        return run, [[like, *shape] for like, shape in zip(likes, results)], behind

    def _kernel(self, char: str, kind: str) -> tuple[Any, Any]:
        if not _computes(char):
            return None, None
        count = len(self.words)
        shapes: list[Shape] = [*self.shapes, *[()] * count]
        chars = "".join(["l" if fixed else char for fixed in self.fixed]) + "P" * count
        made = program(self.name, self._formula, shapes, chars, self.along, kind)
        if made is None:
            return None, None
        return made, [np.zeros(1, dtype) for dtype in made.results]

    def _formula(self, *xs: Any) -> Any:
        k = len(self.shapes)
        return self.formula(*xs[:k], **dict(zip(self.words, xs[k:])))


class Along:
    """A formula along one axis, or neighbouring ones, of arrays of one shape.

    Args:
        name: of the formula, unique.
        formula: ``(*tensors, **numbers)``, along their axis 1.
        pattern: of the arguments and, after ">", of the results: "x" one of that shape, "r" one
            that is reduced to size 1 along the axis.
        words: the names of its numbers.

    ``call`` with ``keepdims=False`` takes and gives what is reduced without the axes.
    """

    def __init__(
        self, name: str, formula: Callable[..., Any], pattern: str = "x>x",
        words: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self.given, self.gives = pattern.split(">")
        self.ways: dict[Any, tuple[Any, ...]] = {}  # by shape, axes, keepdims and dtype
        limits.on_change(self.ways.clear)
        flat, deep = {"x": "ab", "r": "a1"}, {"x": "abc", "r": "a1c"}
        self.last, self.inner = (
            Rows(name, formula, " ".join([axes[k] for k in self.given]), words)
            for axes in (flat, deep)
        )
        # f(*arrays, axes, keepdims=True, **numbers)
        self.call: Callable[..., Any] = _written.along(
            self.ways, self._way, self.given, self.gives, words
        )

    def _way(
        self, shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool, dtype: np.dtype
    ) -> tuple[Any, ...]:
        """What runs on such an array, likenesses of its results, the shapes of arguments, words."""
        if len(self.ways) >= _MOST:
            self.ways.clear()
        sizes, reduced = _rows_along(shape, axes, keepdims)
        given, results = (
            [shape if kind == "x" else reduced for kind in kinds]
            for kinds in (self.given, self.gives)
        )
        run, specs, behind = None, None, ()
        if sizes:
            of = self.last if len(sizes) == 2 else self.inner
            run, specs, behind = of.chosen(dtype, prod(shape), sizes, results)
        way = self.ways[shape, axes, keepdims, dtype] = run, specs, given, behind
        return way


def _rows_along(
    shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Rows, elements of a row and, if any, those behind it; and the shape without the axes.

    With ``keepdims`` they have size 1 there. Nothing where the axes are no neighbours, or there is
    nothing.
    """
    size = prod(shape)
    if not axes or not size or axes[-1] + 1 - axes[0] != len(axes):
        return (), ()
    first, end = axes[0], axes[-1] + 1
    n, inner = prod(shape[first:end]), prod(shape[end:])
    rows = size // (n * inner)
    reduced = (*shape[:first], *([1] * len(axes) if keepdims else ()), *shape[end:])
    return (rows, n) if inner == 1 else (rows, n, inner), reduced


def _computes(chars: str, among: str = "fd") -> bool:
    """Whether there are kernels for arguments of these dtypes."""
    floats = set(chars) - {"?"}
    return len(floats) == 1 and floats <= set(among) and any_size.available()
