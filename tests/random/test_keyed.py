"""Samplers with keys: vmap = loop bit for bit, determinism, dtypes and shapes, refusals."""

import numpy as np
import pytest

import fx
from fx import random
from fx.errors import DTypeError, ShapeError
from tests.random.samplers import SAMPLERS

KEY = random.key(42)


def bits_of(x):
    """The bytes of a tensor: equality to the last bit, NaN and -0 included."""
    return np.asarray(x).tobytes()


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (3, 5), (1, 2, 33), (100,), (2051,)])
def test_vmap_over_keys_is_the_loop_bit_for_bit(name, shape):
    sample = SAMPLERS[name]
    keys = random.split(KEY, 3)
    mapped = fx.vmap(lambda k: sample(k, shape))(keys)
    rows = [sample(keys[i], shape) for i in range(3)]
    assert mapped.dtype == rows[0].dtype
    for i, row in enumerate(rows):
        assert bits_of(mapped[i]) == bits_of(row)


@pytest.mark.parametrize("name", SAMPLERS)
def test_nested_vmap_and_lanes_along_another_axis(name):
    sample = SAMPLERS[name]
    keys = random.split(KEY, (2, 3))
    mapped = fx.vmap(fx.vmap(lambda k: sample(k, (5,)), in_axes=1))(keys.mT)
    for i in range(2):
        for j in range(3):
            assert bits_of(mapped[i, j]) == bits_of(sample(keys[i, j], (5,)))


@pytest.mark.parametrize("name", SAMPLERS)
def test_same_key_same_numbers_other_key_other_numbers(name):
    sample = SAMPLERS[name]
    x = sample(KEY, (200,))
    assert bits_of(x) == bits_of(sample(random.key(42), (200,)))
    assert bits_of(x) != bits_of(sample(random.fold_in(KEY, 1), (200,)))
    assert sample(KEY, 4).shape[:1] == (4,)


@pytest.mark.parametrize("name", SAMPLERS)
def test_only_specs_on_meta(name):
    sample = SAMPLERS[name]
    expected = sample(KEY, (2, 3))
    with fx.device("meta"):
        found = sample(random.key(0), (2, 3))
    assert (found.shape, found.dtype, found.device.name) == (expected.shape, expected.dtype, "meta")


@pytest.mark.parametrize("family", ["uniform", "normal", "exponential", "gumbel", "laplace"])
def test_narrow_samples_are_the_wide_ones_rounded(family):
    sample = getattr(random, family)
    wide = np.asarray(sample(KEY, 1000, dtype=fx.float64))
    single = np.asarray(sample(KEY, 1000))
    np.testing.assert_allclose(single, wide, rtol=3e-5, atol=1e-6)
    for dtype, step in ((fx.float16, 2**-10), (fx.bfloat16, 2**-7)):
        narrow = np.asarray(sample(KEY, 1000, dtype=dtype).astype(fx.float32))
        np.testing.assert_allclose(narrow, single, rtol=step, atol=1e-6)
        if family != "uniform":
            assert bits_of(sample(KEY, 1000, dtype=dtype)) == bits_of(
                fx.asarray(single).astype(dtype)
            )


@pytest.mark.parametrize("dtype", [fx.float16, fx.bfloat16, fx.float32, fx.float64])
def test_uniform_is_half_open_in_every_dtype(dtype):
    for low, high in ((0.0, 1.0), (0.0, 3.0), (1.0, 1.001), (-7.0, -6.5)):
        x = random.uniform(KEY, 200_000, low, high, dtype=dtype)
        low, high = fx.tensor(low, dtype=dtype), fx.tensor(high, dtype=dtype)
        assert bool((x >= low).all()), (low, high)
        assert bool((x < high).all()) or bool(low == high), (low, high)
        y = random.uniform(KEY, 200_000, low, high)
        assert y.dtype == dtype
        assert bits_of(x) == bits_of(y)


def test_uniform_steps():
    x = np.asarray(random.uniform(KEY, 10_000)) * 2.0**24
    assert (x == np.floor(x)).all()
    x = np.asarray(random.uniform(KEY, 10_000, dtype=fx.float64))
    assert (x * 2.0**53 == np.floor(x * 2.0**53)).all()
    assert (x * 2.0**24 != np.floor(x * 2.0**24)).any()


def test_parameters_pass_derivatives():
    def loss(mean, std):
        return (random.normal(KEY, (100,), mean, std) ** 2).sum()

    z = np.asarray(random.normal(KEY, (100,)))
    dm, ds = fx.grad(loss, (0, 1))(fx.tensor(2.0), fx.tensor(3.0))
    np.testing.assert_allclose(dm.item(), (2 * (2 + 3 * z)).sum(), rtol=1e-5)
    np.testing.assert_allclose(ds.item(), (2 * (2 + 3 * z) * z).sum(), rtol=1e-5)
    u = np.asarray(random.uniform(KEY, (100,)))
    low = fx.grad(lambda a: random.uniform(KEY, (100,), a, fx.tensor(4.0)).sum())(fx.tensor(1.0))
    np.testing.assert_allclose(low.item(), (1 - u).sum(), rtol=1e-5)


def test_parameters_broadcast_and_are_mapped():
    means = fx.tensor([0.0, 10.0, 20.0])
    keys = random.split(KEY, 3)
    assert random.normal(KEY, None, means).shape == (3,)
    assert random.normal(KEY, (2, 3), means, dtype=fx.float64).dtype == fx.float64
    for sample in (
        lambda k, m: random.normal(k, (4,), m),
        lambda k, m: random.uniform(k, (4,), m, m + 1.0),
        lambda k, m: random.gamma(k, m + 0.5, (4,)),
        lambda k, m: random.beta(k, m + 0.5, 2.0, (4,)),
        lambda k, m: random.dirichlet(k, fx.stack([m + 1.0, m + 2.0, m * 0.0 + 0.1])),
        lambda k, m: random.poisson(k, m, (4,)),
        lambda k, m: random.bernoulli(k, m / 20.0, (4,)),
        lambda k, m: random.randint(k, (4,), 0, m.astype(fx.int64) + 5),
        lambda k, m: random.categorical(k, fx.stack([m, m * 0.5]), shape=(4,)),
    ):
        both = fx.vmap(sample)(keys, means)
        parameters = fx.vmap(sample, (None, 0))(KEY, means)
        for i in range(3):
            assert bits_of(both[i]) == bits_of(sample(keys[i], means[i]))
            assert bits_of(parameters[i]) == bits_of(sample(KEY, means[i]))
    with pytest.raises(ShapeError, match=r"normal: a parameter of shape \(3,\) does not broadcast"):
        random.normal(KEY, (4,), means)


def test_what_is_no_key_is_refused():
    with pytest.raises(DTypeError, match=r"write fx.random.normal\(fx.random.key\(0\), ...\)"):
        random.normal(0, (3,))
    with pytest.raises(DTypeError, match=r"first argument is a key, uint32 .* got float32 \(6,\)"):
        random.uniform(fx.zeros(6), (3,))
    with pytest.raises(ShapeError, match=r"takes one key .* got \(2, 6\); .* fx.vmap\(lambda k"):
        random.gamma(random.split(KEY), 1.0)
    with pytest.raises(ShapeError, match=r"takes one key of shape \(6,\), got \(4,\)"):
        random.bernoulli(KEY[:4])


def test_bad_shapes_and_dtypes_are_refused():
    with pytest.raises(ShapeError, match="normal: sizes must not be negative"):
        random.normal(KEY, (2, -1))
    with pytest.raises(DTypeError, match="gumbel: a shape is an int or a tuple of ints"):
        random.gumbel(KEY, 2.5)
    with pytest.raises(DTypeError, match=r"normal: the samples are floating, got dtype int64"):
        random.normal(KEY, (2,), dtype=fx.int64)
    with pytest.raises(DTypeError, match=r"bits: the dtype must be unsigned, got int32"):
        random.bits(KEY, dtype=fx.int32)
    with pytest.raises(ValueError, match=r"lower must be less than upper, got 2\.0, 1\.0"):
        random.truncated_normal(KEY, 2.0, 1.0)
