"""NumPy's histograms: how many elements lie between edges."""

from __future__ import annotations

import builtins
from math import prod
from typing import Any

from fx import dtypes
from fx.errors import ShapeError
from fx.ops.convert import as_tensor
from fx.ops.given import listed, pair
from fx.ops.indexing.searching import searchsorted, where
from fx.ops.making.creation import linspace, zeros
from fx.ops.making.interop import asarray
from fx.ops.operands import cast, floating
from fx.ops.shapes.manipulation import flip, ravel, reshape
from fx.tensor import Tensor


def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None) -> Tensor:
    """The edges that ``histogram`` would use.

    Example:
        >>> import fx
        >>> fx.histogram_bin_edges(fx.tensor([0.0, 3.0]), 3)
        tensor([0., 1., 2., 3.])
    """
    if not isinstance(bins, int):
        return floating("histogram", bins)
    x = floating("histogram", a)
    if range is None:
        range = (x.min().item(), x.max().item()) if x.numel() else (0.0, 1.0)
    low, high = pair("histogram", "range", range)
    if low == high:
        low, high = low - 0.5, high + 0.5
    return linspace(low, high, bins + 1, dtype=x.dtype)


def histogram(
    a: Any, bins: Any = 10, range: Any = None, weights: Any = None, density: bool = False
) -> tuple[Tensor, Tensor]:
    """How many elements lie in each bin, and the edges of the bins.

    Args:
        a: any shape.
        bins: their number, or increasing edges (n + 1,); the last bin is closed.
        range: the outermost edges where ``bins`` is a number; the extremes of ``a`` unless told.
        weights: of the shape of ``a``: how much each element counts.
        density: divide by the total and by the width of each bin.

    Returns:
        ``(counts, edges)``; int64 counts unless there are weights or densities.

    Example:
        >>> import fx
        >>> fx.histogram(fx.tensor([1, 2, 1]), bins=[0, 1, 2, 3])
        (tensor([0, 2, 1]), tensor([0., 1., 2., 3.]))
    """
    x = ravel(floating("histogram", asarray(a)))
    edges = histogram_bin_edges(x, asarray(bins) if isinstance(bins, list | tuple) else bins, range)
    x = cast(x, dtypes.promote_types(x.dtype, edges.dtype))
    hist = _tallied([x], [edges], weights)
    if density:
        hist = cast(hist, edges.dtype)
        hist = hist / hist.sum() / edges.diff()
    return hist, edges


def _tallied(columns: list[Tensor], edges: list[Tensor], weights: Any) -> Tensor:
    """Counts of points by the bins that each coordinate lies in."""
    shape = tuple(e.shape[0] - 1 for e in edges)
    inside: Any = True
    place: Any = 0
    for x, e, n in zip(columns, edges, shape):
        at = searchsorted(e, x, right=True) - 1
        at = where(x == e[-1], n - 1, at)
        inside = (x >= e[0]) & (x <= e[-1]) & inside
        place = place * n + at.clamp(0, n - 1)
    each = ravel(asarray(weights)) if weights is not None else None
    dtype = dtypes.int64 if each is None else each.dtype
    each = cast(inside, dtype) if each is None else where(inside, each, cast(as_tensor(0), dtype))
    none = zeros((prod(shape),), dtype=dtype, device=each.device)
    return reshape(none.scatter_add(0, place, each), shape)


def histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, weights: Any = None, density: bool = False
) -> tuple[Tensor, list[Tensor]]:
    """How many points lie in each cell of a grid, and the edges along each coordinate.

    Args:
        sample: (points, coordinates), or a sequence of coordinates.
        bins: a number, or for each coordinate a number or edges.
        range: for each coordinate the outermost edges.
        weights: (points,).
        density: divide by the total and by the size of each cell.

    Example:
        >>> import fx
        >>> fx.histogramdd(fx.tensor([[0.0, 0.0], [1.0, 1.0]]), 2)[0]
        tensor([[1., 0.],
                [0., 1.]])
    """
    if isinstance(sample, Tensor):
        if sample.ndim != 2:
            raise ShapeError(f"histogramdd takes points (n, coordinates), got {sample.shape}")
        columns = [sample[:, i] for i in builtins.range(sample.shape[1])]
    else:
        columns = [ravel(asarray(x)) for x in listed("histogramdd", "sample", sample)]
    columns = [floating("histogramdd", x) for x in columns]
    count = len(columns)
    each = [bins] * count if isinstance(bins, int) else listed("histogramdd", "bins", bins)
    ranges = [None] * count if range is None else listed("histogramdd", "range", range)
    if not count or len(each) != count or len(ranges) != count:
        raise ShapeError(
            f"histogramdd: {count} coordinates, and {len(each)} bins and {len(ranges)} ranges"
        )
    edges = [
        histogram_bin_edges(x, b if isinstance(b, int) else asarray(b), r)
        for x, b, r in zip(columns, each, ranges, strict=True)
    ]
    hist = _tallied(columns, edges, weights)
    hist = cast(hist, edges[0].dtype) if weights is None else hist
    if density:
        hist = hist / hist.sum()
        for i, e in enumerate(edges):
            along = [-1 if j == i else 1 for j in builtins.range(len(edges))]
            hist = hist / reshape(e.diff(), along)
    return hist, edges


def histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, weights: Any = None, density: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """``histogramdd`` of two coordinates: counts, edges along x, edges along y.

    Example:
        >>> import fx
        >>> fx.histogram2d(fx.tensor([0.0, 1.0]), fx.tensor([0.0, 1.0]), 2)[0]
        tensor([[1., 0.],
                [0., 1.]])
    """
    if not isinstance(bins, int) and len(listed("histogram2d", "bins", bins)) != 2:
        bins = [bins, bins]
    hist, (first, second) = histogramdd([x, y], bins, range, weights, density)
    return hist, first, second


def digitize(x: Any, bins: Any, right: bool = False) -> Tensor:
    """The number of the bin of each element: ``bins[i - 1] <= x < bins[i]``.

    Args:
        bins: (n,) edges, increasing or decreasing.
        right: whether bins are closed at their right end, and not at their left.

    Example:
        >>> import fx
        >>> fx.digitize(fx.tensor([0.2, 6.4]), fx.tensor([0.0, 1.0, 2.5]))
        tensor([1, 3])
    """
    edges, values = asarray(bins), asarray(x)
    if edges.ndim != 1:
        raise ShapeError(f"digitize takes edges (n,), got shape {edges.shape}")
    if edges.shape[0] > 1 and bool(edges[0] > edges[-1]):
        return edges.shape[0] - searchsorted(flip(edges, 0), values, right=not right)  # type: ignore[no-any-return]
    return searchsorted(edges, values, right=not right)
