"""Forms of matrices that LAPACK computes and that have no derivative here: of pairs, of blocks."""

from __future__ import annotations

import fx.prims.factors as factors
from fx.dtypes import int64
from fx.errors import BackwardError, ShapeError
from fx.primitive import NOT_DIFFERENTIABLE, define
from fx.prims.families import same_dtype
from fx.prims.linalg.pieces import complex_dtype, real_dtype
from fx.prims.linalg.stacks import (
    adjoint,
    lapack_matrices,
    stack_shape,
    stacked,
    well_conditioned,
)
from fx.prims.linear import matmul
from fx.prims.sampling import Sample

ORDERS = (None, "lhp", "rhp", "iuc", "ouc")


def _refused(name, instead):
    def jvp(*args, **params):
        raise BackwardError(
            f"linalg.{name}: fx has no derivative of it; for a constant write x.detach()"
            f"{f', or take linalg.{instead}, which has one' if instead else ''}"
        )

    return {"jvp": jvp, "vjp": lambda needs, *xs, **params: lambda cts: jvp()}


# Schur's form of a pair --------------------------------------------------------------------------


def _pair_spec(a, b, *, sort):
    for x in (a, b):
        lapack_matrices("qz", x)
    same_dtype("qz", a, b)
    if a.shape != b.shape:
        raise ShapeError(f"linalg.qz: A {a.shape} and B {b.shape} are of one shape")
    values = a.with_(shape=a.shape[:-1])
    return a, a, values.with_(dtype=complex_dtype(a.dtype)), values, a, a


def _pair_sample(d):
    lead, n = stack_shape(d), d.integer(1, 4)
    pair = [well_conditioned(d, lead, n) for _ in range(2)]

    def seen(function):
        def whole(a, b):  # signs and orders are free
            s, t, _, _, q, z = function(a, b)
            right = adjoint(z)
            return matmul(matmul(q, s), right), matmul(matmul(q, t), right)

        return whole

    return Sample(pair, {"sort": d.choice(ORDERS)}, fixed=(0, 1), seen=seen)


# a, b (*B, n, n) -> s and t, triangular but for blocks of two of real matrices, alpha (*B, n) and
# beta (*B, n), of which the eigenvalues are the quotients, and unitary q and z: a = q s z^H and
# b = q t z^H
generalized_schur = define(
    "generalized_schur", weight=90, multiple=True, spec=_pair_spec,
    **_refused("qz", "eig"),
    batch=stacked(lambda: generalized_schur),
    sample=_pair_sample,
    sharding=factors.einsum("...__,...__->...__,...__,..._,..._,...__,...__"),
)  # fmt: skip


# sines and cosines of blocks ---------------------------------------------------------------------


def _cossin_spec(x, *, p, q, swap_sign):
    lapack_matrices("cossin", x)
    m, lead = x.shape[-1], x.shape[:-2]
    if not (0 < p < m and 0 < q < m):
        raise ShapeError(f"linalg.cossin: p and q are between 0 and {m}, got {p} and {q}")
    angles = min(p, q, m - p, m - q)
    return x, x.with_(shape=(*lead, angles), dtype=real_dtype(x.dtype)), x


def _cossin_sample(d):
    import numpy as np

    n = d.integer(2, 5)
    x = np.linalg.qr(well_conditioned(d, stack_shape(d), n).astype("float64"))[0].astype(d.dtype)

    def seen(function):  # signs of the vectors are free
        return lambda x: (function(x)[1],)

    params = {"p": d.integer(1, n - 1), "q": d.integer(1, n - 1), "swap_sign": d.flag()}
    return Sample([x], params, fixed=(0,), seen=seen)


# unitary x (*B, m, m) -> u (*B, m, m), theta (*B, r) and vh (*B, m, m) of its blocks of p rows and
# q columns
cossin = define(
    "cossin", weight=90, multiple=True, spec=_cossin_spec,
    **_refused("cossin", ""),
    batch=stacked(lambda: cossin),
    sample=_cossin_sample,
    sharding=factors.einsum("...__->...__,..._,...__"),
)  # fmt: skip


# balance -----------------------------------------------------------------------------------------


def _balance_spec(x, *, permute, scale):
    lapack_matrices("matrix_balance", x)
    lines = x.with_(shape=x.shape[:-1])
    return lines.with_(dtype=real_dtype(x.dtype)), lines.with_(dtype=int64)


def _balance_sample(d):
    x = well_conditioned(d, stack_shape(d), d.integer(1, 4))
    x[..., 0, :] *= 64.0
    return Sample([x], {"permute": d.flag(), "scale": d.flag()}, fixed=(0,))


# x (*B, n, n) -> powers of two (*B, n) and an order (*B, n), int64, by which rows and columns are
# scaled and exchanged; constant around every matrix
balance = define(
    "balance", weight=60, multiple=True, spec=_balance_spec,
    jvp=NOT_DIFFERENTIABLE,
    vjp=NOT_DIFFERENTIABLE,
    batch=stacked(lambda: balance),
    sample=_balance_sample,
    sharding=factors.einsum("...__->..._,..._"),
)  # fmt: skip
