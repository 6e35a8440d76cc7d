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


def _drawn_for(name, key, parameter, shape, dtype, takes):
    out = _drawn(name, key, shape, dtype)
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


def _key_and_parameter_batch(get):
    """The batching rule of what takes a key (*B, 6) and a parameter: lanes come before *B."""

    def batch(level, args, dims, *, shape, **params):
        key, parameter = args
        if dims[0] is None:  # every lane draws the same words
            key = shape_prims.stretched(key, (level.size, *key.shape))
        else:
            key = to_front(key, dims[0])
        if dims[1] is not None:
            parameter = to_front(parameter, dims[1])
            missing = key.ndim - 1 + len(shape) - parameter.ndim
            sides = (level.size, *[1] * missing, *parameter.shape[1:])
            parameter = shape_prims.reshaped(parameter, sides)
        return get()(key, parameter, shape=shape, **params), 0

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


# distributions with a parameter an element ------------------------------------------------------


def _below_spec(key, span, *, planes, shape):
    if span.dtype != uint64:
        raise DTypeError(f"random_below: the span must be uint64, got {span.dtype.name}")
    return _drawn_for("random_below", key, span, shape, uint64, INTEGRAL)


def _below_sample(d):
    shape = d.shape()
    span = d.integers(d.broadcastable(shape), 1, 1000, uint64)
    return Sample([keys(d), span], {"planes": d.choice((2, 4)), "shape": shape})


random_below = define(  # whole numbers in [0, span); a span of 0 stands for 2 ** 64
    "random_below", weight=20, spec=_below_spec,
    jvp=NOT_DIFFERENTIABLE,
    vjp=NOT_DIFFERENTIABLE,
    sharding=factors.drawn,
    batch=_key_and_parameter_batch(lambda: random_below),
    sample=_below_sample,
)  # fmt: skip


def _for_each(key, parameter, shape):
    """A parameter as float64, of one element or of one for each sample; None if it is so."""
    out = (*key.shape[:-1], *shape)
    whole = parameter.shape == out or parameter.size == 1
    if whole and parameter.dtype == float64:
        return None
    wide = astype(parameter, dtype=float64)
    return wide if whole else shape_prims.stretched(wide, out)


def _gamma_formula(key, alpha, *, shape, logarithm):
    given = _for_each(key, alpha, shape)
    if given is None:
        return None
    return astype(random_gamma(key, given, shape=shape, logarithm=logarithm), dtype=alpha.dtype)


def _gamma_spec(key, alpha, *, shape, logarithm):
    return _drawn_for("gamma", key, alpha, shape, alpha.dtype, FLOATING)


def _gamma_sample(d):
    shape = d.shape()
    alpha = d.floats(d.broadcastable(shape), 0.2, 5.0)
    return Sample([keys(d), alpha], {"shape": shape, "logarithm": d.flag()}, fixed=(1,))


random_gamma = define(
    "random_gamma", spec=_gamma_spec, formula=_gamma_formula, dissolves=True,
    jvp=NOT_DIFFERENTIABLE,
    vjp=NOT_DIFFERENTIABLE,
    sharding=factors.drawn,
    batch=_key_and_parameter_batch(lambda: random_gamma),
    sample=_gamma_sample,
)  # fmt: skip


def _poisson_formula(key, rate, *, shape, dtype):
    given = _for_each(key, rate, shape)
    if given is None:
        if dtype == float64:
            return None
        given = rate
    counts = random_poisson(key, given, shape=shape, dtype=float64)
    if dtype.kind in "iu":
        fits = less(counts, constant_like(float(np.iinfo(dtype).max), counts))
        counts = where(fits, counts, constant_like(-1.0, counts))
    return astype(counts, dtype=dtype)


def _poisson_spec(key, rate, *, shape, dtype):
    return _drawn_for("poisson", key, rate, shape, dtype, FLOATING)


def _poisson_sample(d):
    shape = d.shape()
    rate = d.floats(d.broadcastable(shape), 0.0, 30.0)
    params = {"shape": shape, "dtype": d.choice((int64, float32, float64))}
    return Sample([keys(d), rate], params, fixed=(1,))


random_poisson = define(
    "random_poisson", spec=_poisson_spec, formula=_poisson_formula, dissolves=True,
    jvp=NOT_DIFFERENTIABLE,
    vjp=NOT_DIFFERENTIABLE,
    sharding=factors.drawn,
    batch=_key_and_parameter_batch(lambda: random_poisson),
    sample=_poisson_sample,
)  # fmt: skip
