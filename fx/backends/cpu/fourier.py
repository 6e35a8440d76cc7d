"""Fourier transforms: SciPy's pocketfft.

It is a C++ extension that hands out no addresses, so that a transform in a compiled graph is a step
in Python.
"""

from __future__ import annotations

import numpy as np

from fx.backends.cpu import threads

_FORWARD = {0: "backward", -0.5: "ortho", -1: "forward"}  # SciPy's words for n ** scale
_BACKWARD = {0: "forward", -0.5: "ortho", -1: "backward"}
_LARGE = 1 << 16  # elements from which several threads take the lines


def _checked(x: np.ndarray, takes: str, axes: tuple[int, ...]) -> None:
    if x.dtype.char not in takes:
        raise TypeError(f"no kernel for {x.dtype}")
    if not all(x.shape[axis] for axis in axes):
        raise ValueError(f"no points along an axis of {x.shape}")


def _workers(x: np.ndarray) -> int:
    return threads.get_num_threads() if x.size >= _LARGE else 1


def fft(x: np.ndarray, *, axes: tuple[int, ...], inverse: bool, scale: float) -> np.ndarray:
    """The sums along axes: complex, the shape of x."""
    from scipy import fft as scipy_fft

    _checked(x, "fdFD", axes)
    if not axes or not x.size:
        return x.astype(np.result_type(x.dtype, np.complex64))
    transform, words = (
        (scipy_fft.ifftn, _BACKWARD) if inverse else (scipy_fft.fftn, _FORWARD)
    )  # fmt: skip
    out: np.ndarray = transform(x, axes=axes, norm=words[scale], workers=_workers(x))
    return out


def rfft(x: np.ndarray, *, axis: int, scale: float) -> np.ndarray:
    """Half the spectrum along an axis."""
    from scipy import fft as scipy_fft

    _checked(x, "fd", (axis,))
    out: np.ndarray = scipy_fft.rfft(x, axis=axis, norm=_FORWARD[scale], workers=_workers(x))
    return out


def irfft(x: np.ndarray, *, axis: int, n: int, scale: float) -> np.ndarray:
    """n real numbers along an axis."""
    from scipy import fft as scipy_fft

    _checked(x, "fdFD", ())
    if n < 1 or x.shape[axis] != n // 2 + 1:
        raise ValueError(f"{n} numbers do not have {x.shape[axis]} points")
    words, workers = _BACKWARD[scale], _workers(x)
    out: np.ndarray = scipy_fft.irfft(x, n, axis=axis, norm=words, workers=workers)
    return out
