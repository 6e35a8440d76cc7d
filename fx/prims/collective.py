"""Collectives: what the lanes of a named ``vmap``, or the ranks of a mesh, tell each other.

``axis`` is the number of the level of a ``vmap``, or the key of an axis of a mesh (a string, which
``fx.backends.cpu.collective.axes`` knows); ``size`` is the number of its lanes or ranks. At the
level of a ``vmap`` the batching rule works across the lanes, and what is then the same for all of
them is not batched any more; at every other level the lanes of that level are carried along. So a
call that reaches the kernel is between ranks, or had an argument that is the same in every lane,
and the kernel computes just that: the sum of ``size`` equal terms.

Derivatives follow JAX's convention, in which the loss is the sum of what every lane computes: the
transpose of psum is psum. A message between ranks is an effect: all of them keep one order.
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
from fx.prims.indexing import take, take_along_axis
from fx.prims.reduction import max, min, sum
from fx.prims.sampling import Sample
from fx.tensor import new_tensor

NO_LEVEL = 1  # levels of transforms are even, so samplers name a level that is never there


MESSAGES = "messages"  # the order of effects that all messages between ranks keep


def _between_ranks(*, axis, **params):
    """One order for all axes and meshes: waits on two of them that cross would never end."""
    return MESSAGES if type(axis) is str else ""


def collective(name, **rules):
    """A primitive that is an effect between ranks."""
    return define(name, effectful=_between_ranks, **rules)


def _sample(values=None):
    def sample(d):
        shape = d.shape()
        x = d.floats(shape) if values is None else values(d, shape)
        return Sample([x], {"axis": NO_LEVEL, "size": d.integer(1, 3)})

    return sample


# psum -------------------------------------------------------------------------------------------
# Several tensors are one message.


def _sum_jvp(primals, tangents, **p):
    moving = [t for t in tangents if t is not None]
    found = iter(psum(*moving, **p))
    return psum(*primals, **p), tuple([None if t is None else next(found) for t in tangents])


def _sum_vjp(needs, *xs, **p):
    def pullback(cts):
        wanted = [n is not None and ct is not None for n, ct in zip(needs, cts)]
        given = [ct for ct, w in zip(cts, wanted) if w]
        found = iter(psum(*given, **p) if given else ())
        return tuple([next(found) if w else None for w in wanted])

    return pullback


def _sum_batch(level, args, dims, *, axis, size):
    if level.number != axis:
        return psum(*args, axis=axis, size=size), dims
    same = iter(())
    if None in dims:
        same = iter(psum(*[x for x, d in zip(args, dims) if d is None], axis=axis, size=size))
    outs = [
        next(same) if d is None else sum(x, axes=(d,), keepdims=False) for x, d in zip(args, dims)
    ]
    return tuple(outs), (None,) * len(args)


def _sum_sample(d):
    xs = [d.floats(d.shape()) for _ in range(d.integer(1, 2))]
    return Sample(xs, {"axis": NO_LEVEL, "size": d.integer(1, 3)})


psum = collective(
    "psum", spec=lambda *xs, axis, size: xs, multiple=True, sparing=True,
    jvp=_sum_jvp,
    vjp=_sum_vjp,
    batch=_sum_batch,
    sample=_sum_sample,
)  # fmt: skip


def _total(x, **p):
    return psum(x, **p)[0]


# pmax and pmin ----------------------------------------------------------------------------------


def _reducing_batch(get, reduce):
    """The batching rule of a reduction over lanes."""

    def batch(level, args, dims, *, axis, size):
        if level.number == axis:
            return reduce(args[0], axes=dims, keepdims=False), None
        return get()(args[0], axis=axis, size=size), dims[0]

    return batch


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
        return out, lost, _total(where(lost, constant_like(0, x), constant_like(1, x)), **p)

    def jvp(primals, tangents, **p):
        t = tangents[0]
        out, lost, count = run(primals[0], p)
        return out, _total(where(lost, constant_like(0, t), t), **p) / count

    def vjp(needs, x, **p):
        # now, so that a mask is kept and not x; a mask has no derivative
        _, lost, count = run(stop_gradient(x), p)
        return lambda ct: (where(lost, constant_like(0, ct), _total(ct, **p) / count),)

    return {"jvp": jvp, "vjp": vjp}


pmax = collective(
    "pmax", spec=_extremum_spec("pmax"),
    **_extremum_rules(lambda: pmax, less),
    batch=_reducing_batch(lambda: pmax, max),
    sample=_sample(),
)  # fmt: skip
pmin = collective(
    "pmin", spec=_extremum_spec("pmin"),
    **_extremum_rules(lambda: pmin, greater),
    batch=_reducing_batch(lambda: pmin, min),
    sample=_sample(),
)  # fmt: skip


# what goes from one to another ------------------------------------------------------------------
# All take the lane's own index, so that their transposes know where they are.


def _sample_with_lane(more, rows=False):
    def sample(d):
        size = d.integer(1, 3)
        lane = d.integers((), 0, size)
        params = {"axis": NO_LEVEL, "size": size, **more(size, d.integer(0, size - 1))}
        return Sample([d.floats((size, *d.shape()) if rows else d.shape()), lane], params)

    return sample


def _gather_spec(x, lane, *, axis, size):
    check_lane("all_gather", lane)
    return x.with_(shape=(size, *x.shape))


def check_rows(name, x, size):
    if not x.ndim or x.shape[0] != size:
        raise ShapeError(f"{name}: axis 0 must have a row for each of {size} lanes, got {x!r}")


def check_lane(name, lane):
    check_integer(name, "the lane", lane)
    if lane.shape != ():
        raise ShapeError(f"{name}: the lane must be a scalar, got shape {lane.shape}")


def _gather_jvp(primals, tangents, **p):
    return all_gather(*primals, **p), all_gather(tangents[0], primals[1], **p)


def _gather_vjp(needs, x, lane, **p):
    if needs[0] is None:
        return None
    return lambda ct: (psum_scatter(ct, lane, **p), None)


def _gather_batch(level, args, dims, *, axis, size):
    x, lane = args
    if level.number == axis:  # lane is 0, 1, 2, ... here
        if dims[0] is None:
            return shape_prims.stretched(x, (size, *x.shape)), None
        return to_front(x, dims[0]), None
    if dims[1] is None:
        return all_gather(x, lane, axis=axis, size=size), dims[0] + 1
    x = _lanes(level, x, dims[0])
    x = shape_prims.reshaped(x, (level.size, 1, *x.shape[1:]))
    return _placed(level, x, lane, axis, size), 0  # (lanes, size, *shape)


def _lanes(level, x, d):
    if d is None:
        return shape_prims.stretched(x, (level.size, *x.shape))
    return to_front(x, d)


all_gather = collective(  # (*shape) in every lane -> (size, *shape), the same in every lane
    "all_gather", spec=_gather_spec,
    jvp=_gather_jvp,
    vjp=_gather_vjp,
    batch=_gather_batch,
    sample=_sample_with_lane(lambda size, shift: {}),
)  # fmt: skip


def _linear_rules(get):
    """The jvp of what is linear in its first argument."""
    return lambda primals, tangents, **p: (
        get()(*primals, **p),
        get()(tangents[0], primals[1], **p),
    )


def _scatter_spec(x, lane, *, axis, size):
    check_lane("psum_scatter", lane)
    check_rows("psum_scatter", x, size)
    return x.with_(shape=x.shape[1:])


def _scatter_vjp(needs, x, lane, **p):
    if needs[0] is None:
        return None
    return lambda ct: (all_gather(ct, lane, **p), None)


def _scatter_batch(level, args, dims, *, axis, size):
    x, lane = args
    if level.number == axis:
        if dims[0] is None:
            return _total(x, axis=axis, size=size), 0
        return sum(x, axes=(dims[0],), keepdims=False), 0
    x = _lanes(level, x, dims[0])
    if dims[1] is None:
        rows = shape_prims.transpose(x, axes=(1, 0, *range(2, x.ndim)))
        return psum_scatter(rows, lane, axis=axis, size=size), 0
    return take_rows(level, _total(x, axis=axis, size=size), lane), 0


def take_rows(level, x, lane):
    """Of x (lanes, size, *S) the row ``lane`` (lanes,) of each, (lanes, *S)."""
    index = shape_prims.reshaped(lane, (level.size, 1, *[1] * (x.ndim - 2)))
    index = shape_prims.stretched(index, (level.size, 1, *x.shape[2:]))
    rows = take_along_axis(x, index, axis=1)
    return shape_prims.reshaped(rows, (level.size, *x.shape[2:]))


psum_scatter = collective(  # (size, *shape) in every lane -> the sum of row i in lane i, (*shape)
    "psum_scatter", spec=_scatter_spec,
    jvp=_linear_rules(lambda: psum_scatter),
    vjp=_scatter_vjp,
    batch=_scatter_batch,
    sample=_sample_with_lane(lambda size, shift: {}, rows=True),
)  # fmt: skip


def _exchange_spec(x, lane, *, axis, size):
    check_lane("all_to_all", lane)
    check_rows("all_to_all", x, size)
    return x


def _exchange_vjp(needs, x, lane, **p):
    if needs[0] is None:
        return None
    return lambda ct: (all_to_all(ct, lane, **p), None)


def _exchange_batch(level, args, dims, *, axis, size):
    x, lane = args
    x = _lanes(level, x, dims[0])
    if level.number == axis:
        return shape_prims.transpose(x, axes=(1, 0, *range(2, x.ndim))), 0
    if dims[1] is None:
        rows = shape_prims.transpose(x, axes=(1, 0, *range(2, x.ndim)))
        return all_to_all(rows, lane, axis=axis, size=size), 1
    return _placed(level, x, lane, axis, size), 0


def _placed(level, x, lane, axis, size):
    """The sum in the row ``lane`` (lanes,) of each, else zeros; x (lanes, 1 or size, *S)."""
    rest = (1,) * (x.ndim - 2)
    lane = shape_prims.reshaped(lane, (level.size, 1, *rest))
    row = iota(shape=(size, *rest), axis=0, start=0, step=1, dtype=lane.dtype, device=x.device.name)
    return _total(where(equal(row, lane), x, constant_like(0, x)), axis=axis, size=size)


all_to_all = collective(  # lane i sends row j to lane j, which gets it as row i
    "all_to_all", spec=_exchange_spec,
    jvp=_linear_rules(lambda: all_to_all),
    vjp=_exchange_vjp,
    batch=_exchange_batch,
    sample=_sample_with_lane(lambda size, shift: {}, rows=True),
)  # fmt: skip


def _broadcast_spec(x, lane, *, axis, size, source):
    check_lane("pbroadcast", lane)
    if not 0 <= source < size:
        raise ShapeError(f"pbroadcast: source {source} is no lane of {size}")
    return x


def _broadcast_vjp(needs, x, lane, *, source, **p):
    if needs[0] is None:
        return None

    def pullback(ct):
        mine = equal(lane, constant_like(source, lane))
        return where(mine, _total(ct, **p), constant_like(0, ct)), None

    return pullback


def _broadcast_batch(level, args, dims, *, axis, size, source):
    x, lane = args
    if level.number == axis:
        if dims[0] is None:
            return x, None
        start, stop = [0] * x.ndim, list(x.shape)
        start[dims[0]], stop[dims[0]] = source, source + 1
        step, drop = (1,) * x.ndim, (dims[0],)
        return shape_prims.slice(
            x, start=tuple(start), stop=tuple(stop), step=step, drop=drop
        ), None
    if dims[1] is None:
        return pbroadcast(x, lane, axis=axis, size=size, source=source), dims[0]
    total = _total(_lanes(level, x, dims[0]), axis=axis, size=size)
    mine = equal(lane, constant_like(source, lane))
    mine = shape_prims.reshaped(mine, (level.size, *[1] * (total.ndim - 1)))
    return where(mine, total, constant_like(0, total)), 0


pbroadcast = collective(  # what lane ``source`` holds
    "pbroadcast", spec=_broadcast_spec,
    jvp=_linear_rules(lambda: pbroadcast),
    vjp=_broadcast_vjp,
    batch=_broadcast_batch,
    sample=_sample_with_lane(lambda size, shift: {"source": shift}),
)  # fmt: skip


def inverse_sources(sources):
    """Who receives what each lane sends, as sources of the way back."""
    back = [-1] * len(sources)
    for lane, source in enumerate(sources):
        if source >= 0:
            back[source] = lane
    return tuple(back)


def _permute_spec(x, lane, *, axis, size, sources):
    check_lane("ppermute", lane)
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


ppermute = collective(  # lane i receives what lane sources[i] holds, zeros where that is -1
    "ppermute", spec=_permute_spec,
    jvp=_permute_jvp,
    vjp=_permute_vjp,
    batch=_permute_batch,
    sample=_sample_with_lane(
        lambda size, shift: {"sources": tuple([(i + shift) % size for i in range(size)])}
    ),
)  # fmt: skip
