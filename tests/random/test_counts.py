"""Counts: binomial, multinomial and geometric numbers against scipy.stats, and their edges."""

import math

import numpy as np
import pytest
from scipy import stats

import fx
from fx import random
from tests.random.goodness import N, check, chi2, ks

KEY = random.key(11)
INF, NAN = math.inf, math.nan


@pytest.mark.parametrize(
    "n, p",
    [(1, 0.3), (5, 0.5), (40, 0.24), (40, 0.26), (21, 0.5), (90, 0.9), (1000, 0.003), (1000, 0.4)],
)
def test_binomial(n, p):
    check(lambda key: random.binomial(key, n, p, (N,)), chi2(stats.binom(n, p)))


@pytest.mark.parametrize("n, p", [(1e9, 0.3), (1e12, 0.999), (1e15, 0.5), (1e17, 1e-12)])
def test_binomial_of_many_trials_is_normal(n, p):
    mean, std = n * p, math.sqrt(n * p * (1 - p))
    check(lambda key: (random.binomial(key, n, p, (N,), fx.float64) - mean) / std, ks(stats.norm))


def test_binomial_of_rare_events_is_poisson():
    check(lambda key: random.binomial(key, 1e18, 3e-18, (N,)), chi2(stats.poisson(3.0)))


def test_edges_of_binomial():
    def all_are(n, p, expected, dtype=fx.float64):
        for given in ((n, p), (fx.tensor(n, dtype=fx.float64), fx.tensor(p, dtype=fx.float64))):
            x = np.asarray(random.binomial(KEY, *given, (50,), dtype))
            np.testing.assert_array_equal(x, np.full(50, expected, x.dtype), f"{n} {p}")

    for n in (0, 1, 30, 10**6):
        all_are(n, 0.0, 0.0)
        all_are(n, 1.0, float(n))
    all_are(0, 0.5, 0.0)
    all_are(7.9, 1.0, 7.0)
    all_are(INF, 0.5, INF)
    for n, p in ((-1, 0.5), (NAN, 0.5), (5, NAN), (5, -0.1), (5, 1.1)):
        all_are(n, p, NAN)
        all_are(n, p, -1, fx.int64)
    all_are(200, 1.0, -1, fx.int8)
    all_are(100, 1.0, 100, fx.int8)
    huge = np.asarray(random.binomial(KEY, 1e300, 0.25, (50,), fx.float64))
    np.testing.assert_allclose(huge, 2.5e299)
    assert random.binomial(KEY, fx.tensor([3, 4]), 0.5).dtype == fx.float32
    assert random.binomial(KEY, 3, fx.tensor(0.5, dtype=fx.float64)).dtype == fx.float64
    assert random.binomial(KEY, fx.ones((3, 1)), fx.full((4,), 0.5)).shape == (3, 4)


def test_binomial_counts_lie_between_0_and_n():
    n = fx.arange(60).reshape(60, 1)
    p = fx.linspace(0.0, 1.0, 41)
    x = random.binomial(KEY, n, p, (200, 60, 41), fx.int64)
    assert bool((x >= 0).all())
    assert bool((x <= n).all())
    np.testing.assert_allclose(
        np.asarray(x).mean(0), np.asarray(n) * np.asarray(p), atol=5 * 0.5 * math.sqrt(60 / 200)
    )


def test_multinomial_classes_are_binomial_and_sum_to_the_count():
    p = np.array([0.2, 0.0, 0.5, 0.3])
    for n in (7, 300):
        x = np.asarray(random.multinomial(KEY, n, fx.asarray(p), shape=(N,), dtype=fx.int64))
        assert x.shape == (N, 4)
        assert (x.sum(-1) == n).all()
        expected = stats.multinomial(n, p).cov()
        np.testing.assert_allclose(np.cov(x.T), expected, atol=0.03 * n * 0.25)
        for j in (0, 2, 3):
            check(
                lambda key, j=j, n=n: random.multinomial(key, n, fx.asarray(7 * p), shape=(N,))[
                    :, j
                ],
                chi2(stats.binom(n, p[j])),
            )
        assert (x[:, 1] == 0).all()


def test_shapes_of_multinomial():
    p = fx.tensor([[0.5, 0.5], [0.1, 0.9]])
    assert random.multinomial(KEY, 10, p).shape == (2, 2)
    assert random.multinomial(KEY, fx.tensor([[5], [6], [7]]), p).shape == (3, 2, 2)
    x = random.multinomial(KEY, fx.tensor([5, 6]), p, shape=(4, 2), dtype=fx.int32)
    assert x.dtype == fx.int32
    np.testing.assert_array_equal(np.asarray(x.sum(-1)), np.broadcast_to([5, 6], (4, 2)))
    lanes = fx.vmap(lambda k, n, p: random.multinomial(k, n, p))(
        random.split(KEY, 2), fx.tensor([5, 6]), p
    )
    for i in range(2):
        row = random.multinomial(random.split(KEY, 2)[i], fx.tensor([5, 6])[i], p[i])
        assert np.asarray(lanes[i]).tobytes() == np.asarray(row).tobytes()
    with pytest.raises(fx.errors.ShapeError, match="multinomial: p needs an axis of classes"):
        random.multinomial(KEY, 10, 0.5)
    with pytest.raises(fx.errors.ShapeError, match=r"multinomial: a parameter of shape \(2,\)"):
        random.multinomial(KEY, 10, p, shape=(3,))


def test_edges_of_multinomial():
    def rows(n, p):
        return np.asarray(random.multinomial(KEY, n, fx.tensor(p)))

    for n, p in ((5, [0.0, 0.0]), (5, [1.0, -1.0]), (5, [NAN, 1.0]), (NAN, [1.0, 1.0])):
        assert np.isnan(rows(n, p)).all()
    assert np.isnan(rows(INF, [1.0, 1.0])).all()
    np.testing.assert_array_equal(rows(0, [0.0, 0.0]), [0, 0])
    np.testing.assert_array_equal(rows(9, [0.0, 2.0, 0.0]), [0, 9, 0])
    assert rows(9, []).shape == (0,)
    tiny = fx.tensor([1.0, 1e-15], dtype=fx.float64)  # 1 - p / total would be 1.1e-15
    x = random.multinomial(KEY, 1e15, tiny, shape=(N,), dtype=fx.float64)[:, 1]
    assert abs(np.asarray(x).mean() - 1.0) < 0.03


@pytest.mark.parametrize("p", [0.9, 0.3, 0.01, fx.tensor(0.05)])
def test_geometric(p):
    check(lambda key: random.geometric(key, p, (N,)), chi2(stats.geom(float(p))))


def test_edges_of_geometric():
    p = fx.tensor([1.0, 0.0, -0.5, 1.5, NAN])
    floats = np.asarray(random.geometric(KEY, p, dtype=fx.float32))
    np.testing.assert_array_equal(floats, [1.0, INF, NAN, NAN, NAN])
    np.testing.assert_array_equal(np.asarray(random.geometric(KEY, p)), [1, -1, -1, -1, -1])
    rare = np.asarray(random.geometric(KEY, 1e-12, (N,), fx.float64)) * 1e-12
    assert stats.kstest(rare, stats.expon.cdf).pvalue > 1e-3
    assert bool((random.geometric(KEY, 0.001, (N,), fx.int8) <= 127).all())


def test_rademacher():
    x = random.rademacher(KEY, (N,), fx.int8)
    assert x.dtype == fx.int8
    assert sorted({int(v) for v in np.asarray(x)}) == [-1, 1]
    assert abs(np.asarray(x).mean()) < 0.02
    assert random.rademacher(KEY).dtype == fx.int64
    for dtype in (fx.uint8, fx.bool):
        with pytest.raises(fx.errors.DTypeError, match=r"rademacher: .* cannot hold -1; write"):
            random.rademacher(KEY, (2,), dtype)


def test_counts_need_a_dtype_that_holds_them():
    for sample in (
        lambda d: random.binomial(KEY, 3, 0.5, dtype=d),
        lambda d: random.multinomial(KEY, 3, fx.ones(2), dtype=d),
        lambda d: random.geometric(KEY, 0.5, dtype=d),
        lambda d: random.poisson(KEY, 0.5, dtype=d),
    ):
        with pytest.raises(fx.errors.DTypeError, match="bool cannot hold counts; write dtype="):
            sample(fx.bool)
        for dtype in (fx.int8, fx.uint32, fx.float16, fx.bfloat16, fx.float64):
            assert sample(dtype).dtype == dtype


def test_no_derivative_passes_through_counts():
    x = fx.tensor(0.3)
    assert fx.grad(lambda p: random.binomial(KEY, 10, p, (5,)).sum())(x) == 0.0
    assert fx.grad(lambda p: random.geometric(KEY, p, (5,), fx.float32).sum())(x) == 0.0


def test_distributions_draw_by_the_same_samplers():
    import fx.torch.distributions as d

    fx.manual_seed(3)
    key = fx.random.next_key()
    n, p = fx.tensor([3.0, 400.0]), fx.tensor([0.5, 0.25])
    for found, expected in (
        (d.Binomial(n, p), random.binomial(key, n, p, (9, 2))),
        (d.Geometric(p), random.geometric(key, p, (9, 2), fx.float32) - 1),
        (d.Multinomial(10**9, p / 0.75), random.multinomial(key, 10**9, p / 0.75, shape=(9,))),
        (d.StudentT(n), random.t(key, n, (9, 2))),
        (d.FisherSnedecor(n, 5.0), random.f(key, n, 5.0, (9, 2))),
        (d.Cauchy(0.0, 1.0), random.cauchy(key, (9,))),
    ):
        fx.manual_seed(3)
        np.testing.assert_array_equal(np.asarray(found.sample((9,))), np.asarray(expected))
