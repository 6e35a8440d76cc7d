"""Families, transforms and constraints: PyTorch's numbers, gradients, moments, also under jit."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import fx
import fx.torch
from tests.nn.oracle import check, close

rng = np.random.default_rng(2)
A, B, C = rng.random((3, 2)) + 0.5, rng.random((3, 2)) + 0.7, rng.random((3, 2)) + 4.5
X, UNIT = rng.standard_normal((3, 2)), rng.random((3, 2)) * 0.8 + 0.1
P = rng.random((3, 4)) * 0.8 + 0.1
SIMPLEX = P / P.sum(-1, keepdims=True)
COUNTS = rng.integers(0, 4, (3, 2)).astype(float)
FACTOR = np.tril(rng.standard_normal((3, 3)), -1) + np.diag(rng.random(3) + 0.6)
COV, MEANS = FACTOR @ FACTOR.T, rng.standard_normal((2, 3))
UNIT_ROWS = FACTOR / np.linalg.norm(FACTOR, axis=-1, keepdims=True)
FEW = np.array([[1.0, 2.0, 0.0, 2.0], [0, 0, 5, 0], [1, 1, 1, 2]])


def squashed(d, loc, scale):
    affine = d.AffineTransform(0.5, 2.0)
    return d.TransformedDistribution(d.Normal(loc, scale), [d.TanhTransform(), affine])


def falling(d, loc, scale):
    return d.TransformedDistribution(
        d.Normal(loc, scale), [d.AffineTransform(1.0, -2.0), d.SigmoidTransform()]
    )


def mixture(d, probs, means):
    return d.MixtureSameFamily(d.Categorical(probs), d.Normal(means, means.abs() + 0.5))


def mixed_vectors(d, probs, means):
    inner = d.Independent(d.Normal(means, means.abs() + 0.5), 1)
    return d.MixtureSameFamily(d.Categorical(probs), inner)


def named(name, **fixed):
    return lambda d, *t: getattr(d, name)(*t, **fixed)


def worded(name, *words, **fixed):
    return lambda d, *t: getattr(d, name)(**dict(zip(words, t)), **fixed)


# name: constructor, its parameters, values at which densities are compared
CASES = {
    "MultivariateNormal": (named("MultivariateNormal"), (MEANS, COV), MEANS * 2),
    "of precision": (
        worded("MultivariateNormal", "loc", "precision_matrix"), (MEANS, COV), MEANS * 2,
    ),
    "of a factor": (worded("MultivariateNormal", "loc", "scale_tril"), (MEANS, FACTOR), MEANS * 2),
    "LowRank": (
        named("LowRankMultivariateNormal"), (MEANS, FACTOR[:, :2], A.reshape(2, 3)), MEANS * 2,
    ),
    "squashed": (squashed, (X, A), UNIT + 0.2),
    "falling": (falling, (X, A), UNIT),
    "mixture": (mixture, (SIMPLEX, X.repeat(2, 1)), X[:, 0]),
    "mixture of vectors": (mixed_vectors, (P[0, :2], X[:2]), X[2]),
    "StudentT": (named("StudentT"), (C, X, A), X * 2),
    "Gumbel": (named("Gumbel"), (X, A), X * 2),
    "Cauchy": (named("Cauchy"), (X, A), X * 2),
    "HalfNormal": (named("HalfNormal"), (A,), B),
    "HalfCauchy": (named("HalfCauchy"), (A,), B),
    "LogNormal": (named("LogNormal"), (X, A), B),
    "Weibull": (named("Weibull"), (A, B), UNIT),
    "Pareto": (named("Pareto"), (A, C), A + B),
    "Kumaraswamy": (named("Kumaraswamy"), (A, B), UNIT),
    "Chi2": (named("Chi2"), (A,), B),
    "InverseGamma": (named("InverseGamma"), (C, B), UNIT),
    "FisherSnedecor": (named("FisherSnedecor"), (A, C + 4), B),
    "NegativeBinomial": (worded("NegativeBinomial", "total_count", "probs"), (C, UNIT), COUNTS),
    "Multinomial": (worded("Multinomial", "probs", total_count=5), (SIMPLEX,), FEW),
    "RelaxedBernoulli": (worded("RelaxedBernoulli", "temperature", "logits"), (0.7, X), UNIT),
    "RelaxedOneHot": (
        worded("RelaxedOneHotCategorical", "temperature", "logits"), (0.7, P), SIMPLEX,
    ),
    "StraightThrough": (named("OneHotCategoricalStraightThrough"), (SIMPLEX,), np.eye(4)[:3]),
    "ContinuousBernoulli": (worded("ContinuousBernoulli", "probs"), (UNIT,), UNIT),
    "Wishart": (named("Wishart"), (C[0], COV), COV * 2),
    "Wishart of precision": (worded("Wishart", "df", "precision_matrix"), (C[0], COV), COV),
    "Wishart of a factor": (
        lambda d, df, factor: d.Wishart(df, scale_tril=factor.tril()), (C[0], FACTOR), COV,
    ),
    "LKJCholesky": (worded("LKJCholesky", "concentration", dim=3), (A,), UNIT_ROWS),
}  # fmt: skip
NAMES = list(CASES)


def made(library, name, tensors):
    return CASES[name][0](library.distributions, *tensors)


def pair(name):
    arrays = CASES[name][1]
    ours = made(fx.torch, name, [fx.tensor(a, dtype=fx.float64) for a in arrays])
    return ours, made(torch, name, [torch.tensor(a, dtype=torch.float64) for a in arrays])


@pytest.mark.parametrize("name", NAMES)
def test_shows_what_was_given(name):
    ours, theirs = pair(name)
    if "()" not in repr(theirs) and "mixture" not in name:  # it does not find what a base holds
        assert repr(ours) == repr(theirs)


@pytest.mark.parametrize("name", NAMES)
def test_log_prob_and_its_gradient(name):
    _, arrays, value = CASES[name]
    check(
        lambda *t: made(fx.torch, name, t).log_prob(fx.tensor(value)),
        lambda *t: made(torch, name, t).log_prob(torch.tensor(value)),
        *(np.asarray(a) for a in arrays),
    )


# PyTorch's own value is NaN always, and of float32's digits
OFF_IN_PYTORCH = {("Kumaraswamy", "mode"), ("Multinomial", "entropy")}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("what", ["mean", "variance", "stddev", "mode", "entropy", "cdf", "icdf"])
def test_what_pytorch_says_of_it(name, what):
    if (name, what) in OFF_IN_PYTORCH:
        return
    ours, theirs = pair(name)
    arguments = {"entropy": (), "cdf": (CASES[name][2],), "icdf": (UNIT,)}.get(what)

    def asked(distribution, tensor):
        found = getattr(distribution, what)
        return found if arguments is None else found(*map(tensor, arguments))

    try:
        expected = asked(theirs, torch.tensor)
    except NotImplementedError:
        with pytest.raises(
            NotImplementedError, match=f"has no {what.replace('stddev', 'variance')}"
        ):
            asked(ours, fx.tensor)
        return
    close(asked(ours, fx.tensor), expected, what)


def test_what_scipy_says():
    """Where PyTorch refuses float64, or is off."""
    stats, d = pytest.importorskip("scipy.stats"), fx.torch.distributions
    entropy = d.Multinomial(5, fx.tensor(SIMPLEX)).entropy()
    np.testing.assert_allclose(
        entropy.numpy(), [stats.multinomial(5, p).entropy() for p in SIMPLEX]
    )
    one, step = d.Kumaraswamy(fx.tensor(C), fx.tensor(C + 1)), 1e-3
    for x in (one.mode - step, one.mode + step):
        assert bool((one.log_prob(one.mode) > one.log_prob(x)).all())
    for k in (0.0, 0.3, -0.4):
        ours, theirs = d.GeneralizedPareto(fx.tensor(X), fx.tensor(A), k), stats.genpareto(k, X, A)
        x = X + UNIT
        got = ours.log_prob(x), ours.cdf(x), ours.icdf(UNIT), ours.mean, ours.variance
        expected = theirs.logpdf(x), theirs.cdf(x), theirs.ppf(UNIT), theirs.mean(), theirs.var()
        for a, b in zip((*got, ours.entropy()), (*expected, theirs.entropy())):
            np.testing.assert_allclose(a.numpy(), b, rtol=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_shapes_expand_and_draws(name):
    fx.manual_seed(3)
    ours, theirs = pair(name)
    assert (ours.batch_shape, ours.event_shape) == (theirs.batch_shape, theirs.event_shape)
    assert ours.has_rsample == theirs.has_rsample
    wide = (5, *ours.batch_shape)
    expanded, other = ours.expand(wide), theirs.expand(wide)
    assert expanded.batch_shape == other.batch_shape
    close(
        expanded.log_prob(fx.tensor(CASES[name][2])), other.log_prob(torch.tensor(CASES[name][2]))
    )
    assert expanded.sample((2,)).shape == tuple(other.sample((2,)).shape)
    drawn = ours.sample((20_000,))
    assert not drawn.requires_grad
    assert np.isfinite(ours.log_prob(drawn[:50]).numpy()).all()  # within the support
    try:
        mean, deviation = theirs.mean.numpy(), theirs.stddev.numpy()
    except NotImplementedError:
        return
    if np.isfinite(deviation).all():
        off = np.abs(drawn.mean(0).numpy() - mean) / deviation
        assert (off < 6 / np.sqrt(20_000)).all(), off


@pytest.mark.parametrize("name", NAMES)
def test_divergence(name):
    if name.startswith("Wishart"):
        return  # PyTorch's is negative: test_distributions_rarer.py has samples for a peer
    arrays = CASES[name][1]
    others = [np.asarray(a) * (1.0 if name == "of a factor" else 1.1) for a in arrays]

    def divergence(library, tensor):
        p, q = (made(library, name, [tensor(v) for v in given]) for given in (arrays, others))
        return library.distributions.kl_divergence(p, q)

    try:
        expected = divergence(torch, lambda v: torch.tensor(v, dtype=torch.float64))
    except NotImplementedError:
        with pytest.raises(NotImplementedError, match="KL"):
            divergence(fx.torch, fx.tensor)
        return
    close(divergence(fx.torch, lambda v: fx.tensor(v, dtype=fx.float64)), expected)


PAIRED = {
    "Normal": (0.3, 0.8), "Laplace": (0.3, 0.8), "Gumbel": (0.3, 0.8), "Exponential": (1.3,),
    "Gamma": (2.5, 1.3), "Beta": (1.5, 2.3), "ContinuousBernoulli": (0.3,), "Pareto": (0.7, 3.3),
    "Uniform": (0.1, 0.8), "Poisson": (1.7,), "Bernoulli": (0.3,), "Chi2": (2.5,),
}  # fmt: skip


@pytest.mark.parametrize("p", PAIRED)
def test_divergence_of_unlike(p):
    """Each pair has PyTorch's value, or a refusal by name."""
    for q in PAIRED:
        ours, theirs = (
            [getattr(d.distributions, n)(*map(tensor, PAIRED[n])) for n in (p, q)]
            for d, tensor in ((fx.torch, fx.tensor), (torch, torch.tensor))
        )
        try:
            got = fx.torch.distributions.kl_divergence(*ours)
        except NotImplementedError as error:
            assert "No KL" in str(error) and p != q
            with pytest.raises(NotImplementedError):
                torch.distributions.kl_divergence(*theirs)
            continue
        expected = torch.distributions.kl_divergence(*theirs)
        np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-4, err_msg=f"{p} {q}")


def test_logistic_normal():
    ours = fx.torch.distributions.LogisticNormal(fx.tensor(X), fx.tensor(A))
    theirs = torch.distributions.LogisticNormal(torch.tensor(X), torch.tensor(A))
    shares = P[:, :3] / P[:, :3].sum(-1, keepdims=True)
    close(ours.log_prob(fx.tensor(shares)), theirs.log_prob(torch.tensor(shares)))
    assert ours.rsample((4,)).shape == tuple(theirs.rsample((4,)).shape) == (4, 3, 3)
    close(ours.loc, theirs.loc)


TRANSFORMS = {
    "Exp": (lambda d: d.ExpTransform(), X),
    "Power": (lambda d: d.PowerTransform(2.0), A),
    "Sigmoid": (lambda d: d.SigmoidTransform(), X),
    "Softplus": (lambda d: d.SoftplusTransform(), X),
    "Tanh": (lambda d: d.TanhTransform(), X),
    "Affine": (lambda d: d.AffineTransform(1.0, -2.0), X),
    "Affine of vectors": (lambda d: d.AffineTransform(1.0, -2.0, event_dim=1), X),
    "Compose": (lambda d: d.ComposeTransform([d.ExpTransform(), d.AffineTransform(1.0, 2.0)]), X),
    "mixed": (
        lambda d: d.ComposeTransform([d.TanhTransform(), d.StickBreakingTransform()]), X,
    ),
    "Independent": (lambda d: d.IndependentTransform(d.TanhTransform(), 1), X),
    "Reshape": (lambda d: d.transforms.ReshapeTransform((2,), (2, 1)), X),
    "StickBreaking": (lambda d: d.StickBreakingTransform(), X),
    "CorrCholesky": (lambda d: d.CorrCholeskyTransform(), P.reshape(2, 6)),
    "CorrCholesky of 3": (lambda d: d.CorrCholeskyTransform(), MEANS),
    "Cat": (lambda d: d.CatTransform([d.ExpTransform(), d.TanhTransform()], 0, [1, 2]), X),
    "Stack": (lambda d: d.StackTransform([d.ExpTransform(), d.TanhTransform()], 1), X),
    "inverse": (lambda d: d.TanhTransform().inv, UNIT),
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name):
    make, x = TRANSFORMS[name]
    ours, theirs = make(fx.torch.distributions), make(torch.distributions)
    y, expected = ours(fx.tensor(x)), theirs(torch.tensor(x))
    close(y, expected)
    close(ours.inv(y), theirs.inv(expected))
    slope = theirs.log_abs_det_jacobian(torch.tensor(x), expected)
    close(ours.log_abs_det_jacobian(fx.tensor(x), y), slope)
    assert (ours.domain.event_dim, ours.codomain.event_dim) == (
        theirs.domain.event_dim, theirs.codomain.event_dim,
    )  # fmt: skip
    assert ours.bijective == theirs.bijective
    assert ours == make(fx.torch.distributions)
    if name not in ("Cat", "Stack"):
        assert ours.forward_shape(x.shape) == tuple(theirs.forward_shape(x.shape)) == y.shape


@pytest.mark.parametrize("where", ["biject_to", "transform_to"])
@pytest.mark.parametrize(
    "name",
    ["real", "positive", "unit_interval", "simplex", "corr_cholesky", "lower_cholesky",
     "positive_definite", "real_vector", "nonnegative"],
)  # fmt: skip
def test_constraints_lead_to_transforms(where, name):
    x = {"corr_cholesky": P.reshape(2, 6), "lower_cholesky": FACTOR, "positive_definite": FACTOR}
    x = x.get(name, X)
    ours, theirs = fx.torch.distributions, torch.distributions
    try:
        expected = getattr(theirs, where)(getattr(theirs.constraints, name))(torch.tensor(x))
    except NotImplementedError:
        with pytest.raises(NotImplementedError, match="Cannot transform"):
            getattr(ours, where)(getattr(ours.constraints, name))
        return
    constraint = getattr(ours.constraints, name)
    y = getattr(ours, where)(constraint)(fx.tensor(x))
    close(y, expected)
    assert bool(constraint.check(y).all())


KNOWN = [
    name
    for name, value in vars(torch.distributions.constraints).items()
    if isinstance(value, torch.distributions.constraints.Constraint) and name != "dependent"
]


@pytest.mark.parametrize("name", KNOWN)
def test_constraints_say_what_pytorch_says(name):
    theirs = getattr(torch.distributions.constraints, name)
    ours = getattr(fx.torch.distributions.constraints, name)
    assert repr(ours) == repr(theirs)
    for value in (X, P, SIMPLEX, FACTOR, COV, np.eye(3), COUNTS, -COUNTS, UNIT):
        got = ours.check(fx.tensor(value)).numpy()
        np.testing.assert_array_equal(got, theirs.check(torch.tensor(value)).numpy(), name)


def test_gamma_draws_pass_the_derivative_of_their_quantiles():
    """dz/da of a draw is that of the quantile function at the same probability."""
    special = pytest.importorskip("scipy.special")
    from fx.prims.slopes import gamma_log_slope

    a = np.repeat([0.05, 0.3, 1.0, 2.5, 20.0, 900.0], 5)
    p = np.tile([0.02, 0.3, 0.5, 0.9, 0.999], 6)
    h = a * 1e-5
    z = special.gammaincinv(a, p)
    expected = (special.gammaincinv(a + h, p) - special.gammaincinv(a - h, p)) / (2 * h) / z
    a, z = fx.tensor(a), fx.tensor(z)
    got = gamma_log_slope(a, fx.log(z), fx.digamma(a))
    np.testing.assert_allclose(got.numpy(), expected, rtol=2e-6)


@pytest.mark.parametrize("name", ["Gamma", "Beta", "Dirichlet", "StudentT", "Chi2"])
def test_draws_of_gammas_pass_the_gradient_of_their_mean(name):
    """The mean of many draws' derivatives is the derivative of the mean's square."""
    d, a = fx.torch.distributions, fx.tensor([1.3, 2.5], requires_grad=True, dtype=fx.float64)
    arguments = {"Gamma": (a, 2.0), "Beta": (a, 2.0), "StudentT": (a + 10,)}.get(name, (a,))
    fx.manual_seed(0)
    one = getattr(d, name)(*arguments)
    (got,) = fx.autograd.grad((one.rsample((20_000,)) ** 2).mean(0).sum(), a, retain_graph=True)
    (wanted,) = fx.autograd.grad((one.variance + one.mean**2).sum(), a)
    np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=0.1)


def policy(state, weights):
    d = fx.torch.distributions
    loc, log_scale = (state @ weights).chunk(2, -1)
    base = d.Independent(d.Normal(loc, log_scale.clamp(-5, 2).exp()), 1)
    one = d.TransformedDistribution(base, [d.TanhTransform(cache_size=1)])
    action = one.rsample()
    return action, one.log_prob(action)


def test_squashed_policy_under_jit():
    """What SAC does: a squashed sample, its density, and a gradient through both."""
    state, weights = fx.tensor(rng.standard_normal((8, 5))), fx.tensor(rng.standard_normal((5, 4)))

    def loss(weights, state):
        action, log = policy(state, weights)
        return (0.2 * log - (action**2).sum(-1)).mean()

    def step(weights, state):
        return fx.value_and_grad(loss)(weights, state)

    fx.manual_seed(4)
    expected = step(weights, state)
    fx.manual_seed(4)
    for got, want in zip(fx.jit(step)(weights, state), expected):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-10)


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ("of precision", "mixture")])
def test_under_jit_and_vmap(name):
    _, arrays, value = CASES[name]
    tensors = [fx.tensor(a, dtype=fx.float64) for a in arrays]
    value = fx.tensor(value)

    def log_prob(x, *t):
        return made(fx.torch, name, t).log_prob(x)

    expected = log_prob(value, *tensors).numpy()
    np.testing.assert_allclose(fx.jit(log_prob)(value, *tensors).numpy(), expected, rtol=1e-9)
    twice = fx.stack([value, value])
    lanes = fx.vmap(log_prob, in_axes=(0, *[None] * len(tensors)))(twice, *tensors)
    np.testing.assert_allclose(lanes[1].numpy(), expected, rtol=1e-9)


def test_refusals():
    for d, tensor in ((fx.torch.distributions, fx.tensor), (torch.distributions, torch.tensor)):
        with pytest.raises(ValueError, match=r"to satisfy the constraint GreaterThan\(lower_bound"):
            d.StudentT(tensor(-1.0))
        with pytest.raises(ValueError, match=r"to be within the support \(Simplex\(\)\)"):
            d.RelaxedOneHotCategorical(tensor(1.0), tensor([0.5, 0.5])).log_prob(tensor([1.0, 1.0]))
        with pytest.raises(ValueError, match="Value is not broadcastable"):
            d.Gumbel(tensor([1.0, 2.0]), 1.0).log_prob(tensor([1.0, 2.0, 3.0]))
        with pytest.raises(ValueError, match="right-most size of value must match event_shape"):
            d.MultivariateNormal(tensor([1.0, 2.0]), torch_eye(d)).log_prob(tensor([1.0]))
        with pytest.raises(ValueError, match="Exactly one of covariance_matrix"):
            d.MultivariateNormal(tensor([1.0, 2.0]))
        with pytest.raises(ValueError, match="Expected reinterpreted_batch_ndims"):
            d.Independent(d.Normal(tensor(0.0), tensor(1.0)), 1)
        with pytest.raises(ValueError, match=r"does not equal `component_distribution"):
            d.MixtureSameFamily(d.Categorical(tensor([0.5, 0.5])), d.Normal(tensor([0.0] * 3), 1.0))
        assert d.Normal(tensor(0.0), tensor(-1.0), validate_args=False).scale < 0


def torch_eye(d):
    return fx.eye(2) if d is fx.torch.distributions else torch.eye(2)


ENUMERATED = {
    "Bernoulli": lambda d, t: d.Bernoulli(t(UNIT)),
    "Binomial": lambda d, t: d.Binomial(4, t(UNIT)),
    "Binomial of several": lambda d, t: d.Binomial(t([3.0, 4.0]), t(UNIT)),
    "Categorical": lambda d, t: d.Categorical(t(SIMPLEX)),
    "OneHotCategorical": lambda d, t: d.OneHotCategorical(t(SIMPLEX)),
    "Geometric": lambda d, t: d.Geometric(t(UNIT)),
    "Independent": lambda d, t: d.Independent(d.Binomial(2, t(UNIT)), 0),
    "Independent rows": lambda d, t: d.Independent(d.Bernoulli(t(UNIT)), 1),
}


@pytest.mark.parametrize("name", ENUMERATED)
def test_all_values_of_a_support(name):
    ours = ENUMERATED[name](fx.torch.distributions, fx.tensor)
    theirs = ENUMERATED[name](torch.distributions, torch.tensor)
    assert ours.has_enumerate_support is theirs.has_enumerate_support
    for expand in (True, False):
        try:
            want = theirs.enumerate_support(expand)
        except NotImplementedError:
            with pytest.raises(NotImplementedError, match=r"has no|differ with total_count"):
                ours.enumerate_support(expand)
        else:
            close(ours.enumerate_support(expand), want)
            assert str(want.dtype).endswith(str(ours.enumerate_support(expand).dtype))
