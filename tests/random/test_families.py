"""Families of continuous distributions against scipy.stats, and what extreme parameters give."""

import math

import numpy as np
import pytest
from scipy import stats

import fx
from fx import random
from tests.random.goodness import N, check, ks

KEY = random.key(11)
INF, NAN = math.inf, math.nan

FAMILIES = {  # name: arguments -> distribution, and several of them
    "cauchy": (lambda: stats.cauchy, [()]),
    "chisquare": (stats.chi2, [(0.7,), (3.0,), (50.0,)]),
    "f": (stats.f, [(1.0, 3.0), (5.0, 0.8), (40.0, 60.0)]),
    "generalized_normal": (stats.gennorm, [(0.6,), (1.0,), (2.0,), (9.0,)]),
    "lognormal": (stats.lognorm, [(0.25,), (1.0,), (2.0,)]),
    "maxwell": (lambda: stats.maxwell, [()]),
    "pareto": (stats.pareto, [(0.5,), (3.0,)]),
    "rayleigh": (lambda s: stats.rayleigh(scale=s), [(0.5,), (3.0,)]),
    "t": (stats.t, [(0.6,), (1.0,), (4.5,), (200.0,)]),
    "triangular": (
        lambda a, c, b: stats.triang((c - a) / (b - a), a, b - a),
        [(-1.0, 0.5, 3.0), (0.0, 0.0, 2.0), (0.0, 2.0, 2.0)],
    ),
    "wald": (lambda m: stats.invgauss(m), [(0.2,), (1.0,), (30.0,)]),
    "weibull_min": (
        lambda s, c: stats.weibull_min(c, scale=s),
        [(2.0, 0.5), (0.5, 1.0), (1.0, 4.0)],
    ),
}
CASES = [(name, args) for name, (_, several) in FAMILIES.items() for args in several]


def draw(name, key, args, shape, dtype=None):
    return getattr(random, name)(key, *args, shape=shape, dtype=dtype)


@pytest.mark.parametrize("dtype", [fx.float32, fx.float64])
@pytest.mark.parametrize("name, args", CASES)
def test_families(name, args, dtype):
    check(lambda key: draw(name, key, args, N, dtype), ks(FAMILIES[name][0](*args)))


@pytest.mark.parametrize("args", [(-1.0, 2.0), (0.5, 3.0), (4.0, INF), (-INF, INF)])
def test_truncated_normal_between_tensors(args):
    tensors = [fx.tensor(a, dtype=fx.float64) for a in args]
    check(lambda key: random.truncated_normal(key, *tensors, N), ks(stats.truncnorm(*args)))
    numbers = random.truncated_normal(KEY, *args, 1000, fx.float64)
    found = random.truncated_normal(KEY, *tensors, 1000)
    np.testing.assert_allclose(np.asarray(found), np.asarray(numbers), rtol=1e-8, atol=1e-12)


def test_double_sided_maxwell():
    def test(x):
        z = (x - 3.0) / 2.0
        assert abs((z > 0).mean() - 0.5) < 0.02
        return stats.kstest(np.abs(z), stats.maxwell.cdf).pvalue

    check(lambda key: random.double_sided_maxwell(key, 3.0, 2.0, (N,)), test)
    loc = fx.tensor([0.0, 100.0])
    x = random.double_sided_maxwell(KEY, loc, fx.tensor([[1.0], [9.0]]), (5, 3))
    assert x.shape == (5, 3, 2, 2)
    assert random.double_sided_maxwell(KEY, loc, 1.0).shape == (2,)
    assert bool((abs(x[..., 0, :] - loc) < 10).all())


@pytest.mark.parametrize(
    "name, args", [(name, several[0]) for name, (_, several) in FAMILIES.items()]
)
def test_narrow_samples_are_the_float32_ones_rounded(name, args):
    wide = draw(name, KEY, args, 500, fx.float32)
    with np.errstate(over="ignore"):
        for dtype in (fx.float16, fx.bfloat16):
            narrow = draw(name, KEY, args, 500, dtype)
            assert narrow.dtype == dtype
            assert np.asarray(narrow).tobytes() == np.asarray(wide.astype(dtype)).tobytes()
    double = np.asarray(draw(name, KEY, args, 500, fx.float64))
    if name != "wald":  # whose roots are chosen by a uniform number of 24 bits
        np.testing.assert_allclose(np.asarray(wide), double, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name, args", CASES)
def test_parameters_are_tensors_of_any_shape_and_give_the_dtype(name, args):
    for i in range(len(args)):

        def sample(v, shape=None, dtype=None, i=i):
            return draw(name, KEY, [*args[:i], v, *args[i + 1 :]], shape, dtype)

        given = fx.full((3, 1), args[i], dtype=fx.float64)
        x = sample(given)
        assert (x.shape, x.dtype) == ((3, 1), fx.float64)
        x, plain = sample(given, (2, 3, 4), fx.float32), sample(args[i], (2, 3, 4), fx.float32)
        np.testing.assert_allclose(np.asarray(x), np.asarray(plain), rtol=1e-5)
        lanes, row = fx.vmap(lambda v: sample(v, (4,)))(given), sample(given[0], (4,))
        for lane in lanes:
            assert np.asarray(lane).tobytes() == np.asarray(row).tobytes()
    assert draw(name, KEY, args, ()).shape == ()


EXTREME = {  # name: parameters, and what all their samples are; None is any finite number
    "chisquare": ([(1e-30,), (INF,), (0.0,), (-1.0,), (NAN,)], [0.0, INF, NAN, NAN, NAN]),
    "f": ([(-1.0, 2.0), (2.0, 0.0), (NAN, 1.0), (1e6, 1e6)], [NAN, NAN, NAN, None]),
    "generalized_normal": ([(0.0,), (-2.0,), (NAN,), (1e9,)], [NAN, NAN, NAN, None]),
    "lognormal": ([(0.0,), (NAN,)], [1.0, NAN]),
    "pareto": ([(1e-30,), (INF,), (0.0,), (-1.0,), (NAN,)], [INF, 1.0, NAN, NAN, NAN]),
    "rayleigh": ([(0.0,), (-1.0,), (NAN,), (INF,)], [0.0, NAN, NAN, INF]),
    "t": ([(1e9,), (0.0,), (-1.0,), (NAN,)], [None, NAN, NAN, NAN]),
    "triangular": (
        [(1.0, 1.0, 1.0), (1.0, 0.0, 2.0), (0.0, 3.0, 2.0), (2.0, 1.0, 0.0), (NAN, 1.0, 2.0)],
        [1.0, NAN, NAN, NAN, NAN],
    ),
    "wald": ([(1e-30,), (1e30,), (INF,), (0.0,), (-1.0,)], [None, None, None, NAN, NAN]),
    "weibull_min": ([(0.0, 1.0), (-1.0, 1.0), (1.0, 0.0), (1.0, NAN)], [0.0, NAN, NAN, NAN]),
}


@pytest.mark.parametrize("name", EXTREME)
def test_extreme_parameters(name):
    for args, expected in zip(*EXTREME[name], strict=True):
        numbers = np.asarray(draw(name, KEY, args, (50,)))
        tensors = np.asarray(draw(name, KEY, [fx.tensor(a) for a in args], (50,)))
        np.testing.assert_array_equal(numbers, tensors)
        if expected is None:
            assert np.isfinite(numbers).all(), args
        else:
            np.testing.assert_array_equal(numbers, np.full(50, expected), str(args))


def test_tails_are_there_and_do_not_cancel():
    x = np.asarray(random.cauchy(KEY, 2_000_000))
    assert np.isfinite(x).all()
    for far in (1e3, 1e5):
        expected = 2 * stats.cauchy.sf(far) * x.size
        assert abs((np.abs(x) > far).sum() - expected) < 5 * math.sqrt(expected) + 1
    large = np.asarray(random.wald(KEY, 1e8, 100_000))  # (mean - root) would lose every digit
    assert (large > 0).all()
    assert stats.kstest(large, stats.levy.cdf).pvalue > 1e-3
    small = np.asarray(random.t(KEY, 1e-3, 10_000, fx.float64))
    assert not np.isnan(small).any()


def test_bad_arguments():
    with pytest.raises(fx.errors.DTypeError, match=r"t: the first argument is a key, got 3.0"):
        random.t(3.0, 2.0)
    with pytest.raises(
        fx.errors.DTypeError, match="cauchy: the samples are floating, got dtype int"
    ):
        random.cauchy(KEY, (2,), fx.int32)
    with pytest.raises(fx.errors.ShapeError, match=r"pareto: a parameter of shape \(3,\) does not"):
        random.pareto(KEY, fx.ones(3), (2,))
    with pytest.raises(fx.errors.DTypeError, match="wald takes tensors, got list"):
        random.wald(KEY, [1.0, 2.0])
