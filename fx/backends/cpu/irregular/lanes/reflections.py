"""Reflections of many small real matrices, side by side in the lanes of vectors: QR.

A reflector 1 - tau v v' is as LAPACK's: the first element of v is 1, and the others lie in the
column or the row that it clears. LAPACK gets a matrix whose squares are too small, too large or not
finite.
"""

from fx.backends.cpu.irregular.lanes.memory import lanes, packed, stride, unpacked
from fx.backends.cpu.irregular.lanes.vectors import (
    any_of,
    pick,
    read,
    root,
    size_of,
    spread,
    with_sign,
    write,
)
from fx.backends.cpu.irregular.language import ARRAY, INT, INT32S, INT64S, inline, offset, width_of
from fx.backends.cpu.irregular.lapack import enter, leave, own_part
from fx.backends.cpu.irregular.spectral import qr_of


@inline
def at(s, i):
    """Vector i."""
    return offset(s, i * lanes(s))


@inline
def reflector(x, step, count):
    """What makes a column of ``count`` vectors, ``step`` apart, zero below the first one.

    The rest of v is put there, and what is left above it. Returns tau, the sum of the squares, and
    where there is nothing to be cleared.
    """
    one, none = spread(x, 1.0), spread(x, 0.0)
    alpha = read(x)
    total, sizes = none, none
    for i in range(1, count):
        y = read(at(x, i * step))
        total, sizes = total + y * y, sizes + size_of(y)
    total = total + alpha * alpha
    clean = sizes == none
    beta = pick(clean, alpha, none - with_sign(root(total), alpha))
    tau = pick(clean, none, (beta - alpha) / beta)
    scale = pick(clean, none, one / (alpha - beta))
    write(x, beta)
    for i in range(1, count):
        place = at(x, i * step)
        write(place, read(place) * scale)
    return tau, total, clean


@inline
def reflected(v, step, count, tau, t, row, column, columns):
    """t (count, columns) behind a reflector, whose v stands ``step`` apart; steps in vectors."""
    fours = columns - columns % 4
    for c in range(0, fours, 4):
        top = at(t, c * column)
        w0, w1 = read(top), read(at(top, column))
        w2, w3 = read(at(top, 2 * column)), read(at(top, 3 * column))
        for i in range(1, count):
            f, x = read(at(v, i * step)), at(top, i * row)
            w0, w1 = w0 + f * read(x), w1 + f * read(at(x, column))
            w2, w3 = w2 + f * read(at(x, 2 * column)), w3 + f * read(at(x, 3 * column))
        w0, w1, w2, w3 = w0 * tau, w1 * tau, w2 * tau, w3 * tau
        for i in range(count):
            f, x = read(at(v, i * step)) if i else spread(v, 1.0), at(top, i * row)
            write(x, read(x) - f * w0)
            x = at(x, column)
            write(x, read(x) - f * w1)
            x = at(x, column)
            write(x, read(x) - f * w2)
            x = at(x, column)
            write(x, read(x) - f * w3)
    for c in range(fours, columns):
        top = at(t, c * column)
        w0 = read(top)
        for i in range(1, count):
            w0 = w0 + read(at(v, i * step)) * read(at(top, i * row))
        w0 = w0 * tau
        write(top, read(top) - w0)
        for i in range(1, count):
            x = at(top, i * row)
            write(x, read(x) - read(at(v, i * step)) * w0)


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
            corner = at(s, j * (row + 1))
            tau, total, clean = reflector(corner, row, m - j)
            write(at(taus, j), tau)
            fine = clean | ((total > low) & (total < high))
            outside = pick(fine, outside, one)
            reflected(corner, row, m - j, tau, at(corner, 1), row, 1, n - j - 1)
        identity(t, side, m, k)
        for step in range(few):
            j = few - 1 - step
            corner, inner = at(s, j * (row + 1)), at(t, j * (side + 1))
            reflected(corner, row, m - j, read(at(taus, j)), inner, side, 1, k - j)
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
