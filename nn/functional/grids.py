"""Sampling of images at points of a grid, and grids of affine maps."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import fx.prims.compare as compare
import fx.prims.creation as creation
import fx.prims.elementwise as elementwise
import fx.prims.indexing as indexing
import fx.prims.linear as linear_prims
import fx.prims.shape as shape_prims
from fx.dtypes import FLOATING, float32, int64
from fx.errors import DTypeError, ShapeError
from fx.nn.functional._narrow import narrow, widened
from fx.ops.autocasting import in_float32
from fx.ops.axes import integers
from fx.ops.operands import argument, cast, iota
from fx.ops.shapes.joining import stack
from fx.prims.creation import constant_like
from fx.prims.fused import fuse, of_reference
from fx.tensor import Tensor

_CHANGED = (
    "the default of align_corners is False in {0} (PyTorch before 1.3.0 had True); give "
    "align_corners=False to silence this warning"
)


def affine_grid(theta: Any, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The points that affine maps send a grid over [-1, 1] to, for ``grid_sample``.

    Args:
        theta: (batch, 2, 3), or (batch, 3, 4) for volumes: a matrix and a shift.
        size: (batch, channels, height, width) of the image to make, or (batch, channels, depth,
            height, width).
        align_corners: whether -1 and 1 are the centres of the outermost elements (else their
            outer edges).

    Returns:
        (batch, height, width, 2), points (x, y); or (batch, depth, height, width, 3).

    Raises:
        ShapeError: if ``theta`` and ``size`` do not fit together.
        DTypeError: if ``theta`` is not floating.

    Source: Jaderberg et al., "Spatial transformer networks", 2015.

    Example:
        >>> import fx
        >>> theta = fx.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
        >>> fx.nn.functional.affine_grid(theta, (1, 1, 1, 3), align_corners=True)[0, 0, :, 0]
        tensor([-1.,  0.,  1.])
    """
    if align_corners is None:
        warnings.warn(_CHANGED.format("affine_grid"), stacklevel=2)
        align_corners = False
    t, sizes = argument("affine_grid", theta), integers("affine_grid", "size", size)
    if t._dtype not in FLOATING:
        raise DTypeError(
            f"affine_grid: expected theta to have floating point type, got {t.dtype.name}"
        )
    rank = len(sizes) - 2
    if rank not in (2, 3) or t._shape != (sizes[0], rank, rank + 1) or min(sizes) < 1:
        raise ShapeError(
            f"affine_grid: expected theta (batch, 2, 3) with a positive size (batch, channels, "
            f"height, width), or (batch, 3, 4) with one more, got {t.shape} and {sizes}"
        )
    spatial = sizes[2:]
    lines = []
    for i in reversed(range(rank)):  # x is the last axis
        line = [1] * rank
        line[i] = spatial[i]
        at = shape_prims.reshaped(_ends(spatial[i], align_corners, t), tuple(line))
        lines.append(shape_prims.stretched(at, spatial))
    lines.append(creation.full(shape=spatial, value=1, dtype=t._dtype, device=t.device.name))
    points = shape_prims.reshaped(stack(lines, axis=-1), (1, prod(spatial), rank + 1))
    points = shape_prims.stretched(points, (sizes[0], *points.shape[1:]))
    out = linear_prims.matmul(points, shape_prims.transposed(t, (0, 2, 1)))
    return shape_prims.reshaped(out, (sizes[0], *spatial, rank))


def _ends(n: int, align_corners: bool, like: Tensor) -> Tensor:
    """n points from -1 to 1, or the centres of n parts of it."""
    steps = cast(iota(n, like), like._dtype)
    if align_corners:
        return steps * (2.0 / (n - 1)) - 1.0 if n > 1 else steps
    return (steps * 2.0 + 1.0) / n - 1.0


@in_float32
def grid_sample(
    input: Any,
    grid: Any,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """The values of images at the points of a grid.

    Args:
        input: (batch, channels, height, width), or (batch, channels, depth, height, width).
        grid: (batch, out_height, out_width, 2), points (x, y) where -1 and 1 are the ends of the
            image; or (batch, out_depth, out_height, out_width, 3), points (x, y, z).
        mode: ``"bilinear"`` (trilinear for volumes), ``"nearest"``, or ``"bicubic"`` for images.
        padding_mode: what is outside: ``"zeros"``, ``"border"`` (the nearest element inside) or
            ``"reflection"``.
        align_corners: whether -1 and 1 are the centres of the outermost elements (else their
            outer edges).

    Returns:
        (batch, channels, *out sizes).

    Raises:
        ValueError: for another mode.
        ShapeError: if shapes do not fit together.
        DTypeError: if the dtypes differ or are not floating.

    Source: Jaderberg et al., "Spatial transformer networks", 2015.

    Example:
        >>> import fx
        >>> x = fx.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
        >>> fx.nn.functional.grid_sample(x, fx.zeros((1, 1, 1, 2)), align_corners=False)
        tensor([[[[2.5000]]]])
    """
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise ValueError(
            f"grid_sample: expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: "
            f"{mode!r}"
        )
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(
            f"grid_sample: expected padding_mode to be 'zeros', 'border', or 'reflection', but "
            f"got: {padding_mode!r}"
        )
    if align_corners is None:
        warnings.warn(_CHANGED.format("grid_sample"), stacklevel=2)
        align_corners = False
    x, points = argument("grid_sample", input), argument("grid_sample", grid)
    if x._dtype != points._dtype or x._dtype not in FLOATING:
        raise DTypeError(
            f"grid_sample: input and grid must have one floating dtype, got {x.dtype.name} and "
            f"{points.dtype.name}; write grid.astype(x.dtype)"
        )
    rank = x.ndim - 2
    if (
        rank not in (2, 3)
        or points.ndim != x.ndim
        or points._shape[0] != x._shape[0]
        or points._shape[-1] != rank
    ):
        raise ShapeError(
            f"grid_sample takes an input (batch, channels, height, width) and a grid (batch, "
            f"out height, out width, 2), or both with a depth and a last size 3; got {x.shape} and "
            f"{points.shape}"
        )
    if mode == "bicubic" and rank == 3:
        raise ShapeError(
            f"grid_sample: bicubic takes images (batch, channels, height, width), got {x.shape}"
        )
    if min(x._shape[2:]) < 1:
        raise ShapeError(f"grid_sample: expected spatial sizes of at least 1, got {x.shape}")
    if narrow(x):
        wide = cast(points, float32)
        return widened(lambda x: grid_sample(x, wide, mode, padding_mode, align_corners), x)
    outs = points._shape[1:-1]
    flat = shape_prims.reshaped(points, (x._shape[0], prod(outs), rank))
    out = _samples[rank](
        x, flat, mode=mode, padding=padding_mode, corners=bool(align_corners)
    )  # (batch, channels, points)
    return shape_prims.reshaped(out, (*x._shape[:2], *outs))


class _Sampler:
    """Reads the elements of images at places that may lie outside."""

    def __init__(self, x: Tensor, padding: str, align_corners: bool) -> None:
        self.sizes = x._shape[2:]
        batch, channels = x._shape[:2]
        rows = shape_prims.transposed(x, (0, *range(2, x.ndim), 1))
        # (batch * places, channels): a place is read for all channels at once
        self.rows = shape_prims.reshaped(rows, (batch * prod(self.sizes), channels))
        if padding == "zeros":  # one more, for the places that lie outside
            zeros = indexing.zeros(x, (1, channels))
            self.rows = shape_prims.concatenate(self.rows, zeros, axis=0)
        self.batch = batch
        self.padding = padding
        self.align_corners = align_corners

    def at(self, points: Tensor, mode: str) -> Tensor:
        """The values (batch, channels, points) at points (batch, points, rank), last axis first."""
        rank = len(self.sizes)
        places = []
        for i in range(rank):
            j = rank - 1 - i
            u = shape_prims.slice(
                points,
                start=(0, 0, j),
                stop=(*points._shape[:2], j + 1),
                step=(1, 1, 1),
                drop=(2,),
            )
            n = self.sizes[i]
            place = (u + 1.0) * ((n - 1) / 2) if self.align_corners else ((u + 1.0) * n - 1.0) / 2
            places.append(place if mode == "bicubic" else self.inside(place, n))
        if mode == "nearest":
            return self.in_channels(self.read([elementwise.round(p) for p in places]))
        axes = [self.cubic(p) if mode == "bicubic" else _linear(p) for p in places]
        total: Any = None
        for taps in product(*axes):
            weight: Any = None
            for _, w in taps:
                weight = w if weight is None else weight * w
            part = self.read([p for p, _ in taps], weight, mode == "bicubic")
            total = part if total is None else total + part
        return self.in_channels(total)

    def in_channels(self, rows: Tensor) -> Tensor:
        """(batch * points, channels) to (batch, channels, points)."""
        shape = (self.batch, rows._shape[0] // max(self.batch, 1), rows._shape[1])
        return shape_prims.transposed(shape_prims.reshaped(rows, shape), (0, 2, 1))

    def cubic(self, place: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Four places around each and their weights."""
        first = elementwise.floor(place)
        t = place - first
        return [(first + k, _cubic(t, k)) for k in (-1.0, 0.0, 1.0, 2.0)]

    def inside(self, place: Tensor, n: int) -> Tensor:
        """Places brought into the image as the padding mode says."""
        if self.padding == "zeros":
            return place
        if self.padding == "reflection":
            low, span = (0.0, n - 1.0) if self.align_corners else (-0.5, float(n))
            place = _reflected(place, low, span) if span else place * 0.0
        low_end, high_end = constant_like(0.0, place), constant_like(float(n - 1), place)
        # at the ends the derivative is 0, and a NaN is brought to the low end, as in PyTorch
        place = compare.where(place > 0, place, low_end)
        return compare.where(place >= n - 1, high_end, place)

    def read(self, places: list[Tensor], weight: Any = None, outside: bool = False) -> Tensor:
        """The elements (batch * points, channels) at whole places (batch, points), weighted."""
        if outside:
            places = [self.inside(p, n) for p, n in zip(places, self.sizes, strict=True)]
        index: Any = None
        valid: Any = None
        for place, n in zip(places, self.sizes, strict=True):
            fits = compare.logical_and(place >= 0, place <= n - 1)
            valid = fits if valid is None else compare.logical_and(valid, fits)
            whole = cast(compare.where(fits, place, constant_like(0.0, place)), int64)
            index = whole if index is None else index * n + whole
        first = iota(self.batch, index, step=prod(self.sizes))  # the first row of each image
        index = index + shape_prims.reshaped(first, (self.batch, 1))
        if self.padding == "zeros":
            index = compare.where(valid, index, constant_like(self.rows.shape[0] - 1, index))
            if weight is not None:  # which is NaN at a NaN
                weight = compare.where(valid, weight, constant_like(0.0, weight))
        count = prod(index.shape)
        seen = indexing.take(self.rows, shape_prims.reshaped(index, (count,)), axis=0)
        return seen if weight is None else seen * shape_prims.reshaped(weight, (count, 1))


def _reflected(place: Tensor, low: float, span: float) -> Tensor:
    """Places turned back at ``low`` and ``low + span`` as often as it takes."""
    distance = elementwise.abs(place - low)
    turns = elementwise.floor(distance / span)
    rest = distance - turns * span
    odd = elementwise.remainder(turns, constant_like(2.0, turns)) == 1
    return compare.where(odd, span - rest, rest) + low


def _linear(place: Tensor) -> list[tuple[Tensor, Tensor]]:
    first = elementwise.floor(place)
    t = place - first
    return [(first, 1.0 - t), (first + 1.0, t)]


def _cubic(t: Tensor, k: float) -> Tensor:
    """The weight of the place ``k`` steps after the floor, ``t`` being what is past it."""
    a, x = -0.75, elementwise.abs(t - k)
    if k in (0.0, 1.0):
        return ((x * (a + 2) - (a + 3)) * x) * x + 1.0
    return ((x * a - 5 * a) * x + 8 * a) * x - 4 * a


def _sampled(x: Tensor, points: Tensor, *, mode: str, padding: str, corners: bool) -> Tensor:
    return _Sampler(x, padding, corners).at(points, mode)


_sampled_vjp = of_reference(_sampled)


def _sampled_grad(ct: Tensor, x: Tensor, points: Tensor, **how: Any) -> tuple[Tensor, ...]:
    found = _sampled_vjp((True, True), x, points, **how)(ct)
    return tuple(
        [indexing.zeros(a, a.shape) if g is None else g for a, g in zip((x, points), found)]
    )


_sample_grad = fuse("sample_grad", multiple=True, reference=_sampled_grad)
_samples = {  # by rank: x (batch, channels, *sizes), points (batch, points, rank)
    rank: fuse(
        "sample", reference=_sampled, torch_name=f"GridSampler{rank}D",
        vjp=lambda needs, x, points, **how: lambda ct: _sample_grad(ct, x, points, **how),
    )
    for rank in (2, 3)
}  # fmt: skip
