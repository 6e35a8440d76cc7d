"""The factorisation of matrices into triangles, with exchanges of rows."""

from __future__ import annotations

import numpy as np

import fx.prims.factors as factors
import fx.prims.shape as shape_prims
from fx.dtypes import int32, int64
from fx.errors import ShapeError
from fx.primitive import NOT_DIFFERENTIABLE, define
from fx.prims.creation import constant_like
from fx.prims.families import same_dtype
from fx.prims.indexing import take_along_axis
from fx.prims.linalg.stacks import (
    as_columns,
    identity_like,
    in_float32,
    matrices,
    stack_shape,
    stacked,
    triangle,
    well_conditioned,
)
from fx.prims.linalg.triangular import triangular_solve
from fx.prims.linear import matmul, swap_last
from fx.prims.sampling import Sample
from fx.prims.sorting import argsort


def _spec(a):
    matrices("lu", a, square=False)
    *lead, m, n = a.shape
    lead = tuple(lead)
    return (
        a,
        a.with_(shape=(*lead, min(m, n)), dtype=int32),
        a.with_(shape=(*lead, m), dtype=int64),
        a.with_(shape=lead, dtype=int32),
    )


def rows(x, order):
    """The rows of matrices x (*B, m, n) in an order (*B, m)."""
    places = shape_prims.reshaped(order, (*order._shape, 1))
    places = shape_prims.stretched(places, x._shape)
    return take_along_axis(x, places, axis=x.ndim - 2)


def back_in_place(x, order):
    """The rows of matrices, which stand in an order, as they were."""
    return rows(x, argsort(order, axis=order.ndim - 1, descending=False))


def squares(factors):
    """Of factors (*B, m, n) the square matrices (*B, m, m) and (*B, n, n) that hold L and U.

    L's other columns and U's other rows are those of the identity; L's diagonal is not written.
    """
    m, n = factors.shape[-2:]
    k = min(m, n)
    low = resized(resized(factors, m, k), m, m)
    high = resized(resized(factors, k, n), n, n)
    return low, high if k == n else high + identity_like(high, start=k)


def resized(x, m, n):
    """Matrices (*B, m, n): cut off, or with zeros behind."""
    *lead, rows_of, columns = x.shape
    zeros, ones = (0,) * x.ndim, (1,) * x.ndim
    if m < rows_of or n < columns:
        stop = (*lead, min(m, rows_of), min(n, columns))
        x = shape_prims.slice(x, start=zeros, stop=stop, step=ones)
    more = (m - x.shape[-2], n - x.shape[-1])
    if any(more):
        high = (*zeros[:-2], *more)
        x = shape_prims.pad(x, constant_like(0, x), low=zeros, high=high, inside=zeros)
    return x


def _jvp(primals, tangents):
    (a,), (t,) = primals, tangents
    factors, pivots, order, info = lu(a)
    low, high = squares(factors)
    inner = _solve(low, rows(t, order), left=True)  # L^-1 P dA
    inner = _solve(high, inner, left=False)  # L^-1 P dA U^-1
    below = triangle(inner, diagonal=0.0)
    change = below + matmul(triangle(low, diagonal=0.0), below)
    change = change + matmul(triangle(inner, lower=False), triangle(high, lower=False))
    return (factors, pivots, order, info), (change, None, None, None)


def _solve(square, x, *, left, transposed=False):
    """With L from the left, or with U from the right."""
    return triangular_solve(square, x, left=left, lower=left, transposed=transposed, unit=left)


def _vjp(needs, a):
    def pullback(cts, factors, order):
        low, high = squares(factors)
        ct = cts[0]
        below = ct + matmul(swap_last(triangle(low, diagonal=0.0)), ct)
        above = matmul(ct, swap_last(triangle(high, lower=False)))
        inner = triangle(below, diagonal=0.0) + triangle(above, lower=False)
        inner = _solve(high, inner, left=False, transposed=True)
        inner = _solve(low, inner, left=True, transposed=True)
        return (back_in_place(inner, order),)

    return pullback


def _sample(d):
    lead, m, n = stack_shape(d), d.integer(1, 4), d.integer(1, 4)
    full = well_conditioned(d, lead, max(m, n))
    return Sample([full[..., :m, :n]])


# a (*B, m, n) -> L below and U on and above the diagonal (*B, m, n); pivots (*B, k), int32, with
# row i exchanged for row pivots[i], one after the other; the order of a's rows (*B, m), int64, in
# which they are those of L U; info (*B): the number of the first 0 on U's diagonal, or 0
lu = define(
    "lu", weight=60, multiple=True, spec=_spec, saves=(0, 2), torch_name="LinalgLuFactorEx",
    jvp=_jvp,
    vjp=_vjp,
    sharding=factors.einsum("...__->...__,..._,..._,..."),
    batch=stacked(lambda: lu),
    sample=_sample,
    formula=in_float32(lambda: lu),
)  # fmt: skip


# solves by the factors -------------------------------------------------------------------------


def _lu_solve_spec(a, order, b, *, transposed):
    same_dtype("lu_solve", a, b)
    matrices("lu_solve", a)
    if b.ndim < 2 or a.shape[:-1] != b.shape[:-1]:
        raise ShapeError(
            f"lu_solve: factors {a.shape} and right sides {b.shape} do not fit; "
            f"expected right sides {(*a.shape[:-1], 'k')}"
        )
    if order.shape != a.shape[:-1] or order.dtype != int64:
        raise ShapeError(
            f"lu_solve: {order!r} are no orders of the rows of {a.shape}; give int64 {a.shape[:-1]}"
        )
    return b


def _by_low(a, x):
    """L' x."""
    return x + matmul(swap_last(triangle(a, diagonal=0.0)), x)


def _by_high(a, x):
    """U x."""
    return matmul(triangle(a, lower=False), x)


def _lu_solve_jvp(primals, tangents, *, transposed):
    a, order, b = primals
    da, _, db = tangents
    x = lu_solve(a, order, b, transposed=transposed)
    if da is not None:
        low, high = triangle(da, diagonal=0.0), triangle(da, lower=False)
        if transposed:  # U' z = b, L' w = z, and of w the rows are those of x in the order
            w = rows(x, order)
            more = matmul(swap_last(high), _by_low(a, w))
            more = more + matmul(swap_last(triangle(a, lower=False)), matmul(swap_last(low), w))
        else:  # L z = P b, U x = z
            more = matmul(high, x)
            more = more + matmul(triangle(a, diagonal=0.0), more) + matmul(low, _by_high(a, x))
            more = back_in_place(more, order)
        db = -more if db is None else db - more
    return x, lu_solve(a, order, db, transposed=transposed)


def _lu_solve_vjp(needs, a, order, b, *, transposed):
    need_a, _, need_b = (need is not None for need in needs)

    def pullback(ct, x):
        back = lu_solve(a, order, ct, transposed=not transposed)
        da = None
        if need_a:
            if transposed:
                w = rows(x, order)
                low, high = matmul(w, swap_last(_by_high(a, back))), (_by_low(a, w), back)
            else:
                g = rows(back, order)
                low, high = matmul(g, swap_last(_by_high(a, x))), (_by_low(a, g), x)
            da = triangle(low, diagonal=0.0)
            da = -(da + triangle(matmul(high[0], swap_last(high[1])), lower=False))
        return da, None, back if need_b else None

    return pullback


def _lu_solve_batch(level, args, dims, *, transposed):
    a, order, b = args
    if dims[:2] == (None, None) and a.ndim == 2:
        return as_columns(lambda b: lu_solve(a, order, b, transposed=transposed), b, dims[2])
    return stacked(lambda: lu_solve)(level, args, dims, transposed=transposed)


def _lu_solve_sample(d):
    lead, n = stack_shape(d), d.integer(1, 4)
    count = int(np.prod(lead))
    order = [np.argsort(d.floats((n,)), -1) for _ in range(count)]
    order = np.reshape(np.array(order, np.int64), (*lead, n))
    b = d.floats((*lead, n, d.integer(1, 3)))
    return Sample([well_conditioned(d, lead, n), order, b], {"transposed": d.flag()})


# factors a (*B, n, n) and the order (*B, n) of rows, as lu gives them of A (*B, n, n), b (*B, n, k)
# -> x with A x = b, or A' x = b if transposed, which does not conjugate; NaN where A is singular
lu_solve = define(
    "lu_solve", weight=60, spec=_lu_solve_spec, saves=(0,), torch_name="LinalgLuSolve",
    jvp=_lu_solve_jvp,
    vjp=_lu_solve_vjp,
    sharding=factors.einsum("...__,..._,..._N->..._N", (2,)),
    batch=_lu_solve_batch,
    sample=_lu_solve_sample,
    formula=in_float32(lambda: lu_solve),
)  # fmt: skip


def _order_spec(pivots, *, size):
    if pivots.dtype != int32 or not pivots.ndim or pivots.shape[-1] > size:
        raise ShapeError(
            f"order_of: {pivots!r} are no exchanges of {size} rows; give int32 (*B, k)"
        )
    return pivots.with_(shape=(*pivots.shape[:-1], size), dtype=int64)


def _order_sample(d):
    lead, size = stack_shape(d), d.integer(1, 5)
    k = d.integer(1, size)
    steps = [d.integers((*lead, 1), i, size, np.int32) for i in range(k)]
    return Sample([np.concatenate(steps, -1)], {"size": size})


order_of = define(  # of exchanges (*B, k), as lu gives them, the order of ``size`` rows (*B, size)
    "order_of", spec=_order_spec,
    jvp=NOT_DIFFERENTIABLE,
    vjp=NOT_DIFFERENTIABLE,
    sharding=factors.einsum("..._->..._"),
    batch=stacked(lambda: order_of),
    sample=_order_sample,
)  # fmt: skip
