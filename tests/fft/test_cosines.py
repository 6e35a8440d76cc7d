"""Cosine and sine transforms against SciPy's, under every transform of fx."""

import itertools

import numpy as np
import pytest
import scipy.fft

import fx

rng = np.random.default_rng(7)
ONE, MANY = ("dct", "idct", "dst", "idst"), ("dctn", "idctn", "dstn", "idstn")
NORMS = (None, "backward", "ortho", "forward")


@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize("kind", [1, 2, 3, 4])
def test_lines_are_scipys(name, kind):
    ours, theirs = getattr(fx.fft, name), getattr(scipy.fft, name)
    for n, norm, ortho in itertools.product((1, 2, 3, 4, 5, 8, 13, 30), NORMS, (None, True, False)):
        if n == 1 and kind == 1 and name.endswith("dct"):
            continue
        x = rng.standard_normal((2, n, 3))
        given = {"type": kind, "axis": 1, "norm": norm, "orthogonalize": ortho}
        got = ours(fx.asarray(x), **given)
        np.testing.assert_allclose(got.numpy(), theirs(x, **given), atol=1e-12, err_msg=str(given))
    x = rng.standard_normal((4, 9))
    for n in (3, 9, 12):
        got = ours(fx.asarray(x), kind, n).numpy()
        np.testing.assert_allclose(got, theirs(x, kind, n), atol=1e-12)
    z = x + 1j * x[::-1]
    np.testing.assert_allclose(ours(fx.asarray(z), kind).numpy(), theirs(z, kind), atol=1e-12)
    assert ours(fx.arange(4), kind).dtype == fx.float32


@pytest.mark.parametrize("name", MANY)
@pytest.mark.parametrize("kind", [1, 2, 3, 4])
def test_planes_are_scipys(name, kind):
    ours, theirs, x = (
        getattr(fx.fft, name),
        getattr(scipy.fft, name),
        rng.standard_normal((3, 4, 5)),
    )
    for given in (
        {},
        {"axes": (2, 0)},
        {"s": (4, 7)},
        {"s": (6, 2), "axes": (0, 1), "norm": "ortho"},
    ):
        got = ours(fx.asarray(x), kind, **given).numpy()
        np.testing.assert_allclose(got, theirs(x, kind, **given), atol=1e-12, err_msg=str(given))


@pytest.mark.parametrize("name", ["dct", "dst"])
@pytest.mark.parametrize("kind", [1, 2, 3, 4])
@pytest.mark.parametrize("n", [6, 7])
def test_they_differentiate_batch_and_compile(name, kind, n):
    f = lambda x: getattr(fx.fft, name)(x, kind, norm="ortho")
    matrix = getattr(scipy.fft, name)(np.eye(n), kind, axis=0, norm="ortho")
    x, t = fx.asarray(rng.standard_normal(n)), fx.asarray(rng.standard_normal(n))
    np.testing.assert_allclose(fx.jacrev(f)(x).numpy(), matrix, atol=1e-13)
    np.testing.assert_allclose(fx.jacfwd(f)(x).numpy(), matrix, atol=1e-13)
    np.testing.assert_allclose(fx.jit(f)(x).numpy(), f(x).numpy(), atol=1e-14)
    both = fx.vmap(f)(fx.stack([x, t])).numpy()
    np.testing.assert_allclose(both, [f(x).numpy(), f(t).numpy()], atol=1e-14)
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(n), atol=1e-13)


@pytest.mark.parametrize("kind", [1, 2, 3, 4])
@pytest.mark.parametrize("name", ["dct", "dst"])
def test_they_are_as_exact_as_pocketffts(name, kind):
    for n in (60, 513, 1000, 4096):
        x = rng.standard_normal(n).astype("float32")
        want = getattr(scipy.fft, name)(x.astype("float64"), kind)
        error = lambda got, want=want: float(np.sqrt(((got - want) ** 2).sum()))
        ours = error(getattr(fx.fft, name)(fx.asarray(x), kind).numpy())
        assert ours <= 1.5 * error(getattr(scipy.fft, name)(x, kind)), (n, ours)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: fx.fft.dct(x, 5), ValueError, "type must be 1, 2, 3 or 4"),
        (lambda x: fx.fft.dst(x, norm="some"), ValueError, "norm must be"),
        (lambda x: fx.fft.dct(x[:1], 1), ValueError, "at least 2 points"),
        (lambda x: fx.fft.dct(x, n=0), ValueError, "at least 1"),
        (lambda x: fx.fft.idst(x.astype(fx.float16)), TypeError, "float16"),
        (lambda x: fx.fft.dctn(x, s=(2, 3)), ValueError, "lengths"),
        (lambda x: fx.fft.dct(x, axis=1), IndexError, "axis 1"),
    ],
)  # fmt: skip
def test_what_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call(fx.ones(4))
