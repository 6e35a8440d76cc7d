"""Gauss's elimination of many small real matrices, side by side in the lanes of vectors.

No row is exchanged: each lane keeps which of its rows was the pivot of which step, and rows are
fetched from where they are when their turn comes, in the order of L and U. Four steps are done at
once, so that an element is loaded and stored a quarter as often. What a matrix's result is does not
depend on its neighbours.
"""

from math import log

from numpy import float64, int64

from fx.backends.cpu.irregular.lanes.memory import (
    lanes,
    packed,
    spoiled,
    started,
    stride,
    unpacked,
    up,
)
from fx.backends.cpu.irregular.lanes.triangles import divided
from fx.backends.cpu.irregular.lanes.vectors import any_of, pick, read, size_of, spread, write
from fx.backends.cpu.irregular.language import ARRAY, INT, INT32S, inline, like, offset, width_of
from fx.backends.cpu.irregular.lapack import own_part


@inline
def _at(s, i):
    """Vector i."""
    return offset(s, i * lanes(s))


@inline
def _chosen(s, turns, n, row, j, parity):
    """The row of each lane that has the largest element of column j, of those not yet taken.

    A row's place in ``turns`` gets j; ``parity`` counts the rows before it that were left out.
    Returns numbers of rows, and the sizes of the elements. A NaN is the largest where it is the
    first one, as for LAPACK.
    """
    free, none, one, taken = spread(s, n), spread(s, 0.0), spread(s, 1.0), spread(s, -1.0)
    best, place, left_out, passed = taken, none, none, none
    for i in range(n):
        waits = read(_at(turns, i)) == free
        x = pick(waits, size_of(read(_at(s, i * row + j))), taken)
        beyond = (x > best) | ((x != x) & (best == taken))
        best, place = pick(beyond, x, best), pick(beyond, spread(s, i), place)
        left_out = pick(beyond, passed, left_out)
        passed = passed + pick(waits, one, none)
    for i in range(n):
        turn = _at(turns, i)
        write(turn, pick(place == spread(s, i), spread(s, j), read(turn)))
    write(parity, read(parity) + left_out)
    return place, best


@inline
def _fetched(s, place, target, n, row, begin, end, spot):
    """The columns from ``begin`` on of each lane's row ``place``, of n rows."""
    w = lanes(s)
    if n > w:
        write(spot, place)
        for lane in range(w):
            own = offset(s, int64(spot[lane]) * row * w + lane)
            for k in range(begin, end):
                target[k * w + lane] = own[k * w]
        return
    fours = end - (end - begin) % 4
    for k in range(begin, fours, 4):
        x = _at(s, k)
        x0, x1, x2, x3 = read(x), read(_at(x, 1)), read(_at(x, 2)), read(_at(x, 3))
        for i in range(1, n):
            x, here = _at(s, i * row + k), place == spread(s, i)
            x0, x1 = pick(here, read(x), x0), pick(here, read(_at(x, 1)), x1)
            x2, x3 = pick(here, read(_at(x, 2)), x2), pick(here, read(_at(x, 3)), x3)
        x = _at(target, k)
        write(x, x0)
        write(_at(x, 1), x1)
        write(_at(x, 2), x2)
        write(_at(x, 3), x3)
    for k in range(fours, end):
        x0 = read(_at(s, k))
        for i in range(1, n):
            x0 = pick(place == spread(s, i), read(_at(s, i * row + k)), x0)
        write(_at(target, k), x0)


@inline
def _factors(s, turns, pivot, n, row, j, best):
    """In column j the multiples of the pivot's row that the rows not yet taken are to lose."""
    free, none, scale = spread(s, n), spread(s, 0.0), spread(s, 1.0) / pivot
    tiny = best < spread(s, 1e-37 if width_of(s) == 32 else 1e-307)  # whose reciprocal may be inf
    if any_of(tiny):
        for i in range(n):
            x = read(_at(s, i * row + j))
            x = pick(best == none, x, pick(tiny, x / pivot, x * scale))
            write(_at(s, i * row + j), pick(read(_at(turns, i)) == free, x, none))
    else:
        for i in range(n):
            x = read(_at(s, i * row + j)) * scale
            write(_at(s, i * row + j), pick(read(_at(turns, i)) == free, x, none))


@inline
def _failed(info, first, most, best, j, spot):
    """Lanes whose pivot is 0 fail here, unless they did before."""
    if any_of(best == spread(spot, 0.0)):
        write(spot, best)
        for lane in range(most):
            if spot[lane] == 0 and info[first + lane] == 0:
                info[first + lane] = j + 1


@inline
def _behind_four(s, row, u, u_row, n, m, j):
    """Rows of s behind the steps from j to j + 3, from the next column on."""
    u0 = _at(u, j * u_row)
    u1, u2, u3 = _at(u0, u_row), _at(u0, 2 * u_row), _at(u0, 3 * u_row)
    for i in range(0, n - n % 2, 2):
        one, two = _at(s, i * row), _at(s, i * row + row)
        f, g = _at(one, j), _at(two, j)
        f0, f1, f2, f3 = read(f), read(_at(f, 1)), read(_at(f, 2)), read(_at(f, 3))
        g0, g1, g2, g3 = read(g), read(_at(g, 1)), read(_at(g, 2)), read(_at(g, 3))
        for k in range(j + 4, m):
            x, y, v = read(_at(one, k)), read(_at(two, k)), read(_at(u0, k))
            x, y, v = x - f0 * v, y - g0 * v, read(_at(u1, k))
            x, y, v = x - f1 * v, y - g1 * v, read(_at(u2, k))
            x, y, v = x - f2 * v, y - g2 * v, read(_at(u3, k))
            write(_at(one, k), x - f3 * v)
            write(_at(two, k), y - g3 * v)
    if n % 2:
        one = _at(s, (n - 1) * row)
        f = _at(one, j)
        f0, f1, f2, f3 = read(f), read(_at(f, 1)), read(_at(f, 2)), read(_at(f, 3))
        for k in range(j + 4, m):
            x = read(_at(one, k)) - f0 * read(_at(u0, k)) - f1 * read(_at(u1, k))
            write(_at(one, k), x - f2 * read(_at(u2, k)) - f3 * read(_at(u3, k)))


@inline
def _eliminated(s, u, u_row, turns, n, m, low, info, first, most):
    """s (n, m), in rows of ``stride(m)``, -> u (n, m), in rows of ``u_row``.

    In u are U, the columns beside it, and if ``low`` L, whose diagonal of ones is left out. Rows
    are in the order of ``turns``: row i of s is the one of this number. Behind it are the parity of
    this order, and a vector for whoever needs one. ``info`` tells of pivots that are 0.
    """
    parity, spot, row = _at(turns, n), _at(turns, n + 1), stride(m)
    write(parity, spread(s, 0.0))
    for i in range(n):
        write(_at(turns, i), spread(s, n))
    for j in range(n):
        block, own = j - j % 4, _at(u, j * u_row)
        for k in range(block, j):  # what the steps before take from this column
            x = read(_at(u, k * u_row + j))
            for i in range(n):
                place = _at(s, i * row + j)
                write(place, read(place) - read(_at(s, i * row + k)) * x)
        place, best = _chosen(s, turns, n, row, j, parity)
        _failed(info, first, most, best, j, spot)
        _fetched(s, place, own, n, row, 0 if low else block, m, spot)
        for k in range(block, j):  # and from the rest of its row
            factor, other = read(_at(own, k)), _at(u, k * u_row)
            for i in range(j + 1, m):
                x = _at(own, i)
                write(x, read(x) - factor * read(_at(other, i)))
        _factors(s, turns, read(_at(own, j)), n, row, j, best)
        if j % 4 == 3 and j + 1 < n:
            _behind_four(s, row, u, u_row, n, m, block)


@inline
def _bordered(u, row, n, size):
    """The identity around u (n, n), in rows of ``row``, up to ``size``."""
    for i in range(size):
        for j in range(n if i < n else 0, size):
            write(_at(u, i * row + j), spread(u, 1.0) if i == j else spread(u, 0.0))


@inline
def _divided_by_low(u, u_row, x, x_row, size, sides):
    w = lanes(u)
    divided(u, u_row * w, w, x, x_row * w, w, size, sides, True)


@inline
def _divided_by_high(u, u_row, x, x_row, size, sides):
    """From the last row on."""
    w, last = lanes(u), size - 1
    corner, end = _at(u, last * (u_row + 1)), _at(x, last * x_row)
    divided(corner, -u_row * w, -w, end, -x_row * w, w, size, sides, False)


@inline
def _put_in_order(b, x, x_row, turns, n, k, first, count):
    """Right sides (n, k) in lanes, in rows of ``x_row``, each where its turn is."""
    w = lanes(x)
    for lane in range(w):
        own = offset(b, min(first + lane, count - 1) * n * k)
        for i in range(n):
            target = offset(x, int64(turns[i * w + lane]) * x_row * w + lane)
            for j in range(k):
                target[j * w] = own[i * k + j]


_BESIDE = 8  # right sides


# fmt: off
def solve(
    begin, end, a: ARRAY, b: ARRAY, out: ARRAY, info: INT32S, n: INT, k: INT, count: INT,
    work: ARRAY, room: INT, chunk: INT,
):
    # fmt: on
    """As ``lapack.solve``; a task is a vector's worth of the ``count`` pairs of matrices.

    A few right sides stand beside a; of many, L takes less work.
    """
    s = own_part(work, begin, room, chunk)
    w, size, sides, beside = lanes(s), up(n), up(k), k if k <= _BESIDE else 0
    row, u_row, x_row = stride(n + beside), stride(size + up(beside)), stride(sides)
    u = _at(s, size * max(u_row, x_row))  # behind a, which makes room for the solutions
    turns = _at(u, size * u_row)
    for t in range(begin, end):
        first = t * w
        most = min(w, count - first)
        if beside:
            packed(b, u, first, count, n, k, n, k)
        packed(a, s, first, count, n, n, n, row)
        for i in range(n):
            for j in range(beside):
                write(_at(s, i * row + n + j), read(_at(u, i * k + j)))
        started(info, first, most)
        _eliminated(s, u, u_row, turns, n, n + beside, beside == 0, info, first, most)
        for i in range(size):
            for j in range(sides):
                x = read(_at(u, i * u_row + n + j)) if i < n and j < beside else spread(s, 0.0)
                write(_at(s, i * x_row + j), x)
        _bordered(u, u_row, n, size)
        if not beside:
            _put_in_order(b, s, x_row, turns, n, k, first, count)
            _divided_by_low(u, u_row, s, x_row, size, sides)
        _divided_by_high(u, u_row, s, x_row, size, sides)
        unpacked(s, out, first, count, n, k, x_row)
        spoiled(out, info, first, most, n * k)


# fmt: off
def inv(
    begin, end, a: ARRAY, out: ARRAY, info: INT32S, n: INT, count: INT, work: ARRAY, room: INT,
    chunk: INT,
):
    # fmt: on
    """As ``lapack.inv``; a task is a vector's worth of the ``count`` matrices."""
    s = own_part(work, begin, room, chunk)
    w, size = lanes(s), up(n)
    row = stride(size)
    u = _at(s, size * row)
    turns = _at(u, size * row)
    for t in range(begin, end):
        first = t * w
        most = min(w, count - first)
        packed(a, s, first, count, n, n, n, stride(n))
        started(info, first, most)
        _eliminated(s, u, row, turns, n, n, True, info, first, most)
        for i in range(size):
            for j in range(size):
                x = spread(s, 0.0)
                if i < n and j < n:
                    x = pick(read(_at(turns, j)) == spread(s, i), spread(s, 1.0), x)
                write(_at(s, i * row + j), x)
        _bordered(u, row, n, size)
        _divided_by_low(u, row, s, row, size, size)
        _divided_by_high(u, row, s, row, size, size)
        unpacked(s, out, first, count, n, n, row)
        spoiled(out, info, first, most, n * n)


@inline
def _sign_of(parity):
    return 1 - 2 * (int64(parity) % 2)


# fmt: off
def det(
    begin, end, a: ARRAY, out: ARRAY, n: INT, count: INT, work: ARRAY, info: INT32S, room: INT,
    chunk: INT,
):
    # fmt: on
    """As ``lapack.det``; a task is a vector's worth of the ``count`` matrices."""
    s = own_part(work, begin, room, chunk)
    told = own_part(info, begin, room, chunk)
    w = lanes(s)
    row = stride(n)
    u, turns = _at(s, n * row), _at(s, 2 * n * row)
    parity = _at(turns, n)
    for t in range(begin, end):
        first = t * w
        packed(a, s, first, count, n, n, n, row)
        started(told, 0, w)
        _eliminated(s, u, row, turns, n, n, False, told, 0, w)
        product = spread(s, 1.0)
        for i in range(n):
            product = product * read(_at(u, i * row + i))
        write(s, product)
        for lane in range(min(w, count - first)):
            out[first + lane] = s[lane] * like(s, _sign_of(parity[lane]))


_FAR = 1e100  # factors beyond are not multiplied


# fmt: off
def slogdet(
    begin, end, a: ARRAY, signs: ARRAY, logs: ARRAY, n: INT, count: INT, work: ARRAY, info: INT32S,
    room: INT, chunk: INT,
):
    # fmt: on
    """As ``lapack.slogdet``; a task is a vector's worth of the ``count`` matrices."""
    s = own_part(work, begin, room, chunk)
    told = own_part(info, begin, room, chunk)
    w = lanes(s)
    row = stride(n)
    u, turns = _at(s, n * row), _at(s, 2 * n * row)
    parity = _at(turns, n)
    for t in range(begin, end):
        first = t * w
        packed(a, s, first, count, n, n, n, row)
        started(told, 0, w)
        _eliminated(s, u, row, turns, n, n, False, told, 0, w)
        for lane in range(min(w, count - first)):
            sign, total, product = float64(_sign_of(parity[lane])), 0.0, 1.0
            for i in range(n):
                x = u[(i * row + i) * w + lane]
                size = float64(abs(x))
                if 1 / _FAR < size < _FAR:
                    sign = sign if x > 0 else -sign
                    product *= size
                else:
                    sign = sign * (x / size) if size != 0 else 0.0
                    total += log(size)
                if not 1 / _FAR < product < _FAR:
                    total += log(product)
                    product = 1.0
            signs[first + lane] = like(s, sign)
            logs[first + lane] = like(s, total + log(product))
