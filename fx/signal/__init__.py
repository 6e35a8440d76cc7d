"""Signals: short-time Fourier transforms, convolution by Fourier transforms, and windows."""

from fx.signal import windows
from fx.signal.convolution import fftconvolve
from fx.signal.spectrograms import istft, stft

__all__ = ["fftconvolve", "istft", "stft", "windows"]
