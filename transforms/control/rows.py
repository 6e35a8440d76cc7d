"""Primitives between a tensor and its rows: ``unstack`` and ``stack``, each other's transpose.

A Python loop over the rows of a tensor takes them all at once, so that going back puts their
cotangents together once instead of adding up a tensor of zeros a row.
"""

from __future__ import annotations

import fx.prims.factors as factors
import fx.prims.shape as shape_prims
from fx.errors import ShapeError
from fx.primitive import define
from fx.prims.axes import check_axes
from fx.prims.creation import zeros_like_spec
from fx.prims.families import same_dtype, to_front
from fx.prims.sampling import Sample
from fx.transforms.batching import lanes_to

# unstack ------------------------------------------------------------------------------------------


def _unstack_spec(x, *, axis):
    check_axes("unstack", x, (axis,))
    return (x.with_(shape=(*x.shape[:axis], *x.shape[axis + 1 :])),) * x.shape[axis]


def _unstack_batch(level, args, dims, *, axis):
    (x,), (d,) = args, dims
    outs = unstack(x, axis=axis + (axis >= d))
    return outs, (d - (axis < d),) * len(outs)


def _unstack_formula(x, *, axis):
    ones = (1,) * x.ndim
    start, stop = [0] * x.ndim, list(x.shape)
    found = []
    for i in range(x.shape[axis]):
        start[axis], stop[axis] = i, i + 1
        at = {"start": tuple(start), "stop": tuple(stop), "step": ones, "drop": (axis,)}
        found.append(shape_prims.slice(x, **at))
    return tuple(found)


unstack = define(  # the slices along an axis
    "unstack", spec=_unstack_spec, multiple=True, torch_name="Unbind",
    kind="move", formula=_unstack_formula, dissolves=True,
    jvp=lambda primals, tangents, *, axis: (
        unstack(*primals, axis=axis), unstack(*tangents, axis=axis)
    ),
    vjp=lambda needs, x, *, axis: lambda cts: (stack(*cts, axis=axis),),
    sharding=factors.unstacked,
    batch=_unstack_batch,
    sample=lambda d: Sample([d.floats(s := d.shape(1))], {"axis": d.axis(len(s))}),
)  # fmt: skip


# stack --------------------------------------------------------------------------------------------


def _stack_spec(*specs, axis):
    first = specs[0]
    same_dtype("stack", *specs)
    if any(s.shape != first.shape for s in specs):
        shapes = ", ".join(dict.fromkeys([str(s.shape) for s in specs]))
        raise ShapeError(f"stack: shapes {shapes} must be equal; reshape them first")
    if not 0 <= axis <= first.ndim:
        raise ShapeError(f"stack: axis {axis} is out of range for tensors of shape {first.shape}")
    return first.with_(shape=(*first.shape[:axis], len(specs), *first.shape[axis:]))


def _stack_jvp(primals, tangents, *, axis):
    filled = [zeros_like_spec(x.spec) if t is None else t for x, t in zip(primals, tangents)]
    return stack(*primals, axis=axis), stack(*filled, axis=axis)


def _stack_vjp(needs, *xs, axis):
    wanted = [n is not None for n in needs]
    return lambda ct: [r if w else None for r, w in zip(unstack(ct, axis=axis), wanted)]


def _stack_batch(level, args, dims, *, axis):
    rows = [
        lanes_to(x, None, 0, level.size) if d is None else to_front(x, d)
        for x, d in zip(args, dims)
    ]
    return stack(*rows, axis=axis + 1), 0


def _stack_sample(d):
    shape = d.shape(0, 2)
    rows = [d.floats(shape) for _ in range(d.integer(1, 3))]
    return Sample(rows, {"axis": d.integer(0, len(shape))})


def _stack_formula(*xs, axis):
    shape = xs[0].shape
    wide = (*shape[:axis], 1, *shape[axis:])
    return shape_prims.concatenate(*[shape_prims.reshape(x, shape=wide) for x in xs], axis=axis)


stack = define(  # tensors of one shape along a new axis
    "stack", spec=_stack_spec, torch_name="Stack",
    kind="move", formula=_stack_formula, dissolves=True,
    jvp=_stack_jvp,
    vjp=_stack_vjp,
    sharding=factors.stacked,
    batch=_stack_batch,
    sample=_stack_sample,
)  # fmt: skip
