"""Von Mises, Wishart and Lewandowski's distributions: SciPy's numbers, moments, transforms."""

import mpmath
import numpy as np
import pytest

stats = pytest.importorskip("scipy.stats")
torch = pytest.importorskip("torch")

import fx
import fx.torch
from tests.nn.oracle import close

D = fx.torch.distributions
K = np.array([1e-6, 0.3, 2.0, 40.0, 900.0, 1100.0, 1e5])
rng = np.random.default_rng(0)
ROOT = rng.standard_normal((2, 3, 3))
COV, DF = ROOT @ ROOT.swapaxes(1, 2) + np.eye(3), np.array([4.5, 7.2])


def test_von_mises_densities():
    x = np.linspace(-3, 3, 5)[:, None]
    ours, theirs = D.VonMises(fx.full((7,), 0.4, dtype=fx.float64), fx.tensor(K)), stats.vonmises
    expected = theirs(K, loc=0.4).logpdf(x)
    np.testing.assert_allclose(ours.log_prob(fx.tensor(x)).numpy(), expected, rtol=1e-12, atol=1e-9)
    slope = fx.grad(lambda k: D.VonMises(0.4, k).log_prob(fx.tensor(x)).sum())(fx.tensor(K))
    with mpmath.workdps(40):
        ratio = [mpmath.besseli(1, k) / mpmath.besseli(0, k) for k in map(mpmath.mpf, K)]
        spread = np.array([float(1 - r) for r in ratio])
    np.testing.assert_allclose(slope.numpy(), (np.cos(x - 0.4) - 1 + spread).sum(0), atol=1e-11)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_von_mises_spread_does_not_cancel(dtype):
    k = np.geomspace(1e-3, 1e6, 40).astype(dtype)
    with mpmath.workdps(40):
        ratio = [
            mpmath.besseli(1, x) / mpmath.besseli(0, x) for x in map(mpmath.mpf, map(float, k))
        ]
        expected = [float(1 - r) for r in ratio]
    got = D.VonMises(fx.tensor(k * 0), fx.tensor(k)).variance.numpy()
    limit = 4e-6 if dtype == "float32" else 4e-13  # just below where the series begins
    np.testing.assert_allclose(got, expected, rtol=limit)


@pytest.mark.parametrize("k", K)
def test_von_mises_draws(k):
    fx.manual_seed(0)
    x = D.VonMises(fx.tensor(0.4, dtype=fx.float64), float(k)).sample((4000,)).numpy()
    assert x.min() >= -np.pi and x.max() < np.pi
    theirs = stats.vonmises(k, loc=0.4)
    assert stats.kstest(x, lambda v: theirs.cdf(v) - theirs.cdf(-np.pi)).pvalue > 1e-4


def test_von_mises_under_transforms():
    def draw():
        return D.VonMises(fx.tensor([0.0, 1.0]), fx.tensor([0.5, 3.0])).sample((3,))

    fx.manual_seed(1)
    eager = draw()
    fx.manual_seed(1)
    np.testing.assert_array_equal(fx.jit(draw)().numpy(), eager.numpy())

    def density(loc, k):
        return D.VonMises(loc, k, validate_args=False).log_prob(fx.tensor(0.3))

    loc, k = fx.tensor([0.1, -0.4]), fx.tensor([0.5, 3.0])
    for f in (density, fx.grad(density), fx.grad(density, 1)):
        expected = fx.stack([f(a, b) for a, b in zip(loc, k)])
        close(fx.vmap(f)(loc, k), expected)
        close(fx.jit(fx.vmap(f))(loc, k), expected)


def wishart(df, v):
    return D.Wishart(fx.tensor(df), fx.tensor(v))


def test_wishart_draws():
    fx.manual_seed(0)
    one, count = wishart(DF, COV), 40_000
    drawn = one.sample((count,)).numpy()
    off = np.abs(drawn.mean(0) - one.mean.numpy()) / one.stddev.numpy()
    assert (off < 5 / np.sqrt(count)).all()
    np.testing.assert_allclose(drawn.var(0), one.variance.numpy(), rtol=0.06)
    for i in range(2):
        theirs = stats.wishart(DF[i], COV[i])
        got = one.log_prob(fx.tensor(drawn[:5])).numpy()[:, i]
        np.testing.assert_allclose(got, theirs.logpdf(drawn[:5, i].transpose(1, 2, 0)), rtol=1e-9)


def test_wishart_divergence_is_the_mean_of_the_samples_ratio():
    fx.manual_seed(0)
    p, q = wishart(DF, COV), wishart(DF + 1, COV * 1.3)
    drawn = p.sample((40_000,))
    ratio = (p.log_prob(drawn) - q.log_prob(drawn)).numpy()
    got = D.kl_divergence(p, q).numpy()
    assert (np.abs(ratio.mean(0) - got) < 5 * ratio.std(0) / np.sqrt(40_000)).all()
    np.testing.assert_allclose(D.kl_divergence(p, p).numpy(), 0, atol=1e-12)


def test_wishart_draws_pass_the_gradient_of_their_mean():
    """The mean is df V: its sum's derivative in df is that of V, in V is df."""

    def total(df, v):
        return D.Wishart(df, v).rsample((20_000,)).mean(0).sum()

    fx.manual_seed(0)
    df, v = fx.tensor(5.0, dtype=fx.float64), fx.tensor(COV[0])
    by_df, by_v = fx.grad(total, (0, 1))(df, v)
    np.testing.assert_allclose(float(by_df), COV[0].sum(), rtol=0.05)
    np.testing.assert_allclose(by_v.numpy(), np.full((3, 3), 5.0), rtol=0.1)


@pytest.mark.parametrize(("k", "dim"), [(1.0, 3), (0.5, 4), (3.0, 5)])
def test_lkj_correlations_are_alike(k, dim):
    """Each is a beta variable of k + dim / 2 - 1 on [-1, 1]; PyTorch's later rows are wider."""
    fx.manual_seed(0)
    factor = D.LKJCholesky(dim, fx.tensor(k, dtype=fx.float64)).sample((20_000,)).numpy()
    both = factor @ factor.swapaxes(-1, -2)
    a = k + dim / 2 - 1
    for i, j in zip(*np.tril_indices(dim, -1)):
        assert stats.kstest((both[:, i, j] + 1) / 2, stats.beta(a, a).cdf).pvalue > 1e-4, (i, j)


def test_lkj_densities_add_up_to_one():
    """Over the one free element of factors of 2 x 2."""
    x = np.linspace(-1, 1, 20_001)[1:-1]
    factors = np.zeros((len(x), 2, 2))
    factors[:, 0, 0], factors[:, 1, 0], factors[:, 1, 1] = 1, x, np.sqrt(1 - x * x)
    one = D.LKJCholesky(2, fx.tensor(2.5, dtype=fx.float64))
    assert abs(np.trapezoid(one.log_prob(fx.tensor(factors)).exp().numpy(), x) - 1) < 1e-6


def test_matrices_under_vmap_and_jit():
    def density(df, v):
        return D.Wishart(df, v, validate_args=False).log_prob(fx.eye(3, dtype=fx.float64))

    df, v = fx.tensor(DF), fx.tensor(COV)
    for f in (density, fx.grad(density), fx.grad(density, 1)):
        expected = fx.stack([f(a, b) for a, b in zip(df, v)])
        close(fx.vmap(f)(df, v), expected)
        close(fx.jit(fx.vmap(f))(df, v), expected)


def test_refusals():
    with pytest.raises(ValueError, match="Exactly one of covariance_matrix"):
        D.Wishart(3.0, fx.eye(2), scale_tril=fx.eye(2))
    with pytest.raises(ValueError, match="df"):
        D.Wishart(0.5, fx.eye(3))
    with pytest.raises(ValueError, match="square"):
        D.Wishart(3.0, fx.ones(2))
    with pytest.raises(ValueError, match="greater than or equal to 2"):
        D.LKJCholesky(1)
    with pytest.raises(ValueError, match="concentration"):
        D.VonMises(0.0, -1.0)
    with pytest.raises(NotImplementedError, match="VonMises has no rsample"):
        D.VonMises(0.0, 1.0).rsample()


def test_each_is_where_pytorch_has_its_file():
    import pkgutil
    from importlib import import_module

    found = 0
    for room in pkgutil.iter_modules(torch.distributions.__path__):
        theirs = import_module(f"torch.distributions.{room.name}")
        ours = import_module(f"fx.torch.distributions.{room.name}")
        assert getattr(fx.torch.distributions, room.name) is ours
        for name in getattr(theirs, "__all__", ()):
            if isinstance(getattr(torch.distributions, name, None), type):
                assert getattr(ours, name) is getattr(fx.torch.distributions, name), name
                found += 1
    assert found > 50


def test_what_distributions_of_users_own_are_written_with():
    theirs, ours = torch.distributions.utils, fx.torch.distributions.utils
    p, m = np.array([[0.2, 0.8], [0.0, 1.0]], "f4"), np.arange(9.0, dtype="f4").reshape(3, 3)
    calls = [("clamp_probs", p)]
    calls += [(n, p, b) for n in ("logits_to_probs", "probs_to_logits") for b in (False, True)]
    calls += [("tril_matrix_to_vec", m, d) for d in (-2, -1, 0, 1, 2)]
    calls += [("vec_to_tril_matrix", m[0], -1), ("vec_to_tril_matrix", m[:2], -1)]
    for name, x, *more in calls:
        want = getattr(theirs, name)(torch.tensor(x), *more)
        got = getattr(ours, name)(fx.from_numpy(x), *more)
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-6, err_msg=name)
    one, two = ours.broadcast_all(fx.zeros((2, 1), dtype=fx.float64), 1.5)
    assert one.shape == two.shape == (2, 1) and two.dtype == fx.float64
    for wrong in (lambda: ours.vec_to_tril_matrix(fx.zeros(4)), lambda: ours.broadcast_all("a")):
        with pytest.raises(ValueError):
            wrong()

    class Made:
        count = 0

        @ours.lazy_property
        def value(self):
            Made.count += 1
            return 5

    made = Made()
    assert (made.value, made.value, Made.count) == (5, 5, 1)
