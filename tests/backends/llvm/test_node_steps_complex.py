"""Steps of complex numbers: their sizes, parts and transposes."""

import numpy as np
import pytest

import fx
from fx.backends.cpu.llvm.driver import compile_graph

rng = np.random.default_rng(4)


def native(f, x):
    """What a compiled function gives, after a look at its steps."""
    program = compile_graph(fx.make_graph(f)(x))
    assert "python:" not in program.schedule
    return fx.jit(f)(x).numpy()


def numbers(shape, dtype):
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 37), (65, 64)], ids=str)
def test_sizes_and_parts(shape, dtype):
    x = numbers(shape, dtype)
    if x.size > 20:
        large = np.finfo(dtype).max / 2
        x.reshape(-1)[:5] = [0, np.inf + 0j, complex(np.nan, np.inf), large + 1j * large, -0.0]
    got = native(fx.abs, fx.asarray(x))
    np.testing.assert_allclose(got, np.abs(x), rtol=4 * np.finfo(dtype).eps)
    np.testing.assert_array_equal(native(fx.real, fx.asarray(x)), x.real)
    np.testing.assert_array_equal(native(fx.imag, fx.asarray(x)), x.imag)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((5, 9), (1, 0)), ((33, 70), (1, 0)), ((2, 9, 17), (0, 2, 1)), ((4, 3, 5), (1, 0, 2)),
        ((3, 4, 5, 6), (3, 1, 0, 2)), ((3, 4, 5, 6), (2, 3, 0, 1)), ((1, 8, 1), (2, 1, 0)),
    ],
    ids=str,
)  # fmt: skip
def test_transposes(shape, axes, dtype):
    x = numbers(shape, dtype)
    got = native(lambda x: fx.permute_dims(x, axes), fx.asarray(x))
    np.testing.assert_array_equal(got, x.transpose(axes))


def test_a_spectrogram_is_one_native_call():
    x = fx.asarray(rng.standard_normal((2, 4000)).astype("float32"))
    window, mel = fx.signal.windows.hann(256, sym=False), fx.ones((20, 129))

    def f(x):
        spectra = fx.signal.stft(x, 256, 64, window=window, return_complex=True)
        return mel @ fx.log(fx.abs(spectra) ** 2 + 1e-6)

    np.testing.assert_allclose(native(f, x), f(x).numpy(), rtol=1e-5, atol=1e-3)
