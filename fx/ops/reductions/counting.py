"""Counting and summaries: occurrences, histograms, runs, covariance, areas under curves."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import Any, NamedTuple

import fx.prims.compare as compare
from fx import dtypes
from fx.errors import DTypeError, ShapeError
from fx.ops.autocasting import in_float32
from fx.ops.axes import integer, normal_axis
from fx.ops.convert import as_tensor
from fx.ops.indexing.searching import searchsorted
from fx.ops.indexing.views import along
from fx.ops.making.creation import full, linspace, zeros
from fx.ops.operands import argument, cast, floating, of_scalar, public
from fx.ops.pointwise import complex_numbers
from fx.ops.pointwise.composed import lerp
from fx.ops.reductions.found import found, shown
from fx.ops.reductions.ordering import _of_equals, lower_median, ranked_of
from fx.ops.reductions.quantiles import quantile
from fx.ops.reductions.statistics import mean
from fx.ops.shapes.joining import concat
from fx.ops.shapes.manipulation import moveaxis, ravel
from fx.prims.fused import fuse
from fx.quick import quick
from fx.tensor import Tensor

# occurrences ------------------------------------------------------------------------------------


def bincount(
    x: Any, weights: Any = None, minlength: int = 0, *, length: int | None = None
) -> Tensor:
    """How often each of 0, 1, 2 ... occurs in a vector, or the sum of the weights of each.

    Args:
        x: (n,) non-negative integers.
        weights: (n,), or None for counts.
        minlength: the least length of the result.
        length: its length, as in JAX: greater numbers are left out, negative ones count as 0, and
            no value is asked for under ``jit``.

    Raises:
        DTypeError: if ``x`` is not an integer tensor.
        ShapeError: if it is no vector, or has a negative element.

    Example:
        >>> import fx
        >>> from fx.ops.reductions.counting import bincount
        >>> bincount(fx.tensor([0, 2, 2]), minlength=4)
        tensor([1, 0, 2, 0])
    """
    x = argument("bincount", x)
    if x._dtype not in dtypes.INTEGRAL:
        raise DTypeError(f"bincount takes integers, got {x.spec!r}; write x.astype(fx.int64)")
    if x.ndim != 1:
        raise ShapeError(f"bincount takes a vector, got shape {x.shape}; write x.reshape(-1)")
    least = integer("bincount", "minlength", minlength)
    if least < 0:
        raise ShapeError(f"bincount: minlength must not be negative, got {least}")
    if length is not None:
        return _of_length(x, weights, integer("bincount", "length", length))
    if weights is None:
        return _counted(x, least)  # type: ignore[no-any-return]
    source = argument("bincount", weights)
    if source._dtype not in dtypes.FLOATING:
        source = source.astype(dtypes.float64)
    return _added_up(x, source, least)


def _of_length(x: Tensor, weights: Any, length: int) -> Tensor:
    """The counts of 0, 1 … length - 1; one class more takes what is greater."""
    wide = cast(x, dtypes.int64)
    if weights is None:
        source = full((x._shape[0],), 1, dtype=dtypes.int64, device=x.device)
    else:
        source = argument("bincount", weights)
    start = zeros((length + 1,), dtype=source._dtype, device=x.device)
    return start.scatter_add(0, wide.clamp(0, length), source)[:length]  # type: ignore[no-any-return]


def _added_up(x: Tensor, source: Tensor, length: int) -> Tensor:
    """The sum of what belongs to each class of x."""
    if x._shape[0]:
        if int(x.min()) < 0:
            raise ShapeError("bincount takes non-negative integers, got a negative one")
        length = max(length, int(x.max()) + 1)
    start = zeros((length,), dtype=source._dtype, device=x.device)
    return start.scatter_add(0, x.astype(dtypes.int64), source)  # type: ignore[no-any-return]


def _counted_in_steps(x: Tensor, *, minlength: int) -> Tensor:
    ones = full((x._shape[0],), 1, dtype=dtypes.int64, device=x.device)
    return _added_up(x, ones, minlength)


_counted = quick(fuse("bincount", reference=_counted_in_steps), "minlength")


def _weighed_between(x: Tensor, edges: Tensor, weights: Tensor) -> Tensor:
    """The sum of the weights of what lies between edges, in the dtype of x."""
    count = edges._shape[0] - 1
    inside = (x >= edges[0]) & (x <= edges[-1])
    place = searchsorted(edges, x, right=True) - 1
    place = compare.where(x == edges[-1], as_tensor(count - 1, dtype=place.dtype), place)
    each = compare.where(inside, cast(weights, x.dtype), as_tensor(0.0, dtype=x.dtype))
    hist = zeros((count,), dtype=x.dtype, device=x.device)
    return hist.scatter_add(0, place.clamp(0, count - 1), each.expand(x.shape))  # type: ignore[no-any-return]


def _between_in_steps(x: Tensor, edges: Tensor, *, even: bool) -> Tensor:
    return _weighed_between(x, edges, as_tensor(1.0, dtype=x.dtype))


_between = quick(fuse("counts_between", reference=_between_in_steps), "even", tensors=2)


class Histogram(NamedTuple):
    """What ``histogram`` gives."""

    hist: Tensor
    bin_edges: Tensor

    def __repr__(self) -> str:
        return shown(self, "histogram", "Histogram")


def histogram(
    x: Any, bins: Any, *, range: Any = None, weight: Any = None, density: bool = False
) -> Histogram:
    """How many elements lie in each bin, and the edges of the bins.

    Args:
        x: floating, any shape.
        bins: their number, or an increasing tensor (n + 1,) of edges; the last bin is closed.
        range: the outermost edges where ``bins`` is a number; the extremes of ``x`` unless told.
        weight: of the shape of ``x``; each element counts 1 unless told.
        density: divide by the total and by the width of each bin.
    """
    x = ravel(floating("histogram", x))
    if isinstance(bins, int):
        if range is not None and (not isinstance(range, tuple | list) or len(range) != 2):
            raise ShapeError(f"histogram: range must be (low, high), got {range!r:.60}")
        low, high = (x.min().item(), x.max().item()) if range is None else range
        if low == high and range is None:
            low, high = low - 0.5, high + 0.5
        edges = linspace(low, high, bins + 1, dtype=x.dtype, device=x.device)
    else:
        edges = argument("histogram", bins)
    if weight is None:
        hist = _between(x, edges, isinstance(bins, int))
    else:
        hist = _weighed_between(x, edges, ravel(argument("histogram", weight)))
    if density:
        hist = hist / hist.sum() / (edges[1:] - edges[:-1])
    return Histogram(hist, edges)


def histc(x: Any, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """How many elements lie in each of ``bins`` equal parts of [min, max]; both 0: of all.

    Raises:
        ShapeError: if an end is not finite, or ``max`` is below ``min``.
    """
    x = argument("histc", x)
    if not x.numel():
        return zeros((bins,), dtype=x._dtype, device=x.device)
    if min == 0 == max:
        min, max = x.min().item(), x.max().item()
    if not (-inf < min <= max < inf):
        raise ShapeError(
            f"histc: the ends must be finite and in order, got min={min}, max={max}; choose others "
            f"with min= and max=, or count what is finite: x[x.isfinite()]"
        )
    if min == max:
        min, max = min - 1, max + 1
    return histogram(x, bins, range=(min, max)).hist


def unique_consecutive(
    x: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The elements (along ``dim`` the slices) without those that equal the one before.

    Returns:
        the values, or a tuple of them, the number of the run of each element, and the lengths.

    Example:
        >>> import fx
        >>> from fx.ops.reductions.counting import unique_consecutive
        >>> unique_consecutive(fx.tensor([1, 1, 2, 1]))
        tensor([1, 2, 1])
    """
    x = argument("unique_consecutive", x)
    rows = ravel(x) if dim is None else moveaxis(x, dim, 0)  # (n, ...)
    n = rows.shape[0]
    differs = along(rows, 0, min(1, n), n) != along(rows, 0, 0, max(n - 1, 0))
    if rows.ndim > 1:
        differs = differs.reshape(differs.shape[0], -1).any(1)
    new = concat([zeros((min(n, 1),), dtype=dtypes.bool_, device=x.device) == 0, differs])
    starts = new.nonzero(as_tuple=True)[0]
    values = rows[starts] if dim is None else moveaxis(rows[starts], 0, dim)
    out: list[Tensor] = [values]
    if return_inverse:
        number = new.astype(dtypes.int64).cumsum(0) - 1
        out.append(number.reshape(x._shape) if dim is None else number)
    if return_counts:
        end = zeros((min(n, 1),), dtype=dtypes.int64, device=x.device) + n
        out.append(concat([starts, end])[1:] - starts)
    return out[0] if len(out) == 1 else tuple(out)


# order statistics without NaN -------------------------------------------------------------------


def nanmedian(
    x: Any, dim: int | None = None, keepdim: bool = False, *,
    axis: int | None = None, keepdims: bool = False,
) -> Any:  # fmt: skip
    """The lower median of what is not NaN; along ``dim`` a pair (values, indices)."""
    x, dim, keepdim = argument("nanmedian", x), axis if dim is None else dim, keepdim or keepdims
    if dim is not None and not x._shape:
        return of_scalar(nanmedian, x, dim)
    if x._dtype not in dtypes.FLOATING:
        return x.median() if dim is None else found("nanmedian", lower_median(x, dim, keepdim))
    flat, at = (ravel(x), 0) if dim is None else (x, normal_axis("nanmedian", dim, x._shape))
    count = (flat == flat).sum(at, keepdim=True)
    rank = ((count - 1) // 2).clamp(min=0)
    values, place = ranked_of(flat, rank, at, "no", dim is None or not keepdim)
    if dim is None:
        return _of_equals(flat, values)
    return found("nanmedian", (values, place))


@in_float32
def nanquantile(
    x: Any, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear",
    axis: int | None = None, keepdims: bool = False,
) -> Tensor:  # fmt: skip
    """The ``q``-quantiles of what is not NaN, linearly between elements; NaN where all is."""
    x, dim = floating("nanquantile", x), axis if dim is None else dim
    keepdim = keepdim or keepdims
    if dim is not None and not x._shape:
        return of_scalar(partial(nanquantile, q=q, interpolation=interpolation), x, dim=dim)  # type: ignore[no-any-return]
    if interpolation != "linear":
        if bool((x == x).all()):
            return quantile(x, q, dim, keepdim, interpolation)
        raise ValueError(f"nanquantile interpolates linearly, got {interpolation!r}")
    flat, at = (ravel(x), 0) if dim is None else (x, normal_axis("nanquantile", dim, x._shape))
    ranked = flat.gather(at, flat.argsort(at))
    count = (flat == flat).sum(at, keepdim=True)
    wanted = as_tensor(q, dtype=x._dtype, device=x.device)
    if wanted.ndim > 1:
        raise ShapeError(f"nanquantile: q must be a number or (n,), got shape {wanted.shape}")
    shares = wanted.reshape([-1 if i == at else 1 for i in range(flat.ndim)])
    place = shares * (count - 1).clamp(min=0).astype(x._dtype)  # (..., n_q, ...)
    low = place.floor()
    weight = place - low
    first = low.astype(dtypes.int64)
    second = (first + 1).clamp(max=max(flat.shape[at] - 1, 0))
    second = compare.where(weight > 0, second, first)
    lower, upper = ranked.gather(at, first), ranked.gather(at, second)
    out = moveaxis(lerp(lower, upper, weight), at, 0)  # (n_q, *kept)
    kept = [1 if i == at or dim is None else n for i, n in enumerate(x._shape)]
    return out.reshape((*wanted._shape, *(kept if keepdim else out.shape[1:])))


# covariance -------------------------------------------------------------------------------------


def cov(x: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Tensor:
    """The covariances of variables: rows of ``x`` are variables, columns are observations.

    Args:
        x: (variables, observations) or (observations,).
        correction: what is taken from the number of observations in the divisor.
        fweights: (observations,) integers: how often each was made.
        aweights: (observations,): how much each counts.

    Returns:
        (variables, variables), or () for a single variable.
    """
    x = argument("cov", x)
    if x.ndim > 2:
        raise ShapeError(f"cov takes at most two axes, got shape {x.shape}")
    x = floating("cov", x.reshape(1, -1) if x.ndim < 2 else x)
    weights = None
    if fweights is not None:
        weights = _weights("fweights", fweights, x)
        if weights._dtype not in dtypes.INTEGRAL:
            raise DTypeError(f"cov: fweights are counts, integers, got {weights._dtype.name}")
        weights = cast(weights, dtypes.real_of(x._dtype))
    if aweights is not None:
        by = cast(_weights("aweights", aweights, x), dtypes.real_of(x._dtype))
        weights = by if weights is None else weights * by
    if weights is None:
        total: Any = x._shape[1]
        centred = x - mean(x, 1, keepdims=True)
        scaled = centred
        divisor = total - correction
    else:
        total = weights.sum()
        centred = x - ((x * weights).sum(1) / total)[:, None]
        scaled = centred * weights
        if aweights is None:
            divisor = total - correction
        else:
            divisor = total - correction * (weights * by).sum() / total
    if isinstance(divisor, Tensor):
        divisor = divisor.clamp(min=0)
    else:
        divisor = as_tensor(float(max(divisor, 0)), dtype=dtypes.real_of(x._dtype), device=x.device)
    out = scaled @ centred.mT.conj() / divisor
    return out.reshape(()) if x.shape[0] == 1 else out


def _weights(word: str, given: Any, x: Tensor) -> Tensor:
    weights = argument("cov", given)
    if weights.shape != x.shape[1:]:
        raise ShapeError(
            f"cov: {word} must have shape {x.shape[1:]}, one for each observation, got "
            f"{weights.shape}"
        )
    if type(weights) is Tensor and (weights < 0).any():
        raise ValueError(f"cov: {word} must not be negative, got {float(weights.min())}")
    return weights


def corrcoef(x: Any) -> Tensor:
    """The correlations of variables: rows of ``x`` are variables, columns are observations."""
    c = cov(x)
    if not c.ndim:
        return c / c
    spread = c.diagonal().sqrt()
    out = c / spread[:, None] / spread[None, :]
    if out._dtype in dtypes.COMPLEX:
        return complex_numbers.complex(out.real.clamp(-1, 1), out.imag.clamp(-1, 1))
    return out.clamp(-1, 1)  # type: ignore[no-any-return]


# areas ------------------------------------------------------------------------------------------


def strips(name: str, y: Any, x: Any, dx: Any, dim: int) -> Tensor:
    """The area of each strip between neighbours."""
    y = floating(name, y)
    at = normal_axis(name, dim, y._shape)
    n = y._shape[at]
    middle = (along(y, at, 1, n) + along(y, at, 0, n - 1)) / 2
    if x is None:
        return middle * (1 if dx is None else dx)
    x = argument(name, x)
    if x.ndim == 1:
        x = x.reshape((-1,) + (1,) * (y.ndim - 1 - at))
    return middle * x.diff(dim=at - y.ndim if x.ndim < y.ndim else at)


def even_strips(name: str, y: Any, dx: Any, dim: int) -> Tensor:
    """The area of all strips of a width."""
    y = floating(name, y)
    at = normal_axis(name, dim, y._shape)
    n = y._shape[at]
    if n < 2:
        return strips(name, y, None, dx, at).sum(at)
    ends = y.select(at, 0) + y.select(at, n - 1)
    return (along(y, at, 1, n - 1).sum(at) + ends / 2) * dx


def trapezoid(y: Any, x: Any = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """The area under ``y`` along an axis by the trapezoidal rule.

    Args:
        y: the heights.
        x: their places, (n,) or of the shape of ``y``; a distance of ``dx`` (1) unless told.
    """
    if x is not None:
        return strips("trapezoid", y, x, dx, dim).sum(dim)
    return even_strips("trapezoid", y, 1 if dx is None else dx, dim)


trapz = trapezoid


def cumulative_trapezoid(y: Any, x: Any = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """The area under ``y`` up to each place of an axis by the trapezoidal rule."""
    return strips("cumulative_trapezoid", y, x, dx, dim).cumsum(dim)


__all__ = public(globals())
