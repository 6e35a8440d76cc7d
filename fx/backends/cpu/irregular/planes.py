"""Small convolutions on padded planes; ``_planes`` has the layout.

x is (n, C, plane), g and out (n, O, grid) with the first ``length`` of a grid used, and w
(O, C // groups, taps). A task is a sample.
"""

from numba import int64

from fx.backends.cpu.irregular.language import ARRAY, INT, INT64S, offset

FASTMATH = {"contract", "reassoc", "nsz", "arcp"}


# fmt: off
def correlate(
    begin, end, x: ARRAY, w: ARRAY, out: ARRAY, part: ARRAY, offsets: INT64S, length: INT,
    outputs: INT, inner: INT, taps: INT, groups: INT, plane: INT, grid: INT, channels: INT,
):
    # fmt: on
    """out[n, o, t] = sum over c and taps of w[o, c, tap] * x[n, c, t + offsets[tap]].

    ``channels`` at a time: the sums of each lot, in ``part`` (length,), are added up, which keeps
    more digits.
    """
    several = inner > channels
    for n in range(begin, end):
        for o in range(outputs):
            total = offset(out, (n * outputs + o) * grid)
            row = part if several else total
            for t in range(length):
                total[t] = 0
            first = o // (outputs // groups) * inner
            for c in range(inner):
                if several and c % channels == 0:
                    for t in range(length):
                        row[t] = 0
                own = offset(x, (n * inner * groups + first + c) * plane)
                weights = offset(w, (o * inner + c) * taps)
                tap = int64(0)
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
                if several and (c + 1 == inner or (c + 1) % channels == 0):
                    for t in range(length):
                        total[t] += row[t]


# fmt: off
def spread(
    begin, end, g: ARRAY, w: ARRAY, out: ARRAY, offsets: INT64S, length: INT, outputs: INT,
    inner: INT, taps: INT, groups: INT, plane: INT, grid: INT,
):
    # fmt: on
    """The transpose of `correlate` in x: out (n, C, plane)."""
    per_group = outputs // groups
    for n in range(begin, end):
        for c in range(inner * groups):
            own = offset(out, (n * inner * groups + c) * plane)
            for t in range(plane):
                own[t] = 0
            first = c // inner * per_group
            for o in range(first, first + per_group):
                row = offset(g, (n * outputs + o) * grid)
                for tap in range(taps):
                    a = w[(o * inner + c % inner) * taps + tap]
                    target = offset(own, offsets[tap])
                    for t in range(length):
                        target[t] += a * row[t]


# fmt: off
def dots(
    begin, end, x: ARRAY, g: ARRAY, out: ARRAY, offsets: INT64S, length: INT, outputs: INT,
    inner: INT, taps: INT, groups: INT, plane: INT, grid: INT,
):
    # fmt: on
    """The transpose of `correlate` in w, added to out (O, C // groups, taps), on one thread."""
    per_group = outputs // groups
    for n in range(begin, end):
        for o in range(outputs):
            row = offset(g, (n * outputs + o) * grid)
            for c in range(inner):
                own = offset(x, (n * inner * groups + o // per_group * inner + c) * plane)
                for tap in range(taps):
                    source = offset(own, offsets[tap])
                    at = (o * inner + c) * taps + tap
                    total = out[at]
                    for t in range(length):
                        total += row[t] * source[t]
                    out[at] = total
