"""Scatters of slices along an axis, by indices that are known to lie inside."""

from fx.backends.cpu.irregular.language import ARRAY, INT, INT64S, offset

_ADD, _MUL, _MIN = 1, 2, 3


def put(begin, end, out: ARRAY, idx: INT64S, updates: ARRAY, n: INT, m: INT, lanes: INT):
    """out[a, idx[j], b] = updates[a, j, b] of out (A, n, lanes), updates (A, m, lanes).

    A task is an a.
    """
    for a in range(begin, end):
        for j in range(m):
            cell = offset(out, (a * n + idx[j]) * lanes)
            update = offset(updates, (a * m + j) * lanes)
            for b in range(lanes):
                cell[b] = update[b]


# fmt: off
def accumulate(
    begin, end, out: ARRAY, idx: INT64S, updates: ARRAY, n: INT, m: INT, lanes: INT, mode: INT,
):
    # fmt: on
    """As `put`, with the cell and the update combined. NaN wins a comparison from either side."""
    for a in range(begin, end):
        for j in range(m):
            cell = offset(out, (a * n + idx[j]) * lanes)
            update = offset(updates, (a * m + j) * lanes)
            if mode == _ADD:
                for b in range(lanes):
                    cell[b] += update[b]
            elif mode == _MUL:
                for b in range(lanes):
                    cell[b] *= update[b]
            elif mode == _MIN:
                for b in range(lanes):
                    u = update[b]
                    cell[b] = u if u < cell[b] or u != u else cell[b]
            else:
                for b in range(lanes):
                    u = update[b]
                    cell[b] = u if u > cell[b] or u != u else cell[b]
