"""Determinants."""

from __future__ import annotations

import ml_dtypes

import fx.prims.compare as compare
import fx.prims.factors as factors
import fx.prims.reduction as reduction
import fx.prims.shape as shape_prims
from fx.dtypes import real_of
from fx.primitive import define
from fx.prims.complex import part
from fx.prims.creation import constant_like
from fx.prims.fused import fuse
from fx.prims.linalg.solve import inv
from fx.prims.linalg.stacks import (
    identity_like,
    in_float32,
    matrices,
    stack_shape,
    stacked,
    well_conditioned,
)
from fx.prims.linear import swap_last
from fx.prims.sampling import Sample


def _lifted(x):
    """Numbers (*B) as matrices (*B, 1, 1)."""
    return shape_prims.reshaped(x, (*x._shape, 1, 1))


def _traced(x, t):
    """The sum of the products of matrices' elements: (*B)."""
    n = x.ndim
    return reduction.sum(x * t, axes=(n - 2, n - 1), keepdims=False)


def _spec(a):
    matrices("det", a)
    return a.with_(shape=a.shape[:-2])


def _cofactors(a):
    """d det(a) / da (*B, n, n): det(a) times the inverse, transposed.

    Where a is singular, of a matrix beside it: the cofactors are finite there, but good to half of
    the digits only.
    """
    if not a._shape[-1]:  # the determinant of nothing is 1
        return a
    _, info = inv(a)
    singular = _lifted(compare.not_equal(info, constant_like(0, info)))
    size = reduction.max(abs(a), axes=(a.ndim - 2, a.ndim - 1), keepdims=True)
    size = size + compare.astype(compare.equal(size, constant_like(0, size)), dtype=size.dtype)
    gap = compare.astype(size, dtype=a.dtype) * float(ml_dtypes.finfo(real_of(a.dtype)).eps) ** 0.5
    beside = a + compare.where(singular, gap, constant_like(0, a)) * identity_like(a)
    return _lifted(det(beside)) * swap_last(inv(beside)[0])


cofactors = fuse("cofactors", reference=_cofactors)
inverse_transposed = fuse("inverse_transposed", reference=lambda a: swap_last(inv(a)[0]))


def _jvp(primals, tangents):
    (a,), (t,) = primals, tangents
    return det(a), _traced(cofactors(a), t)


# a (*B, n, n) -> (*B)
det = define(
    "det", weight=60, spec=_spec, torch_name="LinalgDet",
    jvp=_jvp,
    vjp=lambda needs, a: lambda ct: (_lifted(ct) * cofactors(a),),
    sharding=factors.einsum("...__->..."),
    batch=stacked(lambda: det),
    sample=lambda d: Sample([well_conditioned(d, stack_shape(d), d.integer(1, 4))]),
    formula=in_float32(lambda: det),
)  # fmt: skip


def _log_spec(a):
    matrices("slogdet", a)
    sign = a.with_(shape=a.shape[:-2])
    return sign, sign.with_(dtype=real_of(a.dtype))


def _turned(x, dtype):
    """i x of real x, as complex numbers."""
    return compare.astype(x, dtype=dtype) * 1j


def _log_jvp(primals, tangents):
    (a,), (t,) = primals, tangents
    sign, log = slogdet(a)
    change = _traced(inverse_transposed(a), t)
    if a.dtype.kind != "c":
        return (sign, log), (sign * 0.0, change)
    turn = sign * _turned(part(change, turn=1), a.dtype)
    return (sign, log), (turn, part(change, turn=0))


def _log_vjp(needs, a):
    def pullback(cts):
        of_sign, of_log = cts
        back = compare.astype(of_log, dtype=a.dtype)
        if a.dtype.kind == "c":
            sign, _ = slogdet(a)
            back = back + _turned(part(of_sign * sign, turn=1), a.dtype)
        return (_lifted(back) * inverse_transposed(a),)

    return pullback


# a (*B, n, n) -> the sign (or the direction) of its determinant and the logarithm of its size: (*B)
slogdet = define(
    "slogdet", weight=60, multiple=True, spec=_log_spec, torch_name="LinalgSlogdet",
    jvp=_log_jvp,
    vjp=_log_vjp,
    sharding=factors.einsum("...__->...,..."),
    batch=stacked(lambda: slogdet),
    sample=lambda d: Sample([well_conditioned(d, stack_shape(d), d.integer(1, 4))]),
    formula=in_float32(lambda: slogdet),
)  # fmt: skip
