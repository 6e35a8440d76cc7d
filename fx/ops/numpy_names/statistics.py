"""NumPy's names of averages, order statistics, histograms, slopes and sums of products."""

from __future__ import annotations

import builtins
from typing import Any

from fx import dtypes
from fx.config import default_dtype
from fx.errors import ShapeError
from fx.ops.axes import normal_axis
from fx.ops.convert import as_tensor
from fx.ops.making.creation import zeros
from fx.ops.making.interop import asarray
from fx.ops.operands import argument, cast, floating, promoted
from fx.ops.pointwise import elementwise
from fx.ops.reductions import counting, quantiles, reduction, statistics
from fx.ops.reductions.slopes import slopes
from fx.ops.shapes.broadcasting import broadcast_to
from fx.ops.shapes.joining import concat
from fx.ops.shapes.manipulation import flip, ravel, reshape
from fx.ops.shapes.padding import sliding_window_view
from fx.tensor import Tensor

Axis = int | tuple[int, ...] | None


def average(
    a: Any, axis: Axis = None, weights: Any = None, returned: bool = False, keepdims: bool = False
) -> Any:
    """The mean, weighted where there are weights.

    Args:
        a: any shape.
        axis: along which; all axes unless told.
        weights: of the shape of ``a``, or (n,) along one axis.
        returned: whether to give the sum of the weights too.

    Raises:
        ShapeError: if weights do not fit.

    Example:
        >>> import fx
        >>> fx.average(fx.tensor([1.0, 3.0]), weights=fx.tensor([3.0, 1.0]))
        tensor(1.5000)
    """
    x = floating("average", a)
    if weights is None:
        out = statistics.mean(x, axis, keepdims=keepdims)
        total = as_tensor(x.numel() / max(out.numel(), 1), dtype=out.dtype)
        return (out, broadcast_to(total, out.shape)) if returned else out
    x, w = promoted("average", x, floating("average", weights))
    if w.shape != x.shape:
        if w.ndim != 1 or not isinstance(axis, int) or w.shape[0] != x.shape[axis]:
            raise ShapeError(
                f"average: weights of shape {w.shape} fit neither {x.shape} nor one axis of it; "
                f"name that axis with axis="
            )
        at = normal_axis("average", axis, x.shape)
        w = reshape(w, [-1 if i == at else 1 for i in range(x.ndim)])
    w = broadcast_to(w, x.shape)
    total = reduction.sum(w, axis, keepdims=keepdims)
    out = reduction.sum(x * w, axis, keepdims=keepdims) / total
    return (out, total) if returned else out


def ptp(a: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The difference of the largest and the smallest element.

    Example:
        >>> import fx
        >>> fx.ptp(fx.tensor([1.0, 5.0, 3.0]))
        tensor(4.)
    """
    x = argument("ptp", a)
    return reduction.max(x, axis, keepdims=keepdims) - reduction.min(x, axis, keepdims=keepdims)  # type: ignore[no-any-return]


def shares(name: str, a: Any, q: Any) -> Tensor:
    """Percents as shares, as exact as the elements."""
    return asarray(q, dtype=floating(name, a).dtype) / 100  # type: ignore[no-any-return]


def percentile(
    a: Any, q: Any, axis: Axis = None, *, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """``quantile`` of ``q`` in percent.

    Example:
        >>> import fx
        >>> fx.percentile(fx.tensor([1.0, 2.0, 3.0]), 50)
        tensor(2.)
    """
    return quantiles.quantile(a, shares("percentile", a, q), axis, keepdims, method)


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Tensor:
    """The area under ``y`` along an axis by the trapezoidal rule; ``x`` are the places.

    Example:
        >>> import fx
        >>> fx.trapezoid(fx.tensor([1.0, 2.0, 3.0]))
        tensor(4.)
    """
    if x is not None:
        return counting.strips("trapezoid", y, x, None, axis).sum(axis)
    return counting.even_strips("trapezoid", y, dx, axis)


# covariances ------------------------------------------------------------------------------------


def _observations(name: str, m: Any, y: Any, rowvar: bool) -> Tensor:
    def rows(given: Any) -> Tensor:
        x = floating(name, given)
        x = reshape(x, (1, -1)) if x.ndim < 2 else x
        return x if rowvar or x.shape[0] == 1 else x.mT

    if argument(name, m).ndim > 2:
        raise ShapeError(f"{name} takes at most two axes, got shape {m.shape}")
    return rows(m) if y is None else concat([*promoted(name, rows(m), rows(y))])


def cov(
    m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None,
    fweights: Any = None, aweights: Any = None,
) -> Tensor:  # fmt: skip
    """The covariances of variables, as NumPy's.

    Args:
        m: (variables, observations), or the other way round without ``rowvar``; or (observations,).
        y: further variables.
        bias: divide by the number of observations, and not by one less.
        ddof: what is taken from that number in the divisor; decides over ``bias``.
        fweights: (observations,) integers: how often each was made.
        aweights: (observations,): how much each counts.

    Example:
        >>> import fx
        >>> fx.cov(fx.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
        tensor([[ 1., -1.],
                [-1.,  1.]])
    """
    less = ddof if ddof is not None else 0 if bias else 1
    x = _observations("cov", m, y, rowvar)
    return counting.cov(x, correction=less, fweights=fweights, aweights=aweights)


def corrcoef(x: Any, y: Any = None, rowvar: bool = True) -> Tensor:
    """The correlations of variables; see ``cov``.

    Example:
        >>> import fx
        >>> fx.corrcoef(fx.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
        tensor([[ 1., -1.],
                [-1.,  1.]])
    """
    return counting.corrcoef(_observations("corrcoef", x, y, rowvar))


# slopes and sums of products --------------------------------------------------------------------


def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Tensor:
    """The differences of neighbours of the flat tensor, and what stands around them.

    Example:
        >>> import fx
        >>> fx.ediff1d(fx.tensor([1, 2, 4, 7]))
        tensor([1, 2, 3])
    """
    x = ravel(asarray(ary))
    parts = [x.diff()]
    if to_begin is not None:
        parts.insert(0, cast(ravel(asarray(to_begin)), x.dtype))
    if to_end is not None:
        parts.append(cast(ravel(asarray(to_end)), x.dtype))
    return concat(parts)


def gradient(f: Any, *varargs: Any, axis: Axis = None, edge_order: int = 1) -> Any:
    """Slopes along axes by differences: central ones, at the ends one-sided.

    Args:
        f: any shape with axes.
        varargs: the distance of neighbours, or the places (n,), for all axes or for each.
        axis: along which; all axes unless told.
        edge_order: how many neighbours the slopes at the ends take, 1 or 2.

    Returns:
        a tensor for one axis, a list for several.

    Example:
        >>> import fx
        >>> fx.gradient(fx.tensor([1.0, 2.0, 4.0, 7.0]))
        tensor([1.0000, 1.5000, 2.5000, 3.0000])
    """
    x = asarray(f)
    x = x if x.dtype in dtypes.INEXACT else x.astype(default_dtype())
    axes = (
        list(builtins.range(x.ndim)) if axis is None else [axis] if isinstance(axis, int) else axis
    )
    steps = list(varargs) or [1.0]
    if len(steps) == 1:
        steps = steps * len(axes)
    if len(steps) != len(axes):
        raise ShapeError(f"gradient: {len(varargs)} distances for {len(axes)} axes")
    if edge_order not in (1, 2):
        raise ValueError(f"gradient: edge_order must be 1 or 2, got {edge_order}")
    out = [
        slopes(x, normal_axis("gradient", at, x.shape), _distance(step), edge_order)
        for at, step in zip(axes, steps)
    ]
    return out if (axis is None and x.ndim != 1) or isinstance(axis, tuple) else out[0]


def _distance(step: Any) -> Any:
    return asarray(step) if isinstance(step, list | tuple) else step


def convolve(a: Any, v: Any, mode: str = "full") -> Tensor:
    """The convolution of two vectors.

    Args:
        a, v: (n,) and (m,), none empty.
        mode: ``"full"``, (n + m - 1,); ``"same"``, its middle of the longer's length; ``"valid"``,
            where they overlap completely.

    Example:
        >>> import fx
        >>> fx.convolve(fx.tensor([1.0, 2.0, 3.0]), fx.tensor([0.0, 1.0, 0.5]))
        tensor([0.0000, 1.0000, 2.5000, 4.0000, 1.5000])
    """
    return _slid("convolve", a, v, mode, True)


def correlate(a: Any, v: Any, mode: str = "valid") -> Tensor:
    """The cross-correlation of two vectors: sums of ``a[n + k] * conj(v[n])``; see ``convolve``.

    Example:
        >>> import fx
        >>> fx.correlate(fx.tensor([1.0, 2.0, 3.0]), fx.tensor([0.0, 1.0, 0.5]))
        tensor([3.5000])
    """
    return _slid("correlate", a, v, mode, False)


def _slid(name: str, a: Any, v: Any, mode: str, turned: bool) -> Tensor:
    x, y = promoted(name, asarray(a), asarray(v))
    if x.ndim != 1 or y.ndim != 1 or not x.shape[0] or not y.shape[0]:
        raise ShapeError(f"{name} takes two vectors, none empty, got {x.shape} and {y.shape}")
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"{name}: mode is 'full', 'same' or 'valid', got {mode!r}")
    kernel = flip(y, 0) if turned else elementwise.conj(y)
    longer, shorter = (x, kernel) if y.shape[0] <= x.shape[0] else (kernel, x)
    m = shorter.shape[0]
    if longer is kernel:  # each sum meets the same pairs, in the other order
        longer, shorter = flip(longer, 0), flip(shorter, 0)
    first, last = {
        "full": (m - 1, m - 1),
        "same": (m - 1 - (m - 1) // 2, (m - 1) // 2),
        "valid": (0, 0),
    }[mode]
    if longer is not x and not turned:
        first, last = last, first
    blank = {"dtype": x.dtype, "device": x.device}
    wide = concat([zeros((first,), **blank), longer, zeros((last,), **blank)])
    return sliding_window_view(wide, m) @ shorter  # type: ignore[no-any-return]
