"""Loops and branches as native code: equal to the interpreter, with no step left to Python."""

import numpy as np
import pytest

import fx
from fx.backends.cpu.llvm.driver import compile_graph
from fx.graph import optimize
from fx.graph.staging import stage

X = fx.tensor(np.array([0.5, 1.5, -0.7, 2.0]))


def check(function, *args, native=True):
    """Compile the graph of a function, before and after the passes, and compare."""
    leaves = fx.tree.leaves(args)
    run = lambda *xs: fx.tree.leaves(function(*xs))
    graph, captured = stage(run, [x.spec for x in leaves])
    leaves += captured
    expected = [np.asarray(x._a) for x in graph.run(*leaves)]
    for each in (graph, optimize(graph)):
        compiled = compile_graph(each)
        assert ("python" not in compiled.schedule) == native, compiled.schedule
        for _ in range(2):
            found = compiled.run([x._a for x in leaves])
            for a, b in zip(found, expected, strict=True):
                assert a.shape == b.shape and a.dtype == b.dtype
                np.testing.assert_allclose(a, b, 1e-6 if a.dtype == np.float32 else 1e-12)
    return compiled


@pytest.mark.parametrize("length", [1, 2, 3, 8])
@pytest.mark.parametrize("reverse", [False, True])
def test_scan(length, reverse):
    """Carries that change, swap and stay; rows in and out; results that are inputs."""

    def f(x, rows, w):
        def step(c, a):
            h = fx.tanh(w @ c[0] + a)
            return (h, c[2], c[1], c[3]), (h, a, c[0] * 2, c[3])

        return fx.scan(step, (x, x * 2, x * 3, x[0]), rows, reverse=reverse)

    rows = fx.tensor(np.random.default_rng(0).normal(size=(length, 4)))
    w = fx.tensor(np.random.default_rng(1).normal(size=(4, 4)))
    check(f, X, rows, w)


def test_what_never_changes_is_computed_once():
    def f(x, rows):
        return fx.scan(lambda c, a: (c * fx.exp(x).sum() + a, c), x[0], rows)

    compiled = check(f, X, X)
    assert compiled.schedule.count("scan") == 1


def test_while_and_cond():
    def f(x):
        def step(v):
            n, y = v
            return n + 1, fx.cond(y.sum() > 3, lambda: y / 2, lambda: y * 3 - x)

        return fx.while_loop(lambda v: v[0] < 7, step, (0, fx.abs(x)))

    check(f, X)
    check(lambda x: fx.while_loop(lambda v: v.sum() > 1e9, lambda v: v * 2, x), X)


@pytest.mark.parametrize("index", [-3, 0, 1, 2, 9])
@pytest.mark.parametrize("dtype", ["int8", "int64", "uint8"])
def test_switch(index, dtype):
    if index < 0 and dtype == "uint8":
        index = 255
    branches = [lambda x: x * 2, lambda x: x, lambda x: fx.flip(x) + 1]
    f = lambda i, x: fx.switch(i, branches, x)
    check(f, fx.tensor(np.array(index, dtype)), X)


def test_a_loop_in_a_loop():
    def f(x, rows):
        def outer(c, a):
            inner = lambda d, b: (fx.sin(d) * b + a, d)
            last, ys = fx.scan(inner, c, x)
            return last, fx.fori_loop(0, 3, lambda i, v: v * 0.5 + i, ys)

        return fx.scan(outer, x[0], rows)

    check(f, X, X)


def test_gradients():
    def loss(w, x, rows):
        step = lambda h, a: (fx.tanh(w @ h + a), h.sum())
        h, ys = fx.scan(step, x, rows)
        return fx.cond(h.sum() > 0, lambda: (h * h).sum(), lambda: fx.sin(h).sum()) + ys.sum()

    w = fx.tensor(np.random.default_rng(1).normal(size=(4, 4)))
    rows = fx.tensor(np.random.default_rng(0).normal(size=(5, 4)))
    check(fx.value_and_grad(loss, (0, 1)), w, X, rows)


def test_float32_lanes():
    def f(x):
        return fx.vmap(lambda a: fx.while_loop(lambda v: v < 5, lambda v: v * 2, a))(x)

    check(f, fx.tensor(np.linspace(0.1, 9, 37, dtype=np.float32)))


def test_a_body_that_python_has_to_run():
    def f(x):
        return fx.scan(lambda c, a: (fx.sort(c) * a, c), x, x)

    graph = fx.make_graph(f)(X)
    expected = [x._a for x in graph.run(X)]
    found = compile_graph(graph).run([X._a])
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b)


def test_an_index_out_of_range_is_named():
    def f(x, i):
        return fx.scan(lambda c, k: (c + x[k], None), x[0], i)[0]

    for indices in ([0, 1, -1], [3, 0]):
        i = fx.tensor(np.array(indices))
        check_values = compile_graph(fx.make_graph(f)(X, i)).run([X._a, i._a])
        np.testing.assert_allclose(check_values[0], X._a[0] + X._a[indices].sum())
    i = fx.tensor(np.array([0, 7, 1]))
    compiled = compile_graph(fx.make_graph(f)(X, i))
    with pytest.raises(fx.errors.IndexingError, match="index 7 is out of range"):
        compiled.run([X._a, i._a])
