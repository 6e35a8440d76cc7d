"""Eigenvalues and eigenvectors: of Hermitian matrices, and of any.

An eigenvector is determined up to a factor of absolute value 1, and where values repeat up to more.
What does not depend on that choice has a derivative; the rules give the one in which vectors move
least. They divide by differences of values: where values repeat, the derivatives of vectors are
infinite or NaN. Those of the values alone divide by nothing.

Cotangents are paired without a conjugate: the transpose of ``t -> b t c`` is ``ct -> b' ct c'``.
"""

from __future__ import annotations

import fx.prims.factors as factors
import fx.prims.shape as shape_prims
from fx.dtypes import int32
from fx.primitive import define
from fx.prims.linalg.pieces import (
    column,
    complex_dtype,
    diagonal,
    from_diagonal,
    of_dtype,
    real,
    real_dtype,
    reciprocal_off_diagonal,
    row,
    total,
)
from fx.prims.linalg.solve import solve
from fx.prims.linalg.stacks import (
    adjoint,
    conjugate,
    lapack_matrices,
    separate,
    stack_shape,
    stacked,
    triangle,
)
from fx.prims.linear import matmul, swap_last
from fx.prims.reduction import sum
from fx.prims.sampling import Sample


def _gaps(w):
    """1 / (w[j] - w[i]) at (i, j), and 0 on the diagonal."""
    return reciprocal_off_diagonal(row(w) - column(w))


def _info(x):
    return x.with_(shape=x.shape[:-2], dtype=int32)


def _seen(function):
    """The values, and of each vector its outer product with its conjugate, whatever its phase."""

    def seen(x):
        w, v, _ = function(x)
        shape = v.shape
        left = shape_prims.reshape(v, shape=(*shape[:-1], 1, shape[-1]))
        right = shape_prims.reshape(conjugate(v), shape=(*shape[:-2], 1, *shape[-2:]))
        return w, left * right

    return seen


# eigh -------------------------------------------------------------------------------------------


def _eigh_spec(x):
    lapack_matrices("eigh", x)
    return x.with_(shape=x.shape[:-1], dtype=real_dtype(x.dtype)), x, _info(x)


def _from_triangle(t):
    """The Hermitian matrix of which the lower triangle is ``t``'s."""
    half = triangle(t, diagonal=0.5)
    return half + adjoint(half)


def _to_triangle(ct):
    """The transpose of that."""
    return triangle(ct + adjoint(ct), diagonal=0.5)


def _eigh_jvp(primals, tangents):
    w, v, info = eigh(*primals)
    inner = matmul(adjoint(v), matmul(_from_triangle(tangents[0]), v))  # (*B, n, n)
    moved = matmul(v, inner * of_dtype(_gaps(w), v.dtype))
    return (w, v, info), (real(diagonal(inner)), moved, None)


def _eigh_vjp(needs, x):
    def pullback(cts, w, v):
        cw, cv, _ = cts
        inner = None if cw is None else from_diagonal(of_dtype(cw, v.dtype))
        if cv is not None:
            inner = total(inner, matmul(swap_last(v), cv) * of_dtype(_gaps(w), v.dtype))
        return (_to_triangle(matmul(conjugate(v), matmul(inner, swap_last(v)))),)

    return pullback


def _eigh_sample(seen):
    def sample(d):
        x = separate(d, stack_shape(d), d.integer(1, 4))
        return Sample([(x + x.swapaxes(-1, -2)) / 2], seen=seen)

    return sample


# x (*B, n, n), of which the lower triangle is read -> w (*B, n) in ascending order, v (*B, n, n)
# with x v = v diag(w), info (*B)
eigh = define(
    "eigh", weight=60, saves=(0, 1), multiple=True, sparing=True, spec=_eigh_spec,
    torch_name="LinalgEigh",
    jvp=_eigh_jvp,
    vjp=_eigh_vjp,
    sharding=factors.einsum("...__->..._,...__,..."),
    batch=stacked(lambda: eigh),
    sample=_eigh_sample(_seen),
)  # fmt: skip


def _eigvalsh_spec(x):
    lapack_matrices("eigvalsh", x)
    return x.with_(shape=x.shape[:-1], dtype=real_dtype(x.dtype)), _info(x)


def _eigvalsh_jvp(primals, tangents):
    w, v, info = eigh(*primals)
    inner = matmul(adjoint(v), matmul(_from_triangle(tangents[0]), v))
    return (w, info), (real(diagonal(inner)), None)


def _eigvalsh_vjp(needs, x):
    return lambda cts: (_eigvalsh_back(eigh(x)[1], cts[0]),)


def _eigvalsh_back(v, cw):
    return _to_triangle(matmul(conjugate(v) * row(of_dtype(cw, v.dtype)), swap_last(v)))


def _eigvalsh_forward(needs, x):
    w, v, info = eigh(x)
    return (w, info), lambda cts: (_eigvalsh_back(v, cts[0]),)


eigvalsh = define(  # x (*B, n, n) -> w (*B, n), info (*B): eigh without vectors
    "eigvalsh", weight=60, multiple=True, sparing=True, spec=_eigvalsh_spec,
    torch_name="LinalgEigh",
    jvp=_eigvalsh_jvp,
    vjp=_eigvalsh_vjp,
    forward=_eigvalsh_forward,
    sharding=factors.einsum("...__->..._,..."),
    batch=stacked(lambda: eigvalsh),
    sample=_eigh_sample(None),
)  # fmt: skip


# eig --------------------------------------------------------------------------------------------


def _eig_spec(x):
    lapack_matrices("eig", x)
    dtype = complex_dtype(x.dtype)
    return x.with_(shape=x.shape[:-1], dtype=dtype), x.with_(dtype=dtype), _info(x)


def _column_products(x, y):
    """Of columns in the same place the real part of the sum of products: (*B, 1, n)."""
    return of_dtype(sum(real(x * y), axes=(len(x._shape) - 2,), keepdims=True), x.dtype)


def _eig_inner(v, t):
    """v^-1 t v."""
    return solve(v, matmul(of_dtype(t, v.dtype), v))[0]


def _eig_jvp(primals, tangents):
    w, v, info = eig(*primals)
    inner = _eig_inner(v, tangents[0])
    moved = matmul(v, inner * _gaps(w))
    moved = moved - v * _column_products(conjugate(v), moved)  # columns stay of norm 1
    return (w, v, info), (diagonal(inner), moved, None)


def _eig_back(v, inner, dtype):
    """The transpose of ``t -> v^-1 t v``."""
    found = solve(swap_last(v), matmul(inner, swap_last(v)))[0]
    return found if dtype == v.dtype else real(found)


def _eig_vjp(needs, x):
    dtype = x._dtype

    def pullback(cts, w, v):
        cw, cv, _ = cts
        inner = None if cw is None else from_diagonal(cw)
        if cv is not None:
            cv = cv - conjugate(v) * _column_products(cv, v)
            inner = total(inner, matmul(swap_last(v), cv) * _gaps(w))
        return (_eig_back(v, inner, dtype),)

    return pullback


def _eig_sample(seen):
    def sample(d):
        n = d.integer(1, 4)
        x = separate(d, stack_shape(d), n)
        if n > 2 and d.flag():  # a pair of complex eigenvalues
            x[..., 1, 2], x[..., 2, 1] = 4.0, -4.0
        return Sample([x], seen=seen)

    return sample


# x (*B, n, n) -> complex w (*B, n) in no order, v (*B, n, n) with x v = v diag(w) and columns of
# norm 1, info (*B)
eig = define(
    "eig", weight=60, saves=(0, 1), multiple=True, sparing=True, spec=_eig_spec,
    torch_name="LinalgEig",
    jvp=_eig_jvp,
    vjp=_eig_vjp,
    sharding=factors.einsum("...__->..._,...__,..."),
    batch=stacked(lambda: eig),
    sample=_eig_sample(_seen),
)  # fmt: skip


def _eigvals_spec(x):
    lapack_matrices("eigvals", x)
    return x.with_(shape=x.shape[:-1], dtype=complex_dtype(x.dtype)), _info(x)


def _eigvals_jvp(primals, tangents):
    w, v, info = eig(*primals)
    return (w, info), (diagonal(_eig_inner(v, tangents[0])), None)


def _eigvals_vjp(needs, x):
    def pullback(cts):
        v = eig(x)[1]
        return (_eig_back(v, from_diagonal(cts[0]), x._dtype),)

    return pullback


def _eigvals_forward(needs, x):
    w, v, info = eig(x)
    dtype = x._dtype
    return (w, info), lambda cts: (_eig_back(v, from_diagonal(cts[0]), dtype),)


eigvals = define(  # x (*B, n, n) -> w (*B, n), info (*B): eig without vectors
    "eigvals", weight=60, multiple=True, sparing=True, spec=_eigvals_spec,
    torch_name="LinalgEig",
    jvp=_eigvals_jvp,
    vjp=_eigvals_vjp,
    forward=_eigvals_forward,
    sharding=factors.einsum("...__->..._,..."),
    batch=stacked(lambda: eigvals),
    sample=_eig_sample(None),
)  # fmt: skip
