"""Large products: right, the same bits on any number of threads, and NumPy's setting left alone."""

import os
import threading

import numpy as np
import pytest

from fx.backends.cpu import blas, threads

SHAPES = [
    ((700, 800), (800, 300)),
    ((30, 900), (900, 4000)),
    ((4000, 300), (300, 20)),
    ((7, 3000), (3000, 1100)),
    ((90, 64, 64), (90, 64, 64)),
    ((64, 64, 128), (1, 128, 64)),
    ((64, 128), (5, 128, 900)),
    ((3, 4, 200, 64), (3, 4, 64, 200)),
    ((1, 500, 500), (20, 500, 500)),
    ((2, 3, 400, 50), (3, 50, 400)),
    ((1, 1, 300, 400), (1, 400, 500)),
    ((1, 64, 576), (2, 576, 900)),
]


def arrays(left, right, dtype=np.float64):
    rng = np.random.default_rng(0)
    return rng.normal(size=left).astype(dtype), rng.normal(size=right).astype(dtype)


def columns_first(x):
    return np.swapaxes(np.ascontiguousarray(np.swapaxes(x, -1, -2)), -1, -2)


@pytest.mark.parametrize(("left", "right"), SHAPES, ids=str)
@pytest.mark.parametrize("layout", [np.ascontiguousarray, columns_first])
def test_equals_numpy(left, right, layout):
    x, y = arrays(left, right)
    expected = x @ y
    found = blas.product(layout(x), layout(y))
    np.testing.assert_allclose(found, expected, 1e-11, 1e-11)
    out = np.empty_like(expected)
    assert blas.product(layout(x), layout(y), out) is out
    np.testing.assert_array_equal(out, found)


@pytest.mark.parametrize(("left", "right"), SHAPES, ids=str)
def test_bits_do_not_depend_on_threads(left, right, monkeypatch):
    x, y = arrays(left, right, np.float32)
    usual = blas.product(x, y)
    for most in (0, 3):
        pool = threads._Pool()
        pool.most = most
        monkeypatch.setattr(threads, "_pool", pool)
        monkeypatch.setattr(blas._one_thread, "_get", lambda: 4)
        np.testing.assert_array_equal(blas.product(x, y), usual)


def test_the_setting_is_put_back(monkeypatch):
    setting = blas._setting()
    before = setting._get()
    seen = []
    monkeypatch.setattr(blas, "_one_thread", setting)
    monkeypatch.setattr(blas, "run_chunks", lambda *args: seen.append(setting._get()))
    blas.product(*arrays((700, 800), (800, 300)))
    assert seen == [1]
    assert setting._get() == before


def test_every_chunk_runs_once_and_errors_come_back():
    for count in (1, 2, 50):
        ran = []
        threads.run_chunks(ran.append, count, 4)
        assert sorted(ran) == list(range(count))

    def fails(i):
        if i == 3:
            raise KeyError(i)

    with pytest.raises(KeyError):
        threads.run_chunks(fails, 8, 4)


def test_products_in_several_threads_are_those_of_one():
    x, y = arrays((700, 800), (800, 300), np.float32)
    expected = blas.product(x, y)
    wrong = []

    def many():
        for _ in range(20):
            if not np.array_equal(blas.product(x, y), expected):
                wrong.append(1)

    runners = [threading.Thread(target=many) for _ in range(4)]
    for runner in runners:
        runner.start()
    for runner in runners:
        runner.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
def test_a_forked_child_multiplies_alone():
    x, y = arrays((700, 800), (800, 300))
    expected = blas.product(x, y)
    child = os.fork()
    if child == 0:
        same = np.array_equal(blas.product(x, y), expected) and threads._pool.workers == 0
        os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0
