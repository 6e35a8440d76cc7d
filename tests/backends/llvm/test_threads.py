"""Threads of compiled graphs: the same bits on any number, from several threads, after a fork."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from llvmlite import ir

import fx
from fx import limits
from fx.backends.cpu.llvm import parallel
from fx.backends.cpu.llvm.driver import compile_graph
from fx.compiler.step import Schedule, Step
from fx.graph.ir import Node
from fx.primitive import registry
from tests.backends.llvm.driver_steps import LONG, POINTER, apply, argument, graph_of, scheduler

ROOT = Path(fx.__file__).resolve().parents[1]
RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def settings(monkeypatch):
    """No cache, every step with several tasks is a parallel one, and the setting is put back."""
    monkeypatch.setenv("FX_CACHE", "0")
    before = fx.get_num_threads()
    with limits.given(PARALLEL_FROM=1.0):
        yield
    fx.set_num_threads(before)


def example(n=5000, tasks=37, scratch=0, length=12):
    """A chain of parallel steps."""
    x, y = argument(n), argument(n)
    value = x
    for i in range(length):
        value = apply(("add", "multiply", "subtract")[i % 3], value, y)
    told = scheduler(tasks=tasks, cost=1e6, scratch=scratch, inplace=False)
    graph = graph_of([x, y], [value])
    return graph, compile_graph(graph, scheduler=told)


def arguments(n=5000):
    return [RNG.standard_normal(n, dtype=np.float32) for _ in range(2)]


@pytest.mark.parametrize("scratch", [0, 4096])
@pytest.mark.parametrize("tasks", [2, 3, 37, 5000])
def test_bits_do_not_depend_on_the_number_of_threads(tasks, scratch):
    graph, executable = example(tasks=tasks, scratch=scratch)
    assert "fx_parallel(ptr @kernel" in executable.code()
    arrays = arguments()
    expected = graph.run(*map(fx.tensor, arrays))[0]._a
    for count in (1, 2, 3, 5, 2, 1):
        fx.set_num_threads(count)
        for _ in range(20):
            np.testing.assert_array_equal(executable.run(list(arrays))[0], expected)


def test_workers_do_some_of_the_work():
    _, executable = example(n=200_000, tasks=200)
    arrays = arguments(200_000)
    fx.set_num_threads(2)
    words = parallel._native.words
    asked = words[parallel.JOBS]
    for _ in range(50):
        words[parallel.ALONE_UNTIL] = 0
        executable.run(list(arrays))
        if words[parallel.HELPED]:
            break
    assert words[parallel.JOBS] > asked and words[parallel.HELPED] > 0
    fx.set_num_threads(1)
    asked = words[parallel.JOBS]
    executable.run(list(arrays))
    assert words[parallel.JOBS] == asked


class Nap(Step):
    """Tasks that take half a millisecond, and a hundred on any thread but the one that made it."""

    name, tasks, cost = "nap", 64, 1e9

    def __init__(self, node):
        self.reads, self.writes = node.inputs, node.outs
        self.key = ("nap", threading.get_ident())

    def emit(self, module, name):
        kind = ir.FunctionType(ir.VoidType(), [LONG, LONG, *[POINTER] * 3])
        function = ir.Function(module, kind, name)
        build = ir.IRBuilder(function.append_basic_block())
        self_ = ir.Function(module, ir.FunctionType(LONG, []), "pthread_self")
        sleep = ir.Function(module, ir.FunctionType(ir.IntType(32), [ir.IntType(32)]), "usleep")
        mine = build.icmp_unsigned("==", build.call(self_, []), LONG(threading.get_ident()))
        short, long = ir.Constant(ir.IntType(32), 500), ir.Constant(ir.IntType(32), 100_000)
        build.call(sleep, [build.select(mine, short, long)])
        build.ret_void()
        return function


def test_a_worker_that_costs_more_than_it_saves_is_left_alone():
    x = argument(4)
    node = Node(registry["exp"], [x], {})
    executable = compile_graph(
        graph_of([x], [node.out]), scheduler=lambda graph: Schedule(graph, [Nap(node)], {})
    )
    fx.set_num_threads(2)
    words = parallel._native.words
    words[parallel.ALONE_UNTIL] = words[parallel.SAVED] = 0
    before = words[parallel.HELPED]
    for _ in range(20):
        executable.run([np.ones(4, "f4")])
        if words[parallel.HELPED] > before:
            break
    asked = words[parallel.JOBS]
    assert words[parallel.ALONE_UNTIL] > 0 and words[parallel.SAVED] == 0
    words[parallel.ALONE_UNTIL] = 1 << 62  # however slow this machine is
    executable.run([np.ones(4, "f4")])
    assert words[parallel.JOBS] == asked
    words[parallel.ALONE_UNTIL] = 0


def test_while_that_lasts_calls_run_alone():
    _, executable = example()
    arrays = arguments()
    fx.set_num_threads(2)
    executable.run(list(arrays))
    words = parallel._native.words
    words[parallel.ALONE_UNTIL] = 1 << 62
    asked = words[parallel.JOBS]
    executable.run(list(arrays))
    assert words[parallel.JOBS] == asked
    words[parallel.ALONE_UNTIL] = 0
    executable.run(list(arrays))
    assert words[parallel.JOBS] > asked


def test_several_threads_at_once():
    graph, executable = example(scratch=256)
    fx.set_num_threads(3)
    cases = [arguments() for _ in range(4)]
    expected = [graph.run(*map(fx.tensor, case))[0]._a for case in cases]
    wrong = []

    def work(i):
        for _ in range(60):
            if not np.array_equal(executable.run(list(cases[i]))[0], expected[i]):
                wrong.append(i)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def _in_child(executable, arrays, expected, answers):
    first = fx.get_num_threads()
    same = np.array_equal(executable.run(list(arrays))[0], expected)
    alone = parallel._native.words[parallel.JOBS] == 0
    fx.set_num_threads(2)  # the child may have workers of its own
    again = np.array_equal(executable.run(list(arrays))[0], expected)
    answers.put((first, same, alone, again, parallel._native.words[parallel.JOBS] > 0))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
def test_a_forked_child_runs_alone_until_it_is_told_otherwise():
    graph, executable = example()
    arrays = arguments()
    expected = graph.run(*map(fx.tensor, arrays))[0]._a
    fx.set_num_threads(2)
    np.testing.assert_array_equal(executable.run(list(arrays))[0], expected)
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    child = context.Process(target=_in_child, args=(executable, arrays, expected, answers))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert answers.get() == (1, True, True, True, True)
    np.testing.assert_array_equal(executable.run(list(arrays))[0], expected)


def test_small_steps_stay_on_one_thread(monkeypatch):
    monkeypatch.undo()
    monkeypatch.setenv("FX_CACHE", "0")
    x = argument(5000)
    graph = graph_of([x], [apply("add", x, x)])
    small = compile_graph(graph, scheduler=scheduler(tasks=8, cost=limits.PARALLEL_FROM / 2))
    large = compile_graph(graph, scheduler=scheduler(tasks=8, cost=limits.PARALLEL_FROM * 2))
    assert "call void @fx_parallel" not in small.code()
    assert "call void @fx_parallel" in large.code()


@pytest.mark.parametrize("count", [0, -1])
def test_less_than_one_thread_is_refused(count):
    with pytest.raises(ValueError, match=r"at least 1, got -?\d; write fx.set_num_threads"):
        fx.set_num_threads(count)


@pytest.mark.parametrize("count", [1.5, "2", None])
def test_what_is_no_integer_is_refused(count):
    with pytest.raises(TypeError, match="takes an int, got"):
        fx.set_num_threads(count)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("FX_NUM_THREADS", "3", 3),
        ("OMP_NUM_THREADS", "5,2", 5),
        ("FX_NUM_THREADS", "many", None),
        ("FX_NUM_THREADS", "0", None),
    ],
)
def test_the_environment_says_how_many_at_first(name, value, expected):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for other in ("FX_NUM_THREADS", "OMP_NUM_THREADS"):
        environment.pop(other, None)
    environment[name] = value
    program = "import fx; print(fx.get_num_threads())"
    out = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert int(out.stdout) == (expected or cores)


def test_no_thread_is_started_before_one_is_needed():
    program = """
import sys, threading, os
import numpy as np, fx
from fx.backends.cpu.llvm.driver import compile_graph
graph = fx.make_graph(lambda x: fx.exp(x) + 1)(fx.ones(3))
compile_graph(graph).run([np.zeros(3, np.float32)])
from fx.backends.cpu.llvm import parallel
assert parallel._native.loaded is None
assert "numba" not in sys.modules
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "FX_CACHE": "0"}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)


def test_a_kernel_that_several_functions_call():
    """A long graph is several native functions; one parallel kernel may be called by each."""

    def f(x):
        for _ in range(3):
            x = fx.sort(x, axis=1) * 2 + 1
        return x

    x = fx.tensor(RNG.random((1000, 100)))
    with limits.given(BODY_STEPS=1):
        found = fx.jit(f)(x).numpy()
    np.testing.assert_array_equal(found, f(x).numpy())
