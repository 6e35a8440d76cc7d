"""Which words make which sample: every sampler against scipy or plain integers on the same bits."""

import math

import numpy as np
import pytest
from numba import njit
from scipy import special, stats

import fx
from fx import random
from fx.backends.cpu import _np_draws
from fx.backends.cpu.irregular import quantiles, trials

KEY = random.key(99)
N = 5000


def words(n=N, planes=1, key=KEY):
    return np.asarray(random.bits(key, (planes, n))).astype(np.uint64)


def wide(n=N):
    high, low = words(n, 2)
    return high << np.uint64(32) | low


def open_unit(dtype):
    """The open interval (0, 1) from 32 or from 52 bits."""
    if dtype == fx.float32:
        return (words()[0] + 0.5) * 2.0**-32
    return ((wide() >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


QUANTILES = {
    "exponential": lambda u: stats.expon.isf(u),
    "gumbel": stats.gumbel_r.ppf,
    "laplace": stats.laplace.ppf,
    "logistic": stats.logistic.ppf,
}


@pytest.mark.parametrize("dtype", [fx.float32, fx.float64])
@pytest.mark.parametrize("family", QUANTILES)
def test_quantiles_of_the_open_interval(family, dtype):
    x = np.asarray(getattr(random, family)(KEY, N, dtype=dtype))
    rtol, atol = (2e-7, 1e-9) if dtype == fx.float32 else (1e-13, 1e-14)
    np.testing.assert_allclose(x, QUANTILES[family](open_unit(dtype)), rtol=rtol, atol=atol)


def test_uniform():
    np.testing.assert_array_equal(
        random.uniform(KEY, N), (words()[0] >> np.uint64(8)).astype(np.float32) * 2.0**-24
    )
    x = random.uniform(KEY, N, dtype=fx.float64)
    np.testing.assert_array_equal(x, (wide() >> np.uint64(11)).astype(np.float64) * 2.0**-53)


def test_normal():
    x = words()[0].astype(np.uint32).view(np.int32).astype(np.float64)
    expected = -special.ndtri(0.5 - (x + 0.5) * 2.0**-32)
    np.testing.assert_allclose(random.normal(KEY, N), expected, rtol=5e-7, atol=1e-7)
    # exact on the side where the probability is small
    x = wide().view(np.int64).astype(np.float64)
    tail = 0.5 - np.abs(x + 0.5) * 2.0**-64
    expected = -np.sign(x + 0.5) * special.ndtri(tail)
    np.testing.assert_allclose(
        random.normal(KEY, N, dtype=fx.float64), expected, rtol=1e-12, atol=1e-15
    )


@pytest.mark.parametrize("bounds", [(-1.0, 2.0), (1.5, 3.0), (-np.inf, -6.0), (0.0, np.inf)])
def test_truncated_normal(bounds):
    x = np.asarray(random.truncated_normal(KEY, *bounds, N, fx.float64))
    u = open_unit(fx.float64)
    if bounds[0] > 0:
        u = 1 - u
    np.testing.assert_allclose(x, stats.truncnorm.ppf(u, *bounds), rtol=1e-9, atol=1e-12)
    narrow = random.truncated_normal(KEY, *bounds, N, fx.float16)
    assert bool((narrow >= bounds[0]).all())
    assert bool((narrow <= bounds[1]).all())


@pytest.mark.parametrize("span", [1, 6, 2**32 - 1, 2**32, 2**32 + 1, 3 << 61, 2**64 - 1, 2**64])
def test_randint_scales_words_exactly(span):
    planes = 2 if span <= 2**32 else 4
    w = [sum(int(p) << 32 * i for i, p in enumerate(reversed(c))) for c in words(500, planes).T]
    expected = [x * span >> 32 * planes for x in w]
    found = random.randint(KEY, 500, 0, span, dtype=fx.uint64)
    assert np.asarray(found).tolist() == expected
    low = fx.tensor(0, dtype=fx.uint64)
    if span < 2**64:
        unknown = random.randint(KEY, 500, low, fx.tensor(span, dtype=fx.uint64), fx.uint64)
        assert np.abs(np.asarray(unknown).astype(object) - np.array(expected, object)).max() <= 1
    signed = random.randint(KEY, 500, -(span // 2), span - span // 2)
    assert np.asarray(signed).tolist() == [x - span // 2 for x in expected]


def test_bernoulli_compares_whole_words():
    for p in (0.3, 2.0**-32, 1 - 2.0**-32):
        expected = words()[0] < math.ceil(p * 2**32)
        np.testing.assert_array_equal(random.bernoulli(KEY, p, N), expected)


def test_narrow_bits_are_the_top_of_the_word():
    for dtype, shift in ((fx.uint8, 24), (fx.uint16, 16), (fx.uint32, 0)):
        np.testing.assert_array_equal(random.bits(KEY, N, dtype), words()[0] >> np.uint64(shift))
    np.testing.assert_array_equal(random.bits(KEY, N, fx.uint64), wide())


@pytest.mark.parametrize("n", [0, 1, 2, 3, 64, 1000, 1023, 1025])
def test_permutation_is_the_order_of_the_words(n):
    order = np.asarray(random.permutation(KEY, n))
    mask = (1 << max(n - 1, 0).bit_length()) - 1
    np.testing.assert_array_equal(order, np.argsort(wide(n) & ~np.uint64(mask), kind="stable"))


def test_long_permutation():
    n = (1 << 20) + 1
    order = np.asarray(random.permutation(KEY, n))
    np.testing.assert_array_equal(np.sort(order), np.arange(n))
    assert (np.diff(wide(n)[order].astype(np.float64)) >= 0).all()


def test_small_poisson_rates_invert_one_uniform():
    w = np.asarray(random.bits(KEY, (N, 4))).astype(np.uint64)  # a block an element
    u = ((w[:, 0] << np.uint64(20) | w[:, 1] >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    for rate in (0.01, 2.0, 9.9):
        np.testing.assert_array_equal(random.poisson(KEY, rate, N), stats.poisson.ppf(u, rate))


def test_a_gamma_attempt_reads_its_own_block():
    """Where the squeeze accepts the first attempt, the sample is a known function of its block."""
    a = 4.0
    first = random.fold_in(KEY, 0)
    w = np.asarray(random.bits(first, (N, 4))).astype(np.uint64)
    x = (w[:, 0] << np.uint64(32) | w[:, 1]).view(np.int64).astype(np.float64)
    x = -special.ndtri(0.5 - (x + 0.5) * 2.0**-64)
    u = ((w[:, 2] << np.uint64(20) | w[:, 3] >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    d = a - 1 / 3
    accepted = u < 1 - 0.0331 * x**4
    assert accepted.mean() > 0.9
    expected = d * (1 + x / np.sqrt(9 * d)) ** 3
    found = np.asarray(random.gamma(KEY, a, N, fx.float64))
    np.testing.assert_allclose(found[accepted], expected[accepted], rtol=1e-10)
    boosted = np.asarray(random.gamma(KEY, a - 3.5, N, fx.float64))
    own = np.asarray(random.bits(KEY, (N, 4))).astype(np.uint64)
    boost = ((own[:, 0] << np.uint64(20) | own[:, 1] >> np.uint64(12)).astype(np.float64) + 0.5) / (
        2.0**52
    )
    d = 1.5 - 1 / 3
    expected = d * (1 + x / np.sqrt(9 * d)) ** 3 * boost**2
    np.testing.assert_allclose(boosted[accepted], expected[accepted], rtol=1e-9)


@pytest.mark.parametrize("a", [0.0, -1.0, np.inf, np.nan, 1e-300, 1e300])
def test_extreme_shape_parameters_end(a):
    x = np.asarray(random.gamma(KEY, a, 100, fx.float64))
    if np.isnan(a) or a < 0:
        assert np.isnan(x).all()
    else:
        assert not np.isnan(x).any()
        if a in (0.0, np.inf, 1e-300):
            assert (x == (np.inf if a > 1 else 0)).all()
    counts = np.asarray(random.poisson(KEY, a, 100))
    assert (counts == (0 if a in (0.0, 1e-300) else -1)).all()


# the functions that quantiles are made of -------------------------------------------------------


def applied(function, x):
    @njit(error_model="numpy")
    def loop(x, out):
        for i in range(x.size):
            out[i] = function(x[i])

    out = np.empty(x.shape)
    loop(x, out)
    return out


def test_log_and_exp_are_within_one_unit_in_the_last_place():
    rng = np.random.default_rng(0)
    x = np.concatenate([np.exp(rng.uniform(-700, 700, N)), rng.uniform(0.5, 2.0, N)])
    found, expected = applied(quantiles.log64, x), np.log(x)
    assert (np.abs(found - expected) <= np.spacing(np.abs(expected))).all()
    x = np.concatenate([rng.uniform(-745, 709, N), [0.0, -1e9, 1e9, -746.0, 710.0]])
    with np.errstate(over="ignore"):
        found, expected = applied(quantiles.exp64, x), np.exp(x)
    finite = np.isfinite(expected)
    assert (found[~finite] == np.inf).all()
    found, expected = found[finite], expected[finite]
    assert (np.abs(found - expected) <= np.spacing(expected)).all()
    x = np.concatenate([np.exp(rng.uniform(-80, 80, N)), rng.uniform(0.5, 2.0, N)]).astype("f")
    found, expected = _np_draws._log32(x), np.log(x.astype(np.float64))
    assert (np.abs(found - expected) <= np.spacing(np.abs(expected).astype("f"))).all()


def test_masses_of_binomial_numbers_are_exact_for_any_number_of_trials():
    mpmath = pytest.importorskip("mpmath")
    ratio = trials._log_ratio
    run = njit(error_model="numpy")(lambda k, mode, n, p: ratio(k, mode, n, p))

    def log_mass(k, n, p):
        ways = mpmath.loggamma(n + 1) - mpmath.loggamma(k + 1) - mpmath.loggamma(n - k + 1)
        return ways + k * mpmath.log(p) + (n - k) * mpmath.log(1 - p)

    for n, p in ((20, 0.5), (25, 0.41), (1000, 0.01), (10**6, 0.3), (10**15, 0.5), (10**12, 1e-9)):
        mode, std = math.floor((n + 1) * p), math.sqrt(n * p * (1 - p))
        away = [mode + round(z * std) for z in (-5, -2, -0.3, 0, 0.7, 2, 6)]
        for k in {0, 1, n - 1, n, *away} if n < 10**6 else away:
            if not 0 <= k <= n:
                continue
            with mpmath.workdps(60):
                chance = mpmath.mpf(p)
                expected = float(log_mass(k, n, chance) - log_mass(mode, n, chance))
            found = run(float(k), float(mode), float(n), p)
            near = 1e-11 if n < 10**7 else 1e-7
            apart = abs(found - expected) / max(1.0, abs(expected))
            assert apart < near, (n, p, k, found, expected)
