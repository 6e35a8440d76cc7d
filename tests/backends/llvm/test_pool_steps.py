"""Native pooling against the NumPy kernels, and the transpose of max pooling within a graph."""

from __future__ import annotations

import numpy as np
import pytest

import fx
from fx import limits
from fx.backends.cpu import index, pool
from fx.backends.cpu.llvm.conv import STEPS
from fx.nn import functional as F
from tests.backends.llvm.conv_steps import run
from tests.backends.llvm.run_step import compile_step


def draw(seed):
    """Sizes, a window over them and a dtype."""
    rng = np.random.default_rng(seed)
    rank = int(rng.choice([1, 2, 2, 2, 3]))

    def numbers(low, high):
        return tuple([int(n) for n in rng.integers(low, high, rank)])

    window, dilation = numbers(1, 4), numbers(1, 3)
    padding = tuple([(int(rng.integers(0, k // 2 + 1)), k // 2) for k in window])
    stride = numbers(1, 4) if seed % 5 else numbers(4, 7)
    sizes = [d * (k - 1) + 1 + int(rng.integers(0, 6)) for k, d in zip(window, dilation)]
    sizes[-1] += int(rng.integers(0, 35))
    params = dict(window=window, stride=stride, padding=padding, dilation=dilation)
    return rng, tuple(sizes), params, (np.float32, np.float64)[seed % 2]


@pytest.mark.parametrize("seed", range(12))
def test_maxima_and_places_are_those_of_numpy(seed):
    rng, sizes, params, dtype = draw(seed)
    x = rng.integers(-3, 3, (2, 3, *sizes)).astype(dtype)  # with ties
    for value in (np.nan, -np.inf, np.inf):
        x[rng.random(x.shape) < 0.08] = value
    expected = pool.max_pool(x, **params)
    for mine, oracle in zip(run("max_pool", x, **params), expected):
        np.testing.assert_array_equal(mine, oracle)


@pytest.mark.parametrize("seed", range(12))
def test_window_sums_and_their_transpose_are_those_of_numpy(seed):
    rng, sizes, params, dtype = draw(seed)
    x = rng.standard_normal((2, 3, *sizes)).astype(dtype)
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    out = run("window_sum", x, **params)
    np.testing.assert_allclose(out, pool.window_sum(x, **params), atol=tolerance, rtol=tolerance)
    g = rng.standard_normal(out.shape).astype(dtype)
    mine = run("window_sum_transpose", g, input_size=sizes, **params)
    expected = pool.window_sum_transpose(g, input_size=sizes, **params)
    np.testing.assert_allclose(mine, expected, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("sizes", [(5, 7), (14, 14), (300,)])
def test_one_window_over_everything(sizes):
    x = np.random.default_rng(0).standard_normal((3, 4, *sizes)).astype(np.float32)
    rank = len(sizes)
    params = dict(window=sizes, stride=sizes, padding=((0, 0),) * rank, dilation=(1,) * rank)
    out = run("window_sum", x, **params)
    np.testing.assert_allclose(out, pool.window_sum(x, **params), atol=1e-5, rtol=1e-5)
    back = run("window_sum_transpose", out, input_size=sizes, **params)
    np.testing.assert_array_equal(back, np.broadcast_to(out, x.shape))


def test_an_infinity_stays_in_its_window():
    x = np.ones((1, 1, 8, 40), np.float32)
    x[0, 0, 3, 17] = np.inf
    params = dict(window=(2, 2), stride=(2, 2), padding=((0, 0),) * 2, dilation=(1, 1))
    out = run("window_sum", x, **params)
    assert np.argwhere(~np.isfinite(out)).tolist() == [[0, 0, 1, 8]]
    back = run("window_sum_transpose", out, input_size=(8, 40), **params)
    assert (~np.isfinite(back)).sum() == 4


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("window", [2, 3])
def test_the_transpose_of_max_pooling_within_a_graph(window, dtype):
    x = np.random.default_rng(0).standard_normal((2, 3, 9, 13)).astype(dtype)
    graph = fx.make_graph(fx.grad(lambda x: (F.max_pool2d(x, window, stride=2) ** 2).sum()))(
        fx.from_numpy(x)
    )
    nodes = {n.primitive.name: n for n in graph.nodes}
    (step,) = STEPS["scatter_along_axis"](nodes["scatter_along_axis"])
    values, places = pool.max_pool(x, **nodes["max_pool"].params)
    places, updates = places.reshape(2, 3, -1), values.reshape(2, 3, -1)
    into = np.ones((2, 3, 117), dtype)
    mine = compile_step(step)(*(places, updates, into)[: len(step.reads)], pieces=2)[0]
    base = into if len(step.reads) == 3 else np.zeros_like(into)
    expected = index.scatter_along_axis(base, places, updates, axis=2, mode="add")
    np.testing.assert_array_equal(mine, expected)


def test_indices_from_elsewhere_are_left_to_numpy():
    def scatter(x, i, u):
        from fx.prims.indexing import scatter_along_axis

        return scatter_along_axis(x, i, u, axis=1, mode="add")

    i = fx.tensor(np.zeros((2, 1), np.int64))
    graph = fx.make_graph(scatter)(fx.ones((2, 3)), i, fx.ones((2, 1)))
    assert STEPS["scatter_along_axis"](graph.nodes[-1]) is None


def test_eager_calls_use_the_same_kernels():
    rng, sizes, params, _ = draw(3)
    x = rng.standard_normal((2, 3, *sizes)).astype(np.float32)
    expected = pool.max_pool(x, **params), pool.window_sum(x, **params)
    with limits.given(POOL_FROM=0):
        places = pool.max_pool(x, **params)
        out = pool.window_sum(x, **params)
        back = pool.window_sum_transpose(out, input_size=sizes, **params)
    for mine, oracle in zip(places, expected[0]):
        np.testing.assert_array_equal(mine, oracle)
    np.testing.assert_array_equal(out, run("window_sum", x, **params))
    np.testing.assert_allclose(out, expected[1], rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(
        back, run("window_sum_transpose", out, input_size=sizes, **params)
    )
