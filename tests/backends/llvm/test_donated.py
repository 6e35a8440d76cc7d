"""Outputs that take over the memory of inputs which other outputs still read."""

import numpy as np
import pytest

import fx
from fx.backends.cpu.llvm.driver import compile_graph
from fx.graph import optimize


def mixed(*xs):
    """Every output reads inputs whose memory another output may take."""
    return [x * 2 + xs[(i + 1) % len(xs)] - xs[i - 1] for i, x in enumerate(xs)]


def late(*xs):
    """The first output may take the memory that the last one reads."""
    return [x * 2 for x in xs[:-1]] + [xs[-1] * 3 + xs[0]]


def with_sums(m, *xs):
    """The same beside the column sums of a matrix, which each of them reads."""
    total = m.sum(axis=0)
    return [x * total + xs[(i + 1) % len(xs)] for i, x in enumerate(xs)]


@pytest.mark.parametrize("function", [mixed, late, with_sums])
@pytest.mark.parametrize("size", [5, 64, 1000])
def test_donated_is_plain(function, size):
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=size).astype(np.float32) for _ in range(6)]
    if function is with_sums:
        arrays.insert(0, rng.normal(size=(7, size)).astype(np.float32))
    graph = optimize(fx.make_graph(function)(*map(fx.from_numpy, arrays)))
    wanted = compile_graph(graph).run([a.copy() for a in arrays])
    first = int(function is with_sums)
    for donated in (range(first, len(arrays)), [len(arrays) - 1], [first + 2]):
        got = compile_graph(graph, donated=donated).run([a.copy() for a in arrays])
        for g, w in zip(got, wanted, strict=True):
            np.testing.assert_array_equal(g, w)
