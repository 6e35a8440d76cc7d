"""Reference functions of Fourier transforms: products with the matrix of roots of one."""

import numpy as np


def along(x, axis, sign, scale):
    n = x.shape[axis]
    turns = np.outer(np.arange(n), np.arange(n)) % n  # whole turns left out: exact angles
    matrix = np.exp(sign * 2j * np.pi / n * turns) * float(n) ** scale
    return np.moveaxis(np.tensordot(matrix, x, (1, axis)), 0, axis)


def fft(x, *, axes, inverse, scale):
    x = x.astype(complex)
    for axis in axes:
        x = along(x, axis, 1 if inverse else -1, scale)
    return x


def rfft(x, *, axes, scale):
    whole = fft(x, axes=axes, inverse=False, scale=scale)
    return np.take(whole, range(x.shape[axes[-1]] // 2 + 1), axes[-1])


def irfft(x, *, axes, n, scale):
    *others, axis = axes
    half = np.moveaxis(fft(x, axes=others, inverse=True, scale=scale), axis, 0)
    half[0] = half[0].real
    if n % 2 == 0:
        half[-1] = half[-1].real
    whole = np.concatenate([half, half[1 : (n + 1) // 2][::-1].conj()])
    return np.moveaxis(along(whole, 0, 1, scale).real, 0, axis)


FOURIER = {"fft": fft, "irfft": irfft, "rfft": rfft}
