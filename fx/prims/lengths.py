"""Lengths of vectors along axes, what is divided by them, and distances, fused."""

from __future__ import annotations

from math import inf, prod

import fx.prims.elementwise as elementwise
from fx.dtypes import COMPLEX
from fx.prims.compare import isfinite, logical_and, stop_gradient, where
from fx.prims.creation import constant_like
from fx.prims.fused import along, elements, fuse
from fx.prims.indexing import scatter, take, zeros
from fx.prims.norms import standardised, variance
from fx.prims.reduction import max, sum
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


def safe_power(x, p):
    """x ** p for x >= 0, whose derivative at 0 is taken to be 0."""
    zero = x == 0
    safe = where(zero, constant_like(1.0, x), x)
    rest = constant_like(0.0 if p > 0 else inf, x)
    return where(zero, rest, elementwise.power(safe, constant_like(float(p), x)))


def farthest(x):
    """The largest magnitude along the last axis; each of several has all the slope."""
    size = elementwise.abs(x)
    if not x.shape[-1]:
        return sum(size, axes=(x.ndim - 1,), keepdims=False)
    largest = stop_gradient(max(size, axes=(x.ndim - 1,), keepdims=True))
    away = size - stop_gradient(size)
    reached = logical_and(size == largest, isfinite(size))
    slopes = where(reached, away, constant_like(0.0, size))
    out = sum(slopes, axes=(x.ndim - 1,), keepdims=False)
    return out + reshape(largest, shape=out._shape)


def _distances(x, y, *, p):
    gaps = _gaps(x, y)
    last = {"axes": (gaps.ndim - 1,), "keepdims": False}
    if p == 2:
        return _length(gaps, **last)
    if p == inf:
        return farthest(gaps)
    size = elementwise.abs(gaps)
    return sum(size, **last) if p == 1 else safe_power(sum(safe_power(size, p), **last), 1.0 / p)


def _distances_formula(x, y, *, p):
    if p in (1, 2):
        return _distances(x, y, p=p)
    size = elementwise.abs(_gaps(x, y))
    last = {"axes": (size.ndim - 1,), "keepdims": False}
    if p == inf:
        return max(size, **last) if size.shape[-1] else sum(size, **last)
    whole = sum(elementwise.power(size, constant_like(p, size)), **last)
    return elementwise.power(whole, constant_like(1.0 / p, whole))


def _slopes(gaps, distance, p):
    """Those of the distances in the gaps (*batch, m, n, d); of p = 2 times the distance."""
    if p == 2:
        return gaps
    zero, sign, size = constant_like(0.0, gaps), elementwise.sign(gaps), elementwise.abs(gaps)
    if p == 1:
        return where(gaps == gaps, sign, zero)
    distance = reshape(distance, shape=(*distance.shape, 1))
    if p == inf:
        return where(logical_and(size == distance, isfinite(size)), sign, zero)
    # where one is 0 the other is, or the slope is taken to be 0
    some = size != 0
    part = where(some, size, constant_like(1.0, size)) / where(
        distance == 0, constant_like(1.0, distance), distance
    )
    return where(some, sign * elementwise.power(part, constant_like(p - 1.0, part)), zero)


def _pulls(s, distance, x, y, *, p):
    weighted = reshape(s, shape=(*s.shape, 1)) * _slopes(_gaps(x, y), distance, p)
    return sum(weighted, axes=(weighted.ndim - 2,), keepdims=False)


def _share(ct, distance):
    zero = distance == 0
    safe = where(zero, constant_like(1.0, distance), distance)
    return where(zero, constant_like(0.0, ct), ct / safe)


def _distances_vjp(needs, x, y, *, p):
    def pullback(ct, distance):
        s = share(ct, distance) if p == 2 else ct
        turned = (*range(s.ndim - 2), s.ndim - 1, s.ndim - 2)
        back = [transpose(a, axes=turned) for a in (s, distance)] if needs[1] is not None else ()
        return (
            None if needs[0] is None else pulls(s, distance, x, y, p=p),
            None if needs[1] is None else pulls(*back, y, x, p=p),
        )

    return pullback


share = elements("share_of_distance", _share)
pulls = fuse("pulls", reference=_pulls)  # sum over j of s[i, j] * the slopes at x[i] - y[j]
distances = fuse(  # of p > 0
    "distances", reference=_distances, formula=_distances_formula, vjp=_distances_vjp, saves=(0,),
    torch_name="Cdist",
)  # fmt: skip


# of all pairs of rows of x (n, d), at places (n (n - 1) / 2,) of the matrix (n, n) of all --------


def _pair_distances(x, places, *, p):
    whole = distances(x, x, p=p)
    return take(reshape(whole, shape=(whole.shape[0] ** 2,)), places, axis=0)


def _pair_distances_vjp(needs, x, places, *, p):
    def pullback(ct, distance):
        n = x.shape[0]

        def matrix(v):
            flat = scatter(zeros(v, (n * n,)), places, v, axis=0, mode="add")
            half = reshape(flat, shape=(n, n))
            return half + transpose(half, axes=(1, 0))

        s = matrix(share(ct, distance) if p == 2 else ct)
        return pulls(s, s if p in (1, 2) else matrix(distance), x, x, p=p), None

    return pullback


pair_distances = fuse(
    "pair_distances", reference=_pair_distances, formula=_distances_formula,
    vjp=_pair_distances_vjp, saves=(0,), torch_name="Pdist",
)  # fmt: skip
