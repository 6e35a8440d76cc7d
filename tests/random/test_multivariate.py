"""Samplers of vectors and matrices: moments, marginals, invariance, refusals."""

import math

import numpy as np
import pytest
from scipy import stats

import fx
from fx import random
from fx.errors import DTypeError, LinAlgError, ShapeError
from tests.random.goodness import N, check, ks

KEY = random.key(5)
MEAN = np.array([1.0, -2.0, 0.5])
COV = np.array([[2.0, 0.6, -0.3], [0.6, 1.0, 0.2], [-0.3, 0.2, 0.5]])


def draw_normal(key, method, dtype=None, shape=(N,)):
    return random.multivariate_normal(
        key, fx.tensor(MEAN.tolist()), fx.tensor(COV.tolist()), shape, dtype, method
    )


@pytest.mark.parametrize("dtype", [fx.float32, fx.float64])
@pytest.mark.parametrize("method", ["cholesky", "eigh", "svd"])
def test_multivariate_normal(method, dtype):
    x = draw_normal(KEY, method, dtype)
    assert (x.shape, x.dtype) == ((N, 3), dtype)
    x = np.asarray(x)
    np.testing.assert_allclose(x.mean(0), MEAN, atol=5 * math.sqrt(2 / N))
    np.testing.assert_allclose(np.cov(x.T), COV, atol=5 * 3 / math.sqrt(N))
    inverse = np.linalg.inv(COV)

    def distances(key):  # whose squares are chi-squared only if every covariance is right
        away = np.asarray(draw_normal(key, method, dtype)) - MEAN
        return np.einsum("ni,ij,nj->n", away, inverse, away)

    check(distances, ks(stats.chi2(3)))


def test_shapes_of_multivariate_normal():
    mean, cov = fx.zeros((4, 1, 2)), fx.broadcast_to(fx.eye(2) * 9.0, (3, 2, 2))
    for method in ("cholesky", "eigh", "svd"):
        assert random.multivariate_normal(KEY, mean, cov, method=method).shape == (4, 3, 2)
        x = random.multivariate_normal(KEY, mean, cov, (500, 4, 3), method=method)
        assert abs(float(x.std()) - 3.0) < 0.1
    assert random.multivariate_normal(KEY, fx.zeros(0), fx.zeros((0, 0)), (3,)).shape == (3, 0)
    assert random.multivariate_normal(KEY, fx.zeros(2), fx.eye(2), dtype=fx.bfloat16).dtype == (
        fx.bfloat16
    )
    for bad in ((fx.zeros(2), fx.eye(3)), (fx.zeros(2), fx.ones(2)), (fx.tensor(0.0), fx.eye(1))):
        with pytest.raises(ShapeError, match=r"mean is \(..., n\) and cov \(..., n, n\), got"):
            random.multivariate_normal(KEY, *bad)
    with pytest.raises(ShapeError, match=r"multivariate_normal: a parameter of shape \(3,\) does"):
        random.multivariate_normal(KEY, fx.zeros((3, 2)), fx.eye(2), (4,))
    with pytest.raises(ValueError, match="method is one of cholesky, eigh, svd, got 'lu'"):
        random.multivariate_normal(KEY, fx.zeros(2), fx.eye(2), method="lu")


def test_singular_covariances():
    mean, ones = fx.zeros(3), fx.ones((3, 3))
    with pytest.raises(LinAlgError, match="not positive-definite"):
        random.multivariate_normal(KEY, mean, ones)
    for method in ("eigh", "svd"):
        x = np.asarray(random.multivariate_normal(KEY, mean, ones, (N,), fx.float64, method))
        np.testing.assert_allclose(x, x[:, :1] * np.ones(3), atol=2e-3)
        assert abs(x.std() - 1.0) < 0.02
    negative = random.multivariate_normal(KEY, mean, ones - 0.5 * fx.eye(3), (4,), method="eigh")
    assert bool(fx.isnan(negative).any())


def orthogonal(k, m, c):
    return random.orthogonal(k, 4, (2,), fx.float64) * c[0, 0]


def by_eigenvalues(k, m, c):
    return random.multivariate_normal(k, m, c, (7,), method="eigh")


FACTORED = (orthogonal, by_eigenvalues)


@pytest.mark.parametrize("sample", [
    lambda k, m, c: random.multivariate_normal(k, m, c, (7,)),
    by_eigenvalues,
    orthogonal,
    lambda k, m, c: random.ball(k, 6, c[0, 0], (3,)),
])  # fmt: skip
def test_lanes_have_the_bits_of_the_loop_and_jit_the_numbers(sample):
    keys = random.split(KEY, 3)
    means = fx.asarray(MEAN) + fx.arange(3).reshape(3, 1)
    covs = fx.asarray(COV) * (1.0 + fx.arange(3).reshape(3, 1, 1))
    for dims in ((0, None, None), (0, 0, None), (0, 0, 0), (None, 0, 0)):
        args = [x if d == 0 else x[0] for x, d in zip((keys, means, covs), dims, strict=True)]
        mapped = fx.vmap(sample, dims)(*args)
        for i in range(3):
            own = [x[i] if d == 0 else x for x, d in zip(args, dims, strict=True)]
            row = np.asarray(sample(*own))
            if sample in FACTORED:  # many matrices are factored side by side, few one by one
                np.testing.assert_allclose(np.asarray(mapped[i]), row, rtol=1e-12, atol=1e-14)
            else:
                assert np.asarray(mapped[i]).tobytes() == row.tobytes()
            np.testing.assert_allclose(np.asarray(fx.jit(sample)(*own)), row, rtol=1e-12)


@pytest.mark.parametrize("p", [0.5, 1, 2.0, 7.0])
@pytest.mark.parametrize("d", [1, 3, 8])
def test_ball(d, p):
    def size(x):
        return (np.abs(x.astype(np.float64)) ** p).sum(-1)

    # the p-th power of a norm is that of a uniform number to d / p
    check(lambda key: size(np.asarray(random.ball(key, d, p, (N,)))), ks(stats.beta(d / p, 1.0)))
    x = np.asarray(random.ball(KEY, d, p, (N,)))
    assert x.shape == (N, d)
    first = np.abs(x[:, 0]) ** p  # and of a coordinate a share of a Dirichlet distribution
    assert stats.kstest(first, stats.beta(1 / p, (d - 1) / p + 1).cdf).pvalue > 1e-4
    signs = (x > 0).mean(0)
    np.testing.assert_allclose(signs, 0.5, atol=0.015)
    assert d == 1 or abs(np.corrcoef(x.T)[0, -1]) < 0.02


def test_edges_of_ball():
    assert random.ball(KEY, 0, shape=(2,)).shape == (2, 0)
    assert random.ball(KEY, 3, fx.tensor([1.0, 2.0])).shape == (2, 3)
    assert random.ball(KEY, 3, shape=(2,), dtype=fx.float16).dtype == fx.float16
    cube = np.asarray(random.ball(KEY, 2, 1e7, (N,)))
    assert stats.kstest(cube[:, 1], stats.uniform(-1, 2).cdf).pvalue > 1e-3
    assert bool(fx.isnan(random.ball(KEY, 2, -1.0)).all())
    assert bool(fx.isnan(random.ball(KEY, 2, fx.tensor(0.0))).all())
    assert not np.isnan(np.asarray(random.ball(KEY, 4, 1e-3, (100,)))).any()
    with pytest.raises(ValueError, match=r"ball: p must be finite; .* write fx.random.uniform"):
        random.ball(KEY, 2, math.inf)
    with pytest.raises(ShapeError, match="ball: sizes must not be negative"):
        random.ball(KEY, -1)
    with pytest.raises(DTypeError, match="ball: d must be an int, got"):
        random.ball(KEY, 2.5)


@pytest.mark.parametrize("dtype", [fx.float32, fx.float64, fx.complex64, fx.complex128])
@pytest.mark.parametrize("n, m", [(1, 1), (4, 4), (3, 5), (5, 2)])
def test_orthogonal(n, m, dtype):
    q = random.orthogonal(KEY, n, (6,), dtype, m)
    assert (q.shape, q.dtype) == ((6, n, m), dtype)
    q = np.asarray(q)
    few = q if n <= m else q.conj().swapaxes(-1, -2)
    product = few @ few.conj().swapaxes(-1, -2)
    eps = np.finfo(q.dtype).eps
    np.testing.assert_allclose(
        product, np.broadcast_to(np.eye(min(n, m)), product.shape), atol=8 * eps
    )


@pytest.mark.parametrize("row, column", [(0, 0), (3, 0), (1, 3)])
def test_orthogonal_matrices_are_equally_likely(row, column):
    """Each element is a coordinate of a point of the sphere; a plain QR gives R its own signs."""
    check(
        lambda key: (random.orthogonal(key, 4, (N,))[:, row, column] + 1) / 2,
        ks(stats.beta(1.5, 1.5)),
    )


def test_orthogonal_matrices_have_either_determinant_and_any_phase():
    q = np.asarray(random.orthogonal(KEY, 3, (4000,)))
    assert abs((np.linalg.det(q) > 0).mean() - 0.5) < 0.04
    u = np.asarray(random.orthogonal(KEY, 2, (4000,), fx.complex64))
    for place in ((0, 0), (0, 1), (1, 1)):
        angles = np.angle(u[:, place[0], place[1]])
        assert stats.kstest(angles, stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue > 1e-3


def test_edges_of_orthogonal():
    assert random.orthogonal(KEY, 0).shape == (0, 0)
    assert random.orthogonal(KEY, 3, (2,), m=0).shape == (2, 3, 0)
    assert random.orthogonal(KEY, 3, (0,)).shape == (0, 3, 3)
    assert random.orthogonal(KEY, 2, dtype=fx.float16).dtype == fx.float16
    with pytest.raises(DTypeError, match="orthogonal: n must be an int, got"):
        random.orthogonal(KEY, 1.5)
    with pytest.raises(DTypeError, match="orthogonal: the samples are floating, got dtype int32"):
        random.orthogonal(KEY, 2, dtype=fx.int32)
