"""The factorisation of positive definite matrices."""

from __future__ import annotations

import fx.prims.factors as factors
from fx.dtypes import int32
from fx.primitive import define
from fx.prims.fused import fuse
from fx.prims.linalg.stacks import (
    adjoint,
    conjugate,
    in_float32,
    matrices,
    positive_definite,
    stack_shape,
    stacked,
    triangle,
)
from fx.prims.linalg.triangular import triangular_solve
from fx.prims.linear import matmul, swap_last
from fx.prims.sampling import Sample


def _spec(a):
    matrices("cholesky", a)
    return a, a.with_(shape=a.shape[:-2], dtype=int32)


def _solve(factor, x, *, left, transposed=False):
    return triangular_solve(factor, x, left=left, lower=True, transposed=transposed, unit=False)


def _jvp(primals, tangents):
    (a,), (t,) = primals, tangents
    factor, info = cholesky(a)
    half = triangle(t, diagonal=0.5)
    inner = _solve(factor, half + adjoint(half), left=True)  # L^-1 dA
    inner = _solve(conjugate(factor), inner, left=False, transposed=True)  # L^-1 dA L^-H
    return (factor, info), (matmul(factor, triangle(inner, diagonal=0.5)), None)


def _pulled(factor, ct):
    inner = triangle(matmul(swap_last(factor), ct), diagonal=0.5)
    inner = _solve(factor, inner, left=True, transposed=True)
    inner = _solve(conjugate(factor), inner, left=False)
    return triangle(inner + adjoint(inner), diagonal=0.5)


pulled = fuse("cholesky_pulled", reference=_pulled)  # the cotangent of the matrix


def _vjp(needs, a):
    return lambda cts, factor: (pulled(factor, cts[0]),)


# a (*B, n, n) -> L (*B, n, n) with a = L L^H, info (*B): the order of the first leading minor that
# is not positive, or 0. Of a the lower triangle is read, and of its diagonal the real parts.
cholesky = define(
    "cholesky", weight=60, multiple=True, spec=_spec, saves=(0,), torch_name="LinalgCholeskyEx",
    jvp=_jvp,
    vjp=_vjp,
    sharding=factors.einsum("...__->...__,..."),
    batch=stacked(lambda: cholesky),
    sample=lambda d: Sample([positive_definite(d, stack_shape(d), d.integer(1, 4))]),
    formula=in_float32(lambda: cholesky),
)  # fmt: skip
