"""Orders and binary search: integers, without a derivative."""

from __future__ import annotations

import fx.prims.factors as factors
import fx.prims.shape as shape_prims
from fx.dtypes import int64
from fx.errors import ShapeError
from fx.primitive import NOT_DIFFERENTIABLE, define
from fx.prims.axes import along_batch, check_axes, check_ordered
from fx.prims.families import same_dtype, to_front
from fx.prims.sampling import Sample


def _order_spec(name):
    def spec(x, *, axis, descending):
        check_axes(name, x, (axis,))
        check_ordered(name, x)
        return x.with_(dtype=int64)

    return spec


def _order_sample(d):
    shape = d.shape(1)
    params = {"axis": d.axis(len(shape)), "descending": d.flag()}
    return Sample([d.distinct(shape)], params)


argsort = define(  # stable in both directions; NaN counts as larger than every number
    "argsort", weight=60, spec=_order_spec("argsort"),
    jvp=NOT_DIFFERENTIABLE,
    vjp=NOT_DIFFERENTIABLE,
    sharding=factors.lines("_->_"),
    batch=along_batch(lambda: argsort),
    sample=_order_sample,
)  # fmt: skip


def _top_k_spec(x, *, k, axis, largest):
    check_axes("top_k_indices", x, (axis,))
    check_ordered("top_k_indices", x)
    n = x.shape[axis]
    if not 0 <= k <= n:
        raise ShapeError(
            f"top_k_indices: k={k} does not lie in 0..{n}, the size of axis {axis} of {x.shape}; "
            f"write k=min(k, x.shape[{axis}])"
        )
    return x.with_(shape=(*x.shape[:axis], k, *x.shape[axis + 1 :]), dtype=int64)


def _top_k_sample(d):
    shape = d.shape(1)
    axis = d.axis(len(shape))
    params = {"k": d.integer(0, shape[axis]), "axis": axis, "largest": d.flag()}
    return Sample([d.distinct(shape)], params)


top_k_indices = define(  # the places of the k first in the order, best first
    "top_k_indices", weight=60, spec=_top_k_spec,
    jvp=NOT_DIFFERENTIABLE,
    vjp=NOT_DIFFERENTIABLE,
    sharding=factors.lines("_->_"),
    batch=along_batch(lambda: top_k_indices),
    sample=_top_k_sample,
)  # fmt: skip


LOST = ("no", "first", "last")  # which NaN a line that has some gives for every rank


def _ranked_spec(x, ranks, *, axis, lost):
    check_axes("ranked_indices", x, (axis,))
    check_ordered("ranked_indices", x)
    others = [(*s.shape[:axis], 1, *s.shape[axis + 1 :]) for s in (x, ranks)]
    alike = ranks.ndim == x.ndim and others[0] == others[1]
    if ranks.dtype != int64 or not alike or not x.shape[axis]:
        raise ShapeError(
            f"ranked_indices: {ranks!r} are no ranks of {x!r} along axis {axis}; give int64 of its "
            f"shape in all but that axis, where it must have an element"
        )
    if lost not in LOST:
        raise ValueError(f"ranked_indices: lost must be one of {LOST}, got {lost!r}")
    return ranks


def _ranked_batch(level, args, dims, *, axis, lost):
    x, ranks = [
        shape_prims.stretched(a, (level.size, *a.shape)) if d is None else to_front(a, d)
        for a, d in zip(args, dims, strict=True)
    ]
    return ranked_indices(x, ranks, axis=axis + 1, lost=lost), 0


def _ranked_sample(d):
    shape = d.shape(1)
    axis = d.axis(len(shape))
    ranks = d.integers((*shape[:axis], d.integer(1, 3), *shape[axis + 1 :]), 0, shape[axis])
    return Sample([d.distinct(shape), ranks], {"axis": axis, "lost": d.choice(LOST)})


ranked_indices = define(  # the places of the elements that have some ranks in the order
    "ranked_indices", weight=20, spec=_ranked_spec,
    jvp=NOT_DIFFERENTIABLE,
    vjp=NOT_DIFFERENTIABLE,
    sharding=factors.lines("_,J->J"),
    batch=_ranked_batch,
    sample=_ranked_sample,
)  # fmt: skip


def _searchsorted_spec(sequence, values, *, side):
    same_dtype("searchsorted", sequence, values)
    check_ordered("searchsorted", sequence)
    if sequence.ndim == 0 or (sequence.ndim > 1 and sequence.shape[:-1] != values.shape[:-1]):
        raise ShapeError(
            f"searchsorted: a sequence of shape {sequence.shape} does not fit values of shape "
            f"{values.shape}; give a sequence (n,) with any values, or (*rows, n) with (*rows, m)"
        )
    return values.with_(dtype=int64)


def _searchsorted_batch(level, args, dims, *, side):
    sequence, values = args
    if dims[0] is None and sequence.ndim == 1:
        return searchsorted(sequence, values, side=side), dims[1]
    rows, found = [
        shape_prims.stretched(x, (level.size, *x.shape)) if d is None else to_front(x, d)
        for x, d in zip(args, dims, strict=True)
    ]
    shape = found.shape
    if rows.ndim == 2:  # one sequence a lane, values of any shape
        found = shape_prims.reshaped(found, (level.size, found.size // max(level.size, 1)))
    return shape_prims.reshaped(searchsorted(rows, found, side=side), shape), 0


def _searchsorted_sample(d):
    rows = d.shape(0, 2)
    sequence = d.distinct((*rows, d.integer(1, 6)))
    sequence.sort()
    values = d.shape() if not rows else (*rows, d.integer(1, 4))
    return Sample([sequence, d.floats(values)], {"side": d.choice(["left", "right"])})


searchsorted = define(
    "searchsorted", spec=_searchsorted_spec,
    jvp=NOT_DIFFERENTIABLE,
    vjp=NOT_DIFFERENTIABLE,
    sharding=factors.searched,
    batch=_searchsorted_batch,
    sample=_searchsorted_sample,
)  # fmt: skip
