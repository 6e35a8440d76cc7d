"""``scipy.linalg``'s structured matrices and decompositions: each against SciPy's, with slopes."""

import numpy as np
import pytest

import fx

scipy = pytest.importorskip("scipy.linalg")

rng = np.random.default_rng(0)
V, W, M = rng.normal(size=5), rng.normal(size=4), rng.normal(size=(4, 3))
S = (lambda a: a @ a.T + np.eye(4))(rng.normal(size=(4, 4)))
C = rng.normal(size=3) + 1j * rng.normal(size=3)
LOW = M @ rng.normal(size=(3, 6))  # (4, 6) of rank 3
CALLS = [
    ("toeplitz", (V,)), ("toeplitz", (V, W)), ("toeplitz", (W, V)), ("toeplitz", (C,)),
    ("hankel", (V,)), ("hankel", (V, W)), ("circulant", (V,)), ("companion", (V,)),
    ("companion", (V[:2],)), ("khatri_rao", (M, M[:2])), ("expm", (S * 0.1,)),
    ("block_diag", (M, S)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args"), CALLS, ids=[n for n, _ in CALLS])
def test_values_and_slopes(name, args):
    f, want = getattr(fx.linalg, name), getattr(scipy, name)(*args)
    given = [fx.asarray(a) for a in args]
    for way in (f, fx.jit(f)):
        np.testing.assert_allclose(way(*given).numpy(), want, rtol=1e-12)
    if want.dtype.kind == "c":
        return
    weights = rng.normal(size=want.shape)
    got = fx.grad(lambda x: (f(x, *given[1:]) * fx.asarray(weights)).sum())(given[0]).numpy()
    d = rng.normal(size=args[0].shape)
    ends = [getattr(scipy, name)(args[0] + s * 1e-6 * d, *args[1:]) for s in (1, -1)]
    assert np.isclose((got * d).sum(), ((ends[0] - ends[1]) * weights).sum() / 2e-6, rtol=1e-6)


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (3, 3)])
def test_polar(side, shape):
    a = rng.normal(size=shape)
    for dtype in (float, complex):
        x = (a + (0.5j * a[::-1] if dtype is complex else 0)).astype(dtype)
        for got, want in zip(fx.linalg.polar(fx.asarray(x), side), scipy.polar(x, side)):
            np.testing.assert_allclose(got.numpy(), want, atol=1e-12)
    with pytest.raises(ValueError, match="side is 'right' or 'left'"):
        fx.linalg.polar(fx.asarray(a), "up")
    d = rng.normal(size=shape)
    tangent = fx.jvp(lambda x: fx.linalg.polar(x, side).p, (fx.asarray(a),), (fx.asarray(d),))[1]
    ends = [scipy.polar(a + s * 1e-6 * d, side)[1] for s in (1, -1)]
    if shape[0] == shape[1] or (shape[0] > shape[1]) == (side == "right"):
        np.testing.assert_allclose(tangent.numpy(), (ends[0] - ends[1]) / 2e-6, atol=1e-7)


def test_bases_span_what_scipys_span():
    for name in ("orth", "null_space"):
        got, want = getattr(fx.linalg, name)(fx.asarray(LOW)).numpy(), getattr(scipy, name)(LOW)
        assert got.shape == want.shape
        np.testing.assert_allclose(got @ got.T, want @ want.T, atol=1e-12)


def test_solutions_and_questions():
    for lower in (True, False):
        factor = scipy.cholesky(S, lower=lower)
        for b in (W, rng.normal(size=(4, 2))):
            got = fx.linalg.cho_solve((fx.asarray(factor), lower), fx.asarray(b))
            np.testing.assert_allclose(got.numpy(), scipy.cho_solve((factor, lower), b))
    skew = np.array([[1.0, 2j], [-2j, 3.0]])
    for a in (S, skew, skew.T @ skew, np.triu(S)):
        for name in ("issymmetric", "ishermitian"):
            got = getattr(fx.linalg, name)(fx.asarray(a)).item()
            assert got == getattr(scipy, name)(a), name
    np.testing.assert_allclose(fx.linalg.hilbert(4).numpy(), scipy.hilbert(4), rtol=1e-6)
    with pytest.raises(ValueError, match="at least two coefficients"):
        fx.linalg.companion(fx.ones(1))
