"""The QR decomposition."""

from __future__ import annotations

import fx.prims.factors as factors
import fx.prims.shape as shape_prims
from fx.dtypes import COMPLEX
from fx.errors import BackwardError
from fx.primitive import define
from fx.prims.creation import constant_like
from fx.prims.linalg.pieces import columns_of, diagonal, from_diagonal, total
from fx.prims.linalg.stacks import (
    adjoint,
    conjugate,
    lapack_matrices,
    stack_shape,
    stacked,
    triangle,
)
from fx.prims.linalg.triangular import triangular_solve
from fx.prims.linear import matmul, swap_last
from fx.prims.sampling import Sample


def _spec(x, *, full):
    lapack_matrices("qr", x, square=False)
    (m, n), lead = x.shape[-2:], x.shape[:-2]
    k = m if full else min(m, n)
    return x.with_(shape=(*lead, m, k)), x.with_(shape=(*lead, k, n))


def _refuse(full, m, n):
    if full and m > n:
        raise BackwardError(
            f"linalg.qr: The QR decomposition is not differentiable when mode='complete' and nrows "
            f"> ncols: of ({m}, {n}) matrices the last {m - n} columns of Q may be turned at will; "
            f"write mode='reduced'"
        )


def _upper(r, x, left, transposed):
    return triangular_solve(r, x, left=left, lower=False, transposed=transposed, unit=False)


def _imaginary_diagonal(x):
    """The imaginary parts of the diagonal, times i, as a matrix."""
    d = diagonal(x)
    return from_diagonal((d - conjugate(d)) * constant_like(0.5, d))


def _jvp(primals, tangents, *, full):
    (t,) = tangents
    m, n = t.shape[-2:]
    _refuse(full, m, n)
    q, r = qr(*primals, full=full)
    k = min(m, n)
    inner = matmul(adjoint(q), t)  # (*B, k, n)
    r1 = columns_of(r, 0, k)
    square = _upper(r1, columns_of(inner, 0, k), False, False)  # (*B, k, k)
    low = triangle(square, diagonal=0.0)
    turn = low - adjoint(low)  # skew: what Q turns by in its own space
    if t.dtype in COMPLEX:
        turn = turn + _imaginary_diagonal(square)
    dq = matmul(q, turn)
    if m > n:
        dq = dq + _upper(r1, t - matmul(q, inner), False, False)
    return (q, r), (dq, inner - matmul(turn, r))


def _vjp(needs, x, *, full):
    m, n = x._shape[-2:]
    k = min(m, n)

    def pullback(cts, q, r):
        _refuse(full, m, n)
        cq, cr = cts
        back = conjugate(q)
        turn = total(
            None if cq is None else matmul(swap_last(q), cq),
            None if cr is None else -matmul(cr, swap_last(r)),
        )
        square = triangle(turn - adjoint(turn), diagonal=0.0)
        if q.dtype in COMPLEX:
            square = square + _imaginary_diagonal(turn)
        left = matmul(back, square)  # (*B, m, k)
        if m > n and cq is not None:
            left = left + cq - matmul(back, matmul(swap_last(q), cq))
        out = _upper(columns_of(r, 0, k), left, False, True)
        if n > k:
            none = (0,) * out.ndim
            high = (*none[1:], n - k)
            out = shape_prims.pad(out, constant_like(0, out), low=none, high=high, inside=none)
        return (total(out, None if cr is None else matmul(back, cr)),)

    return pullback


def _sample(d):
    m, n = d.integer(1, 4), d.integer(1, 4)
    x = d.floats((*stack_shape(d), m, n), -0.4, 0.4)
    for i in range(min(m, n)):
        x[..., i, i] += 1.5
    full = d.flag()
    return Sample([x], {"full": full}, fixed=(0,) if full and m > n else ())


# x (*B, m, n) -> q (*B, m, k), r (*B, k, n) with k = min(m, n), or m if full
qr = define(
    "qr", weight=60, saves=(0, 1), multiple=True, sparing=True, spec=_spec, torch_name="LinalgQr",
    jvp=_jvp,
    vjp=_vjp,
    sharding=factors.einsum("...__->...__,...__"),
    batch=stacked(lambda: qr),
    sample=_sample,
)  # fmt: skip
