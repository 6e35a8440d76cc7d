"""SciPy's functions of matrices, a matrix at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

Matrix = np.ndarray[Any, Any]


def _each(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of matrices as one of stacks; one of no matrices gives what one of ones would."""

    @wraps(function)
    def stacked(*stacks: Matrix, **params: Any) -> Any:
        if stacks[0].dtype.itemsize < 4:  # SciPy would convert it, and compiled code has none
            raise TypeError(f"LAPACK has no {stacks[0].dtype.name}")
        lead = stacks[0].shape[:-2]
        found = [function(*[s[i] for s in stacks], **params) for i in np.ndindex(lead)]
        if not found:
            some = function(*[np.zeros(s.shape[-2:], s.dtype) for s in stacks], **params)
            none = [np.zeros((*lead, *np.shape(x)), np.asarray(x).dtype) for x in some]
            return (
                tuple(none)
                if isinstance(some, tuple)
                else np.zeros((*lead, *some.shape), some.dtype)
            )
        if isinstance(found[0], tuple):
            return tuple(_stack(part, lead) for part in zip(*found, strict=True))
        return _stack(found, lead)

    return stacked


def _stack(found: Any, lead: tuple[int, ...]) -> Matrix:
    return np.stack(found).reshape((*lead, *np.shape(found[0])))


@_each
def matrix_function(x: Matrix, *, function: str) -> Matrix:
    """``sqrtm`` or ``logm``; NaN where that of a real matrix is not real, or there is none."""
    import scipy.linalg

    nothing = np.full_like(x, np.nan)
    if not np.isfinite(x).all():
        return nothing
    if not x.size:
        return x.copy()
    wide = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    with np.errstate(all="ignore"):
        if function == "logm":
            if not np.linalg.slogdet(wide)[0]:  # of which SciPy gives that of one close to it
                return nothing
            found = np.asarray(scipy.linalg.logm(wide))
        else:
            found = np.asarray(scipy.linalg.sqrtm(wide))
    if not np.isfinite(found).all():
        return nothing
    if x.dtype.kind != "c" and found.dtype.kind == "c":
        if np.abs(found.imag).max() > 1e-10 * np.abs(found).max():
            return nothing
        found = found.real
    return found.astype(x.dtype)


@_each
def sylvester(a: Matrix, b: Matrix, q: Matrix) -> Matrix:
    """The x with a x + x b = q; NaN where there is none."""
    import scipy.linalg

    if not q.size:
        return q.copy()
    try:
        return np.asarray(scipy.linalg.solve_sylvester(a, b, q)).astype(q.dtype)
    except (ValueError, np.linalg.LinAlgError):
        return np.full_like(q, np.nan)


@_each
def solve_banded(bands: Matrix, b: Matrix, *, upper: int) -> Matrix:
    """The solution by LAPACK's gbsv; NaN where the matrix is singular."""
    import scipy.linalg

    if not b.size:
        return b.copy()
    below = bands.shape[0] - 1 - upper
    try:
        found = scipy.linalg.solve_banded((below, upper), bands, b, check_finite=False)
    except np.linalg.LinAlgError:
        return np.full_like(b, np.nan)
    return np.asarray(found).astype(b.dtype)


@_each
def decomposition(x: Matrix, *, kind: str) -> tuple[Matrix, Matrix]:
    """Packed reflectors and their factors, or Hessenberg's or Schur's form with its vectors."""
    import scipy.linalg

    if kind == "geqrf":
        if not x.size:
            return x.copy(), np.zeros(min(x.shape), x.dtype)
        (geqrf,) = scipy.linalg.get_lapack_funcs(("geqrf",), (x,))
        packed, tau, _, _ = geqrf(x)
        return packed, tau
    if not x.size or not np.isfinite(x).all():
        return np.full_like(x, np.nan), np.full_like(x, np.nan)
    found = scipy.linalg.schur(x) if kind == "schur" else scipy.linalg.hessenberg(x, calc_q=True)
    form, vectors = (part.astype(x.dtype) for part in found)  # those of one element are float64
    return form, vectors


@_each
def ldl(a: Matrix, *, hermitian: bool) -> tuple[Matrix, Matrix, Matrix]:
    """LAPACK's sytrf, or hetrf, of the lower triangle."""
    import scipy.linalg

    if a.shape[0] != a.shape[1]:  # SciPy's own call would write outside of its memory
        raise ValueError(f"ldl takes square matrices, got {a.shape}")
    if not a.size:
        return a.copy(), np.zeros(len(a), np.int32), np.int32(0)
    name = "hetrf" if hermitian and a.dtype.kind == "c" else "sytrf"
    (factor,) = scipy.linalg.get_lapack_funcs((name,), (a,))
    packed, pivots, info = factor(a, lower=True)
    return np.tril(packed), pivots.astype(np.int32), np.int32(info)


def ldl_order(pivots: Matrix) -> tuple[Matrix, Matrix, Matrix]:
    """How a packed factorisation is read, by its exchanges."""
    n = pivots.shape[-1]
    order = np.broadcast_to(np.arange(n), pivots.shape).copy()
    places = np.broadcast_to(np.arange(n)[:, None], (*pivots.shape, n)).copy()
    blocks = order.copy()
    for at in np.ndindex(pivots.shape[:-1]):
        i = 0
        while i < n:
            pivot = int(pivots[at][i])
            two = pivot < 0 and i + 1 < n
            pair = [i + two, min(max(abs(pivot), 1), n) - 1]
            order[at][pair] = order[at][pair[::-1]]
            places[at][pair, :i] = places[at][pair[::-1], :i]
            if two:
                blocks[at][i + 1] = i
            i += 1 + two
    return order, places, blocks


@_each
def generalized_schur(a: Matrix, b: Matrix, *, sort: Any) -> tuple[Matrix, ...]:
    """LAPACK's gges and tgsen: of a pair, with the eigenvalues that ``sort`` takes in front."""
    import scipy.linalg

    n, wide = len(a), np.result_type(a.dtype, np.complex64)
    if not a.size or not (np.isfinite(a).all() and np.isfinite(b).all()):
        nothing = np.full_like(a, np.nan)
        values = np.full(n, np.nan, a.dtype)
        return nothing, nothing, values.astype(wide), values, nothing, nothing
    output = "complex" if a.dtype.kind == "c" else "real"
    # without an order that of all eigenvalues is kept
    order = (lambda alpha, beta: np.ones(np.shape(alpha), bool)) if sort is None else sort
    s, t, alpha, beta, q, z = scipy.linalg.ordqz(a, b, order, output)
    return (
        *(x.astype(a.dtype) for x in (s, t)), np.asarray(alpha).astype(wide),
        *(np.asarray(x).astype(a.dtype) for x in (beta, q, z)),
    )  # fmt: skip


@_each
def cossin(x: Matrix, *, p: int, q: int, swap_sign: bool) -> tuple[Matrix, Matrix, Matrix]:
    """LAPACK's orcsd or uncsd; NaN where numbers are not finite."""
    import scipy.linalg

    m = len(x)
    real = x.real.dtype
    if not np.isfinite(x).all():
        angles = np.full(min(p, q, m - p, m - q), np.nan, real)
        return np.full_like(x, np.nan), angles, np.full_like(x, np.nan)
    if not x.any():  # one of no matrices
        return x.copy(), np.zeros(min(p, q, m - p, m - q), real), x.copy()
    (u1, u2), theta, (v1, v2) = scipy.linalg.cossin(x, p, q, True, swap_sign)
    u, vh = scipy.linalg.block_diag(u1, u2), scipy.linalg.block_diag(v1, v2)
    return u.astype(x.dtype), theta.astype(real), vh.astype(x.dtype)


@_each
def balance(x: Matrix, *, permute: bool, scale: bool) -> tuple[Matrix, Matrix]:
    """LAPACK's gebal: factors and an order of rows and columns."""
    import scipy.linalg

    n = len(x)
    if not x.size or not np.isfinite(x).all():
        return np.ones(n, x.real.dtype), np.arange(n)
    _, (factor, order) = scipy.linalg.matrix_balance(x, permute, scale, separate=True)
    return factor.astype(x.real.dtype), order.astype(np.int64)
