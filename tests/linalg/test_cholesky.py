"""Cholesky's factorisation against PyTorch: values, gradients, failures."""

import numpy as np
import pytest
import torch

import fx
from tests.linalg.peers import DTYPES, close, fx_gradients, positive, torch_gradients

BAD = np.array([[1.0, 2.0], [2.0, 1.0]], np.float32)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 4, 4), (7, 7), (0, 0), (0, 3, 3), (2, 0, 0)])
@pytest.mark.parametrize("upper", [False, True])
def test_values(dtype, shape, upper):
    a = positive(shape, dtype)
    want = torch.linalg.cholesky(torch.tensor(a), upper=upper).resolve_conj().numpy()
    close(fx.linalg.cholesky(fx.asarray(a), upper=upper), want, dtype)
    close(fx.jit(lambda x: fx.linalg.cholesky(x, upper=upper))(fx.asarray(a)), want, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("upper", [False, True])
def test_gradients(dtype, upper):
    a = positive((3, 5, 5), dtype)
    (want,) = torch_gradients(lambda x: torch.linalg.cholesky(x, upper=upper), a)
    want = (want + want.swapaxes(-1, -2).conj()) / 2  # a complex one of PyTorch's is not Hermitian
    (got,) = fx_gradients(lambda x: fx.linalg.cholesky(x, upper=upper), a)
    close(got, want, dtype)
    assert np.array_equal(got, got.swapaxes(-1, -2).conj())


def test_only_one_triangle_is_read():
    a = positive((4, 4), "float64")
    lower, upper = np.tril(a), np.triu(a)
    want = np.linalg.cholesky(a)
    for function in (fx.linalg.cholesky, fx.jit(fx.linalg.cholesky)):
        assert np.allclose(function(fx.asarray(lower)).numpy(), want, atol=0, rtol=1e-14)
    found = fx.linalg.cholesky(fx.asarray(upper), upper=True)
    assert np.allclose(found.numpy(), want.T, atol=0, rtol=1e-14)


@pytest.mark.parametrize("wrap", [lambda f: f, fx.jit])
def test_not_positive_definite(wrap):
    factor = wrap(fx.linalg.cholesky)
    for x in (BAD, np.stack([np.eye(2, dtype=np.float32), BAD])):
        with pytest.raises(RuntimeError) as theirs:
            torch.linalg.cholesky(torch.tensor(x))
        words = str(theirs.value).split(" (the leading")[0] if x.ndim > 2 else str(theirs.value)
        with pytest.raises(fx.errors.LinAlgError) as ours:
            factor(fx.asarray(x))
        assert str(ours.value).startswith(words)
    with pytest.raises(np.linalg.LinAlgError, match="Batch element 1"):
        wrap(fx.vmap(fx.linalg.cholesky))(fx.asarray(x))


def test_info_in_place_of_an_error():
    x = np.stack([BAD, np.eye(2, dtype=np.float32), -BAD])
    found = fx.linalg.cholesky_ex(fx.asarray(x))
    want = torch.linalg.cholesky_ex(torch.tensor(x)).info
    assert found.info.dtype == fx.int32 and found.info.tolist() == want.tolist()
    assert np.isnan(found.L.numpy()[0, 1, 1]) and found.L.numpy()[1].tolist() == [[1, 0], [0, 1]]
    with pytest.raises(fx.errors.LinAlgError, match=r"cholesky_ex: \(Batch element 0\)"):
        fx.linalg.cholesky_ex(fx.asarray(x), check_errors=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [None, 9])
def test_nan_is_no_pivot(dtype, count):
    """As in PyTorch, alone and in a stack, wherever it comes from."""
    n = 6
    compiled = fx.jit(lambda x: fx.linalg.cholesky_ex(x).info)
    for i, j in ((0, 0), (1, 0), (3, 2), (5, 0), (5, 5), (0, 3)):
        a = positive((n, n), dtype)
        a[i, j] = np.nan
        if count:
            a = np.stack([a, *[positive((n, n), dtype)] * (count - 1)])
        want = torch.linalg.cholesky_ex(torch.tensor(a)).info.numpy()
        assert want.any() == (i >= j)
        for found in (fx.linalg.cholesky_ex(fx.asarray(a)).info, compiled(fx.asarray(a))):
            np.testing.assert_array_equal(found.numpy(), want)


@pytest.mark.parametrize(
    "x", [np.ones((2, 3)), np.ones(3), np.ones((2, 2), np.int64), np.ones((2, 2), np.float16)]
)
def test_refused(x):
    with pytest.raises((RuntimeError, NotImplementedError)) as theirs:
        torch.linalg.cholesky(torch.tensor(x))
    with pytest.raises(RuntimeError, match=r"linalg\.cholesky") as ours:
        fx.linalg.cholesky(fx.asarray(x))
    if x.dtype.kind == "f" and x.dtype.itemsize > 2:
        assert str(theirs.value).rstrip(".") in str(ours.value)


def test_scipy_stays_away_until_it_is_needed():
    import subprocess
    import sys

    code = "import fx, fx.linalg, fx.torch, sys; assert 'scipy.linalg' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_threads_of_openblas_are_left_as_they_were():
    from fx.backends.cpu.lapack import door

    a = fx.asarray(positive((300, 20, 20), "float64"))
    fx.linalg.cholesky(a)
    words = door.threads()
    assert words[:2].tolist() == [0, 0]
