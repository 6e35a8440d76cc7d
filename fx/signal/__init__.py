"""Signals: short-time Fourier transforms, convolution, power over frequencies, and windows."""

from fx.signal import windows
from fx.signal.convolution import fftconvolve
from fx.signal.correlation import convolve, convolve2d, correlate, correlate2d
from fx.signal.densities import csd, detrend, welch
from fx.signal.spectrograms import istft, stft

__all__ = [
    "convolve", "convolve2d", "correlate", "correlate2d", "csd", "detrend", "fftconvolve", "istft",
    "stft", "welch", "windows",
]  # fmt: skip
