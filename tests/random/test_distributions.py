"""Distributions against scipy.stats: Kolmogorov-Smirnov and chi-square tests with fixed seeds."""

import numpy as np
import pytest
from scipy import stats

import fx
from fx import random
from tests.random.goodness import N, check, chi2, ks

CONTINUOUS = {
    "uniform": (lambda k, d: random.uniform(k, N, -2.0, 5.0, d), stats.uniform(-2, 7)),
    "normal": (lambda k, d: random.normal(k, N, 1.0, 0.5, d), stats.norm(1, 0.5)),
    "exponential": (lambda k, d: random.exponential(k, N, d), stats.expon),
    "gumbel": (lambda k, d: random.gumbel(k, N, d), stats.gumbel_r),
    "laplace": (lambda k, d: random.laplace(k, N, d), stats.laplace),
    "logistic": (lambda k, d: random.logistic(k, N, d), stats.logistic),
    "truncated": (
        lambda k, d: random.truncated_normal(k, -0.5, 2.0, N, d),
        stats.truncnorm(-0.5, 2.0),
    ),
    "truncated_tail": (
        lambda k, d: random.truncated_normal(k, 5.0, np.inf, N, d),
        stats.truncnorm(5.0, np.inf),
    ),
    "gamma_0.01": (lambda k, d: random.gamma(k, 0.01, N, fx.float64), stats.gamma(0.01)),
    "gamma_0.6": (lambda k, d: random.gamma(k, 0.6, N, d), stats.gamma(0.6)),
    "gamma_1": (lambda k, d: random.gamma(k, 1.0, N, d), stats.gamma(1.0)),
    "gamma_30": (lambda k, d: random.gamma(k, 30.0, N, d), stats.gamma(30.0)),
    "loggamma": (lambda k, d: random.loggamma(k, 0.4, N, d), stats.loggamma(0.4)),
    "beta": (lambda k, d: random.beta(k, 0.5, 3.0, N, d), stats.beta(0.5, 3.0)),
    "dirichlet": (
        lambda k, d: random.dirichlet(k, fx.tensor([1.0, 2.0, 4.0]), N, d)[:, 1],
        stats.beta(2.0, 5.0),
    ),
}


@pytest.mark.parametrize("dtype", [fx.float32, fx.float64])
@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_distributions(name, dtype):
    sample, distribution = CONTINUOUS[name]
    check(lambda key: sample(key, dtype), ks(distribution))


@pytest.mark.parametrize("rate", [0.05, 3.0, 9.99, 10.0, 40.0, 900.0])
def test_poisson(rate):
    check(lambda key: random.poisson(key, rate, N), chi2(stats.poisson(rate)))


@pytest.mark.parametrize("p", [0.0, 1e-3, 0.5, 0.9, 1.0])
def test_bernoulli(p):
    if 0 < p < 1:
        check(lambda key: random.bernoulli(key, p, N), chi2(stats.bernoulli(p)))
    x = random.bernoulli(random.key(0), p, N)
    y = random.bernoulli(random.key(0), fx.tensor(p, dtype=fx.float64), N)
    np.testing.assert_array_equal(np.asarray(x), np.asarray(y))
    if p in (0.0, 1.0):
        assert bool((x == bool(p)).all())


@pytest.mark.parametrize("low, high", [(0, 2), (-3, 4), (0, 1000)])
def test_randint(low, high):
    check(
        lambda key: random.randint(key, N, low, high) - low,
        chi2(stats.randint(0, high - low)),
    )


def test_randint_of_large_spans():
    for low, high in ((0, 3 << 61), (-(1 << 63), 1 << 63), (0, (1 << 32) + 1)):
        check(
            lambda key, low=low, high=high: random.randint(key, N, low, high),
            ks(stats.uniform(low, high - low)),
        )
    check(lambda key: random.bits(key, N, fx.uint64), ks(stats.uniform(0, 2.0**64)))


def test_categorical_and_weighted_choice():
    weights = np.array([0.1, 0.0, 0.4, 0.3, 0.2])
    classes = stats.rv_discrete(values=(np.arange(5), weights))
    logits = fx.asarray(np.log(weights, where=weights > 0, out=np.full(5, -np.inf)))
    check(lambda key: random.categorical(key, logits, shape=N), chi2(classes))
    check(lambda key: random.choice(key, 5, N, p=fx.asarray(weights)), chi2(classes))


def test_permutations_are_equally_likely():
    def rank(key):
        orders = np.asarray(
            random.permutation(key, fx.broadcast_to(fx.arange(4), (N, 4)), 1, independent=True)
        )
        return orders @ np.array([64, 16, 4, 1])

    codes = sorted({int(c) for c in rank(random.key(0))})
    assert len(codes) == 24
    check(
        lambda key: np.searchsorted(codes, rank(key)),
        chi2(stats.randint(0, 24)),
    )


def test_choice_without_replacement_follows_the_weights():
    p = np.array([0.5, 0.3, 0.2])
    keys = random.split(random.key(1), N)
    pairs = np.asarray(
        fx.vmap(lambda k: random.choice(k, 3, 2, replace=False, p=fx.asarray(p)))(keys)
    )
    expected = [p[i] * p[j] / (1 - p[i]) for i in range(3) for j in range(3) if i != j]
    counts = [
        int(((pairs[:, 0] == i) & (pairs[:, 1] == j)).sum())
        for i in range(3)
        for j in range(3)
        if i != j
    ]
    assert sum(counts) == N
    assert stats.chisquare(counts, np.array(expected) * N).pvalue > 1e-3


def test_joint_distribution_of_neighbours():
    x = np.asarray(random.normal(random.key(3), (2, N)))
    assert abs(np.corrcoef(x)[0, 1]) < 0.02
    lanes = np.asarray(fx.vmap(lambda k: random.normal(k, (500,)))(random.split(random.key(4), 40)))
    off_diagonal = np.corrcoef(lanes) - np.eye(40)
    assert np.abs(off_diagonal).max() < 0.25
    x = np.asarray(random.uniform(random.key(5), N))
    assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 0.02


def test_normal_tails_and_symmetry():
    x = np.asarray(random.normal(random.key(0), 2_000_000))
    for z in (3.0, 4.0):
        expected = 2 * stats.norm.sf(z) * x.size
        assert abs((np.abs(x) > z).sum() - expected) < 5 * np.sqrt(expected)
    np.testing.assert_allclose([x.mean(), x.std()], [0, 1], atol=3e-3)
