"""Fourier transforms: a large one, many rows, planes, small ones, and a spectrogram."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.harness import Case, Run

# name: what it is, the function of ``fft``, shape and dtype
TRANSFORMS = {
    "fft_large": ("fft of 2^20 complex numbers", "fft", (1 << 20,), "complex64"),
    "fft_rows": ("fft of rows, 1024x512 complex", "fft", (1024, 512), "complex64"),
    "fft_rows_double": ("the same in float64", "fft", (1024, 512), "complex128"),
    "rfft_rows": ("rfft of rows, 1024x512", "rfft", (1024, 512), "float32"),
    "irfft_rows": ("irfft to rows, 1024x512", "irfft", (1024, 257), "complex64"),
    "fft2": ("fft2 of 64x3x128x128 complex", "fft2", (64, 3, 128, 128), "complex64"),
    "rfft2": ("rfft2 of 64x3x128x128", "rfft2", (64, 3, 128, 128), "float32"),
    "fft_64": ("fft of 64 complex numbers", "fft", (64,), "complex64"),
    "fft_1000": ("fft of 1000 complex numbers", "fft", (1000,), "complex64"),
    "fft_4096": ("fft of 4096 complex numbers", "fft", (4096,), "complex64"),
    "fft_10000": ("fft of 10000 complex numbers", "fft", (10000,), "complex64"),
}


def _array(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    x = np.random.default_rng(len(shape)).normal(size=(2, *shape))
    return (x[0] + 1j * x[1] if dtype.startswith("complex") else x[0]).astype(dtype)


def _transform(library: str, function: str, shape: tuple[int, ...], dtype: str) -> Run:
    if library == "jax":
        import jax

        f, x = jax.jit(getattr(jax.numpy.fft, function)), jax.numpy.asarray(_array(shape, dtype))
        return lambda: f(x).block_until_ready()
    m = import_module("fx.torch" if library == "fx" else library)
    given, work = m.tensor(_array(shape, dtype)), getattr(m.fft, function)
    return lambda: work(given)


def _stft(library: str) -> Run:
    m = import_module("fx.torch" if library == "fx" else library)
    x, window = m.tensor(_array((160_000,), "float32")), m.hann_window(512)
    return lambda: m.stft(x, 512, 128, window=window, return_complex=True)


def _setups(*given: Any) -> dict[str, Any]:
    libraries = ["fx", "torch"] + ["jax"] * (given[2] not in ("complex128", "float64"))
    return {name: (lambda name=name: _transform(name, *given)) for name in libraries}


CASES = [
    *[Case(name, title, _setups(*given)) for name, (title, *given) in TRANSFORMS.items()],
    Case(
        "stft",
        "stft of 10 s at 16 kHz, pieces of 512",
        {"fx": lambda: _stft("fx"), "torch": lambda: _stft("torch")},
    ),
]
