"""Images and signals of other sizes: nearest, linear, cubic, by areas, with and without antialias.

Each mode works axis by axis: an output element is a weighted sum of a few input elements along it,
whose places and weights are known from the sizes alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import lru_cache
from math import floor, pi, sin
from struct import pack, unpack
from typing import Any

import numpy as np

import fx.prims.activations as activations
import fx.prims.creation as creation
import fx.prims.elementwise as elementwise
import fx.prims.indexing as indexing
import fx.prims.shape as shape_prims
from fx.dtypes import float32, float64, uint8
from fx.errors import ShapeError
from fx.nn.functional._narrow import narrow, widened
from fx.nn.functional.adaptive_pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
)
from fx.ops.axes import integers
from fx.ops.convert import as_tensor
from fx.ops.operands import argument, cast, floating, own
from fx.prims.fused import fuse, of_reference
from fx.tensor import Tensor

# mode -> the ranks that it takes
_RANKS = {
    "nearest": (1, 2, 3),
    "nearest-exact": (1, 2, 3),
    "area": (1, 2, 3),
    "linear": (1,),
    "bilinear": (2,),
    "trilinear": (3,),
    "bicubic": (2,),
    "lanczos": (2,),
}
_SMOOTH = ("bilinear", "bicubic", "lanczos")


class Taps:
    """What is added up along an axis: of each tap places (taps, m) and their weights.

    Args:
        size: of the axis that it reads.
        lines: of each element of the result its places with their weights.
    """

    def __init__(self, size: int, lines: list[list[tuple[int, float]]]) -> None:
        self.size = size
        self.places = np.array([[p for p, _ in line] for line in lines], np.int64).T.copy()
        self.weights = np.array([[w for _, w in line] for line in lines]).T.copy()
        self.cast: dict[str, np.ndarray] = {"d": self.weights}

    def weights_as(self, char: str) -> np.ndarray:
        """The weights in a dtype, kept."""
        found = self.cast.get(char)
        if found is None:
            found = self.cast[char] = self.weights.astype(char)
        return found


def _resampled(x: Tensor, *, axis: int, taps: Taps) -> Tensor:
    line = (taps.places.shape[1], *[1] * (x.ndim - axis - 1))
    total: Any = None
    for places, weights in zip(taps.places, taps.weights, strict=True):
        seen = indexing.take(x, as_tensor(places, device=x.device), axis=axis)
        w = as_tensor(weights, dtype=x._dtype, device=x.device)
        part = seen * shape_prims.reshaped(w, line)
        total = part if total is None else total + part
    return total  # type: ignore[no-any-return]


def _spread(ct: Tensor, *, axis: int, taps: Taps) -> Tensor:
    shape = (*ct._shape[:axis], taps.size, *ct._shape[axis + 1 :])
    like = creation.full(shape=shape, value=0, dtype=ct._dtype, device=ct.device.name)
    return _back((True,), like, axis=axis, taps=taps)(ct)[0]  # type: ignore[no-any-return]


_back = of_reference(_resampled)
_resample = fuse(
    "resample", reference=_resampled,
    vjp=lambda needs, x, **given: lambda ct: (_transpose(ct, **given),),
)  # fmt: skip
_transpose = fuse(
    "spread", reference=_spread,
    vjp=lambda needs, ct, **given: lambda g: (_resample(g, **given),),
)  # fmt: skip


def interpolate(
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """The input at another size.

    Args:
        input: (batch, channels, ...) with one to three spatial axes.
        size: the sizes of the result, an int or one a dimension; or
        scale_factor: by how much they are larger, a number or one a dimension.
        mode: ``"nearest"``, ``"nearest-exact"``, ``"area"``; ``"linear"`` for one spatial axis,
            ``"bilinear"`` and ``"bicubic"`` for two, ``"trilinear"`` for three; ``"lanczos"`` with
            ``antialias``.
        align_corners: whether the corner elements stay at the corners (else the corners of their
            areas do); only for the modes named after a polynomial.
        recompute_scale_factor: use the ratio of the sizes in place of ``scale_factor`` itself.
        antialias: smooth first where the result is smaller; for ``"bilinear"``, ``"bicubic"`` and
            ``"lanczos"``.

    Returns:
        (batch, channels, *size), where ``size = floor(old * scale_factor)``.

    Raises:
        ValueError: if the options do not go together.
        ShapeError: if sizes do not fit the input.

    Example:
        >>> import fx
        >>> x = fx.tensor([[[1.0, 3.0]]])
        >>> fx.nn.functional.interpolate(x, scale_factor=2)
        tensor([[[1., 1., 3., 3.]]])
        >>> fx.nn.functional.interpolate(x, size=3, mode="linear", align_corners=True)
        tensor([[[1., 2., 3.]]])
    """
    x = argument("interpolate", input)
    sizes = x._shape[2:]
    if mode not in _RANKS or len(sizes) not in _RANKS[mode]:
        modes = [m for m, ranks in _RANKS.items() if len(sizes) in ranks]
        raise ShapeError(
            f"interpolate: an input of shape {x.shape}, (batch, channels, ...), has "
            f"{len(sizes)} spatial axes, for which there are the modes {', '.join(modes) or 'none'}"
            f"; got {mode!r}"
        )
    if mode in ("nearest", "nearest-exact", "area") and align_corners is not None:
        raise ValueError(
            "align_corners option can only be set with the interpolating modes: linear | bilinear "
            "| bicubic | trilinear"
        )
    if antialias and mode not in _SMOOTH:
        raise ShapeError(
            f"interpolate: antialias is restricted to the modes {', '.join(_SMOOTH)} of images, "
            f"got {mode!r} for an input of shape {x.shape}"
        )
    if mode == "lanczos" and (align_corners or not antialias):
        raise ValueError("interpolate: lanczos takes antialias=True, and no align_corners=True")
    outs, scales = _target(sizes, size, scale_factor, recompute_scale_factor or mode == "area")
    if min(outs) < 1 or min(sizes) < 1:
        raise ShapeError(
            f"interpolate: input and output sizes should be greater than 0, but got input {sizes} "
            f"and output {outs}"
        )
    if mode == "area":
        return (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)[len(outs) - 1](
            x, outs
        )
    if mode.startswith("nearest"):
        for i in reversed(range(len(sizes))):
            n, m, scale = sizes[i], outs[i], scales[i]
            if len(outs) == 2 and mode == "nearest" and m in (n, 2 * n):
                scale = None  # for images PyTorch goes by the sizes then
            taps = _nearest(n, m, scale, mode == "nearest-exact")
            if taps is None:
                continue
            if x._dtype in (float32, float64):
                x = _resample(x, axis=i + 2, taps=taps)
            else:
                x = indexing.take(x, as_tensor(taps.places[0], device=x.device), axis=i + 2)
        return own(x) if outs == sizes else x
    if x._dtype == uint8:  # as images are: the nearest number
        wide = _weighted(cast(x, float32), mode, outs, scales, bool(align_corners), antialias)
        return cast(activations.clamped(elementwise.round(wide), low=0, high=255), uint8)
    x = floating("interpolate", x)
    if narrow(x):
        return widened(_weighted, x, mode, outs, scales, bool(align_corners), antialias)
    return _weighted(x, mode, outs, scales, bool(align_corners), antialias)


def _target(sizes: Any, size: Any, factor: Any, recompute: bool) -> tuple[tuple[int, ...], Any]:
    """The sizes of the result, and the factors that places are computed with, or None."""
    rank = len(sizes)
    if (size is None) == (factor is None):
        both = "only one of size or scale_factor should be defined"
        raise ValueError("either size or scale_factor should be defined" if size is None else both)
    given = factor if size is None else size
    many = list(given) if isinstance(given, tuple | list) else [given] * rank
    if len(many) != rank:
        word = "scale_factor" if size is None else "size"
        raise ShapeError(
            f"interpolate: {word} must be a number or {rank} of them, one for each of the spatial "
            f"sizes {tuple(sizes)}, got {given}"
        )
    if size is not None:
        return integers("interpolate", "size", many), [None] * rank
    factors = [float(f) for f in many]
    outs = tuple([floor(n * f) for n, f in zip(sizes, factors, strict=True)])
    return outs, [None] * rank if recompute else factors


def _weighted(
    x: Tensor, mode: str, outs: Any, scales: Any, align_corners: bool, antialias: bool
) -> Tensor:
    """Axis by axis, from the last: sums of a few elements with weights."""
    plan = _smoothed if antialias else _polynomial
    for i in reversed(range(len(outs))):
        n, m = x._shape[i + 2], outs[i]
        if n == m and (mode != "bicubic" or antialias or scales[i] in (None, 1.0)):
            continue
        x = _resample(x, axis=i + 2, taps=plan(n, m, scales[i], mode, align_corners))
    return x


# places and weights -----------------------------------------------------------------------------


def _single(value: float) -> float:
    """The nearest number of float32, in which PyTorch finds nearest places."""
    return unpack("f", pack("f", value))[0]  # type: ignore[no-any-return]


@lru_cache(maxsize=256)
def _nearest(n: int, m: int, scale: float | None, exact: bool) -> Taps | None:
    """One tap; None if every element stays where it is."""
    if n == m and scale is None:
        return None
    step = _single(1.0 / scale if scale else n / m)
    shift = 0.5 if exact else 0.0
    places = [min(floor(_single((i + shift) * step)), n - 1) for i in range(m)]
    return None if places == list(range(n)) else Taps(n, [[(p, 1.0)] for p in places])


def _step(n: int, m: int, scale: float | None, align_corners: bool) -> float:
    """How far neighbouring elements of the result are apart in the input."""
    if align_corners:
        return (n - 1) / (m - 1) if m > 1 else 0.0
    return 1.0 / scale if scale else n / m


@lru_cache(maxsize=256)
def _polynomial(n: int, m: int, scale: float | None, mode: str, align_corners: bool) -> Taps:
    """Two taps with linear weights, or four with cubic ones."""
    step = _step(n, m, scale, align_corners)
    cubic = mode == "bicubic"
    lines: list[list[tuple[int, float]]] = []
    for i in range(m):
        at = i * step if align_corners else (i + 0.5) * step - 0.5
        at = at if cubic else max(at, 0.0)
        first = floor(at)
        if cubic:
            t = at - first
            around = [(first + k, _cubic(t - k, -0.75)) for k in (-1, 0, 1, 2)]
            lines.append([(min(max(place, 0), n - 1), weight) for place, weight in around])
        else:
            first = min(first, n - 1)
            t = min(max(at - first, 0.0), 1.0)
            lines.append([(first, 1.0 - t), (min(first + 1, n - 1), t)])
    return Taps(n, lines)


@lru_cache(maxsize=256)
def _smoothed(n: int, m: int, scale: float | None, mode: str, align_corners: bool) -> Taps:
    """As many taps as the filter, stretched where the result is smaller, covers."""
    step = _step(n, m, scale, align_corners)
    kernel, reach = _KERNELS[mode]
    stretch = max(step, 1.0)
    support = reach * stretch
    lines: list[list[tuple[int, float]]] = []
    for i in range(m):
        centre = step * (i + 0.5)
        low, high = max(int(centre - support + 0.5), 0), min(int(centre + support + 0.5), n)
        weights = [kernel((j - centre + 0.5) / stretch) for j in range(low, high)]
        total = sum(weights)
        lines.append([(j, w / total) for j, w in zip(range(low, high), weights, strict=True)])
    most = max(len(line) for line in lines)
    return Taps(n, [line + [(line[-1][0], 0.0)] * (most - len(line)) for line in lines])


def _cubic(x: float, a: float) -> float:
    """The cubic convolution kernel (Keys, 1981)."""
    x = abs(x)
    if x <= 1:
        return ((a + 2) * x - (a + 3)) * x * x + 1
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a if x < 2 else 0.0


def _lanczos(x: float) -> float:
    if not x:
        return 1.0
    return 3 * sin(pi * x) * sin(pi * x / 3) / (pi * x) ** 2 if abs(x) < 3 else 0.0


_KERNELS: dict[str, tuple[Callable[[float], float], int]] = {
    "bilinear": (lambda x: max(1.0 - abs(x), 0.0), 1),
    "bicubic": (lambda x: _cubic(x, -0.5), 2),
    "lanczos": (_lanczos, 3),
}


# older names ------------------------------------------------------------------------------------


def upsample(
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """An older name of ``interpolate``, with a warning."""
    _warn("upsample")
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Any, size: Any = None, scale_factor: Any = None) -> Tensor:
    """An older name of ``interpolate`` with ``mode="nearest"``, with a warning."""
    _warn("upsample_nearest")
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input: Any, size: Any = None, scale_factor: Any = None) -> Tensor:
    """An older name of ``interpolate``, bilinear with ``align_corners=True``, with a warning."""
    _warn("upsample_bilinear")
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


def _warn(name: str) -> None:
    warnings.warn(
        f"nn.functional.{name} is deprecated; write nn.functional.interpolate", stacklevel=3
    )
