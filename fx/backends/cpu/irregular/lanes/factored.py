"""Factors of Gauss's elimination that are kept, and solves by them, in the lanes of vectors."""

from numpy import int64, nan

from fx.backends.cpu.irregular.lanes.elimination import _at, _eliminated
from fx.backends.cpu.irregular.lanes.memory import lanes, packed, started, stride, unpacked, up
from fx.backends.cpu.irregular.lanes.triangles import divided, divided_one
from fx.backends.cpu.irregular.lanes.vectors import any_of, pick, read, spread, write
from fx.backends.cpu.irregular.language import ARRAY, INT, INT32S, INT64S, inline, like, offset
from fx.backends.cpu.irregular.lapack import own_part


# fmt: off
def lu(
    begin, end, a: ARRAY, out: ARRAY, pivots: INT32S, order: INT64S, info: INT32S, n: INT,
    count: INT, work: ARRAY, room: INT, chunk: INT,
):
    # fmt: on
    """As ``lapack.lu`` of square matrices; a task is a vector's worth of the ``count`` ones."""
    s = own_part(work, begin, room, chunk)
    w, row = lanes(s), stride(n)
    u = _at(s, n * row)
    found = _at(u, n * n)
    places = _at(found, n + 2)
    for t in range(begin, end):
        first = t * w
        most = min(w, count - first)
        packed(a, s, first, count, n, n, n, row)
        started(info, first, most)
        _eliminated(s, u, n, found, n, n, True, info, first, most)
        unpacked(u, out, first, count, n, n, n)
        for lane in range(most):
            rows, swaps = offset(order, (first + lane) * n), offset(pivots, (first + lane) * n)
            for i in range(n):
                rows[i] = int64(found[i * w + lane])
                swaps[i] = int64(places[i * w + lane])


@inline
def _in_order(b, order, x, n, k, sides, first, count):
    """Right sides (n, k) in lanes, in rows of ``sides``: each lane's rows in its order.

    NaN for a row that there is not.
    """
    w = lanes(x)
    for lane in range(w):
        one = min(first + lane, count - 1)
        own, rows = offset(b, one * n * k), offset(order, one * n)
        for i in range(n):
            at, target = rows[i], offset(x, i * sides * w + lane)
            for j in range(k):
                target[j * w] = own[at * k + j] if 0 <= at < n else like(x, nan)


@inline
def _out_of_order(x, order, out, n, k, sides, first, most):
    """The way back; NaN for a row that stands nowhere in the order."""
    w = lanes(x)
    for lane in range(most):
        own, rows = offset(out, (first + lane) * n * k), offset(order, (first + lane) * n)
        for i in range(n * k):
            own[i] = like(x, nan)
        for i in range(n):
            at, source = rows[i], offset(x, i * sides * w + lane)
            if 0 <= at < n:
                for j in range(k):
                    own[at * k + j] = source[j * w]


# fmt: off
def lu_solve(
    begin, end, a: ARRAY, order: INT64S, b: ARRAY, out: ARRAY, n: INT, k: INT, transposed: INT,
    count: INT, work: ARRAY, room: INT, chunk: INT,
):
    # fmt: on
    """As ``lapack.lu_solve``; a task is a vector's worth of the ``count`` ones."""
    s = own_part(work, begin, room, chunk)
    w, size, sides = lanes(s), up(n), 1 if k == 1 else up(k)
    x, none, x_row = offset(s, size * size * w), spread(s, 0.0), sides * w
    for t in range(begin, end):
        first = t * w
        packed(a, s, first, count, n, n, size, size)
        if transposed:
            packed(b, x, first, count, n, k, size, sides)
        else:
            _in_order(b, order, x, n, k, sides, first, count)
            for i in range(size):
                for j in range(k if i < n else 0, sides):
                    write(_at(x, i * sides + j), none)
        lost = none
        for i in range(n):
            lost = pick(read(_at(s, i * (size + 1))) == none, spread(s, nan), lost)
        for half in range(2):
            row, column, low, y, step = size * w, w, s, x, x_row
            if transposed:
                row, column = column, row
            if half:  # from the last row on
                low, y = offset(s, (size - 1) * (row + column)), offset(x, (size - 1) * x_row)
                row, column, step = -row, -column, -step
            unit = half == (transposed != 0)  # L
            if sides == 1:
                divided_one(low, row, column, y, step, size, unit)
            else:
                divided(low, row, column, y, step, w, size, sides, unit)
        if any_of(lost != lost):
            for i in range(n * sides):
                write(_at(x, i), read(_at(x, i)) + lost)
        if transposed:
            _out_of_order(x, order, out, n, k, sides, first, min(w, count - first))
        else:
            unpacked(x, out, first, count, n, k, sides)
