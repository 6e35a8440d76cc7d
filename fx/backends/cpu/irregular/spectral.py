"""Loops over stacks of matrices whose QR, eigenvalues or singular values LAPACK finds.

As in ``lapack.py`` LAPACK reads the transpose of a matrix in row-major order. For QR and SVD that
is just as good: of x' = L Q comes x = Q' L', of x' = a s b comes x = b' s a', and these factors lie
in memory as they should. Elsewhere matrices are turned in place.

Scratch memory comes as typed pointers to its areas, with ``room`` units of 16 bytes for each
``chunk`` tasks. ``info`` is not 0 where nothing was found, and results are NaN there. LAPACK may
not come back from a matrix that holds NaN, and does not get it: eigenvalues of a Hermitian one are
NaN, as PyTorch's are, and the others have none.
"""

import numpy as np

from fx.backends.cpu.irregular.language import (
    ARRAY,
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

_A, _N, _S, _U, _V = 65, 78, 83, 85, 86  # characters
NOT_FINITE = -1  # what info says


@inline
def copied(x, y, count):
    for i in range(count):
        y[i] = x[i]


@inline
def filled(x, count, number):
    for i in range(count):
        x[i] = like(x, number)


@inline
def finite(x, n, m, lower):
    """Whether all elements of a matrix (n, m), or of its lower triangle, are."""
    total = x[0] * 0
    for i in range(n):
        for j in range(i + 1 if lower else m):
            total += x[i * m + j] * 0
    return total == 0


@inline
def _adjoint(x, n):
    """A matrix (n, n) is turned in place."""
    for i in range(n):
        for j in range(i):
            above, below = np.conj(x[i * n + j]), np.conj(x[j * n + i])
            x[i * n + j] = below
            x[j * n + i] = above
        x[i * n + i] = np.conj(x[i * n + i])


@inline
def qr_of(x, q, r, m, n, k, gelqf, orglq, size, given, info):
    """x (m, n) -> q (m, k), r (k, n). ``given`` holds a matrix, min(m, n) and ``size`` elements."""
    few = min(m, n)
    tau = offset(given, m * n)
    more = offset(tau, few)
    copied(x, given, m * n)
    call(gelqf, (n, m, given, n, tau, more, size, info))
    for i in range(k):
        for j in range(n):
            r[i * n + j] = given[i * n + j] if i <= j else like(x, 0.0)
    for j in range(m):
        for i in range(k):
            q[i + k * j] = given[i + n * j] if i < few else like(x, 0.0)
    call(orglq, (k, m, few, q, k, tau, more, size, info))


# fmt: off
def qr(
    begin, end, x: ARRAY, q: ARRAY, r: ARRAY, m: INT, n: INT, k: INT, gelqf: INT, orglq: INT,
    size: INT, work: ARRAY, status: INT32S, room: INT, chunk: INT, threads: INT64S,
):
    # fmt: on
    """As ``qr_of``; a task is a matrix."""
    given, info = own_part(work, begin, room, chunk), own_part(status, begin, room, chunk)
    enter(threads)
    for t in range(begin, end):
        qr_of(
            offset(x, t * m * n), offset(q, t * m * k), offset(r, t * k * n), m, n, k, gelqf,
            orglq, size, given, info,
        )  # fmt: skip
    leave(threads)


@inline
def leaning(x, count, step):
    """A number whose sign tells which of a real vector and its opposite this is.

    Vectors that are found in other ways have other signs. This makes one sign of them, with weights
    that are no sums of others, so that numbers of one size do not cancel.
    """
    total = 0.0
    for i in range(count):
        total += np.sqrt(i + 1.0) * x[i * step].real
    return total


@inline
def _negated(x, count, step):
    for i in range(count):
        x[i * step] = -x[i * step]


# fmt: off
@inline
def eigh_of(
    x, w, v, status, n, vectors, syevd, size, reals, integers, more, middle, counts
):
    # fmt: on
    """Of the lower triangle of x (n, n) the eigenvalues w (n), and if told the eigenvectors v.

    Of scratch so many elements, real numbers where they are complex, and integers; without
    vectors a matrix (n, n) before the elements.
    """
    a = v if vectors else more
    more = more if vectors else offset(more, n * n)
    kind = _V if vectors else _N
    copied(x, a, n * n)
    status[0] = 0
    sound = finite(x, n, n, True)
    if sound:
        if width_of(x) == width_of(w):
            call(syevd, (kind, _U, n, a, n, w, more, size, counts, integers, status))
        else:
            call(syevd, (
                kind, _U, n, a, n, w, more, size, middle, reals, counts, integers, status,
            ))  # fmt: skip
    if not sound or status[0] != 0:
        filled(w, n, np.nan)
        filled(a, n * n, np.nan)
    elif vectors:
        _adjoint(a, n)
        if width_of(x) == width_of(w):
            for j in range(n):
                if leaning(offset(a, j), n, n) < 0:
                    _negated(offset(a, j), n, n)


# fmt: off
def eigh(
    begin, end, x: ARRAY, w: PARTS, v: ARRAY, info: INT32S, n: INT, vectors: INT, syevd: INT,
    size: INT, reals: INT, integers: INT, work: ARRAY, parts: PARTS, places: INT32S, room: INT,
    chunk: INT, threads: INT64S,
):
    # fmt: on
    """As ``eigh_of``; a task is a matrix."""
    more = own_part(work, begin, room, chunk)
    middle, counts = own_part(parts, begin, room, chunk), own_part(places, begin, room, chunk)
    enter(threads)
    for t in range(begin, end):
        eigh_of(
            offset(x, t * n * n), offset(w, t * n), offset(v, t * n * n if vectors else 0),
            offset(info, t), n, vectors, syevd, size, reals, integers, more, middle, counts,
        )  # fmt: skip
    leave(threads)


# fmt: off
@inline
def svd_of(
    x, u, s, vh, status, m, n, ku, kv, vectors, gesdd, size, given, middle, counts
):
    # fmt: on
    """x (m, n) -> s (min(m, n)), and if told u (m, ku), vh (kv, n).

    Of scratch a matrix and ``size`` elements, and what LAPACK takes of real numbers and integers.
    """
    few = min(m, n)
    more = offset(given, m * n)
    kind = _N if vectors == 0 else _S if ku == few and kv == few else _A
    copied(x, given, m * n)
    status[0] = NOT_FINITE
    if finite(given, m, n, False):
        if width_of(x) == width_of(s):
            call(gesdd, (kind, n, m, given, n, s, vh, n, u, ku, more, size, counts, status))
        else:
            call(gesdd, (
                kind, n, m, given, n, s, vh, n, u, ku, more, size, middle, counts, status,
            ))  # fmt: skip
    if status[0] != 0:
        filled(s, few, np.nan)
        if vectors:
            filled(u, m * ku, np.nan)
            filled(vh, kv * n, np.nan)
    elif vectors and width_of(x) == width_of(s):
        for j in range(few):
            if leaning(offset(vh, j * n), n, 1) < 0:
                _negated(offset(vh, j * n), n, 1)
                _negated(offset(u, j), m, ku)


# fmt: off
def svd(
    begin, end, x: ARRAY, u: ARRAY, s: PARTS, vh: ARRAY, info: INT32S, m: INT, n: INT, ku: INT,
    kv: INT, vectors: INT, gesdd: INT, size: INT, work: ARRAY, parts: PARTS, places: INT32S,
    room: INT, chunk: INT, threads: INT64S,
):
    # fmt: on
    """As ``svd_of``; a task is a matrix."""
    few = min(m, n)
    given, middle = own_part(work, begin, room, chunk), own_part(parts, begin, room, chunk)
    counts = own_part(places, begin, room, chunk)
    enter(threads)
    for t in range(begin, end):
        svd_of(
            offset(x, t * m * n), offset(u, t * m * ku), offset(s, t * few), offset(vh, t * kv * n),
            offset(info, t), m, n, ku, kv, vectors, gesdd, size, given, middle, counts,
        )  # fmt: skip
    leave(threads)


@inline
def _in_range(x, count, narrow):
    """What brings numbers into a range that LAPACK need not scale: a power of two, 1 if they are.

    Some builds of geev scale matrices of very small or large numbers and give the eigenvalues of
    what they made of them.
    """
    largest, factor = 0.0, 1.0
    for i in range(count):
        largest = max(largest, abs(x[i].real), abs(x[i].imag))
    low, high = (1e-11, 1e11) if narrow else (1e-130, 1e130)
    if largest > 0 and largest < low:
        while largest * factor < low:
            factor *= 1048576.0
    elif largest > high and largest - largest == 0:
        while largest * factor > high:
            factor /= 1048576.0
    return factor


# fmt: off
def eig(
    begin, end, x: ARRAY, w: PARTS, v: PARTS, info: INT32S, n: INT, vectors: INT, geev: INT,
    size: INT, work: ARRAY, parts: PARTS, room: INT, chunk: INT, threads: INT64S,
):
    # fmt: on
    """x (n, n) -> the complex eigenvalues w (n), and if told the eigenvectors v (n, n).

    Results are pairs of real numbers. Of scratch three matrices and ``size`` elements, and 2 n real
    numbers.
    """
    given = own_part(work, begin, room, chunk)
    found = offset(given, n * n)
    values = offset(found, n * n)
    more = offset(values, 2 * n)
    middle = own_part(parts, begin, room, chunk)
    kind = _V if vectors else _N
    enter(threads)
    for t in range(begin, end):
        for i in range(n):
            for j in range(n):
                given[j * n + i] = x[t * n * n + i * n + j]
        factor = _in_range(given, n * n, width_of(w) == 32)
        if factor != 1:
            for i in range(n * n):
                given[i] = given[i] * factor
        status, places, out = offset(info, t), offset(w, 2 * t * n), offset(v, 2 * t * n * n)
        status[0] = NOT_FINITE
        if finite(given, n, n, False):
            if width_of(x) == width_of(w):
                call(geev, (
                    _N, kind, n, given, n, values, offset(values, n), given, n, found, n, more,
                    size, status,
                ))
            else:
                call(geev, (
                    _N, kind, n, given, n, values, given, n, found, n, more, size, middle, status,
                ))
        if status[0] != 0:
            filled(places, 2 * n, np.nan)
            if vectors:
                filled(out, 2 * n * n, np.nan)
        elif width_of(x) == width_of(w):
            _pairs(values, found, places, out, n, vectors)
        else:
            for j in range(n):
                places[2 * j], places[2 * j + 1] = values[j].real, values[j].imag
                for i in range(n if vectors else 0):
                    out[2 * (i * n + j)] = found[j * n + i].real
                    out[2 * (i * n + j) + 1] = found[j * n + i].imag
        if factor != 1:
            for i in range(2 * n):
                places[i] = places[i] / factor
    leave(threads)


@inline
def _pairs(values, found, places, out, n, vectors):
    """Complex numbers from the real ones that LAPACK gives for real matrices.

    A pair of conjugate eigenvalues has the real and the imaginary part of its first vector in two
    columns.
    """
    second = False
    for j in range(n):
        imaginary = values[n + j].real
        places[2 * j], places[2 * j + 1] = values[j].real, imaginary
        sign = -1.0 if second else 1.0
        first = j - 1 if second else j
        for i in range(n if vectors else 0):
            out[2 * (i * n + j)] = found[first * n + i].real
            part = found[(first + 1) * n + i].real if imaginary != 0 else found[0].real * 0
            out[2 * (i * n + j) + 1] = sign * part
        second = imaginary != 0 and not second
