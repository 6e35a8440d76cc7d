"""Shape: reshape, transpose, broadcast, slice, pad, concatenate, flip."""

from __future__ import annotations

from math import prod

from numpy import concatenate as np_concatenate
from numpy import ndarray

import fx.prims.factors as factors
import fx.prims.families as families
from fx import limits
from fx.errors import AxisError, ShapeError
from fx.primitive import define, registry
from fx.prims.axes import check_axes
from fx.prims.creation import constant_like
from fx.prims.sampling import Sample
from fx.quick import quick, quick_joint, quick_view


def _linear(prim, transpose):
    """jvp and vjp of a linear function of one argument, by its transpose."""

    def vjp(needs, x, **params):
        shape = x._shape
        return lambda ct: (transpose(ct, shape, **params),)

    return {"jvp": _linear_jvp(prim), "vjp": vjp}


def _linear_jvp(prim):
    def jvp(primals, tangents, **params):
        return prim()(*primals, **params), prim()(*tangents, **params)

    return jvp


# reshape ----------------------------------------------------------------------------------------


def _reshape_spec(x, *, shape):
    if prod(shape) != x.size or any(n < 0 for n in shape):
        raise ShapeError(
            f"reshape: {x.shape} has {x.size} elements and does not fit into {tuple(shape)}, "
            f"which has {prod(shape)}; write -1 for one size to have it worked out"
        )
    return x.with_(shape=shape)


def _reshape_batch(level, args, dims, *, shape):
    return reshape(families.to_front(args[0], dims[0]), shape=(level.size, *shape)), 0


def _reshape_vjp(needs, x, *, shape):
    own = x._shape
    return lambda ct: (reshaped(ct, own),)


reshape = define(
    "reshape", kind="view", spec=_reshape_spec, torch_name="View",
    jvp=_linear_jvp(lambda: reshape),
    vjp=_reshape_vjp,
    sharding=factors.reshaped,
    batch=_reshape_batch,
    sample=lambda d: Sample(
        [d.floats((a := d.integer(1, 3), b := d.integer(1, 4)))], {"shape": (b, 1, a)}
    ),
)  # fmt: skip
reshaped = quick_view(reshape, "shape", ndarray.reshape)


# transpose --------------------------------------------------------------------------------------


def _transpose_spec(x, *, axes):
    if sorted(axes) != list(range(x.ndim)):
        raise AxisError(
            f"transpose: axes {tuple(axes)} are not a permutation of the {x.ndim} axes of {x.shape}"
        )
    return x.with_(shape=tuple(x.shape[i] for i in axes))


def inverse_permutation(axes):
    """The permutation that undoes ``axes``."""
    inverse = [0] * len(axes)
    for i, a in enumerate(axes):
        inverse[a] = i
    return tuple(inverse)


def _transpose_batch(level, args, dims, *, axes):
    (d,) = dims
    shifted = tuple(a + (a >= d) for a in axes)
    return transpose(args[0], axes=(d, *shifted)), 0


def _transpose_vjp(needs, x, *, axes):
    return lambda ct: (transposed(ct, inverse_permutation(axes)),)


transpose = define(
    "transpose", kind="strided", spec=_transpose_spec, torch_name="Permute",
    jvp=_linear_jvp(lambda: transpose),
    vjp=_transpose_vjp,
    sharding=factors.transposed,
    batch=_transpose_batch,
    sample=lambda d: Sample(
        [d.floats(s := d.shape())], {"axes": tuple(map(int, d.permutation(len(s))))}
    ),
)  # fmt: skip
transposed = quick_view(transpose, "axes", ndarray.transpose)


# broadcast_to and its transpose sum_to ----------------------------------------------------------


def _broadcast_spec(x, *, shape):
    if families.broadcast_shapes("broadcast_to", x.shape, shape) != tuple(shape):
        raise ShapeError(f"broadcast_to: {x.shape} does not broadcast to {tuple(shape)}")
    return x.with_(shape=shape)


def _broadcast_batch(level, args, dims, *, shape):
    x = families.to_front(args[0], dims[0])
    missing = len(shape) + 1 - x.ndim
    if missing:
        x = reshape(x, shape=(level.size, *[1] * missing, *x.shape[1:]))
    return broadcast_to(x, shape=(level.size, *shape)), 0


def _broadcast_vjp(needs, x, *, shape):
    own = x._shape
    return lambda ct: (sum_to(ct, shape=own),)


broadcast_to = define(
    "broadcast_to", kind="view", spec=_broadcast_spec, torch_name="Expand",
    jvp=_linear_jvp(lambda: broadcast_to),
    vjp=_broadcast_vjp,
    sharding=factors.broadcast,
    batch=_broadcast_batch,
    sample=lambda d: Sample([d.floats(d.broadcastable(s := d.shape()))], {"shape": s}),
)  # fmt: skip
stretched = quick_view(broadcast_to, "shape", broadcast_to.cpu)


def _sum_to_spec(x, *, shape):
    if families.broadcast_shapes("sum_to", x.shape, shape) != x.shape:
        raise ShapeError(f"sum_to: {tuple(shape)} does not broadcast to {x.shape}")
    return x.with_(shape=shape)


def _sum_to_batch(level, args, dims, *, shape):
    x = families.to_front(args[0], dims[0])
    ones = (1,) * (x.ndim - 1 - len(shape))
    return reshape(sum_to(x, shape=(level.size, *ones, *shape)), shape=(level.size, *shape)), 0


def _sum_to_formula(x, *, shape):
    lead = x.ndim - len(shape)
    ones = [i for i, n in enumerate(shape, lead) if n == 1 and x.shape[i] != 1]
    out = registry["sum"](x, axes=(*range(lead), *ones), keepdims=False)
    return out if out.shape == shape else reshape(out, shape=shape)


sum_to = define(
    "sum_to", kind="reduction", formula=_sum_to_formula, dissolves=True,
    spec=_sum_to_spec, torch_name="SumToSize",
    **_linear(lambda: sum_to, lambda ct, x_shape, *, shape: broadcast_to(ct, shape=x_shape)),
    sharding=factors.summed_to,
    batch=_sum_to_batch,
    sample=lambda d: Sample([d.floats(s := d.shape())], {"shape": d.broadcastable(s)}),
)  # fmt: skip


# slice and its transpose pad --------------------------------------------------------------------


def _sliced_shape(start, stop, step):
    return tuple([-(-(b - a) // s) for a, b, s in zip(start, stop, step, strict=True)])


def _slice_spec(x, *, start, stop, step, drop=()):
    if not len(start) == len(stop) == len(step) == x.ndim:
        raise ShapeError(f"slice: {x.shape} needs {x.ndim} starts, stops and steps")
    for i, (a, b, s, n) in enumerate(zip(start, stop, step, x.shape, strict=True)):
        if not 0 <= a <= b <= n or s < 1:
            raise ShapeError(f"slice: {a}:{b}:{s} does not fit axis {i} of {x.shape}")
    shape = _sliced_shape(start, stop, step)
    if any(shape[a] != 1 for a in drop):
        raise ShapeError(f"slice: the axes {drop} of {shape} are not all of size 1")
    return x.with_(shape=tuple([n for i, n in enumerate(shape) if i not in drop]))


def slice_transpose(ct, x_shape, *, start, stop, step, drop=()):
    """What was sliced from ``x_shape`` in its place among zeros."""
    sliced = _sliced_shape(start, stop, step)
    if drop:
        ct = reshape(ct, shape=sliced)
    high, inside = [], []
    for n, a, s, m in zip(x_shape, start, step, sliced, strict=True):
        high.append(n - a - (0 if m == 0 else (m - 1) * s + 1))
        inside.append(s - 1)
    return pad(ct, constant_like(0, ct), low=start, high=tuple(high), inside=tuple(inside))


def _slice_batch(level, args, dims, *, start, stop, step, drop=()):
    d, n = dims[0], level.size
    put = lambda t, v: (*t[:d], v, *t[d:])
    shifted = tuple([a + (a >= d) for a in drop])
    out = slice(args[0], start=put(start, 0), stop=put(stop, n), step=put(step, 1), drop=shifted)
    return out, d - len([a for a in drop if a < d])


def _slice_sample(d):
    shape = d.shape(1)
    start = tuple(d.integer(0, n) for n in shape)
    stop = tuple(d.integer(a, n) for a, n in zip(start, shape, strict=True))
    step = tuple(d.integer(1, 3) for _ in shape)
    ones = [i for i, n in enumerate(_sliced_shape(start, stop, step)) if n == 1]
    drop = tuple(i for i in ones if d.flag())
    return Sample([d.floats(shape)], {"start": start, "stop": stop, "step": step, "drop": drop})


slice = define(  # a range an axis; the axes ``drop``, of size 1, are left out
    "slice", kind="strided", spec=_slice_spec,
    **_linear(lambda: slice, slice_transpose),
    sharding=factors.sliced,
    batch=_slice_batch,
    sample=_slice_sample,
)  # fmt: skip


def _pad_spec(x, value, *, low, high, inside):
    families.same_dtype("pad", x, value)
    if value.shape != ():
        raise ShapeError(f"pad: the value must be a scalar, got shape {value.shape}")
    if not len(low) == len(high) == len(inside) == x.ndim:
        raise ShapeError(f"pad: {x.shape} needs {x.ndim} low, high and inside widths")
    if min((*low, *high, *inside), default=0) < 0:
        raise ShapeError(f"pad: widths must not be negative, got {low}, {high}, {inside}")
    shape = [
        n + a + b + max(n - 1, 0) * i for n, a, b, i in zip(x.shape, low, high, inside, strict=True)
    ]
    return x.with_(shape=tuple(shape))


def _unpad(ct, shape, low, inside):
    """The part of a padded tensor that came from the tensor itself."""
    step = tuple(i + 1 for i in inside)
    stop = tuple(
        a if n == 0 else a + (n - 1) * s + 1 for a, n, s in zip(low, shape, step, strict=True)
    )
    return slice(ct, start=tuple(low), stop=stop, step=step)


def _pad_jvp(primals, tangents, **widths):
    x, value = primals
    t = constant_like(0, x) if tangents[1] is None else tangents[1]
    tx = families.broadcast_zero(x) if tangents[0] is None else tangents[0]
    return pad(x, value, **widths), pad(tx, t, **widths)


def _pad_vjp(needs, x, value, *, low, high, inside):
    shape = x._shape

    def pullback(ct):
        own = _unpad(ct, shape, low, inside)
        rest = None
        if needs[1] is not None:
            rest = sum_to(ct, shape=()) - sum_to(own, shape=())
        return (own if needs[0] is not None else None, rest)

    return pullback


def _pad_batch(level, args, dims, *, low, high, inside):
    x, value = args
    if dims[1] is None:
        d = dims[0]
        put = lambda t: (*t[:d], 0, *t[d:])
        return pad(x, value, low=put(low), high=put(high), inside=put(inside)), d
    # a value a lane: pad with zeros, and add the values where the mask of what is padded is 1
    rank = len(low)
    if dims[0] is None:
        x = broadcast_to(x, shape=(level.size, *x.shape))
    else:
        x = families.to_front(x, dims[0])
    zero, one = constant_like(0, x), constant_like(1, x)
    widths = {"low": (0, *low), "high": (0, *high), "inside": (0, *inside)}
    padded = pad(x, zero, **widths)
    own = pad(families.broadcast_zero(x), one, **widths)
    return padded + own * reshape(value, shape=(level.size, *[1] * rank)), 0


pad = define(
    "pad", kind="move", spec=_pad_spec, torch_name="ConstantPadNd",
    jvp=_pad_jvp,
    vjp=_pad_vjp,
    sharding=factors.padded,
    batch=_pad_batch,
    sample=lambda d: Sample(
        [d.floats(s := d.shape()), d.floats()],
        {k: tuple(d.integer(0, 2) for _ in s) for k in ("low", "high", "inside")},
    ),
)  # fmt: skip
padded = quick(pad, "low", "high", "inside", tensors=2)


# concatenate ------------------------------------------------------------------------------------


def _concatenate_spec(*specs, axis):
    first = specs[0]
    families.same_dtype("concatenate", *specs)
    check_axes("concatenate", first, (axis,))
    for s in specs:
        rest = [n for i, n in enumerate(s.shape) if i != axis]
        if s.ndim != first.ndim or rest != [n for i, n in enumerate(first.shape) if i != axis]:
            raise ShapeError(
                f"concatenate along axis {axis}: shapes {', '.join(str(s.shape) for s in specs)} "
                f"must agree on every other axis"
            )
    shape = list(first.shape)
    shape[axis] = sum(s.shape[axis] for s in specs)
    return first.with_(shape=tuple(shape))


def _concatenate_jvp(primals, tangents, *, axis):
    filled = [
        families.broadcast_zero(x) if t is None else t
        for x, t in zip(primals, tangents, strict=True)
    ]
    return concatenate(*primals, axis=axis), concatenate(*filled, axis=axis)


def _concatenate_vjp(needs, *xs, axis):
    sizes = [x._shape[axis] for x in xs]

    def pullback(ct):
        out, at = [], 0
        for n, need in zip(sizes, needs):
            out.append(None if need is None else _along(ct, axis, at, at + n))
            at += n
        return out

    return pullback


def _along(x, axis, start, stop):
    shape = x._shape
    rest = len(shape) - axis - 1
    starts = (*(0,) * axis, start, *(0,) * rest)
    stops = (*shape[:axis], stop, *shape[axis + 1 :])
    return slice(x, start=starts, stop=stops, step=(1,) * len(shape))


def _concatenate_batch(level, args, dims, *, axis):
    lanes = [
        broadcast_to(x, shape=(level.size, *x.shape)) if d is None else families.to_front(x, d)
        for x, d in zip(args, dims, strict=True)
    ]
    return concatenate(*lanes, axis=axis + 1), 0


def _concatenate_sample(d):
    shape = d.shape(1)
    axis = d.axis(len(shape))
    sides = [d.integer(0, 3) for _ in range(d.integer(1, 3))]
    return Sample(
        [d.floats(tuple(k if i == axis else n for i, n in enumerate(shape))) for k in sides],
        {"axis": axis},
    )


concatenate = define(
    "concatenate", kind="move", spec=_concatenate_spec, torch_name="Cat",
    jvp=_concatenate_jvp,
    vjp=_concatenate_vjp,
    sharding=factors.joined,
    batch=_concatenate_batch,
    sample=_concatenate_sample,
)  # fmt: skip


def _joined_arrays(arrays, axis):
    if axis and arrays[0].size >= limits.RUNS_FROM:
        return concatenate.cpu(*arrays, axis=axis)
    return np_concatenate(arrays, axis)


joined = quick_joint(concatenate, "axis", _joined_arrays)


# flip -------------------------------------------------------------------------------------------


def _flip_spec(x, *, axes):
    check_axes("flip", x, axes)
    return x


flip = define(
    "flip", kind="strided", spec=_flip_spec,
    **_linear(lambda: flip, lambda ct, _, *, axes: flip(ct, axes=axes)),
    sharding=factors.lines("_->_", (0,)),
    batch=lambda level, args, dims, *, axes: (
        flip(args[0], axes=tuple(a + (a >= dims[0]) for a in axes)), dims[0]
    ),
    sample=lambda d: Sample([d.floats(s := d.shape())], {"axes": d.axes(len(s))}),
)  # fmt: skip
flipped = quick(flip, "axes")
