"""Reductions along axes, and the normalisations that stand on them."""

from __future__ import annotations

import ml_dtypes

import fx.prims.factors as factors
import fx.prims.shape as shape_prims
from fx.dtypes import bool_, float32, int64
from fx.errors import ShapeError
from fx.primitive import NOT_DIFFERENTIABLE, define
from fx.prims.axes import along_batch, check_axes, check_ordered, check_real_floating
from fx.prims.compare import astype, greater, isfinite, isnan, less, where
from fx.prims.creation import constant_like
from fx.prims.cumulative import others_product, with_zeros
from fx.prims.elementwise import exp, log, maximum, reciprocal
from fx.prims.fused import fuse
from fx.prims.sampling import Sample


def reduced_shape(shape, axes, keepdims):
    """The shape after a reduction over ``axes`` (sorted, not negative)."""
    if keepdims:
        return tuple([1 if i in axes else n for i, n in enumerate(shape)])
    return tuple([n for i, n in enumerate(shape) if i not in axes])


def spread_back(ct, shape, axes, keepdims):
    """Broadcast a cotangent of a reduction to the shape that was reduced."""
    if not keepdims and axes and ct._shape:  # a scalar spreads as it is
        ct = shape_prims.reshaped(ct, reduced_shape(shape, axes, True))
    return shape_prims.stretched(ct, shape)


def _reduction_spec(name, dtype=None, empty=True, ordered=False, floating=False):
    """The spec rule of a reduction; ``empty`` tells whether nothing can be reduced."""

    def spec(x, *, axes, keepdims):
        check_axes(name, x, axes)
        if ordered:
            check_ordered(name, x)
        if floating:
            check_real_floating(name, x)
        if not empty:
            _check_not_empty(name, x, axes)
        return x.with_(shape=reduced_shape(x.shape, axes, keepdims), dtype=dtype)

    return spec


def _check_not_empty(name, x, axes):
    if 0 in [x.shape[a] for a in axes]:
        raise ShapeError(
            f"{name}: shape {x.shape} has no element along axes {tuple(axes)}, and {name} of "
            f"nothing is not defined; check x.shape first, or append a value along that axis"
        )


def shifted(axes, dim):
    """``axes`` of one lane as axes of the whole, whose lanes lie along ``dim``."""
    return tuple([a + (a >= dim) for a in axes])


def _reduction_batch(get):
    """The batching rule of a reduction: the lanes stay in their place among the kept axes."""

    def batch(level, args, dims, *, axes, keepdims):
        d = dims[0]
        axes = shifted(axes, d)
        out = get()(args[0], axes=axes, keepdims=keepdims)
        return out, d if keepdims else d - len([a for a in axes if a < d])

    return batch


def _reduction_sample(values=None):
    """Some axes of a small array."""

    def sample(d):
        shape = d.shape()
        x = d.floats(shape) if values is None else values(d, shape)
        return Sample([x], {"axes": d.axes(len(shape)), "keepdims": d.flag()})

    return sample


def _true_reduction_sample(values):
    """At least one axis, and each of at least two elements: where something is lost."""

    def sample(d):
        shape = d.shape(1, low=2)
        axes = d.axes(len(shape)) or (d.axis(len(shape)),)
        return Sample([values(d, shape)], {"axes": axes, "keepdims": d.flag()})

    return sample


# sum and product --------------------------------------------------------------------------------


def _sum_vjp(needs, x, *, axes, keepdims):
    shape = x._shape
    return lambda ct: (spread_back(ct, shape, axes, keepdims),)


sum = define(
    "sum", kind="reduction", spec=_reduction_spec("sum"),
    jvp=lambda primals, tangents, **p: (sum(*primals, **p), sum(*tangents, **p)),
    vjp=_sum_vjp,
    sharding=factors.reduced("sum", (0,)),
    batch=_reduction_batch(lambda: sum),
    sample=_reduction_sample(),
)  # fmt: skip


def _product_of_others(x, axes):
    """For each element the product of all others along ``axes``, exact where some are zero."""
    if len(axes) == 1:
        return others_product(x, axes[0])
    kept = [i for i in range(x.ndim) if i not in axes]
    order = (*kept, *axes)
    moved = shape_prims.transposed(x, order)  # (*kept, *axes)
    lines = shape_prims.reshaped(moved, _lines(moved.shape, len(kept)))  # (*kept, n)
    others = shape_prims.reshaped(others_product(lines, len(kept)), moved.shape)
    return shape_prims.transposed(others, shape_prims.inverse_permutation(order))


def _lines(shape, kept):
    n = 1
    for side in shape[kept:]:
        n *= side
    return (*shape[:kept], n)


def _prod_jvp(primals, tangents, *, axes, keepdims):
    (x,), (t,) = primals, tangents
    out = prod(x, axes=axes, keepdims=keepdims)
    return out, sum(t * _product_of_others(x, axes), axes=axes, keepdims=keepdims)


def _prod_vjp(needs, x, *, axes, keepdims):
    return lambda ct: (spread_back(ct, x._shape, axes, keepdims) * _product_of_others(x, axes),)


prod = define(
    "prod", kind="reduction", spec=_reduction_spec("prod"),
    jvp=_prod_jvp,
    vjp=_prod_vjp,
    sharding=factors.reduced("product"),
    batch=_reduction_batch(lambda: prod),
    sample=_true_reduction_sample(with_zeros),
)  # fmt: skip


# extrema ----------------------------------------------------------------------------------------


def _extremum_rules(get, loses):
    """jvp and vjp of max or min: elements that tie for the extremum share its derivative.

    An element has lost if ``loses(element, extremum)``. Where the extremum is NaN none has, and
    the share of each is NaN.
    """

    def lost_and_count(x, out, axes, keepdims):
        lost = loses(x, spread_back(out, x._shape, axes, keepdims))
        winners = where(lost, constant_like(0, x), constant_like(1, x))
        count = sum(winners, axes=axes, keepdims=keepdims)
        return lost, where(isnan(out), constant_like(float("nan"), count), count)

    def jvp(primals, tangents, *, axes, keepdims):
        (x,), (t,) = primals, tangents
        out = get()(x, axes=axes, keepdims=keepdims)
        lost, count = lost_and_count(x, out, axes, keepdims)
        won = where(lost, constant_like(0, t), t)
        return out, sum(won, axes=axes, keepdims=keepdims) / count

    def vjp(needs, x, *, axes, keepdims):
        def pullback(ct, out):
            lost, count = lost_and_count(x, out, axes, keepdims)
            share = spread_back(ct / count, x._shape, axes, keepdims)
            return (where(lost, constant_like(0, ct), share),)

        return pullback

    return {"jvp": jvp, "vjp": vjp, "saves": (0,)}


max = define(
    "max", kind="reduction", torch_name="Amax",
    spec=_reduction_spec("max", empty=False, ordered=True),
    **_extremum_rules(lambda: max, less),
    sharding=factors.reduced("max"),
    batch=_reduction_batch(lambda: max),
    sample=_true_reduction_sample(lambda d, shape: d.distinct(shape)),
)  # fmt: skip
min = define(
    "min", kind="reduction", torch_name="Amin",
    spec=_reduction_spec("min", empty=False, ordered=True),
    **_extremum_rules(lambda: min, greater),
    sharding=factors.reduced("min"),
    batch=_reduction_batch(lambda: min),
    sample=_true_reduction_sample(lambda d, shape: d.distinct(shape)),
)  # fmt: skip


# truth and places -------------------------------------------------------------------------------

any = define(
    "any", kind="reduction", spec=_reduction_spec("any", dtype=bool_),
    jvp=NOT_DIFFERENTIABLE,
    vjp=NOT_DIFFERENTIABLE,
    sharding=factors.reduced("max"),
    batch=_reduction_batch(lambda: any),
    sample=_reduction_sample(lambda d, shape: d.bools(shape)),
)  # fmt: skip
all = define(
    "all", kind="reduction", spec=_reduction_spec("all", dtype=bool_),
    jvp=NOT_DIFFERENTIABLE,
    vjp=NOT_DIFFERENTIABLE,
    sharding=factors.reduced("min"),
    batch=_reduction_batch(lambda: all),
    sample=_reduction_sample(lambda d, shape: d.bools(shape)),
)  # fmt: skip


def _place_spec(name):
    def spec(x, *, axis, keepdims):
        check_axes(name, x, (axis,))
        check_ordered(name, x)
        _check_not_empty(name, x, (axis,))
        return x.with_(shape=reduced_shape(x.shape, (axis,), keepdims), dtype=int64)

    return spec


def _place_batch(get):
    def batch(level, args, dims, *, axis, keepdims):
        d = dims[0]
        axis += axis >= d
        return get()(args[0], axis=axis, keepdims=keepdims), d - (axis < d and not keepdims)

    return batch


def _place_sample(d):
    shape = d.shape(1)
    return Sample([d.distinct(shape)], {"axis": d.axis(len(shape)), "keepdims": d.flag()})


argmax = define(
    "argmax", kind="reduction", spec=_place_spec("argmax"),
    jvp=NOT_DIFFERENTIABLE,
    vjp=NOT_DIFFERENTIABLE,
    sharding=factors.reduced(""),
    batch=_place_batch(lambda: argmax),
    sample=_place_sample,
)  # fmt: skip
argmin = define(
    "argmin", kind="reduction", spec=_place_spec("argmin"),
    jvp=NOT_DIFFERENTIABLE,
    vjp=NOT_DIFFERENTIABLE,
    sharding=factors.reduced(""),
    batch=_place_batch(lambda: argmin),
    sample=_place_sample,
)  # fmt: skip


# logsumexp and softmax --------------------------------------------------------------------------


def _widened(x):
    """In float32 where its dtype is narrower, as kernels compute."""
    return x if x.dtype.itemsize > 2 else astype(x, dtype=float32)


def _narrowed(x, dtype):
    return x if x.dtype == dtype else astype(x, dtype=dtype)


def _softmax_formula(x, *, axis):
    shifted = _less_top(x, axis)
    if shifted is None:
        return None
    terms = exp(shifted)
    total = sum(terms, axes=(axis,), keepdims=True)  # 1 or more
    return _narrowed(terms * reciprocal(total), x.dtype)


def _log_softmax_formula(x, *, axis):
    shifted = _less_top(x, axis)
    if shifted is None:
        return None
    return _narrowed(shifted - log(sum(exp(shifted), axes=(axis,), keepdims=True)), x.dtype)


def _less_top(x, axis):
    """x less its largest element along an axis; None where there is no element."""
    if not x.shape[axis]:
        return None
    wide = _widened(x)
    return wide - max(wide, axes=(axis,), keepdims=True)


def _logsumexp_formula(x, *, axes, keepdims):
    if 0 in x.shape:
        return None
    wide = _widened(x)
    top = max(wide, axes=axes, keepdims=True)
    top = where(isfinite(top), top, constant_like(0.0, top))
    out = log(sum(exp(wide - top), axes=axes, keepdims=True)) + top
    narrow = _narrowed(out, x.dtype)
    return shape_prims.reshape(narrow, shape=reduced_shape(x.shape, axes, keepdims))


def _weights(x, out, axes, keepdims):
    """exp(x - out), the derivative of logsumexp; 0 where every element is -inf."""
    # out = -inf is lifted to a finite number, so that -inf - out stays -inf instead of nan
    finite = maximum(out, constant_like(float(ml_dtypes.finfo(out.dtype).min), out))
    return exp(x - spread_back(finite, x.shape, axes, keepdims))


def _logsumexp_jvp(primals, tangents, *, axes, keepdims):
    (x,), (t,) = primals, tangents
    out = logsumexp(x, axes=axes, keepdims=keepdims)
    return out, sum(t * _weights(x, out, axes, keepdims), axes=axes, keepdims=keepdims)


def _logsumexp_vjp(needs, x, *, axes, keepdims):
    return lambda ct, out: (
        spread_back(ct, x._shape, axes, keepdims) * _weights(x, out, axes, keepdims),
    )


logsumexp = define(
    "logsumexp", kind="reduction", weight=16, formula=_logsumexp_formula,
    spec=_reduction_spec("logsumexp", floating=True), saves=(0,),
    jvp=_logsumexp_jvp,
    vjp=_logsumexp_vjp,
    sharding=factors.reduced(""),
    batch=_reduction_batch(lambda: logsumexp),
    sample=_true_reduction_sample(lambda d, shape: d.floats(shape)),
)  # fmt: skip


def _softmax_spec(name):
    def spec(x, *, axis):
        check_axes(name, x, (axis,))
        check_real_floating(name, x)
        return x

    return spec


def _softmax_sample(d):
    shape = d.shape(1)
    return Sample([d.floats(shape)], {"axis": d.axis(len(shape))})


def _softmax_derivative(t, y, axis):
    # d softmax = y * (t - <t, y>): symmetric, so this is both the jvp and the vjp
    return y * (t - sum(t * y, axes=(axis,), keepdims=True))


def _log_softmax_derivative(ct, y, axis):
    return ct - exp(y) * sum(ct, axes=(axis,), keepdims=True)


softmax_grad = fuse("softmax_grad", reference=_softmax_derivative)
log_softmax_grad = fuse("log_softmax_grad", reference=_log_softmax_derivative)
softmax = define(
    "softmax", kind="reduction", weight=16, formula=_softmax_formula,
    no_minus_zero=True, spec=_softmax_spec("softmax"), saves=(0,),
    jvp=lambda primals, tangents, *, axis: (
        y := softmax(*primals, axis=axis), _softmax_derivative(tangents[0], y, axis)
    ),
    vjp=lambda needs, x, *, axis: lambda ct, y: (softmax_grad(ct, y, axis=axis),),
    sharding=factors.lines("_->_"),
    batch=along_batch(lambda: softmax),
    sample=_softmax_sample,
)  # fmt: skip
log_softmax = define(
    "log_softmax", kind="reduction", weight=16, formula=_log_softmax_formula,
    spec=_softmax_spec("log_softmax"), saves=(0,),
    jvp=lambda primals, tangents, *, axis: (
        y := log_softmax(*primals, axis=axis),
        tangents[0] - sum(tangents[0] * exp(y), axes=(axis,), keepdims=True),
    ),
    vjp=lambda needs, x, *, axis: lambda ct, y: (log_softmax_grad(ct, y, axis=axis),),
    sharding=factors.lines("_->_"),
    batch=along_batch(lambda: log_softmax),
    sample=_softmax_sample,
)  # fmt: skip
