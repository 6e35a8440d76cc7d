"""The kernels of Fourier transforms: every way and size against SciPy's in more digits."""

import numpy as np
import pytest
import scipy.fft

import fx
from fx import limits
from fx.backends.cpu import fourier
from fx.backends.cpu.llvm.any_size.fourier import plans, tables
from fx.spec import TensorSpec
from fx.testing.native import python_steps

WIDE = {"float32": np.float64, "float64": np.longdouble}
SMALL = (1, 2, 3, 5, 6, 7, 8, 9, 14, 16, 21, 25, 30, 32, 48, 49, 64, 81, 100, 105, 128)
LARGE = (210, 243, 256, 343, 512, 1000, 1536, 4096, 10000)
HUGE = (1 << 15, 3 << 14, 40000)  # in halves
rng = np.random.default_rng(1)


def agree(got, want, what):
    eps = np.finfo(got.dtype).eps
    n = got.size
    assert got.shape == want.shape, what
    assert np.abs(got - want).max() <= (2 + np.log2(n)) * eps * np.abs(want).max(), what


def check(shape, axis, dtype):
    """All primitives along one axis."""
    wide, n = WIDE[dtype], shape[axis]
    axis %= len(shape)
    x = rng.standard_normal(shape).astype(dtype)
    z = x + np.asarray(1j, np.result_type(dtype, "complex64")) * x[::-1]
    exact, real = z.astype(np.result_type(wide, "complex64")), x.astype(wide)
    what = (shape, axis, dtype)
    given = {"axes": (axis,), "inverse": False, "scale": 0}
    agree(fourier.fft(z, **given), scipy.fft.fft(exact, axis=axis), what)
    given = {"axes": (axis,), "inverse": True, "scale": -1}
    agree(fourier.fft(z, **given), scipy.fft.ifft(exact, axis=axis), what)
    given = {"axes": (axis,), "inverse": False, "scale": -0.5}
    agree(fourier.fft(x, **given), scipy.fft.fft(real, axis=axis, norm="ortho"), what)
    agree(fourier.rfft(x, axes=(axis,), scale=0), scipy.fft.rfft(real, axis=axis), what)
    m = n // 2 + 1
    half = z[tuple(slice(m) if i == axis else slice(None) for i in range(z.ndim))]
    want = scipy.fft.irfft(half.astype(exact.dtype), n, axis=axis)
    agree(fourier.irfft(half, axes=(axis,), n=n, scale=-1), want, what)


@pytest.mark.parametrize("dtype", sorted(WIDE))
@pytest.mark.parametrize("sizes", [SMALL, LARGE, HUGE], ids=["small", "large", "huge"])
def test_lines_of_any_size(sizes, dtype):
    for n in sizes:
        for lead in ((),) if n in HUGE else ((), (3,), (19,)):
            check((*lead, n), -1, dtype)
            if lead:
                check((n, *lead), 0, dtype)


@pytest.mark.parametrize("dtype", sorted(WIDE))
def test_lines_under_tiny_limits(dtype):
    """Short vectors, and halves of rows of more than 8 points."""
    with limits.tiny():
        for n in (*SMALL, 210, 256):
            check((n,), -1, dtype)
            check((5, n), -1, dtype)
            check((2, n, 3), 1, dtype)


@pytest.mark.parametrize("axes", [(0, 1, 2), (1, 2), (2, 0), (1,), (0, 1)], ids=str)
def test_several_axes_and_other_layouts(axes):
    for shape in ((3, 40, 48), (5, 7, 300), (2, 130, 1000)):
        z = (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype("complex64")
        for given in (z, np.asfortranarray(z), np.repeat(z, 2, 2)[..., 1::2], z[::-1]):
            got = fourier.fft(given, axes=axes, inverse=False, scale=0)
            agree(got, scipy.fft.fftn(given.astype("complex128"), axes=axes), (axes, shape))


@pytest.mark.parametrize("dtype", sorted(WIDE))
@pytest.mark.parametrize("n", [60, 512, 1000, 4096, 10000, 1 << 15, 1 << 20])
def test_results_are_as_exact_as_pocketffts(n, dtype):
    if dtype == "float64" and n > 1 << 15:
        n = 1 << 17
    kind = np.result_type(dtype, "complex64")
    z = (rng.standard_normal(n) + 1j * rng.standard_normal(n)).astype(kind)
    want = scipy.fft.fft(z.astype(np.result_type(WIDE[dtype], kind)))
    error = lambda got: float(np.sqrt((np.abs(got - want) ** 2).sum()))
    ours = fourier.fft(z, axes=(0,), inverse=False, scale=0)
    assert error(ours) <= 1.1 * error(scipy.fft.fft(z))


def test_roots_are_rounded_once():
    k = np.arange(1000)
    for dtype in WIDE:
        angle = -2 * np.arctan2(np.longdouble(0), np.longdouble(-1)) * k / 1000
        found = tables.roots(k, 1000, np.dtype(dtype))
        want = np.stack([np.cos(angle), np.sin(angle)], -1)
        assert np.abs(found - want).max() <= 0.5001 * np.finfo(dtype).eps / 2


def test_other_sizes_are_pocketffts():
    spec = TensorSpec((2, 22), fx.complex64)
    assert plans.fft(spec, axes=(1,), inverse=False, scale=0) is None
    check((2, 22), 1, "float32")
    check((2 * 13,), 0, "float64")


def test_transforms_are_native_in_graphs():
    for name in ("fft", "rfft", "irfft"):
        assert not any(python_steps(fx.testing.primitive(name)).values())


@pytest.mark.parametrize("n", [12, 45, 512, 1 << 15])
def test_compiled_and_eager_have_the_same_bits(n):
    x = fx.asarray(rng.standard_normal((2, 3, n)).astype("float32"))

    def f(x):
        half = fx.fft.rfft(x)
        whole = fx.fft.fftn(half, axes=(0, 2)) if n < 1000 else half
        return whole, fx.fft.irfft(half, n=n), fx.fft.fft(x, axis=1), fx.fft.ifft(half)

    for got, want in zip(fx.jit(f)(x), f(x), strict=True):
        np.testing.assert_array_equal(got.numpy(), want.numpy())


@pytest.mark.parametrize("axes", [(0, 1), (1, 0), (0, 2, 1), (2, 0), (1, 2)], ids=str)
@pytest.mark.parametrize("shape", [(6, 5, 8), (32, 128, 130), (4, 11, 6), (2, 3, 1 << 15)], ids=str)
def test_real_numbers_along_several_axes(shape, axes):
    x = rng.standard_normal(shape).astype("float32")
    half = scipy.fft.rfftn(x.astype("float64"), axes=axes)
    agree(fourier.rfft(x, axes=axes, scale=0), half, (shape, axes))
    n, given = shape[axes[-1]], half.astype("complex64")
    sizes = [shape[a] for a in axes]
    for z in (given, given.real.copy()):
        wide = z.astype(np.result_type(z, "float64"))
        for scale, norm in ((-1, "backward"), (-0.5, "ortho")):
            want = scipy.fft.irfftn(wide, sizes, axes=axes, norm=norm)
            agree(fourier.irfft(z, axes=axes, n=n, scale=scale), want, (shape, axes, z.dtype))
