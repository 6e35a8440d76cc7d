"""Loops over stacks of matrices: pseudo-inverses and exponentials, of what LAPACK and BLAS give.

Scratch memory is as in ``spectral.py``, and so is the order of elements: LAPACK reads transposes.
"""

import numpy as np

from fx.backends.cpu.irregular.language import (
    ARRAY,
    FLOAT,
    INT,
    INT32S,
    INT64S,
    PARTS,
    call,
    inline,
    like,
    offset,
    width_of,
)
from fx.backends.cpu.irregular.lapack import enter, leave, own_part
from fx.backends.cpu.irregular.spectral import NOT_FINITE, copied, filled, finite

_N, _S, _T = 78, 83, 84  # characters


# fmt: off
def pinv(
    begin, end, x: ARRAY, out: ARRAY, rank: INT64S, info: INT32S, m: INT, n: INT,
    rtol: FLOAT, atol: FLOAT, gesdd: INT, gemm: INT, size: INT, work: ARRAY, parts: PARTS,
    places: INT32S, room: INT, chunk: INT, threads: INT64S,
):
    # fmt: on
    """x (m, n) -> out (n, m), from its singular values above max(atol, rtol * the largest).

    ``rank`` tells how many there are.
    """
    few = min(m, n)
    given = own_part(work, begin, room, chunk)
    u = offset(given, m * n)
    vh = offset(u, m * few)
    more = offset(vh, few * n)
    s = own_part(parts, begin, room, chunk)
    middle, counts = offset(s, few), own_part(places, begin, room, chunk)
    enter(threads)
    for t in range(begin, end):
        status, found = offset(info, t), offset(out, t * m * n)
        copied(offset(x, t * m * n), given, m * n)
        status[0], rank[t] = NOT_FINITE, 0
        if finite(given, m, n, False):
            if width_of(x) == width_of(s):
                call(gesdd, (_S, n, m, given, n, s, vh, n, u, few, more, size, counts, status))
            else:
                call(gesdd, (
                    _S, n, m, given, n, s, vh, n, u, few, more, size, middle, counts, status,
                ))
        if status[0] != 0:
            filled(found, m * n, np.nan)
        else:
            cut = max(atol, rtol * s[0])
            for i in range(few):
                kept = s[i] > cut
                rank[t] += kept
                factor = like(s, 1.0 / s[i] if kept else 0.0)
                for j in range(n):
                    vh[i * n + j] = vh[i * n + j] * factor
            one, none = like(x, 1.0), like(x, 0.0)
            call(gemm, (_T, _T, m, n, few, one, u, few, vh, n, none, found, m))
            for i in range(m * n):
                found[i] = np.conj(found[i])
    leave(threads)


@inline
def _product(gemm, x, y, out, n):
    call(gemm, (_N, _N, n, n, n, like(x, 1.0), x, n, y, n, like(x, 0.0), out, n))


@inline
def _mix(out, n, two, four, six, a, b, c, d):
    """a x^2 + b x^4 + c x^6 + d."""
    a, b, c = like(out, a), like(out, b), like(out, c)
    for i in range(n * n):
        out[i] = a * two[i] + b * four[i] + c * six[i]
    for i in range(n):
        out[i * n + i] += like(out, d)


_ENOUGH = 5.371920351148152  # up to this norm the approximant of degree 13 is exact to float64


# fmt: off
def matrix_exp(
    begin, end, x: ARRAY, out: ARRAY, n: INT, gemm: INT, gesv: INT, work: ARRAY, pivots: INT32S,
    room: INT, chunk: INT, threads: INT64S,
):
    # fmt: on
    """x (n, n) -> out: x is halved until it is small, and the approximant's exponential squared.

    N. J. Higham, The scaling and squaring method for the matrix exponential revisited, 2005. Of
    scratch seven matrices, and n + 1 integers.
    """
    a = own_part(work, begin, room, chunk)
    two, four, six = offset(a, n * n), offset(a, 2 * n * n), offset(a, 3 * n * n)
    odd, even, more = offset(a, 4 * n * n), offset(a, 5 * n * n), offset(a, 6 * n * n)
    places = own_part(pivots, begin, room, chunk)
    info = offset(places, n)
    enter(threads)
    for t in range(begin, end):
        given, found = offset(x, t * n * n), offset(out, t * n * n)
        norm, factor, times = 0.0, 1.0, 0
        for i in range(n):
            total = 0.0
            for j in range(n):
                total += abs(given[i * n + j])
            norm = max(norm, total)
        if not finite(given, n, n, False) or norm == np.inf:
            filled(found, n * n, np.nan)
            continue
        while norm * factor > _ENOUGH:
            factor *= 0.5
            times += 1
        scale = like(x, factor)
        for i in range(n * n):
            a[i] = given[i] * scale
        _product(gemm, a, a, two, n)
        _product(gemm, two, two, four, n)
        _product(gemm, two, four, six, n)
        _mix(more, n, two, four, six, 40840800.0, 16380.0, 1.0, 0.0)
        _product(gemm, six, more, odd, n)
        _mix(more, n, two, four, six, 1187353796428800.0, 10559470521600.0, 33522128640.0,
             32382376266240000.0)
        for i in range(n * n):
            more[i] += odd[i]
        _product(gemm, a, more, odd, n)
        _mix(more, n, two, four, six, 1323241920.0, 960960.0, 182.0, 0.0)
        _product(gemm, six, more, even, n)
        _mix(more, n, two, four, six, 7771770303897600.0, 129060195264000.0, 670442572800.0,
             64764752532480000.0)
        for i in range(n * n):
            even[i] += more[i]
            more[i] = even[i] - odd[i]
            even[i] += odd[i]
        call(gesv, (n, n, more, n, places, even, n, info))
        for _ in range(times):
            _product(gemm, even, even, odd, n)
            copied(odd, even, n * n)
        copied(even, found, n * n)
    leave(threads)
