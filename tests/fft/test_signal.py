"""Short-time transforms, windows and convolutions against PyTorch and SciPy."""

import itertools
from functools import partial

import numpy as np
import pytest

import fx
import fx.torch

torch = pytest.importorskip("torch")
signal = pytest.importorskip("scipy.signal")

from tests.fft.tools import leaf_of

rng = np.random.default_rng(5)
X = rng.standard_normal((2, 50))
pytestmark = pytest.mark.filterwarnings("ignore:.*")
STFT = [
    {"n_fft": 8},
    {"n_fft": 9, "hop_length": 3, "win_length": 6, "window": 6},
    {"n_fft": 8, "center": False, "window": 8, "normalized": True},
    {"n_fft": 8, "onesided": False, "pad_mode": "constant", "window": 8},
    {"n_fft": 8, "hop_length": 8, "pad_mode": "circular"},
    {"n_fft": 10, "center": False, "align_to_window": True, "win_length": 5, "window": 5},
    {"n_fft": 6, "hop_length": 1, "return_complex": False, "pad_mode": "replicate"},
]


def given_to(library, case):
    case = {"return_complex": True, **case}
    if "window" in case:
        case["window"] = (
            library.signal.windows.hann(case["window"], sym=False, dtype=library.float64) + 0.1
        )
    return case


@pytest.mark.parametrize("case", STFT, ids=str)
@pytest.mark.parametrize("kind", ["real", "one", "complex"])
def test_spectra_are_pytorchs(case, kind):
    if kind == "complex" and case.get("pad_mode") in ("replicate", "circular"):
        pytest.skip("PyTorch does not pad complex numbers so")
    a = {"real": X, "one": X[0], "complex": X + 1j * X[::-1]}[kind]
    found = []
    for library in (fx.torch, torch):
        x, leaf = leaf_of(library, a)
        y = x.stft(**given_to(library, case))
        (abs(y) ** 2 * 0.5 + y.real if y.is_complex() else y**2).sum().backward()
        found.append((y.detach().numpy(), leaf.grad.numpy()))
    for got, want in zip(*found):
        assert got.shape == want.shape and got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("case", "length"),
    [(c, n) for c in STFT[:5] for n in (None, 30, 48, 60) if (c["n_fft"], n) != (9, 60)],
    ids=str,
)
def test_the_way_back_is_pytorchs(case, length):
    case = {**case, "return_complex": not case.get("onesided", True)}
    case.pop("pad_mode", None)
    there = given_to(torch, {**case, "return_complex": True})
    spectra = torch.stft(torch.tensor(X), **there).numpy() * (1 + 0.1j)
    found = []
    for library in (fx.torch, torch):
        x, leaf = leaf_of(library, spectra)
        y = library.istft(x, length=length, **given_to(library, case))
        (abs(y) ** 2).sum().backward()
        found.append((y.detach().numpy(), leaf.grad.numpy()))
    for got, want in zip(*found):
        assert got.shape == want.shape and got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


def test_there_and_back_under_transforms():
    window = fx.signal.windows.hann(16, sym=False, dtype=fx.float64)

    def again(x):
        y = fx.signal.stft(x, 16, window=window, return_complex=True)
        return fx.signal.istft(y, 16, window=window, length=50)

    x = fx.asarray(X)
    for f in (again, fx.jit(again), fx.vmap(again), fx.jit(fx.vmap(again))):
        np.testing.assert_allclose(f(x).numpy(), X, atol=1e-12)
    gradient = fx.jit(fx.grad(lambda x: (again(x) ** 2).sum()))(x)
    np.testing.assert_allclose(gradient.numpy(), 2 * X, atol=1e-11)


REFUSED = """
    T.stft(x, 4)
    T.stft(x, 200, return_complex=True)
    T.stft(x, 200, center=False, return_complex=True)
    T.stft(T.ones(2, 2, 8), 4, center=False, return_complex=True)
    T.stft(x, 4, window=T.ones(3), return_complex=True)
    T.stft(x, 4, win_length=5, return_complex=True)
    T.stft(x, 4, hop_length=0, return_complex=True)
    T.stft(x.long(), 4, return_complex=True)
    T.stft(x + 0j, 4, onesided=True)
    T.stft(x, 4, align_to_window=True, return_complex=True)
    T.istft(x, 4)
    T.istft(z, 4, win_length=2, window=T.ones(2), hop_length=2, length=30)
    T.istft(z, 4, return_complex=True)
    T.istft(z, 4, hop_length=5)
    T.istft(z, 4, window=T.zeros(4))
    T.istft(z, 4, window=T.hann_window(4), center=False)
    T.istft(z, 9)
    T.signal.windows.exponential(5, center=1.0)
    T.signal.windows.exponential(5, tau=0.0)
    T.signal.windows.gaussian(3, std=0.0)
    T.signal.windows.kaiser(3, beta=-1.0)
    T.signal.windows.general_cosine(3, a=[])
    T.signal.windows.hann(-1)
    T.hann_window(-1)
    T.hann_window(5, dtype=T.int32)
    T.hamming_window(5, True, 0.5, 0.5, 0.5)
""".strip().split("\n")


@pytest.mark.parametrize("hop", [1, 2, 3, 5, 8, 11])
@pytest.mark.parametrize("pieces", [1, 2, 3, 4, 9])
def test_pieces_overlap_at_any_hop(hop, pieces):
    """Parts of a piece of 12 points, whole ones and a rest, more and fewer of them than pieces."""
    shape, window = (2, 7, pieces), rng.uniform(0.5, 1.0, 12)
    z = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    got, want = (
        m.istft(m.tensor(z), 12, hop, window=m.tensor(window), center=False)
        for m in (fx.torch, torch)
    )
    np.testing.assert_allclose(got.numpy(), want.numpy(), atol=1e-12)
    f = lambda z, w: fx.signal.istft(z, 12, hop, window=w, center=False)
    z, w = fx.asarray(z), fx.asarray(window)
    np.testing.assert_allclose(fx.jit(f)(z, w).numpy(), want.numpy(), atol=1e-12)
    g = lambda w: (f(z, w) ** 2).sum()
    theirs = torch.tensor(window, requires_grad=True)
    out = torch.istft(torch.tensor(z.numpy()), 12, hop, window=theirs, center=False)
    (out**2).sum().backward()
    np.testing.assert_allclose(fx.grad(g)(w).numpy(), theirs.grad.numpy(), atol=1e-10)


@pytest.mark.parametrize("line", [line.strip() for line in REFUSED])
def test_what_pytorch_refuses_is_refused(line):
    def run(library):
        z = library.ones(3, 7) + 0j
        return eval(line, {"T": library, "x": library.tensor(X), "z": z})

    with pytest.raises(Exception) as theirs:
        run(torch)
    with pytest.raises(type(theirs.value)):
        run(fx.torch)


WINDOWS = {
    "bartlett": {}, "blackman": {}, "cosine": {}, "exponential": {"tau": 3.0},
    "gaussian": {"std": 2.0},
    "general_cosine": {"a": [0.3, 0.5, 0.2]}, "general_hamming": {"alpha": 0.6}, "hamming": {},
    "hann": {}, "kaiser": {"beta": 9.0}, "nuttall": {},
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(WINDOWS))
def test_windows_are_pytorchs(name):
    for M, sym in itertools.product((0, 1, 2, 5, 8), (True, False)):
        ours, theirs = (
            partial(getattr(library.signal.windows, name), M, sym=sym, **WINDOWS[name])
            for library in (fx.torch, torch)
        )
        want = theirs(dtype=torch.float64).numpy()
        np.testing.assert_allclose(ours(dtype=fx.float64).numpy(), want, atol=1e-13)
        assert ours().dtype == fx.torch.float32
    assert set(torch.signal.windows.__all__) == set(WINDOWS)
    assert ours(requires_grad=True).requires_grad


def test_older_windows():
    lines = [
        "torch.kaiser_window(7)",
        "torch.kaiser_window(7, False, 5.0)",
        "torch.hann_window(0)",
        "torch.kaiser_window(6, True, beta=3.0, dtype=torch.float64)",
        "torch.hann_window(1)",
        "torch.hamming_window(6, True, 0.5, 0.4)",
    ]
    for line in lines:
        got, want = (eval(line, {"torch": library}).numpy() for library in (fx.torch, torch))
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, atol=2e-6)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_convolutions_are_scipys(mode):
    a, b = rng.standard_normal((3, 17)), rng.standard_normal((2, 5))
    for x, y, axes in ((a, b, None), (b, a, None), (a, b[:1], 1), (a[0], b[0] + 1j * b[1], None)):
        if mode == "valid" and axes == 1:
            continue
        got = fx.signal.fftconvolve(fx.asarray(x), fx.asarray(y), mode, axes).numpy()
        np.testing.assert_allclose(got, signal.fftconvolve(x, y, mode, axes), atol=1e-12)
    f = lambda x: (fx.signal.fftconvolve(x, fx.asarray(b), mode) ** 2).sum()
    x, t = fx.asarray(a), fx.asarray(rng.standard_normal(a.shape))
    slope = (f(x + 1e-6 * t) - f(x - 1e-6 * t)) / 2e-6
    np.testing.assert_allclose((fx.grad(f)(x) * t).sum().numpy(), slope.numpy(), rtol=1e-7)
    with pytest.raises(ValueError, match="mode"):
        fx.signal.fftconvolve(x, x, "some")
