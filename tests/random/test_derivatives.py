"""Derivatives of samples in their parameters: those of the quantile at a fixed probability."""

import math

import numpy as np
import pytest
from scipy import stats

import fx
from fx import random

KEY = random.key(5)

QUANTILES = {  # sampler of one parameter, its distribution, values of the parameter
    "gamma": (random.gamma, stats.gamma, [0.3, 1.0, 7.5]),
    "loggamma": (random.loggamma, stats.loggamma, [0.3, 7.5]),
    "beta": (lambda k, a, s: random.beta(k, a, a, s), None, [0.7, 3.0]),
    "chisquare": (random.chisquare, stats.chi2, [0.7, 3.0]),
    "lognormal": (random.lognormal, stats.lognorm, [0.4, 2.0]),
    "pareto": (random.pareto, stats.pareto, [0.8, 3.0]),
    "rayleigh": (random.rayleigh, lambda s: stats.rayleigh(scale=s), [0.5, 2.0]),
    "weibull": (
        lambda k, c, s: random.weibull_min(k, 1.5, c, s),
        lambda c: stats.weibull_min(c, scale=1.5), [0.7, 3.0],
    ),
    "triangular": (
        lambda k, c, s: random.triangular(k, -1.0, c, 2.0, s),
        lambda c: stats.triang((c + 1) / 3, -1, 3), [-0.5, 1.5],
    ),
    "truncated_lower": (
        lambda k, a, s: random.truncated_normal(k, a, 2.0, s),
        lambda a: stats.truncnorm(a, 2.0), [-1.0, 0.8],
    ),
    "truncated_upper": (
        lambda k, b, s: random.truncated_normal(k, 0.5, b, s),
        lambda b: stats.truncnorm(0.5, b), [0.8, 4.0],
    ),
}  # fmt: skip
CASES = [(n, v) for n, (_, d, values) in QUANTILES.items() if d for v in values]


def wide(x):
    return fx.tensor(x, dtype=fx.float64)


@pytest.mark.parametrize("name, value", CASES)
def test_the_probability_of_a_sample_does_not_move(name, value):
    sample, distribution, _ = QUANTILES[name]
    run = lambda v: sample(KEY, v, (40,))
    slope = np.asarray(fx.jacrev(run)(wide(value)))
    chance, h = distribution(value).cdf(np.asarray(run(wide(value)))), 1e-5 * abs(value)
    quantiles = [distribution(v).ppf(chance) for v in (value + h, value - h)]
    np.testing.assert_allclose(slope, (quantiles[0] - quantiles[1]) / (2 * h), rtol=2e-5, atol=1e-7)


# of several gamma samples, or of a choice between roots, the sum over probabilities does not move:
# the mean of f(x) has the derivative of its expectation
MEANS = {
    "t": (lambda v, n: random.t(KEY, v, n), lambda v: stats.t(v), 5.0),
    "f": (lambda v, n: random.f(KEY, v, 6.0, n), lambda v: stats.f(v, 6.0), 3.0),
    "f_below": (lambda v, n: random.f(KEY, 4.0, v, n), lambda v: stats.f(4.0, v), 6.0),
    "beta": (lambda v, n: random.beta(KEY, v, 2.0, n), lambda v: stats.beta(v, 2.0), 1.5),
    "dirichlet": (
        lambda v, n: random.dirichlet(KEY, fx.stack([v, v * 2.0, wide(1.5)]), n)[:, 0],
        lambda v: stats.beta(v, 2 * v + 1.5), 1.2,
    ),
    "generalized_normal": (
        lambda v, n: random.generalized_normal(KEY, v, n), lambda v: stats.gennorm(v), 1.3,
    ),
    "maxwell": (
        lambda v, n: random.double_sided_maxwell(KEY, 0.0, v, (n,)),
        lambda v: stats.chi(3, scale=v), 1.3,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MEANS)
def test_means_have_the_derivatives_of_expectations(name):
    draw, distribution, value = MEANS[name]
    n, h = 200_000, 1e-3
    of_even = lambda x: fx.log1p(x * x)  # its mean is finite, and the sign does not count
    slopes = np.asarray(fx.jacfwd(lambda v: of_even(draw(v, n)))(wide(value)))
    expected = [distribution(v).expect(lambda x: math.log1p(x * x)) for v in (value + h, value - h)]
    found, error = slopes.mean(), slopes.std() / math.sqrt(n)
    assert abs(found - (expected[0] - expected[1]) / (2 * h)) < 4 * error + 1e-5
    assert error < 0.03 * abs(found)  # so that another derivative would be seen


def test_roots_of_wald_move_as_they_are():
    """Of a fixed normal and a fixed choice, the root itself is differentiated, as in JAX."""
    slope = np.asarray(fx.jacrev(lambda m: random.wald(KEY, m, (200,)))(wide(1.3)))
    z = np.asarray(random.normal(random.split(KEY)[0], (200,), dtype=fx.float64))
    x = np.asarray(random.wald(KEY, wide(1.3), (200,)))

    def roots(m):
        root = np.sqrt(4 * m * z**2 + m**2 * z**4)
        small = m + m * m * z**2 / 2 - m / 2 * root
        return small, m * m / small

    first = np.isclose(x, roots(1.3)[0])
    assert 20 < first.sum() < 180
    h = 1e-6
    differences = (np.array(roots(1.3 + h)) - np.array(roots(1.3 - h))) / (2 * h)
    np.testing.assert_allclose(slope, np.where(first, *differences), rtol=1e-5, atol=1e-8)


def test_multivariate_normal_in_mean_and_covariance():
    mean, cov = wide([1.0, -2.0]), wide([[2.0, 0.6], [0.6, 1.0]])
    fixed = wide([[0.3, -1.0], [2.0, 0.7]])

    def loss(m, factor, method):
        x = random.multivariate_normal(KEY, m, factor @ factor.mT + cov, (50,), method=method)
        return fx.sin(x @ fixed).sum()

    factor = wide([[0.5, 0.2], [-0.3, 0.4]])
    for method in ("cholesky", "eigh"):
        for x, run in (
            (mean, lambda v, how=method: loss(v, factor, how)),
            (factor, lambda v, how=method: loss(mean, v, how)),
        ):
            slope = np.asarray(fx.grad(run)(x))
            for place in np.ndindex(*x.shape):
                step = np.zeros(x.shape)
                step[place] = 1e-6
                difference = float(run(x + fx.asarray(step)) - run(x - fx.asarray(step))) / 2e-6
                assert abs(slope[place] - difference) < 1e-5 * max(1, abs(difference))


@pytest.mark.parametrize("name, value", [(n, q[2][0]) for n, q in QUANTILES.items()])
def test_every_way_to_a_derivative_agrees(name, value):
    sample = QUANTILES[name][0]
    run = lambda v: fx.sin(sample(KEY, v, (5,))).sum()
    x = wide(value)
    slope = fx.grad(run)(x)
    assert float(slope) != 0.0
    np.testing.assert_allclose(float(fx.jvp(run, (x,), (wide(1.0),))[1]), float(slope), rtol=1e-12)
    np.testing.assert_allclose(float(fx.jit(fx.grad(run))(x)), float(slope), rtol=1e-9)
    np.testing.assert_allclose(float(fx.grad(fx.jit(run))(x)), float(slope), rtol=1e-9)
    lanes = fx.vmap(fx.grad(run))(fx.stack([x, x * 1.1]))
    np.testing.assert_allclose(float(lanes[0]), float(slope), rtol=1e-12)
    leaf = fx.tensor(value, dtype=fx.float64, requires_grad=True)
    run(leaf).backward()
    np.testing.assert_allclose(float(leaf.grad), float(slope), rtol=1e-12)
    single = fx.grad(run)(fx.tensor(value))
    np.testing.assert_allclose(float(single), float(slope), rtol=1e-2)


@pytest.mark.parametrize("logarithm", [False, True])
def test_second_derivatives_of_gamma_samples(logarithm):
    sample = random.loggamma if logarithm else random.gamma
    distribution = stats.loggamma if logarithm else stats.gamma
    value, h = 2.3, 1e-3
    x = np.asarray(sample(KEY, wide(value), (20,)))
    second = fx.jacfwd(fx.jacrev(lambda a: sample(KEY, a, (20,))))(wide(value))
    chance = distribution(value).cdf(x)
    low, high = (distribution(v).ppf(chance) for v in (value - h, value + h))
    np.testing.assert_allclose(
        np.asarray(second), (high - 2 * x + low) / h**2, rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("name", ["gamma", "loggamma", "chisquare", "t"])
def test_derivatives_change_no_sample(name):
    a = fx.tensor([0.3, 2.0, 9.0])
    run = lambda v: getattr(random, name)(KEY, v)
    plain = np.asarray(run(a)).tobytes()
    assert np.asarray(fx.jvp(run, (a,), (a,))[0]).tobytes() == plain
    assert np.asarray(fx.jit(run)(a)).tobytes() == plain
    leaf = fx.tensor([0.3, 2.0, 9.0], requires_grad=True)
    assert np.asarray(run(leaf).detach()).tobytes() == plain


def test_samples_that_underflow_have_no_infinite_slope():
    for dtype in (fx.float16, fx.float32, fx.float64):
        a = fx.tensor(1e-3, dtype=dtype)
        slopes = np.asarray(fx.jacrev(lambda v: random.gamma(KEY, v, (200,)))(a))
        assert np.isfinite(slopes).all()
        assert (np.asarray(random.gamma(KEY, a, (200,))) == 0).any()
        assert np.isfinite(
            np.asarray(fx.jacrev(lambda v: random.loggamma(KEY, v, (9,)))(wide(1e-3)))
        ).all()


def test_where_uniform_words_are_zero_triangular_samples_have_a_slope():
    key = random.key(157)
    assert bool((random.uniform(key, (100_000,)) == 0).any())
    run = lambda c: random.triangular(key, 0.0, c, 1.0, (100_000,))
    assert bool(fx.isfinite(fx.jacfwd(run)(fx.tensor(0.5))).all())
    assert bool(fx.isfinite(fx.grad(lambda c: run(c).sum())(fx.tensor(0.5))))
