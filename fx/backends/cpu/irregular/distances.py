"""Distances of rows from the products of rows: |x - y|^2 = |x|^2 + |y|^2 - 2 x y.

Where rows are so close that these cancel, the differences are formed.
"""

from math import sqrt

from fx.backends.cpu.irregular.language import ARRAY, INT, inline, offset

FASTMATH = {"contract", "reassoc", "nsz"}


@inline
def _far(square, whole, share, least):
    """Whether a square has its digits; not if it is NaN."""
    return (square >= whole * share) & (square > least)


# fmt: off
def of_products(
    begin, end, products: ARRAY, x: ARRAY, y: ARRAY, squares: ARRAY, others: ARRAY,
    limits: ARRAY, n: INT, d: INT,
):
    # fmt: on
    """Distances in place of products (m, n), of x (m, d) and y (n, d); a task is a row of x.

    ``squares`` (m,) and ``others`` (n,) are those of the lengths, and ``limits`` the share of their
    sum and the number that a square has to exceed.
    """
    share, least = limits[0], limits[1]
    for i in range(begin, end):
        row, own, length = offset(products, i * n), offset(x, i * d), squares[i]
        close = 0
        for j in range(n):
            whole = length + others[j]
            square = whole - (row[j] + row[j])
            close += 0 if _far(square, whole, share, least) else 1
            row[j] = square
        if close:
            for j in range(n):
                if not _far(row[j], length + others[j], share, least):
                    other = offset(y, j * d)
                    total = share - share
                    for k in range(d):
                        gap = own[k] - other[k]
                        total += gap * gap
                    row[j] = total
        for j in range(n):
            row[j] = sqrt(row[j])
