"""QR, eigenvalues and singular values against PyTorch and JAX.

Vectors are free up to factors of absolute value 1: what is compared does not depend on those.
"""

from functools import partial

import jax
import numpy as np
import pytest
import torch

import fx
from tests.linalg.peers import DTYPES, close, fx_gradients, numbers, torch_gradients

SQUARE = [(3, 3), (2, 3, 4, 4), (7, 7), (40, 40), (0, 0), (0, 3, 3), (2, 0, 0)]
OBLONG = [*SQUARE, (5, 3), (2, 1, 3, 5), (30, 41), (3, 0), (2, 0, 3)]
CONVERGED = {"float32": 20.0, "complex64": 20.0, "float64": 1e3, "complex128": 1e3}


def hermitian(shape, dtype, seed=0):
    x = numbers(shape, dtype, seed)
    return ((x + x.conj().swapaxes(-1, -2)) / 2).astype(dtype)


def adjoint(x):
    return x.conj().swapaxes(-1, -2) if isinstance(x, np.ndarray) else x.mT.conj()


def numpy_of(outs):
    return [np.asarray(x.resolve_conj() if isinstance(x, torch.Tensor) else x) for x in outs]


def both(function, x):
    """By an eager and, for some shapes, by a compiled call."""
    yield function(x)
    if x.ndim == 4 or 0 in x.shape[-2:]:
        yield fx.jit(function)(x)


def identity_like(x):
    return np.broadcast_to(np.eye(x.shape[-1], dtype=x.dtype), (*x.shape[:-2], *x.shape[-1:] * 2))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", OBLONG)
@pytest.mark.parametrize("mode", ["reduced", "complete", "r"])
def test_qr(dtype, shape, mode):
    a = numbers(shape, dtype)
    want = torch.linalg.qr(torch.tensor(a), mode=mode)
    for got in both(lambda x: fx.linalg.qr(x, mode=mode), fx.asarray(a)):
        for ours, theirs in zip(got, want, strict=True):
            close(ours.numpy(), theirs.numpy(), dtype, CONVERGED[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SQUARE)
@pytest.mark.parametrize("uplo", ["L", "U"])
def test_eigh(dtype, shape, uplo):
    a = hermitian(shape, dtype)
    part = (np.tril if uplo == "L" else np.triu)(a)
    want = torch.linalg.eigvalsh(torch.tensor(a)).numpy()
    for got in both(lambda x: fx.linalg.eigh(x, UPLO=uplo), fx.asarray(part)):
        w, v = numpy_of(got)
        close(w, want, dtype, CONVERGED[dtype])
        close(v * w[..., None, :].astype(dtype) @ adjoint(v), a, dtype, CONVERGED[dtype])
        close(adjoint(v) @ v, identity_like(v), dtype, CONVERGED[dtype])
    for got in both(lambda x: fx.linalg.eigvalsh(x, UPLO=uplo), fx.asarray(part)):
        close(got.numpy(), want, dtype, CONVERGED[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SQUARE)
def test_eig(dtype, shape):
    a = numbers(shape, dtype)
    want = torch.linalg.eigvals(torch.tensor(a)).numpy()
    for got in both(fx.linalg.eig, fx.asarray(a)):
        w, v = numpy_of(got)
        assert w.dtype == v.dtype == want.dtype
        close(a @ v, v * w[..., None, :], want.dtype.name, CONVERGED[dtype])
        close(np.linalg.norm(v, axis=-2), np.ones(w.shape, v.real.dtype), dtype, CONVERGED[dtype])
        nearest = np.abs(w[..., :, None] - want[..., None, :]).min(-1, initial=np.inf)
        assert np.all(nearest < 1e-3 if dtype in ("float32", "complex64") else nearest < 1e-10)
    for got in both(fx.linalg.eigvals, fx.asarray(a)):
        close(np.sort_complex(got.numpy()).sum(-1), w.sum(-1), w.dtype.name, CONVERGED[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", OBLONG)
@pytest.mark.parametrize("full", [False, True])
def test_svd(dtype, shape, full):
    a = numbers(shape, dtype)
    k = min(shape[-2:])
    want = numpy_of(torch.linalg.svd(torch.tensor(a), full_matrices=full))
    for got in both(lambda x: fx.linalg.svd(x, full_matrices=full), fx.asarray(a)):
        u, s, vh = numpy_of(got)
        assert u.shape == want[0].shape and vh.shape == want[2].shape
        close(s, want[1], dtype, CONVERGED[dtype])
        close(
            u[..., :k] * s[..., None, :].astype(dtype) @ vh[..., :k, :], a, dtype, CONVERGED[dtype]
        )
        close(adjoint(u) @ u, identity_like(u), dtype, CONVERGED[dtype])
        close(vh @ adjoint(vh), identity_like(adjoint(vh)), dtype, CONVERGED[dtype])
    for got in both(fx.linalg.svdvals, fx.asarray(a)):
        close(got.numpy(), want[1], dtype, CONVERGED[dtype])


# gradients of what does not depend on a choice of vectors ----------------------------------------


def weighted(v, w):
    """Outer products of vectors with themselves, weighted by their values: it depends on both."""
    return (v * (w.real * w.real + 1)[..., None, :]) @ adjoint(v)


def spectral(module):
    return lambda x: weighted(*reversed(module.linalg.eigh((x + adjoint(x)) / 2)))


def triple(module, full):
    def function(x):
        u, s, vh = module.linalg.svd(x, full_matrices=full)
        k = s.shape[-1]
        pairs = (u[..., :, :k] * (s * s)[..., None, :]) @ vh[..., :k, :]
        return pairs, u[..., :2] @ adjoint(u[..., :2]), adjoint(vh[..., :2, :]) @ vh[..., :2, :], s

    return function


@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients_of_eigh(dtype):
    a = numbers((2, 4, 4), dtype)
    (want,), (got,) = torch_gradients(spectral(torch), a), fx_gradients(spectral(fx), a)
    close(got, want, dtype, CONVERGED[dtype])
    close(fx_gradients(fx.jit(spectral(fx)), a)[0], want, dtype, CONVERGED[dtype])
    values = [lambda x, m=m: m.linalg.eigvalsh((x + adjoint(x)) / 2) for m in (torch, fx)]
    (want,), (got,) = torch_gradients(values[0], a), fx_gradients(values[1], a)
    close(got, want, dtype, CONVERGED[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(2, 4, 4), (4, 3), (3, 5)])
@pytest.mark.parametrize("full", [False, True])
def test_gradients_of_svd(dtype, shape, full):
    a = numbers(shape, dtype)
    (want,), (got,) = torch_gradients(triple(torch, full), a), fx_gradients(triple(fx, full), a)
    close(got, want, dtype, CONVERGED[dtype])
    (want,) = torch_gradients(torch.linalg.svdvals, a)
    (got,) = fx_gradients(fx.linalg.svdvals, a)
    close(got, want, dtype, CONVERGED[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(2, 4, 4), (5, 3), (3, 5)])
def test_gradients_of_qr(dtype, shape):
    a = numbers(shape, dtype)
    (want,) = torch_gradients(lambda x: tuple(torch.linalg.qr(x)), a)
    (got,) = fx_gradients(lambda x: tuple(fx.linalg.qr(x)), a)
    close(got, want, dtype, CONVERGED[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients_of_eig(dtype):
    a = numbers((2, 4, 4), dtype)

    def function(module):
        def run(x):
            w, v = module.linalg.eig(x)
            return weighted(v, w), w * w * w

        return run

    def sums(module):
        return lambda x: (
            module.linalg.eigvals(x).sum(-1) ** 2 + (module.linalg.eigvals(x) ** 3).sum(-1)
        )

    (want,), (got,) = torch_gradients(sums(torch), a), fx_gradients(sums(fx), a)
    close(got, want, dtype, CONVERGED[dtype])
    first = torch_gradients(lambda x: function(torch)(x)[0].sum(), a)[0]
    close(
        fx_gradients(lambda x: function(fx)(x)[0].sum(), a)[0], first, dtype, 30 * CONVERGED[dtype]
    )


def test_second_derivatives_are_those_of_jax():
    a = numbers((3, 3), "float64")
    b = numbers((4, 3), "float64")
    jax.config.update("jax_enable_x64", True)
    try:
        for function, at in (
            (lambda m, x: (m.linalg.eigh(x + x.T)[1] ** 4).sum(), a),
            (lambda m, x: (m.linalg.svd(x, full_matrices=False)[0] ** 4).sum(), b),
            (lambda m, x: (m.linalg.qr(x)[0] ** 3).sum(), b),
        ):
            want = jax.jit(jax.hessian(partial(function, jax.numpy)))(at)
            got = fx.hessian(partial(function, fx))(fx.asarray(at)).numpy()
            assert np.allclose(np.abs(got), np.abs(want), rtol=1e-8, atol=1e-8)
    finally:
        jax.config.update("jax_enable_x64", False)


# where values repeat, and what is refused ------------------------------------------------------


@pytest.mark.parametrize("wrap", [lambda f: f, fx.jit])
def test_values_that_repeat(wrap):
    x = fx.asarray(np.diag([2.0, 2.0, 0.0]))
    for values in (fx.linalg.eigvalsh, lambda x: fx.linalg.eigh(x)[0], fx.linalg.svdvals):
        got = wrap(fx.grad(lambda x: (values(x) ** 2).sum()))(x)  # noqa: B023
        assert np.allclose(got.numpy(), 2 * x.numpy())
        slope = fx.jvp(wrap(lambda x: values(x).sum()), (x,), (fx.eye(3, dtype=fx.float64),))[1]  # noqa: B023
        assert np.isfinite(slope.item())
    assert fx.isnan(wrap(fx.grad(lambda x: (fx.linalg.eigh(x)[1] ** 3).sum()))(x)).any()


@pytest.mark.parametrize("wrap", [lambda f: f, fx.jit])
def test_not_finite(wrap):
    x = np.stack([np.eye(2), np.full((2, 2), np.nan)])
    assert np.isnan(wrap(fx.linalg.eigvalsh)(fx.asarray(x)).numpy()).tolist() == [
        [False] * 2,
        [True] * 2,
    ]
    assert np.isnan(wrap(lambda x: fx.linalg.eigh(x)[1])(fx.asarray(x)).numpy()[1]).all()
    for name in ("svd", "svdvals"):
        with pytest.raises(RuntimeError) as theirs:
            torch.linalg.svd(torch.tensor(x))
        with pytest.raises(fx.errors.LinAlgError) as ours:
            wrap(getattr(fx.linalg, name))(fx.asarray(x))
        assert str(theirs.value) == str(ours.value).replace("svdvals", "svd")
    for name in ("eig", "eigvals"):
        with pytest.raises(fx.errors.LinAlgError, match=r"Batch element 1.*NaN"):
            wrap(getattr(fx.linalg, name))(fx.asarray(x))


def test_what_has_no_derivative():
    x = fx.ones((3, 2))
    for derive in (
        lambda: fx.grad(lambda x: fx.linalg.qr(x, mode="complete")[1].sum())(x),
        lambda: fx.jvp(lambda x: fx.linalg.qr(x, mode="complete")[1], (x,), (x,)),
    ):
        with pytest.raises(
            fx.errors.BackwardError, match="not differentiable when mode='complete'"
        ):
            derive()


NAMES = ["qr", "eigh", "eigvalsh", "eig", "eigvals", "svd", "svdvals"]


@pytest.mark.parametrize("name", NAMES)
def test_refused(name):
    function = getattr(fx.linalg, name)
    with pytest.raises(RuntimeError, match=rf"linalg\.{name}: .* at least 2 dimensions"):
        function(fx.ones(3))
    for dtype in (np.int64, np.float16):
        with pytest.raises(TypeError, match=rf"linalg\.{name}"):
            function(fx.asarray(np.ones((2, 2), dtype)))
    if name[0] == "e":
        with pytest.raises(RuntimeError, match="A must be batches of square matrices"):
            function(fx.ones((2, 3)))
    with pytest.raises(ValueError, match="unrecognized mode 'x'"):
        fx.linalg.qr(fx.ones((2, 2)), mode="x")
    with pytest.raises(ValueError, match="Expected UPLO argument"):
        fx.linalg.eigh(fx.ones((2, 2)), UPLO="x")


@pytest.mark.parametrize("name", NAMES)
def test_meta_and_lanes(name):
    function = getattr(fx.linalg, name)
    x = hermitian((3, 4, 4), "float64")
    real = function(fx.asarray(x))
    lanes = fx.vmap(function)(fx.asarray(x))
    shapes = function(fx.asarray(x).to("meta"))
    as_tuple = lambda out: out if isinstance(out, tuple) else (out,)
    for ours, lane, shape in zip(*map(as_tuple, (real, lanes, shapes)), strict=True):
        assert np.array_equal(ours.numpy(), lane.numpy())
        assert shape.shape == ours.shape and shape.dtype == ours.dtype


@pytest.mark.parametrize("junk", [7.0, float("nan"), float("inf")])
@pytest.mark.parametrize("shape", [(3, 3), (40, 3, 3)])
def test_the_other_triangle_is_not_read(shape, junk):
    """By no transform: nor are slopes of what is read anything but those of Hermitian matrices."""
    x = numbers(shape, "float64")
    x = x @ x.swapaxes(-1, -2) + 3 * np.eye(3)
    above = np.triu(np.ones((3, 3), bool), 1)
    given, whole = fx.asarray(np.where(above, junk, x)), fx.asarray(x)
    for f in (
        fx.linalg.eigvalsh, lambda x: abs(fx.linalg.eigh(x)[1]), fx.linalg.cholesky,
        lambda x: fx.linalg.pinv(x, hermitian=True),
        lambda x: fx.linalg.eigvalsh(x.mT, UPLO="U"),
        lambda x: fx.linalg.matrix_rank(x, hermitian=True).astype(fx.float64),
    ):  # fmt: skip
        want = f(whole).numpy()
        lanes = fx.vmap(f) if len(shape) > 2 else f
        for way in (f, fx.jit(f), lanes, lambda x, f=f: fx.jvp(f, (x,), (fx.ones_like(x),))[0]):
            np.testing.assert_allclose(way(given).numpy(), want, rtol=1e-9, atol=1e-12)
        slope = fx.grad(lambda x, f=f: (f(x) ** 2).sum())
        np.testing.assert_allclose(slope(given).numpy(), slope(whole).numpy(), rtol=1e-7, atol=1e-9)


def _in_order(w):
    """Eigenvalues (*B, n) by their real parts, conjugates after one another."""
    return np.take_along_axis(w, np.argsort(w.real.round(2) * 100 + w.imag, axis=-1), axis=-1)


@pytest.mark.parametrize(
    ("dtype", "sizes"),
    [("float32", (1e-40, 1e-20, 1e-13, 1e13, 1e30)), ("float64", (1e-300, 1e-150, 1e150, 1e300))],
)
@pytest.mark.parametrize("complex_", [False, True])
def test_eigenvalues_of_small_and_of_large_numbers(dtype, sizes, complex_):
    x = numbers((20, 3, 3), "complex128" if complex_ else "float64")
    kind = np.result_type(dtype, "c8") if complex_ else np.dtype(dtype)
    for size in sizes:
        given = fx.asarray((x * size).astype(kind))
        want = _in_order(np.linalg.eigvals(given.numpy().astype("complex128") / size))
        tolerance = 1e-12 if dtype == "float64" else 3e-4 if size == 1e-40 else 1e-5
        for f in (
            fx.linalg.eigvals, lambda x: fx.linalg.eig(x)[0], fx.jit(fx.linalg.eigvals),
            fx.vmap(fx.linalg.eigvals),
        ):  # fmt: skip
            got = _in_order(f(given).numpy().astype("complex128") / size)
            np.testing.assert_allclose(got, want, atol=tolerance * 10)
        w, v = fx.linalg.eig(given)
        unit = given.numpy().astype("complex128") / size
        left = unit @ v.numpy()
        right = v.numpy() * (w.numpy().astype("complex128") / size)[:, None]
        np.testing.assert_allclose(left, right, atol=tolerance * 10)
