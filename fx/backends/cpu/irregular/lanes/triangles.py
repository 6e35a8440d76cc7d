"""Triangles of many small real matrices, side by side in the lanes of vectors: factors, solves.

The elements in one place of ``width`` matrices are a vector, so that every step of an algorithm is
a step of vectors, whatever the size of a matrix. Sizes are made multiples of 4 by rows and columns
of the identity, so that sums of products go by tiles of 4 x 4 vectors, which stay in registers.
What a matrix's result is does not depend on its neighbours.
"""

from fx.backends.cpu.irregular.lanes.memory import (
    LOWER,
    UPPER,
    lanes,
    packed,
    packed_part,
    spoiled,
    started,
    stride,
    unpacked,
    up,
)
from fx.backends.cpu.irregular.lanes.vectors import (
    MANY_REGISTERS,
    any_of,
    pick,
    read,
    root,
    spread,
    total_of,
    write,
)
from fx.backends.cpu.irregular.language import ARRAY, INT, INT32S, inline, offset
from fx.backends.cpu.irregular.lapack import own_part


@inline
def _four_columns(c, row, column, a, a_row, a_column, b, b_row, b_column, count):
    """``_tile`` where registers hold 16 sums."""
    c00, c01 = read(c), read(offset(c, column))
    c02, c03 = read(offset(c, 2 * column)), read(offset(c, 3 * column))
    d = offset(c, row)
    c10, c11 = read(d), read(offset(d, column))
    c12, c13 = read(offset(d, 2 * column)), read(offset(d, 3 * column))
    e = offset(d, row)
    c20, c21 = read(e), read(offset(e, column))
    c22, c23 = read(offset(e, 2 * column)), read(offset(e, 3 * column))
    f = offset(e, row)
    c30, c31 = read(f), read(offset(f, column))
    c32, c33 = read(offset(f, 2 * column)), read(offset(f, 3 * column))
    for k in range(count):
        p, q = offset(a, k * a_column), offset(b, k * b_row)
        b0, b1 = read(q), read(offset(q, b_column))
        b2, b3 = read(offset(q, 2 * b_column)), read(offset(q, 3 * b_column))
        x = read(p)
        c00, c01 = c00 - x * b0, c01 - x * b1
        c02, c03 = c02 - x * b2, c03 - x * b3
        x = read(offset(p, a_row))
        c10, c11 = c10 - x * b0, c11 - x * b1
        c12, c13 = c12 - x * b2, c13 - x * b3
        x = read(offset(p, 2 * a_row))
        c20, c21 = c20 - x * b0, c21 - x * b1
        c22, c23 = c22 - x * b2, c23 - x * b3
        x = read(offset(p, 3 * a_row))
        c30, c31 = c30 - x * b0, c31 - x * b1
        c32, c33 = c32 - x * b2, c33 - x * b3
    write(c, c00)
    write(offset(c, column), c01)
    write(offset(c, 2 * column), c02)
    write(offset(c, 3 * column), c03)
    write(d, c10)
    write(offset(d, column), c11)
    write(offset(d, 2 * column), c12)
    write(offset(d, 3 * column), c13)
    write(e, c20)
    write(offset(e, column), c21)
    write(offset(e, 2 * column), c22)
    write(offset(e, 3 * column), c23)
    write(f, c30)
    write(offset(f, column), c31)
    write(offset(f, 2 * column), c32)
    write(offset(f, 3 * column), c33)


@inline
def _two_columns(c, row, column, a, a_row, a_column, b, b_row, b_column, count):
    """Half of a tile, where they hold 8."""
    d = offset(c, row)
    e, f = offset(c, 2 * row), offset(c, 3 * row)
    c0, c1, d0, d1 = read(c), read(offset(c, column)), read(d), read(offset(d, column))
    e0, e1, f0, f1 = read(e), read(offset(e, column)), read(f), read(offset(f, column))
    for k in range(count):
        p, q = offset(a, k * a_column), offset(b, k * b_row)
        x, y = read(q), read(offset(q, b_column))
        z = read(p)
        c0, c1, z = c0 - z * x, c1 - z * y, read(offset(p, a_row))
        d0, d1, z = d0 - z * x, d1 - z * y, read(offset(p, 2 * a_row))
        e0, e1, z = e0 - z * x, e1 - z * y, read(offset(p, 3 * a_row))
        f0, f1 = f0 - z * x, f1 - z * y
    write(c, c0)
    write(offset(c, column), c1)
    write(d, d0)
    write(offset(d, column), d1)
    write(e, e0)
    write(offset(e, column), e1)
    write(f, f0)
    write(offset(f, column), f1)


@inline
def _tile(c, row, column, a, a_row, a_column, b, b_row, b_column, count):
    """c[i, j] -= sum of a[i, k] b[k, j] over k < count, for i, j < 4; steps are in elements."""
    if MANY_REGISTERS:
        _four_columns(c, row, column, a, a_row, a_column, b, b_row, b_column, count)
    else:
        for j in range(0, 4, 2):
            place, other = offset(c, j * column), offset(b, j * b_column)
            _two_columns(place, row, column, a, a_row, a_column, other, b_row, b_column, count)


@inline
def _subtract(c, a, b):
    """c -= a b, of single vectors."""
    write(c, read(c) - read(a) * read(b))


# fmt: off
def cholesky(
    begin, end, a: ARRAY, out: ARRAY, info: INT32S, n: INT, count: INT, work: ARRAY, room: INT,
    chunk: INT,
):
    # fmt: on
    """As ``lapack.cholesky``; a task is a vector's worth of the ``count`` matrices."""
    s = own_part(work, begin, room, chunk)
    w, size = lanes(s), up(n)
    columns = stride(size)
    row, one, none = columns * w, spread(s, 1.0), spread(s, 0.0)
    for t in range(begin, end):
        first = t * w
        most = min(w, count - first)
        packed_part(a, s, first, count, n, n, size, columns, LOWER)
        started(info, first, most)
        for block in range(0, size, 4):
            for i in range(block, size, 4):
                left = offset(s, i * row)
                place = offset(left, block * w)
                _tile(place, row, w, left, row, w, offset(s, block * row), w, row, block)
            for j in range(block, block + 4):
                own = offset(s, j * row)
                for i in range(j, size):
                    other = offset(s, i * row)
                    for k in range(block, j):
                        _subtract(offset(other, j * w), offset(other, k * w), offset(own, k * w))
                pivot = offset(own, j * w)
                x = read(pivot)
                if any_of((x <= none) | (x != x)):
                    for lane in range(most):
                        if not pivot[lane] > 0 and info[first + lane] == 0:
                            info[first + lane] = j + 1
                x = root(x)
                write(pivot, x)
                scale = one / x
                for i in range(j + 1, size):
                    place = offset(s, i * row + j * w)
                    write(place, read(place) * scale)
        for i in range(n):
            for j in range(i + 1, n):
                write(offset(s, i * row + j * w), none)
        unpacked(s, out, first, count, n, n, columns)
        spoiled(out, info, first, most, n * n)
        for lane in range(most):
            if info[first + lane] != 0:
                own = offset(out, (first + lane) * n * n)
                for i in range(n):
                    for j in range(i + 1, n):
                        own[i * n + j] = 0


@inline
def divided(low, row, column, x, x_row, x_column, size, sides, unit):
    """x (size, sides) behind a division by the lower triangle ``low`` (size, size).

    Steps are in elements; negative ones, from the last row and column on, make a lower triangle of
    an upper one. The diagonal is taken to be of ones if the triangle is ``unit``.
    """
    for c in range(0, sides, 4):
        top = offset(x, c * x_column)
        for i in range(0, size, 4):
            y, left = offset(top, i * x_row), offset(low, i * row)
            _tile(y, x_row, x_column, left, row, column, top, x_row, x_column, i)
            corner = offset(left, i * column)
            for r in range(4):
                for e in range(4):
                    target = offset(y, r * x_row + e * x_column)
                    for k in range(r):
                        source = offset(y, k * x_row + e * x_column)
                        _subtract(target, offset(corner, r * row + k * column), source)
                    if not unit:
                        write(target, read(target) / read(offset(corner, r * (row + column))))


@inline
def divided_one(low, row, column, x, x_row, size, unit):
    """As ``divided`` of a single column, in the same order of operations."""
    for i in range(0, size, 4):
        y, left = offset(x, i * x_row), offset(low, i * row)
        c0, c1 = read(y), read(offset(y, x_row))
        c2, c3 = read(offset(y, 2 * x_row)), read(offset(y, 3 * x_row))
        for k in range(i):
            p, b = offset(left, k * column), read(offset(x, k * x_row))
            c0, c1 = c0 - read(p) * b, c1 - read(offset(p, row)) * b
            c2, c3 = c2 - read(offset(p, 2 * row)) * b, c3 - read(offset(p, 3 * row)) * b
        write(y, c0)
        write(offset(y, x_row), c1)
        write(offset(y, 2 * x_row), c2)
        write(offset(y, 3 * x_row), c3)
        corner = offset(left, i * column)
        for r in range(4):
            target = offset(y, r * x_row)
            for k in range(r):
                _subtract(target, offset(corner, r * row + k * column), offset(y, k * x_row))
            if not unit:
                write(target, read(target) / read(offset(corner, r * (row + column))))


@inline
def divided_in_memory(a, x, n, most, forward, by_rows, unit, spot):
    """Single columns x (most, n) behind a division by triangles a (most, n, n), n >= ``lanes(a)``.

    Lanes are elements of a row here: each element is used once, and bringing it elsewhere would be
    all the work. ``by_rows``: row i of memory is equation i; else what unknown i takes from others.
    Each step is done for all ``most`` before the next one, which waits for it.
    """
    w, none = lanes(a), spread(a, 0.0)
    for i in range(w):
        spot[i] = i
    numbers, before = read(spot), forward == by_rows
    for step in range(n):
        i = step if forward else n - 1 - step
        count = i if before else n - 1 - i  # columns: those before i or behind it
        rest = count % w
        begin, edge = rest if before else i + 1, 0 if before else n - w
        mask = numbers < spread(a, rest) if before else numbers >= spread(a, w - rest)
        for m in range(most):
            row, own = offset(a, (m * n + i) * n), offset(x, m * n)
            if by_rows:
                total = none
                for k in range(begin, begin + count - rest, w):
                    total = total + read(offset(row, k)) * read(offset(own, k))
                if rest:
                    product = read(offset(row, edge)) * read(offset(own, edge))
                    total = total + pick(mask, product, none)
                own[i] -= total_of(total)
                if not unit:
                    own[i] /= row[i]
            else:
                if not unit:
                    own[i] /= row[i]
                value = spread(a, own[i])
                for k in range(begin, begin + count - rest, w):
                    place = offset(own, k)
                    write(place, read(place) - read(offset(row, k)) * value)
                if rest:
                    place = offset(own, edge)
                    old = read(place)
                    write(place, pick(mask, old - read(offset(row, edge)) * value, old))


# fmt: off
def cholesky_pulled(
    begin, end, a: ARRAY, b: ARRAY, out: ARRAY, n: INT, count: INT, work: ARRAY, room: INT,
    chunk: INT,
):
    # fmt: on
    """The cotangents of matrices from factors ``a``, lower ones, and cotangents ``b`` of these.

    With P the lower triangle of A' B, its diagonal halved, and T = A^-T P A^-1 that is the lower
    triangle of T + T', its diagonal halved. A task is a vector's worth of the ``count`` pairs.
    """
    s = own_part(work, begin, room, chunk)
    w, size = lanes(s), up(n)
    row, none, half = size * w, spread(s, 0.0), spread(s, 0.5)
    x, y = offset(s, size * row), offset(s, 2 * size * row)
    corner, last = (size - 1) * (row + w), size - 1
    for t in range(begin, end):
        first = t * w
        packed_part(a, s, first, count, n, n, size, size, LOWER)
        packed(b, x, first, count, n, n, size, size)
        for i in range(size):
            for j in range(i + 1, up(i + 1)):
                write(offset(s, i * row + j * w), none)
            for j in range(size):
                write(offset(y, i * row + j * w), none)
        for i in range(0, size, 4):  # y = -P
            own = offset(s, i * (row + w))
            for j in range(0, i + 1, 4):
                place, other = offset(y, i * row + j * w), offset(x, i * row + j * w)
                _tile(place, row, w, own, w, row, other, row, w, size - i)
        for i in range(size):
            place = offset(y, i * (row + w))
            write(place, read(place) * half)
            for j in range(i + 1, up(i + 1)):
                write(offset(y, i * row + j * w), none)
        low = offset(s, corner)
        divided(low, -w, -row, offset(y, last * row), -row, w, size, size, False)
        divided(low, -w, -row, offset(y, last * w), -w, row, size, size, False)
        for i in range(n):
            for j in range(i):
                place, other = offset(y, i * row + j * w), offset(y, j * row + i * w)
                write(place, none - (read(place) + read(other)))
                write(other, none)
            place = offset(y, i * (row + w))
            write(place, none - read(place))
        unpacked(y, out, first, count, n, n, size)


_LONG = 32  # rows of matrices that are read once, where they lie, for a single right side


# fmt: off
def triangular_solve(
    begin, end, a: ARRAY, b: ARRAY, out: ARRAY, rows: INT, columns: INT, left: INT, lower: INT,
    transposed: INT, unit: INT, count: INT, work: ARRAY, room: INT, chunk: INT,
):
    # fmt: on
    """As ``lapack.triangular_solve``; a task is a vector's worth of the ``count`` pairs."""
    s = own_part(work, begin, room, chunk)
    n, sides = (rows, columns) if left else (columns, rows)
    w, size, wide = lanes(s), up(n), 1 if sides == 1 else up(sides)
    high, long = (size, wide) if left else (wide, size)
    x = offset(s, size * size * w)  # (high, long)
    row, column, x_row, x_column = size * w, w, long * w, w
    if transposed:
        row, column = column, row
    if not left:  # (x op(a))' = op(a)' x'
        row, column, x_row, x_column = column, row, x_column, x_row
    by_rows = (transposed != 0) == (left == 0)
    forward = (lower != 0) == by_rows
    low, y = s, x
    if not forward:  # from the last row on
        low, y = offset(s, (size - 1) * (row + column)), offset(x, (size - 1) * x_row)
        row, column, x_row = -row, -column, -x_row
    for t in range(begin, end):
        first = t * w
        if sides == 1 and n >= _LONG:
            most, own = min(w, count - first), offset(out, first * n)
            for i in range(most * n):
                own[i] = b[first * n + i]
            divided_in_memory(offset(a, first * n * n), own, n, most, forward, by_rows, unit, s)
            continue
        packed(b, x, first, count, rows, columns, high, long)
        packed_part(a, s, first, count, n, n, size, size, LOWER if lower else UPPER)
        if wide == 1:
            divided_one(low, row, column, y, x_row, size, unit)
        else:
            divided(low, row, column, y, x_row, x_column, size, wide, unit)
        unpacked(x, out, first, count, rows, columns, long)
