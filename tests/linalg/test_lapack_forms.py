"""Schur's form of pairs, sines and cosines of blocks, balanced matrices, sketches."""

import numpy as np
import pytest

import fx
from tests.linalg.peers import DTYPES, numbers

scipy = pytest.importorskip("scipy.linalg")
ATOL = {"float32": 2e-5, "complex64": 2e-5, "float64": 1e-12, "complex128": 1e-12}


def _unitary(shape, dtype, seed=0):
    return np.linalg.qr(numbers(shape, dtype, seed).astype(np.result_type(dtype, "f8")))[0].astype(
        dtype
    )


def _same(a, b, dtype):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), atol=ATOL[dtype] * 30)


@pytest.mark.parametrize("output", ["real", "complex"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_schurs_form_of_pairs(dtype, output):
    a, b = numbers((2, 3, 4, 4), dtype), numbers((2, 3, 4, 4), dtype, 1)
    s, t, q, z = fx.linalg.qz(fx.asarray(a), fx.asarray(b), output)
    _same(q @ s @ z.mH, a, dtype)
    _same(q @ t @ z.mH, b, dtype)
    _same(q.mH @ q, np.broadcast_to(np.eye(4), a.shape), dtype)
    _same(t.tril(-1), np.zeros(a.shape), dtype)
    below = -1 if output == "complex" or dtype.startswith("c") else -2
    _same(s.tril(below), np.zeros(a.shape), dtype)
    assert (
        s.dtype.itemsize == np.result_type(dtype, "c8" if output == "complex" else dtype).itemsize
    )
    want = scipy.qz(a[0, 0], b[0, 0], output)
    for got, one in zip((s, t, q, z), want, strict=True):
        assert got.shape == a.shape
        if a.dtype.itemsize == 8 and dtype == "float64":
            _same(got[0, 0], one, dtype)


@pytest.mark.parametrize("sort", ["lhp", "rhp", "iuc", "ouc", lambda x, y: abs(x) > abs(y) * 2])
def test_eigenvalues_in_an_order(sort):
    a, b = numbers((3, 4, 4), "float64"), numbers((3, 4, 4), "float64", 1)
    given = fx.asarray(a), fx.asarray(b)
    s, t, alpha, beta, q, z = fx.linalg.ordqz(*given, sort=sort)
    _same(q @ s @ z.mT, a, "float64")
    _same(q @ t @ z.mT, b, "float64")
    for i in range(3):
        for got, want in zip((s, t, alpha, beta, q, z), scipy.ordqz(a[i], b[i], sort), strict=True):
            _same(got[i], want, "float64")
    lanes = fx.vmap(lambda a, b: fx.linalg.ordqz(a, b, sort=sort))(*given)
    jitted = fx.jit(lambda a, b: fx.linalg.ordqz(a, b, sort=sort))(*given)
    for got, one, two in zip((s, t, alpha, beta, q, z), lanes, jitted, strict=True):
        assert (got == one).all() and (got == two).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("m", "p", "q"), [(4, 2, 2), (5, 1, 3), (5, 3, 4), (6, 2, 5), (2, 1, 1), (6, 5, 1)]
)
@pytest.mark.parametrize("swap", [False, True])
def test_sines_and_cosines(dtype, m, p, q, swap):
    x = _unitary((3, m, m), dtype)
    u, cs, vh = fx.linalg.cossin(fx.asarray(x), p, q, swap_sign=swap)
    _same(u @ cs @ vh, x, dtype)
    (u1, u2), theta, (v1, v2) = fx.linalg.cossin(fx.asarray(x), p, q, separate=True, swap_sign=swap)
    assert u1.shape == (3, p, p) and u2.shape == (3, m - p, m - p)
    assert v1.shape == (3, q, q) and v2.shape == (3, m - q, m - q)
    want = scipy.cossin(x[0], p, q, swap_sign=swap)
    _same(cs[0], want[1], dtype)
    _same(theta[0], scipy.cossin(x[0], p, q, separate=True, swap_sign=swap)[1], dtype)
    blocks = x[0][:p, :q], x[0][:p, q:], x[0][p:, :q], x[0][p:, q:]
    none, again, right = fx.linalg.cossin(blocks, swap_sign=swap, compute_u=False)
    assert none is None
    _same(again, cs[0], dtype)
    _same(right, vh[0], dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("permute", [True, False])
@pytest.mark.parametrize("scale", [True, False])
def test_balanced_matrices(dtype, permute, scale):
    a = numbers((5, 4, 4), dtype) * np.array([1, 1000, 0.01, 1]).astype(dtype)
    a[0, 1:, 0] = a[0, 2:, 1] = 0.0  # eigenvalues apart from the rest
    a[1, 3, :3] = 0.0
    a[2, :, 2] = 0.0
    got, t = fx.linalg.matrix_balance(fx.asarray(a), permute, scale)
    separate, (factors, order) = fx.linalg.matrix_balance(
        fx.asarray(a), permute, scale, separate=True
    )
    assert (separate == got).all() and order.dtype == fx.int64
    for i, one in enumerate(a):
        want, by = scipy.matrix_balance(one, permute, scale)
        np.testing.assert_array_equal(got[i].numpy(), want)
        np.testing.assert_array_equal(t[i].numpy(), by)
        lines = scipy.matrix_balance(one, permute, scale, separate=True)[1]
        np.testing.assert_array_equal(factors[i].numpy(), lines[0])
        np.testing.assert_array_equal(order[i].numpy(), lines[1])


def test_a_balanced_matrix_is_linear_in_the_matrix():
    a = fx.asarray(numbers((3, 3), "float64") * np.array([1, 1000, 0.01]))
    t = fx.linalg.matrix_balance(a)[1]
    e = fx.asarray(numbers((3, 3), "float64", 3))
    f = lambda a: fx.linalg.matrix_balance(a)[0]
    inverse = fx.linalg.inv(t)
    _same(fx.jvp(f, (a,), (e,))[1], inverse @ e @ t, "float64")
    _same(fx.vjp(f, a)[1](e)[0], inverse.mT @ e @ t.mT, "float64")
    _same(fx.vmap(f)(fx.stack([a, a]))[1], f(a), "float64")
    _same(fx.jit(f)(a), f(a), "float64")


@pytest.mark.parametrize(
    ("name", "f"),
    [
        ("qz", lambda a: fx.linalg.qz(a, a)[0].sum()),
        ("cossin", lambda a: fx.linalg.cossin(a, 1, 1)[1].sum()),
    ],
)
def test_what_has_no_derivative_says_so(name, f):
    x = fx.asarray(_unitary((3, 3), "float64"))
    for way in (lambda: fx.grad(f)(x), lambda: fx.jvp(f, (x,), (x,))):
        with pytest.raises(fx.errors.BackwardError, match=f"linalg.{name}: fx has no derivative"):
            way()
    with pytest.raises(fx.errors.BackwardError, match=f"linalg.{name}"):
        f(x.clone().requires_grad_()).backward()


def test_nothing_and_no_numbers():
    for shape in ((0, 3, 3), (2, 0, 0), (0, 0)):
        x = fx.zeros(shape)
        assert [y.shape for y in fx.linalg.qz(x, x)] == [shape] * 4
        assert fx.linalg.matrix_balance(x)[0].shape == shape
    assert fx.linalg.cossin(fx.zeros((0, 3, 3)), 1, 2)[1].shape == (0, 3, 3)
    x = fx.tensor([[1.0, float("nan")], [0.0, 1.0]])
    assert all(bool(y.isnan().all()) for y in fx.linalg.qz(x, x))
    assert bool(fx.linalg.cossin(x, 1, 1)[0].isnan().all())
    assert fx.linalg.matrix_balance(x)[1].tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_what_is_refused():
    x = fx.eye(3)
    for call, error, says in (
        (lambda: fx.linalg.qz(x, fx.eye(2)), fx.errors.ShapeError, "of one shape"),
        (lambda: fx.linalg.qz(x, x, "imaginary"), fx.errors.ArgumentError, "output is 'real'"),
        (lambda: fx.linalg.ordqz(x, x, "up"), fx.errors.ArgumentError, "sort is 'lhp'"),
        (lambda: fx.linalg.cossin(x), fx.errors.ArgumentError, "four blocks"),
        (lambda: fx.linalg.cossin(x, 3, 1), fx.errors.ShapeError, "between 0 and 3"),
        (lambda: fx.linalg.matrix_balance(fx.ones((2, 3))), fx.errors.ShapeError, "square"),
        (lambda: fx.linalg.clarkson_woodruff_transform(x, 0), fx.errors.ShapeError, "at least 1"),
    ):  # fmt: skip
        with pytest.raises(error, match=says):
            call()


def test_sketches():
    a = fx.asarray(numbers((2, 400, 3), "float64"))
    sketch = lambda a: fx.linalg.clarkson_woodruff_transform(a, 50, rng=7)
    found = sketch(a)
    assert found.shape == (2, 50, 3)
    s = sketch(fx.eye(400, dtype=fx.float64))  # (50, 400): one 1 or -1 a column
    assert (abs(s).sum(0) == 1).all() and (s != 0).sum(1).max() < 30
    assert -80 < s.sum() < 80
    _same(found, (s @ a).numpy(), "float64")
    _same(fx.grad(lambda a: (sketch(a) ** 2).sum())(a), (2 * s.mT @ s @ a).numpy(), "float64")
    _same(fx.jit(sketch)(a), found.numpy(), "float64")
    key = fx.random.key(7)
    _same(fx.linalg.clarkson_woodruff_transform(a, 50, key), found.numpy(), "float64")
    fx.manual_seed(3)
    one = fx.linalg.clarkson_woodruff_transform(a, 50)
    two = fx.linalg.clarkson_woodruff_transform(a, 50)
    fx.manual_seed(3)
    assert (one == fx.linalg.clarkson_woodruff_transform(a, 50)).all() and (one != two).any()
    drawn = fx.linalg.clarkson_woodruff_transform(a, 50, fx.Generator().manual_seed(3))
    assert (drawn == one).all()
