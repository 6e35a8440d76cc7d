"""Convolution and correlation by their sums, along any number of axes."""

from __future__ import annotations

from typing import Any

from fx.dtypes import FLOATING
from fx.errors import ArgumentError, ShapeError
from fx.ops.indexing.views import along
from fx.ops.operands import operands
from fx.ops.products.einsum import einsum
from fx.ops.shapes.manipulation import flip
from fx.ops.shapes.padding import pad, unfold, with_constant
from fx.prims.convolution import conv
from fx.signal.convolution import fftconvolve
from fx.tensor import Tensor

_MODES = ("full", "same", "valid")
_METHODS = ("auto", "direct", "fft")
_BOUNDARIES = {"fill": "constant", "wrap": "wrap", "symm": "symmetric"}


def convolve(
    in1: Any, in2: Any, mode: str = "full", method: str = "auto", precision: Any = None
) -> Tensor:
    """The convolution of two tensors along all axes.

    Args:
        in1: a tensor.
        in2: of as many axes.
        mode: ``"full"``, n + m - 1 elements of each axis; ``"same"``, the middle n of them;
            ``"valid"``, those to which no border adds.
        method: ``"direct"``, by its sums, also if ``"auto"``; ``"fft"``, as ``fftconvolve``.
        precision: nothing here depends on it.

    Raises:
        ShapeError: if shapes do not fit.
        ArgumentError: for another mode or method.

    Source: ``jax.scipy.signal.convolve``.

    Example:
        >>> import fx
        >>> fx.signal.convolve(fx.tensor([1, 2, 3]), fx.tensor([1, 1]), "valid")
        tensor([3, 5])
    """
    return _convolved("convolve", in1, in2, mode, method, False)


def correlate(
    in1: Any, in2: Any, mode: str = "full", method: str = "auto", precision: Any = None
) -> Tensor:
    """The sums of the products of ``in1`` and ``in2`` moved along it, which is conjugated.

    Arguments and errors are those of ``convolve``.

    Source: ``jax.scipy.signal.correlate``.

    Example:
        >>> import fx
        >>> fx.signal.correlate(fx.tensor([1, 2, 3]), fx.tensor([0, 1]))
        tensor([1, 2, 3, 0])
    """
    return _convolved("correlate", in1, in2, mode, method, True)


def _convolved(name: str, in1: Any, in2: Any, mode: str, method: str, turned: bool) -> Tensor:
    _choose(name, "mode", mode, _MODES)
    _choose(name, "method", method, _METHODS)
    x, y = _pair(name, in1, in2, turned)
    if method == "fft":
        return fftconvolve(x, y, mode)
    if mode == "valid" and any(n < m for n, m in zip(x._shape, y._shape, strict=True)):
        if any(n > m for n, m in zip(x._shape, y._shape, strict=True)):
            raise ShapeError(f"{name}: neither of {x.shape} and {y.shape} holds the other")
        x, y = y, x
    if mode != "valid":
        x = with_constant(x, [(m - 1, m - 1) for m in y._shape], 0)
    sizes = [n - 2 * (m - 1) for n, m in zip(x._shape, y._shape, strict=True)]
    out = _sums(x, y)
    return _middle(out, sizes, y._shape) if mode == "same" else out


def _choose(name: str, word: str, given: Any, known: Any) -> None:
    if given not in known:
        raise ArgumentError(f"{name}: {word} must be one of {', '.join(known)}, got {given!r}")


def _pair(name: str, in1: Any, in2: Any, turned: bool) -> tuple[Tensor, Tensor]:
    x, y = operands(name, in1, in2)
    if x.ndim != y.ndim:
        raise ShapeError(f"{name}: shapes {x.shape} and {y.shape} differ in their axes")
    if not x.size or not y.size:
        raise ShapeError(f"{name}: shapes {x.shape} and {y.shape} have an axis of no elements")
    return x, flip(y.conj()) if turned else y


def _middle(out: Tensor, sizes: Any, kernel: Any) -> Tensor:
    for axis, (n, m) in enumerate(zip(sizes, kernel, strict=True)):
        out = along(out, axis, (m - 1) // 2, (m - 1) // 2 + n)
    return out


def _sums(x: Tensor, y: Tensor) -> Tensor:
    """The elements to which no border adds, of x (*N) and y (*M): (*N - M + 1)."""
    rank = x.ndim
    if 1 <= rank <= 3 and x._dtype in FLOATING:
        ones, none = (1,) * rank, ((0, 0),) * rank
        out = conv(
            x[None, None], flip(y)[None, None], stride=ones, padding=none, dilation=ones, groups=1
        )
        return out[0, 0]  # type: ignore[no-any-return]
    windows, kernel = x, flip(y) if rank else y
    for axis, m in enumerate(y._shape):
        windows = unfold(windows, axis, m, 1)
    letters = "abcdefghijklmnopqrstuvwxyz"[:rank]
    return einsum(f"...{letters},{letters}->...", windows, kernel)  # type: ignore[no-any-return]


def convolve2d(
    in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0,
    precision: Any = None,
) -> Tensor:  # fmt: skip
    """The convolution of two matrices.

    Args:
        in1: (m, n).
        in2: (k, l).
        mode: that of ``convolve``.
        boundary: what lies beside ``in1``: ``"fill"``, numbers ``fillvalue``; ``"wrap"``, copies of
            it; ``"symm"``, mirror images.
        fillvalue: a number.
        precision: nothing here depends on it.

    Raises:
        ShapeError: if shapes do not fit.
        ArgumentError: for another mode or boundary.

    Source: ``scipy.signal.convolve2d``.

    Example:
        >>> import fx
        >>> fx.signal.convolve2d(fx.ones((2, 2)), fx.ones((1, 2)), boundary="wrap")
        tensor([[2., 2., 2.],
                [2., 2., 2.]])
    """
    return _beside("convolve2d", in1, in2, mode, boundary, fillvalue, False)


def correlate2d(
    in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0,
    precision: Any = None,
) -> Tensor:  # fmt: skip
    """The correlation of two matrices; arguments and errors are those of ``convolve2d``.

    Source: ``scipy.signal.correlate2d``.

    Example:
        >>> import fx
        >>> fx.signal.correlate2d(fx.eye(2), fx.eye(2), "valid")
        tensor([[2.]])
    """
    return _beside("correlate2d", in1, in2, mode, boundary, fillvalue, True)


def _beside(
    name: str, in1: Any, in2: Any, mode: str, boundary: str, fillvalue: Any, turned: bool
) -> Tensor:
    _choose(name, "mode", mode, _MODES)
    _choose(name, "boundary", boundary, _BOUNDARIES)
    x, y = _pair(name, in1, in2, turned)
    if x.ndim != 2:
        raise ShapeError(f"{name} takes matrices, got {x.shape}; write convolve for other ranks")
    if mode == "valid":
        return _convolved(name, x, y, mode, "direct", False)
    widths, sizes = [(m - 1, m - 1) for m in y._shape], x._shape
    if boundary == "fill":
        x = with_constant(x, widths, fillvalue)
    else:
        x = pad(x, widths, _BOUNDARIES[boundary])
    out = _sums(x, y)
    # of an even kernel the middle lies on the other side where it was turned around
    kernel = [m + (turned and m % 2 == 0) for m in y._shape]
    return _middle(out, sizes, kernel) if mode == "same" else out


__all__ = ["convolve", "convolve2d", "correlate", "correlate2d"]
