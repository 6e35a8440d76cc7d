"""Gathers and scatters along one axis.

Two pairs, in each of which one is the transpose of the other (with ``mode="add"``):

    take(x, i)                 out[a, *j, b] = x[a, i[*j], b]          one index for whole slices
    scatter(x, i, u)           x with u[a, *j, b] put into [a, i[*j], b]
    take_along_axis(x, i)      out[a, j, b] = x[a, i[a, j, b], b]      an index an element
    scatter_along_axis(x, i, u)

Negative indices count from the end; what is out of range raises ``IndexingError``. Scatters apply
updates in the C order of the index: under ``"set"`` the last of equal indices wins, and the others
get no derivative; ``"min"`` and ``"max"`` share the derivative equally among all that tie, the old
element among them.
"""

from __future__ import annotations

from math import prod

import fx.prims.factors as factors
import fx.prims.shape as shape_prims
from fx.dtypes import int64
from fx.errors import IndexingError, ShapeError
from fx.primitive import NOT_DIFFERENTIABLE, define
from fx.prims.axes import check_axes, check_integer, check_ordered
from fx.prims.creation import constant_like, iota
from fx.prims.families import same_dim_batch, same_dtype, to_front
from fx.prims.sampling import Sample
from fx.prims.scatter_rules import AlongRules, SliceRules
from fx.quick import quick

MODES = ("set", "add", "mul", "min", "max")


# indices ----------------------------------------------------------------------------------------


def _wrap_spec(idx, *, size):
    check_integer("wrap_index", "indices", idx)
    return idx.with_(dtype=int64)


wrap_index = define(  # int64 in [0, size): negative ones from the end, others refused
    "wrap_index", partial=True, spec=_wrap_spec,
    jvp=NOT_DIFFERENTIABLE,
    vjp=NOT_DIFFERENTIABLE,
    sharding=factors.elementwise(),
    batch=same_dim_batch(lambda: wrap_index),
    sample=lambda d: Sample(
        [d.integers(d.shape(), -(n := d.integer(1, 5)), n)], {"size": n}
    ),
)  # fmt: skip


def _one_lane_an_index(idx, d, n, level):
    """Batched indices into an axis of n as indices (lanes, ...) into an axis of lanes * n."""
    idx = wrap_index(to_front(idx, d), size=n)
    lane = iota(
        shape=(level.size, *[1] * (idx.ndim - 1)), axis=0, start=0, step=n, dtype=int64,
        device=idx.device.name,
    )  # fmt: skip
    return idx + lane


def _lanes_before(x, d, axis, level):
    """Move lanes (or make some) before ``axis``, counted without them: (*A, lanes, n, *B)."""
    if d is None:
        x = shape_prims.stretched(x, (level.size, *x.shape))
        d = 0
    if d == axis:
        return x
    rest = [i for i in range(x.ndim) if i != d]
    return shape_prims.transposed(x, (*rest[:axis], d, *rest[axis:]))


def _merge(x, axis, count=2):
    """One axis in place of ``count`` axes from ``axis`` on."""
    n = 1
    for side in x.shape[axis : axis + count]:
        n *= side
    return shape_prims.reshaped(x, (*x.shape[:axis], n, *x.shape[axis + count :]))


def _split(x, axis, sides):
    return shape_prims.reshaped(x, (*x.shape[:axis], *sides, *x.shape[axis + 1 :]))


def _lanes_first(level, args, dims):
    return [
        shape_prims.stretched(x, (level.size, *x.shape)) if d is None else to_front(x, d)
        for x, d in zip(args, dims, strict=True)
    ]


def zeros(like, shape):
    """A view of one zero: where cotangents are scattered to."""
    return shape_prims.stretched(constant_like(0, like), shape)


# take -------------------------------------------------------------------------------------------


def _take_spec(x, idx, *, axis):
    check_axes("take", x, (axis,))
    check_integer("take", "indices", idx)
    return x.with_(shape=(*x.shape[:axis], *idx.shape, *x.shape[axis + 1 :]))


def _take_jvp(primals, tangents, *, axis):
    x, idx = primals
    return take(x, idx, axis=axis), take(tangents[0], idx, axis=axis)


def _take_vjp(needs, x, idx, *, axis):
    if needs[0] is None:
        return None
    shape = x._shape
    return lambda ct: (scattered(zeros(ct, shape), idx, ct, axis, "add"), None)


def _take_batch(level, args, dims, *, axis):
    x, idx = args
    dx, di = dims
    if di is None:
        d = dx if dx <= axis else dx - 1 + idx.ndim
        return take(x, idx, axis=axis + (dx <= axis)), d
    if dx is None:
        return take(x, idx, axis=axis), axis + di
    x = _merge(_lanes_before(x, dx, axis, level), axis)  # (*A, lanes * n, *B)
    idx = _one_lane_an_index(idx, di, args[0].shape[axis + (dx <= axis)], level)
    return take(x, idx, axis=axis), axis


def _indices(d, shape, n):
    """Indices into n elements, some of them equal, some negative; none if there is no element."""
    return d.integers(shape, -n, n)


def _take_sample(d):
    shape = d.shape(1, low=2)
    axis = d.axis(len(shape))
    idx = _indices(d, d.shape(0, 2, 0, 4), shape[axis])
    return Sample([d.floats(shape), idx], {"axis": axis})


take = define(
    "take", kind="move", partial=True, spec=_take_spec,
    torch_name="IndexSelect",
    jvp=_take_jvp,
    vjp=_take_vjp,
    sharding=factors.take,
    batch=_take_batch,
    sample=_take_sample,
)  # fmt: skip
taken = quick(take, "axis", tensors=2)


# take_along_axis --------------------------------------------------------------------------------


def _check_along(name, x, idx, axis):
    check_axes(name, x, (axis,))
    check_integer(name, "indices", idx)
    others = [i for i in range(x.ndim) if i != axis]
    if idx.ndim != x.ndim or any(idx.shape[i] != x.shape[i] for i in others):
        raise ShapeError(
            f"{name}: indices of shape {idx.shape} must have the shape of x, {x.shape}, in every "
            f"axis but axis {axis}; broadcast them: fx.broadcast_to(i, shape)"
        )


def _take_along_spec(x, idx, *, axis):
    _check_along("take_along_axis", x, idx, axis)
    return x.with_(shape=idx.shape)


def _take_along_jvp(primals, tangents, *, axis):
    x, idx = primals
    return take_along_axis(x, idx, axis=axis), take_along_axis(tangents[0], idx, axis=axis)


def _take_along_vjp(needs, x, idx, *, axis):
    if needs[0] is None:
        return None
    shape = x._shape
    return lambda ct: (scattered_along(zeros(ct, shape), idx, ct, axis, "add"), None)


def _take_along_batch(level, args, dims, *, axis):
    x, idx = args
    if dims[0] is None:  # the lanes become further indices into one x
        idx = _lanes_before(idx, dims[1], axis, level)  # (*A, lanes, m, *B)
        sides = idx.shape[axis : axis + 2]
        return _split(take_along_axis(x, _merge(idx, axis), axis=axis), axis, sides), axis
    x, idx = _lanes_first(level, args, dims)
    return take_along_axis(x, idx, axis=axis + 1), 0


def _along_sample(d, low):
    """A shape, indices into it and their axis."""
    shape = d.shape(1, low=2)
    axis = d.axis(len(shape))
    at = (*shape[:axis], d.integer(low, 4), *shape[axis + 1 :])
    return shape, _indices(d, at, shape[axis]), axis


def _take_along_sample(d):
    shape, idx, axis = _along_sample(d, low=0)
    return Sample([d.floats(shape), idx], {"axis": axis})


take_along_axis = define(
    "take_along_axis", kind="move", partial=True,

    spec=_take_along_spec, torch_name="Gather",
    jvp=_take_along_jvp,
    vjp=_take_along_vjp,
    sharding=factors.lines("z,J->J", (0,), places="z"),
    batch=_take_along_batch,
    sample=_take_along_sample,
)  # fmt: skip
taken_along = quick(take_along_axis, "axis", tensors=2)


# scatter ----------------------------------------------------------------------------------------


def _check_scatter(name, x, idx, updates, axis, mode, shape):
    same_dtype(name, x, updates)
    if mode not in MODES:
        raise IndexingError(f"{name}: mode must be one of {', '.join(MODES)}, got {mode!r}")
    if mode in ("min", "max"):
        check_ordered(name, x)
    if updates.shape != shape:
        raise ShapeError(
            f"{name}: updates of shape {updates.shape} do not fit: indices of shape {idx.shape} "
            f"along axis {axis} of {x.shape} take updates of shape {shape}; "
            f"broadcast them: fx.broadcast_to(u, {shape})"
        )


def _scatter_spec(x, idx, updates, *, axis, mode):
    shape = _take_spec(x, idx, axis=axis).shape
    _check_scatter("scatter", x, idx, updates, axis, mode, shape)
    return x


def _scatter_batch(level, args, dims, *, axis, mode):
    x, idx, updates = args
    dx, di, du = dims
    if di is None:
        x, updates = _lanes_first(level, (x, updates), (dx, du))
        return scatter(x, idx, updates, axis=axis + 1, mode=mode), 0
    x = _lanes_before(x, dx, axis, level)  # (*A, lanes, n, *B)
    updates = _lanes_before(updates, du, axis, level)  # (*A, lanes, *I, *B)
    sides = x.shape[axis : axis + 2]
    idx = _one_lane_an_index(idx, di, sides[1], level)  # (lanes, *I)
    out = scatter(_merge(x, axis), idx, updates, axis=axis, mode=mode)
    return _split(out, axis, sides), axis


def _apart(d, shape, other):
    """Two arrays with no two equal elements: no ties for min and max."""
    n, m = prod(shape), prod(other)
    both = d.distinct((n + m,), gap=min(0.1, 4 / (n + m + 1)))
    return both[:n].reshape(shape), both[n:].reshape(other)


def _scatter_sample(d):
    shape = d.shape(1, low=2)
    axis = d.axis(len(shape))
    idx = _indices(d, d.shape(0, 2, 2, 4), shape[axis])
    mode = d.choice(MODES if idx.ndim else ("set", "add", "min", "max"))
    if idx.ndim:
        idx[-1] = idx[0]
    x, updates = _apart(d, shape, (*shape[:axis], *idx.shape, *shape[axis + 1 :]))
    return Sample([x, idx, updates], {"axis": axis, "mode": mode})


_slice_rules = SliceRules(lambda: scatter, lambda: take)
scatter = define(
    "scatter", partial=True, kind="move", spec=_scatter_spec,
    torch_name="IndexPut",
    jvp=_slice_rules.jvp,
    vjp=_slice_rules.vjp,
    sharding=factors.scatter,
    batch=_scatter_batch,
    sample=_scatter_sample,
)  # fmt: skip
scattered = quick(scatter, "axis", "mode", tensors=3)


# scatter_along_axis -----------------------------------------------------------------------------


def _scatter_along_spec(x, idx, updates, *, axis, mode):
    _check_along("scatter_along_axis", x, idx, axis)
    _check_scatter("scatter_along_axis", x, idx, updates, axis, mode, idx.shape)
    return x


def _scatter_along_batch(level, args, dims, *, axis, mode):
    return scatter_along_axis(*_lanes_first(level, args, dims), axis=axis + 1, mode=mode), 0


def _scatter_along_sample(d):
    shape, idx, axis = _along_sample(d, low=2)
    lines = idx.swapaxes(0, axis)
    lines[-1] = lines[0]
    x, updates = _apart(d, shape, idx.shape)
    return Sample([x, idx, updates], {"axis": axis, "mode": d.choice(MODES)})


_along_rules = AlongRules(lambda: scatter_along_axis, lambda: take_along_axis)
scatter_along_axis = define(
    "scatter_along_axis", kind="move", partial=True,

    spec=_scatter_along_spec, torch_name="ScatterReduce",
    jvp=_along_rules.jvp,
    vjp=_along_rules.vjp,
    sharding=factors.scatter_along,
    batch=_scatter_along_batch,
    sample=_scatter_along_sample,
)  # fmt: skip
scattered_along = quick(scatter_along_axis, "axis", "mode", tensors=3)
