"""Programs written for ``jax.random``: its names, its order of arguments, and what is refused."""

import inspect
import math

import numpy as np
import pytest
from scipy import stats

import fx
from fx import random
from fx.errors import DTypeError, ShapeError
from fx.keywords import with_right_ones
from tests.random.goodness import N, check, chi2, ks

KEY = random.key(3)


def same(x, y):
    assert (x.shape, x.dtype) == (y.shape, y.dtype)
    assert np.asarray(x).tobytes() == np.asarray(y).tobytes()


def jax_random():
    return pytest.importorskip("jax.random")


NAMES = [
    "PRNGKey", "ball", "bernoulli", "beta", "binomial", "bits", "categorical", "cauchy",
    "chisquare", "choice", "clone", "dirichlet", "double_sided_maxwell", "exponential", "f",
    "fold_in", "gamma", "generalized_normal", "geometric", "gumbel", "key", "key_data", "key_impl",
    "laplace", "loggamma", "logistic", "lognormal", "maxwell", "multinomial",
    "multivariate_normal", "normal", "orthogonal", "pareto", "permutation", "poisson",
    "rademacher", "randint", "rayleigh", "split", "t", "triangular", "truncated_normal", "uniform",
    "wald", "weibull_min", "wrap_key_data",
]  # fmt: skip
ELSEWHERE = {"normal": {"dtype"}, "uniform": {"dtype", "minval", "maxval"}, "split": {"num"},
             "randint": {"minval", "maxval"}}  # fmt: skip


@pytest.mark.peers
def test_no_sampler_of_jax_is_missing():
    jax = jax_random()
    public = {n for n in dir(jax) if n[0] != "_" and inspect.isfunction(getattr(jax, n))}
    assert public - set(NAMES) <= {"key_dtype"}
    assert [n for n in NAMES if not hasattr(random, n)] == []


@pytest.mark.peers
@pytest.mark.parametrize("name", NAMES)
def test_arguments_have_jaxs_names_and_order(name):
    theirs = inspect.signature(getattr(jax_random(), name)).parameters
    ours = inspect.signature(getattr(random, name)).parameters
    words = [w for w in theirs if w != "out_sharding"]
    assert [w for w in words if w not in ours] == []
    places = {w: i for i, w in enumerate(ours)}
    for i, w in enumerate(words):
        if theirs[w].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD and w not in ELSEWHERE.get(
            name, ()
        ):
            assert places[w] == i, w


def test_a_dtype_in_jaxs_place():
    for dtype in (fx.float64, "float64", np.float64):
        same(random.normal(KEY, (3,), dtype), random.normal(KEY, (3,), dtype=fx.float64))
        same(random.uniform(KEY, (3,), dtype), random.uniform(KEY, (3,), dtype=fx.float64))
    same(random.normal(KEY, (3,), fx.complex64), random.normal(KEY, (3,), dtype=fx.complex64))
    wanted = random.uniform(KEY, (3,), -1.0, 3.0, fx.float16)
    same(random.uniform(KEY, (3,), fx.float16, -1.0, 3.0), wanted)
    same(random.uniform(KEY, (3,), fx.float16, -1.0, maxval=3.0), wanted)
    same(random.uniform(KEY, (3,), fx.float16, minval=-1.0, maxval=3.0), wanted)
    same(random.uniform(KEY, (3,), minval=-1.0, maxval=3.0, dtype=fx.float16), wanted)
    same(
        random.uniform(KEY, (3,), fx.float32, 1.0, maxval=3.0), random.uniform(KEY, (3,), 1.0, 3.0)
    )
    bounds = fx.tensor([0.0, 1.0, 2.0]), fx.tensor(3.0)
    same(random.uniform(KEY, (3,), fx.float32, *bounds), random.uniform(KEY, (3,), *bounds))
    same(random.uniform(KEY, None, minval=bounds[0]), random.uniform(KEY, None, bounds[0]))


def test_a_dtype_that_could_be_meant_otherwise_is_refused():
    either = r"after the dtype .* one bound alone could be either; write fx.random.uniform.key, "
    for bound in (-1.0, 1.0, 2.0, fx.tensor(2.0)):
        with pytest.raises(TypeError, match=either):
            random.uniform(KEY, (3,), fx.float32, bound)
    with pytest.raises(TypeError, match=r"two dtypes, .*float32.* and .*float64"):
        random.uniform(KEY, (3,), fx.float32, dtype=fx.float64)
    with pytest.raises(TypeError, match="uniform: high is a number or a tensor, got dtype"):
        random.uniform(KEY, (3,), 0.0, fx.float32)
    for wrong in ((fx.float32, 2.0), (1.0, fx.float32), (fx.float32, 1.0, fx.float64)):
        with pytest.raises(TypeError, match=r"normal takes \(key, shape, mean, std, dtype\) or"):
            random.normal(KEY, (3,), *wrong)
    with pytest.raises(DTypeError, match="normal: the samples are floating, got dtype int32"):
        random.normal(KEY, (3,), fx.int32)


def test_second_names_of_bounds():
    same(random.randint(KEY, (9,), minval=2, maxval=7), random.randint(KEY, (9,), 2, 7))
    same(random.randint(KEY, (9,), 2, maxval=7, dtype=None), random.randint(KEY, (9,), 2, 7))
    same(random.randint(KEY, (), 0, 9, "int8"), random.randint(KEY, (), 0, 9, fx.int8))
    same(random.uniform(KEY, (3,), 0.5, maxval=0.7), random.uniform(KEY, (3,), 0.5, 0.7))
    with pytest.raises(TypeError, match=r"randint: high \(or maxval\) is missing; write high="):
        random.randint(KEY, (3,), 0)
    with pytest.raises(TypeError, match="randint: low and minval are two names of one bound"):
        random.randint(KEY, (3,), 0, 9, minval=1)
    for twice in ({"low": 0.0, "minval": 0.0}, {"high": 1.0, "maxval": 1.0}):
        with pytest.raises(TypeError, match=r"uniform: .* are two names of one bound; give one"):
            random.uniform(KEY, (3,), **twice)


def test_dtypes_left_to_the_sampler():
    same(random.bits(KEY, (3,), None), random.bits(KEY, (3,), fx.uint32))
    same(random.poisson(KEY, 3.0, (3,), None), random.poisson(KEY, 3.0, (3,), fx.int64))


def test_keys():
    same(random.PRNGKey(9), random.key(9))
    same(random.key(9, impl="philox4x32"), random.key(9))
    same(random.split(KEY, num=3), random.split(KEY, 3))
    keys = random.split(KEY, (2, 3))
    for function in (random.key_data, random.wrap_key_data, random.clone):
        same(function(keys), keys)
    same(random.wrap_key_data(np.asarray(keys), impl="philox4x32"), keys)
    assert random.key_impl(keys) == "philox4x32"
    same(random.normal(fx.jit(random.clone)(KEY), (3,)), random.normal(KEY, (3,)))
    for make in (random.key, random.PRNGKey, lambda n, impl: random.wrap_key_data(keys, impl=impl)):
        with pytest.raises(ValueError, match="fx draws from one generator, 'philox4x32'"):
            make(0, impl="threefry2x32")
    with pytest.raises(DTypeError, match=r"a seed is an integer, got 1\.5"):
        random.PRNGKey(1.5)
    for function in (random.key_data, random.wrap_key_data, random.clone, random.key_impl):
        name = function.__name__
        with pytest.raises(ShapeError, match=rf"{name}: a key has 6 words .* got \(2,\); make one"):
            function(fx.zeros(2, dtype=fx.uint32))
        with pytest.raises(DTypeError, match=f"{name}: keys are uint32 tensors, got float32"):
            function(fx.zeros(6))
        with pytest.raises(DTypeError, match=f"{name}: keys are uint32 tensors, got 7"):
            function(7)


def test_integer_scalars_stand_for_ranges():
    for n in (fx.tensor(5), np.int64(5), np.array(5)):
        same(random.permutation(KEY, n), random.permutation(KEY, 5))
        same(random.choice(KEY, n, (4,)), random.choice(KEY, 5, (4,)))


def test_modes():
    same(random.gumbel(KEY, (9,), fx.float64, "high"), random.gumbel(KEY, (9,), fx.float64))
    high = random.gumbel(KEY, (9,), mode="high")
    same(high, random.gumbel(KEY, (9,), fx.float64).astype(fx.float32))
    same(random.bernoulli(KEY, 0.3, (9,), "low"), random.bernoulli(KEY, 0.3, (9,)))
    for p in (0.0, 1.0):
        x = random.bernoulli(KEY, fx.tensor(p), (1000,), "high")
        assert bool((x == bool(p)).all())
    check(lambda key: random.bernoulli(key, 0.2, (N,), "high"), chi2(stats.bernoulli(0.2)))
    weights = fx.tensor([0.2, 0.8])
    assert random.choice(KEY, 2, (2,), False, weights, 0, "high").shape == (2,)
    for sample in (
        lambda: random.gumbel(KEY, (3,), mode="mid"),
        lambda: random.bernoulli(KEY, 0.3, (3,), "mid"),
        lambda: random.categorical(KEY, fx.zeros(3), mode="mid"),
        lambda: random.choice(KEY, 3, mode="mid"),
    ):
        with pytest.raises(ValueError, match="mode is 'low' or 'high', got 'mid'; leave it out"):
            sample()


def test_high_mode_compares_words_of_64_bits():
    words = np.asarray(random.bits(KEY, (4096,), fx.uint64))
    for p in (0.25, 2.0**-9, 3 * 2.0**-40):
        expected = words < int(p * 2**64)
        for given in (p, fx.tensor(p)):
            np.testing.assert_array_equal(random.bernoulli(KEY, given, (4096,), "high"), expected)


def test_categorical_without_replacement():
    logits = fx.asarray(np.log([0.5, 0.3, 0.2]))
    pairs = np.asarray(
        fx.vmap(lambda k: random.categorical(k, logits, shape=(2,), replace=False))(
            random.split(KEY, N)
        )
    )
    p = [0.5, 0.3, 0.2]
    ways = [(i, j) for i in range(3) for j in range(3) if i != j]
    counts = [int(((pairs[:, 0] == i) & (pairs[:, 1] == j)).sum()) for i, j in ways]
    assert sum(counts) == N
    expected = [p[i] * p[j] / (1 - p[i]) * N for i, j in ways]
    assert stats.chisquare(counts, expected).pvalue > 1e-3

    rows = fx.zeros((4, 5, 2))
    for axis, batch in ((0, (5, 2)), (1, (4, 2)), (-1, (4, 5))):
        n = rows.shape[axis]
        x = np.asarray(random.categorical(KEY, rows, axis, (n, *batch), False))
        assert (np.sort(x, 0) == np.arange(n).reshape(n, 1, 1)).all()
    assert random.categorical(KEY, rows, -1, None, False).shape == (4, 5)
    assert random.categorical(KEY, fx.zeros(6), shape=(2, 3), replace=False).shape == (2, 3)
    with pytest.raises(ValueError, match="cannot draw 7 of 6 classes without replacement"):
        random.categorical(KEY, fx.zeros(6), shape=(7,), replace=False)
    with pytest.raises(
        ShapeError, match=r"ends with that of the logits' rows, \(1,\), got \(2, 3\)"
    ):
        random.categorical(KEY, fx.zeros((1, 6)), shape=(2, 3), replace=False)


def test_truncated_normal_takes_tensors():
    lower, upper = fx.tensor([[-1.0], [3.0]]), fx.tensor([4.0, math.inf, 5.0])
    x = random.truncated_normal(KEY, lower, upper)
    assert x.shape == (2, 3)
    x = random.truncated_normal(KEY, lower, upper, (1000, 2, 3), fx.float16)
    assert x.dtype == fx.float16
    assert bool(((x >= lower) & (x <= upper)).all())
    assert bool(fx.isnan(random.truncated_normal(KEY, upper, lower, (2, 3))).all())
    assert bool(fx.isnan(random.truncated_normal(KEY, fx.tensor(math.nan), 1.0)))
    arrays = np.array([-1.0, 0.0]), np.float64(2.0)
    same(
        random.truncated_normal(KEY, *arrays),
        random.truncated_normal(KEY, fx.tensor([-1.0, 0.0]), 2.0),
    )
    same(random.truncated_normal(KEY, -1, 1), random.truncated_normal(KEY, -1.0, 1.0, ()))
    check(
        lambda key: random.truncated_normal(key, lower, upper, (N, 2, 3))[:, 1, 2],
        ks(stats.truncnorm(3, 5)),
    )


def test_a_wrong_keyword_is_told_the_right_ones():
    with pytest.raises(TypeError) as caught:
        random.uniform(KEY, (2,), minvall=1.0)
    with_right_ones(caught.value, caught.tb)
    assert "did you mean 'minval'? it takes key, shape, low, high, dtype" in str(caught.value)
