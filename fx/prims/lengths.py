"""Lengths of vectors along axes, what is divided by them, and distances, fused."""

from __future__ import annotations

from math import prod

import fx.prims.elementwise as elementwise
from fx.dtypes import COMPLEX
from fx.prims.compare import where
from fx.prims.creation import constant_like
from fx.prims.fused import along, elements, fuse
from fx.prims.norms import standardised, variance
from fx.prims.reduction import sum
from fx.prims.shape import reshape, transpose
from fx.tensor import Tensor


def root(x):
    """The square root, whose derivative at 0 is taken to be 0 (a subgradient)."""
    if type(x) is Tensor and x._node is None:
        return elementwise.sqrt(x)
    zero = x == 0
    safe = where(zero, constant_like(1.0, x), x)
    return where(zero, constant_like(0.0, x), elementwise.sqrt(safe))


def _length(x, *, axes, keepdims):
    size = elementwise.abs(x) if x.dtype in COMPLEX else x
    return root(sum(elementwise.square(size), axes=axes, keepdims=keepdims))


def _unit(x, *, axes, eps):
    length = _length(x, axes=axes, keepdims=True)
    least = eps if isinstance(eps, Tensor) else constant_like(eps, length)
    return x / elementwise.maximum(length, least)


def _cosine(x, y, *, axes, keepdims, eps):
    product = _unit(x, axes=axes, eps=eps) * _unit(y, axes=axes, eps=eps)
    return sum(product, axes=axes, keepdims=keepdims)


def _gap(x, y, *, axes, keepdims, eps):
    return _length(x - y + eps, axes=axes, keepdims=keepdims)


def _by_root_mean_square(x, *, axes, eps):
    mean = sum(elementwise.square(x), axes=axes, keepdims=True) / prod([x.shape[i] for i in axes])
    return x * elementwise.rsqrt(mean + eps)


def _deviation(x, *, axes, keepdims, freedom):
    return root(variance.reference(x, axes=axes, keepdims=keepdims, freedom=freedom))


deviation = along("deviation", _deviation, "x>r", ["freedom"], torch_name="Std")
length = along("length", _length, "x>r", torch_name="LinalgVectorNorm")
unit = along("unit", _unit, "x>x", ["eps"])
cosine = along("cosine", _cosine, "xx>r", ["eps"])
gap = along("gap", _gap, "xx>r", ["eps"])  # the length of x - y + eps
by_root_mean_square = along("rms_norm", _by_root_mean_square, "x>x", ["eps"])
standard = along("standard", lambda x, *, axes, eps: standardised(x, axes, eps)[0], "x>x", ["eps"])


# of all pairs: x (*batch, m, d), y (*batch, n, d) -------------------------------------------------


def _gaps(x, y):
    rows = reshape(x, shape=(*x.shape[:-1], 1, x.shape[-1]))  # (*batch, m, 1, d)
    return rows - reshape(y, shape=(*y.shape[:-2], 1, *y.shape[-2:]))


def _distances(x, y):
    gaps = _gaps(x, y)
    return _length(gaps, axes=(gaps.ndim - 1,), keepdims=False)


def _pulls(s, x, y):
    weighted = reshape(s, shape=(*s.shape, 1)) * _gaps(x, y)
    return sum(weighted, axes=(weighted.ndim - 2,), keepdims=False)


def _share(ct, distance):
    zero = distance == 0
    safe = where(zero, constant_like(1.0, distance), distance)
    return where(zero, constant_like(0.0, ct), ct / safe)


def _distances_vjp(needs, x, y):
    def pullback(ct, distance):
        s = share(ct, distance)
        turned = (*range(s.ndim - 2), s.ndim - 1, s.ndim - 2)
        return (
            None if needs[0] is None else pulls(s, x, y),
            None if needs[1] is None else pulls(transpose(s, axes=turned), y, x),
        )

    return pullback


share = elements("share_of_distance", _share)
pulls = fuse("pulls", reference=_pulls)  # sum over j of s[i, j] * (x[i] - y[j])
distances = fuse(
    "distances", reference=_distances, vjp=_distances_vjp, saves=(0,), torch_name="Cdist"
)
