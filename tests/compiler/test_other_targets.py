"""The compiler knows no device: the same plans run where loops are NumPy's, and without LLVM."""

import random
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import fx
from fx import limits
from fx.compiler.schedule import schedule
from fx.tensor import new_tensor
from tests.compiler.numpy_target import target
from tests.compiler.schedules import close, run_schedule, staged
from tests.compiler.test_schedule_random import F32, ComplexProgram, Program, drawn


def agrees(graph, *arrays):
    """The schedule of a graph for NumPy's loops, whose results are the interpreter's."""
    plan = schedule(graph, target())
    got = run_schedule(plan, *arrays)
    for mine, want in zip(got, graph.run(*map(new_tensor, arrays)), strict=True):
        if mine.dtype == bool:  # a comparison of what was rounded in another order
            assert (mine != want._a).mean() < 0.02 or mine.size < 50
        else:
            close(mine, want._a, 1e-4)
    return plan


@pytest.mark.parametrize("tiny", [False, True])
@pytest.mark.parametrize("kind", [Program, ComplexProgram])
@pytest.mark.parametrize("seed", range(12))
def test_random_graphs(seed, tiny, kind):
    with limits.tiny() if tiny else limits.normal():
        for k in range(5):
            graph = kind(random.Random(100 * seed + k)).graph
            agrees(graph, *drawn(graph, seed))


def test_sinks_and_halves():
    x = np.random.default_rng(0).standard_normal((300, 70)).astype(F32)

    def normed(x):
        y = fx.softmax(x, axis=1)
        return y, fx.sum(y * x, axis=0), fx.sum(x)

    with limits.given(HALVES_CHUNK=256, HALVES_WORK=1.0):
        plan = agrees(staged(normed, x), x)
    assert len(plan.steps) > 2


def test_vectors_are_those_of_the_target():
    graph = staged(lambda x: fx.tanh(x), np.ones((64, 64), F32))
    found = []
    for bytes_ in (16, 64):
        there = target(bytes_)

        def loop(plan, *rest, _loop=there.loop):
            found.append(plan.lanes)
            return _loop(plan, *rest)

        schedule(graph, replace(there, loop=loop))
    assert found == [4, 16]


def test_no_llvm_is_loaded():
    code = """
import sys
import fx
from fx.compiler.memory import Planner
from fx.compiler.schedule import schedule
from tests.compiler.numpy_target import target
graph = fx.make_graph(lambda x: fx.softmax(fx.tanh(x) @ x, axis=1))(fx.ones((8, 8)))
assert len(schedule(graph, target()).steps) == 3
assert "llvmlite" not in sys.modules, "llvmlite"
"""
    subprocess.run([sys.executable, "-c", code], check=True)
