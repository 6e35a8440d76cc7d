"""Convolution: by Fourier transforms, whose cost grows not with the kernel, and by its sums."""

from __future__ import annotations

from typing import Any

import fx.prims.fourier as prims
from fx.errors import ArgumentError, ShapeError
from fx.fft.transforms import of_length
from fx.ops.axes import ordered_axes
from fx.ops.indexing.views import along
from fx.ops.operands import operands
from fx.tensor import Tensor

_MODES = ("full", "same", "valid")


def fftconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Tensor:
    """The convolution of two tensors along axes, by transforms.

    Args:
        in1: a tensor.
        in2: of as many axes; the others than those of the convolution broadcast.
        mode: ``"full"``, n + m - 1 elements; ``"same"``, the middle n of them; ``"valid"``, those
            to which no border adds.
        axes: all of them unless told.

    Raises:
        ShapeError: if shapes do not fit.
        ArgumentError: for another ``mode``.

    Source: ``scipy.signal.fftconvolve``.

    Example:
        >>> import fx
        >>> fx.signal.fftconvolve(fx.tensor([1.0, 2.0, 3.0]), fx.tensor([1.0, 1.0]))
        tensor([1., 3., 5., 3.])
    """
    if mode not in _MODES:
        raise ArgumentError(f"fftconvolve: mode must be one of {', '.join(_MODES)}, got {mode!r}")
    x, y = operands("fftconvolve", in1, in2, True)
    if x.ndim != y.ndim:
        raise ShapeError(f"fftconvolve: shapes {x.shape} and {y.shape} differ in their axes")
    found = ordered_axes("fftconvolve", axes, x._shape)
    here, there = [x._shape[a] for a in found], [y._shape[a] for a in found]
    if mode == "valid" and any(n < m for n, m in zip(here, there, strict=True)):
        if any(n > m for n, m in zip(here, there, strict=True)):
            raise ShapeError(f"fftconvolve: neither of {x.shape} and {y.shape} holds the other")
        x, y, here, there = y, x, there, here
    if not all((*here, *there)):
        raise ShapeError(f"fftconvolve: shapes {x.shape} and {y.shape} have an axis of no elements")
    out = _circular(x, y, found, [n + m - 1 for n, m in zip(here, there, strict=True)])
    for axis, n, m in zip(found, here, there, strict=True):
        if mode != "full":
            size = n if mode == "same" else n - m + 1
            start = (n + m - 1 - size) // 2
            out = along(out, axis, start, start + size)
    return out


def _circular(x: Tensor, y: Tensor, axes: tuple[int, ...], sizes: list[int]) -> Tensor:
    """The whole convolution: its elements and perhaps zeros, cut off again."""
    points = [_fast(n) for n in sizes]
    for axis, n in zip(axes, points, strict=True):
        x, y = of_length(x, axis, n), of_length(y, axis, n)
    if x._dtype.kind == "c":
        there = {"axes": axes, "inverse": False, "scale": 0}
        out = prims.fft(
            prims.fft(x, **there) * prims.fft(y, **there), axes=axes, inverse=True, scale=-1
        )
    elif axes:
        product = prims.rfft(x, axes=axes, scale=0) * prims.rfft(y, axes=axes, scale=0)
        out = prims.irfft(product, axes=axes, n=points[-1], scale=-1)
    else:
        out = x * y
    for axis, n in zip(axes, sizes, strict=True):
        out = along(out, axis, 0, n)
    return out


def _fast(n: int) -> int:
    """The next number of points that is a product of 2, 3 and 5."""
    while True:
        rest = n
        for prime in (2, 3, 5):
            while rest % prime == 0:
                rest //= prime
        if rest == 1:
            return n
        n += 1
