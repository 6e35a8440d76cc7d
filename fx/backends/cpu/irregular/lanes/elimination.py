"""Gauss's elimination of many small real matrices, side by side in the lanes of vectors.

The pivot's row of each lane is fetched from where it is, and the first of the rows that are left is
put there, so that those of all lanes lie behind one another. Four steps are done at once, so that
an element is loaded and stored a quarter as often. What a matrix's result is does not
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
def _chosen(s, n, row, j):
    """The row of each lane, from row j on, that has the largest element of column j.

    Returns places of rows, and the sizes of the elements. A NaN is the largest where it is the
    first one, as for LAPACK.
    """
    best, place = size_of(read(_at(s, j * row + j))), spread(s, j)
    for i in range(j + 1, n):
        x = size_of(read(_at(s, i * row + j)))
        beyond = x > best
        best, place = pick(beyond, x, best), pick(beyond, spread(s, i), place)
    return place, best


@inline
def _fetched(s, places, target, order, row, j, begin, end):
    """The columns from ``begin`` on of each lane's row in a place; row j's are put there instead.

    Numbers go one by one: what writes some lanes of a vector only is slower.
    """
    w = lanes(s)
    for lane in range(w):
        place = int64(places[lane])
        own, other = offset(s, place * row * w + lane), offset(s, j * row * w + lane)
        for k in range(begin, end):
            target[k * w + lane] = own[k * w]
            own[k * w] = other[k * w]
        one, two = offset(order, place * w + lane), offset(order, j * w + lane)
        found = one[0]
        one[0] = two[0]
        two[0] = found


@inline
def _factors(s, pivot, n, row, j, best):
    """In column j the multiples of the pivot's row that the rows behind row j are to lose."""
    none, scale = spread(s, 0.0), spread(s, 1.0) / pivot
    tiny = best < spread(s, 1e-37 if width_of(s) == 32 else 1e-307)  # whose reciprocal may be inf
    if any_of(tiny):
        for i in range(j + 1, n):
            x = read(_at(s, i * row + j))
            write(_at(s, i * row + j), pick(best == none, x, pick(tiny, x / pivot, x * scale)))
    else:
        for i in range(j + 1, n):
            write(_at(s, i * row + j), read(_at(s, i * row + j)) * scale)


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
    """Rows and columns of s behind the steps from j to j + 3."""
    u0 = _at(u, j * u_row)
    u1, u2, u3 = _at(u0, u_row), _at(u0, 2 * u_row), _at(u0, 3 * u_row)
    for i in range(j + 4, n - n % 2, 2):
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
def _eliminated(s, u, u_row, order, n, m, low, info, first, most):
    """s (n, m), in rows of ``stride(m)``, -> u (n, m), in rows of ``u_row``.

    In u are U, the columns beside it, and if ``low`` L, whose diagonal of ones is left out. Vector
    i of ``order`` tells which row of s became row i. Behind it are the parity of the exchanges, a
    vector for whoever needs one, and n with the rows that rows were exchanged for. ``info`` tells
    of pivots that are 0.
    """
    parity, spot, row = spread(s, 0.0), _at(order, n + 1), stride(m)
    places = _at(spot, 1)
    for i in range(n):
        write(_at(order, i), spread(s, i))
    for j in range(n):
        block, own = j - j % 4, _at(u, j * u_row)
        for k in range(block, j):  # what the steps before take from this column
            x = read(_at(u, k * u_row + j))
            for i in range(j, n):
                place = _at(s, i * row + j)
                write(place, read(place) - read(_at(s, i * row + k)) * x)
        place, best = _chosen(s, n, row, j)
        parity = parity + pick(place == spread(s, j), spread(s, 0.0), spread(s, 1.0))
        _failed(info, first, most, best, j, spot)
        write(_at(places, j), place)
        _fetched(s, _at(places, j), own, order, row, j, 0 if low else block, m)
        for k in range(block, j):  # and from the rest of its row
            factor, other = read(_at(own, k)), _at(u, k * u_row)
            for i in range(j + 1, m):
                x = _at(own, i)
                write(x, read(x) - factor * read(_at(other, i)))
        _factors(s, read(_at(own, j)), n, row, j, best)
        if j % 4 == 3 and j + 1 < n:
            _behind_four(s, row, u, u_row, n, m, block)
    write(_at(order, n), parity)


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
def _put_in_order(b, x, x_row, order, n, k, first, count):
    """Right sides (n, k) in lanes, in rows of ``x_row``, in the order of each lane."""
    w = lanes(x)
    for lane in range(w):
        own = offset(b, min(first + lane, count - 1) * n * k)
        for i in range(n):
            source, target = int64(order[i * w + lane]) * k, offset(x, i * x_row * w + lane)
            for j in range(k):
                target[j * w] = own[source + j]


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
    order = _at(u, size * u_row)
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
        _eliminated(s, u, u_row, order, n, n + beside, beside == 0, info, first, most)
        for i in range(size):
            for j in range(sides):
                x = read(_at(u, i * u_row + n + j)) if i < n and j < beside else spread(s, 0.0)
                write(_at(s, i * x_row + j), x)
        _bordered(u, u_row, n, size)
        if not beside:
            _put_in_order(b, s, x_row, order, n, k, first, count)
            _divided_by_low(u, u_row, s, x_row, size, sides)
        _divided_by_high(u, u_row, s, x_row, size, sides)
        unpacked(s, out, first, count, n, k, x_row)
        spoiled(out, info, first, most, n * k)


@inline
def _inverse(s, u, row, order, n, size):
    """In s the inverse of a matrix whose factors are u, in rows of ``row``."""
    for i in range(size):
        for j in range(size):
            x = spread(s, 0.0)
            if i < n and j < n:
                x = pick(read(_at(order, i)) == spread(s, j), spread(s, 1.0), x)
            write(_at(s, i * row + j), x)
    _bordered(u, row, n, size)
    _divided_by_low(u, row, s, row, size, size)
    _divided_by_high(u, row, s, row, size, size)


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
    order = _at(u, size * row)
    for t in range(begin, end):
        first = t * w
        most = min(w, count - first)
        packed(a, s, first, count, n, n, n, stride(n))
        started(info, first, most)
        _eliminated(s, u, row, order, n, n, True, info, first, most)
        _inverse(s, u, row, order, n, size)
        unpacked(s, out, first, count, n, n, row)
        spoiled(out, info, first, most, n * n)


@inline
def _sign_of(parity):
    return 1 - 2 * (int64(parity) % 2)


@inline
def _determinant(u, row, order, n):
    """Of factors u, in rows of ``row``."""
    product, spot, parity = spread(u, 1.0), _at(order, n + 1), _at(order, n)
    for i in range(n):
        product = product * read(_at(u, i * row + i))
    write(spot, product)
    for lane in range(lanes(u)):
        spot[lane] = spot[lane] * like(u, _sign_of(parity[lane]))
    return read(spot)


@inline
def _moved(a, s, told, first, count, n):
    """Matrices that failed, in lanes: beside themselves, by half of the largest one's digits."""
    w, row = lanes(s), stride(n)
    for lane in range(w):
        if told[lane] != 0:
            own, largest = offset(a, min(first + lane, count - 1) * n * n), like(s, 0.0)
            for i in range(n * n):
                x = abs(own[i])
                largest = largest if x <= largest else x
            largest = largest if largest != 0 else like(s, 1.0)
            gap = largest * like(s, 2.0**-11.5 if width_of(s) == 32 else 2.0**-26)
            for i in range(n):
                s[(i * row + i) * w + lane] += gap


# fmt: off
def inverse_transposed(
    begin, end, a: ARRAY, out: ARRAY, n: INT, cofactors: INT, count: INT, work: ARRAY,
    info: INT32S, room: INT, chunk: INT,
):
    # fmt: on
    """Inverses, transposed; or cofactors, which are these times the determinant.

    Those of singular matrices are NaN; their cofactors are of matrices beside them.
    """
    s = own_part(work, begin, room, chunk)
    told = own_part(info, begin, room, chunk)
    w, size = lanes(s), up(n)
    row = stride(size)
    u = _at(s, size * row)
    order = _at(u, size * row)
    for t in range(begin, end):
        first = t * w
        for again in range(2):
            packed(a, s, first, count, n, n, n, stride(n))
            if again:
                _moved(a, s, told, first, count, n)
            started(told, 0, w)
            _eliminated(s, u, row, order, n, n, True, told, 0, w)
            failures = 0
            for lane in range(w):
                failures += told[lane] != 0
            if not (cofactors and failures):
                break
        scale = _determinant(u, row, order, n) if cofactors else spread(s, 1.0)
        _inverse(s, u, row, order, n, size)
        for i in range(n):
            for j in range(i + 1):
                place, other = _at(s, i * row + j), _at(s, j * row + i)
                x, y = read(place), read(other)
                write(place, y * scale)
                write(other, x * scale)
        unpacked(s, out, first, count, n, n, row)
        spoiled(offset(out, first * n * n), told, 0, min(w, count - first), n * n)


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
    u, order = _at(s, n * row), _at(s, 2 * n * row)
    for t in range(begin, end):
        first = t * w
        packed(a, s, first, count, n, n, n, row)
        started(told, 0, w)
        _eliminated(s, u, row, order, n, n, False, told, 0, w)
        write(s, _determinant(u, row, order, n))
        for lane in range(min(w, count - first)):
            out[first + lane] = s[lane]


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
    u, order = _at(s, n * row), _at(s, 2 * n * row)
    parity = _at(order, n)
    for t in range(begin, end):
        first = t * w
        packed(a, s, first, count, n, n, n, row)
        started(told, 0, w)
        _eliminated(s, u, row, order, n, n, False, told, 0, w)
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
