"""The frequencies of a spectrum's points, and their order."""

from __future__ import annotations

from typing import Any

from fx import dtypes
from fx.config import default_dtype
from fx.errors import DTypeError, ShapeError
from fx.ops.axes import integer, ordered_axes
from fx.ops.making.ranges import arange
from fx.ops.operands import argument
from fx.ops.shapes.joining import concat
from fx.ops.shapes.manipulation import roll
from fx.tensor import Tensor


def _frequencies(name: str, n: Any, d: float, dtype: Any, device: Any, parts: Any) -> Tensor:
    n = integer(name, "n", n)
    if n < 0:
        raise ShapeError(f"{name}: n must not be negative, got {n}")
    dtype = default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    if dtype not in dtypes.FLOATING:
        raise DTypeError(f"{name} takes a floating dtype, got {dtype.name}")
    made = [arange(*ends, dtype=dtype, device=device) for ends in parts(n)]
    found = made[0] if len(made) == 1 else concat(made)
    return found * (1.0 / (n * d)) if n else found  # type: ignore[no-any-return]


def fftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies of the n points of ``fft``, the negative ones last; unit 1 / d.

    Args:
        n: the number of points.
        d: the time from one sample to the next.
        dtype: a real floating dtype, the default one unless told.
        device: where the result lies.

    Raises:
        DTypeError: for a dtype that is not floating.
        ShapeError: for a negative n.

    Source: Python Array API standard 2024.12, ``fft.fftfreq``.

    Example:
        >>> import fx
        >>> fx.fft.fftfreq(4)
        tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    parts = lambda n: ((0, (n + 1) // 2), (-(n // 2), 0))
    return _frequencies("fftfreq", n, d, dtype, device, parts)


def rfftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies of the n // 2 + 1 points of ``rfft``; arguments and errors of ``fftfreq``.

    Example:
        >>> import fx
        >>> fx.fft.rfftfreq(4)
        tensor([0.0000, 0.2500, 0.5000])
    """
    return _frequencies("rfftfreq", n, d, dtype, device, lambda n: ((0, n // 2 + 1),))


def fftshift(x: Any, axes: Any = None) -> Tensor:
    """Points in the order of their frequencies, 0 in the middle.

    Args:
        x: a tensor.
        axes: one or several axes, all of them unless told.

    Example:
        >>> import fx
        >>> fx.fft.fftshift(fx.tensor([0, 1, 2, -2, -1]))
        tensor([-2, -1,  0,  1,  2])
    """
    return _rolled("fftshift", x, axes, lambda n: n // 2)


def ifftshift(x: Any, axes: Any = None) -> Tensor:
    """The inverse of ``fftshift``."""
    return _rolled("ifftshift", x, axes, lambda n: -(n // 2))


def _rolled(name: str, x: Any, axes: Any, by: Any) -> Tensor:
    x = argument(name, x)
    found = ordered_axes(name, axes, x._shape)
    return roll(x, tuple([by(x._shape[a]) for a in found]), found) if found else x
