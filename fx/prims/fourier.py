"""Discrete Fourier transforms: along axes, and of real numbers to half spectra and back.

``scale`` is a power of n, the number of points: the result is multiplied by n ** scale. With 0 the
sums stand as they are, with -0.5 a transform and its inverse are unitary, -1 is a mean.

All three are linear. The matrix of ``fft`` is symmetric and cotangents are paired without a
conjugate, so that ``fft`` is its own transpose. Half a spectrum stands for the whole: every point
but the first and, of an even n, the last one stands for two. So the transposes of ``rfft`` and
``irfft`` are each other, up to that count and conjugates.
"""

from __future__ import annotations

import fx.prims.factors as factors
from fx.dtypes import COMPLEX, bfloat16, complex64, complex128, float16, float32, float64
from fx.errors import DTypeError, ShapeError
from fx.primitive import define
from fx.prims.axes import check_axes
from fx.prims.compare import astype, equal, logical_or, where
from fx.prims.complex import conj, part
from fx.prims.creation import constant_like, iota
from fx.prims.families import accept
from fx.prims.sampling import Sample

_COMPLEX_OF = {
    float32: complex64,
    float64: complex128,
    complex64: complex64,
    complex128: complex128,
}
_TAKES = frozenset(_COMPLEX_OF)
SCALES = (0, -0.5, -1)


def _complex_of(name, x):
    if x.dtype in (float16, bfloat16):
        raise DTypeError(f"{name} takes no {x.dtype.name}; write x.astype(fx.float32)")
    accept(name, x.dtype, _TAKES)
    return _COMPLEX_OF[x.dtype]


def _check_points(name, x, axes):
    for axis in axes:
        if not x.shape[axis]:
            raise ShapeError(f"{name}: axis {axis} of shape {x.shape} has no points")


# along axes -------------------------------------------------------------------------------------


def _fft_spec(x, *, axes, inverse, scale):
    check_axes("fft", x, axes)
    _check_points("fft", x, axes)
    return x.with_(dtype=_complex_of("fft", x))


def _fft_jvp(primals, tangents, **params):
    return fft(*primals, **params), fft(*tangents, **params)


def _fft_vjp(needs, x, **params):
    if x._dtype in COMPLEX:
        return lambda ct: (fft(ct, **params),)
    return lambda ct: (part(fft(ct, **params), turn=0),)


def _batch(primitive):
    def rule(level, args, dims, *, axes, **params):
        (d,) = dims
        return primitive()(args[0], axes=tuple(a + (a >= d) for a in axes), **params), d

    return rule


fft = define(  # sum over j of x[j] * exp(-2 pi i j k / n), with + for the inverse
    "fft", spec=_fft_spec, torch_name="FftC2C",
    jvp=_fft_jvp,
    vjp=_fft_vjp,
    sharding=factors.lines("_->_", (0,)),
    batch=_batch(lambda: fft),
    sample=lambda d: Sample(
        [d.floats(s := d.shape(1, high=6))],
        {"axes": d.axes(len(s)), "inverse": d.flag(), "scale": d.choice(SCALES)},
    ),
)  # fmt: skip


# real numbers -----------------------------------------------------------------------------------


def _times_count(x, axis, n, twice):
    """Half a spectrum of n points, times 1 where a point stands for itself, else ``twice``."""
    m = x.shape[axis]
    shape = tuple(m if i == axis else 1 for i in range(x.ndim))
    at = iota(
        shape=shape, axis=axis, start=0, step=1, dtype=_REAL_OF[x.dtype], device=x.device.name
    )
    single = equal(at, constant_like(0, at))
    if n % 2 == 0:
        single = logical_or(single, equal(at, constant_like(n // 2, at)))
    return x * astype(where(single, constant_like(1, at), constant_like(twice, at)), dtype=x.dtype)


def _some_axes(d, ndim):
    """At least one, in some order."""
    axes = d.axes(ndim) or (ndim - 1,)
    return axes[::-1] if d.flag() else axes


_REAL_OF = {complex64: float32, complex128: float64}


def _rfft_spec(x, *, axes, scale):
    check_axes("rfft", x, axes)
    dtype, last = _complex_of("rfft", x), axes[-1]
    if x.dtype == dtype:
        raise DTypeError(f"rfft takes real numbers, got {dtype.name}; write fx.fft.fft(x)")
    _check_points("rfft", x, axes)
    return x.with_(
        shape=(*x.shape[:last], x.shape[last] // 2 + 1, *x.shape[last + 1 :]), dtype=dtype
    )


def _rfft_jvp(primals, tangents, **params):
    return rfft(*primals, **params), rfft(*tangents, **params)


def _rfft_vjp(needs, x, *, axes, scale):
    last = axes[-1]
    n = x._shape[last]
    return lambda ct: (irfft(conj(_times_count(ct, last, n, 0.5)), axes=axes, n=n, scale=scale),)


rfft = define(  # fft of real numbers: along the last of the axes only its first n // 2 + 1 points
    "rfft", spec=_rfft_spec, torch_name="FftR2C",
    jvp=_rfft_jvp,
    vjp=_rfft_vjp,
    sharding=factors.lines("_->_", (0,)),
    batch=_batch(lambda: rfft),
    sample=lambda d: Sample(
        [d.floats(s := d.shape(1, high=6))],
        {"axes": _some_axes(d, len(s)), "scale": d.choice(SCALES)},
    ),
)  # fmt: skip


def _irfft_spec(x, *, axes, n, scale):
    check_axes("irfft", x, axes)
    dtype, last = _REAL_OF[_complex_of("irfft", x)], axes[-1]
    if n < 1 or x.shape[last] != n // 2 + 1:
        raise ShapeError(
            f"irfft: {n} numbers have a half spectrum of {n // 2 + 1} points, and axis {last} of "
            f"shape {x.shape} has {x.shape[last]}"
        )
    _check_points("irfft", x, axes)
    return x.with_(shape=(*x.shape[:last], n, *x.shape[last + 1 :]), dtype=dtype)


def _irfft_jvp(primals, tangents, **params):
    return irfft(*primals, **params), irfft(*tangents, **params)


def _irfft_vjp(needs, x, *, axes, n, scale):
    real = x._dtype not in COMPLEX

    def pullback(ct):
        out = conj(_times_count(rfft(ct, axes=axes, scale=scale), axes[-1], n, 2))
        return (part(out, turn=0) if real else out,)

    return pullback


def _irfft_sample(d):
    shape = d.shape(1, high=4)
    axes = _some_axes(d, len(shape))
    n = max(1, 2 * shape[axes[-1]] - 2 + d.integer(0, 1))
    return Sample([d.floats(shape)], {"axes": axes, "n": n, "scale": d.choice(SCALES)})


irfft = define(  # n real numbers of half their spectrum; imaginary parts of lone points are nothing
    "irfft", spec=_irfft_spec, torch_name="FftC2R",
    jvp=_irfft_jvp,
    vjp=_irfft_vjp,
    sharding=factors.lines("_->_", (0,)),
    batch=_batch(lambda: irfft),
    sample=_irfft_sample,
)  # fmt: skip
