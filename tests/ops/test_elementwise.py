"""Elementwise functions against NumPy in every dtype, promotion, weak scalars, and the hot path."""

import sys

import ml_dtypes
import numpy as np
import pytest

import fx
from fx import dtypes
from fx.errors import DTypeError, ShapeError
from fx.ops.pointwise import elementwise

SHAPES = ((), (3,), (2, 0), (2, 3, 2))
REAL = (*dtypes.SIGNED, *dtypes.UNSIGNED, fx.float16, fx.bfloat16, fx.float32, fx.float64)
FLOATS = (fx.float16, fx.bfloat16, fx.float32, fx.float64)

# name: (NumPy's function, the interval of valid arguments)
FLOATING = {
    **{f.__name__: (f, (-2, 2)) for f in (np.exp, np.exp2, np.expm1, np.sin, np.cos, np.tan)},
    **{f.__name__: (f, (-2, 2)) for f in (np.sinh, np.cosh, np.tanh)},
    **{f.__name__: (f, (0.1, 3)) for f in (np.log, np.log2, np.log10, np.sqrt, np.reciprocal)},
    "atan": (np.atan, (-2, 2)), "asinh": (np.asinh, (-2, 2)),
    "log1p": (np.log1p, (-0.5, 2)), "asin": (np.asin, (-1, 1)), "acos": (np.acos, (-1, 1)),
    "acosh": (np.acosh, (1, 3)), "atanh": (np.atanh, (-0.9, 0.9)),
    "rsqrt": (lambda x: 1 / np.sqrt(x), (0.1, 3)),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), (-2, 2)),
}  # fmt: skip
ANY = {
    "abs": np.abs, "negative": np.negative, "square": np.square, "sign": np.sign, "ceil": np.ceil,
    "floor": np.floor, "trunc": np.trunc, "round": np.round, "positive": np.positive,
    "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "logical_not": np.logical_not,
    "signbit": np.signbit, "real": np.real, "conj": np.conj,
}  # fmt: skip
ARITHMETIC = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "maximum": np.maximum,
    "minimum": np.minimum, "floor_divide": np.floor_divide, "remainder": np.remainder,
    "fmod": np.fmod, "pow": np.power, "equal": np.equal, "not_equal": np.not_equal,
    "less": np.less, "less_equal": np.less_equal, "greater": np.greater,
    "greater_equal": np.greater_equal, "logical_and": np.logical_and, "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}  # fmt: skip
FLOAT_PAIRS = {
    "divide": np.divide, "atan2": np.arctan2, "hypot": np.hypot, "logaddexp": np.logaddexp,
    "copysign": np.copysign, "nextafter": np.nextafter,
}  # fmt: skip
BITS = {
    "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor,
    "bitwise_left_shift": np.left_shift, "bitwise_right_shift": np.right_shift,
}  # fmt: skip


def draw(shape, dtype, low=-2.0, high=2.0, seed=0):
    source = np.random.default_rng(seed)
    if dtype.kind in "iu":
        return source.integers(max(int(low), -5 if dtype.kind == "i" else 0), 6, shape).astype(
            dtype
        )
    return source.uniform(low, high, shape).astype(dtype)


def wide(array):
    return array.astype(np.float64) if array.dtype in dtypes.FLOATING else array


def same(got, want, dtype, exact=False):
    """Within a rounding or two of the result dtype."""
    assert got.dtype == dtype and got.shape == want.shape
    eps = 0.0 if exact or dtype not in dtypes.FLOATING else 4 * float(ml_dtypes.finfo(dtype).eps)
    np.testing.assert_allclose(wide(got.numpy()), wide(want), rtol=eps, atol=eps)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", FLOATING)
def test_floating_functions(name, dtype):
    function, (low, high) = FLOATING[name]
    for shape in SHAPES:
        x = draw(shape, dtype, low, high)
        same(getattr(fx, name)(fx.asarray(x)), np.asarray(function(wide(x))), dtype)


@pytest.mark.parametrize("name", FLOATING)
def test_integers_become_the_default_float(name):
    x = np.asarray([1, 1])
    with np.errstate(divide="ignore"):
        want = np.asarray(FLOATING[name][0](x.astype(np.float64)))
        same(getattr(fx, name)(fx.asarray(x)), want, fx.float32)
        same(getattr(fx, name)(fx.asarray(x != 0)), want, fx.float32)


@pytest.mark.parametrize("dtype", REAL, ids=str)
@pytest.mark.parametrize("name", ANY)
def test_functions_that_keep_the_dtype(name, dtype):
    for shape in SHAPES:
        x = draw(shape, dtype)
        want = np.asarray(ANY[name](x))
        same(getattr(fx, name)(fx.asarray(x)), want, want.dtype, exact=True)


@pytest.mark.parametrize("dtype", REAL, ids=str)
@pytest.mark.parametrize("name", ARITHMETIC)
def test_two_operands(name, dtype):
    for a, b in (((3,), ()), ((2, 1), (3,)), ((2, 0), (1,)), ((), ())):
        low = 0.5 if name == "pow" else -2.0
        x, y = draw(a, dtype, low), draw(b, dtype, 1.0, seed=1)
        want = np.asarray(ARITHMETIC[name](wide(x), wide(y)))
        result = fx.bool if want.dtype == bool else dtype
        same(getattr(fx, name)(fx.asarray(x), fx.asarray(y)), want, result)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", FLOAT_PAIRS)
def test_two_floating_operands(name, dtype):
    x, y = draw((2, 1), dtype), draw((3,), dtype, 0.5, seed=1)
    want = FLOAT_PAIRS[name](*((x, y) if name == "nextafter" else (wide(x), wide(y))))
    same(getattr(fx, name)(fx.asarray(x), fx.asarray(y)), want, dtype)
    assert getattr(fx, name)(fx.asarray([1, 2]), fx.asarray([3, 4])).dtype == fx.float32


@pytest.mark.parametrize("dtype", (*dtypes.SIGNED, *dtypes.UNSIGNED), ids=str)
@pytest.mark.parametrize("name", BITS)
def test_bits(name, dtype):
    x, y = draw((2, 3), dtype, 0), draw((3,), dtype, 0, seed=1)
    same(getattr(fx, name)(fx.asarray(x), fx.asarray(y)), BITS[name](x, y), dtype)
    same(fx.bitwise_invert(fx.asarray(x)), np.invert(x), dtype)


@pytest.mark.parametrize("a", dtypes.ALL, ids=str)
def test_operands_are_promoted(a):
    for b in dtypes.ALL:
        x, y = fx.ones(2, dtype=a), fx.ones(2, dtype=b)
        try:
            want = dtypes.promote_types(a, b)
        except DTypeError:
            with pytest.raises(DTypeError, match="no common integer dtype"):
                fx.add(x, y)
            continue
        assert fx.add(x, y).dtype == (x + y).dtype == want
        assert fx.multiply(x, y).dtype == want
        assert fx.divide(x, y).dtype == dtypes.to_float(want)
        assert fx.equal(x, y).dtype == fx.bool
        assert fx.where(fx.asarray([True, False]), x, y).dtype == want
        assert fx.concat([x, y]).dtype == want


WIDE = dtypes.UNSIGNED[1:]  # which PyTorch does not promote


def theirs(torch, dtype):
    return getattr(torch, dtype.name)


@pytest.mark.peers
def test_the_table_of_dtypes_is_that_of_pytorch_and_of_numpys_integers():
    torch = pytest.importorskip("torch")
    for a in dtypes.ALL:
        for b in dtypes.ALL:
            if a in WIDE or b in WIDE:
                if a not in dtypes.INTEGRAL or b not in dtypes.INTEGRAL:
                    want = b if a in WIDE else a
                    want = (a if a in WIDE else b) if want == dtypes.bool_ else want
                elif np.promote_types(a, b).kind == "f":
                    with pytest.raises(DTypeError, match="no common integer dtype"):
                        dtypes.promote_types(a, b)
                    continue
                else:
                    want = dtypes.as_dtype(np.promote_types(a, b))
            else:
                found = torch.promote_types(theirs(torch, a), theirs(torch, b))
                want = dtypes.as_dtype(str(found).removeprefix("torch."))
            assert dtypes.promote_types(a, b) == want, (a, b)


@pytest.mark.peers
def test_weak_scalars_are_those_of_pytorch():
    torch = pytest.importorskip("torch")
    for dtype in [d for d in dtypes.ALL if d not in WIDE]:
        for scalar in (True, 2, 2.5, 1j):
            found = torch.result_type(torch.ones(1, dtype=theirs(torch, dtype)), scalar)
            name = str(found).removeprefix("torch.")
            want = fx.complex64 if name == "complex32" else dtypes.as_dtype(name)
            assert dtypes.result_dtype_with_scalar(dtype, scalar) == want, (dtype, scalar)


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
@pytest.mark.parametrize("scalar", (True, 2, 2.5, 1j), ids=str)
def test_scalars_are_weak(dtype, scalar):
    x = fx.ones(2, dtype=dtype)
    want = dtypes.result_dtype_with_scalar(dtype, scalar)
    for got in (
        fx.multiply(x, scalar), fx.multiply(scalar, x), x * scalar, scalar * x,
        fx.where(fx.asarray([True, False]), x, scalar), fx.concat([x, fx.asarray(x)]) * scalar,
    ):  # fmt: skip
        assert got.dtype == want
    if not isinstance(scalar, complex):
        assert (
            fx.multiply(x, np.float64(scalar) if isinstance(scalar, float) else scalar).dtype
            == want
        )


def test_two_scalars():
    assert fx.add(1, 2).dtype == fx.int64
    assert fx.add(1, 2.0).dtype == fx.float32
    assert fx.where(fx.asarray(True), 1, 2.5).dtype == fx.float32


def test_complex_parts():
    z = np.asarray([1 + 2j, -3 - 0.5j, complex(np.inf, 1)])
    x = fx.asarray(z)
    np.testing.assert_array_equal(fx.real(x).numpy(), z.real)
    np.testing.assert_array_equal(fx.imag(x).numpy(), z.imag)
    np.testing.assert_array_equal(fx.conj(x).numpy(), z.conj())
    np.testing.assert_array_equal(x.real.numpy(), z.real)
    np.testing.assert_array_equal(x[None, :2].mH.numpy(), z[None, :2].conj().T)
    assert fx.imag(fx.ones(2)).tolist() == [0, 0]


def test_derivatives_of_complex_parts():
    z = fx.asarray([1 + 2j, -3 - 0.5j])
    jax = pytest.importorskip("jax")
    jnp = jax.numpy
    for function in (
        lambda m, r, i: m.real((r + i * 1j) * (r + i * 1j)).sum(),
        lambda m, r, i: (m.imag(r + i * 1j) * m.imag(r * r + i * 1j)).sum(),
        lambda m, r, i: m.real(m.conj(r + i * 1j) * (i + r * 1j)).sum(),
        lambda m, r, i: m.imag(m.conj(r + i * 1j) * (r * i * 1j)).sum(),
    ):
        parts = (z.real, z.imag)
        got = fx.grad(lambda r, i, f=function: f(fx, r, i), (0, 1))(*parts)
        want = jax.grad(lambda r, i, f=function: f(jnp, r, i), (0, 1))(
            *[jnp.asarray(p.numpy()) for p in parts]
        )
        for g, w in zip(got, want, strict=True):
            np.testing.assert_allclose(g.numpy(), np.asarray(w), rtol=1e-6)


def python_calls(function, *args):
    """How many Python functions run."""
    count = 0

    def profile(frame, event, argument):
        nonlocal count
        count += event == "call"

    sys.setprofile(profile)
    try:
        function(*args)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("name", ("tanh", "exp", "abs", "isnan"))
def test_a_function_is_one_call_above_its_primitive(name):
    x = fx.ones((2, 2))
    assert python_calls(getattr(fx, name), x) == 2


@pytest.mark.parametrize("name", ("add", "multiply", "maximum", "equal", "divide"))
def test_two_operands_take_the_path_of_the_operator(name):
    x = fx.ones((2, 2))
    assert python_calls(getattr(fx, name), x, x) <= 2
    assert python_calls(fx.add, x, x) == 1


def test_every_function_says_what_it_does():
    for name in elementwise.__all__:
        assert "Example" in (getattr(fx, name).__doc__ or ""), name


@pytest.mark.parametrize("name", ("exp", "abs", "real", "round"))
def test_a_list_is_refused(name):
    with pytest.raises(DTypeError, match=rf"{name} takes tensors, got list; write fx.asarray"):
        getattr(fx, name)([1.0])


def test_errors_name_the_function():
    with pytest.raises(DTypeError, match="add takes tensors, got list"):
        fx.add(fx.ones(2), [1.0, 2.0])
    with pytest.raises(ShapeError, match=r"maximum: shapes \(2,\) and \(3,\) do not broadcast"):
        fx.maximum(fx.ones(2), fx.ones(3))
    with pytest.raises(DTypeError, match="bitwise_and"):
        fx.bitwise_and(fx.ones(2), fx.ones(2))


def test_arrays_and_scalars_are_taken():
    assert fx.exp(0.0).item() == 1.0
    assert fx.add(np.ones(2, np.float32), 1).dtype == fx.float32
    assert fx.add(fx.ones(2), np.ones(2)).dtype == fx.float64
