"""Short-time Fourier transforms: the spectra of overlapping pieces of a signal, and back."""

from __future__ import annotations

import warnings
from typing import Any

import fx.prims.fourier as prims
from fx import dtypes
from fx.errors import DTypeError, ShapeError
from fx.fft.transforms import of_length
from fx.ops.axes import integer
from fx.ops.indexing.views import along
from fx.ops.making.creation import ones
from fx.ops.operands import argument
from fx.ops.pointwise.complex_numbers import view_as_real
from fx.ops.reductions.reduction import sum as total_of
from fx.ops.shapes.joining import concat
from fx.ops.shapes.manipulation import reshape
from fx.ops.shapes.padding import pad, unfold, with_constant
from fx.tensor import Tensor

_LEAST = 1e-11  # of the sum of squared windows, where a signal can be had back


def _lengths(name: str, n_fft: Any, hop_length: Any, win_length: Any) -> tuple[int, int, int]:
    points = integer(name, "n_fft", n_fft)
    hop = points // 4 if hop_length is None else integer(name, "hop_length", hop_length)
    width = points if win_length is None else integer(name, "win_length", win_length)
    if hop < 1:
        raise ShapeError(f"{name}: hop_length must be positive, got {hop}")
    if not 0 < width <= points:
        raise ShapeError(f"{name}: expected 0 < win_length <= n_fft = {points}, got {width}")
    return points, hop, width


def _window(name: str, window: Any, width: int, points: int, x: Tensor) -> Tensor:
    """The window in the middle of n_fft points, in floats."""
    if window is None:
        found = ones(width, dtype=dtypes.real_of(x.dtype), device=x.device)
    else:
        found = argument(name, window)
        if found.shape != (width,):
            raise ShapeError(
                f"{name}: expected a window of shape ({width},), win_length, got {found.shape}"
            )
    if width == points:
        return found
    before = (points - width) // 2
    return with_constant(found, [(before, points - width - before)], 0)


def _sides(name: str, onesided: bool | None, x: Tensor, window: Any, real: bool) -> bool:
    """Whether half a spectrum says all."""
    plain = real and not (window is not None and argument(name, window)._dtype.kind == "c")
    if onesided and not plain:
        raise DTypeError(f"{name}: the signal or the window is complex; write onesided=False")
    return plain if onesided is None else onesided


def stft(
    input: Any, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Any = None, center: bool = True, pad_mode: str = "reflect", normalized: bool = False,
    onesided: bool | None = None, return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:  # fmt: skip
    """The spectra of pieces of a signal.

    Args:
        input: (time,) or (batch, time), floating or complex.
        n_fft: how many points a piece has.
        hop_length: how far one piece starts after the one before; n_fft // 4 unless told.
        win_length: how many of the points, in the middle, the window covers; all unless told.
        window: (win_length,), such as ``fx.signal.windows.hann(win_length, sym=False)``; ones
            unless told.
        center: whether piece t is centred at time t * hop_length, the signal being padded.
        pad_mode: how: a mode of ``fx.pad``.
        normalized: whether the spectra are divided by the root of n_fft.
        onesided: whether to give n_fft // 2 + 1 points; so it is where signal and window are real.
        return_complex: has to be given for a real signal; False gives a last axis (real, imag).
        align_to_window: without ``center``, whether the first window starts at time 0.

    Returns:
        (points, pieces) or (batch, points, pieces), complex.

    Raises:
        ShapeError: if lengths do not fit.
        DTypeError: for integers, and half a spectrum of complex numbers.
        RuntimeError: without ``return_complex`` for a real signal, as in PyTorch.

    Source: ``torch.stft``.

    Example:
        >>> import fx
        >>> x = fx.sin(fx.arange(64) * 0.5)
        >>> window = fx.signal.windows.hann(16, sym=False)
        >>> fx.signal.stft(x, 16, window=window, return_complex=True).shape
        (9, 17)
    """
    x = argument("stft", input)
    if x._dtype not in dtypes.INEXACT or x.ndim not in (1, 2):
        raise ShapeError(
            f"stft: expected a floating or complex tensor of shape (time,) or (batch, time), got "
            f"{x.dtype.name}{x.shape}"
        )
    points, hop, width = _lengths("stft", n_fft, hop_length, win_length)
    real = x._dtype.kind != "c"
    half = _sides("stft", onesided, x, window, real)
    if return_complex is None:
        if real and not (window is not None and argument("stft", window)._dtype.kind == "c"):
            raise RuntimeError("stft: give return_complex=True for a real signal")
        return_complex = True
    shaped = _window("stft", window, width, points, x)
    x = _bordered(x, points, width, center, pad_mode, align_to_window)
    if not points <= x._shape[-1]:
        raise ShapeError(f"stft: pieces of {points} points do not fit a signal of {x.shape[-1]}")
    pieces = unfold(x, -1, points, hop) * shaped  # (*batch, pieces, points)
    scale = -0.5 if normalized else 0
    last = pieces.ndim - 1
    spectra = (
        prims.rfft(pieces, axes=(last,), scale=scale)
        if half
        else prims.fft(pieces, axes=(last,), inverse=False, scale=scale)
    )
    spectra = spectra.swapaxes(-1, -2)  # (*batch, points, pieces)
    return spectra if return_complex else view_as_real(spectra)  # type: ignore[no-any-return]


def _bordered(
    x: Tensor, points: int, width: int, center: bool, mode: str, align: bool | None
) -> Tensor:
    if center:
        if align is not None:
            raise RuntimeError("stft align_to_window should only be set when center = false")
        widths = [*[(0, 0)] * (x.ndim - 1), (points // 2,) * 2]
        return pad(x, widths, mode)
    if align:
        before = (points - width) // 2
        return with_constant(x, [*[(0, 0)] * (x.ndim - 1), (before, points - width - before)], 0)
    return x


def istft(
    input: Any, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Any = None, center: bool = True, normalized: bool = False,
    onesided: bool | None = None, length: int | None = None, return_complex: bool = False,
) -> Tensor:  # fmt: skip
    """The signal whose ``stft`` is nearest to given spectra.

    Pieces are added up, and the sum is divided by that of the squared windows.

    Args:
        input: (points, pieces) or (batch, points, pieces), complex.
        n_fft, hop_length, win_length, window, center, normalized: those of ``stft``.
        onesided: whether spectra are halves; unless told they are where they have not n_fft points.
        length: of the signal; it is cut, or gets zeros behind.
        return_complex: whether the signal is complex; then spectra are whole.

    Returns:
        (time,) or (batch, time).

    Raises:
        ShapeError: if lengths do not fit, or there is a place to which no window reaches.
        DTypeError: for real spectra.

    Source: ``torch.istft``; Griffin and Lim, "Signal estimation from modified short-time Fourier
    transform", 1984.

    Example:
        >>> import fx
        >>> x = fx.sin(fx.arange(64) * 0.5)
        >>> there = {"n_fft": 16, "window": fx.signal.windows.hann(16, sym=False)}
        >>> again = fx.signal.istft(fx.signal.stft(x, return_complex=True, **there), **there)
        >>> bool(fx.allclose(x, again, atol=1e-5))
        True
    """
    x = argument("istft", input)
    if x._dtype.kind != "c":
        raise DTypeError("istft: expected complex spectra, as stft(..., return_complex=True) gives")
    points, hop, width = _lengths("istft", n_fft, hop_length, win_length)
    if x.ndim not in (2, 3) or not x.size:
        raise ShapeError(f"istft: expected (points, pieces) or (batch, ...), got shape {x.shape}")
    if onesided is None:
        onesided = x._shape[-2] != points
    half = _sides("istft", onesided, x, window, not return_complex)
    if hop > width:
        raise ShapeError(f"istft: expected hop_length <= win_length = {width}, got {hop}")
    expected = points // 2 + 1 if half else points
    if x._shape[-2] != expected:
        raise ShapeError(f"istft: n_fft={points} gives {expected} points, got shape {x.shape}")
    shaped = _window("istft", window, width, points, x)
    spectra, last = x.swapaxes(-1, -2), x.ndim - 1  # (*batch, pieces, points)
    scale = -0.5 if normalized else -1
    if return_complex:
        pieces = prims.fft(spectra, axes=(last,), inverse=True, scale=scale)
    else:  # half of the spectrum of a real signal says all
        spectra = spectra if half else along(spectra, last, 0, points // 2 + 1)
        pieces = prims.irfft(spectra, axes=(last,), n=points, scale=scale)
    count = x._shape[-1]
    total = points + hop * (count - 1)
    signal = _overlapped(pieces * shaped, hop, total)
    squares = _overlapped_alike(shaped * shaped, count, hop, total)
    start = points // 2 if center else 0
    stop = total - points // 2 if center else total
    if length is not None:
        stop = min(start + integer("istft", "length", length), total)
    signal, squares = along(signal, signal.ndim - 1, start, stop), along(squares, 0, start, stop)
    _check_reached(squares)
    signal = signal / squares
    if length is not None and length > stop - start:
        warnings.warn(
            "istft: the spectra do not reach to the given length; zeros stand behind",
            stacklevel=2,
        )
        signal = of_length(signal, signal.ndim - 1, length)
    return signal  # type: ignore[no-any-return]


def _overlapped(pieces: Tensor, hop: int, total: int) -> Tensor:
    """(*batch, pieces, points) added up, each ``hop`` after the one before: (*batch, total).

    Pieces are parts of ``hop`` points, of which part k of piece i adds to part i + k of the sum.
    With as many zeros behind the pieces as there are parts, and parts before pieces, these lie
    below each other where rows are taken one part shorter:

        a0 a1 a2 0 0              a0 a1 a2 0
        b0 b1 b2 0 0     ->       0  b0 b1 b2     (two parts, a and b, of three pieces)
    """
    *batch, count, points = pieces._shape
    last, parts = len(batch), -(-points // hop)
    pieces = of_length(pieces, last + 1, parts * hop)
    apart = reshape(pieces, (*batch, count, parts, hop)).swapaxes(last, last + 1)
    rows = reshape(of_length(apart, last + 1, count + parts), (*batch, -1, hop))
    rows = along(rows, last, 0, parts * (count + parts - 1))
    sums = total_of(reshape(rows, (*batch, parts, count + parts - 1, hop)), axis=last)
    return along(reshape(sums, (*batch, -1)), last, 0, total)


def _overlapped_alike(piece: Tensor, count: int, hop: int, total: int) -> Tensor:
    """``count`` times the same (points,) added up so: (total,). All parts in the middle are one."""
    (points,) = piece._shape
    parts = -(-points // hop)
    few = min(count, parts)
    ends = (few + parts - 1) * hop
    sums = _overlapped(piece.expand((few, points)), hop, ends)
    between = along(sums, 0, (parts - 1) * hop, parts * hop).expand((count - few, hop))
    pieces = [
        along(sums, 0, 0, parts * hop),
        reshape(between, (-1,)),
        along(sums, 0, parts * hop, ends),
    ]
    return along(concat(pieces), 0, 0, total)


def _check_reached(squares: Tensor) -> None:
    """Refuse windows that leave a place out, where their values are known."""
    known = type(squares) is Tensor and squares.device.name != "meta"
    if known and squares.size and bool(abs(squares).min() < _LEAST):
        raise ShapeError("istft: windows leave a place of the signal out (their sum there is 0)")


__all__ = ["istft", "stft"]
