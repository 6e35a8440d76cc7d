"""QR, eigenvalues and singular values of many small matrices, which are found side by side."""

from functools import partial

import numpy as np
import pytest

import fx
from tests.linalg.peers import close, numbers
from tests.linalg.test_lanes import one_by_one

DTYPES = ("float32", "float64")


def odd(shape, dtype):
    """A stack with zeros, ones on the diagonal, repeated rows, large, small and other numbers."""
    a = numbers(shape, dtype)
    a[0], a[1], a[2, 0], a[3, :, 0], a[4] = 0.0, np.eye(*shape[1:]), a[2, -1], 0.0, a[4] * 1e-30
    a[5], a[6], a[7, -1], a[8] = a[5] * 1e30, np.triu(a[6]), 0.0, np.ones(shape[1:])
    return a


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("m, n", [(1, 1), (4, 4), (9, 5), (5, 9), (17, 17), (40, 33)])
def test_qr_is_that_of_lapack(dtype, m, n):
    a = odd((20, m, n), dtype)
    for mode in ("reduced", "complete"):
        factored = partial(fx.linalg.qr, mode=mode)
        want = [np.stack(of) for of in zip(*[factored(fx.asarray(x)) for x in a], strict=True)]
        for wrap in (lambda f: f, fx.jit):
            q, r = wrap(factored)(fx.asarray(a))
            for i in range(len(a)):
                size = max(np.abs(a[i]).max(), 1e-30)
                close(r.numpy()[i] / size, want[1][i] / size, dtype, 10)
                if np.linalg.matrix_rank(a[i]) == min(m, n):  # else columns are free
                    close(q.numpy()[i], want[0][i], dtype, 20)
            unit = q.numpy().swapaxes(1, 2) @ q.numpy()
            close(unit, np.broadcast_to(np.eye(unit.shape[1], dtype=dtype), unit.shape), dtype, 2)
            size = np.maximum(np.abs(a).max((1, 2), keepdims=True), 1e-30)
            close((q @ r).numpy() / size, a / size, dtype, 5)


def test_qr_of_what_is_not_finite_touches_no_neighbour():
    a = numbers((20, 6, 4), "float32")
    want = fx.linalg.qr(fx.asarray(a))
    a[3, 2, 1], a[7, 0, 0] = np.nan, np.inf
    got = fx.linalg.qr(fx.asarray(a))
    others = [i for i in range(20) if i not in (3, 7)]
    for g, w in zip(got, want):
        assert np.array_equal(g.numpy()[others], w.numpy()[others])
    assert np.isnan(got[0].numpy()[3]).any() and np.isnan(got[0].numpy()[7]).any()


def symmetric(n, dtype):
    """A stack of symmetric matrices of all kinds."""
    a = numbers((40, n, n), dtype)
    a = a + a.swapaxes(1, 2)
    eye = np.eye(n, dtype=dtype)
    q = np.linalg.qr(numbers((n, n), "float64", 3))[0]
    grades = 10.0 ** -np.linspace(0, 12, n)
    a[0], a[1], a[2], a[3] = 0.0, eye, 1.0, np.diag(np.arange(n))
    a[4], a[5], a[6] = a[4] * 1e-30, a[5] * 1e30, np.diag(grades)
    a[7], a[8] = (q * grades) @ q.T, (q * np.sign(np.arange(n) - n // 2 + 0.5)) @ q.T
    a[9] = 2 * eye - np.eye(n, k=1) - np.eye(n, k=-1)
    a[10] = np.outer(grades, grades)
    a[11] = np.diag(np.abs(np.arange(n) - n // 2)) + np.eye(n, k=1) + np.eye(n, k=-1)  # Wilkinson
    a[12] = eye + 1e-6 * a[12]
    return ((a + a.swapaxes(1, 2)) / 2).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 8, 17, 40, 64])
def test_eigenvalues_are_as_exact_as_those_of_lapack(dtype, n):
    a = symmetric(n, dtype)
    exact = np.linalg.eigvalsh(a.astype(float))
    size = np.abs(a).max((1, 2), keepdims=True).astype(float) * n**0.5 + 1e-300
    eps = np.finfo(dtype).eps
    lapack = one_by_one(lambda a: fx.linalg.eigh(a)[0], a)
    for wrap in (lambda f: f, fx.jit):
        w, v = (x.numpy() for x in wrap(fx.linalg.eigh)(fx.asarray(a)))
        alone = wrap(fx.linalg.eigvalsh)(fx.asarray(a)).numpy()
        for values in (w, alone):
            ours, theirs = (np.abs(x - exact).max(1) / size[:, 0, 0] for x in (values, lapack))
            assert (np.diff(values, axis=1) >= 0).all()
            assert ours.max() < 3 * max(theirs.max(), eps)
        wide = v.astype(float)
        apart = np.abs(a @ wide - wide * w[:, None]).max((1, 2)) / size[:, 0, 0]
        unit = np.abs(wide.swapaxes(1, 2) @ wide - np.eye(n)).max((1, 2))
        assert apart.max() < 10 * n**0.5 * eps and unit.max() < 10 * n**0.5 * eps


def test_of_symmetric_matrices_the_lower_triangle_is_read():
    a = symmetric(7, "float64")
    want = fx.linalg.eigh(fx.asarray(a))
    got = fx.linalg.eigh(fx.asarray(np.tril(a) + np.triu(np.full((7, 7), np.nan), 1)))
    for g, w in zip(got, want):
        assert np.array_equal(g.numpy(), w.numpy())


@pytest.mark.parametrize("n", [3, 9])
def test_eigenvalues_of_what_is_not_finite_are_nan_and_touch_no_neighbour(n):
    a = symmetric(n, "float32")
    want = fx.linalg.eigh(fx.asarray(a))
    a[20, n - 1, 0], a[30, 1, 1] = np.nan, np.inf
    got = fx.linalg.eigh(fx.asarray(a))
    others = [i for i in range(40) if i not in (20, 30)]
    for g, w in zip(got, want):
        assert np.array_equal(g.numpy()[others], w.numpy()[others])
        assert np.isnan(g.numpy()[[20, 30]]).all()
    part = fx.linalg.eigh(fx.asarray(a[3:20]))
    for g, w in zip(part, want):
        assert np.array_equal(g.numpy(), w.numpy()[3:20])


@pytest.mark.parametrize("n", [3, 8])
def test_vectors_have_the_signs_of_those_that_are_found_alone(n):
    a = numbers((20, n, n), "float64")
    b = a + a.swapaxes(1, 2)
    b[3], a[3] = b[3] * 1e-320, a[3] * 1e-320  # which LAPACK gets
    for function, x in ((fx.linalg.eigh, b), (fx.linalg.svd, a)):
        found = function(fx.asarray(x))
        for i in (0, 1, 3, 19):
            for got, want in zip(found, function(fx.asarray(x[i])), strict=True):
                close(got[i], want, "float64", 20)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("m, n", [(1, 1), (2, 2), (3, 2), (8, 8), (5, 9), (33, 17), (64, 64)])
def test_singular_values_are_as_exact_as_those_of_lapack(dtype, m, n):
    a, few = np.concatenate([odd((20, m, n), dtype), numbers((20, m, n), dtype, 5)]), min(m, n)
    low = numbers((m, 1), dtype) @ numbers((1, n), dtype, 1)
    a[30], a[31] = low, low + 1e-3 * a[31]
    a[32] = np.eye(m, n) + np.eye(m, n, k=1)
    a[33] = np.eye(m, n) * 10.0 ** -np.linspace(0, 12, n)
    exact = np.linalg.svd(a.astype(float), compute_uv=False)
    size = np.maximum(exact[:, 0], 1e-300)
    eps, room = np.finfo(dtype).eps, 10 * max(m, n) ** 0.5
    lapack = one_by_one(lambda a: fx.linalg.svd(a)[1], a)
    for wrap in (lambda f: f, fx.jit):
        reduced = wrap(lambda a: fx.linalg.svd(a, full_matrices=False))(fx.asarray(a))
        u, s, vh = (x.numpy().astype(float) for x in reduced)
        alone = wrap(fx.linalg.svdvals)(fx.asarray(a)).numpy()
        for values in (s, alone):
            ours, theirs = (np.abs(x - exact).max(1) / size for x in (values, lapack))
            assert (values >= 0).all() and (np.diff(values, axis=1) <= 0).all()
            assert ours.max() < 3 * max(theirs.max(), 2 * eps)
        apart = np.abs((u * s[:, None]) @ vh - a).max((1, 2)) / size
        assert apart.max() < room * eps
        for q in (u.swapaxes(1, 2) @ u, vh @ vh.swapaxes(1, 2)):
            assert np.abs(q - np.eye(few)).max() < room * eps


def test_singular_values_of_what_is_not_finite_touch_no_neighbour():
    a = numbers((20, 6, 4), "float64")
    want = fx.linalg.svdvals(fx.asarray(a)).numpy()
    a[3, 2, 1], a[7, 0, 0] = np.nan, np.inf
    with pytest.raises(fx.errors.LinAlgError, match="Batch element 3"):
        fx.linalg.svdvals(fx.asarray(a))
    part = fx.linalg.svdvals(fx.asarray(np.delete(a, (3, 7), 0))).numpy()
    assert np.array_equal(part, np.delete(want, (3, 7), 0))
