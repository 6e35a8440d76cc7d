"""NumPy's names of sets: vectors of sorted values, each once."""

from __future__ import annotations

from typing import Any

from fx.ops.making.interop import asarray
from fx.ops.reductions.sets import isin, unique_values
from fx.ops.shapes.joining import concat
from fx.ops.shapes.manipulation import ravel
from fx.tensor import Tensor


def _set(x: Any) -> Tensor:
    return unique_values(ravel(asarray(x)))


def union1d(ar1: Any, ar2: Any) -> Tensor:
    """The values in one or both.

    Example:
        >>> import fx
        >>> fx.union1d(fx.tensor([3, 1, 3]), fx.tensor([3, 2]))
        tensor([1, 2, 3])
    """
    return _set(concat([ravel(asarray(ar1)), ravel(asarray(ar2))]))


def intersect1d(ar1: Any, ar2: Any) -> Tensor:
    """The values in both.

    Example:
        >>> import fx
        >>> fx.intersect1d(fx.tensor([3, 1, 3]), fx.tensor([3, 2]))
        tensor([3])
    """
    x = _set(ar1)
    return x[isin(x, _set(ar2))]  # type: ignore[no-any-return]


def setdiff1d(ar1: Any, ar2: Any) -> Tensor:
    """The values in the first and not in the second.

    Example:
        >>> import fx
        >>> fx.setdiff1d(fx.tensor([3, 1, 3]), fx.tensor([3, 2]))
        tensor([1])
    """
    x = _set(ar1)
    return x[isin(x, _set(ar2), invert=True)]  # type: ignore[no-any-return]


def setxor1d(ar1: Any, ar2: Any) -> Tensor:
    """The values in one of the two alone.

    Example:
        >>> import fx
        >>> fx.setxor1d(fx.tensor([3, 1, 3]), fx.tensor([3, 2]))
        tensor([1, 2])
    """
    return union1d(setdiff1d(ar1, ar2), setdiff1d(ar2, ar1))
