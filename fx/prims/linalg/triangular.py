"""Solves with triangular matrices."""

from __future__ import annotations

import fx.prims.factors as factors
import fx.prims.shape as shape_prims
from fx.errors import ShapeError
from fx.primitive import define
from fx.prims.families import same_dtype, to_front
from fx.prims.linalg.stacks import (
    as_columns,
    in_float32,
    matrices,
    stack_shape,
    stacked,
    triangle,
    well_conditioned,
)
from fx.prims.linear import matmul, swap_last
from fx.prims.sampling import Sample


def _spec(a, b, *, left, lower, transposed, unit):
    same_dtype("triangular_solve", a, b)
    matrices("triangular_solve", a)
    n = a.shape[-1]
    side = b.shape[-2 if left else -1] if b.ndim >= 2 else None
    if a.shape[:-2] != b.shape[:-2] or side != n:
        wanted = f"{(*a.shape[:-2], n, 'k')}" if left else f"{(*a.shape[:-2], 'k', n)}"
        raise ShapeError(
            f"triangular_solve: matrices {a.shape} and right sides {b.shape} do not fit; "
            f"expected right sides {wanted}"
        )
    return b


def _part(x, lower, unit):
    """What the solve reads of its matrices."""
    return triangle(x, lower, 0.0 if unit else 1.0)


def _minus_product(x, da, *, left, transposed):
    """-op(dA) X, or -X op(dA): what a change of the matrices adds to the right sides."""
    da = swap_last(da) if transposed else da
    return -(matmul(da, x) if left else matmul(x, da))


def _jvp(primals, tangents, *, left, lower, transposed, unit):
    a, b = primals
    da, db = tangents
    how = {"left": left, "lower": lower, "transposed": transposed, "unit": unit}
    x = triangular_solve(a, b, **how)
    if da is not None:
        more = _minus_product(x, _part(da, lower, unit), left=left, transposed=transposed)
        db = more if db is None else db + more
    return x, triangular_solve(a, db, **how)


def _vjp(needs, a, b, *, left, lower, transposed, unit):
    need_a, need_b = (need is not None for need in needs)

    def pullback(ct, x):
        back = triangular_solve(a, ct, left=left, lower=lower, transposed=not transposed, unit=unit)
        da = None
        if need_a:
            minus = -back
            full = matmul(minus, swap_last(x)) if left else matmul(swap_last(x), minus)
            da = _part(swap_last(full) if transposed else full, lower, unit)
        return da, back if need_b else None

    return pullback


def _batch(level, args, dims, *, left, **how):
    a, b = args
    if dims[0] is not None or a.ndim > 2 or b.ndim != 3:
        return stacked(lambda: triangular_solve)(level, args, dims, left=left, **how)
    if left:
        return as_columns(lambda b: triangular_solve(a, b, left=left, **how), b, dims[1])
    b = to_front(b, dims[1])  # (lanes, m, n): the lanes are more rows of one system
    lanes, m, n = b.shape
    x = triangular_solve(a, shape_prims.reshaped(b, (lanes * m, n)), left=left, **how)
    return shape_prims.reshaped(x, (lanes, m, n)), 0


def _sample(d):
    lead, n, k = stack_shape(d), d.integer(1, 4), d.integer(1, 3)
    left = d.flag()
    how = {"lower": d.flag(), "transposed": d.flag(), "unit": d.flag()}
    a = well_conditioned(d, lead, n)
    return Sample([a, d.floats((*lead, n, k) if left else (*lead, k, n))], {"left": left, **how})


# a (*B, n, n), b (*B, n, k) -> x with op(a) x = b, or b (*B, k, n) and x op(a) = b. Of a only one
# triangle is read, and not its diagonal where it is unit; transposed does not conjugate.
triangular_solve = define(
    "triangular_solve", weight=60, spec=_spec, saves=(0,), torch_name="LinalgSolveTriangular",
    jvp=_jvp,
    vjp=_vjp,
    sharding=factors.triangular_solve,
    batch=_batch,
    sample=_sample,
    formula=in_float32(lambda: triangular_solve),
)  # fmt: skip
