"""Solves with square matrices, and inverses."""

from __future__ import annotations

import fx.prims.factors as factors
from fx.dtypes import int32
from fx.errors import ShapeError
from fx.primitive import define
from fx.prims.families import same_dtype
from fx.prims.linalg.lu import lu, lu_solve
from fx.prims.linalg.stacks import (
    as_columns,
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
        return _minus_outer(back, x) if need_a else None, back if need_b else None

    return pullback


def _minus_outer(back, x):
    return matmul(-back, swap_last(x))


def _solve_forward(needs, a, b):
    """With the factors kept, so that the pullback does not find them again."""
    need_a, need_b = (need is not None for need in needs)
    kept, _, order, info = lu(a)
    x = lu_solve(kept, order, b, transposed=False)

    def pullback(cts, x):
        back = lu_solve(kept, order, cts[0], transposed=True)
        return _minus_outer(back, x) if need_a else None, back if need_b else None

    return (x, info), pullback


def _solve_batch(level, args, dims):
    a, b = args
    if dims[0] is not None or a.ndim > 2 or b.ndim != 3:
        return stacked(lambda: solve)(level, args, dims)
    found = []

    def columns(b):
        x, info = solve(a, b)
        found.append(info)
        return x

    x, dim = as_columns(columns, b, dims[1])
    return (x, *found), (dim, None)


def _solve_sample(d):
    lead, n = stack_shape(d), d.integer(1, 4)
    return Sample([well_conditioned(d, lead, n), d.floats((*lead, n, d.integer(1, 3)))])


# a (*B, n, n), b (*B, n, k) -> x with a x = b, info (*B): the number of the first pivot that is 0,
# from 1 on, or 0
solve = define(
    "solve", weight=60, multiple=True, spec=_solve_spec, saves=(0,), torch_name="LinalgSolveEx",
    jvp=_solve_jvp,
    vjp=_solve_vjp,
    forward=_solve_forward,
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
