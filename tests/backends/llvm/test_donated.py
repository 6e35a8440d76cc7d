"""Outputs that take over the memory of inputs which other outputs still read."""

import numpy as np
import pytest

import fx
from fx.backends.cpu.llvm.driver import compile_graph
from fx.backends.cpu.llvm.this_cpu import this_cpu
from fx.compiler.schedule import schedule
from fx.graph import optimize
from tests.compiler.schedules import run_schedule


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


OF_OTHER_PLACES = {
    "the first": lambda x: fx.exp(fx.sin(x)) - x[0],
    "the last": lambda x: x[-1] * x + 1.5,
    "turned round": lambda x: fx.flip(x, axis=0) - x,
    "one further": lambda x: fx.roll(x, 1) + x,
    "the first half": lambda x: x + fx.tile(x[: x.size // 2], (3,))[: x.size],
    "all": lambda x: x - x.sum(),
    "those before": lambda x: fx.cumulative_sum(x) - x,
    "those that are named": lambda x: x[fx.flip(fx.arange(x.size))] * x,
}


@pytest.mark.parametrize("name", OF_OTHER_PLACES)
@pytest.mark.parametrize("size", [5, 64, 1000, 300_000])
def test_what_reads_other_places_of_donated_memory_finds_the_old_values(name, size):
    function = OF_OTHER_PLACES[name]
    x = np.random.default_rng(size).normal(size=size).astype(np.float32)
    graph = optimize(fx.make_graph(function)(fx.from_numpy(x)))
    (wanted,) = compile_graph(graph).run([x.copy()])
    (got,) = compile_graph(graph, donated=[0]).run([x.copy()])
    np.testing.assert_array_equal(got, wanted)
    run_schedule(schedule(graph, this_cpu()), x, pieces=3)  # which tries each step in place
