"""Cosine and sine transforms: each is one of real numbers, of the same length or half of it.

The second cosine transform of x is the real part of a spectrum turned by a quarter of a step, that
of the even places of x and then the odd ones from behind (Makhoul, "A fast cosine transform in one
and two dimensions", 1980). The third goes the way back, the fourth turns pairs of numbers of both
ends before and behind, and the first is the transform of x and its mirror image. A sine transform
is the cosine transform of x mirrored, or with every other sign changed; the first is that of x and
its negative mirror image.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any

import numpy as np

import fx.prims.fourier as prims
from fx import dtypes
from fx.errors import ArgumentError, DTypeError, ShapeError
from fx.fft.transforms import of_length, one_line, several_lines
from fx.ops.indexing.views import along
from fx.ops.making.interop import asarray
from fx.ops.pointwise import complex_numbers
from fx.ops.shapes.joining import concat, stack
from fx.ops.shapes.manipulation import flip, reshape
from fx.tensor import Tensor

_INVERSE = {1: 1, 2: 3, 3: 2, 4: 4}
_NORMS = (None, "backward", "ortho", "forward")


def _lying(values: np.ndarray, x: Tensor, axis: int, dtype: Any) -> Tensor:
    """(m,) numbers along an axis of x, in a dtype."""
    shape = [1] * x.ndim
    shape[axis] = len(values)
    return asarray(values.reshape(shape), dtype=dtype, device=x.device)


def _turns(numerators: np.ndarray, n: int, x: Tensor, axis: int) -> Tensor:
    """exp(-i pi k / n) of integers k, along an axis, as exact as complex numbers of x's are."""
    wide = np.pi * (numerators % (2 * n)) / n
    dtype = dtypes.complex128 if x._dtype == dtypes.float64 else dtypes.complex64
    return _lying(np.exp(-1j * wide), x, axis, dtype)


def _alternating(x: Tensor, axis: int) -> Tensor:
    return x * _lying(1.0 - 2.0 * (np.arange(x._shape[axis]) % 2), x, axis, x._dtype)


def _ends(x: Tensor, axis: int, places: tuple[int, ...], factor: float) -> Tensor:
    """x with the elements at some places along an axis times a factor."""
    factors = np.ones(x._shape[axis])
    factors[[*places]] = factor
    return x * _lying(factors, x, axis, x._dtype)


# the cosine transforms of one axis, sums as they stand ------------------------------------------


def _first(x: Tensor, axis: int) -> Tensor:
    n = x._shape[axis]
    if n < 2:
        raise ShapeError(f"dct: the first type needs at least 2 points, axis {axis} has {n}")
    mirrored = concat([x, flip(along(x, axis, 1, n - 1), axis=axis)], axis=axis)
    return prims.rfft(mirrored, axes=(axis,), scale=0).real  # type: ignore[no-any-return]


def _second(x: Tensor, axis: int) -> Tensor:
    n = x._shape[axis]
    odd = flip(along(x, axis, 1, n, 2), axis=axis) if n > 1 else along(x, axis, 0, 0)
    spectrum = prims.rfft(concat([along(x, axis, 0, n, 2), odd], axis=axis), axes=(axis,), scale=0)
    turned = spectrum * (2 * _turns(np.arange(n // 2 + 1), 2 * n, x, axis))
    behind = flip(along(-turned.imag, axis, 1, (n + 1) // 2), axis=axis)
    return concat([turned.real, behind], axis=axis)


def _third(x: Tensor, axis: int) -> Tensor:
    n = x._shape[axis]
    half = n // 2 + 1
    behind = flip(along(x, axis, n + 1 - half, n), axis=axis)
    behind = concat(
        [along(x, axis, 0, 1) * 0, behind], axis=axis
    )  # (half,): x[n - k], x[n] being 0
    pairs = complex_numbers.complex(along(x, axis, 0, half), -behind)
    spectrum = pairs * _turns(-np.arange(half), 2 * n, x, axis)
    found = prims.irfft(spectrum, axes=(axis,), n=n, scale=0)
    ahead = (n + 1) // 2
    odd = of_length(flip(along(found, axis, ahead, n), axis=axis), axis, ahead)
    return _interleaved(along(found, axis, 0, ahead), odd, axis, n)


def _interleaved(even: Tensor, odd: Tensor, axis: int, n: int) -> Tensor:
    shape = (*even._shape[:axis], -1, *even._shape[axis + 1 :])
    return along(reshape(stack([even, odd], axis=axis + 1), shape), axis, 0, n)


def _fourth(x: Tensor, axis: int) -> Tensor:
    n = x._shape[axis]
    if n % 2:  # no pairs of both ends: one number a point, and as many zeros
        points = of_length(x * _turns(np.arange(n), 2 * n, x, axis), axis, 2 * n)
        spectrum = prims.fft(points, axes=(axis,), inverse=False, scale=0)
        turned = along(spectrum, axis, 0, n) * _turns(2 * np.arange(n) + 1, 4 * n, x, axis)
        return turned.real * 2  # type: ignore[no-any-return]
    k = np.arange(n // 2)
    behind = flip(along(x, axis, 1, n, 2), axis=axis)
    pairs = complex_numbers.complex(along(x, axis, 0, n, 2), behind)
    pairs = pairs * _turns(4 * k + 1, 4 * n, x, axis)
    spectrum = prims.fft(pairs, axes=(axis,), inverse=False, scale=0)
    turned = spectrum * (2 * _turns(k, n, x, axis))
    return _interleaved(turned.real, flip(-turned.imag, axis=axis), axis, n)


_COSINES = {1: _first, 2: _second, 3: _third, 4: _fourth}


def _first_sines(x: Tensor, axis: int) -> Tensor:
    n = x._shape[axis]
    zero = along(x, axis, 0, 1) * 0
    mirrored = concat([zero, x, zero, flip(-x, axis=axis)], axis=axis)
    return along(-prims.rfft(mirrored, axes=(axis,), scale=0).imag, axis, 1, n + 1)


def _sines(x: Tensor, axis: int, kind: int) -> Tensor:
    if kind == 1:
        return _first_sines(x, axis)
    if kind == 2:
        return flip(_second(_alternating(x, axis), axis), axis=axis)
    return _alternating(_COSINES[kind](flip(x, axis=axis), axis), axis)


# both, of real and complex numbers --------------------------------------------------------------


def _line(
    x: Tensor, axis: int, kind: int, norm: str | None, orthogonal: bool, sine: bool
) -> Tensor:
    """One transform along an axis of real numbers, scaled."""
    n = x._shape[axis]
    near, far = (0, n - 1) if not sine else (n - 1, 0)
    if orthogonal and kind == 3:
        x = _ends(x, axis, (near,), sqrt(2))
    elif orthogonal and kind == 1 and not sine:
        x = _ends(x, axis, (near, far), sqrt(2))
    out = _sines(x, axis, kind) if sine else _COSINES[kind](x, axis)
    if orthogonal and kind == 2:
        out = _ends(out, axis, (near,), sqrt(0.5))
    elif orthogonal and kind == 1 and not sine:
        out = _ends(out, axis, (near, far), sqrt(0.5))
    count = 2 * (n if kind > 1 else n + 1 if sine else n - 1)
    if norm == "ortho":
        return out / sqrt(count)
    return out / count if norm == "forward" else out


def _transformed(
    name: str, x: Tensor, axes: Any, points: Any, kind: Any, norm: Any, orthogonalize: bool | None
) -> Tensor:
    """The transform of that name and type along axes."""
    if isinstance(kind, bool) or kind not in _INVERSE:
        raise ArgumentError(f"{name}: type must be 1, 2, 3 or 4, got {kind!r}")
    if norm not in _NORMS:
        raise ArgumentError(f"{name}: norm must be 'backward', 'ortho' or 'forward', got {norm!r}")
    if x._dtype in (dtypes.float16, dtypes.bfloat16):
        raise DTypeError(f"{name} takes no {x._dtype.name}; write x.astype(fx.float32)")
    orthogonal = norm == "ortho" if orthogonalize is None else bool(orthogonalize)
    sine = "dst" in name
    if name.startswith("i"):
        kind = _INVERSE[kind]
        norm = {"forward": "backward", "ortho": "ortho"}.get(norm, "forward")
    for axis, n in zip(axes, points, strict=True):
        x = of_length(x, axis, n)

    def along_all(part: Tensor) -> Tensor:
        for axis in axes:
            part = _line(part, axis, kind, norm, orthogonal, sine)
        return part

    if x._dtype.kind == "c":
        return complex_numbers.complex(along_all(x.real), along_all(x.imag))
    return along_all(x)


_ONE = """The {inverse}discrete {what} transform along an axis, of type 1 to 4.

    Args:
        x: (*A, m, *B), real or complex, whose parts are transformed each; no 16-bit numbers.
        type: which of the four{types}.
        n: the number of points; x is cut, or gets zeros behind, where it has others.
        axis: the axis.
        norm: which direction is divided by 2 N: ``"backward"`` (None) the inverse, ``"forward"``
            the other, ``"ortho"`` both by its root.
        orthogonalize: whether ends are scaled so that the matrix is orthogonal with ``"ortho"``,
            as it is for that norm unless told.

    Returns:
        (*A, n, *B), of the dtype of x, floating.

    Raises:
        ArgumentError: for another ``type`` or ``norm``; a ValueError.
        ShapeError: for less than one point{least}.
        DTypeError: for 16-bit numbers.

    Source: ``scipy.fft.{name}``.

    Example:
        >>> import fx
        >>> x = fx.tensor([1.0, 2.0, 4.0])
        >>> bool(fx.allclose(fx.fft.i{base}(fx.fft.{base}(x)), x))
        True
    """
_MANY = """``{base}`` along several axes.

    Args:
        x, type, norm, orthogonalize: as those of ``{base}``.
        s: the number of points along each axis; without ``axes`` those of the last axes.
        axes: the axes, all of them unless told.

    Raises:
        ShapeError: if there are more or fewer lengths than axes; besides, as ``{base}``.

    Source: ``scipy.fft.{name}``.

    Example:
        >>> import fx
        >>> fx.fft.{name}(fx.ones((2, 2)), type=2).shape
        (2, 2)
    """


def _one(name: str, what: str, inverse: bool) -> Callable[..., Tensor]:
    def function(
        x: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None,
        orthogonalize: bool | None = None,
    ) -> Tensor:  # fmt: skip
        return _transformed(name, *one_line(name, x, n, axis), type, norm, orthogonalize)

    base = name.removeprefix("i")
    function.__name__ = function.__qualname__ = name
    function.__doc__ = _ONE.format(
        name=name, base=base, what=what, inverse="inverse of a " if inverse else "",
        types=" is taken back" if inverse else "",
        least=", 2 of the first cosine transform" if base == "dct" else "",
    )  # fmt: skip
    return function


def _many(name: str) -> Callable[..., Tensor]:
    def function(
        x: Any, type: int = 2, s: Any = None, axes: Any = None, norm: str | None = None,
        orthogonalize: bool | None = None,
    ) -> Tensor:  # fmt: skip
        return _transformed(name, *several_lines(name, x, s, axes), type, norm, orthogonalize)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = _MANY.format(name=name, base=name.removesuffix("n"))
    return function


dct, idct = _one("dct", "cosine", False), _one("idct", "cosine", True)
dst, idst = _one("dst", "sine", False), _one("idst", "sine", True)
dctn, idctn, dstn, idstn = map(_many, ("dctn", "idctn", "dstn", "idstn"))

__all__ = ["dct", "dctn", "dst", "dstn", "idct", "idctn", "idst", "idstn"]
