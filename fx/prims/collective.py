"""Collectives: what the lanes of a named ``vmap`` tell each other.

``axis`` is the number of the level of that ``vmap`` and ``size`` its number of lanes. At that level
the batching rule works across the lanes, and what is then the same for all of them is not batched
any more; at every other level the lanes of that level are carried along. So a call that reaches the
kernel had an argument that is the same in every lane, and the kernel computes just that: the sum of
``size`` equal terms.

Derivatives follow JAX's convention, in which the loss is the sum of what every lane computes: the
transpose of psum is psum.
"""

from __future__ import annotations

from numpy import array, int64

import fx.prims.shape as shape_prims
from fx.devices import backend
from fx.errors import ShapeError
from fx.primitive import define
from fx.prims.axes import check_integer, check_ordered
from fx.prims.compare import equal, greater, greater_equal, less, stop_gradient, where
from fx.prims.creation import constant_like, iota
from fx.prims.families import to_front
from fx.prims.indexing import take
from fx.prims.reduction import max, min, sum
from fx.prims.sampling import Sample
from fx.tensor import new_tensor

_NO_LEVEL = 1  # levels of transforms are even, so samplers name a level that is never there


def _sample(values=None):
    def sample(d):
        shape = d.shape()
        x = d.floats(shape) if values is None else values(d, shape)
        return Sample([x], {"axis": _NO_LEVEL, "size": d.integer(1, 3)})

    return sample


def _reducing_batch(get, reduce):
    """The batching rule of a reduction over lanes."""

    def batch(level, args, dims, *, axis, size):
        if level.number == axis:
            return reduce(args[0], axes=dims, keepdims=False), None
        return get()(args[0], axis=axis, size=size), dims[0]

    return batch


# psum -------------------------------------------------------------------------------------------

psum = define(
    "psum", spec=lambda x, *, axis, size: x,
    jvp=lambda primals, tangents, **p: (psum(*primals, **p), psum(*tangents, **p)),
    vjp=lambda needs, x, **p: lambda ct: (psum(ct, **p),),
    batch=_reducing_batch(lambda: psum, sum),
    sample=_sample(),
)  # fmt: skip


# pmax and pmin ----------------------------------------------------------------------------------


def _extremum_spec(name):
    def spec(x, *, axis, size):
        check_ordered(name, x)
        return x

    return spec


def _extremum_rules(get, loses):
    """jvp and vjp: the lanes that hold the extremum share its derivative."""

    def run(x, p):
        out = get()(x, **p)
        lost = loses(x, out)
        return out, lost, psum(where(lost, constant_like(0, x), constant_like(1, x)), **p)

    def jvp(primals, tangents, **p):
        t = tangents[0]
        out, lost, count = run(primals[0], p)
        return out, psum(where(lost, constant_like(0, t), t), **p) / count

    def vjp(needs, x, **p):
        # now, so that a mask is kept and not x; a mask has no derivative
        _, lost, count = run(stop_gradient(x), p)
        return lambda ct: (where(lost, constant_like(0, ct), psum(ct, **p) / count),)

    return {"jvp": jvp, "vjp": vjp}


pmax = define(
    "pmax", spec=_extremum_spec("pmax"),
    **_extremum_rules(lambda: pmax, less),
    batch=_reducing_batch(lambda: pmax, max),
    sample=_sample(),
)  # fmt: skip
pmin = define(
    "pmin", spec=_extremum_spec("pmin"),
    **_extremum_rules(lambda: pmin, greater),
    batch=_reducing_batch(lambda: pmin, min),
    sample=_sample(),
)  # fmt: skip


# all_gather and ppermute ------------------------------------------------------------------------
# Both take the lane's own index, so that their transposes know where they are.


def _sample_with_lane(more):
    def sample(d):
        size = d.integer(1, 3)
        lane = d.integers((), 0, size)
        params = {"axis": _NO_LEVEL, "size": size, **more(size, d.integer(0, size - 1))}
        return Sample([d.floats(d.shape()), lane], params)

    return sample


def _gather_spec(x, lane, *, axis, size):
    _check_lane("all_gather", lane)
    return x.with_(shape=(size, *x.shape))


def _check_lane(name, lane):
    check_integer(name, "the lane", lane)
    if lane.shape != ():
        raise ShapeError(f"{name}: the lane must be a scalar, got shape {lane.shape}")


def _gather_jvp(primals, tangents, **p):
    return all_gather(*primals, **p), all_gather(tangents[0], primals[1], **p)


def _gather_vjp(needs, x, lane, **p):
    if needs[0] is None:
        return None
    return lambda ct: (take(psum(ct, **p), lane, axis=0), None)


def _gather_batch(level, args, dims, *, axis, size):
    x, lane = args
    if level.number == axis:  # lane is 0, 1, 2, ... here
        if dims[0] is None:
            return shape_prims.stretched(x, (size, *x.shape)), None
        return to_front(x, dims[0]), None
    if dims[1] is None:
        return all_gather(x, lane, axis=axis, size=size), dims[0] + 1
    x = _lanes(level, x, dims[0])
    rest = (1,) * (x.ndim - 1)
    lane = shape_prims.reshaped(lane, (level.size, 1, *rest))
    row = iota(shape=(size, *rest), axis=0, start=0, step=1, dtype=lane.dtype, device=x.device.name)
    x = shape_prims.reshaped(x, (level.size, 1, *x.shape[1:]))
    placed = where(equal(row, lane), x, constant_like(0, x))  # (lanes, size, *shape)
    return psum(placed, axis=axis, size=size), 0


def _lanes(level, x, d):
    if d is None:
        return shape_prims.stretched(x, (level.size, *x.shape))
    return to_front(x, d)


all_gather = define(  # (*shape) in every lane -> (size, *shape), the same in every lane
    "all_gather", spec=_gather_spec,
    jvp=_gather_jvp,
    vjp=_gather_vjp,
    batch=_gather_batch,
    sample=_sample_with_lane(lambda size, shift: {}),
)  # fmt: skip


def inverse_sources(sources):
    """Who receives what each lane sends, as sources of the way back."""
    back = [-1] * len(sources)
    for lane, source in enumerate(sources):
        if source >= 0:
            back[source] = lane
    return tuple(back)


def _permute_spec(x, lane, *, axis, size, sources):
    _check_lane("ppermute", lane)
    sent = [s for s in sources if s >= 0]
    if len(sources) != size or len(set(sent)) != len(sent) or any(s >= size for s in sent):
        raise ShapeError(
            f"ppermute: sources {sources} must name, for each of {size} lanes, a lane that sends "
            f"to it (none of them twice), or -1"
        )
    return x


def _permute_jvp(primals, tangents, **p):
    return ppermute(*primals, **p), ppermute(tangents[0], primals[1], **p)


def _permute_vjp(needs, x, lane, *, sources, **p):
    if needs[0] is None:
        return None
    return lambda ct: (ppermute(ct, lane, sources=inverse_sources(sources), **p), None)


def _permute_batch(level, args, dims, *, axis, size, sources):
    x, lane = args
    table = new_tensor(backend(x.device.name).from_numpy(array(sources, int64)))
    if level.number == axis:
        x = _lanes(level, x, dims[0])
        return _received(take(x, _clipped(table), axis=0), table), 0
    if dims[1] is None:
        return ppermute(x, lane, axis=axis, size=size, sources=sources), dims[0]
    return _received(_lanes(level, x, dims[0]), take(table, lane, axis=0)), 0


def _clipped(table):
    return where(less(table, constant_like(0, table)), constant_like(0, table), table)


def _received(rows, table):
    """Zeros where the source is -1; rows (n, *shape), table (n,)."""
    sent = greater_equal(table, constant_like(0, table))
    sent = shape_prims.reshaped(sent, (*sent.shape, *[1] * (rows.ndim - 1)))
    return where(sent, rows, constant_like(0, rows))


ppermute = define(  # lane i receives what lane sources[i] holds, zeros where that is -1
    "ppermute", spec=_permute_spec,
    jvp=_permute_jvp,
    vjp=_permute_vjp,
    batch=_permute_batch,
    sample=_sample_with_lane(
        lambda size, shift: {"sources": tuple([(i + shift) % size for i in range(size)])}
    ),
)  # fmt: skip
