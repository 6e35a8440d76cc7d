"""Discrete Fourier transforms: the Array API's extension ``fft``, and PyTorch's names beside it.

``dct``, ``dst`` and their kin are SciPy's cosine and sine transforms.

``fft`` and its kin work along one axis, ``fft2`` along two, ``fftn`` along several. ``rfft`` gives
the half of a spectrum that says all about real numbers, ``irfft`` takes it back; ``hfft`` is the
transform of half a signal whose spectrum is real. ``norm`` says which direction is divided by the
number of points: ``"backward"`` the inverse one, ``"forward"`` the other, ``"ortho"`` both by its
root.
"""

from fx.fft.cosines import dct, dctn, dst, dstn, idct, idctn, idst, idstn
from fx.fft.frequencies import fftfreq, fftshift, ifftshift, rfftfreq
from fx.fft.transforms import (
    fft,
    fft2,
    fftn,
    hfft,
    hfft2,
    hfftn,
    ifft,
    ifft2,
    ifftn,
    ihfft,
    ihfft2,
    ihfftn,
    irfft,
    irfft2,
    irfftn,
    rfft,
    rfft2,
    rfftn,
)
from fx.ops.operands import offered as _offered

__all__ = _offered(globals())
