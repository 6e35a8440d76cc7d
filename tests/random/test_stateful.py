"""PyTorch's random functions: signatures, shapes and dtypes against torch, and refusals."""

import numpy as np
import pytest

import fx
from fx.errors import DTypeError, ShapeError

torch = pytest.importorskip("torch")

CALLS = {
    "rand sizes": lambda m: m.rand(2, 3),
    "rand tuple": lambda m: m.rand((2, 3)),
    "rand list": lambda m: m.rand([4]),
    "rand scalar": lambda m: m.rand(()),
    "rand dtype": lambda m: m.rand(2, dtype=m.float64),
    "rand half": lambda m: m.rand(2, dtype=m.bfloat16),
    "randn": lambda m: m.randn(2, 0, 3),
    "randn grad": lambda m: m.randn(3, requires_grad=True),
    "randint high": lambda m: m.randint(5, (3,)),
    "randint both": lambda m: m.randint(-2, 5, (3, 2)),
    "randint keywords": lambda m: m.randint(high=5, size=(3,)),
    "randint dtype": lambda m: m.randint(0, 5, (3,), dtype=m.int32),
    "randint float": lambda m: m.randint(0, 5, (3,), dtype=m.float32),
    "randint list": lambda m: m.randint(5, [2]),
    "randperm": lambda m: m.randperm(9),
    "randperm dtype": lambda m: m.randperm(9, dtype=m.int32),
    "rand_like": lambda m: m.rand_like(m.zeros(2, 3, dtype=m.float64)),
    "rand_like dtype": lambda m: m.rand_like(m.zeros(2, 3), dtype=m.float64),
    "randn_like": lambda m: m.randn_like(m.zeros(2, 3)),
    "randn_like grad": lambda m: m.randn_like(m.zeros(2, 3), requires_grad=True),
    "randint_like": lambda m: m.randint_like(m.zeros(2, 3), 10),
    "randint_like both": lambda m: m.randint_like(m.zeros(2, 3, dtype=m.int16), 3, 10),
    "bernoulli": lambda m: m.bernoulli(m.full((3, 4), 0.5)),
    "bernoulli p": lambda m: m.bernoulli(m.zeros(5, dtype=m.float64), 0.9),
    "multinomial": lambda m: m.multinomial(m.ones(5), 3),
    "multinomial rows": lambda m: m.multinomial(m.ones(2, 5), 7, replacement=True),
    "normal sizes": lambda m: m.normal(0.0, 1.0, (2, 3)),
    "normal mean": lambda m: m.normal(m.zeros(3, dtype=m.float64), 2.0),
    "normal std": lambda m: m.normal(5.0, m.ones(3)),
    "normal both": lambda m: m.normal(m.zeros(2, 1), m.ones(3)),
    "poisson": lambda m: m.poisson(m.full((2, 3), 4.0)),
}


@pytest.mark.parametrize("name", CALLS)
def test_shape_dtype_and_requires_grad_are_torchs(name):
    ours, theirs = CALLS[name](fx), CALLS[name](torch)
    assert ours.shape == tuple(theirs.shape)
    assert ours.dtype.name == str(theirs.dtype).removeprefix("torch.")
    assert ours.requires_grad == theirs.requires_grad


@pytest.mark.parametrize("name", CALLS)
def test_under_vmap(name):
    found = fx.vmap(lambda x: CALLS[name](fx) + x.astype(fx.int32))(fx.zeros(3))
    assert found.shape == (3, *CALLS[name](fx).shape)


def test_a_draw_can_be_a_leaf():
    x = fx.randn(3, requires_grad=True)
    (x * x).sum().backward()
    np.testing.assert_allclose(np.asarray(x.grad), 2 * np.asarray(x.detach()))


def test_normal_passes_derivatives():
    mean = fx.zeros(3, requires_grad=True)
    fx.normal(mean, 2.0).sum().backward()
    np.testing.assert_array_equal(np.asarray(mean.grad), 1.0)


def test_default_dtype_is_taken():
    fx.set_default_dtype(fx.float64)
    try:
        assert fx.rand(2).dtype == fx.float64
        assert fx.randn(2).dtype == fx.float64
    finally:
        fx.set_default_dtype(fx.float32)


def test_weighted_draws():
    weights = fx.tensor([[0.0, 3.0, 1.0, 0.0], [1.0, 0.0, 0.0, 0.0]])
    x = np.asarray(fx.multinomial(weights, 4000, replacement=True))
    assert set(x[0]) == {1, 2}
    assert abs((x[0] == 1).mean() - 0.75) < 0.03
    assert (x[1] == 0).all()
    y = np.asarray(fx.multinomial(fx.tensor([0.0, 3.0, 1.0, 2.0]), 3))
    assert sorted(y) == [1, 2, 3]
    mapped = fx.vmap(lambda w: fx.multinomial(w, 3))(fx.ones((5, 4)))
    assert all(len(set(row)) == 3 for row in np.asarray(mapped).tolist())


def test_moments():
    fx.manual_seed(0)
    x = np.asarray(fx.normal(fx.full((20_000,), 3.0), 0.5))
    np.testing.assert_allclose([x.mean(), x.std()], [3.0, 0.5], atol=0.02)
    x = np.asarray(fx.bernoulli(fx.full((20_000,), 0.2)))
    assert abs(x.mean() - 0.2) < 0.02
    x = np.asarray(fx.poisson(fx.full((20_000,), 4.0)))
    np.testing.assert_allclose([x.mean(), x.var()], [4.0, 4.0], atol=0.15)


def test_refusals():
    with pytest.raises(ShapeError, match="rand: sizes must not be negative"):
        fx.rand(2, -3)
    with pytest.raises(DTypeError, match="rand: a shape is an int or a tuple of ints"):
        fx.rand(2.5)
    with pytest.raises(DTypeError, match="randn: the samples are floating, got dtype int32"):
        fx.randn(2, dtype=fx.int32)
    with pytest.raises(TypeError, match=r"randint takes \(high, size\) or \(low, high, size\)"):
        fx.randint(3)
    with pytest.raises(ValueError, match="low must be less than high, got low=3, high=3"):
        fx.randint(3, 3, (2,))
    with pytest.raises(ValueError, match=r"uint8 does not hold all of \[0, 300\)"):
        fx.randint(300, (2,), dtype=fx.uint8)
    with pytest.raises(ValueError, match="bernoulli: probabilities must lie in"):
        fx.bernoulli(fx.tensor([0.5, 1.5]))
    with pytest.raises(DTypeError, match="bernoulli takes floating probabilities, got int64"):
        fx.bernoulli(fx.tensor([1, 0]))
    with pytest.raises(ShapeError, match=r"multinomial takes weights \(n\) or \(rows, n\), got"):
        fx.multinomial(fx.ones((2, 2, 2)), 1)
    with pytest.raises(TypeError, match="normal: with numbers as mean and std say the size"):
        fx.normal(0.0, 1.0)
    with pytest.raises(ValueError, match="std must not be negative, got -1"):
        fx.normal(fx.zeros(2), -1.0)
    with pytest.raises(DTypeError, match="can require grad, got int64"):
        fx.randint(3, (2,), requires_grad=True)
    with pytest.raises(ShapeError, match="n must not be negative"):
        fx.randperm(-1)


@pytest.mark.parametrize(
    "weights, samples",
    [
        ([0.5, -1.0], 1), ([0.5, float("nan")], 1), ([0.5, float("inf")], 1), ([0.0, 0.0], 1),
        ([[1.0, 1.0], [0.0, 0.0]], 1), ([0.5, 1.0], 3), ([0.5, 1.0], 0), ([0.5, 1.0], -1), ([], 1),
        ([1, 2], 1), (1.0, 1), ([[[1.0]]], 1),
    ],
)  # fmt: skip
def test_multinomial_refuses_what_pytorch_refuses_in_its_words(weights, samples):
    with pytest.raises(RuntimeError) as theirs:
        torch.multinomial(torch.tensor(weights), samples)
    with pytest.raises(RuntimeError) as ours:
        fx.multinomial(fx.tensor(weights), samples)
    words = str(theirs.value).replace("Long", "int64")
    if "1 or 2 dim" not in words:  # fx names the shape
        assert words in str(ours.value)
