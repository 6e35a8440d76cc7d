"""The transforms: lengths and norms become those of the three primitives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import fx.prims.fourier as prims
from fx.errors import ArgumentError, AxisError, DTypeError, ShapeError
from fx.ops.axes import integer, normal_axis, ordered_axes
from fx.ops.indexing.views import along
from fx.ops.operands import floating
from fx.ops.shapes.padding import with_constant
from fx.prims.complex import conj
from fx.quick import quick
from fx.tensor import Tensor

_fft = quick(prims.fft, "axes", "inverse", "scale")
_rfft, _irfft = quick(prims.rfft, "axes", "scale"), quick(prims.irfft, "axes", "n", "scale")
_SCALES = {  # the power of the number of points that sums are multiplied by: forwards, back
    None: (0, -1), "backward": (0, -1), "ortho": (-0.5, -0.5), "forward": (-1, 0),
}  # fmt: skip


def _scale(name: str, norm: Any, inverse: bool) -> float:
    if norm is not None and not (isinstance(norm, str) and norm in _SCALES):
        raise ArgumentError(f"{name}: norm must be 'backward', 'ortho' or 'forward', got {norm!r}")
    return _SCALES[norm][inverse]


def _points(name: str, n: Any) -> int:
    if type(n) is not int:
        n = integer(name, "the number of points", n)
    if n < 1:
        raise ShapeError(f"{name}: invalid number of data points ({n}); at least 1 is needed")
    return n


def of_length(x: Tensor, axis: int, n: int) -> Tensor:
    """The first n elements along an axis, zeros behind them if there are fewer."""
    here = x._shape[axis]
    if n <= here:
        return x if n == here else along(x, axis, 0, n)
    return with_constant(x, [(0, (n - here) * (i == axis)) for i in range(x.ndim)], 0)


def _plan(
    name: str, x: Tensor, s: Any, axes: Any, halved: bool = False
) -> tuple[tuple[int, ...], list[int]]:
    """The axes of a transform and the points along each; -1 of ``s`` means what there is.

    ``halved``: of the last axis x has half a spectrum.
    """
    shape = x._shape
    sizes = None if s is None else [s] if not isinstance(s, Sequence) else [*s]
    if axes is None and sizes is not None:
        if len(sizes) > len(shape):
            raise ShapeError(f"{name}: {len(sizes)} lengths {tuple(sizes)} for shape {shape}")
        axes = tuple(range(len(shape) - len(sizes), len(shape)))
    found = ordered_axes(name, axes, shape)
    if sizes is not None and len(sizes) != len(found):
        raise ShapeError(f"{name}: {len(sizes)} lengths {tuple(sizes)} for axes {tuple(found)}")
    points = [shape[a] for a in found]
    if halved and points:
        points[-1] = 2 * (points[-1] - 1)
    for i, n in enumerate(sizes or ()):
        if n is not None and n != -1:
            points[i] = n
    return found, [_points(name, n) for n in points]


def _complexes(
    x: Tensor, axes: Sequence[int], points: Sequence[int], scale: float, inverse: bool
) -> Tensor:
    """The transform of so many points along axes."""
    for axis, n in zip(axes, points):
        if x._shape[axis] != n:
            x = of_length(x, axis, n)
    return _fft(x, tuple(axes), inverse, scale)  # type: ignore[no-any-return]


def _to_half(
    name: str, x: Tensor, axes: Sequence[int], points: Sequence[int], scale: float,
    inverse: bool = False,
) -> Tensor:  # fmt: skip
    """Half a spectrum along the last of some axes; conjugates where ``inverse``."""
    if not axes:
        raise AxisError(f"{name}: at least one axis has to be transformed")
    if x._dtype.kind == "c":
        raise DTypeError(f"{name} takes real numbers, got {x._dtype.name}; write x.real or fft")
    for axis, n in zip(axes, points, strict=True):
        if x._shape[axis] != n:
            x = of_length(x, axis, n)
    half = _rfft(x, tuple(axes), scale)
    return conj(half) if inverse else half  # type: ignore[no-any-return]


def _from_half(
    name: str, x: Tensor, axes: Sequence[int], points: Sequence[int], scale: float,
    inverse: bool = True,
) -> Tensor:  # fmt: skip
    """Real numbers of half a spectrum along the last of some axes; of conjugates if forwards."""
    if not axes:
        raise AxisError(f"{name}: at least one axis has to be transformed")
    *first, last = points
    for axis, n in zip(axes, (*first, last // 2 + 1), strict=True):
        if x._shape[axis] != n:
            x = of_length(x, axis, n)
    if not inverse and x._dtype.kind == "c":
        x = conj(x)
    return _irfft(x, tuple(axes), last, scale)  # type: ignore[no-any-return]


# along one axis ---------------------------------------------------------------------------------


def _line(
    name: str, x: Any, n: Any, axis: Any, norm: Any, inverse: bool, halved: bool = False
) -> tuple[Tensor, tuple[int], tuple[int], float]:
    """What is transformed, its axis, how many points there are, and the scale."""
    x = floating(name, x)
    shape = x._shape
    at = normal_axis(name, axis, shape)
    if n is None:
        n = 2 * (shape[at] - 1) if halved else shape[at]
    return x, (at,), (_points(name, n),), _scale(name, norm, inverse)


def fft(x: Any, n: int | None = None, axis: int = -1, norm: str | None = "backward") -> Tensor:
    """The discrete Fourier transform along an axis: sum over j of x[j] exp(-2 pi i j k / n).

    Args:
        x: (*A, m, *B), real or complex; float16 and bfloat16 are refused.
        n: the number of points; x is cut, or gets zeros behind, where it has others.
        axis: the axis.
        norm: which direction is divided: ``"backward"``, ``"ortho"`` or ``"forward"``.

    Returns:
        (*A, n, *B), complex.

    Raises:
        ShapeError: for less than one point.
        ArgumentError: for another ``norm``; a ValueError.
        DTypeError: for 16-bit numbers.

    Source: Python Array API standard 2024.12, ``fft.fft``; ``torch.fft.fft``.

    Example:
        >>> import fx
        >>> fx.fft.fft(fx.tensor([1.0, 2.0, 4.0, 8.0])).real
        tensor([15., -3., -5., -3.])
    """
    return _complexes(*_line("fft", x, n, axis, norm, False), False)


def ifft(x: Any, n: int | None = None, axis: int = -1, norm: str | None = "backward") -> Tensor:
    """The inverse of ``fft``, with its arguments.

    Example:
        >>> import fx
        >>> fx.fft.ifft(fx.fft.fft(fx.tensor([1.0, 2.0]))).real
        tensor([1., 2.])
    """
    return _complexes(*_line("ifft", x, n, axis, norm, True), True)


def rfft(x: Any, n: int | None = None, axis: int = -1, norm: str | None = "backward") -> Tensor:
    """The first n // 2 + 1 points of the transform of real numbers; the rest are their conjugates.

    Args:
        x: (*A, m, *B), real.
        n, axis, norm: as those of ``fft``.

    Returns:
        (*A, n // 2 + 1, *B), complex.

    Raises:
        DTypeError: for complex numbers and those of 16 bits.
        ShapeError: as ``fft``.

    Example:
        >>> import fx
        >>> fx.fft.rfft(fx.tensor([1.0, 2.0, 3.0, 4.0]))
        tensor([10.+0.j, -2.+2.j, -2.+0.j])
    """
    return _to_half("rfft", *_line("rfft", x, n, axis, norm, False), False)


def irfft(x: Any, n: int | None = None, axis: int = -1, norm: str | None = "backward") -> Tensor:
    """The inverse of ``rfft``.

    Args:
        x: (*A, m, *B), half a spectrum; the imaginary parts of its first and, of even n, its last
            point count for nothing.
        n: how many numbers to give; 2 (m - 1) unless told. An odd n has to be told.
        axis, norm: as those of ``fft``.

    Returns:
        (*A, n, *B), real.

    Example:
        >>> import fx
        >>> fx.fft.irfft(fx.fft.rfft(fx.tensor([1.0, 2.0, 4.0])), n=3)
        tensor([1., 2., 4.])
    """
    return _from_half("irfft", *_line("irfft", x, n, axis, norm, True, True), True)


def hfft(x: Any, n: int | None = None, axis: int = -1, norm: str | None = "backward") -> Tensor:
    """The real spectrum of a signal of which half is given, the other half being its conjugate.

    Args and result: as those of ``irfft``.

    Example:
        >>> import fx
        >>> fx.fft.hfft(fx.tensor([1.0, 2.0, 3.0]))
        tensor([ 8., -2.,  0., -2.])
    """
    return _from_half("hfft", *_line("hfft", x, n, axis, norm, False, True), False)


def ihfft(x: Any, n: int | None = None, axis: int = -1, norm: str | None = "backward") -> Tensor:
    """The inverse of ``hfft``: half of the signal whose spectrum is real.

    Args and result: as those of ``rfft``.

    Example:
        >>> import fx
        >>> fx.fft.ihfft(fx.tensor([8.0, -2.0, 0.0, -2.0])).real
        tensor([1., 2., 3.])
    """
    return _to_half("ihfft", *_line("ihfft", x, n, axis, norm, True), True)


# along several ----------------------------------------------------------------------------------


def one_line(
    name: str, x: Any, n: Any, axis: Any
) -> tuple[Tensor, tuple[int, ...], tuple[int, ...]]:
    """What is transformed, its axis, and how many points there are."""
    return _line(name, x, n, axis, None, False)[:3]


def several_lines(
    name: str, x: Any, s: Any, axes: Any
) -> tuple[Tensor, tuple[int, ...], list[int]]:
    """What is transformed, its axes, and how many points they have."""
    return _plane(name, x, s, axes, None, False)[:3]


def _plane(
    name: str, x: Any, s: Any, axes: Any, norm: Any, inverse: bool, halved: bool = False
) -> tuple[Tensor, tuple[int, ...], list[int], float]:
    """What is transformed, its axes, how many points they have, and the scale."""
    x = floating(name, x)
    scale = _scale(name, norm, inverse)
    return (x, *_plan(name, x, s, axes, halved), scale)


def fftn(x: Any, s: Any = None, axes: Any = None, norm: str | None = "backward") -> Tensor:
    """The discrete Fourier transform along several axes.

    Args:
        x: a tensor, real or complex.
        s: the number of points along each axis; -1 means those there are. Without ``axes`` they are
            those of the last axes.
        axes: the axes, all of them unless told.
        norm: as that of ``fft``, of the number of all points.

    Raises:
        ShapeError: if there are more or fewer lengths than axes, or one is below 1.

    Source: Python Array API standard 2024.12, ``fft.fftn``; ``torch.fft.fftn``.

    Example:
        >>> import fx
        >>> fx.fft.fftn(fx.ones((2, 2))).real
        tensor([[4., 0.],
                [0., 0.]])
    """
    return _complexes(*_plane("fftn", x, s, axes, norm, False), False)


def ifftn(x: Any, s: Any = None, axes: Any = None, norm: str | None = "backward") -> Tensor:
    """The inverse of ``fftn``, with its arguments."""
    return _complexes(*_plane("ifftn", x, s, axes, norm, True), True)


def rfftn(x: Any, s: Any = None, axes: Any = None, norm: str | None = "backward") -> Tensor:
    """``fftn`` of real numbers: of the last axis only the first n // 2 + 1 points."""
    return _to_half("rfftn", *_plane("rfftn", x, s, axes, norm, False), False)


def irfftn(x: Any, s: Any = None, axes: Any = None, norm: str | None = "backward") -> Tensor:
    """The inverse of ``rfftn``; ``s`` are lengths of the result, which is real."""
    return _from_half("irfftn", *_plane("irfftn", x, s, axes, norm, True, True), True)


def hfftn(x: Any, s: Any = None, axes: Any = None, norm: str | None = "backward") -> Tensor:
    """``hfft`` along the last axis, of ``fftn`` along the others."""
    return _from_half("hfftn", *_plane("hfftn", x, s, axes, norm, False, True), False)


def ihfftn(x: Any, s: Any = None, axes: Any = None, norm: str | None = "backward") -> Tensor:
    """The inverse of ``hfftn``."""
    return _to_half("ihfftn", *_plane("ihfftn", x, s, axes, norm, True), True)


def fft2(x: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = "backward") -> Tensor:
    """``fftn`` along the last two axes."""
    return _complexes(*_plane("fft2", x, s, axes, norm, False), False)


def ifft2(x: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = "backward") -> Tensor:
    """``ifftn`` along the last two axes."""
    return _complexes(*_plane("ifft2", x, s, axes, norm, True), True)


def rfft2(x: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = "backward") -> Tensor:
    """``rfftn`` along the last two axes."""
    return _to_half("rfft2", *_plane("rfft2", x, s, axes, norm, False), False)


def irfft2(x: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = "backward") -> Tensor:
    """``irfftn`` along the last two axes."""
    return _from_half("irfft2", *_plane("irfft2", x, s, axes, norm, True, True), True)


def hfft2(x: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = "backward") -> Tensor:
    """``hfftn`` along the last two axes."""
    return _from_half("hfft2", *_plane("hfft2", x, s, axes, norm, False, True), False)


def ihfft2(x: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = "backward") -> Tensor:
    """``ihfftn`` along the last two axes."""
    return _to_half("ihfft2", *_plane("ihfft2", x, s, axes, norm, True), True)
