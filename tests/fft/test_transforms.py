"""``fx.fft`` against PyTorch, JAX and NumPy: values, dtypes, derivatives, lanes, jit, refusals."""

import numpy as np
import pytest

import fx
import fx.torch

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")

from tests.fft.tools import leaf_of


@pytest.fixture(autouse=True)
def _wide():
    with jax.enable_x64(True):
        yield


rng = np.random.default_rng(3)
REAL, COMPLEX = rng.standard_normal((3, 4, 5)), rng.standard_normal((2, 3, 5, 6)).view("complex128")
LINES = [
    {},
    {"n": 3},
    {"n": 7, "norm": "ortho"},
    {"axis": 1, "norm": "forward"},
    {"axis": 0, "n": 4},
]
PLANES = [
    {}, {"s": (3, 7)}, {"axes": (0, 2), "norm": "ortho"}, {"s": (4, 2), "axes": (2, 0)},
    {"axes": (1,), "norm": "forward"},
]  # fmt: skip
VOLUMES = [*PLANES, {"axes": (2, 0, 1)}, {"s": (-1, 4)}, {"s": 6}]
LINE, HALF = ("fft", "ifft", "irfft", "hfft"), ("rfft", "ihfft")
CASES = [
    *[(name, given) for name in LINE + HALF for given in LINES],
    *[(f"{name}2", given) for name in LINE + HALF for given in PLANES],
    *[(f"{name}n", given) for name in LINE + HALF for given in VOLUMES],
]
IDS = [f"{name}-{given}" for name, given in CASES]


def inputs(name):
    yield REAL
    if not name.startswith(HALF):
        yield COMPLEX


def torchs(given):
    return {{"axis": "dim", "axes": "dim"}.get(word, word): v for word, v in given.items()}


def weights(shape, dtype):
    drawn = np.random.default_rng(7).standard_normal((*shape, 2)).view("complex128")[..., 0]
    return (drawn if np.dtype(dtype).kind == "c" else drawn.real).astype(dtype)


@pytest.mark.parametrize(("name", "given"), CASES, ids=IDS)
def test_values_and_gradients_are_pytorchs(name, given):
    for x in inputs(name):
        for single in (False, True):
            a = x.astype("complex64" if x.dtype.kind == "c" else "float32") if single else x
            (x_ours, ours), (x_theirs, theirs) = leaf_of(fx.torch, a), leaf_of(torch, a)
            y = getattr(fx.torch.fft, name)(x_ours, **torchs(given))
            z = getattr(torch.fft, name)(x_theirs, **torchs(given))
            g = weights(z.shape, z.detach().resolve_conj().numpy().dtype)
            y.backward(fx.torch.tensor(g))
            z.backward(torch.tensor(g))
            tolerance = 2e-6 if single else 1e-12
            for got, want in ((y.detach(), z.detach()), (ours.grad, theirs.grad)):
                want = want.resolve_conj().numpy()
                assert got.numpy().dtype == want.dtype and got.shape == want.shape
                assert np.abs(got.numpy() - want).max() <= tolerance * np.abs(want).max() * 4


def loss(library, f):
    """A real function of a complex result that is not linear."""
    return lambda x: library.sum(library.abs(f(x) + 0.5) ** 2 * 0.3 + library.real(f(x)) ** 3)


@pytest.mark.parametrize(
    ("name", "given"),
    [("fft", {"n": 3}), ("irfftn", {"s": (4, 2), "axes": (2, 0)}), ("rfft2", {"norm": "ortho"})],
    ids=str,
)
def test_derivatives_are_jaxs(name, given):
    """Of JAX's convention, forwards, backwards, and a Hessian times a vector."""
    x = [*inputs(name)][-1]
    x = np.stack([x.real, x.imag], -1) if x.dtype.kind == "c" else x
    t = weights(x.shape, "complex128").real

    def derivatives(library, grad, jvp):
        whole = lambda p: p[..., 0] + 1j * p[..., 1] if p.ndim > 3 else p
        f = loss(
            library.numpy if library is jax else library,
            lambda p: getattr(fx.fft if library is fx else jax.numpy.fft, name)(whole(p), **given),
        )
        return lambda x, t: (grad(f)(x), jvp(f, (x,), (t,))[1], jvp(grad(f), (x,), (t,))[1])

    wants = jax.jit(derivatives(jax, jax.grad, jax.jvp))(x, t)
    for way in (lambda f: f, fx.jit):
        found = way(derivatives(fx, fx.grad, fx.jvp))(fx.asarray(x), fx.asarray(t))
        for got, want in zip(found, wants):
            np.testing.assert_allclose(got.numpy(), np.asarray(want), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("name", "given"), CASES[1::4], ids=IDS[1::4])
def test_lanes_jit_and_meta(name, given):
    for x in inputs(name):
        f = lambda x: getattr(fx.fft, name)(x, **given)
        x = fx.asarray(x)
        want = f(x)
        shapes = [(x, 0), (fx.stack([x, x * 2], axis=1), 1), (fx.stack([x, x * 2], axis=3), 3)]
        for lanes, at in shapes[1:]:
            got = fx.vmap(f, in_axes=at)(lanes)
            np.testing.assert_allclose(got[1].numpy(), 2 * want.numpy(), rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(fx.jit(f)(x).numpy(), want.numpy())
        meta = f(x.to("meta"))
        assert (meta.shape, meta.dtype, meta.device.type) == (want.shape, want.dtype, "meta")


def test_the_frequencies_and_their_order():
    for n in (0, 1, 4, 5):
        for f in ("fftfreq", "rfftfreq"):
            got = getattr(fx.fft, f)(n, d=0.25, dtype=fx.float64).numpy()
            np.testing.assert_allclose(got, getattr(np.fft, f)(n, 0.25) if n else got, atol=1e-15)
            if n:
                theirs = getattr(torch.fft, f)(n, 0.25).numpy()
                np.testing.assert_array_equal(getattr(fx.torch.fft, f)(n, 0.25).numpy(), theirs)
    for f in ("fftshift", "ifftshift"):
        for axes in (None, 0, (0, 2), -1):
            got = getattr(fx.fft, f)(fx.asarray(REAL), axes=axes).numpy()
            np.testing.assert_array_equal(got, getattr(np.fft, f)(REAL, axes))


REFUSED = """
    T.fft.fft(x, n=0)
    T.fft.fft(x, n=-1)
    T.fft.fft(x, norm="much")
    T.fft.fft(x, dim=3)
    T.fft.fft(x[0, 0, 0])
    T.fft.fft(x.half())
    T.fft.rfft(x.bfloat16())
    T.fft.rfft(x + 0j)
    T.fft.ihfft(x + 0j)
    T.fft.irfft(x[:1], dim=0)
    T.fft.fftn(x, s=(1, 2, 3, 4))
    T.fft.fftn(x, s=(2,), dim=(0, 1))
    T.fft.fftn(x, dim=(0, 0))
    T.fft.rfftn(x, dim=())
    T.fft.irfftn(x, s=())
    T.fft.fft2(x[0, 0])
    T.fft.fft(x[:, :, :0])
    T.fft.fftfreq(-1)
    T.fft.fftfreq(3, dtype=T.int32)
""".strip().split("\n")


@pytest.mark.parametrize("line", [line.strip() for line in REFUSED])
def test_what_pytorch_refuses_is_refused(line):
    """With its kind of error; and the message names the function."""
    with pytest.raises(Exception) as theirs:
        eval(line, {"T": torch, "x": torch.tensor(REAL)})
    name = line.split("(")[0].removeprefix("T.fft.")
    with pytest.raises(type(theirs.value), match=rf"\b{name}\b"):
        eval(line, {"T": fx.torch, "x": fx.torch.tensor(REAL)})


def test_integers_and_no_lanes():
    for dtype in ("bool", "uint8", "int64"):
        a = np.arange(6).reshape(2, 3).astype(dtype)
        for name in ("fft", "rfft", "irfft", "fftn"):
            got = getattr(fx.fft, name)(fx.asarray(a))
            want = getattr(torch.fft, name)(torch.tensor(a))
            np.testing.assert_allclose(got.numpy(), want.numpy(), atol=1e-5)
            assert got.numpy().dtype == want.numpy().dtype
    assert fx.fft.rfft(fx.zeros((0, 4))).shape == (0, 3)  # PyTorch's library refuses it
    assert fx.fft.fftn(fx.ones((2, 3)), axes=()).dtype == fx.complex64


def test_out_and_numpys_words():
    x = fx.torch.tensor(REAL)
    out = fx.torch.zeros(3, 4, 5, dtype=fx.torch.complex128)
    assert fx.torch.fft.fft(x, axis=1, out=out) is out
    np.testing.assert_allclose(out.numpy(), np.fft.fft(REAL, axis=1))
    with pytest.raises(TypeError, match="axs"):
        fx.torch.fft.fft(x, axs=1)


def test_a_large_one_takes_the_threads_and_gives_the_same():
    x = fx.asarray(rng.standard_normal((64, 1100)))
    count = fx.get_num_threads()
    try:
        found = []
        for threads in (1, 2):
            fx.set_num_threads(threads)
            found.append(fx.fft.rfft2(x).numpy())
    finally:
        fx.set_num_threads(count)
    np.testing.assert_array_equal(*found)
    np.testing.assert_allclose(found[0], np.fft.rfft2(x.numpy()), rtol=1e-10, atol=1e-10)
