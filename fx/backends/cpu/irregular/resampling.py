"""Weighted sums of elements at places along an axis."""

from fx.backends.cpu.irregular.language import ARRAY, INT, INT64S, offset


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
