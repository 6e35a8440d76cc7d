"""Creation functions against NumPy and PyTorch, on the CPU and on meta."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fx
from fx.errors import DeviceError, DTypeError, ShapeError

torch = pytest.importorskip("torch")


many = settings(max_examples=200)


def same(got, expected, dtype=None):
    expected = np.asarray(expected)
    assert got.shape == expected.shape
    assert got.dtype == (expected.dtype if dtype is None else dtype)
    np.testing.assert_array_equal(got.numpy(), expected)


# zeros, ones, full ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["zeros", "ones", "empty"])
@pytest.mark.parametrize(
    ("args", "options", "shape"),
    [
        ((), {}, ()),
        ((3,), {}, (3,)),
        ((2, 3), {}, (2, 3)),
        (((2, 3),), {}, (2, 3)),
        (([2, 3],), {}, (2, 3)),
        ((np.int64(2), np.int32(3)), {}, (2, 3)),
        ((), {"shape": (2, 3)}, (2, 3)),
        ((), {"shape": 2}, (2,)),
        ((2, 0), {"dtype": "int8"}, (2, 0)),
    ],
    ids=str,
)
def test_shapes_in_every_form(name, args, options, shape):
    got = getattr(fx, name)(*args, **options)
    dtype = options.get("dtype", "float32")
    same(got, getattr(np, "zeros" if name == "empty" else name)(shape, dtype))


def test_sizes_that_are_none():
    with pytest.raises(ShapeError, match=r"zeros: sizes must not be negative, got \(2, -1\)"):
        fx.zeros(2, -1)
    with pytest.raises(DTypeError, match=r"ones: sizes must be integers, got \(2.5,\)"):
        fx.ones(2.5)


@pytest.mark.parametrize("value", [7, 2.5, True, 1 + 2j], ids=str)
def test_full_takes_the_dtype_of_its_value(value):
    expected = torch.full((2, 3), value)
    same(fx.full((2, 3), value), expected.numpy())
    same(fx.full(2, value), expected.numpy()[0, :2])


def test_full_of_minus_zero():
    assert torch.signbit(torch.full((2,), -0.0)).all()
    assert np.signbit(np.asarray(fx.full((2,), -0.0))).all()


def test_full_of_what_does_not_fit():
    with pytest.raises(DTypeError, match="full: 300 does not fit uint8"):
        fx.full((2,), 300, dtype=fx.uint8)
    with pytest.raises(DTypeError, match="does not fit int64"):
        fx.full((2,), float("nan"), dtype=fx.int64)
    with pytest.raises(ShapeError, match=r"one number, got shape \(2,\).*broadcast_to"):
        fx.full((3,), fx.ones(2))


def test_gradients_flow_through_the_value_of_full():
    tangent = fx.jvp(lambda v: fx.full((3,), v), (fx.tensor(2.0),), (fx.tensor(5.0),))[1]
    same(tangent, np.full(3, 5.0, np.float32))


@pytest.mark.parametrize("name", ["zeros_like", "ones_like", "full_like", "empty_like"])
def test_like(name):
    args = (7,) if name == "full_like" else ()
    x = np.arange(6, dtype=np.int16).reshape(2, 3)
    expected = getattr(np, "zeros_like" if name == "empty_like" else name)(x, *args)
    same(getattr(fx, name)(fx.from_numpy(x), *args), expected)
    same(getattr(fx, name)(x, *args), expected)
    other = getattr(fx, name)(fx.from_numpy(x), *args, dtype=fx.float64, requires_grad=True)
    assert other.dtype == fx.float64
    assert repr(other).endswith("requires_grad=True)")


def test_like_inside_vmap_has_the_shape_of_a_lane():
    shapes = []
    fx.vmap(lambda x: (shapes.append(fx.zeros_like(x).shape), x)[1])(fx.ones(4, 3))
    assert shapes == [(3,)]


# ranges -----------------------------------------------------------------------------------------


@many
@given(st.integers(-20, 20), st.integers(-20, 20), st.integers(-5, 5).filter(bool))
def test_arange_of_integers(start, stop, step):
    same(fx.arange(start, stop, step), np.arange(start, stop, step))
    same(fx.arange(stop), np.arange(stop))


@many
@given(st.floats(-5, 5), st.floats(-5, 5), st.floats(0.1, 2) | st.floats(-2, -0.1))
def test_arange_of_floats(start, stop, step):
    got = fx.arange(start, stop, step, dtype=fx.float64).numpy()
    expected = np.arange(start, stop, step)  # which rounds the step first
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)
    if (stop - start) * step > 0:
        expected = torch.arange(start, stop, step, dtype=torch.float64).numpy()
        np.testing.assert_allclose(got, expected, rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize(
    "args", [(5,), (5.0,), (1, 4), (0.5, 3), (10, 0, -3), (0, 1, 0.1), (2**40, 2**40 + 3)]
)
@pytest.mark.parametrize("dtype", [None, "float32", "float64", "int32", "bfloat16"])
def test_arange_as_torch(args, dtype):
    if dtype == "int32" and args[0] > 2**31:
        return
    wanted = None if dtype is None else getattr(torch, dtype)
    expected = torch.arange(*args, dtype=wanted)
    got = fx.arange(*args, dtype=dtype)
    assert got.dtype.name == str(expected.dtype).removeprefix("torch.")
    np.testing.assert_array_equal(got.double().numpy(), expected.double().numpy())


@pytest.mark.parametrize("args", [(-1.5, 1.5), (0.7, 5.0, 1.5), (2, 7.5, 2.9), (0, 3, 0.5)])
@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
def test_an_arange_of_integers_from_floats_as_torch_also_in_jit(args, dtype):
    if args[0] < 0 and dtype == "uint8":
        return  # which PyTorch leaves undefined
    make = lambda start: fx.arange(start, *args[1:], dtype=dtype)
    try:
        expected = torch.arange(*args, dtype=getattr(torch, dtype)).numpy()
    except (ValueError, RuntimeError):
        for f in (make, fx.jit(make)):
            with pytest.raises(ValueError, match="the step must not be 0"):
                f(args[0])
        return
    same(make(args[0]), expected)
    same(fx.jit(make)(args[0]), expected)


@pytest.mark.parametrize(
    "args", [(2**63, 2**63 + 3), (2**62, 2**64, 2**62), (-(2**63) - 1, 0, 2**60)]
)
def test_numbers_beyond_int64_are_refused_also_in_jit(args):
    make = lambda start: fx.arange(start, *args[1:])
    for f in (make, fx.jit(make)):
        with pytest.raises(DTypeError, match="does not fit int64; choose another dtype"):
            f(args[0])
    last = fx.jit(lambda n: fx.arange(n, n + 3))(2**63 - 3)
    same(last, np.arange(2**63 - 3, 2**63, dtype=np.int64))


def test_a_step_of_zero():
    with pytest.raises(ValueError, match=r"arange\(1, 2, 0\): the step must not be 0"):
        fx.arange(1, 2, 0)


@many
@given(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3), st.integers(0, 30), st.booleans())
def test_linspace(start, stop, num, endpoint):
    got = fx.linspace(start, stop, num, endpoint=endpoint, dtype=fx.float64).numpy()
    expected = np.linspace(start, stop, num, endpoint=endpoint)
    np.testing.assert_allclose(got, expected, rtol=1e-13, atol=1e-12)
    if endpoint and num > 1:
        assert (got[0], got[-1]) == (start, stop)


def test_linspace_as_torch():
    for num in (0, 1, 2, 7, 100):
        got, expected = fx.linspace(-1, 1.5, num), torch.linspace(-1, 1.5, num)
        np.testing.assert_allclose(got.numpy(), expected.numpy(), atol=1e-7)
        assert got.dtype == fx.float32
    same(fx.linspace(0, 1j, 3), np.linspace(0, 1j, 3).astype(np.complex64))
    assert fx.linspace(0, 1).shape == (100,)


def test_gradients_flow_through_the_ends_of_linspace():
    tangent = fx.jvp(lambda a: fx.linspace(a, 2.0, 5), (fx.tensor(0.0),), (fx.tensor(1.0),))[1]
    np.testing.assert_allclose(tangent.numpy(), np.linspace(1, 0, 5), atol=1e-7)


def test_logspace():
    got = fx.logspace(-2, 3, 11, base=2.0).numpy()
    np.testing.assert_allclose(got, np.logspace(-2, 3, 11, base=2.0), rtol=1e-6)
    got = fx.logspace(0, 3, 4, dtype=fx.int64)
    same(got, np.array([1, 10, 100, 1000]))


# patterns ---------------------------------------------------------------------------------------


@many
@given(st.integers(0, 5), st.integers(0, 5), st.integers(-6, 6))
def test_eye_and_tri(n, m, k):
    same(fx.eye(n, m, k=k), np.eye(n, m, k, dtype=np.float32))
    same(fx.eye(n, k=k, dtype=fx.int64), np.eye(n, k=k, dtype=np.int64))
    same(fx.tri(n, m, k), np.tri(n, m, k, dtype=np.float32))


@many
@given(st.integers(0, 4), st.integers(0, 4), st.integers(-5, 5))
def test_triangles_and_diagonals(n, m, k):
    array = np.arange(2.0 * n * m).reshape(2, n, m)
    x = fx.from_numpy(array)
    same(fx.tril(x, k=k), np.tril(array, k))
    same(fx.triu(x, k=k), np.triu(array, k))
    same(fx.diag(x[0], k), np.diag(array[0], k))
    vector = np.arange(float(n)) + 1
    same(fx.diag(fx.from_numpy(vector), k), np.diag(vector, k))


def test_the_gradient_of_a_triangle_is_the_triangle():
    x = fx.from_numpy(np.full((3, 3), np.inf, np.float32))
    (gradient,) = fx.vjp(fx.tril, x)[1](fx.ones(3, 3))
    same(gradient, np.tril(np.ones((3, 3), np.float32)))


def test_patterns_want_matrices():
    with pytest.raises(ShapeError, match=r"tril takes matrices, got shape \(3,\)"):
        fx.tril(fx.ones(3))
    with pytest.raises(ShapeError, match=r"diag takes a vector or a matrix, got shape \(1, 1, 1\)"):
        fx.diag(fx.ones(1, 1, 1))
    with pytest.raises(ShapeError, match=r"eye: sizes must not be negative, got \(-1, 2\)"):
        fx.eye(-1, 2)


@pytest.mark.parametrize("indexing", ["xy", "ij"])
@pytest.mark.parametrize("sizes", [(), (3,), (3, 2), (3, 2, 4)])
def test_meshgrid(indexing, sizes):
    vectors = [np.arange(float(n)) for n in sizes]
    got = fx.meshgrid(*map(fx.from_numpy, vectors), indexing=indexing)
    for a, b in zip(got, np.meshgrid(*vectors, indexing=indexing), strict=True):
        same(a, b)


def test_meshgrid_errors():
    with pytest.raises(ValueError, match="indexing must be 'xy' or 'ij', got 'yx'"):
        fx.meshgrid(fx.ones(2), indexing="yx")
    with pytest.raises(ShapeError, match=r"meshgrid takes vectors, got shape \(2, 2\)"):
        fx.meshgrid(fx.ones(2, 2))


# everywhere -------------------------------------------------------------------------------------

MAKERS = {
    "zeros": lambda **o: fx.zeros(2, 3, **o),
    "ones": lambda **o: fx.ones(2, 3, **o),
    "empty": lambda **o: fx.empty(2, 3, **o),
    "full": lambda **o: fx.full((2, 3), 1.5, **o),
    "arange": lambda **o: fx.arange(4.0, **o),
    "linspace": lambda **o: fx.linspace(0, 1, 5, **o),
    "logspace": lambda **o: fx.logspace(0, 1, 5, **o),
    "eye": lambda **o: fx.eye(3, **o),
    "tri": lambda **o: fx.tri(3, **o),
    "tensor": lambda **o: fx.tensor([1.0, 2.0], **o),
}


@pytest.mark.parametrize("name", MAKERS)
def test_every_maker_takes_dtype_device_and_requires_grad(name):
    make = MAKERS[name]
    assert make().dtype == fx.float32
    assert make(dtype=fx.float64).dtype == fx.float64
    shape = make().shape
    for on_meta in (make(device="meta"), _inside("meta", make)):
        assert on_meta.device == "meta"
        assert on_meta.shape == shape
    assert repr(make(requires_grad=True)).endswith("requires_grad=True)")
    with pytest.raises(
        DTypeError, match="only floating and complex tensors can require grad, got int64"
    ):
        make(dtype=fx.int64, requires_grad=True)
    with pytest.raises(DeviceError, match="there is no device 'tpu'"):
        make(device="tpu")
    with pytest.raises(DTypeError, match="'float31' is not a dtype"):
        make(dtype="float31")


def _inside(device, make):
    with fx.device(device):
        return make()


def test_the_default_dtype():
    fx.set_default_dtype(fx.float64)
    try:
        for name, make in MAKERS.items():
            assert make().dtype == fx.float64, name
        assert fx.full((2,), 1j).dtype == fx.complex128
    finally:
        fx.set_default_dtype(fx.float32)


def test_a_leaf_of_a_shared_constant_is_its_own():
    first = fx.tensor(2.0, requires_grad=True)
    assert repr(fx.tensor(2.0)) == repr(fx.asarray(2.0)) == "tensor(2.)"
    assert repr(first) == "tensor(2., requires_grad=True)"


# eval_shape -------------------------------------------------------------------------------------


def test_eval_shape_costs_no_memory():
    big = fx.TensorSpec((10**6, 10**6), fx.float32)
    got = fx.eval_shape(lambda x, n: [x[0] * n, {"y": x @ x, "z": fx.zeros(10**8, 10**3)}], big, 2)
    assert got[0] == fx.TensorSpec((10**6,), fx.float32)
    assert got[1] == {"y": big, "z": fx.TensorSpec((10**8, 10**3), fx.float32)}


def test_eval_shape_takes_tensors_arrays_and_keywords():
    got = fx.eval_shape(lambda x, *, y: x[0] + y, fx.ones(2, 3), y=np.ones(3))
    assert repr(got) == "float64[3]"


def test_eval_shape_checks():
    with pytest.raises(ShapeError, match="matmul"):
        fx.eval_shape(lambda x: x @ x, fx.ones(2, 3))


def test_eval_shape_inside_transforms():
    seen = []
    fx.vmap(lambda x: (seen.append(fx.eval_shape(lambda y: y[:2], x)), x)[1])(fx.ones(4, 3))
    assert repr(seen) == "[float32[2]]"
    got = fx.eval_shape(fx.grad(lambda x: (x * x)[0]), fx.ones(3))
    assert got == fx.TensorSpec((3,), fx.float32)


def test_eval_shape_of_a_function_that_looks_at_values():
    with pytest.raises(DeviceError, match="no values") as caught:
        fx.eval_shape(lambda x: x if x[0] > 0 else -x, fx.ones(2))
    assert "let no value decide" in caught.value.__notes__[0]


@pytest.mark.parametrize("num", [2, 3, 99, 100, 255, 256, 257, 513])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "complex64"])
def test_linspace_counts_from_both_ends(num, dtype):
    start, stop = (-3, 40) if dtype == "int64" else (-3.3, 7.1)
    step = (stop - start) / (num - 1)
    half = num // 2
    near = [start + step * i for i in range(half)]
    far = [stop - step * i for i in range(num - half)][::-1]
    expected = np.array([*near, *far]).astype(dtype)
    np.testing.assert_array_equal(fx.linspace(start, stop, num, dtype=dtype).numpy(), expected)
