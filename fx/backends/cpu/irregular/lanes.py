"""Factorisations and solves of many small real matrices, side by side in the lanes of vectors.

The elements in one place of ``width`` matrices are a vector, so that every step of an algorithm is
a step of vectors, whatever the size of a matrix: ``s[(i * n + j) * width + lane]``. Sizes are made
multiples of 4 by rows and columns of the identity, so that sums of products go by tiles of 4 x 4
vectors, which stay in registers. What a matrix's result is does not depend on its neighbours.
"""

from numpy import nan

from fx.backends.cpu.irregular.language import ARRAY, INT, INT32S, inline, like, offset, width_of
from fx.backends.cpu.irregular.lapack import own_part
from fx.backends.cpu.irregular.vectors import minus_product, quotient, read, root, times, write


@inline
def _lanes(x):
    """Elements of a vector of 64 bytes."""
    return 512 // width_of(x)


@inline
def _up(n):
    return (n + 3) // 4 * 4


@inline
def _tile(c, row, a, a_row, b, b_row, b_column, count):
    """c[i, j] -= sum of a[i, k] b[k, j] over k < count, for i, j < 4; steps are in elements."""
    w = _lanes(c)
    c00, c01, c02, c03 = read(c), read(offset(c, w)), read(offset(c, 2 * w)), read(offset(c, 3 * w))
    d = offset(c, row)
    c10, c11, c12, c13 = read(d), read(offset(d, w)), read(offset(d, 2 * w)), read(offset(d, 3 * w))
    e = offset(d, row)
    c20, c21, c22, c23 = read(e), read(offset(e, w)), read(offset(e, 2 * w)), read(offset(e, 3 * w))
    f = offset(e, row)
    c30, c31, c32, c33 = read(f), read(offset(f, w)), read(offset(f, 2 * w)), read(offset(f, 3 * w))
    for k in range(count):
        p, q = offset(a, k * w), offset(b, k * b_row)
        b0, b1 = read(q), read(offset(q, b_column))
        b2, b3 = read(offset(q, 2 * b_column)), read(offset(q, 3 * b_column))
        x = read(p)
        c00, c01 = minus_product(c00, x, b0), minus_product(c01, x, b1)
        c02, c03 = minus_product(c02, x, b2), minus_product(c03, x, b3)
        x = read(offset(p, a_row))
        c10, c11 = minus_product(c10, x, b0), minus_product(c11, x, b1)
        c12, c13 = minus_product(c12, x, b2), minus_product(c13, x, b3)
        x = read(offset(p, 2 * a_row))
        c20, c21 = minus_product(c20, x, b0), minus_product(c21, x, b1)
        c22, c23 = minus_product(c22, x, b2), minus_product(c23, x, b3)
        x = read(offset(p, 3 * a_row))
        c30, c31 = minus_product(c30, x, b0), minus_product(c31, x, b1)
        c32, c33 = minus_product(c32, x, b2), minus_product(c33, x, b3)
    write(c, c00)
    write(offset(c, w), c01)
    write(offset(c, 2 * w), c02)
    write(offset(c, 3 * w), c03)
    write(d, c10)
    write(offset(d, w), c11)
    write(offset(d, 2 * w), c12)
    write(offset(d, 3 * w), c13)
    write(e, c20)
    write(offset(e, w), c21)
    write(offset(e, 2 * w), c22)
    write(offset(e, 3 * w), c23)
    write(f, c30)
    write(offset(f, w), c31)
    write(offset(f, 2 * w), c32)
    write(offset(f, 3 * w), c33)


@inline
def _subtract(c, a, b):
    """c -= a b, of single vectors."""
    write(c, minus_product(read(c), read(a), read(b)))


@inline
def _packed(x, s, first, count, n, m, rows, columns):
    """Matrices (n, m) from ``first`` on in lanes, with the identity around them (rows, columns).

    Lanes beyond the last matrix hold the last one.
    """
    w = _lanes(s)
    for i in range(rows):
        for j in range(columns):
            if i >= n or j >= m:
                one = like(s, 1.0) if i == j else like(s, 0.0)
                for lane in range(w):
                    s[(i * columns + j) * w + lane] = one
    for lane in range(w):
        own = offset(x, min(first + lane, count - 1) * n * m)
        for i in range(n):
            for j in range(m):
                s[(i * columns + j) * w + lane] = own[i * m + j]


@inline
def _unpacked(s, out, info, first, count, n, m, columns):
    """Matrices (n, m) from lanes; NaN where ``info`` is not 0."""
    w = _lanes(s)
    for lane in range(min(w, count - first)):
        own = offset(out, (first + lane) * n * m)
        if info[first + lane] == 0:
            for i in range(n):
                for j in range(m):
                    own[i * m + j] = s[(i * columns + j) * w + lane]
        else:
            for i in range(n * m):
                own[i] = like(s, nan)


@inline
def _started(info, first, most):
    for lane in range(most):
        info[first + lane] = 0


# fmt: off
def cholesky(
    begin, end, a: ARRAY, out: ARRAY, info: INT32S, n: INT, count: INT, work: ARRAY, room: INT,
    chunk: INT,
):
    # fmt: on
    """As ``lapack.cholesky``; a task is a vector's worth of the ``count`` matrices."""
    s = own_part(work, begin, room, chunk)
    w, size = _lanes(s), _up(n)
    row = size * w
    for t in range(begin, end):
        first = t * w
        _packed(a, s, first, count, n, n, size, size)
        _started(info, first, min(w, count - first))
        for block in range(0, size, 4):
            for i in range(block, size, 4):
                left = offset(s, i * row)
                _tile(
                    offset(left, block * w), row, left, row, offset(s, block * row), w, row, block
                )
            for j in range(block, block + 4):
                own = offset(s, j * row)
                for i in range(j, size):
                    other = offset(s, i * row)
                    for k in range(block, j):
                        _subtract(offset(other, j * w), offset(other, k * w), offset(own, k * w))
                pivot = offset(own, j * w)
                for lane in range(min(w, count - first)):
                    if not pivot[lane] > 0 and info[first + lane] == 0:
                        info[first + lane] = j + 1
                write(pivot, root(read(pivot)))
                scale = quotient(like(s, 1.0), read(pivot))
                for i in range(j + 1, size):
                    place = offset(s, i * row + j * w)
                    write(place, times(read(place), scale))
        _unpacked(s, out, info, first, count, n, n, size)
        for lane in range(min(w, count - first)):
            own = offset(out, (first + lane) * n * n)
            for i in range(n):
                for j in range(i + 1, n):
                    own[i * n + j] = 0


@inline
def _pivoted(s, b, size, sides, j, n, info, first, most):
    """Exchange row j of each lane for the one with the largest element, of s and of b."""
    w = _lanes(s)
    row, wide = size * w, sides * w
    for lane in range(w):
        best, place = abs(s[j * row + j * w + lane]), j
        for i in range(j + 1, n):
            x = abs(s[i * row + j * w + lane])
            if x > best:
                best, place = x, i
        if best == 0 and lane < most and info[first + lane] == 0:
            info[first + lane] = j + 1
        if place != j:
            one, other = offset(s, j * row + lane), offset(s, place * row + lane)
            for k in range(size):
                one[k * w], other[k * w] = other[k * w], one[k * w]
            one, other = offset(b, j * wide + lane), offset(b, place * wide + lane)
            for k in range(sides):
                one[k * w], other[k * w] = other[k * w], one[k * w]


@inline
def _forward(low, row, x, x_row):
    """Four rows of x behind a division by the unit lower triangle ``low`` (4, 4); four columns."""
    w = _lanes(x)
    for r in range(1, 4):
        for k in range(r):
            for c in range(4):
                target, source = offset(x, r * x_row + c * w), offset(x, k * x_row + c * w)
                _subtract(target, offset(low, r * row + k * w), source)


@inline
def _backward(high, row, x, x_row):
    """The same by an upper triangle, which has the reciprocals of its diagonal in their place."""
    w = _lanes(x)
    for step in range(4):
        r = 3 - step
        for c in range(4):
            target = offset(x, r * x_row + c * w)
            for k in range(r + 1, 4):
                _subtract(target, offset(high, r * row + k * w), offset(x, k * x_row + c * w))
            write(target, times(read(target), read(offset(high, r * row + r * w))))


@inline
def _factored(s, b, size, sides, n, info, first, most):
    """L and U in the place of s, 1 / U's diagonal on it, and the rows of b in their order."""
    w = _lanes(s)
    row = size * w
    for block in range(0, size, 4):
        columns = offset(s, block * w)
        for i in range(0, size, 4):  # what the columns before leave of these four
            left, place = offset(s, i * row), offset(s, i * row + block * w)
            _tile(place, row, left, row, columns, row, w, min(i, block))
            if i < block:
                _forward(offset(left, i * w), row, place, row)
        for j in range(block, block + 4):
            for i in range(block, size):
                place = offset(s, i * row + j * w)
                for k in range(block, min(i, j)):
                    _subtract(place, offset(s, i * row + k * w), offset(s, k * row + j * w))
            _pivoted(s, b, size, sides, j, n, info, first, most)
            pivot = offset(s, j * row + j * w)
            write(pivot, quotient(like(s, 1.0), read(pivot)))
            scale = read(pivot)
            for i in range(j + 1, size):
                place = offset(s, i * row + j * w)
                write(place, times(read(place), scale))


@inline
def _solved(s, b, size, sides):
    """b behind a division by the factors in s."""
    w = _lanes(s)
    row, wide = size * w, sides * w
    for c in range(0, sides, 4):
        top = offset(b, c * w)
        for i in range(0, size, 4):
            x = offset(top, i * wide)
            _tile(x, wide, offset(s, i * row), row, top, wide, w, i)
            _forward(offset(s, i * row + i * w), row, x, wide)
        for step in range(4, size + 1, 4):
            i = size - step
            x, below = offset(top, i * wide), offset(top, (i + 4) * wide)
            _tile(x, wide, offset(s, i * row + (i + 4) * w), row, below, wide, w, step - 4)
            _backward(offset(s, i * row + i * w), row, x, wide)


# fmt: off
def solve(
    begin, end, a: ARRAY, b: ARRAY, out: ARRAY, info: INT32S, n: INT, k: INT, count: INT,
    work: ARRAY, room: INT, chunk: INT,
):
    # fmt: on
    """As ``lapack.solve``; a task is a vector's worth of the ``count`` pairs of matrices."""
    s = own_part(work, begin, room, chunk)
    w, size, sides = _lanes(s), _up(n), _up(k)
    x = offset(s, size * size * w)
    for t in range(begin, end):
        first = t * w
        _packed(a, s, first, count, n, n, size, size)
        _packed(b, x, first, count, n, k, size, sides)
        _started(info, first, min(w, count - first))
        _factored(s, x, size, sides, n, info, first, min(w, count - first))
        _solved(s, x, size, sides)
        _unpacked(x, out, info, first, count, n, k, sides)


# fmt: off
def inv(
    begin, end, a: ARRAY, out: ARRAY, info: INT32S, n: INT, count: INT, work: ARRAY, room: INT,
    chunk: INT,
):
    # fmt: on
    """As ``lapack.inv``; a task is a vector's worth of the ``count`` matrices."""
    s = own_part(work, begin, room, chunk)
    w, size = _lanes(s), _up(n)
    x = offset(s, size * size * w)
    for t in range(begin, end):
        first = t * w
        _packed(a, s, first, count, n, n, size, size)
        for i in range(size * size * w):
            x[i] = 0
        for i in range(size):
            for lane in range(w):
                x[(i * size + i) * w + lane] = 1
        _started(info, first, min(w, count - first))
        _factored(s, x, size, size, n, info, first, min(w, count - first))
        _solved(s, x, size, size)
        _unpacked(x, out, info, first, count, n, n, size)
