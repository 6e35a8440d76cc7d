"""Samples drawn with keys: ``key`` (*B, 6) uint32 -> (*B, *shape), without a derivative.

A parameter of a distribution (a span, a shape, a rate) broadcasts to (*B, *shape).
"""

from __future__ import annotations

import numpy as np

import fx.prims.factors as factors
import fx.prims.shape as shape_prims
from fx.dtypes import FLOATING, INTEGRAL, float32, float64, int64, uint64
from fx.errors import DTypeError, ShapeError
from fx.primitive import NOT_DIFFERENTIABLE, define
from fx.prims.compare import astype, less, where
from fx.prims.creation import constant_like
from fx.prims.families import broadcast_shapes, to_front
from fx.prims.random import check_key, keys
from fx.prims.sampling import Sample

FAMILIES = ("uniform", "normal", "exponential", "gumbel", "laplace", "logistic")


def _drawn(name, key, shape, dtype):
    check_key(name, key)
    return key.with_(shape=(*key.shape[:-1], *shape), dtype=dtype)


def _drawn_for(name, key, parameters, shape, dtype, takes=FLOATING):
    out = _drawn(name, key, shape, dtype)
    for parameter in parameters:
        if parameter.dtype not in takes:
            kind = "floating" if takes is FLOATING else "integer"
            raise DTypeError(f"{name}: the parameter must be {kind}, got {parameter.dtype.name}")
        if broadcast_shapes(name, parameter.shape, out.shape) != out.shape:
            raise ShapeError(
                f"{name}: a parameter of shape {parameter.shape} does not broadcast to the shape "
                f"{out.shape} of the result; ask for a shape that holds it"
            )
    return out


def _key_batch(get):
    """The batching rule of what takes a key alone."""

    def batch(level, args, dims, **params):
        return get()(to_front(args[0], dims[0]), **params), 0

    return batch


def _key_and_parameters_batch(get):
    """The batching rule of what takes a key (*B, 6) and parameters: lanes come before *B."""

    def batch(level, args, dims, *, shape, **params):
        key = args[0]
        if dims[0] is None:  # every lane draws the same words
            key = shape_prims.stretched(key, (level.size, *key.shape))
        else:
            key = to_front(key, dims[0])
        parameters = list(args[1:])
        for i, d in enumerate(dims[1:]):
            if d is not None:
                own = to_front(parameters[i], d)
                missing = key.ndim - 1 + len(shape) - own.ndim
                sides = (level.size, *[1] * missing, *own.shape[1:])
                parameters[i] = shape_prims.reshaped(own, sides)
        return get()(key, *parameters, shape=shape, **params), 0

    return batch


# standard distributions -------------------------------------------------------------------------


def _draw_spec(key, *, family, shape, dtype):
    if dtype not in FLOATING:
        raise DTypeError(
            f"{family}: the samples are floating, got dtype {dtype.name}; write dtype=fx.float32"
        )
    return _drawn(family, key, shape, dtype)


random_draw = define(  # the quantile of a standard distribution at uniform words
    "random_draw", weight=20, spec=_draw_spec,
    jvp=NOT_DIFFERENTIABLE,
    vjp=NOT_DIFFERENTIABLE,
    sharding=factors.drawn,
    batch=_key_batch(lambda: random_draw),
    sample=lambda d: Sample(
        [keys(d, d.shape(0, 1))],
        {"family": d.choice(FAMILIES), "shape": d.shape(), "dtype": d.dtype},
    ),
)  # fmt: skip


def _truncated_spec(key, *, lower, upper, shape, dtype):
    return _draw_spec(key, family="truncated_normal", shape=shape, dtype=dtype)


random_truncated_normal = define(
    "random_truncated_normal", spec=_truncated_spec,
    jvp=NOT_DIFFERENTIABLE,
    vjp=NOT_DIFFERENTIABLE,
    sharding=factors.drawn,
    batch=_key_batch(lambda: random_truncated_normal),
    sample=lambda d: Sample(
        [keys(d, d.shape(0, 1))],
        {"lower": -1.0, "upper": 2.0, "shape": d.shape(), "dtype": d.dtype},
    ),
)  # fmt: skip


def _permutation_spec(key, *, shape):
    return _drawn("random_permutation", key, shape, int64)


random_permutation = define(  # independent permutations of range(n) along the last axis
    "random_permutation", weight=60, spec=_permutation_spec,
    jvp=NOT_DIFFERENTIABLE,
    vjp=NOT_DIFFERENTIABLE,
    sharding=factors.drawn,
    batch=_key_batch(lambda: random_permutation),
    sample=lambda d: Sample([keys(d, d.shape(0, 1))], {"shape": d.shape(1)}),
)  # fmt: skip


# distributions with parameters an element --------------------------------------------------------


def _below_spec(key, span, *, planes, shape):
    if span.dtype != uint64:
        raise DTypeError(f"random_below: the span must be uint64, got {span.dtype.name}")
    return _drawn_for("random_below", key, [span], shape, uint64, INTEGRAL)


def _below_sample(d):
    shape = d.shape()
    span = d.integers(d.broadcastable(shape), 1, 1000, uint64)
    return Sample([keys(d), span], {"planes": d.choice((2, 4)), "shape": shape})


random_below = define(  # whole numbers in [0, span); a span of 0 stands for 2 ** 64
    "random_below", weight=20, spec=_below_spec,
    jvp=NOT_DIFFERENTIABLE,
    vjp=NOT_DIFFERENTIABLE,
    sharding=factors.drawn,
    batch=_key_and_parameters_batch(lambda: random_below),
    sample=_below_sample,
)  # fmt: skip


def _for_each(parameters, wholes):
    """Parameters as float64, of one element or of their whole shapes; None if they are so."""
    fits = [p.shape == whole or p.size == 1 for p, whole in zip(parameters, wholes)]
    if all(fits) and all(p.dtype == float64 for p in parameters):
        return None
    return [
        wide if fit else shape_prims.stretched(wide, whole)
        for p, whole, fit in zip(parameters, wholes, fits)
        for wide in (astype(p, dtype=float64),)
    ]


def _gamma_formula(key, alpha, *, shape, logarithm):
    given = _for_each([alpha], [(*key.shape[:-1], *shape)])
    if given is None:
        return None
    return astype(random_gamma(key, *given, shape=shape, logarithm=logarithm), dtype=alpha.dtype)


def _gamma_spec(key, alpha, *, shape, logarithm):
    return _drawn_for("gamma", key, [alpha], shape, alpha.dtype)


def _gamma_sample(d):
    shape = d.shape()
    alpha = d.floats(d.broadcastable(shape), 0.2, 5.0)
    return Sample([keys(d), alpha], {"shape": shape, "logarithm": d.flag()}, fixed=(1,))


random_gamma = define(
    "random_gamma", spec=_gamma_spec, formula=_gamma_formula, dissolves=True,
    jvp=NOT_DIFFERENTIABLE,
    vjp=NOT_DIFFERENTIABLE,
    sharding=factors.drawn,
    batch=_key_and_parameters_batch(lambda: random_gamma),
    sample=_gamma_sample,
)  # fmt: skip


def _counts(get, wholes_of=lambda full: (full,)):
    """The formula of counts: float64 ones of float64 parameters, in the dtype that is wanted."""

    def formula(key, *parameters, shape, dtype):
        given = _for_each(parameters, wholes_of((*key.shape[:-1], *shape)))
        if given is None:
            if dtype == float64:
                return None
            given = parameters
        return counts_in(get()(key, *given, shape=shape, dtype=float64), dtype)

    return formula


def counts_in(counts, dtype):
    """float64 counts in another dtype; an integer one has -1 for NaN, and for what it cannot hold.

    (A count that is its largest number counts as too large, which int64's is in float64.)
    """
    if dtype.kind in "iu":
        fits = less(counts, constant_like(float(np.iinfo(dtype).max), counts))
        counts = where(fits, counts, constant_like(-1.0, counts))
    return astype(counts, dtype=dtype)


def _poisson_spec(key, rate, *, shape, dtype):
    return _drawn_for("poisson", key, [rate], shape, dtype)


def _poisson_sample(d):
    shape = d.shape()
    rate = d.floats(d.broadcastable(shape), 0.0, 30.0)
    params = {"shape": shape, "dtype": d.choice((int64, float32, float64))}
    return Sample([keys(d), rate], params, fixed=(1,))


random_poisson = define(
    "random_poisson", spec=_poisson_spec, formula=_counts(lambda: random_poisson), dissolves=True,
    jvp=NOT_DIFFERENTIABLE,
    vjp=NOT_DIFFERENTIABLE,
    sharding=factors.drawn,
    batch=_key_and_parameters_batch(lambda: random_poisson),
    sample=_poisson_sample,
)  # fmt: skip


def _binomial_spec(key, count, chance, *, shape, dtype):
    return _drawn_for("binomial", key, [count, chance], shape, dtype)


def _binomial_sample(d):
    shape = d.shape()
    count = d.floats(d.broadcastable(shape), 0.0, 60.0)
    chance = d.floats(d.broadcastable(shape), 0.0, 1.0)
    params = {"shape": shape, "dtype": d.choice((int64, float32, float64))}
    return Sample([keys(d), count, chance], params, fixed=(1, 2))


random_binomial = define(
    "random_binomial", spec=_binomial_spec, dissolves=True,
    formula=_counts(lambda: random_binomial, lambda full: (full, full)),
    jvp=NOT_DIFFERENTIABLE,
    vjp=NOT_DIFFERENTIABLE,
    sharding=factors.drawn,
    batch=_key_and_parameters_batch(lambda: random_binomial),
    sample=_binomial_sample,
)  # fmt: skip


def _multinomial_spec(key, count, weights, *, shape, dtype):
    if not shape or (count.ndim and count.shape[-1] != 1):
        raise ShapeError(
            f"multinomial: the classes are the last axis of the result, of which the counts have "
            f"one alone, got shape {shape} and counts {count.shape}"
        )
    return _drawn_for("multinomial", key, [count, weights], shape, dtype)


def _multinomial_sample(d):
    shape = d.shape(1)
    count = d.floats((*d.broadcastable(shape[:-1]), 1), 0.0, 60.0)
    weights = d.floats((*d.broadcastable(shape[:-1]), shape[-1]), 0.1, 1.0)
    params = {"shape": shape, "dtype": d.choice((int64, float32, float64))}
    return Sample([keys(d), count, weights], params, fixed=(1, 2))


random_multinomial = define(  # counts (..., 1) and weights (..., classes) -> (..., classes)
    "random_multinomial", spec=_multinomial_spec, dissolves=True,
    formula=_counts(lambda: random_multinomial, lambda full: ((*full[:-1], 1), full)),
    jvp=NOT_DIFFERENTIABLE,
    vjp=NOT_DIFFERENTIABLE,
    sharding=factors.drawn,
    batch=_key_and_parameters_batch(lambda: random_multinomial),
    sample=_multinomial_sample,
)  # fmt: skip
