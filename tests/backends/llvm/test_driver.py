"""Compiled graphs against the interpreter: arguments, results, aliases, Python steps, threads."""

from __future__ import annotations

import gc
import sys
import threading
import weakref

import ml_dtypes
import numpy as np
import pytest

import fx
from fx.backends.cpu.llvm import python_api
from fx.backends.cpu.llvm.driver import compile_graph
from fx.graph.ir import Graph, constant_value
from tests.backends.llvm.driver_steps import apply, argument, constant, graph_of, scheduler, spec

RNG = np.random.default_rng(0)


@pytest.fixture(params=["builtin", "ctypes"], autouse=True)
def way(request, monkeypatch):
    """Both ways into native code."""
    monkeypatch.setenv("FX_CACHE", "0")
    if request.param == "ctypes":
        monkeypatch.setattr(python_api, "DIRECT", False)
    return request.param


def draw(*shape):
    return RNG.standard_normal(shape, dtype=np.float32)


def check(graph: Graph, arrays, **told):
    """Compile and compare with the interpreter; the executable."""
    executable = compile_graph(graph, scheduler=scheduler(**told))
    expected = [t._a for t in graph.run(*[fx.tensor(a) for a in arrays])]
    for _ in range(2):
        found = executable.run(list(arrays))
        assert type(found) is list and len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert one.dtype == other.dtype and one.shape == other.shape
            np.testing.assert_array_equal(one, other)
    return executable


def both(x, y):
    total = apply("add", x, y)
    return apply("subtract", apply("multiply", total, constant(np.full((3, 4), 2, "f4"))), x)


MIXES = [{}, {"inplace": False}, {"python": ("multiply",)}, {"python": ("add", "subtract")}]


@pytest.mark.parametrize("told", MIXES)
def test_a_graph_gives_what_the_interpreter_gives(told):
    x, y = argument(3, 4), argument(3, 4)
    check(graph_of([x, y], [both(x, y)]), [draw(3, 4), draw(3, 4)], **told)


@pytest.mark.parametrize("told", MIXES)
def test_outputs_may_be_inputs_constants_aliases_and_doubles(told):
    x, y = argument(3, 4), argument(3, 4)
    out, fixed = both(x, y), constant(np.arange(12, dtype="f4").reshape(3, 4))
    flat = [apply("reshape", v, shape=(12,)) for v in (out, x, fixed)]
    further = apply("reshape", flat[0], shape=(4, 3))
    outputs = [out, x, fixed, *flat, further, out, x]
    arrays = [draw(3, 4), draw(3, 4)]
    executable = check(graph_of([x, y], outputs), arrays, **told)
    found = executable.run(arrays)
    assert found[1] is arrays[0] and found[8] is arrays[0]
    assert np.shares_memory(found[0], found[3]) and np.shares_memory(found[4], arrays[0])
    assert executable.reuse == {}


@pytest.mark.parametrize("told", MIXES)
def test_results_stay_valid_and_independent(told):
    x, y = argument(5), argument(5)
    executable = compile_graph(
        graph_of([x, y], [apply("add", apply("multiply", x, y), y)]), scheduler=scheduler(**told)
    )
    a, b = draw(5), draw(5)
    first = executable.run([a, b])[0]
    kept = first.copy()
    second = executable.run([b, a])[0]
    del executable
    gc.collect()
    np.testing.assert_array_equal(first, kept)
    assert not np.shares_memory(first, second) and first.flags.owndata


def test_arguments_of_any_layout():
    x, y = argument(3, 4), argument(3, 4)
    graph = graph_of([x, y], [both(x, y), x])
    wide = draw(6, 8)
    bent = np.frombuffer(bytes(1) + draw(3, 4).tobytes(), np.uint8)[1:].view("f4").reshape(3, 4)
    assert not bent.flags.aligned
    locked = draw(3, 4)
    locked.flags.writeable = False
    for a in (wide[::2, ::2], draw(4, 3).T, bent, np.broadcast_to(draw(4), (3, 4)), locked):
        for b in (draw(3, 4), wide[::-2, 4:]):
            check(graph, [a, b])


def test_constants_of_any_layout():
    x = argument(3, 4)
    bent = np.frombuffer(bytes(1) + draw(3, 4).tobytes(), np.uint8)[1:].view("f4").reshape(3, 4)
    assert not bent.flags.aligned
    for array in (bent, draw(4, 3).T, draw(6, 8)[::2, ::2], np.broadcast_to(draw(4), (3, 4))):
        fixed = constant_value(fx.from_numpy(array))
        check(graph_of([x], [apply("add", x, fixed), fixed]), [draw(3, 4)])


def test_scalars_empty_results_and_no_inputs_at_all():
    x, y = argument(), argument()
    check(graph_of([x, y], [apply("add", x, y)]), [np.full((), 2, "f4"), np.full((), 3, "f4")])
    two = constant(np.full(3, 2, "f4"))
    check(graph_of([], [apply("add", two, two), two]), [])
    empty = argument(0, 3)
    check(graph_of([empty], [apply("add", empty, empty), empty]), [draw(0, 3)])
    check(graph_of([x], []), [np.ones((), "f4")])


def test_every_dtype_passes_through():
    for dtype in fx.dtypes.ALL:
        x = fx.graph.input_value(spec(2, 3, dtype=dtype))
        graph = graph_of([x], [x, apply("reshape", x, shape=(6,))])
        array = np.ones((3, 2), dtype).T
        found = compile_graph(graph, scheduler=scheduler()).run([array])
        assert found[0].dtype == dtype and found[1].dtype == dtype and found[1].shape == (6,)
    assert found[1].base is not None
    assert fx.bfloat16 == ml_dtypes.bfloat16


@pytest.mark.parametrize("arrays", [[], [0, 1, 2], [np.ones(3, "f4"), 3], (1, 2), None, 5])
def test_wrong_arguments_are_refused(arrays, way):
    x, y = argument(3), argument(3)
    executable = compile_graph(graph_of([x, y], [apply("add", x, y)]), scheduler=scheduler())
    with pytest.raises((TypeError, AttributeError)) as error:
        executable.run(arrays)
    if way == "builtin":
        assert "a compiled graph of 2 inputs takes a list of 2 arrays" in str(error.value)


def test_nothing_leaks():
    x, y = argument(3, 4), argument(3, 4)
    graph = graph_of([x, y], [both(x, y), x, apply("reshape", x, shape=(12,))])
    executable = compile_graph(graph, scheduler=scheduler(inplace=False))
    a, b = draw(3, 4), draw(4, 3).T
    before = [sys.getrefcount(v) for v in (a, b, a.dtype, None)]
    for _ in range(2000):
        executable.run([a, b])
    after = [sys.getrefcount(v) for v in (a, b, a.dtype, None)]
    assert all(abs(i - j) < 50 for i, j in zip(before, after, strict=True))
    gone = weakref.ref(executable.run([a, b])[0])
    assert gone() is None
    code = weakref.ref(executable)
    del executable
    gc.collect()
    assert code() is None


def test_code_lives_as_long_as_its_function():
    x = argument(3)
    run = compile_graph(graph_of([x], [apply("add", x, x)]), scheduler=scheduler()).run
    gc.collect()
    np.testing.assert_array_equal(run([np.ones(3, "f4")])[0], np.full(3, 2, "f4"))


@pytest.mark.parametrize("told", [{"inplace": False, "cost": 1e5}, {"scratch": 256}])
def test_several_threads_run_one_executable(told):
    x, y = argument(2000), argument(2000)
    v = x
    for name in ("add", "multiply", "subtract", "add", "multiply") * 3:
        v = apply(name, v, y)
    graph = graph_of([x, y], [v])
    executable = compile_graph(graph, scheduler=scheduler(**told))
    cases = [(draw(2000), draw(2000)) for _ in range(4)]
    wanted = [graph.run(*map(fx.tensor, case))[0]._a for case in cases]
    wrong = []

    def work(i):
        for _ in range(200):
            if not np.array_equal(executable.run(list(cases[i]))[0], wanted[i]):
                wrong.append(i)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_equal_kernels_are_emitted_once():
    x, y = argument(7), argument(7)
    v = x
    for name in ("add", "multiply") * 20:
        v = apply(name, v, y)
    executable = compile_graph(graph_of([x, y], [v]), scheduler=scheduler())
    assert executable.code().count(" = fadd ") == 1
    assert "kernel" in executable.code(asm=True)


def test_a_failing_kernel_leaves_nothing():
    x = argument(3)
    graph = graph_of([x], [apply("add", x, x)])
    steps = []
    told = scheduler(steps=steps)

    def broken(graph):
        found = told(graph)
        found.steps[0].emit = lambda module, name: (_ for _ in ()).throw(RuntimeError("no such"))
        return found

    with pytest.raises(RuntimeError, match="no such"):
        compile_graph(graph, scheduler=broken)
    check(graph, [draw(3)])


def test_texts_name_steps_and_places():
    x, y = argument(3, 4), argument(3, 4)
    executable = compile_graph(graph_of([x, y], [both(x, y)]), scheduler=scheduler(inplace=False))
    assert "elementwise: multiply" in executable.schedule
    assert "arena" in executable.memory and "in0 float32[3,4]" in executable.memory


def test_an_error_in_a_python_step_is_the_users():
    x = argument(3)
    graph = graph_of([x], [apply("multiply", apply("add", x, x), x)])
    told = scheduler(python=("multiply",))

    def fragile(graph):
        found = told(graph)
        run = found.steps[1].run

        def checked(*arrays):
            if arrays[1][0] < 0:
                raise ArithmeticError("below zero")
            return run(*arrays)

        found.steps[1].run = checked
        return found

    executable = compile_graph(graph, scheduler=fragile)
    with pytest.raises(ArithmeticError, match="below zero"):
        executable.run([-np.ones(3, "f4")])
    np.testing.assert_array_equal(executable.run([np.ones(3, "f4")])[0], np.full(3, 2, "f4"))


def test_a_long_graph_is_compiled_in_linear_time_and_runs():
    x, y = argument(16), argument(16)
    v = x
    for i in range(3000):
        v = apply(("add", "subtract")[i % 2], v, y)
    executable = compile_graph(
        fx.graph.Graph([x, y], _nodes(v), [v]), scheduler=scheduler(inplace=False)
    )
    a = draw(16)
    np.testing.assert_allclose(executable.run([a, np.ones(16, "f4")])[0], a, rtol=1e-5)


def _nodes(value):
    nodes = []
    while value.node is not None:
        nodes.append(value.node)
        value = value.node.inputs[0]
    return nodes[::-1]
