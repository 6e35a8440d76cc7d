"""Trends taken away, and the density of a signal's power over frequencies."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import fx.prims.fourier as prims
from fx.dtypes import INEXACT
from fx.errors import ArgumentError, ShapeError
from fx.fft.frequencies import fftfreq, rfftfreq
from fx.fft.transforms import of_length
from fx.ops.axes import normal_axis
from fx.ops.indexing.views import along
from fx.ops.making.ranges import arange
from fx.ops.operands import argument, operands
from fx.ops.reductions.quantiles import median
from fx.ops.reductions.statistics import mean
from fx.ops.shapes.joining import concat
from fx.ops.shapes.manipulation import moveaxis
from fx.ops.shapes.padding import unfold
from fx.signal import windows
from fx.tensor import Tensor


def detrend(
    data: Any, axis: int = -1, type: str = "linear", bp: int | Sequence[int] = 0,
    overwrite_data: Any = None,
) -> Tensor:  # fmt: skip
    """A signal without its mean, or without the line that is nearest to it.

    Args:
        data: floating or complex.
        axis: that of time.
        type: ``"linear"`` or ``"constant"``.
        bp: where new lines begin.
        overwrite_data: None: nothing is written.

    Raises:
        ArgumentError: for another type, and places outside of the signal.

    Source: ``scipy.signal.detrend``.

    Example:
        >>> import fx
        >>> fx.signal.detrend(fx.tensor([1.0, 2.0, 6.0]), type="constant")
        tensor([-2., -1.,  3.])
    """
    x = argument("detrend", data)
    if overwrite_data is not None:
        raise ArgumentError("detrend: overwrite_data is None; nothing is written")
    if type in ("constant", "c"):
        at = normal_axis("detrend", axis, x.shape)
        return x - mean(x, axis=at, keepdims=True)  # type: ignore[no-any-return]
    if type not in ("linear", "l"):
        raise ArgumentError(f"detrend: type is 'linear' or 'constant', got {type!r}")
    x = x if x.dtype in INEXACT else x * 1.0
    at = normal_axis("detrend", axis, x.shape)
    n, x = x.shape[at], moveaxis(x, at, -1)
    begins = [bp] if isinstance(bp, int) else [int(i) for i in bp]
    if any(not 0 <= i <= n for i in begins):
        raise ArgumentError(f"detrend: bp are places in a signal of {n}, got {bp}")
    ends = sorted({0, n, *begins})
    parts = [_without_line(along(x, x.ndim - 1, i, j)) for i, j in pairwise(ends)]
    return moveaxis(concat(parts, axis=-1) if parts else x, -1, at)


def _without_line(x: Tensor) -> Tensor:
    """(*B, n) less the line through it with the least squares."""
    n = x._shape[-1]
    x = x - mean(x, axis=-1, keepdims=True)
    if n < 2:
        return x  # type: ignore[no-any-return]
    time = (arange(n, dtype=x.real.dtype, device=x.device) - (n - 1) / 2) * (1.0 / n)
    slope = (x * time).sum(-1, keepdims=True) / (time * time).sum()
    return x - slope * time  # type: ignore[no-any-return]


def csd(
    x: Any, y: Any, fs: float = 1.0, window: Any = "hann", nperseg: int | None = None,
    noverlap: int | None = None, nfft: int | None = None, detrend: Any = "constant",
    return_onesided: bool = True, scaling: str = "density", axis: int = -1, average: str = "mean",
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The cross power of two signals over frequencies, by Welch's method.

    Args:
        x, y: signals, whose other axes broadcast; the shorter one gets zeros behind.
        fs: how many samples there are in a unit of time.
        window: a name of ``fx.signal.windows``, a tuple of it and its number, or a tensor.
        nperseg: how many samples a piece has; 256, or the length of the window or of a shorter
            signal unless told.
        noverlap: how many samples two pieces share; half of them unless told.
        nfft: how many points its spectrum is computed at; nperseg unless told.
        detrend: the type that pieces are freed of, or False.
        return_onesided: whether frequencies of real signals are those from 0 on only.
        scaling: ``"density"``, over a unit of frequency, or ``"spectrum"``.
        axis: that of time.
        average: ``"mean"`` or ``"median"`` of the pieces.

    Returns:
        The frequencies, and the power with that axis in place of time's.

    Raises:
        ShapeError: if lengths do not fit.
        ArgumentError: for other words.

    Source: P. D. Welch, The use of the fast Fourier transform for the estimation of power spectra,
    1967; ``jax.scipy.signal.csd``.

    Example:
        >>> import fx
        >>> x = fx.sin(fx.arange(64) * 0.5)
        >>> f, power = fx.signal.csd(x, x, nperseg=16)
        >>> f.shape, power.shape
        ((9,), (9,))
    """
    x, y = operands("csd", x, y, True)
    there = (fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average)
    return _power("csd", x, y, *there)


def welch(
    x: Any, fs: float = 1.0, window: Any = "hann", nperseg: int | None = None,
    noverlap: int | None = None, nfft: int | None = None, detrend: Any = "constant",
    return_onesided: bool = True, scaling: str = "density", axis: int = -1, average: str = "mean",
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The power of a signal over frequencies; arguments, results and errors of ``csd``.

    Source: ``jax.scipy.signal.welch``.

    Example:
        >>> import fx
        >>> x = fx.sin(fx.arange(64) * (3.14159265 / 4))
        >>> f, power = fx.signal.welch(x, nperseg=16)
        >>> f[power.argmax()]
        tensor(0.1250)
    """
    x = argument("welch", x)
    x = x if x.dtype in INEXACT else x * 1.0
    there = (fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average)
    f, power = _power("welch", x, x, *there)
    return f, power.real


def _power(
    name: str, x: Tensor, y: Tensor, fs: Any, window: Any, nperseg: Any, noverlap: Any, nfft: Any,
    trend: Any, onesided: bool, scaling: str, axis: int, average: str,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    for word, given, known in (
        ("scaling", scaling, ("density", "spectrum")),
        ("average", average, ("mean", "median")),
        ("detrend", trend, ("constant", "linear", False)),
    ):
        if given not in known:
            raise ArgumentError(f"{name}: {word} is one of {known}, got {given!r}")
    at = normal_axis(name, axis, x.shape)
    same, x, y = x is y, moveaxis(x, axis, -1), moveaxis(y, axis, -1)
    n = max(x.shape[-1], y.shape[-1])
    if not n:
        raise ShapeError(f"{name}: signals {x.shape} and {y.shape} have no samples")
    x, y = of_length(x, x.ndim - 1, n), of_length(y, y.ndim - 1, n)
    shaped, width = _shaped(name, window, nperseg, n, x)
    points = width if nfft is None else nfft
    shared = width // 2 if noverlap is None else noverlap
    if points < width or not 0 <= shared < width:
        raise ShapeError(
            f"{name}: of pieces of {width} samples nfft is no less and noverlap from 0 to "
            f"{width - 1}, got {points} and {shared}"
        )
    half = onesided and x.dtype.kind != "c"

    def spectra(signal: Tensor) -> Tensor:  # (*B, n) -> (*B, pieces, frequencies)
        pieces = unfold(signal, -1, width, width - shared)
        pieces = detrend(pieces, type=trend) if trend else pieces
        pieces = of_length(pieces * shaped, pieces.ndim - 1, points)
        last = pieces.ndim - 1
        if half:
            return prims.rfft(pieces, axes=(last,), scale=0)  # type: ignore[no-any-return]
        return prims.fft(  # type: ignore[no-any-return]
            pieces if pieces.dtype.kind == "c" else pieces + 0j, axes=(last,), inverse=False,
            scale=0,
        )  # fmt: skip

    first = spectra(x)
    power = first.conj() * (first if same else spectra(y))
    squares = (shaped * shaped).sum() * fs if scaling == "density" else shaped.sum() ** 2
    power = power / squares
    if half:  # what lies below 0 is added, of all that has a mirror image
        times = [1.0 if k == 0 or 2 * k == points else 2.0 for k in range(power.shape[-1])]
        power = power * argument(name, _numbers(times, x), x)
    out = _averaged(power, average)
    f = (rfftfreq if half else fftfreq)(points, d=1.0 / fs, dtype=x.real.dtype)
    return f.to(x.device), moveaxis(out, -1, at)


def _numbers(values: Sequence[float], x: Tensor) -> Tensor:
    from fx.ops.making.interop import asarray

    return asarray(values, dtype=x.real.dtype, device=x.device)


def _averaged(power: Tensor, average: str) -> Tensor:
    """(*B, pieces, frequencies) -> (*B, frequencies); the median over what it is of pure noise."""
    if average == "mean":
        return mean(power, axis=-2)
    n = power.shape[-2]
    bias = 1.0 + sum(1.0 / (k + 1) - 1.0 / k for k in range(2, n, 2))
    return (median(power.real, axis=-2) + median(power.imag, axis=-2) * 1j) / bias  # type: ignore[no-any-return]


def _shaped(name: str, window: Any, nperseg: Any, n: int, x: Tensor) -> tuple[Tensor, int]:
    """The window (width,) of real numbers, and its width."""
    if isinstance(window, (str, tuple)):
        width = 256 if nperseg is None else nperseg
        if width < 1:
            raise ShapeError(f"{name}: nperseg is positive, got {width}")
        if width > n:
            if nperseg is not None:
                warnings.warn(f"{name}: pieces of {width} samples are cut to {n}", stacklevel=4)
            width = n
        word, *numbers = (window,) if isinstance(window, str) else window
        if word not in windows.__all__ or word in ("general_cosine", "general_hamming"):
            raise ArgumentError(
                f"{name}: window is one of {', '.join(windows.__all__)}, got {window!r}; or give "
                f"a tensor"
            )
        own = {"kaiser": "beta", "gaussian": "std", "exponential": "tau"}
        if len(numbers) != (word in own):
            raise ArgumentError(
                f"{name}: write ('{word}', {own[word]})" if word in own
                else f"{name}: the window {word} has no number, got {window!r}"
            )  # fmt: skip
        options = {own[word]: numbers[0]} if numbers else {}
        dtype = x.real.dtype
        found = getattr(windows, word)(width, sym=False, dtype=dtype, **options)
        return found.to(x.device), width
    given = argument(name, window, x)
    if given.ndim != 1 or not 0 < given.shape[0] <= n:
        raise ShapeError(f"{name}: a window of 1 .. {n} samples, got shape {given.shape}")
    if nperseg is not None and nperseg != given.shape[0]:
        raise ShapeError(f"{name}: nperseg={nperseg}, but the window has {given.shape[0]} samples")
    return given, given.shape[0]


__all__ = ["csd", "detrend", "welch"]
