"""Pseudo-inverses, least squares, ranks, exponentials and reflectors against PyTorch."""

import math

import numpy as np
import pytest
import scipy.linalg
import torch

import fx
from tests.linalg.peers import DTYPES, close, fx_gradients, numbers, torch_gradients

SHAPES = [(4, 4), (2, 5, 3), (3, 5), (0, 3), (2, 3, 0)]
LOOSE = {"float32": 50.0, "complex64": 50.0, "float64": 1e3, "complex128": 1e3}


def of_rank_two(shape, dtype, seed=0):
    *lead, m, n = shape
    return numbers((*lead, m, 2), dtype, seed) @ numbers((*lead, 2, n), dtype, seed + 1)


def compiled_too(function, *arrays):
    given = list(map(fx.asarray, arrays))
    return function(*given), fx.jit(function)(*given)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("made", [numbers, of_rank_two])
def test_pinv(dtype, shape, made):
    a = made(shape, dtype)
    rtol = 1e-4
    want = torch.linalg.pinv(torch.tensor(a), rtol=rtol).resolve_conj().numpy()
    for got in compiled_too(lambda x: fx.linalg.pinv(x, rtol=rtol), a):
        close(got.numpy(), want, dtype, LOOSE[dtype])
    if a.size:
        (want,) = torch_gradients(lambda x: torch.linalg.pinv(x, rtol=rtol), a)
        (got,) = fx_gradients(lambda x: fx.linalg.pinv(x, rtol=rtol), a)
        close(got, want, dtype, LOOSE[dtype])


def test_pinv_where_singular_values_repeat():
    a = np.eye(4, 3)
    (want,) = torch_gradients(torch.linalg.pinv, a)
    (got,) = fx_gradients(fx.linalg.pinv, a)
    close(got, want, "float64")
    h = np.diag([2.0, 1.0, 1e-9])
    for how in ({"rtol": 1e-5}, {"atol": 1.5}, {"atol": 1e-5, "hermitian": True}, {}):
        want = torch.linalg.pinv(torch.tensor(h), **how).numpy()
        assert np.allclose(fx.linalg.pinv(fx.asarray(h), **how).numpy(), want, rtol=1e-12)
        want = torch.linalg.matrix_rank(torch.tensor(h), **how).item()
        assert fx.linalg.matrix_rank(fx.asarray(h), **how).item() == want


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_matrix_rank(dtype, shape):
    for a in (numbers(shape, dtype), of_rank_two(shape, dtype)):
        want = torch.linalg.matrix_rank(torch.tensor(a)).numpy()
        for got in compiled_too(fx.linalg.matrix_rank, a):
            assert got.dtype == fx.int64 and np.array_equal(got.numpy(), want)


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
@pytest.mark.parametrize("driver", [None, "gels", "gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize("shapes", [((5, 3), (5, 2)), ((2, 3, 5), (2, 3)), ((2, 4, 4), (2, 4, 1))])
def test_lstsq(dtype, driver, shapes):
    a, b = (numbers(shape, dtype, k) for k, shape in enumerate(shapes))
    want = torch.linalg.lstsq(torch.tensor(a), torch.tensor(b), driver=driver)
    got = fx.linalg.lstsq(fx.asarray(a), fx.asarray(b), driver=driver)
    for name in got._fields:
        ours, theirs = getattr(got, name).numpy(), getattr(want, name).numpy()
        if name == "rank":
            assert np.array_equal(ours, theirs)
        else:
            close(ours, theirs, dtype, LOOSE[dtype])
    want = torch_gradients(lambda x, y: torch.linalg.lstsq(x, y).solution, a, b)
    mine = fx_gradients(lambda x, y: fx.linalg.lstsq(x, y, driver=driver).solution, a, b)
    for ours, theirs in zip(mine, want, strict=True):
        close(ours, theirs, dtype, LOOSE[dtype])


def test_least_squares_far_from_orthogonal():
    a = np.vander(np.linspace(0, 1, 20), 9)
    b = a @ np.ones(9)
    got = fx.linalg.lstsq(fx.asarray(a), fx.asarray(b)).solution.numpy()
    assert np.abs(got - scipy.linalg.lstsq(a, b)[0]).max() < 1e-8


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [0.01, 1.0, 9.0])
def test_matrix_exp(dtype, scale):
    a = (numbers((3, 4, 4), dtype) * scale).astype(dtype)
    want = np.stack([scipy.linalg.expm(x.astype("complex128")) for x in a])
    want = (want if dtype[0] == "c" else want.real).astype(dtype)
    for got in compiled_too(fx.linalg.matrix_exp, a):
        close(got.numpy(), want, dtype, 30 * LOOSE[dtype] if scale > 1 else LOOSE[dtype])
    if scale == 1.0:
        (want,) = torch_gradients(torch.linalg.matrix_exp, a)
        (got,) = fx_gradients(fx.linalg.matrix_exp, a)
        close(got, want, dtype, LOOSE[dtype])


def test_matrix_exp_of_odd_matrices():
    assert fx.linalg.matrix_exp(fx.zeros((2, 0, 0))).shape == (2, 0, 0)
    for bad in (math.nan, math.inf):
        assert fx.isnan(fx.linalg.matrix_exp(fx.full((2, 2), bad))).all()
    large = fx.linalg.matrix_exp(fx.tensor([[700.0, 0.0], [0.0, -700.0]], dtype=fx.float64))
    assert np.allclose(np.diag(large.numpy()), np.exp([700.0, -700.0]), rtol=1e-11)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [3, 2])
def test_householder_product(dtype, k):
    a, tau = torch.geqrf(torch.tensor(numbers((2, 5, 3), dtype)))
    a, tau = a.numpy(), tau[..., :k].numpy().copy()
    tau[1, 0] = 0.0
    want = torch.linalg.householder_product(torch.tensor(a), torch.tensor(tau)).numpy()
    for got in compiled_too(fx.linalg.householder_product, a, tau):
        close(got.numpy(), want, dtype, LOOSE[dtype])
    tau[1, 0] = 0.5
    want = torch_gradients(torch.linalg.householder_product, a, tau)
    got = fx_gradients(fx.linalg.householder_product, a, tau)
    for ours, theirs in zip(got, want, strict=True):
        close(ours, theirs, dtype, LOOSE[dtype])


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_names_beside_torch_linalg(dtype):
    import fx.torch as face

    a, c = numbers((2, 5, 3), dtype), numbers((2, 5, 5), dtype, 1)
    v, tau = reflectors(a)
    for left in (True, False):
        for transpose in (True, False):
            how = {"left": left, "transpose": transpose}
            want = torch.ormqr(*map(torch.tensor, (v, tau, c)), **how).numpy()
            close(face.ormqr(*map(fx.asarray, (v, tau, c)), **how).numpy(), want, dtype, 100)
    given, ours = torch.tensor(a), fx.asarray(a)
    for some in (True, False):
        for got, want in zip(face.qr(ours, some), torch.qr(given, some), strict=True):
            close(got.numpy(), want.numpy(), dtype, 100)
        u, s, v = face.svd(ours, some)
        want = torch.svd(given, some)
        assert [u.shape, s.shape, v.shape] == [tuple(x.shape) for x in want]
        close((u[..., :3] * s[..., None, :] @ v.mH).numpy(), a, dtype, 100)
    close(face.svd(ours, compute_uv=False).S.numpy(), torch.svd(given).S.numpy(), dtype, 100)
    close(face.pinverse(ours).numpy(), torch.pinverse(given).numpy(), dtype, 100)
    want = torch.orgqr(*map(torch.tensor, reflectors(a))).numpy()
    close(face.orgqr(*map(fx.asarray, reflectors(a))).numpy(), want, dtype, 100)
    want = torch.matrix_exp(torch.tensor(c)).numpy()
    close(face.matrix_exp(fx.asarray(c)).numpy(), want, dtype, 1e3)


def reflectors(a):
    return [x.numpy() for x in torch.geqrf(torch.tensor(a))]


def test_low_rank():
    from fx.torch import pca_lowrank, svd_lowrank

    for shape in ((30, 8), (8, 30), (2, 9, 9)):
        a = fx.asarray(of_rank_two(shape, "float64"))
        u, s, v = svd_lowrank(a, q=3)
        assert np.allclose((u * s[..., None, :] @ v.mH).numpy(), a.numpy(), atol=1e-9)
        assert np.allclose(s.numpy()[..., :2], fx.linalg.svdvals(a).numpy()[..., :2])
        centred = a - a.mean(-2, keepdim=True)
        s = pca_lowrank(a, q=4).S
        assert np.allclose(s.numpy(), fx.linalg.svdvals(centred).numpy()[..., :4], atol=1e-9)
    with pytest.raises(ValueError, match="must be non-negative"):
        pca_lowrank(a, q=20)


def test_refused():
    x = fx.ones((3, 2))
    for call, words in (
        (lambda: fx.linalg.lstsq(x, fx.ones((2, 2))), "should match other"),
        (lambda: fx.linalg.lstsq(x, x, driver="x"), "gels, gelsy, gelsd, gelss"),
        (lambda: fx.linalg.lstsq(x, x, driver="gels"), "does not have full rank"),
        (lambda: fx.linalg.matrix_exp(x), "batches of square matrices"),
        (lambda: fx.linalg.pinv(x[0]), "at least 2 dimensions"),
        (lambda: fx.linalg.pinv(x, rtol=fx.ones(3)), "rtol must be a number"),
        (lambda: fx.linalg.pinv(x * math.nan), "non-finite values"),
        (lambda: fx.linalg.householder_product(x.mT, fx.ones(2)), "greater than or equal"),
        (lambda: fx.linalg.householder_product(x, fx.ones(3)), "do not fit"),
    ):
        with pytest.raises(RuntimeError if "gelsy" not in words else ValueError, match=words):
            call()
