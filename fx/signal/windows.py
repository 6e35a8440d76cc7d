"""Windows: what a piece of a signal is multiplied by before its spectrum is taken.

Each is computed in float64. ``sym=False`` gives the first M points of the window of M + 1, whose
copies one after another are smooth: that is what spectra want.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from fx import dtypes
from fx.config import default_dtype
from fx.errors import ArgumentError, DTypeError
from fx.ops.axes import integer
from fx.ops.making.creation import ones, ones_like
from fx.ops.making.ranges import arange
from fx.ops.pointwise.composed import clip
from fx.ops.pointwise.elementwise import abs as absolute
from fx.ops.pointwise.elementwise import cos, exp, sin, sqrt
from fx.ops.shapes.manipulation import expand_dims
from fx.tensor import Tensor


def _window(name: str, M: Any, sym: bool, formula: Any, dtype: Any, device: Any, grad: bool) -> Any:
    """``formula(k, last)`` of the places k of a window whose last one is ``last``."""
    M = integer(name, "M", M)
    if M < 0:
        raise ArgumentError(f"{name} requires non-negative window length, got M={M}")
    wanted = default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    if wanted not in dtypes.FLOATING:
        raise DTypeError(f"{name} expects a floating dtype, got {wanted.name}")
    if M < 2:
        out = ones(M, dtype=wanted, device=device)
    else:
        k = arange(M, dtype=dtypes.float64, device=device)
        out = formula(k, M - 1 if sym else M).astype(wanted)
    return out.requires_grad_() if grad else out


def bartlett(
    M: int, *, sym: bool = True, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A triangle whose ends are 0.

    Args:
        M: the number of points.
        sym: whether the last point is the first one's mirror image; else the window is periodic.
        dtype: a floating dtype, the default one unless told.
        device: where the result lies.
        requires_grad: as that of ``fx.tensor``.

    Raises:
        ArgumentError: for a negative M.
        DTypeError: for a dtype that is not floating.

    Example:
        >>> import fx
        >>> fx.signal.windows.bartlett(5)
        tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    triangle = lambda k, last: 1.0 - absolute(k * (2.0 / last) - 1.0)
    return _window("bartlett", M, sym, triangle, dtype, device, requires_grad)  # type: ignore[no-any-return]


def cosine(
    M: int, *, sym: bool = True, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Half a wave; arguments and errors of ``bartlett``."""
    wave = lambda k, last: sin((k + 0.5) * (math.pi / (last + 1)))
    return _window("cosine", M, sym, wave, dtype, device, requires_grad)  # type: ignore[no-any-return]


def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, dtype: Any = None,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """exp(-abs(k - center) / tau); further arguments of ``bartlett``.

    Raises:
        ArgumentError: for tau that is not positive, and for a centre of a symmetric window.
    """
    if tau <= 0:
        raise ArgumentError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ArgumentError("Center must be None for symmetric windows")

    def fall(k: Tensor, last: int) -> Tensor:
        middle = last / 2 if center is None else center
        return exp(absolute(k - middle) * (-1.0 / tau))

    return _window("exponential", M, sym, fall, dtype, device, requires_grad)  # type: ignore[no-any-return]


def gaussian(
    M: int, *, std: float = 1.0, sym: bool = True, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A bell of a standard deviation; further arguments of ``bartlett``.

    Raises:
        ArgumentError: for a deviation that is not positive.
    """
    if std <= 0:
        raise ArgumentError(f"Standard deviation must be positive, got: {std} instead.")

    def bell(k: Tensor, last: int) -> Tensor:
        x = (k - last / 2) * (1.0 / (std * math.sqrt(2.0)))
        return exp(-(x * x))

    return _window("gaussian", M, sym, bell, dtype, device, requires_grad)  # type: ignore[no-any-return]


def kaiser(
    M: int, *, beta: float = 12.0, sym: bool = True, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Of all windows nearly the one with most in the middle of its spectrum.

    Args:
        M, sym, dtype, device, requires_grad: as those of ``bartlett``.
        beta: how narrow it is.

    Raises:
        ArgumentError: for a negative beta or M.

    Source: Kaiser and Schafer, "On the use of the I0-sinh window for spectrum analysis", 1980.
    """
    if beta < 0:
        raise ArgumentError(f"beta must be non-negative, got: {beta} instead.")

    def narrow(k: Tensor, last: int) -> Tensor:
        x = k * (2.0 / last) - 1.0
        bow = beta * sqrt(clip(1.0 - x * x, 0.0, None))
        return _i0(bow, beta) / _i0(bow * 0.0 + beta, beta)

    return _window("kaiser", M, sym, narrow, dtype, device, requires_grad)  # type: ignore[no-any-return]


def _i0(x: Tensor, largest: float) -> Tensor:
    """The modified Bessel function of order 0 up to ``largest``: its power series, all positive."""
    square = x * x * 0.25
    term = total = ones_like(x)
    for k in range(1, 32 + int(1.5 * largest)):
        term = term * square * (1.0 / (k * k))
        total = total + term
    return total


def _general(name: str, M: Any, a: Any, sym: bool, dtype: Any, device: Any, grad: bool) -> Tensor:
    weights = [*a]
    if not weights:
        raise ArgumentError("Coefficients cannot be empty")

    def waves(k: Tensor, last: int) -> Tensor:
        angles = expand_dims(k * (2.0 * math.pi / last), -1) * arange(len(weights), dtype=k.dtype)
        signed = [w * (-1) ** i for i, w in enumerate(weights)]
        return sum(cos(angles[:, i]) * w for i, w in enumerate(signed))  # type: ignore[return-value]

    return _window(name, M, sym, waves, dtype, device, grad)  # type: ignore[no-any-return]


def general_cosine(
    M: int, *, a: Iterable[float], sym: bool = True, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """a[0] - a[1] cos(x) + a[2] cos(2 x) ... over one wave; further arguments of ``bartlett``.

    Raises:
        ArgumentError: without coefficients.
    """
    return _general("general_cosine", M, a, sym, dtype, device, requires_grad)


def general_hamming(
    M: int, *, alpha: float = 0.54, sym: bool = True, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """alpha - (1 - alpha) cos(x) over one wave; further arguments of ``bartlett``."""
    a = (alpha, 1.0 - alpha)
    return _general("general_hamming", M, a, sym, dtype, device, requires_grad)


def _fixed(name: str, a: tuple[float, ...], says: str) -> Any:
    def window(
        M: int, *, sym: bool = True, dtype: Any = None, device: Any = None,
        requires_grad: bool = False,
    ) -> Tensor:  # fmt: skip
        return _general(name, M, a, sym, dtype, device, requires_grad)

    window.__name__ = window.__qualname__ = name
    window.__doc__ = f"""{says}; arguments and errors of ``bartlett``."""
    return window


hann = _fixed("hann", (0.5, 0.5), "A wave from 0 to 1 and back")
hamming = _fixed("hamming", (0.54, 0.46), "A wave that keeps 0.08 at its ends")
blackman = _fixed("blackman", (0.42, 0.5, 0.08), "Three terms, flat at its ends")
nuttall = _fixed(
    "nuttall", (0.3635819, 0.4891775, 0.1365995, 0.0106411), "Four terms, least beside the peak"
)

__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine",
    "general_hamming", "hamming", "hann", "kaiser", "nuttall",
]  # fmt: skip
