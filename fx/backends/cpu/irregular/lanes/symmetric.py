"""Eigenvalues of many small symmetric matrices, side by side in the lanes of vectors.

Reflectors make a matrix tridiagonal, and rotations with implicit shifts (QL) diagonal, as LAPACK's
sytrd and steqr do. All lanes go over the same rows: where a lane's block is shorter, or done, its
rotation turns nothing. Matrices are first scaled by powers of 2 to elements below 2, so that what
is lost where squares vanish is far below a rounding error. What is not finite, or does not end,
LAPACK gets.

B. T. Smith et al., Matrix Eigensystem Routines, EISPACK Guide, 1976: tred2, tql2.
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
from fx.backends.cpu.irregular.spectral import eigh_of

_EPS2, _EPS2_WIDE = 3.5e-15, 1.2e-32  # squares of half an ulp of 1


@inline
def _scaled(s, row, n):
    """The lower triangle of s (n, n), mirrored, over a power of 2; that, and where none fits."""
    most, total = spread(s, 0.0), spread(s, 0.0)
    for i in range(n):
        for j in range(i + 1):
            x = read(at(s, i * row + j))
            most, total = larger(most, size_of(x)), total + x * spread(s, 0.0)
    power, unit, odd = scale_of(s, most, total)
    for i in range(n):
        for j in range(i + 1):
            x = pick(odd, spread(s, 0.0), read(at(s, i * row + j)) * unit)
            write(at(s, i * row + j), x)
            write(at(s, j * row + i), x)
    return power, odd


@inline
def _tridiagonal(s, row, n, taus, p):
    """s (n, n) symmetric: diagonal, elements beside it, reflectors below; ``p`` is scratch (n)."""
    none = spread(s, 0.0)
    for j in range(n - 2):
        begin = j + 1
        place = at(s, begin * row + j)
        without_dust(at(place, row), row, n - begin - 1)
        tau, _, _ = reflector(place, row, n - begin)
        write(at(taus, j), tau)
        half = none
        for i in range(begin, n):  # p = tau A v
            own = at(s, i * row)
            x0, x1 = read(at(own, begin)), none
            for k in range(begin + 1, n - 1, 2):
                x0 = x0 + read(at(own, k)) * read(at(s, k * row + j))
                x1 = x1 + read(at(own, k + 1)) * read(at(s, (k + 1) * row + j))
            if (n - begin) % 2 == 0:
                x0 = x0 + read(at(own, n - 1)) * read(at(s, (n - 1) * row + j))
            x0 = (x0 + x1) * tau
            write(at(p, i), x0)
            half = half + (x0 if i == begin else x0 * read(at(s, i * row + j)))
        half = half * tau * spread(s, 0.5)
        for i in range(begin, n):  # w = p - tau p'v / 2 v
            x = at(p, i)
            write(x, read(x) - (half if i == begin else half * read(at(s, i * row + j))))
        # A -= v w' + w v'
        x = at(s, begin * row + begin)
        w = read(at(p, begin))
        write(x, read(x) - w - w)
        for i in range(begin + 1, n):
            v, x = read(at(s, i * row + j)), read(at(p, i))
            own = at(s, i * row)
            write(at(own, begin), read(at(own, begin)) - v * w - x)
            write(at(s, begin * row + i), read(at(own, begin)))
            for k in range(begin + 1, i + 1):
                y = read(at(own, k)) - v * read(at(p, k)) - x * read(at(s, k * row + j))
                write(at(own, k), y)
                write(at(s, k * row + i), y)


@inline
def _sweep(d, e, low, n, c, s):
    """One sweep of QL for eigenvalue ``low``: rotations in c and s, and the row they begin at.

    Its second result is -1 where all lanes have that eigenvalue.
    """
    one, none = spread(d, 1.0), spread(d, 0.0)
    small = width_of(d) == 32
    eps2 = spread(d, _EPS2 if small else _EPS2_WIDE)
    negligible = spread(d, 1e-30 if small else 1e-280)  # squares
    end, last = spread(d, n - 1), read(at(d, n - 1))  # of the block that begins at low
    for step in range(n - 1 - low):
        i = n - 2 - step
        x = read(at(e, i))
        near = x * x <= eps2 * size_of(read(at(d, i)) * read(at(d, i + 1))) + negligible
        end, last = pick(near, spread(d, i), end), pick(near, read(at(d, i)), last)
    begin = spread(d, low)
    active = end > begin
    if not any_of(active):
        return -1
    high = n - 1
    while not any_of(end > spread(d, high - 1)):
        high -= 1
    x, first = read(at(e, low)), read(at(d, low))
    g = (read(at(d, low + 1)) - first) / (x + x)
    g = g + with_sign(root(g * g + one), g)
    g = last - first + x / g
    sine, cosine, p = one, one, none
    for step in range(high - low):
        i = high - 1 - step
        place = spread(d, i)
        on = active & (place < end)
        x = read(at(e, i))
        f, b = sine * x, cosine * x
        squares = f * f + g * g
        stop = on & (squares < negligible)  # both are as good as 0: the block ends here
        go = on & (squares >= negligible)
        above = read(at(d, i + 1))
        r = root(squares)
        sine, cosine = pick(go, f / r, sine), pick(go, g / r, cosine)
        write(at(s, i), pick(go, sine, none))
        write(at(c, i), pick(go, cosine, one))
        inner = place + one < end
        write(at(e, i + 1), pick(go & inner, r, pick(on, none, read(at(e, i + 1)))))
        g = pick(on, above - p, g)
        r = (read(at(d, i)) - g) * sine + (cosine + cosine) * b
        write(at(d, i + 1), pick(stop, g, pick(go, g + sine * r, above)))
        write(at(e, i), pick(stop, b, x))
        p = pick(go, sine * r, p)
        g = pick(go, cosine * r - b, g)
        active = active & ((end <= place) | go)
    write(at(d, low), pick(active, first - p, read(at(d, low))))
    write(at(e, low), pick(active, g, read(at(e, low))))
    return high


# fmt: off
def eigh(
    begin, end, a: ARRAY, w: ARRAY, v: ARRAY, info: INT32S, n: INT, vectors: INT, syevd: INT,
    size: INT, integers: INT, threads: INT64S, count: INT, area: ARRAY, work: ARRAY,
    places: INT32S, room: INT, chunk: INT,
):
    # fmt: on
    """As ``spectral.eigh``; a task is a vector's worth of the ``count`` matrices."""
    s = own_part(area, begin, room, chunk)
    other, counts = own_part(work, begin, room, chunk), own_part(places, begin, room, chunk)
    width, row = lanes(s), stride(n)
    z = at(s, n * row)
    d = at(z, n * row)
    e, taus, p, c = at(d, n), at(d, 2 * n), at(d, 3 * n), at(d, 4 * n)
    t, ranks, bad = at(d, 5 * n), at(d, 6 * n), at(d, 7 * n)
    one, none = spread(s, 1.0), spread(s, 0.0)
    left = spread(s, 64 * n * n * (_EPS2 if width_of(s) == 32 else _EPS2_WIDE))
    for task in range(begin, end):
        first = task * width
        most = min(width, count - first)
        packed(a, s, first, count, n, n, n, row)
        power, odd = _scaled(s, row, n)
        write(at(bad, 1), power)
        _tridiagonal(s, row, n, taus, p)
        for i in range(n):
            write(at(d, i), read(at(s, i * row + i)))
            write(at(e, i), read(at(s, (i + 1) * row + i)) if i + 1 < n else none)
        if vectors:  # the transpose of the product of reflectors
            identity(z, row, n, n)
            for step in range(n - 2):
                j = n - 3 - step
                place, inner = at(s, (j + 1) * row + j), at(z, (j + 1) * (row + 1))
                reflected(place, row, n - j - 1, read(at(taus, j)), inner, 1, row, n - j - 1)
        for low in range(n - 1):
            rounds = 0
            while rounds < ROUNDS:
                high = _sweep(d, e, low, n, c, t)
                if high < 0:
                    break
                if vectors:
                    bottom, to = at(z, high * row), high - 1
                    turned_rows(bottom, -row, n, high - low, at(c, to), at(t, to), -1)
                rounds += 1
        for i in range(n - 1):  # whether an element beside the diagonal is left
            x = read(at(e, i))
            odd = odd | (x * x > left)
        write(bad, pick(odd, one, none))
        power = read(at(bad, 1))
        for i in range(n):
            own, rank = read(at(d, i)), none
            for j in range(n):
                x = read(at(d, j))
                rank = rank + pick(x <= own if j < i else x < own, one, none)
            write(at(ranks, i), rank)
            if vectors:
                sign = with_sign(one, leaning(at(z, i * row), n))
                for k in range(n):
                    x = at(z, i * row + k)
                    write(x, read(x) * sign)
        for i in range(n):
            write(at(d, i), read(at(d, i)) * power)
        for lane in range(most):
            values, out = offset(w, (first + lane) * n), offset(v, (first + lane) * n * n)
            info[first + lane] = 0
            for i in range(n if bad[lane] == 0 else 0):
                place = int64(ranks[i * width + lane])
                values[place] = d[i * width + lane]
                if vectors:
                    own = offset(z, i * row * width + lane)
                    for k in range(n):
                        out[k * n + place] = own[k * width]
        if any_of(odd):
            enter(threads)
            for lane in range(most):
                if bad[lane] != 0:
                    i = first + lane
                    eigh_of(
                        offset(a, i * n * n), offset(w, i * n), offset(v, i * n * n),
                        offset(info, i), n, vectors, syevd, size, 0, integers, other, other,
                        counts,
                    )  # fmt: skip
            leave(threads)
