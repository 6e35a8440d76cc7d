"""Cumulative operations along an axis, from its start or in reverse from its end.

Those that multiply are differentiated by a linear recurrence instead of a quotient, so their
derivatives of every order are right where elements are zero.
"""

from __future__ import annotations

import ml_dtypes

import fx.prims.factors as factors
import fx.prims.indexing as indexing
import fx.prims.shape as shape_prims
from fx.dtypes import INEXACT, float64, int64
from fx.errors import DTypeError, ShapeError
from fx.primitive import define
from fx.prims.axes import along_batch, check_axes, check_ordered, check_real_floating
from fx.prims.compare import astype
from fx.prims.creation import constant_like
from fx.prims.elementwise import exp, maximum
from fx.prims.families import same_dtype, to_front
from fx.prims.sampling import Sample


def _spec(name, ordered=False, floating=False):
    def spec(x, *, axis, reverse):
        check_axes(name, x, (axis,))
        if floating:
            check_real_floating(name, x)
        if ordered:
            check_ordered(name, x)
        return (x, x.with_(dtype=int64)) if ordered else x

    return spec


def _sample(values=None):
    def sample(d):
        shape = d.shape(1, low=2)
        x = d.floats(shape) if values is None else values(d, shape)
        return Sample([x], {"axis": d.axis(len(shape)), "reverse": d.flag()})

    return sample


def shift(x, axis, value, reverse=False):
    """x[k - 1] at k with ``value`` first, or x[k + 1] at k with ``value`` last in reverse."""
    at = [i == axis for i in range(x.ndim)]
    n = x.shape[axis]
    low, high = ([0] * x.ndim, [int(a) for a in at])
    start, stop = (1, n + 1) if reverse else (0, n)
    if not reverse:
        low, high = high, low
    padded = shape_prims.pad(
        x, constant_like(value, x), low=tuple(low), high=tuple(high), inside=(0,) * x.ndim
    )
    return shape_prims.slice(
        padded,
        start=tuple([start if a else 0 for a in at]),
        stop=tuple([stop if a else size for a, size in zip(at, x.shape, strict=True)]),
        step=(1,) * x.ndim,
    )


# cumsum -----------------------------------------------------------------------------------------

cumsum = define(
    "cumsum", spec=_spec("cumsum"),
    jvp=lambda primals, tangents, **p: (cumsum(*primals, **p), cumsum(*tangents, **p)),
    vjp=lambda needs, x, *, axis, reverse: lambda ct: (
        cumsum(ct, axis=axis, reverse=not reverse),
    ),
    sharding=factors.lines("_->_", (0,)),
    batch=along_batch(lambda: cumsum),
    sample=_sample(),
)  # fmt: skip


# recurrence -------------------------------------------------------------------------------------


def _recurrence_spec(a, b, *, axis, reverse):
    if same_dtype("recurrence", a, b) not in INEXACT:
        raise DTypeError(f"recurrence takes a floating dtype, got {a.dtype.name}")
    if a.shape != b.shape:
        raise ShapeError(
            f"recurrence: the factors have shape {a.shape}, the terms {b.shape}; they must be "
            f"equal: fx.broadcast_to(a, b.shape)"
        )
    check_axes("recurrence", a, (axis,))
    return b


def _recurrence_jvp(primals, tangents, *, axis, reverse):
    a, b = primals
    ta, tb = tangents
    out = recurrence(a, b, axis=axis, reverse=reverse)
    moved = None if ta is None else ta * shift(out, axis, 0.0, reverse)
    term = tb if moved is None else moved if tb is None else moved + tb
    return out, recurrence(a, term, axis=axis, reverse=reverse)


def _recurrence_vjp(needs, a, b, *, axis, reverse):
    def pullback(ct, out):
        # the transposed recurrence runs the other way with each factor one place earlier
        total = recurrence(shift(a, axis, 0.0, not reverse), ct, axis=axis, reverse=not reverse)
        da = None if needs[0] is None else total * shift(out, axis, 0.0, reverse)
        return da, None if needs[1] is None else total

    return pullback


def _recurrence_batch(level, args, dims, *, axis, reverse):
    a, b = [
        shape_prims.stretched(x, (level.size, *x.shape)) if d is None else to_front(x, d)
        for x, d in zip(args, dims, strict=True)
    ]
    return recurrence(a, b, axis=axis + 1, reverse=reverse), 0


def _recurrence_sample(d):
    shape = d.shape(1, low=3)
    params = {"axis": d.axis(len(shape)), "reverse": d.flag()}
    return Sample([d.floats(shape), d.floats(shape)], params)


recurrence = define(  # out[k] = a[k] * out[k - 1] + b[k]
    "recurrence", spec=_recurrence_spec, saves=(0,),
    jvp=_recurrence_jvp,
    vjp=_recurrence_vjp,
    sharding=factors.lines("_,_->_", (1,)),
    batch=_recurrence_batch,
    sample=_recurrence_sample,
)  # fmt: skip


# cumprod ----------------------------------------------------------------------------------------


def _cumprod_jvp(primals, tangents, *, axis, reverse):
    (x,), (t,) = primals, tangents
    out = cumprod(x, axis=axis, reverse=reverse)
    term = t * shift(out, axis, 1.0, reverse)
    return out, recurrence(x, term, axis=axis, reverse=reverse)


def _cumprod_vjp(needs, x, *, axis, reverse):
    def pullback(ct, out):
        factor = shift(x, axis, 0.0, not reverse)
        total = recurrence(factor, ct, axis=axis, reverse=not reverse)
        return (total * shift(out, axis, 1.0, reverse),)

    return pullback


def with_zeros(d, shape):
    """Floats, some of them zero: the derivative of a product must be right there."""
    return d.floats(shape) * (d.integers(shape, 0, 4) > 0).astype(d.dtype)


cumprod = define(
    "cumprod", spec=_spec("cumprod"), saves=(0,),
    jvp=_cumprod_jvp,
    vjp=_cumprod_vjp,
    sharding=factors.lines("_->_"),
    batch=along_batch(lambda: cumprod),
    sample=_sample(with_zeros),
)  # fmt: skip


def others_product(x, axis):
    """For each element the product of all others along ``axis``, exact where some are zero."""
    before = shift(cumprod(x, axis=axis, reverse=False), axis, 1.0)
    after = shift(cumprod(x, axis=axis, reverse=True), axis, 1.0, reverse=True)
    return before * after


# cummax and cummin ------------------------------------------------------------------------------


def _records_rules(get):
    """jvp and vjp of cummax or cummin: the derivative belongs to the place of the record."""

    def jvp(primals, tangents, *, axis, reverse):
        values, indices = get()(*primals, axis=axis, reverse=reverse)
        return (values, indices), (indexing.take_along_axis(tangents[0], indices, axis=axis), None)

    def vjp(needs, x, *, axis, reverse):
        shape = x._shape

        def pullback(cts, indices):
            into = indexing.zeros(cts[0], shape)
            return (indexing.scatter_along_axis(into, indices, cts[0], axis=axis, mode="add"),)

        return pullback

    return {"jvp": jvp, "vjp": vjp, "saves": (1,), "multiple": True}


cummax = define(
    "cummax", spec=_spec("cummax", ordered=True),
    **_records_rules(lambda: cummax),
    sharding=factors.lines("_->_,_"),
    batch=along_batch(lambda: cummax),
    sample=_sample(lambda d, shape: d.distinct(shape)),
)  # fmt: skip
cummin = define(
    "cummin", spec=_spec("cummin", ordered=True),
    **_records_rules(lambda: cummin),
    sharding=factors.lines("_->_,_"),
    batch=along_batch(lambda: cummin),
    sample=_sample(lambda d, shape: d.distinct(shape)),
)  # fmt: skip


# logcumsumexp -----------------------------------------------------------------------------------


def _fractions(x, out, axis, reverse):
    """exp(out[k - 1] - out[k]) and exp(x[k] - out[k]): both at most 1, and 0 where out is -inf.

    They are float64: products of many factors next to 1 would lose digit by digit in float32.
    """
    x, out = astype(x, dtype=float64), astype(out, dtype=float64)
    # out = -inf is lifted to a finite number, so that -inf - out stays -inf instead of nan
    finite = maximum(out, constant_like(_LOWEST, out))
    before = shift(out, axis, float("-inf"), reverse)
    return exp(before - finite), exp(x - finite)


_LOWEST = float(ml_dtypes.finfo(float64).min)


def _logcumsumexp_jvp(primals, tangents, *, axis, reverse):
    (x,), (t,) = primals, tangents
    out = logcumsumexp(x, axis=axis, reverse=reverse)
    carried, own = _fractions(x, out, axis, reverse)
    tangent = recurrence(carried, astype(t, dtype=float64) * own, axis=axis, reverse=reverse)
    return out, astype(tangent, dtype=t.dtype)


def _logcumsumexp_vjp(needs, x, *, axis, reverse):
    def pullback(ct, out):
        carried, own = _fractions(x, out, axis, reverse)
        factor = shift(carried, axis, 0.0, not reverse)
        wide = astype(ct, dtype=float64)
        found = own * recurrence(factor, wide, axis=axis, reverse=not reverse)
        return (astype(found, dtype=ct._dtype),)

    return pullback


logcumsumexp = define(
    "logcumsumexp", spec=_spec("logcumsumexp", floating=True), saves=(0,),
    jvp=_logcumsumexp_jvp,
    vjp=_logcumsumexp_vjp,
    sharding=factors.lines("_->_"),
    batch=along_batch(lambda: logcumsumexp),
    sample=_sample(),
)  # fmt: skip
