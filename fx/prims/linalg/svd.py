"""The singular value decomposition.

With k = min(m, n), x = u[:, :k] diag(s) vh[:k]. A pair of vectors is determined up to a common
factor of absolute value 1, and the vectors that ``full`` adds up to a rotation. As in
``spectral.py``, the rules give the derivative in which vectors move least: those of the k pairs
turn among one another by skew matrices and into the rest of the space, and the rest turns against
that. Derivatives of vectors divide by differences and sums of values, and by the values; those of
the values alone divide by nothing.
"""

from __future__ import annotations

import fx.prims.factors as factors
import fx.prims.shape as shape_prims
from fx.dtypes import COMPLEX, int32
from fx.primitive import define
from fx.prims.linalg.pieces import (
    beside,
    column,
    columns_of,
    diagonal,
    from_diagonal,
    of_dtype,
    real,
    real_dtype,
    reciprocal_off_diagonal,
    row,
    rows_of,
    total,
)
from fx.prims.linalg.stacks import adjoint, conjugate, lapack_matrices, stack_shape, stacked
from fx.prims.linear import matmul, swap_last
from fx.prims.sampling import Sample


def _sides(x):
    m, n = x.shape[-2:]
    return m, n, min(m, n)


def _gaps(s, dtype):
    """1 / (s[j]^2 - s[i]^2) at (i, j), and 0 on the diagonal."""
    across, down = row(s), column(s)
    return of_dtype(reciprocal_off_diagonal((across - down) * (across + down)), dtype)


def _svd_spec(x, *, full):
    lapack_matrices("svd", x, square=False)
    (m, n, k), lead = _sides(x), x.shape[:-2]
    return (
        x.with_(shape=(*lead, m, m if full else k)),
        x.with_(shape=(*lead, k), dtype=real_dtype(x.dtype)),
        x.with_(shape=(*lead, n if full else k, n)),
        x.with_(shape=lead, dtype=int32),
    )


def _svd_jvp(primals, tangents, *, full):
    (t,) = tangents
    u, s, vh, info = svd(*primals, full=full)
    m, n, k = _sides(t)
    u1, vh1, gaps = columns_of(u, 0, k), rows_of(vh, 0, k), _gaps(s, t.dtype)
    across, down = row(of_dtype(s, t.dtype)), column(of_dtype(s, t.dtype))
    tv, ut = matmul(t, adjoint(vh1)), matmul(adjoint(u1), t)  # (*B, m, k), (*B, k, n)
    inner = matmul(adjoint(u1), tv)  # (*B, k, k)
    back = adjoint(inner)
    left = (inner * across + down * back) * gaps
    right = (down * inner + back * across) * gaps
    if t.dtype in COMPLEX:
        turn = from_diagonal(diagonal((inner - back) / (down * 4)))
        left, right = left + turn, right - turn
    du, dvh = matmul(u1, left), -matmul(right, vh1)
    if m > k:
        du = du + (tv - matmul(u1, inner)) / across
        if full:
            du = beside(du, -matmul(u1, matmul(adjoint(tv), columns_of(u, k, m)) / down))
    if n > k:
        dvh = dvh + (ut - matmul(inner, vh1)) / down
        if full:
            rest = -matmul(matmul(rows_of(vh, k, n), adjoint(ut)) / across, vh1)
            dvh = swap_last(beside(swap_last(dvh), swap_last(rest)))
    return (u, s, vh, info), (du, real(diagonal(inner)), dvh, None)


def _between(u, inner, vh):
    """The transpose of ``t -> u^H t v``."""
    return matmul(conjugate(u), matmul(inner, conjugate(vh)))


def _svd_vjp(needs, x, *, full):
    k = min(x._shape[-2:])

    def pullback(cts, u, s, vh):
        cu, cs, cvh, _ = cts
        u1, vh1 = columns_of(u, 0, k), rows_of(vh, 0, k)
        values = None if cs is None else from_diagonal(of_dtype(cs, u.dtype))
        if cu is None and cvh is None:
            return (_between(u1, values, vh1),)
        left = right = (None, None, None)
        if cu is not None:
            left = _back(u1, s, vh1, cu, columns_of(u, k, u.shape[-1]))
        if cvh is not None:  # x^H = v diag(s) u^H
            rest = adjoint(rows_of(vh, k, vh.shape[-2]))
            right = _back(adjoint(vh1), s, adjoint(u1), adjoint(cvh), rest)
        inner, out, turn = (
            total(a, None if b is None else conjugated(b))
            for a, b, conjugated in zip(left, right, (adjoint, adjoint, conjugate), strict=True)
        )
        if u.dtype in COMPLEX:
            sides = of_dtype(s, u.dtype) * 4
            inner = inner + from_diagonal((turn - conjugate(turn)) / sides)
        return (total(_between(u1, total(values, inner), vh1), out),)

    return pullback


def _back(u, s, vh, ct, rest):
    """From the cotangent of the left vectors: that of u^H t v, more for t, and a diagonal's.

    ``rest`` are the vectors beyond k, and ``ct`` that of all.
    """
    k = u.shape[-1]
    c, more = columns_of(ct, 0, k), columns_of(ct, k, ct.shape[-1])
    across, down = row(of_dtype(s, u.dtype)), column(of_dtype(s, u.dtype))
    spun = matmul(swap_last(u), c)  # (*B, k, k)
    weighed = spun * _gaps(s, u.dtype)
    inner = weighed * across + adjoint(down * weighed)
    out = None
    if u.shape[-2] > k:
        outside = c / across
        outside = outside - matmul(conjugate(u), matmul(swap_last(u), outside))
        out = matmul(outside, conjugate(vh))
    if rest.shape[-1]:
        base = conjugate(matmul(u / across, vh))  # (*B, m, n)
        out = total(out, -matmul(matmul(conjugate(rest), adjoint(more)), base))
    return inner, out, diagonal(spun)


def _seen(function):
    """Values, outer products of pairs of vectors, and projectors on what no pair reaches."""

    def seen(x):
        m, n, k = _sides(x)
        u, s, vh, _ = function(x)
        u1, v1 = columns_of(u, 0, k), swap_last(rows_of(vh, 0, k))
        left = shape_prims.reshape(u1, shape=(*x.shape[:-2], m, 1, k))
        right = shape_prims.reshape(v1, shape=(*x.shape[:-2], 1, n, k))
        u2, vh2 = columns_of(u, k, u.shape[-1]), rows_of(vh, k, vh.shape[-2])
        return s, left * right, matmul(u2, adjoint(u2)), matmul(adjoint(vh2), vh2)

    return seen


def far_from_singular(d):
    """Matrices (m, n) whose singular values are far from one another and from 0."""
    m, n = d.integer(1, 4), d.integer(1, 4)
    wide = d.floats((*stack_shape(d), max(m, n), 1), 0.0, 0.4)
    found = d.floats((*wide.shape[:-2], m, n), -0.4, 0.4)
    for i in range(min(m, n)):
        found[..., i, i] += 1.5 + 2 * i + wide[..., i, 0]
    return found


# x (*B, m, n) -> u (*B, m, k or m), s (*B, k) in descending order, vh (*B, k or n, n), info (*B)
svd = define(
    "svd", weight=60, saves=(0, 1, 2), multiple=True, sparing=True, spec=_svd_spec,
    torch_name="LinalgSvd",
    jvp=_svd_jvp,
    vjp=_svd_vjp,
    sharding=factors.einsum("...__->...__,..._,...__,..."),
    batch=stacked(lambda: svd),
    sample=lambda d: Sample([far_from_singular(d)], {"full": d.flag()}, seen=_seen),
)  # fmt: skip


def _svdvals_spec(x):
    lapack_matrices("svdvals", x, square=False)
    values = x.with_(shape=(*x.shape[:-2], _sides(x)[2]), dtype=real_dtype(x.dtype))
    return values, x.with_(shape=x.shape[:-2], dtype=int32)


def _svdvals_jvp(primals, tangents):
    u, s, vh, info = svd(*primals, full=False)
    inner = matmul(adjoint(u), matmul(tangents[0], adjoint(vh)))
    return (s, info), (real(diagonal(inner)), None)


def _svdvals_back(u, vh, cs):
    return matmul(conjugate(u) * row(of_dtype(cs, u.dtype)), conjugate(vh))


def _svdvals_vjp(needs, x):
    def pullback(cts):
        u, _, vh, _ = svd(x, full=False)
        return (_svdvals_back(u, vh, cts[0]),)

    return pullback


def _svdvals_forward(needs, x):
    u, s, vh, info = svd(x, full=False)
    return (s, info), lambda cts: (_svdvals_back(u, vh, cts[0]),)


svdvals = define(  # x (*B, m, n) -> s (*B, k), info (*B): svd without vectors
    "svdvals", weight=60, multiple=True, sparing=True, spec=_svdvals_spec, torch_name="LinalgSvd",
    jvp=_svdvals_jvp,
    vjp=_svdvals_vjp,
    forward=_svdvals_forward,
    sharding=factors.einsum("...__->..._,..."),
    batch=stacked(lambda: svdvals),
    sample=lambda d: Sample([far_from_singular(d)]),
)  # fmt: skip
