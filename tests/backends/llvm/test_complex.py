"""Complex numbers in compiled code: every primitive that takes them, special values, fusion."""

import random

import numpy as np
import pytest
import torch

import fx
from fx.backends.cpu.llvm.driver import compile_graph
from fx.compiler import pair_functions
from fx.primitive import registry
from fx.testing.case import draw, in_complex
from fx.testing.compiled import compiled_in
from fx.testing.laws import all_primitives
from tests.thorough import THOROUGH

rng = np.random.default_rng(4)
SPECIAL = (0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan)
GRID = np.array([complex(a, b) for a in SPECIAL for b in SPECIAL])
DTYPES = ("complex64", "complex128")
TAKING = [name for name, one in sorted(all_primitives().items())
          if in_complex(one, draw(one, random.Random(0))) is not None]  # fmt: skip


@pytest.mark.parametrize("name", TAKING)
def test_compiled_is_the_kernel(name):
    """Of two samples, each in a dtype of its own; thorough, in both."""
    for seed in range(2):
        sample = in_complex(registry[name], draw(registry[name], random.Random(seed)))
        if sample is None:  # a mode that complex numbers do not have
            continue
        turn = (seed + TAKING.index(name)) % 2
        for dtype in DTYPES if THOROUGH else DTYPES[turn : turn + 1]:
            compiled_in(registry[name], sample, np.dtype(dtype))


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


def same(got, want):
    """Equal parts, NaN for NaN, zeros with their signs."""
    for part in (np.real, np.imag):
        x, y = part(got), part(want)
        np.testing.assert_array_equal(x, y)
        np.testing.assert_array_equal(np.signbit(x[x == 0]), np.signbit(y[y == 0]))


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "equal", "not_equal"])
@pytest.mark.filterwarnings("ignore:invalid value", "ignore:divide by zero")
def test_special_values_of_two(name, dtype):
    x, y = [a.astype(dtype) for a in np.meshgrid(GRID, GRID)]
    got = native2(getattr(fx, name), fx.asarray(x), fx.asarray(y))
    same(got, getattr(fx, name)(fx.asarray(x), fx.asarray(y)).numpy())
    # PyTorch's sums are of x and 1 * y, its quotients are scaled: NaN stand elsewhere
    like = {"multiply": torch.mul, "equal": torch.eq, "not_equal": torch.ne}
    if name in like:
        want = like[name](torch.from_numpy(x), torch.from_numpy(y)).numpy()
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize(
    "name",
    ["reciprocal", "negative", "conj", "square", "isnan", "isinf", "isfinite", "logical_not"],
)
@pytest.mark.filterwarnings("ignore:invalid value", "ignore:divide by zero")
def test_special_values_of_one(name, dtype):
    x = fx.asarray(GRID.astype(dtype))
    same(native(getattr(fx, name), x), getattr(fx, name)(x).numpy())


FUNCTIONS = pair_functions.NAMES


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.filterwarnings("ignore:invalid value", "ignore:divide by zero", "ignore:overflow")
def test_special_values_of_functions(name, dtype):
    large = np.finfo(dtype).max / 2
    x = np.concatenate([GRID, [large + 1j, 1j * large, large * (1 + 1j), 89 + 1j, 1j - 89]])
    x = fx.asarray(x.astype(dtype))
    got, want = native(getattr(fx, name), x), getattr(fx, name)(x).numpy()
    if name == "sign":  # NumPy takes |z| for infinite where it is beyond the largest number
        got, want = np.delete(got, len(GRID) + 2), np.delete(want, len(GRID) + 2)
    for part in (np.real, np.imag):
        x, y = part(got), part(want)
        open_ = np.isnan(want) & np.isinf(y)  # C99 leaves the sign of infinity beside NaN open
        x, y = np.where(open_, abs(x), x), np.where(open_, abs(y), y)
        np.testing.assert_allclose(x, y, rtol=32 * np.finfo(dtype).eps)


def points():
    """Complex numbers of all sizes, near the unit circle, and near the axes."""
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((2, 4000))
    wide = [np.sign(c) * 10 ** rng.uniform(-6, 1.9, 4000) for c in (a, b)]
    near = np.exp(1j * np.pi * a) * (1 + 10 ** rng.uniform(-7, -1, 4000) * np.sign(b))
    axes = [a + 1e-7j * b, 1e-7 * a + 1j * b]
    return np.concatenate([a + 1j * b, wide[0] + 1j * wide[1], near, *axes])


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.filterwarnings("ignore:overflow")
def test_functions_are_exact_to_a_few_units(name):
    f, x = getattr(fx, name), points().astype("complex64")
    want = f(fx.asarray(x.astype("complex128"))).numpy()
    there = (abs(want) < 1e37) & (abs(want) > 1e-37)
    error = abs(native(f, fx.asarray(x)) - want)[there] / abs(want)[there]
    units = 40 if name == "exp2" else 3  # what it turns by, up to 55, is rounded first: 32 units
    assert error.max() < units * np.finfo("float32").eps
    x = points()
    got, want = native(f, fx.asarray(x)), f(fx.asarray(x)).numpy()
    there = np.isfinite(want)
    assert (abs(got - want)[there] / abs(want)[there]).max() < 2 * units * np.finfo("float64").eps


@pytest.mark.parametrize(("rows", "columns"), [(5, 7), (64, 33)])
def test_a_network_of_complex_numbers_is_one_native_call(rows, columns):
    x, w = numbers((rows, 20), "complex64"), numbers((20, columns), "complex64")

    def loss(x, w):
        return fx.mean(fx.abs(fx.tanh(x @ fx.conj(w))) ** 2)

    step = fx.grad(loss, argnums=(0, 1))
    program = compile_graph(fx.make_graph(step)(fx.asarray(x), fx.asarray(w)))
    assert "python:" not in program.schedule
    for got, want in zip(
        fx.jit(step)(fx.asarray(x), fx.asarray(w)), step(fx.asarray(x), fx.asarray(w)), strict=True
    ):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-4, atol=1e-6)


def native2(f, x, y):
    """``native`` of two arguments."""
    program = compile_graph(fx.make_graph(f)(x, y))
    assert "python:" not in program.schedule
    return fx.jit(f)(x, y).numpy()


def test_arithmetic_is_one_loop():
    z, w = [fx.asarray(numbers((40, 33), "complex64")) for _ in range(2)]

    def step(z, w):
        y = fx.where(fx.abs(z) < 2, z * z + w, z / w)
        return y, fx.real(y * fx.conj(y)).sum(axis=1)

    program = compile_graph(fx.make_graph(step)(z, w))
    assert program.schedule.startswith("schedule: 1 steps")
    for got, want in zip(fx.jit(step)(z, w), step(z, w)):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-5, atol=1e-5)


def test_a_product_by_the_conjugate_is_real():
    z = fx.asarray(numbers((1000,), "complex64"))
    assert not fx.jit(lambda z: z * fx.conj(z))(z).numpy().imag.any()


def test_a_spectrogram_is_one_native_call():
    x = fx.asarray(rng.standard_normal((2, 4000)).astype("float32"))
    window, mel = fx.signal.windows.hann(256, sym=False), fx.ones((20, 129))

    def f(x):
        spectra = fx.signal.stft(x, 256, 64, window=window, return_complex=True)
        return mel @ fx.log(fx.abs(spectra) ** 2 + 1e-6)

    np.testing.assert_allclose(native(f, x), f(x).numpy(), rtol=1e-5, atol=1e-3)
