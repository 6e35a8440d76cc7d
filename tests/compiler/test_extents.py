"""Sizes that are known when a kernel runs: the formulas that stand for them."""

from fx.compiler.extents import Extent, larger


def test_formulas_are_spelled_and_compared():
    n, m = Extent(1009, 1, ("n",)), Extent(10007, 1, ("m",))
    assert repr(2 * m * n + 3) == "(2*m*n + (3))" and repr(larger(n, m)) == "max(n, m)"
    assert n * m == m * n and hash(n * m) == hash(m * n)
    assert n + 1 != n + 2 and n * 2 != n * 3 and Extent(1009, 1, ("k",)) != n


def test_formulas_that_share_parts_are_no_trees():
    n = Extent(1009, 1, ("n",))
    for _ in range(60):  # a tree of 2**60 leaves
        n = n + n
    assert {n: 1}[n] == 1
