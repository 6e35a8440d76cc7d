"""What finding values by reflections and rotations in lanes shares: scales, and turning rows."""

from math import sqrt

from fx.backends.cpu.irregular.lanes.reflections import at
from fx.backends.cpu.irregular.lanes.vectors import pick, power_below, read, size_of, spread, write
from fx.backends.cpu.irregular.language import inline, width_of

ROUNDS = 60  # sweeps for a value; two are usual


@inline
def scale_of(s, largest, total):
    """A power of 2 not above the largest element, its reciprocal, and where there is none.

    ``total`` is the sum of the elements times 0.
    """
    one, none = spread(s, 1.0), spread(s, 0.0)
    small = spread(s, 1e-37 if width_of(s) == 32 else 1e-307)
    odd = (total != none) | ((largest < small) & (largest > none))
    power = pick(odd | (largest == none), one, power_below(largest))
    return power, one / power, odd


@inline
def without_dust(x, step, count):
    """Elements whose squares vanish, far below a rounding error of what is scaled, are 0."""
    none = spread(x, 0.0)
    dust = spread(x, 1e-14 if width_of(x) == 32 else 1e-140)
    for i in range(count):
        place = at(x, i * step)
        y = read(place)
        write(place, pick(size_of(y) < dust, none, y))


@inline
def leaning(x, count):
    """As ``spectral.leaning``, of each lane."""
    total = spread(x, 0.0)
    for i in range(count):
        total = total + read(at(x, i)) * spread(x, sqrt(i + 1.0))
    return total


@inline
def turned_rows(z, row, columns, count, c, s, step):
    """Rows from z on, ``row`` apart, behind rotations of one and the next, ``count`` of them.

    They become c x + s y and c y - s x. The last row goes through them in registers.
    """
    fours = columns - columns % 4
    for k in range(0, fours, 4):
        x = at(z, k)
        x0, x1, x2, x3 = read(x), read(at(x, 1)), read(at(x, 2)), read(at(x, 3))
        for i in range(count):
            f, g, y = read(at(c, i * step)), read(at(s, i * step)), at(x, row)
            y0, y1, y2, y3 = read(y), read(at(y, 1)), read(at(y, 2)), read(at(y, 3))
            write(x, f * x0 + g * y0)
            write(at(x, 1), f * x1 + g * y1)
            write(at(x, 2), f * x2 + g * y2)
            write(at(x, 3), f * x3 + g * y3)
            x0, x1, x2, x3 = f * y0 - g * x0, f * y1 - g * x1, f * y2 - g * x2, f * y3 - g * x3
            x = y
        write(x, x0)
        write(at(x, 1), x1)
        write(at(x, 2), x2)
        write(at(x, 3), x3)
    for k in range(fours, columns):
        x = at(z, k)
        x0 = read(x)
        for i in range(count):
            f, g, y = read(at(c, i * step)), read(at(s, i * step)), at(x, row)
            y0 = read(y)
            write(x, f * x0 + g * y0)
            x0, x = f * y0 - g * x0, y
        write(x, x0)
