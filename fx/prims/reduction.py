"""Reductions along axes."""

from __future__ import annotations

import fx.backends.cpu.reduction as cpu
import fx.prims.shape as shape_prims
from fx.prims.families import to_front
from fx.prims.sampling import Sample
from fx.primitive import define


def reduced_shape(shape, axes, keepdims):
    """The shape after a reduction over ``axes`` (sorted, not negative)."""
    if keepdims:
        return tuple(1 if i in axes else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in axes)


def spread_back(ct, shape, axes, keepdims):
    """Broadcast a cotangent of a reduction to the shape that was reduced."""
    if ct.ndim and not keepdims and axes:
        ct = shape_prims.reshape(ct, shape=reduced_shape(shape, axes, True))
    return shape_prims.broadcast_to(ct, shape=shape)


def reduction_spec(x, *, axes, keepdims, **params):
    """The spec of a reduction that keeps the dtype."""
    return x.with_(shape=reduced_shape(x.shape, axes, keepdims))


def reduction_batch(get):
    """The batching rule of a reduction: the lane moves to the front."""

    def batch(level, args, dims, *, axes, **params):
        x = to_front(args[0], dims[0])
        return get()(x, axes=tuple(a + 1 for a in axes), **params), 0

    return batch


def reduction_sample(values=None):
    """Some axes of a small array."""

    def sample(d):
        shape = d.shape()
        x = d.floats(shape) if values is None else values(d, shape)
        return Sample([x], {"axes": d.axes(len(shape)), "keepdims": d.flag()})

    return sample


def _sum_vjp(needs, x, *, axes, keepdims):
    shape = x.shape
    return lambda ct: (spread_back(ct, shape, axes, keepdims),)


sum = define(
    "sum", cpu=cpu.sum, spec=reduction_spec,
    jvp=lambda primals, tangents, **p: (sum(*primals, **p), sum(*tangents, **p)),
    vjp=_sum_vjp,
    batch=reduction_batch(lambda: sum),
    sample=reduction_sample(),
)  # fmt: skip
