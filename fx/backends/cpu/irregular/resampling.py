"""Weighted sums of elements at places along an axis, and of images at the points of a grid."""

from fx.backends.cpu.irregular.language import ARRAY, INT, INT64S, inline, offset


# fmt: off
def resample(
    begin, end, x: ARRAY, places: INT64S, weights: ARRAY, out: ARRAY, n: INT, m: INT, lanes: INT,
    taps: INT,
):
    # fmt: on
    """out[a, j, b] = sum over t of weights[t, j] * x[a, places[t, j], b]; a task is an a."""
    for a in range(begin, end):
        rows = offset(x, a * n * lanes)
        for j in range(m):
            cell = offset(out, (a * m + j) * lanes)
            if lanes == 1:
                total = weights[j] * rows[places[j]]
                for t in range(1, taps):
                    total += weights[t * m + j] * rows[places[t * m + j]]
                cell[0] = total
                continue
            first, w = offset(rows, places[j] * lanes), weights[j]
            if taps == 1:
                for b in range(lanes):
                    cell[b] = w * first[b]
                continue
            second, u = offset(rows, places[m + j] * lanes), weights[m + j]
            for b in range(lanes):
                cell[b] = w * first[b] + u * second[b]
            for t in range(2, taps):
                row, w = offset(rows, places[t * m + j] * lanes), weights[t * m + j]
                for b in range(lanes):
                    cell[b] += w * row[b]


# fmt: off
def spread(
    begin, end, ct: ARRAY, places: INT64S, weights: ARRAY, out: ARRAY, n: INT, m: INT, lanes: INT,
    taps: INT,
):
    # fmt: on
    """The transpose of `resample`: out[a, places[t, j], b] are added up."""
    for a in range(begin, end):
        whole = offset(out, a * n * lanes)
        for i in range(n * lanes):
            whole[i] = 0
        for t in range(taps):
            if lanes == 1:
                line, shares = offset(out, a * n), offset(weights, t * m)
                for j in range(m):
                    line[places[t * m + j]] += shares[j] * ct[a * m + j]
                continue
            for j in range(m):
                cell = offset(out, (a * n + places[t * m + j]) * lanes)
                row, w = offset(ct, (a * m + j) * lanes), weights[t * m + j]
                for b in range(lanes):
                    cell[b] += w * row[b]


@inline
def _place(u, n, corners, border, one, half):
    """Where a point is along an axis of n elements, and the slope of that: 0 where it is moved."""
    last, zero = one * (n - 1), one - one
    if corners:
        slope = last * half
        place = (u + one) * slope
    else:
        slope = one * n * half
        place = ((u + one) * (one * n) - one) * half
    if border:
        if not place > zero:
            place, slope = zero, zero
        elif place >= last:
            place, slope = last, zero
    return place, slope


@inline
def _taps(place, n, one):
    """The element before a place and its share, then those of the next; -1 for one outside."""
    if not (place > -one and place < one * n):
        return -1, one - one, -1, one - one
    first = int(place) if place >= one - one else -1  # its floor
    share = place - one * first
    return (
        first, one - share,  # -1 where the place is before the first
        first + 1 if first + 1 < n else -1, share,
    )  # fmt: skip


# fmt: off
def sample_grad(
    begin, end, ct: ARRAY, x: ARRAY, grid: ARRAY, units: ARRAY, dx: ARRAY, dgrid: ARRAY,
    channels: INT, h: INT, w: INT, points: INT, corners: INT, border: INT,
):
    # fmt: on
    """The cotangents dx, zeros on entry, and dgrid; a task is an image."""
    one, half = units[0], units[1]
    zero = one - one
    for image in range(begin, end):
        planes = offset(x, image * channels * h * w)
        cells = offset(dx, image * channels * h * w)
        given = offset(ct, image * channels * points)
        for p in range(points):
            at = offset(grid, (image * points + p) * 2)
            px, slope_x = _place(at[0], w, corners, border, one, half)
            py, slope_y = _place(at[1], h, corners, border, one, half)
            x0, wx0, x1, wx1 = _taps(px, w, one)
            y0, wy0, y1, wy1 = _taps(py, h, one)
            along_x, along_y = zero, zero
            whole = (x0 | x1 | y0 | y1) >= 0
            for c in range(channels):
                g = given[c * points + p]
                if whole:
                    plane = offset(planes, c * h * w + y0 * w + x0)
                    cell = offset(cells, c * h * w + y0 * w + x0)
                    a, b, d, e = plane[0], plane[1], plane[w], plane[w + 1]
                    upper, lower = wy0 * g, wy1 * g
                    cell[0] += upper * wx0
                    cell[1] += upper * wx1
                    cell[w] += lower * wx0
                    cell[w + 1] += lower * wx1
                    along_x += g * ((b - a) * wy0 + (e - d) * wy1)
                    along_y += g * ((d - a) * wx0 + (e - b) * wx1)
                    continue
                plane, cell = offset(planes, c * h * w), offset(cells, c * h * w)
                a, b, d, e = zero, zero, zero, zero
                if y0 >= 0:
                    if x0 >= 0:
                        a = plane[y0 * w + x0]
                        cell[y0 * w + x0] += wy0 * wx0 * g
                    if x1 >= 0:
                        b = plane[y0 * w + x1]
                        cell[y0 * w + x1] += wy0 * wx1 * g
                if y1 >= 0:
                    if x0 >= 0:
                        d = plane[y1 * w + x0]
                        cell[y1 * w + x0] += wy1 * wx0 * g
                    if x1 >= 0:
                        e = plane[y1 * w + x1]
                        cell[y1 * w + x1] += wy1 * wx1 * g
                along_x += g * ((b - a) * wy0 + (e - d) * wy1)
                along_y += g * ((d - a) * wx0 + (e - b) * wx1)
            to = offset(dgrid, (image * points + p) * 2)
            to[0] = along_x * slope_x
            to[1] = along_y * slope_y
