"""Losses of scores that labels have to exceed by a margin of 1; a task is a row."""

from fx.backends.cpu.irregular.language import ARRAY, INT, INT64S, inline, like, offset


@inline
def _count(labels, classes):
    """How many there are before one that is negative."""
    count = 0
    while count < classes and labels[count] >= 0:
        count += 1
    return count


@inline
def _named(labels, count, i):
    found = False
    for k in range(count):
        found |= labels[k] == i
    return found


# fmt: off
def multilabel(begin, end, x: ARRAY, y: INT64S, out: ARRAY, classes: INT):
    # fmt: on
    """out (rows,) of x and labels y (rows, classes): over labels and the other classes."""
    one = like(x, 1)
    for row in range(begin, end):
        scores, labels = offset(x, row * classes), offset(y, row * classes)
        count = _count(labels, classes)
        total = one - one
        for i in range(classes):
            if count == 0 or _named(labels, count, i):
                continue
            for k in range(count):
                gap = one - scores[labels[k]] + scores[i]
                if not gap <= 0:  # a NaN stays one
                    total += gap
        out[row] = total / classes


# fmt: off
def multilabel_grad(
    begin, end, ct: ARRAY, x: ARRAY, y: INT64S, out: ARRAY, classes: INT,
):
    # fmt: on
    """The cotangent of x, of that of the losses."""
    one = like(x, 1)
    for row in range(begin, end):
        scores, labels = offset(x, row * classes), offset(y, row * classes)
        cell = offset(out, row * classes)
        count = _count(labels, classes)
        for i in range(classes):
            cell[i] = 0
        part = ct[row] / classes
        for i in range(classes):
            if count == 0 or _named(labels, count, i):
                continue
            for k in range(count):
                if not one - scores[labels[k]] + scores[i] <= 0:
                    cell[i] += part
                    cell[labels[k]] -= part
