"""Reflections of many small real matrices, side by side in the lanes of vectors: QR.

A reflector 1 - tau v v' is as LAPACK's: it has v_j = 1, and the rest of v below it in a column of
the matrix that it clears. A matrix whose squares are too small, too large or not finite LAPACK gets.
"""

from fx.backends.cpu.irregular.elimination import stride
from fx.backends.cpu.irregular.lane_memory import lanes, packed, unpacked
from fx.backends.cpu.irregular.language import ARRAY, INT, INT32S, INT64S, inline, offset, width_of
from fx.backends.cpu.irregular.lapack import enter, leave, own_part
from fx.backends.cpu.irregular.spectral import qr_of
from fx.backends.cpu.irregular.vectors import (
    any_of,
    pick,
    read,
    root,
    size_of,
    spread,
    with_sign,
    write,
)


@inline
def at(s, i):
    """Vector i."""
    return offset(s, i * lanes(s))


@inline
def reflector(s, row, step, begin, m):
    """What makes column ``step`` of s (m, columns) zero below row ``begin``.

    The rest of v is put there, and what is left above it. Returns tau, the sum of the squares, and
    where there is nothing to be cleared.
    """
    one, none = spread(s, 1.0), spread(s, 0.0)
    place = at(s, begin * row + step)
    alpha = read(place)
    total, sizes = none, none
    for i in range(begin + 1, m):
        x = read(at(s, i * row + step))
        total, sizes = total + x * x, sizes + size_of(x)
    total = total + alpha * alpha
    clean = sizes == none
    beta = pick(clean, alpha, none - with_sign(root(total), alpha))
    tau = pick(clean, none, (beta - alpha) / beta)
    scale = pick(clean, none, one / (alpha - beta))
    write(place, beta)
    for i in range(begin + 1, m):
        x = at(s, i * row + step)
        write(x, read(x) * scale)
    return tau, total, clean


@inline
def reflected(s, row, step, begin, m, tau, t, t_row, first, last):
    """Columns of t from ``first`` to ``last`` behind a reflector in column ``step`` of s."""
    fours = last - (last - first) % 4
    for c in range(first, fours, 4):
        top = at(t, begin * t_row + c)
        w0, w1, w2, w3 = read(top), read(at(top, 1)), read(at(top, 2)), read(at(top, 3))
        for i in range(begin + 1, m):
            v, x = read(at(s, i * row + step)), at(t, i * t_row + c)
            w0, w1 = w0 + v * read(x), w1 + v * read(at(x, 1))
            w2, w3 = w2 + v * read(at(x, 2)), w3 + v * read(at(x, 3))
        w0, w1, w2, w3 = w0 * tau, w1 * tau, w2 * tau, w3 * tau
        write(top, read(top) - w0)
        write(at(top, 1), read(at(top, 1)) - w1)
        write(at(top, 2), read(at(top, 2)) - w2)
        write(at(top, 3), read(at(top, 3)) - w3)
        for i in range(begin + 1, m):
            v, x = read(at(s, i * row + step)), at(t, i * t_row + c)
            write(x, read(x) - v * w0)
            write(at(x, 1), read(at(x, 1)) - v * w1)
            write(at(x, 2), read(at(x, 2)) - v * w2)
            write(at(x, 3), read(at(x, 3)) - v * w3)
    for c in range(fours, last):
        top = at(t, begin * t_row + c)
        w0 = read(top)
        for i in range(begin + 1, m):
            w0 = w0 + read(at(s, i * row + step)) * read(at(t, i * t_row + c))
        w0 = w0 * tau
        write(top, read(top) - w0)
        for i in range(begin + 1, m):
            x = at(t, i * t_row + c)
            write(x, read(x) - read(at(s, i * row + step)) * w0)


@inline
def identity(t, row, m, n):
    """The identity (m, n)."""
    for i in range(m):
        for j in range(n):
            write(at(t, i * row + j), spread(t, 1.0) if i == j else spread(t, 0.0))


# fmt: off
def qr(
    begin, end, a: ARRAY, q: ARRAY, r: ARRAY, m: INT, n: INT, k: INT, gelqf: INT, orglq: INT,
    size: INT, threads: INT64S, count: INT, area: ARRAY, work: ARRAY, status: INT32S, room: INT,
    chunk: INT,
):
    # fmt: on
    """As ``spectral.qr``; a task is a vector's worth of the ``count`` matrices."""
    s = own_part(area, begin, room, chunk)
    other, info = own_part(work, begin, room, chunk), own_part(status, begin, room, chunk)
    w, few, row, side = lanes(s), min(m, n), stride(n), stride(k)
    t = at(s, m * row)
    taus = at(t, m * side)
    odd = at(taus, few)
    none, one = spread(s, 0.0), spread(s, 1.0)
    low = spread(s, 1e-28 if width_of(s) == 32 else 1e-280)
    high = spread(s, 1e28 if width_of(s) == 32 else 1e280)
    for task in range(begin, end):
        first = task * w
        packed(a, s, first, count, m, n, m, row)
        outside = none
        for j in range(few):
            tau, total, clean = reflector(s, row, j, j, m)
            write(at(taus, j), tau)
            fine = clean | ((total > low) & (total < high))
            outside = pick(fine, outside, one)
            reflected(s, row, j, j, m, tau, s, row, j + 1, n)
        identity(t, side, m, k)
        for step in range(few):
            j = few - 1 - step
            reflected(s, row, j, j, m, read(at(taus, j)), t, side, j, k)
        for i in range(k):
            for j in range(min(i, n)):
                write(at(s, i * row + j), none)
        unpacked(s, r, first, count, k, n, row)
        unpacked(t, q, first, count, m, k, side)
        if any_of(outside != none):
            write(odd, outside)
            enter(threads)
            for lane in range(min(w, count - first)):
                if odd[lane] != 0:
                    i = first + lane
                    qr_of(
                        offset(a, i * m * n), offset(q, i * m * k), offset(r, i * k * n), m, n, k,
                        gelqf, orglq, size, other, info,
                    )  # fmt: skip
            leave(threads)
