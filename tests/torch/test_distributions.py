"""Distributions: densities, moments, entropies and divergences as torch's; samples fit them."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import fx
import fx.torch
from tests.nn.oracle import check, close

rng = np.random.default_rng(1)
A, B = rng.random((3, 2)) + 0.5, rng.random((3, 2)) + 0.7
P = rng.random((3, 4)) * 0.8 + 0.1
X = rng.standard_normal((3, 2))
UNIT = rng.random((3, 2)) * 0.8 + 0.1
SIMPLEX = P / P.sum(-1, keepdims=True)
CLASSES = rng.integers(0, 4, 3)
ONE_HOT = np.eye(4)[CLASSES]
COUNTS = rng.integers(0, 4, (3, 4)).astype(float)

# name: parameters, their names, values at which densities are compared
CASES = {
    "Normal": ((X, A), (), X * 2),
    "LogNormal": ((X, A), (), A),
    "Uniform": ((-A, B), (), UNIT * 0.4),
    "Exponential": ((A,), (), B),
    "Laplace": ((X, A), (), X * 2),
    "Gamma": ((A, B), (), UNIT),
    "Beta": ((A, B), (), UNIT),
    "Dirichlet": ((P + 0.3,), (), SIMPLEX),
    "Bernoulli": ((P,), ("probs",), (COUNTS > 1).astype(float)),
    "Bernoulli of logits": ((P - 0.5,), ("logits",), (COUNTS > 1).astype(float)),
    "Geometric": ((P,), ("probs",), COUNTS),
    "Poisson": ((P * 3,), (), COUNTS),
    "Categorical": ((P,), ("probs",), CLASSES),
    "Categorical of logits": ((P,), ("logits",), CLASSES),
    "OneHotCategorical": ((P,), ("probs",), ONE_HOT),
    "Binomial": ((np.full((3, 4), 5.0), P), ("total_count", "probs"), COUNTS),
}
NAMES = list(CASES)


def make(library, name, tensors):
    cls = getattr(library.distributions, name.partition(" ")[0])
    words = CASES[name][1]
    return cls(**dict(zip(words, tensors))) if words else cls(*tensors)


def pair(name):
    arrays = CASES[name][0]
    ours = make(fx.torch, name, [fx.tensor(a) for a in arrays])
    return ours, make(torch, name, [torch.tensor(a) for a in arrays])


@pytest.mark.parametrize("name", NAMES)
def test_log_prob_and_its_gradient(name):
    arrays, _, value = CASES[name]
    check(
        lambda *t: make(fx.torch, name, t).log_prob(fx.tensor(value)),
        lambda *t: make(torch, name, t).log_prob(torch.tensor(value)),
        *arrays,
    )


@pytest.mark.parametrize("name", NAMES)
def test_shows_what_was_given(name):
    ours, theirs = pair(name)
    if repr(theirs) != f"{type(theirs).__name__}()":  # PyTorch does not find what a base holds
        assert repr(ours) == repr(theirs)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("what", ["mean", "variance", "stddev", "mode", "entropy", "cdf", "icdf"])
def test_moments(name, what):
    ours, theirs = pair(name)
    try:
        expected = getattr(theirs, what)
        if what in ("cdf", "icdf"):
            at = UNIT if what == "icdf" else CASES[name][2]
            close(getattr(ours, what)(fx.tensor(at)), expected(torch.tensor(at)), what)
            return
        expected = expected() if what == "entropy" else expected
    except NotImplementedError:
        with pytest.raises(NotImplementedError):
            getattr(ours, what)(*([fx.tensor(at)] if what in ("cdf", "icdf") else []))
        return
    got = getattr(ours, what)
    close(got() if what == "entropy" else got, expected, what)
    assert (tuple(theirs.batch_shape), tuple(theirs.event_shape)) == (
        ours.batch_shape, ours.event_shape,
    )  # fmt: skip


@pytest.mark.parametrize(
    "name", [n for n in NAMES if n not in ("Geometric", "Binomial", "LogNormal")]
)
def test_divergence(name):
    arrays = CASES[name][0]
    others = [a * 1.3 for a in arrays]
    if "probs" in CASES[name][1]:
        others = [np.clip(a, 0.05, 0.95) for a in others]

    def divergence(library, tensor):
        p = make(library, name, [tensor(a) for a in arrays])
        q = make(library, name, [tensor(a) for a in others])
        return library.distributions.kl_divergence(p, q)

    close(divergence(fx.torch, fx.tensor), divergence(torch, torch.tensor))


@pytest.mark.parametrize("name", NAMES)
def test_samples_have_the_moments(name):
    fx.manual_seed(0)
    ours, theirs = pair(name)
    drawn = ours.sample((4000,))
    assert not drawn.requires_grad
    assert drawn.shape == tuple(theirs.sample((4000,)).shape)
    assert drawn.dtype == (fx.int64 if name.startswith("Categorical") else fx.float64)
    if name.startswith("Categorical"):
        share = fx.one_hot(drawn, 4).astype(fx.float64).mean(0)
        np.testing.assert_allclose(share.numpy(), ours.probs.numpy(), atol=0.05)
        return
    error = 6 * ours.stddev.numpy() / np.sqrt(4000)
    assert (np.abs((drawn.mean(0) - ours.mean).numpy()) <= error).all()
    spread = drawn.std(0).numpy() / ours.stddev.numpy()
    assert (np.abs(spread - 1) < (0.6 if name == "LogNormal" else 0.15)).all()


def test_rsample_passes_derivatives():
    loc, scale = fx.zeros(3, requires_grad=True), fx.ones(3, requires_grad=True)
    fx.torch.distributions.Normal(loc, scale).rsample((5,)).sum().backward()
    np.testing.assert_array_equal(loc.grad.numpy(), np.full(3, 5.0))
    with pytest.raises(NotImplementedError, match="Poisson has no rsample"):
        fx.torch.distributions.Poisson(1.0).rsample()


def test_independent_and_numbers():
    d = fx.torch.distributions
    ours = d.Independent(d.Normal(fx.tensor(X), fx.tensor(A)), 1)
    theirs = torch.distributions.Independent(
        torch.distributions.Normal(torch.tensor(X), torch.tensor(A)), 1
    )
    close(ours.log_prob(fx.tensor(X)), theirs.log_prob(torch.tensor(X)))
    close(ours.entropy(), theirs.entropy())
    assert ours.batch_shape == (3,)
    assert d.Normal(0.0, 1.0).sample().shape == ()
    assert d.kl_divergence(ours, ours).shape == (3,)


def test_refusals():
    d = fx.torch.distributions
    with pytest.raises(ValueError, match=r"Expected parameter scale .* of distribution Normal"):
        d.Normal(0.0, -1.0)
    with pytest.raises(ValueError, match="Either `probs` or `logits`"):
        d.Categorical()
    with pytest.raises(NotImplementedError, match="No KL"):
        d.kl_divergence(d.Normal(0.0, 1.0), d.Bernoulli(0.5))
    with pytest.raises(AttributeError, match=r"no torch\.distributions\.VonNeumann"):
        d.VonNeumann


def test_policy_gradient_under_jit():
    """What reinforcement learning does with a Categorical, compiled and not."""
    weights = fx.nn.Parameter(fx.tensor(P))

    def loss(action, advantage):
        weights.grad = None
        dist = fx.torch.distributions.Categorical(logits=weights)
        out = -(dist.log_prob(action) * advantage).mean() - 0.01 * dist.entropy().mean()
        out.backward()
        return out.detach(), weights.grad

    arguments = fx.tensor(CLASSES), fx.tensor(A[:, 0])
    for got, expected in zip(fx.jit(loss)(*arguments), loss(*arguments)):
        np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-12)
    one = fx.torch.distributions.Normal(0.0, fx.ones(3))
    fx.manual_seed(3)
    expected = one.sample()
    fx.manual_seed(3)
    np.testing.assert_array_equal(fx.jit(lambda: one.sample())().numpy(), expected.numpy())
