"""Functions of matrices with derivatives in closed form: the pseudo-inverse and the exponential."""

from __future__ import annotations

import fx.prims.factors as factors
import fx.prims.shape as shape_prims
from fx.dtypes import int32, int64
from fx.primitive import define
from fx.prims.creation import constant_like
from fx.prims.linalg.pieces import beside, columns_of, identity, rows_of
from fx.prims.linalg.stacks import adjoint, conjugate, lapack_matrices, stack_shape, stacked
from fx.prims.linalg.svd import far_from_singular
from fx.prims.linear import matmul, swap_last
from fx.prims.sampling import Sample

# pinv -------------------------------------------------------------------------------------------
#
# G. H. Golub, V. Pereyra, The differentiation of pseudo-inverses and nonlinear least squares
# problems whose variables separate, 1973: among matrices of one rank,
# dp = -p dx p + p p^H dx^H (1 - x p) + (1 - p x) dx^H p^H p.


def _pinv_spec(x, *, rtol, atol):
    lapack_matrices("pinv", x, square=False)
    (m, n), lead = x.shape[-2:], x.shape[:-2]
    counts = [x.with_(shape=lead, dtype=dtype) for dtype in (int64, int32)]
    return x.with_(shape=(*lead, n, m)), *counts


def _left_out(x, p):
    """1 - x p: what of a right side no product with x reaches."""
    found = matmul(x, p)
    return identity(found._shape[-1], x) - found


def _pinv_jvp(primals, tangents, *, rtol, atol):
    (x,), (t,) = primals, tangents
    p, rank, info = pinv(x, rtol=rtol, atol=atol)
    back, star = adjoint(t), adjoint(p)
    out = -matmul(matmul(p, t), p)
    out = out + matmul(matmul(p, star), matmul(back, _left_out(x, p)))
    out = out + matmul(matmul(_left_out(p, x), back), matmul(star, p))
    return (p, rank, info), (out, None, None)


def _pinv_vjp(needs, x, *, rtol, atol):
    def pullback(cts, p):
        ct = cts[0]
        turned, back, star = swap_last(p), adjoint(ct), adjoint(p)
        out = -matmul(matmul(turned, ct), turned)
        out = out + matmul(matmul(conjugate(_left_out(x, p)), back), conjugate(matmul(p, star)))
        more = matmul(conjugate(matmul(star, p)), back)
        return (out + matmul(more, conjugate(_left_out(p, x))),)

    return pullback


# x (*B, m, n) -> p (*B, n, m), rank (*B), info (*B): of singular values above atol and above rtol
# times the largest, of which there are rank
pinv = define(
    "pinv", weight=60, saves=(0,), multiple=True, spec=_pinv_spec, torch_name="LinalgPinv",
    jvp=_pinv_jvp,
    vjp=_pinv_vjp,
    sharding=factors.einsum("...__->...__,...,..."),
    batch=stacked(lambda: pinv),
    sample=lambda d: Sample([far_from_singular(d)], {"rtol": 1e-3, "atol": 0.0}),
)  # fmt: skip


# matrix_exp -------------------------------------------------------------------------------------


def _exp_spec(x):
    lapack_matrices("matrix_exp", x)
    return x


def along(function, x, t):
    """A function of matrices and its derivative along t: that of [[x, t], [0, x]] has both."""
    n = x._shape[-1]
    upper, lower = beside(x, t), beside(t * constant_like(0, t), x)
    y = function(shape_prims.concatenate(upper, lower, axis=len(x._shape) - 2))
    first = rows_of(y, 0, n)
    return columns_of(first, 0, n), columns_of(first, n, 2 * n)


def _exp_vjp(needs, x):
    return lambda ct: (along(matrix_exp, swap_last(x), ct)[1],)


def _exp_sample(d):
    n = d.integer(1, 3)
    return Sample([d.floats((*stack_shape(d), n, n), -1.0, 1.0)])


matrix_exp = define(  # x (*B, n, n) -> as x
    "matrix_exp", weight=60, spec=_exp_spec, torch_name="LinalgMatrixExp",
    jvp=lambda primals, tangents: along(matrix_exp, *primals, *tangents),
    vjp=_exp_vjp,
    sharding=factors.einsum("...__->...__"),
    batch=stacked(lambda: matrix_exp),
    sample=_exp_sample,
)  # fmt: skip
