"""Kernels that take NumPy's place where there are many elements."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy._core._multiarray_umath import __cpu_features__

from fx import limits
from fx.backends.cpu._arrays import HALVES
from fx.backends.cpu.formulas import Elements
from fx.primitive import MANY, registry


def _formula(name: str) -> Elements:
    return Elements(name, lambda *xs: registry[name](*xs))


def of_formula(name: str, arrays: int = 1) -> Any:
    """What compilers make of a primitive of so many arrays, as a kernel of it."""
    return _formula(name).of(arrays)


def or_compiled(name: str) -> Any:
    """A ufunc, which takes an element at a time, or what compilers make of the primitive."""
    ufunc = getattr(np, name)
    compiled = of_formula(name, ufunc.nin)

    def one(x: np.ndarray) -> np.ndarray:
        found = compiled(x) if x.size >= limits.WHERE_FROM else None
        return ufunc(x) if found is None else found

    def two(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        large = x.size >= limits.WHERE_FROM or y.size >= limits.WHERE_FROM
        found = compiled(x, y) if large else None
        return ufunc(x, y) if found is None else found

    return one if ufunc.nin == 1 else two


# of these NumPy takes vectors of elements with AVX-512 only
_TRANSCENDENTAL = frozenset(
    """
    exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan arctan2 sinh cosh tanh
    arcsinh arccosh arctanh""".split()  # noqa: SIM905
)
_VECTORS = __cpu_features__.get("AVX512_SKX", False)


def is_compiled(name: str) -> bool:
    """Whether many elements have other bits than NumPy's."""
    return name in _TRANSCENDENTAL and not _VECTORS


def of_many(name: str, usual: Any) -> Any:
    """What takes the place of a usual kernel for many elements; None where nothing does."""
    if is_compiled(name):
        return or_compiled(name)
    return _of_many(name, usual) if name in _BROADCAST else None


def into(name: str) -> Any:
    """The kernel of a function of floats that is compiled for many, with an array for the result.

    Its bits are those of new arrays: few elements are NumPy's, many the compiled kernel's.
    """
    ufunc, formula = getattr(np, name), _formula(name)
    compiled, written = formula.of(1), formula.into(1)

    def kernel(x: np.ndarray, out: np.ndarray) -> None:
        found = None
        if x.size >= max(MANY, limits.WHERE_FROM):
            if written(x, out) is not None:
                return
            found = compiled(x)
        if found is None:
            ufunc(x, out)
        else:
            out[...] = found

    return kernel


def _of_many(name: str, usual: Any) -> Any:
    """A kernel for arrays that may broadcast to many elements: compiled where they do.

    NumPy's inner loops run along one axis there, and start anew for each row. It also converts a
    float of 16 bits at a time, and chooses between an element and a number one by one; those are
    compiled where they are many.
    """
    compiled = of_formula(name, 2)
    # a quotient is rounded once, which a loop over rows does not do (fx/compiler/quotients.py)
    by_rows = name in _BY_ROWS
    chosen = name in _CHOSEN

    def two(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        m, n = x.size, y.size
        if m * n >= limits.BROADCAST_FROM:
            left, right = x.shape, y.shape
            if x.dtype in HALVES and m >= limits.CASTS_FROM and (by_rows or left == right):
                found = compiled(x, y)
                if found is not None:
                    return found
            if chosen and not (left and right) and m + n > limits.WHERE_FROM:
                found = compiled(x, y)
                if found is not None:
                    return found
            elif left != right and left and right and by_rows:
                large = m >= limits.BROADCAST_FROM or n >= limits.BROADCAST_FROM
                if large or left[-1] == 1 or right[-1] == 1:
                    found = compiled(x, y)
                    if found is not None:
                        return found
        return usual(x, y)  # type: ignore[no-any-return]

    return two


_CHOSEN = frozenset(("maximum", "minimum"))
_BY_ROWS = _CHOSEN | {"add", "subtract", "multiply"}
_BROADCAST = _BY_ROWS | {"divide"}
