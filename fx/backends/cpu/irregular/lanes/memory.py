"""How stacks of matrices come into the lanes of vectors, and out again.

Element (i, j) of ``width`` matrices is a vector, ``s[(i * columns + j) * width + lane]``. In memory
a vector's worth of matrices is a matrix (width, n * m), of which squares are transposed in
registers (``turned``); of fewer matrices or elements than lanes, elements go one by one.
"""

from numpy import nan

from fx.backends.cpu.irregular.lanes.vectors import BITS, read, spread, turned, write
from fx.backends.cpu.irregular.language import inline, like, offset, width_of


@inline
def lanes(x):
    """Elements of a vector."""
    return BITS // width_of(x)


@inline
def up(n):
    """The next multiple of 4."""
    return (n + 3) // 4 * 4


@inline
def stride(n):
    """Vectors from row to row, so that those of a column lie in different sets of the cache."""
    return n if n < 24 else n | 1


WHOLE, LOWER, UPPER = 0, 1, 2  # which elements of matrices are wanted


@inline
def packed(x, s, first, count, n, m, rows, columns):
    """Matrices (n, m) from ``first`` on in lanes, with the identity around them (rows, columns).

    Lanes beyond the last matrix hold the last one.
    """
    packed_part(x, s, first, count, n, m, rows, columns, WHOLE)


@inline
def packed_part(x, s, first, count, n, m, rows, columns, part):
    """As ``packed``; what is not of a triangle that is wanted alone may be anything."""
    w, size = lanes(s), n * m
    if first + w <= count and size >= w:
        own = offset(x, first * size)
        for at in range(0, size - w, w):
            i = at // m
            j = at - i * m  # a square that lies in one row may lie beside the triangle
            if part == WHOLE or j + w > m or (j <= i if part == LOWER else j + w > i):
                turned(offset(own, at), size, offset(s, at * w), w)
        turned(offset(own, size - w), size, offset(s, (size - w) * w), w)
    else:
        for lane in range(w):
            own = offset(x, min(first + lane, count - 1) * size)
            for i in range(size):
                s[i * w + lane] = own[i]
    if columns > m:
        for i in range(n):
            for j in range(m):  # from the last one on: each moves to a later place
                row, column = n - 1 - i, m - 1 - j
                vector = read(offset(s, (row * m + column) * w))
                write(offset(s, (row * columns + column) * w), vector)
    one, none = spread(s, 1.0), spread(s, 0.0)
    for i in range(rows):
        for j in range(m if i < n else 0, columns):
            write(offset(s, (i * columns + j) * w), one if i == j else none)


@inline
def unpacked(s, out, first, count, n, m, columns):
    """Matrices (n, m) from lanes, where rows are of ``columns``."""
    w, size = lanes(s), n * m
    if columns > m:
        for i in range(1, n):
            for j in range(m):
                write(offset(s, (i * m + j) * w), read(offset(s, (i * columns + j) * w)))
    if first + w <= count and size >= w:
        own = offset(out, first * size)
        for at in range(0, size - w, w):
            turned(offset(s, at * w), w, offset(own, at), size)
        turned(offset(s, (size - w) * w), w, offset(own, size - w), size)
    else:
        for lane in range(min(w, count - first)):
            own = offset(out, (first + lane) * size)
            for i in range(size):
                own[i] = s[i * w + lane]


@inline
def spoiled(out, info, first, most, size):
    """NaN in the place of results whose ``info`` is not 0."""
    for lane in range(most):
        if info[first + lane] != 0:
            own = offset(out, (first + lane) * size)
            for i in range(size):
                own[i] = like(out, nan)


@inline
def started(info, first, most):
    """No failure yet."""
    for lane in range(most):
        info[first + lane] = 0
