"""Small convolutions on padded planes; ``_planes`` has the idea and the layout ``lay``.

x (n, C, D*H*W), w (O, C // groups, taps), g (n, O, outputs). A task is a sample; all run on one
thread, which has ``scratch`` for the planes and the grids of one sample.
"""

from fx.backends.cpu.irregular.language import ARRAY, INT, INT64S, inline, offset

FASTMATH = {"contract", "reassoc", "nsz", "arcp"}


@inline
def _planes_of(x, n, channels, scratch, lay):
    """The planes of a sample: in the scratch, or where they lie if nothing is padded."""
    D, H, W = lay[0], lay[1], lay[2]
    own = offset(x, n * channels * D * H * W)
    if lay[20] == 0:
        return own
    plane, pH, pW = lay[3] * lay[4] * lay[5], lay[4], lay[5]
    for i in range(channels * plane):
        scratch[i] = 0
    for c in range(channels):
        for d in range(lay[9]):
            for h in range(lay[10]):
                source = offset(own, ((c * D + d) * H + h) * W)
                at = ((d + lay[6]) * pH + h + lay[7]) * pW + lay[8]
                target = offset(scratch, c * plane + at)
                for i in range(lay[11]):
                    target[i] = source[i]
    return scratch


@inline
def _room_of_planes(channels, lay):
    return channels * lay[3] * lay[4] * lay[5] if lay[20] else 0


@inline
def _over_grid(flat, grid, lay, meet):
    """``meet(flat, t, grid, i)`` for each output t and its place i in a grid."""
    tD, tH, tW, sD, sH, sW = lay[12], lay[13], lay[14], lay[15], lay[16], lay[17]
    for d in range(tD):
        for h in range(tH):
            row = offset(flat, (d * tH + h) * tW)
            wide = offset(grid, (d * sD * lay[4] + h * sH) * lay[5])
            if sW == 1:
                for t in range(tW):
                    meet(row, t, wide, t)
            else:
                for t in range(tW):
                    meet(row, t, wide, t * sW)


@inline
def _take(row, t, wide, i):
    row[t] = wide[i]


@inline
def _put(row, t, wide, i):
    wide[i] = row[t]


@inline
def _grids_of(g, n, outputs, room, lay):
    """The grids of a sample, zero where a stride or a margin leaves them out."""
    for i in range(outputs * lay[18]):
        room[i] = 0
    positions = lay[12] * lay[13] * lay[14]
    for o in range(outputs):
        _over_grid(offset(g, (n * outputs + o) * positions), offset(room, o * lay[18]), lay, _put)


# fmt: off
def correlate(
    begin, end, x: ARRAY, w: ARRAY, out: ARRAY, scratch: ARRAY, lay: INT64S, outputs: INT,
    inner: INT, groups: INT, most: INT,
):
    # fmt: on
    """out[n, o, t] = sum over c and taps of w[o, c, tap] * x[n, c, t + offsets[tap]].

    ``most`` channels at a time: the sums of each lot are added up, which keeps more digits.
    """
    length, taps, offsets = lay[18], lay[19], offset(lay, 21)
    plane, positions = lay[3] * lay[4] * lay[5], lay[12] * lay[13] * lay[14]
    total = offset(scratch, _room_of_planes(inner * groups, lay))
    several = inner > most
    row = offset(total, length) if several else total
    for n in range(begin, end):
        planes = _planes_of(x, n, inner * groups, scratch, lay)
        for o in range(outputs):
            for t in range(length):
                total[t] = 0
            first = o // (outputs // groups) * inner
            for c in range(inner):
                if several and c % most == 0:
                    for t in range(length):
                        row[t] = 0
                own = offset(planes, (first + c) * plane)
                weights = offset(w, (o * inner + c) * taps)
                tap = 0
                while tap + 3 <= taps:  # three taps for each pass over the row
                    a0, a1, a2 = weights[tap], weights[tap + 1], weights[tap + 2]
                    x0 = offset(own, offsets[tap])
                    x1 = offset(own, offsets[tap + 1])
                    x2 = offset(own, offsets[tap + 2])
                    for t in range(length):
                        row[t] += a0 * x0[t] + a1 * x1[t] + a2 * x2[t]
                    tap += 3
                while tap < taps:
                    a0 = weights[tap]
                    x0 = offset(own, offsets[tap])
                    for t in range(length):
                        row[t] += a0 * x0[t]
                    tap += 1
                if several and (c + 1 == inner or (c + 1) % most == 0):
                    for t in range(length):
                        total[t] += row[t]
            _over_grid(offset(out, (n * outputs + o) * positions), total, lay, _take)


@inline
def _is_finite(w, count):
    left = w[0] * 0
    for i in range(count):
        left += w[i] * 0
    return left == 0


# fmt: off
def spread(
    begin, end, g: ARRAY, w: ARRAY, out: ARRAY, scratch: ARRAY, lay: INT64S, outputs: INT,
    inner: INT, groups: INT,
):
    # fmt: on
    """The transpose of `correlate` in x: out (n, C, D*H*W)."""
    length, taps, offsets = lay[18], lay[19], offset(lay, 21)
    plane, volume = lay[3] * lay[4] * lay[5], lay[0] * lay[1] * lay[2]
    grids = offset(scratch, plane)
    per_group = outputs // groups
    finite = _is_finite(w, outputs * inner * taps)  # else a 0 of a grid would become NaN
    for n in range(begin, end):
        _grids_of(g, n, outputs, grids, lay)
        for c in range(inner * groups):
            own = offset(out, (n * inner * groups + c) * volume)
            total = scratch if lay[20] else own
            for t in range(plane):
                total[t] = 0
            first = c // inner * per_group
            for o in range(first, first + per_group):
                row = offset(grids, o * length)
                for tap in range(taps):
                    a = w[(o * inner + c % inner) * taps + tap]
                    target = offset(total, offsets[tap])
                    if finite:
                        for t in range(length):
                            target[t] += a * row[t]
                    else:
                        _spread_rows(row, a, target, lay)
            if lay[20]:
                _inside(total, own, lay)


@inline
def _spread_rows(grid, a, target, lay):
    for d in range(lay[12]):
        for h in range(lay[13]):
            at = (d * lay[15] * lay[4] + h * lay[16]) * lay[5]
            for t in range(lay[14]):
                i = at + t * lay[17]
                target[i] += a * grid[i]


@inline
def _inside(plane, out, lay):
    """What lies inside of the padding; 0 where no window reaches."""
    D, H, W = lay[0], lay[1], lay[2]
    for i in range(D * H * W):
        out[i] = 0
    for d in range(lay[9]):
        for h in range(lay[10]):
            at = ((d + lay[6]) * lay[4] + h + lay[7]) * lay[5] + lay[8]
            for i in range(lay[11]):
                out[(d * H + h) * W + i] = plane[at + i]


# fmt: off
def dots(
    begin, end, x: ARRAY, g: ARRAY, out: ARRAY, scratch: ARRAY, lay: INT64S, outputs: INT,
    inner: INT, groups: INT,
):
    # fmt: on
    """The transpose of `correlate` in w: out (O, C // groups, taps)."""
    length, taps, offsets = lay[18], lay[19], offset(lay, 21)
    plane, count = lay[3] * lay[4] * lay[5], outputs * inner * taps
    grids = offset(scratch, _room_of_planes(inner * groups, lay))
    per_group = outputs // groups
    for rows in range(2):  # by rows alone where a 0 of a grid may have made a NaN
        if rows == 1 and _is_finite(out, count):
            return
        for i in range(count):
            out[i] = 0
        for n in range(begin, end):
            planes = _planes_of(x, n, inner * groups, scratch, lay)
            _grids_of(g, n, outputs, grids, lay)
            for o in range(outputs):
                row = offset(grids, o * length)
                for c in range(inner):
                    own = offset(planes, (o // per_group * inner + c) * plane)
                    for tap in range(taps):
                        source = offset(own, offsets[tap])
                        at = (o * inner + c) * taps + tap
                        total = out[at]
                        if rows == 0:
                            for t in range(length):
                                total += row[t] * source[t]
                        else:
                            total += _dot_rows(row, source, lay)
                        out[at] = total


@inline
def _dot_rows(grid, source, lay):
    total = grid[0] * 0
    for d in range(lay[12]):
        for h in range(lay[13]):
            at = (d * lay[15] * lay[4] + h * lay[16]) * lay[5]
            for t in range(lay[14]):
                i = at + t * lay[17]
                total += grid[i] * source[i]
    return total
