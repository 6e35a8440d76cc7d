"""Singular values of many small real matrices, side by side in the lanes of vectors.

Reflectors make a matrix bidiagonal, and rotations with implicit shifts diagonal, as LAPACK's gebrd
and bdsqr do, but for values that are small beside the largest. As in ``symmetric.py`` all lanes go
over the same rows, matrices are scaled first, and what does not end LAPACK gets.

G. H. Golub and C. F. Van Loan, Matrix Computations, 2013: algorithm 8.6.2.
"""

from numpy import int64

from fx.backends.cpu.irregular.lanes.memory import lanes, packed, stride
from fx.backends.cpu.irregular.lanes.reflections import at, identity, reflected, reflector
from fx.backends.cpu.irregular.lanes.rotations import (
    ROUNDS,
    leaning,
    scale_of,
    turned_rows,
    without_dust,
)
from fx.backends.cpu.irregular.lanes.vectors import (
    any_of,
    larger,
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
from fx.backends.cpu.irregular.spectral import svd_of


@inline
def _bidiagonal(s, row, m, n, d, e, lefts, rights):
    """s (m, n), m >= n: the diagonal d, the elements above it e, reflectors in columns and rows."""
    for j in range(n):
        corner = at(s, j * row + j)
        without_dust(at(corner, row), row, m - j - 1)
        tau, _, _ = reflector(corner, row, m - j)
        write(at(lefts, j), tau)
        reflected(corner, row, m - j, tau, at(corner, 1), row, 1, n - j - 1)
        write(at(d, j), read(corner))
        beside = at(corner, 1)
        if j + 2 < n:
            without_dust(at(beside, 1), 1, n - j - 2)
            tau, _, _ = reflector(beside, 1, n - j - 1)
            write(at(rights, j), tau)
            reflected(beside, 1, n - j - 1, tau, at(beside, row), 1, row, m - j - 1)
        write(at(e, j), read(beside) if j + 1 < n else spread(s, 0.0))


@inline
def _rotation(f, g, one, none, negligible):
    """c, s and r with c f + s g = r and c g - s f = 0."""
    squares = f * f + g * g
    r = root(squares)
    vanish = squares < negligible
    return pick(vanish, one, f / r), pick(vanish, none, g / r), pick(vanish, f, r)


@inline
def _sweep(d, e, last, near, c, s, far, sine):
    """One sweep for value ``last``: rotations of the right side, and of the left; where they begin.

    The result is -1 where all lanes have that value.
    """
    one, none = spread(d, 1.0), spread(d, 0.0)
    negligible = spread(d, 1e-30 if width_of(d) == 32 else 1e-280)  # squares
    begin, first = none, read(at(d, 0))  # of the block that ends at last
    flat = pick(size_of(first) <= near, one, none)  # a value of the block is as good as 0
    for i in range(last):
        x = read(at(d, i + 1))
        apart, zero = size_of(read(at(e, i))) <= near, pick(size_of(x) <= near, one, none)
        begin, first = pick(apart, spread(d, i + 1), begin), pick(apart, x, first)
        flat = pick(apart, zero, larger(flat, zero))
    active = begin < spread(d, last)
    if not any_of(active):
        return -1
    low = 0
    while not any_of(active & (begin <= spread(d, low))):
        low += 1
    # the smaller singular value of the last two rows
    f, g, h = size_of(read(at(d, last - 1))), read(at(e, last - 1)), size_of(read(at(d, last)))
    plus, minus = f + h, f - h
    shift = (f * h + f * h) / (root(plus * plus + g * g) + root(minus * minus + g * g))
    start = (size_of(first) - shift) * (with_sign(one, first) + shift / first)
    start = pick(flat == none, start, first)
    f, g = none, none
    for i in range(low, last):
        place = spread(d, i)
        on, here = active & (begin <= place), begin == place
        x, y, z = read(at(d, i)), read(at(e, i)), read(at(d, i + 1))
        f, g = pick(here, start, f), pick(here, y, g)
        c0, s0, r = _rotation(f, g, one, none, negligible)
        if i > 0:
            over = at(e, i - 1)
            write(over, pick(on & (begin < place), r, read(over)))
        f, g, x, other = c0 * x + s0 * y, s0 * z, c0 * y - s0 * x, c0 * z
        c1, s1, r = _rotation(f, g, one, none, negligible)
        f, other = c1 * x + s1 * other, c1 * other - s1 * x
        write(at(d, i), pick(on, r, read(at(d, i))))
        write(at(d, i + 1), pick(on, other, z))
        if i + 1 < last:
            x = read(at(e, i + 1))
            g = s1 * x
            write(at(e, i + 1), pick(on, c1 * x, x))
        else:
            write(at(e, i), pick(on, f, y))
        write(at(c, i), pick(on, c0, one))
        write(at(s, i), pick(on, s0, none))
        write(at(far, i), pick(on, c1, one))
        write(at(sine, i), pick(on, s1, none))
    return low


# fmt: off
def svd(
    begin, end, a: ARRAY, u: ARRAY, values: ARRAY, vh: ARRAY, info: INT32S, m: INT, n: INT,
    ku: INT, kv: INT, vectors: INT, gesdd: INT, size: INT, threads: INT64S, count: INT,
    area: ARRAY, work: ARRAY, places: INT32S, room: INT, chunk: INT,
):
    # fmt: on
    """As ``spectral.svd``, with no more vectors than values; a task is a vector's worth."""
    s = own_part(area, begin, room, chunk)
    other, counts = own_part(work, begin, room, chunk), own_part(places, begin, room, chunk)
    tall, few, width = max(m, n), min(m, n), lanes(s)
    row, long = stride(few), stride(tall)
    left = at(s, tall * row)  # the transpose of the left vectors (few, tall)
    right = at(left, few * long)  # and of the right ones (few, few)
    d = at(right, few * row)
    e, lefts, rights, c = at(d, few), at(d, 2 * few), at(d, 3 * few), at(d, 4 * few)
    t, far, sine, ranks = at(d, 5 * few), at(d, 6 * few), at(d, 7 * few), at(d, 8 * few)
    bad = at(d, 9 * few)
    one, none = spread(s, 1.0), spread(s, 0.0)
    eps = spread(s, 6e-8 if width_of(s) == 32 else 1.1e-16)
    for task in range(begin, end):
        first = task * width
        most = min(width, count - first)
        if m >= n:
            packed(a, s, first, count, m, n, m, row)
        else:
            packed(a, left, first, count, m, n, m, n)
            for i in range(m):
                for j in range(n):
                    write(at(s, j * row + i), read(at(left, i * n + j)))
        largest, total = none, none
        for i in range(tall):
            for j in range(few):
                x = read(at(s, i * row + j))
                largest, total = larger(largest, size_of(x)), total + x * none
        power, unit, odd = scale_of(s, largest, total)
        for i in range(tall):
            for j in range(few):
                x = at(s, i * row + j)
                write(x, pick(odd, none, read(x) * unit))
        _bidiagonal(s, row, tall, few, d, e, lefts, rights)
        if vectors:
            identity(left, long, few, tall)
            identity(right, row, few, few)
            for step in range(few):
                j = few - 1 - step
                corner, tau = at(s, j * row + j), read(at(lefts, j))
                reflected(corner, row, tall - j, tau, at(left, j * long + j), 1, long, few - j)
                if j + 2 < few:
                    inner, tau = at(right, (j + 1) * (row + 1)), read(at(rights, j))
                    reflected(at(corner, 1), 1, few - j - 1, tau, inner, 1, row, few - j - 1)
        near = none
        for i in range(few):
            near = larger(near, larger(size_of(read(at(d, i))), size_of(read(at(e, i)))))
        near = near * eps
        for step in range(few - 1):
            last, rounds = few - 1 - step, 0
            while rounds < ROUNDS:
                low = _sweep(d, e, last, near, c, t, far, sine)
                if low < 0:
                    break
                if vectors:
                    above, turns = at(right, low * row), last - low
                    turned_rows(above, row, few, turns, at(c, low), at(t, low), 1)
                    above = at(left, low * long)
                    turned_rows(above, long, tall, turns, at(far, low), at(sine, low), 1)
                rounds += 1
        for i in range(few - 1):
            odd = odd | (size_of(read(at(e, i))) > near * spread(s, 4.0))
        write(at(bad, 1), power)
        write(bad, pick(odd, one, none))
        for i in range(few):
            own, rank = size_of(read(at(d, i))), none
            for j in range(few):
                x = size_of(read(at(d, j)))
                rank = rank + pick(x >= own if j < i else x > own, one, none)
            write(at(ranks, i), rank)
            if vectors:
                vector = at(right, i * row) if m >= n else at(left, i * long)
                sign = with_sign(one, leaning(vector, n))
                opposite = with_sign(one, sign * read(at(d, i)))
                of_right, of_left = (sign, opposite) if m >= n else (opposite, sign)
                for j in range(few):
                    x = at(right, i * row + j)
                    write(x, read(x) * of_right)
                for j in range(tall):
                    x = at(left, i * long + j)
                    write(x, read(x) * of_left)
        power = read(at(bad, 1))
        for i in range(few):
            write(at(d, i), size_of(read(at(d, i))) * power)
        for lane in range(most):
            i = first + lane
            info[i] = 0
            if bad[lane] == 0:
                _told(d, ranks, offset(values, i * few), few, lane)
                if vectors and m >= n:
                    _put(left, long, ranks, offset(u, i * m * few), few, m, 1, few, lane)
                    _put(right, row, ranks, offset(vh, i * few * n), few, n, n, 1, lane)
                elif vectors:
                    _put(right, row, ranks, offset(u, i * m * few), few, m, 1, few, lane)
                    _put(left, long, ranks, offset(vh, i * few * n), few, n, n, 1, lane)
        if any_of(odd):
            enter(threads)
            for lane in range(most):
                if bad[lane] != 0:
                    i = first + lane
                    svd_of(
                        offset(a, i * m * n), offset(u, i * m * ku if vectors else 0),
                        offset(values, i * few), offset(vh, i * kv * n if vectors else 0),
                        offset(info, i), m, n, ku, kv, vectors, gesdd, size, other, other, counts,
                    )  # fmt: skip
            leave(threads)


@inline
def _told(d, ranks, values, few, lane):
    width = lanes(d)
    for i in range(few):
        values[int64(ranks[i * width + lane])] = d[i * width + lane]


@inline
def _put(z, row, ranks, out, few, columns, rank_step, step, lane):
    """Rows of z, in the order of their ranks."""
    width = lanes(z)
    for i in range(few):
        target = offset(out, int64(ranks[i * width + lane]) * rank_step)
        own = offset(z, i * row * width + lane)
        for k in range(columns):
            target[k * step] = own[k * width]
