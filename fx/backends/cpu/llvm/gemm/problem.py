"""A product in its simplest form: batches of (m, k) @ (k, n) on strided factors."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

from fx.backends.cpu.llvm.gemm.views import View


class Factor(NamedTuple):
    """How a factor lies in memory: everything is counted in elements."""

    dtype: Any
    offset: int
    row: int
    column: int


class Problem(NamedTuple):
    """``out[i] = x[i] @ y[i]``, out dense (batches, m, n).

    ``batch`` has (size, stride of x, stride of y) for each axis of batches. ``swapped`` says that
    both factors were exchanged and transposed, which is how a product of one column is computed.
    """

    m: int
    n: int
    k: int
    batch: tuple[tuple[int, int, int], ...]
    x: Factor
    y: Factor
    out: Any
    swapped: bool

    @property
    def batches(self) -> int:
        """The number of products."""
        return prod([size for size, _, _ in self.batch])

    @property
    def work(self) -> int:
        """The number of multiplications."""
        return self.batches * self.m * self.n * self.k


def simplified(x: View, y: View, dtype: Any, out: Any, fold_columns: bool) -> Problem:
    """The product of ``x`` (*batch, m, k) and ``y`` (*batch, k, n) with merged axes.

    ``fold_columns`` allows that one row of products of a batch becomes one long row, so that
    vectors run across the ends of rows of the result.
    """
    m, k = x.shape[-2:]
    n = y.shape[-1]
    batch = _merged(x, y)
    left = Factor(dtype, x.offset, x.strides[-2], x.strides[-1])
    right = Factor(dtype, y.offset, y.strides[-2], y.strides[-1])
    swapped = n == 1 and m > 1
    if swapped:
        m, n = n, m
        left, right = (
            right._replace(row=right.column, column=right.row),
            left._replace(row=left.column, column=left.row),
        )
        batch = [(size, b, a) for size, a, b in batch]
    while batch:
        size, a, c = batch[-1]
        if c == 0 and (m == 1 or a == m * left.row):
            left = left._replace(row=a if m == 1 else left.row)
            m *= size
        elif fold_columns and m == 1 and a == 0 and (n == 1 or c == n * right.column):
            right = right._replace(column=c if n == 1 else right.column)
            n *= size
        else:
            break
        batch.pop()
    if m == 1:
        left = left._replace(row=0)
    if k == 1:
        left, right = left._replace(column=1), right._replace(row=0)
    if n == 1:
        right = right._replace(column=1)
    return Problem(m, n, k, tuple(batch), left, right, out, swapped)


def _merged(x: View, y: View) -> list[tuple[int, int, int]]:
    """The fewest axes of batches, with the strides of both factors; 0 where one is repeated."""
    rank = max(len(x.shape), len(y.shape)) - 2
    found: list[tuple[int, int, int]] = []
    for i in range(rank):
        size, strides = 1, []
        for view in (x, y):
            at = i - (rank - (len(view.shape) - 2))
            length = view.shape[at] if at >= 0 else 1
            strides.append(view.strides[at] if length > 1 else 0)
            size = max(size, length)
        if size == 1:
            continue
        a, c = strides
        if found and found[-1][1] == size * a and found[-1][2] == size * c:
            found[-1] = (found[-1][0] * size, a, c)
        else:
            found.append((size, a, c))
    return found
