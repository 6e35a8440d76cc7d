"""The factorisation of symmetric or Hermitian matrices that need not be definite.

With an order p of rows and columns, a[p][:, p] = L D L^H; on its diagonal D has blocks of 1 or 2,
and L has ones. LAPACK exchanges rows of L only from the step on at which it finds the exchange:
``ldl`` gives its packed form, ``ldl_order`` of the pivots how to read it.
"""

from __future__ import annotations

import numpy as np

import fx.prims.factors as factors
from fx.dtypes import int32, int64
from fx.errors import ShapeError
from fx.primitive import NOT_DIFFERENTIABLE, define
from fx.prims.compare import astype, equal
from fx.prims.indexing import take_along_axis
from fx.prims.linalg.lu import back_in_place, rows
from fx.prims.linalg.pieces import column, identity, row
from fx.prims.linalg.solve import solve
from fx.prims.linalg.stacks import (
    conjugate,
    lapack_matrices,
    stack_shape,
    stacked,
    triangle,
)
from fx.prims.linalg.triangular import triangular_solve
from fx.prims.linear import matmul, swap_last
from fx.prims.sampling import Sample
from fx.prims.sorting import argsort


def _order_spec(pivots):
    if pivots.dtype != int32 or not pivots.ndim:
        raise ShapeError(f"ldl_order: {pivots!r} are no pivots of ldl; give int32 (*B, n)")
    shape = pivots.shape
    return (
        pivots.with_(dtype=int64),
        pivots.with_(shape=(*shape, shape[-1]), dtype=int64),
        pivots.with_(dtype=int64),
    )


def _order_sample(d):
    lead, n = stack_shape(d), d.integer(1, 4)
    steps = [d.integers((*lead, 1), i + 1, n + 1, np.int32) for i in range(n)]
    pivots = np.concatenate(steps, -1)
    if n > 2 and d.flag():
        pivots[..., 0] = pivots[..., 1] = -3
    return Sample([pivots])


# pivots (*B, n), int32, as LAPACK gives them -> the order of rows (*B, n); in which row of the
# packed matrix each element of L stands, (*B, n, n); the number of the block of each row (*B, n)
ldl_order = define(
    "ldl_order", multiple=True, spec=_order_spec,
    jvp=NOT_DIFFERENTIABLE,
    vjp=NOT_DIFFERENTIABLE,
    batch=stacked(lambda: ldl_order),
    sample=_order_sample,
    sharding=factors.einsum("..._->..._,...__,..._"),
)  # fmt: skip


def reflected(x, hermitian):
    """The transpose, conjugate if Hermitian matrices are meant."""
    x = swap_last(x)
    return conjugate(x) if hermitian else x


def same_block(blocks, like):
    """1 where row and column are of one block, else 0."""
    return astype(equal(column(blocks), row(blocks)), dtype=like.dtype)


def unpacked(packed, places, blocks, hermitian):
    """L and D, (*B, n, n) each, of a packed factorisation."""
    found = take_along_axis(packed, places, axis=packed.ndim - 2)
    inside = same_block(blocks, packed)
    middle = triangle(found * inside, diagonal=0.5)
    low = triangle(found * (1.0 - inside), diagonal=0.0)
    return low + identity(packed._shape[-1], packed), middle + reflected(middle, hermitian)


def ordered(x, order):
    """Rows and columns of square matrices in an order."""
    return swap_last(rows(swap_last(rows(x, order)), order))


def _disordered(x, order):
    return swap_last(back_in_place(swap_last(back_in_place(x, order)), order))


def _of_low(low, x, left, transposed=False):
    return triangular_solve(low, x, left=left, lower=True, transposed=transposed, unit=True)


def _by_middle(middle, x, transposed):
    """x middle^-1, or x middle^-T."""
    middle = middle if transposed else swap_last(middle)
    return swap_last(solve(middle, swap_last(x))[0])


def _spec(a, *, hermitian):
    lapack_matrices("ldl", a)
    return a, a.with_(shape=a.shape[:-1], dtype=int32), a.with_(shape=a.shape[:-2], dtype=int32)


def _jvp(primals, tangents, *, hermitian):
    packed, pivots, info = ldl(*primals, hermitian=hermitian)
    order, places, blocks = ldl_order(pivots)
    low, middle = unpacked(packed, places, blocks, hermitian)
    half = triangle(tangents[0], diagonal=0.5)
    inner = _of_low(low, ordered(half + reflected(half, hermitian), order), True)
    inner = _of_low(conjugate(low) if hermitian else low, inner, False, True)  # L^-1 da L^-H
    inside = same_block(blocks, packed)
    below = triangle(inner, diagonal=0.0) * (1.0 - inside)
    change = matmul(low, _by_middle(middle, below, False)) + triangle(inner * inside)
    back = argsort(places, axis=places.ndim - 2, descending=False)
    change = take_along_axis(change, back, axis=change.ndim - 2)
    return (packed, pivots, info), (change, None, None)


def _vjp(needs, a, *, hermitian):
    def pullback(cts, packed, pivots):
        order, places, blocks = ldl_order(pivots)
        low, middle = unpacked(packed, places, blocks, hermitian)
        inside = same_block(blocks, packed)
        ct = take_along_axis(cts[0], places, axis=packed.ndim - 2)
        below = triangle(ct, diagonal=0.0) * (1.0 - inside)
        below = _by_middle(middle, matmul(swap_last(low), below), True)
        inner = triangle(below, diagonal=0.0) * (1.0 - inside) + triangle(ct * inside)
        inner = _of_low(low, inner, True, True)
        inner = _of_low(conjugate(low) if hermitian else low, inner, False)
        inner = _disordered(inner, order)
        return (triangle(inner + reflected(inner, hermitian), diagonal=0.5),)

    return pullback


def _sample(d):
    n = d.integer(1, 4)
    x = d.floats((*stack_shape(d), n, n), -0.3, 0.3)
    for i in range(n):  # far from where pivots change: blocks of 2 where the diagonal is small
        x[..., i, i] += 3.0 if i == 2 else 0.0
        x[..., i, i - 1] += 2.0 if i == 1 else 0.0
    return Sample([x], {"hermitian": d.flag()})


# a (*B, n, n), of which the lower triangle is read -> packed (*B, n, n), pivots (*B, n), int32, and
# info (*B): the number of the first block of D that is singular, or 0
ldl = define(
    "ldl", weight=60, multiple=True, spec=_spec, saves=(0, 1), torch_name="LinalgLdlFactorEx",
    jvp=_jvp,
    vjp=_vjp,
    batch=stacked(lambda: ldl),
    sample=_sample,
    sharding=factors.einsum("...__->...__,..._,..."),
)  # fmt: skip


def solved(packed, pivots, b, hermitian):
    """The x with a x = b, by the factorisation of a."""
    order, places, blocks = ldl_order(pivots)
    low, middle = unpacked(packed, places, blocks, hermitian)
    x = solve(middle, _of_low(low, rows(b, order), True))[0]
    x = _of_low(conjugate(low) if hermitian else low, x, True, True)
    return back_in_place(x, order)
