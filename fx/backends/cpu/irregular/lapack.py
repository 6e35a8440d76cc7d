"""Loops over stacks of matrices that LAPACK and BLAS factor and solve, called by address.

Matrices lie in row-major order, and LAPACK reads the transpose of each: what a kernel asks for is
the answer for that. ``threads`` holds OpenBLAS to one thread meanwhile (``lapack/door.py``).
"""

from numpy import int64, nan

from fx.backends.cpu.irregular.language import (
    ARRAY,
    INT,
    INT32S,
    INT64S,
    call,
    count_of,
    exchange,
    inline,
    like,
    offset,
    set_count,
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
