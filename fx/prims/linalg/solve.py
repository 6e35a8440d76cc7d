"""Solves with square matrices, and inverses."""

from __future__ import annotations

import fx.prims.factors as factors
import fx.prims.shape as shape_prims
from fx.dtypes import int32
from fx.errors import ShapeError
from fx.primitive import define
from fx.prims.families import same_dtype, to_front
from fx.prims.linalg.stacks import (
    in_float32,
    matrices,
    stack_shape,
    stacked,
    well_conditioned,
)
from fx.prims.linear import matmul, swap_last
from fx.prims.sampling import Sample


def _solve_spec(a, b):
    same_dtype("solve", a, b)
    matrices("solve", a)
    if b.ndim < 2 or a.shape[:-1] != b.shape[:-1]:
        raise ShapeError(
            f"solve: matrices {a.shape} and right sides {b.shape} do not fit; "
            f"expected right sides {(*a.shape[:-1], 'k')}"
        )
    return b, a.with_(shape=a.shape[:-2], dtype=int32)


def _solve_jvp(primals, tangents):
    a, b = primals
    da, db = tangents
    x, info = solve(a, b)
    if da is not None:
        more = -matmul(da, x)
        db = more if db is None else db + more
    return (x, info), (solve(a, db)[0], None)


def _solve_vjp(needs, a, b):
    need_a, need_b = (need is not None for need in needs)

    def pullback(cts, x):
        back, _ = solve(swap_last(a), cts[0])
        return -matmul(back, swap_last(x)) if need_a else None, back if need_b else None

    return pullback


def _solve_batch(level, args, dims):
    a, b = args
    if dims[0] is not None or a.ndim > 2 or b.ndim != 3:
        return stacked(lambda: solve)(level, args, dims)
    b = to_front(b, dims[1])  # (lanes, n, k): the lanes are more columns of one system
    lanes, n, k = b.shape
    b = shape_prims.reshaped(shape_prims.transposed(b, (1, 0, 2)), (n, lanes * k))
    x, info = solve(a, b)
    return (shape_prims.reshaped(x, (n, lanes, k)), info), (1, None)


def _solve_sample(d):
    lead, n = stack_shape(d), d.integer(1, 4)
    return Sample([well_conditioned(d, lead, n), d.floats((*lead, n, d.integer(1, 3)))])


# a (*B, n, n), b (*B, n, k) -> x with a x = b, info (*B): the number of the first pivot that is 0,
# from 1 on, or 0
solve = define(
    "solve", weight=60, multiple=True, spec=_solve_spec, saves=(0,), torch_name="LinalgSolveEx",
    jvp=_solve_jvp,
    vjp=_solve_vjp,
    sharding=factors.einsum("...__,..._N->..._N,...", (1,)),
    batch=_solve_batch,
    sample=_solve_sample,
    formula=in_float32(lambda: solve),
)  # fmt: skip


def _inv_spec(a):
    matrices("inv", a)
    return a, a.with_(shape=a.shape[:-2], dtype=int32)


def _inv_jvp(primals, tangents):
    (a,), (t,) = primals, tangents
    x, info = inv(a)
    return (x, info), (-matmul(matmul(x, t), x), None)


def _inv_vjp(needs, a):
    def pullback(cts, x):
        back = swap_last(x)
        return (-matmul(matmul(back, cts[0]), back),)

    return pullback


inv = define(  # a (*B, n, n) -> its inverse, info (*B) as of solve
    "inv", weight=60, multiple=True, spec=_inv_spec, saves=(0,), torch_name="LinalgInvEx",
    jvp=_inv_jvp,
    vjp=_inv_vjp,
    sharding=factors.einsum("...__->...__,..."),
    batch=stacked(lambda: inv),
    sample=lambda d: Sample([well_conditioned(d, stack_shape(d), d.integer(1, 4))]),
    formula=in_float32(lambda: inv),
)  # fmt: skip
