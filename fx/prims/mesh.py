"""What goes in and out of code that runs on the ranks of a mesh, and the place of a rank.

Outside, every rank computes the same with *whole* tensors; inside, each one with its *part*.
``shard`` goes in, ``unshard`` out, and each is the transpose of the other. For one axis of the mesh
``how`` is one of

========  =====================================  ===========================================
how       shard: whole to part                   unshard: part to whole
========  =====================================  ===========================================
rows      (size, *S) -> (*S), the row of a rank  (*S) -> (size, *S), the rows of all
same      the same for every rank                the sum over the ranks
first     as it is on the first, zeros on others what the first has, and so all of them
========  =====================================  ===========================================

What is the same for all ranks goes in as ``same`` and out as ``first``: its cotangent counts once.
``axis`` is the key of an axis of a mesh; with a number, as samplers have it, ``lane`` is the only
rank.
"""

from __future__ import annotations

import fx.prims.shape as shape_prims
from fx.dtypes import int64
from fx.primitive import NOT_DIFFERENTIABLE, define
from fx.prims.collective import MESSAGES, NO_LEVEL, check_lane, check_rows, take_rows
from fx.prims.compare import equal, where
from fx.prims.creation import constant_like, iota, no_lanes
from fx.prims.families import to_front
from fx.prims.indexing import take
from fx.prims.sampling import Sample
from fx.spec import TensorSpec

HOW = ("rows", "same", "first")

mesh_index = define(  # the place of this rank along an axis: known when it runs, in no graph
    "mesh_index", spec=lambda *, axis, device: TensorSpec((), int64, device),
    jvp=NOT_DIFFERENTIABLE,
    vjp=NOT_DIFFERENTIABLE,
    batch=no_lanes,
    sample=lambda d: Sample([], {"axis": NO_LEVEL, "device": "cpu"}),
)  # fmt: skip


def _where_first(x, lane):
    return where(equal(lane, constant_like(0, lane)), x, constant_like(0, x))


# shard ------------------------------------------------------------------------------------------


def _shard_spec(x, lane, *, axis, size, how):
    check_lane("shard", lane)
    if how != "rows":
        return x
    check_rows("shard", x, size)
    return x.with_(shape=x.shape[1:])


def _shard_vjp(needs, x, lane, **p):
    return None if needs[0] is None else lambda ct: (unshard(ct, lane, **p), None)


def _shard_formula(x, lane, *, axis, size, how):
    if how == "rows":
        return take(x, lane, axis=0)
    return x if how == "same" else _where_first(x, lane)


def _shard_batch(level, args, dims, *, how, **p):
    x, lane = args
    if dims[1] is not None:  # as samplers have it
        x = _all_lanes(level, x, dims[0])
        return (take_rows(level, x, lane), 0) if how == "rows" else (_per_lane(x, lane, how), 0)
    if how != "rows":
        return shard(x, lane, how=how, **p), dims[0]
    x = to_front(x, dims[0])
    x = shape_prims.transpose(x, axes=(1, 0, *range(2, x.ndim)))
    return shard(x, lane, how=how, **p), 0


def _all_lanes(level, x, d):
    return shape_prims.stretched(x, (level.size, *x.shape)) if d is None else to_front(x, d)


def _per_lane(x, lane, how):
    if how == "same":
        return x
    return _where_first(x, shape_prims.reshaped(lane, (x.shape[0], *[1] * (x.ndim - 1))))


def _sample(name):
    def sample(d):
        size, how = d.integer(1, 3), d.choice(HOW)
        shape = (size, *d.shape()) if name == "shard" and how == "rows" else d.shape()
        lane = d.integers((), 0, size)
        return Sample([d.floats(shape), lane], {"axis": NO_LEVEL, "size": size, "how": how})

    return sample


def _linear(get):
    return lambda primals, ts, **p: (get()(*primals, **p), get()(ts[0], primals[1], **p))


shard = define(
    "shard", spec=_shard_spec, formula=_shard_formula,
    jvp=_linear(lambda: shard),
    vjp=_shard_vjp,
    batch=_shard_batch,
    sample=_sample("shard"),
)  # fmt: skip


# unshard ----------------------------------------------------------------------------------------


def _unshard_spec(x, lane, *, axis, size, how):
    check_lane("unshard", lane)
    return x.with_(shape=(size, *x.shape)) if how == "rows" else x


def _unshard_vjp(needs, x, lane, **p):
    return None if needs[0] is None else lambda ct: (shard(ct, lane, **p), None)


def _unshard_batch(level, args, dims, *, how, **p):
    x, lane = args
    if dims[1] is None:
        return unshard(x, lane, how=how, **p), dims[0] + (how == "rows")
    x = _all_lanes(level, x, dims[0])
    if how != "rows":
        return _per_lane(x, lane, how), 0
    rest = (1,) * (x.ndim - 1)
    at = shape_prims.reshaped(lane, (level.size, 1, *rest))
    shape = (p["size"], *rest)
    row = iota(shape=shape, axis=0, start=0, step=1, dtype=lane.dtype, device=x.device.name)
    x = shape_prims.reshaped(x, (level.size, 1, *x.shape[1:]))
    return where(equal(row, at), x, constant_like(0, x)), 0


unshard = define(
    "unshard", spec=_unshard_spec,
    effectful=lambda *, axis, size, how: (
        MESSAGES if type(axis) is str and how != "first" else ""
    ),
    jvp=_linear(lambda: unshard),
    vjp=_unshard_vjp,
    batch=_unshard_batch,
    sample=_sample("unshard"),
)  # fmt: skip
