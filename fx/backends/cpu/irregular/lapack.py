"""Loops over stacks of matrices that LAPACK and BLAS factor and solve, called by address.

Matrices lie in row-major order, and LAPACK reads the transpose of each: what a kernel asks for is
the answer for that. ``threads`` holds OpenBLAS to one thread meanwhile (``lapack/door.py``).
"""

from math import log

from numpy import int64, nan

from fx.backends.cpu.irregular.language import (
    ARRAY,
    INT,
    INT32S,
    INT64S,
    PARTS,
    as_int32s,
    call,
    count_of,
    exchange,
    inline,
    like,
    offset,
    set_count,
    width_of,
)

_L, _U, _R, _N, _T = 76, 85, 82, 78, 84  # characters
LOCK, RUNNING, BEFORE, GET, SET = range(5)  # words of ``threads``


@inline
def enter(threads):
    """From here to ``leave`` OpenBLAS runs on the calling thread."""
    while exchange(offset(threads, LOCK), int64(1)):
        pass
    if threads[RUNNING] == 0 and threads[GET] != 0:
        threads[BEFORE] = count_of(threads[GET])
        if threads[BEFORE] > 1:
            set_count(threads[SET], int64(1))
    threads[RUNNING] += 1
    exchange(offset(threads, LOCK), int64(0))


@inline
def leave(threads):
    """The last one puts back what the setting was."""
    while exchange(offset(threads, LOCK), int64(1)):
        pass
    threads[RUNNING] -= 1
    if threads[RUNNING] == 0 and threads[GET] != 0 and threads[BEFORE] > 1:
        set_count(threads[SET], threads[BEFORE])
    exchange(offset(threads, LOCK), int64(0))


def cholesky(begin, end, a: ARRAY, out: ARRAY, info: INT32S, n: INT, potrf: INT, threads: INT64S):
    """The lower factors L of a = L L^H, and in ``info`` the order of the first bad minor, or 0.

    Of a the lower triangle is read; a factor that there is not is NaN. A task is a matrix.
    """
    enter(threads)
    for m in range(begin, end):
        x, y = offset(a, m * n * n), offset(out, m * n * n)
        for i in range(n):
            for j in range(i + 1):
                y[i * n + j] = x[i * n + j]
            for j in range(i + 1, n):
                y[i * n + j] = 0
        call(potrf, (_U, n, y, max(n, 1), offset(info, m)))
        for i in range(n):  # OpenBLAS asks whether a pivot is at most 0, which NaN is not
            if info[m] == 0 and y[i * n + i] != y[i * n + i]:
                info[m] = i + 1
        if info[m] != 0:
            nothing = like(a, nan)
            for i in range(n):
                for j in range(i + 1):
                    y[i * n + j] = nothing
    leave(threads)


# fmt: off
def triangular_solve(
    begin, end, a: ARRAY, b: ARRAY, out: ARRAY, rows: INT, columns: INT, left: INT, lower: INT,
    transposed: INT, unit: INT, trsm: INT, threads: INT64S,
):
    # fmt: on
    """The solutions X (rows, columns) of A X = B, or X A = B where it is not ``left``.

    A is a triangle, or its transpose. A task is a pair of matrices.
    """
    n = rows if left else columns
    enter(threads)
    for m in range(begin, end):
        x, y = offset(b, m * rows * columns), offset(out, m * rows * columns)
        for i in range(rows * columns):
            y[i] = x[i]
        call(trsm, (
            _R if left else _L, _U if lower else _L, _T if transposed else _N,
            85 if unit else _N, columns, rows, like(a, 1.0), offset(a, m * n * n), max(n, 1),
            y, max(columns, 1),
        ))
    leave(threads)


@inline
def own_part(area, begin, room, chunk):
    """The part of an area of scratch memory that belongs to the tasks from ``begin`` on."""
    return offset(area, begin // chunk * room * 128 // width_of(area))


@inline
def _transposed(x, y, m, n):
    """y (n, m) from x (m, n)."""
    for i in range(m):
        for j in range(n):
            y[j * m + i] = x[i * n + j]


@inline
def _fill(x, count, value):
    for i in range(count):
        x[i] = value


# fmt: off
def lu(
    begin, end, a: ARRAY, out: ARRAY, pivots: INT32S, order: INT64S, info: INT32S, m: INT, n: INT,
    getrf: INT, threads: INT64S, work: ARRAY, room: INT, chunk: INT,
):
    # fmt: on
    """L below and U on and above the diagonal, P a = L U; a task is a matrix (m, n).

    Row i was exchanged with row ``pivots[i]``, so that a's rows in ``order`` are those of L U.
    ``info`` is the number of the first 0 on U's diagonal, from 1 on, or 0.
    """
    k = min(m, n)
    own = own_part(work, begin, room, chunk)  # (n, m)
    enter(threads)
    for t in range(begin, end):
        swaps, rows = offset(pivots, t * k), offset(order, t * m)
        _transposed(offset(a, t * m * n), own, m, n)
        call(getrf, (m, n, own, max(m, 1), swaps, offset(info, t)))
        _transposed(own, offset(out, t * m * n), n, m)
        for i in range(m):
            rows[i] = i
        for i in range(k):
            swaps[i] -= 1
            rows[i], rows[swaps[i]] = rows[swaps[i]], rows[i]
    leave(threads)


# fmt: off
def lu_solve(
    begin, end, a: ARRAY, order: INT64S, b: ARRAY, out: ARRAY, n: INT, k: INT, transposed: INT,
    trsm: INT, threads: INT64S, work: ARRAY, room: INT, chunk: INT,
):
    # fmt: on
    """x (n, k) with A x = b, or A' x = b: ``a`` and ``order`` are those that ``lu`` gives of A.

    NaN where U has a 0 on its diagonal, and of rows that the order lacks. A task is a pair of
    matrices.
    """
    own, one = own_part(work, begin, room, chunk), like(a, 1.0)  # (n, k)
    enter(threads)
    for t in range(begin, end):
        factors, rows = offset(a, t * n * n), offset(order, t * n)
        x, y = offset(b, t * n * k), offset(out, t * n * k)
        for i in range(n):
            at = i if transposed else rows[i]
            for j in range(k):
                own[i * k + j] = x[at * k + j] if 0 <= at < n else like(a, nan)
        for half in range(2):
            unit = half == (transposed != 0)  # L
            call(trsm, (
                _R, _U if unit else _L, _T if transposed else _N, 85 if unit else _N, k, n, one,
                factors, max(n, 1), own, max(k, 1),
            ))
        for i in range(n):
            if factors[i * n + i] == 0:
                _fill(own, n * k, like(a, nan))
        _fill(y, n * k, like(a, nan))
        for i in range(n):
            at = rows[i] if transposed else i
            if 0 <= at < n:
                for j in range(k):
                    y[at * k + j] = own[i * k + j]
    leave(threads)


# fmt: off
def solve(
    begin, end, a: ARRAY, b: ARRAY, out: ARRAY, info: INT32S, n: INT, k: INT, gesv: INT,
    threads: INT64S, work: ARRAY, room: INT, chunk: INT,
):
    # fmt: on
    """x (n, k) with a x = b, NaN where a is singular; a task is a pair of matrices."""
    own = own_part(work, begin, room, chunk)  # (n, n)
    side = offset(own, n * n)  # (k, n)
    swaps = as_int32s(offset(side, n * k))
    enter(threads)
    for t in range(begin, end):
        _transposed(offset(a, t * n * n), own, n, n)
        _transposed(offset(b, t * n * k), side, n, k)
        call(gesv, (n, k, own, n, swaps, side, n, offset(info, t)))
        if info[t] != 0:
            _fill(side, n * k, like(a, nan))
        _transposed(side, offset(out, t * n * k), k, n)
    leave(threads)


# fmt: off
def inv(
    begin, end, a: ARRAY, out: ARRAY, info: INT32S, n: INT, gesv: INT, threads: INT64S,
    work: ARRAY, room: INT, chunk: INT,
):
    # fmt: on
    """The inverse, NaN where a is singular; a task is a matrix."""
    own = own_part(work, begin, room, chunk)
    side = offset(own, n * n)
    swaps = as_int32s(offset(side, n * n))
    enter(threads)
    for t in range(begin, end):
        _transposed(offset(a, t * n * n), own, n, n)
        _fill(side, n * n, like(a, 0.0))
        for i in range(n):
            side[i * n + i] = like(a, 1.0)
        call(gesv, (n, n, own, n, swaps, side, n, offset(info, t)))
        if info[t] != 0:
            _fill(side, n * n, like(a, nan))
        _transposed(side, offset(out, t * n * n), n, n)
    leave(threads)


@inline
def _factors(a, own, swaps, n, getrf):
    """U on and above the diagonal of ``own``, of columns; the sign of the exchanges of rows."""
    _transposed(a, own, n, n)
    call(getrf, (n, n, own, n, swaps, offset(swaps, n)))
    sign = 1
    for i in range(n):
        if swaps[i] != i + 1:
            sign = -sign
    return sign


# fmt: off
def det(
    begin, end, a: ARRAY, out: ARRAY, n: INT, getrf: INT, threads: INT64S, work: ARRAY, room: INT,
    chunk: INT,
):
    # fmt: on
    """The determinant; a task is a matrix."""
    own = own_part(work, begin, room, chunk)
    swaps = as_int32s(offset(own, n * n))
    enter(threads)
    for t in range(begin, end):
        found = like(a, _factors(offset(a, t * n * n), own, swaps, n, getrf))
        for i in range(n):
            found *= own[i * n + i]
        out[t] = found
    leave(threads)


# fmt: off
def slogdet(
    begin, end, a: ARRAY, signs: ARRAY, logs: PARTS, n: INT, getrf: INT, threads: INT64S,
    work: ARRAY, room: INT, chunk: INT,
):
    # fmt: on
    """The sign of the determinant, and the logarithm of its size; a task is a matrix."""
    own = own_part(work, begin, room, chunk)
    swaps = as_int32s(offset(own, n * n))
    enter(threads)
    for t in range(begin, end):
        sign = like(a, _factors(offset(a, t * n * n), own, swaps, n, getrf))
        total = abs(sign) - abs(sign)
        for i in range(n):
            x = own[i * n + i]
            size = abs(x)
            total += log(size)
            sign = sign * (x / like(a, size)) if size != 0 else like(a, 0.0)
        signs[t], logs[t] = sign, total
    leave(threads)


def order_of(begin, end, pivots: ARRAY, order: INT64S, k: INT, m: INT):
    """The order of m rows behind k exchanges; a task is an order. Numbers beyond m do nothing."""
    for t in range(begin, end):
        swaps, rows = offset(pivots, t * k), offset(order, t * m)
        for i in range(m):
            rows[i] = i
        for i in range(k):
            other = int64(swaps[i])
            if 0 <= other < m:
                rows[i], rows[other] = rows[other], rows[i]
