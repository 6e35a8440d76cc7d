"""What SciPy computes of matrices: functions, Sylvester's equation, banded systems, factors."""

from __future__ import annotations

import fx.prims.factors as factors
import fx.prims.shape as shape_prims
from fx.errors import BackwardError, ShapeError
from fx.primitive import define
from fx.prims.creation import constant_like
from fx.prims.families import same_dtype
from fx.prims.linalg.functions import along
from fx.prims.linalg.stacks import (
    adjoint,
    lapack_matrices,
    positive_definite,
    stack_shape,
    stacked,
    well_conditioned,
)
from fx.prims.linear import matmul, swap_last
from fx.prims.reduction import sum as total
from fx.prims.sampling import Sample

# functions of matrices --------------------------------------------------------------------------

FUNCTIONS = ("logm", "sqrtm")


def _function_spec(x, *, function):
    lapack_matrices(function, x)
    return x


def _function_of(function):
    return lambda x: matrix_function(x, function=function)


def _function_sample(d):
    x = positive_definite(d, stack_shape(d), d.integer(1, 3))
    return Sample([x + d.floats(x.shape, -0.1, 0.1)], {"function": d.choice(FUNCTIONS)})


# x (*B, n, n) -> as x: the principal one; NaN where it is not real and x is
matrix_function = define(
    "matrix_function", weight=90, spec=_function_spec,
    jvp=lambda primals, tangents, *, function: along(_function_of(function), *primals, *tangents),
    vjp=lambda needs, x, *, function: lambda ct: (
        along(_function_of(function), swap_last(x), ct)[1],
    ),
    batch=stacked(lambda: matrix_function),
    sample=_function_sample,
    sharding=factors.einsum("...__->...__"),
)  # fmt: skip


# Sylvester's equation ---------------------------------------------------------------------------


def _sylvester_spec(a, b, q):
    for x in (a, b):
        lapack_matrices("solve_sylvester", x)
    lapack_matrices("solve_sylvester", q, square=False)
    same_dtype("solve_sylvester", a, b, q)
    lead = q.shape[:-2]
    if q.shape[-2:] != (a.shape[-1], b.shape[-1]) or {a.shape[:-2], b.shape[:-2]} != {lead}:
        raise ShapeError(
            f"solve_sylvester: a {a.shape}, b {b.shape} and q {q.shape} do not fit; q has as many "
            f"rows as a and as many columns as b"
        )
    return q


def _sylvester_jvp(primals, tangents):
    a, b, _ = primals
    ta, tb, tq = tangents
    x = sylvester(*primals)
    right = constant_like(0, x) if tq is None else tq
    right = right if ta is None else right - matmul(ta, x)
    right = right if tb is None else right - matmul(x, tb)
    return x, sylvester(a, b, right)


def _sylvester_vjp(needs, a, b, q):
    def pullback(ct, x):
        back = sylvester(swap_last(a), swap_last(b), ct)
        return (
            None if needs[0] is None else -matmul(back, swap_last(x)),
            None if needs[1] is None else -matmul(swap_last(x), back),
            None if needs[2] is None else back,
        )

    return pullback


def _sylvester_sample(d):
    lead, m, n = stack_shape(d), d.integer(1, 3), d.integer(1, 3)
    a, b = (positive_definite(d, lead, k) for k in (m, n))  # no two sum to 0
    return Sample([a + d.floats(a.shape, -0.1, 0.1), b, d.floats((*lead, m, n))])


sylvester = define(  # a (*B, m, m), b (*B, n, n), q (*B, m, n) -> the x with a x + x b = q, as q
    "sylvester", weight=90, spec=_sylvester_spec, saves=(0,),
    jvp=_sylvester_jvp,
    vjp=_sylvester_vjp,
    batch=stacked(lambda: sylvester),
    sample=_sylvester_sample,
    sharding=factors.einsum("...__,...__,...__->...__", (2,)),
)  # fmt: skip


# banded systems ---------------------------------------------------------------------------------


def moved(x, by):
    """(*B, n) with each element ``by`` places further on, zeros following in."""
    if not by:
        return x
    n, none, ones = x._shape[-1], (0,) * (x.ndim - 1), (1,) * x.ndim
    by = max(-n, min(n, by))
    start, stop = max(0, -by), n - max(0, by)
    x = shape_prims.slice(x, start=(*none, start), stop=(*x._shape[:-1], stop), step=ones)
    low, high = (*none, max(0, by)), (*none, max(0, -by))
    return shape_prims.pad(x, constant_like(0, x), low=low, high=high, inside=(0,) * x.ndim)


def _bands(bands):
    """Each band (*B, n) of ``bands`` (*B, k, n)."""
    lead, (k, n), ones = bands._shape[:-2], bands._shape[-2:], (1,) * bands.ndim
    none = (0,) * len(lead)
    for i in range(k):
        part = shape_prims.slice(bands, start=(*none, i, 0), stop=(*lead, i + 1, n), step=ones)
        yield shape_prims.reshaped(part, (*lead, n))


def _stack(parts):
    lifted = [shape_prims.reshaped(x, (*x._shape[:-1], 1, x._shape[-1])) for x in parts]
    return shape_prims.concatenate(*lifted, axis=lifted[0].ndim - 2)


def transposed(bands, upper):
    """The bands of the transpose."""
    return _stack([moved(x, i - upper) for i, x in enumerate(_bands(bands))][::-1])


def banded_product(bands, x, upper):
    """The matrix of bands (*B, k, n) times x (*B, n, r)."""
    x = swap_last(x)  # (*B, r, n)
    found = constant_like(0, x)
    for i, band in enumerate(_bands(bands)):
        lifted = shape_prims.reshaped(band, (*band._shape[:-1], 1, band._shape[-1]))
        found = found + moved(lifted * x, i - upper)
    return swap_last(found)


def _banded_spec(bands, b, *, upper):
    for x in (bands, b):
        lapack_matrices("solve_banded", x, square=False)
    same_dtype("solve_banded", bands, b)
    sides = (*bands.shape[:-2], bands.shape[-1])
    if b.shape[:-1] != sides or not 0 <= upper < bands.shape[-2]:
        raise ShapeError(
            f"solve_banded: bands {bands.shape}, {upper} of them above the diagonal, and right "
            f"sides {b.shape} do not fit"
        )
    return b


def _banded_jvp(primals, tangents, *, upper):
    bands, _ = primals
    t_bands, t = tangents
    x = solve_banded(*primals, upper=upper)
    right = constant_like(0, x) if t is None else t
    if t_bands is not None:
        right = right - banded_product(t_bands, x, upper)
    return x, solve_banded(bands, right, upper=upper)


def _banded_vjp(needs, bands, b, *, upper):
    def pullback(ct, x):
        k = bands._shape[-2]
        back = solve_banded(transposed(bands, upper), ct, upper=k - 1 - upper)
        if needs[0] is None:
            return None, back
        rows, columns = swap_last(back), swap_last(x)  # (*B, r, n)
        axes = (rows.ndim - 2,)
        each = [
            total(moved(rows, upper - i) * columns, axes=axes, keepdims=False) for i in range(k)
        ]
        return -_stack(each), None if needs[1] is None else back

    return pullback


def _banded_sample(d):
    lead, n, upper, lower = stack_shape(d), d.integer(1, 4), d.integer(0, 2), d.integer(0, 2)
    bands = d.floats((*lead, upper + lower + 1, n), -0.4, 0.4)
    bands[..., upper, :] += 3.0
    return Sample([bands, d.floats((*lead, n, d.integer(1, 2)))], {"upper": upper})


# bands (*B, k, n), of which row i has element (j + i - upper, j) of a matrix in its place j; b
# (*B, n, r) -> the x with a x = b, as b; NaN where a is singular
solve_banded = define(
    "solve_banded", weight=60, spec=_banded_spec, saves=(0,),
    jvp=_banded_jvp,
    vjp=_banded_vjp,
    batch=stacked(lambda: solve_banded),
    sample=_banded_sample,
    sharding=factors.einsum("...__,..._N->..._N", (1,)),
)  # fmt: skip


# decompositions without a derivative ------------------------------------------------------------

DECOMPOSITIONS = ("geqrf", "hessenberg", "schur")


def _decomposed_spec(x, *, kind):
    lapack_matrices(kind, x, square=kind != "geqrf")
    (m, n), lead = x.shape[-2:], x.shape[:-2]
    return x, (x.with_(shape=(*lead, min(m, n))) if kind == "geqrf" else x)


def _decomposed_sharding(x, *, kind):
    return factors.einsum("...__->...__,..._" if kind == "geqrf" else "...__->...__,...__")(x)


def _refused(*args, kind):
    raise BackwardError(
        f"linalg.{kind}: fx has no derivative of it; for a constant write x.detach(), or take "
        f"linalg.{'qr' if kind == 'geqrf' else 'eig'}, which has one"
    )


def _put_together(function):
    """What does not depend on the signs and the order of vectors."""

    def seen(x):
        form, vectors = function(x)
        return matmul(matmul(vectors, form), adjoint(vectors)), matmul(adjoint(vectors), vectors)

    return seen


def _decomposed_sample(d):
    kind, n = d.choice(DECOMPOSITIONS), d.integer(1, 4)
    x = well_conditioned(d, stack_shape(d), n)
    x = x[..., : d.integer(1, n)] if kind == "geqrf" else x
    return Sample([x], {"kind": kind}, fixed=(0,), seen=None if kind == "geqrf" else _put_together)


# x -> the packed reflectors (*B, m, n) and tau (*B, k) of geqrf, or h and q, t and z (*B, n, n)
decomposition = define(
    "decomposition", weight=90, multiple=True, spec=_decomposed_spec,
    jvp=_refused,
    vjp=lambda needs, x, *, kind: lambda cts: _refused(kind=kind),
    batch=stacked(lambda: decomposition),
    sample=_decomposed_sample,
    sharding=_decomposed_sharding,
)  # fmt: skip
