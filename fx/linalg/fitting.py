"""Polynomials through points and from their coefficients to their zeros, by NumPy's names."""

from __future__ import annotations

from typing import Any

from fx.errors import ShapeError
from fx.linalg.least_squares import lstsq
from fx.linalg.spectral import eigvals
from fx.ops.making.creation import zeros
from fx.ops.making.interop import asarray
from fx.ops.making.patterns import eye
from fx.ops.operands import floating, promoted
from fx.ops.shapes.assembly import atleast_1d, vander
from fx.ops.shapes.joining import concat
from fx.tensor import Tensor


def polyfit(x: Any, y: Any, deg: int, rcond: float | None = None, w: Any = None) -> Tensor:
    """The polynomial of a degree that is nearest to points, by least squares.

    Args:
        x: (n,) places.
        y: (n,) values there, or (n, k) of k polynomials.
        deg: the degree.
        rcond: singular values below it, times the largest, count as 0; n times the machine's
            epsilon unless told.
        w: (n,) weights of the distances.

    Returns:
        (deg + 1,) or (deg + 1, k) coefficients, the highest power first.

    Raises:
        ShapeError: if the points do not fit together.

    Source: ``numpy.polyfit``.

    Example:
        >>> import fx
        >>> fx.polyfit(fx.tensor([0.0, 1.0, 2.0]), fx.tensor([1.0, 3.0, 5.0]), 1)
        tensor([2.0000, 1.0000])
    """
    x, y = promoted("polyfit", floating("polyfit", asarray(x)), floating("polyfit", asarray(y)))
    if x.ndim != 1 or not x.shape[0] or y.ndim not in (1, 2) or y.shape[0] != x.shape[0]:
        raise ShapeError(
            f"polyfit takes places (n,) and values (n,) or (n, k), n > 0; got {x.shape} and "
            f"{y.shape}"
        )
    rows = vander(x, deg + 1)
    right = y if y.ndim == 2 else y[:, None]
    if w is not None:
        weights = asarray(w, dtype=x.dtype)
        if weights.shape != x.shape:
            raise ShapeError(f"polyfit: weights must have shape {x.shape}, got {weights.shape}")
        rows, right = rows * weights[:, None], right * weights[:, None]
    scale = (rows * rows).sum(0).sqrt()  # so that powers of large places do not hide the others
    scale = scale + (scale == 0).astype(scale.dtype)
    found = lstsq(rows / scale, right, rcond=rcond).solution / scale[:, None]
    return found if y.ndim == 2 else found[:, 0]  # type: ignore[no-any-return]


def roots(p: Any) -> Tensor:
    """The zeros of a polynomial, complex: the eigenvalues of its companion matrix.

    Args:
        p: (n,) coefficients, the highest power first; zeros in front and behind are taken off.

    Raises:
        ShapeError: for more axes.

    Source: ``numpy.roots``.

    Example:
        >>> import fx
        >>> fx.roots([2.0, -4.0])
        tensor([2.+0.j])
    """
    x = floating("roots", atleast_1d(asarray(p)))
    if x.ndim != 1:
        raise ShapeError(f"roots takes coefficients (n,), got shape {x.shape}")
    (places,) = (x != 0).nonzero(as_tuple=True)
    last = int(places[-1]) if places.shape[0] else -1
    trailing = x.shape[0] - 1 - last if places.shape[0] else 0
    x = x[int(places[0]) : last + 1] if places.shape[0] else x[:0]
    n = max(x.shape[0] - 1, 0)
    blank = {"dtype": x.dtype, "device": x.device}
    if n:
        top = (-x[1:] / x[0])[None]
        below = concat([eye(n - 1, **blank), zeros((n - 1, 1), **blank)], 1)
        found = eigvals(concat([top, below]))
    else:
        found = zeros((0,), **blank) + 0j
    return concat([found, zeros((trailing,), **blank) + 0j])
