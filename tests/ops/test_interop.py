"""``fx.tensor``, ``fx.asarray``, NumPy, DLPack, Python's numbers, pickle and copy."""

import importlib
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import fx
from fx.errors import (
    BackwardError,
    BatchedValueError,
    DeviceError,
    DTypeError,
    ShapeError,
)
from fx.tensor import Tensor

torch = pytest.importorskip("torch")

DTYPES = [d.name for d in fx.dtypes.ALL]


def leaf(*values):
    return fx.tensor(list(values), requires_grad=True)


def requires_grad(x):
    return "requires_grad=True" in repr(x)


def test_the_function_and_the_module_of_one_name():
    from fx.tensor import Tensor as again

    assert again is Tensor is fx.Tensor is sys.modules["fx.tensor"].Tensor
    importlib.import_module("fx.tensor")
    assert fx.tensor(1.0).item() == 1.0


# fx.tensor --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        1,
        2.5,
        True,
        1 + 2j,
        [],
        [1, 2],
        [1, 2.5],
        [True, 2],
        [True, False],
        [[1], [2]],
        [[], []],
        ((1, 2), [3, 4]),
        [1, 2j],
        [[[0.5]]],
        np.float64(1.5),
        np.int32(4),
        np.arange(3.0),
        np.arange(3, dtype=np.int16),
        [np.float64(1.5), 2.0],
        [np.float32(1), np.float32(2)],
    ],
    ids=repr,
)
def test_dtypes_and_values_as_torch(data):
    expected = torch.tensor(data)
    got = fx.tensor(data)
    assert got.dtype.name == str(expected.dtype).removeprefix("torch.")
    assert got.shape == tuple(expected.shape)
    assert got.tolist() == expected.tolist()


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_is_made_from_lists_and_arrays(dtype):
    for data in ([0, 1, 1], np.array([0, 1, 1]), fx.tensor([0, 1, 1])):
        got = fx.tensor(data, dtype=dtype)
        assert got.dtype.name == dtype
        assert got.tolist() == [0, 1, 1]


def test_it_copies():
    array = np.zeros(2, np.float32)
    x = fx.tensor(array)
    y = fx.tensor(fx.from_numpy(array))
    array[0] = 1
    assert x.tolist() == y.tolist() == [0, 0]


def test_it_detaches_and_says_so():
    x = leaf(1.0)
    with pytest.warns(UserWarning, match="no gradient flows through it: write fx.asarray") as seen:
        assert not requires_grad(fx.tensor(x))
    assert seen[0].filename == __file__
    with pytest.warns(UserWarning, match="write fx.asarray"):
        (gradient,) = fx.vjp(lambda x: fx.tensor([x, x]) * x, fx.tensor(3.0))[1](fx.ones(2))
    assert gradient.item() == 6.0


def test_lists_of_tensors_are_stacked():
    x = fx.ones(2)
    assert fx.tensor([x, x * 2]).tolist() == [[1, 1], [2, 2]]
    assert fx.tensor([x[0], 3]).tolist() == [1, 3]
    assert fx.tensor([[x[0], 1.5], [2, x[1]]]).tolist() == [[1, 1.5], [2, 1]]
    assert fx.asarray([fx.tensor(1), 2.5]).dtype == fx.float32
    assert fx.asarray([fx.tensor(1, dtype=fx.int8), fx.tensor(1, dtype=fx.int32)]).dtype == fx.int32
    got = fx.vmap(lambda x: fx.tensor([x, 0.0]))(fx.tensor([1.0, 2.0]))
    assert got.tolist() == [[1, 0], [2, 0]]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([[1, 2], [3]], r"ragged: data\[0\] is 2 long, data\[1\] is 1 long.*row \+ \[0\]"),
        ([1, [2]], r"data\[0\] is a number, data\[1\] is 1 long"),
        ([[[1], [2, 3]]], r"data\[0\]\[0\] is 1 long, data\[0\]\[1\] is 2 long"),
        ([np.ones(2), np.ones(3)], r"data\[0\] is 2 long, data\[1\] is 3 long"),
        ([fx.ones(2), fx.ones(3)], r"data\[0\] has shape \(2,\) and data\[1\] has shape \(3,\)"),
    ],
    ids=["rows", "number", "deep", "arrays", "tensors"],
)
def test_ragged_lists(data, words):
    with pytest.raises(ShapeError, match=f"tensor: .*{words}"):
        fx.tensor(data)


@pytest.mark.parametrize(
    ("data", "dtype", "words"),
    [
        ("abc", None, "cannot make a tensor of str 'abc'; expected numbers"),
        (["a"], None, "cannot make a tensor of list"),
        ([None], None, "cannot make a tensor of list"),
        ({"a": 1}, None, "cannot make a tensor of dict"),
        (np.array(["a"]), None, "cannot make a tensor of ndarray"),
        ([2**63], None, "integers that do not fit int64"),
        ([2**70], None, "integers that do not fit int64"),
        ([300], "uint8", r"\[300\] does not fit uint8"),
        (300, "uint8", "300 does not fit uint8"),
        ([float("nan")], "int64", "does not fit int64"),
        ([1j], "float32", "does not fit float32"),
        (1.0, "float31", "'float31' is not a dtype of fx"),
    ],
    ids=repr,
)
def test_what_is_no_tensor(data, dtype, words):
    with pytest.raises(DTypeError, match=words):
        fx.tensor(data, dtype=dtype)


def test_uint64_holds_what_int64_does_not():
    assert fx.tensor([2**63], dtype=fx.uint64).tolist() == [2**63]


def test_only_floating_and_complex_tensors_require_grad():
    with pytest.raises(
        DTypeError, match=r"tensor: only floating.*got int64; write dtype=fx.float32"
    ):
        fx.tensor([1], requires_grad=True)
    assert fx.tensor([1j], requires_grad=True).requires_grad


# fx.asarray, fx.from_numpy ----------------------------------------------------------------------


def test_asarray_keeps_tensors_and_their_history():
    x = leaf(1.0)
    assert fx.asarray(x) is x
    assert "ToCopy" in repr(fx.asarray(x, dtype=fx.float64))
    tangent = fx.jvp(lambda x: fx.asarray([x, x * x]), (fx.tensor(3.0),), (fx.tensor(1.0),))[1]
    assert tangent.tolist() == [1, 6]
    seen = []
    fx.vmap(lambda x: (seen.append(fx.asarray(x) is x), x)[1])(fx.ones(2))
    assert seen == [True]


def test_asarray_copy():
    array = np.zeros(2, np.float32)
    assert np.shares_memory(fx.asarray(array).numpy(), array)
    assert np.shares_memory(fx.asarray(array, copy=False).numpy(), array)
    assert not np.shares_memory(fx.asarray(array, copy=True).numpy(), array)
    x = fx.asarray(array)
    assert fx.asarray(x, copy=False) is x
    assert not np.shares_memory(fx.asarray(x, copy=True).numpy(), array)
    for obj, dtype in ((array, fx.float64), ([1.0], None), (1.0, None), (x, fx.int64)):
        with pytest.raises(ValueError, match="without a copy; leave copy=None"):
            fx.asarray(obj, dtype=dtype, copy=False)


def test_asarray_of_other_libraries():
    t = torch.arange(3.0)
    assert np.shares_memory(fx.asarray(t).numpy(), t.numpy())
    assert fx.asarray(torch.ones(2, dtype=torch.bfloat16)).dtype == fx.bfloat16
    jnp = pytest.importorskip("jax.numpy")
    assert fx.asarray(jnp.arange(3)).tolist() == [0, 1, 2]
    assert fx.tensor(jnp.ones(2, jnp.bfloat16)).dtype == fx.bfloat16
    assert fx.asarray(range(3)).tolist() == [0, 1, 2]
    assert fx.asarray(memoryview(b"ab")).tolist() == [97, 98]


@given(hnp.arrays(st.sampled_from(["f4", "f8", "i2", "b1", "c8"]), hnp.array_shapes(min_dims=0)))
def test_from_numpy_shares_memory(array):
    x = fx.from_numpy(array)
    assert x.dtype == array.dtype
    assert x.shape == array.shape
    assert np.shares_memory(x.numpy(), array)
    np.testing.assert_array_equal(x.numpy(), array)


class Subclass(np.ndarray):
    pass


def test_from_numpy_of_odd_arrays():
    assert fx.from_numpy(np.arange(3, dtype=">i4")).tolist() == [0, 1, 2]
    assert fx.from_numpy(np.arange(6)[::-2]).tolist() == [5, 3, 1]
    assert (fx.from_numpy(np.ones(1).view(Subclass)) + 1.0).tolist() == [2.0]
    frozen = np.arange(3.0)
    frozen.flags.writeable = False
    assert (fx.from_numpy(frozen) * 2).tolist() == [0, 2, 4]
    with pytest.raises(TypeError, match=r"takes a numpy.ndarray, got list; write fx.asarray"):
        fx.from_numpy([1])
    with pytest.raises(DTypeError, match="is not a dtype of fx"):
        fx.from_numpy(np.array(["a"]))


# out to NumPy -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_np_asarray_is_a_read_only_view(dtype):
    x = fx.ones(2, 3, dtype=dtype)
    for array in (np.asarray(x), x.numpy()):
        assert array.dtype == x.dtype
        assert array.shape == (2, 3)
        assert np.shares_memory(array, x.numpy())
        assert not array.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    assert np.array(x).flags.writeable
    assert not np.shares_memory(np.array(x), x.numpy())


def test_np_asarray_with_a_dtype():
    x = fx.ones(2)
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="without a copy"):
        np.asarray(x, dtype=np.float64, copy=False)
    np.testing.assert_allclose(np.sin(x), np.sin(np.ones(2)), rtol=1e-6)


def test_numpy_scalars_are_weak():
    x = fx.ones(2)
    assert (x * np.sqrt(2)).dtype == fx.float32
    assert (np.float64(2) * x).dtype == fx.float32
    assert (fx.ones(2, dtype=fx.int32) + np.int64(1)).dtype == fx.int32
    assert (x * np.ones(2)).dtype == fx.float64
    assert (np.ones(2) * x).dtype == fx.float64


def test_numpy_of_what_requires_grad():
    x = leaf(1.0)
    for take in (lambda x: x.numpy(), np.asarray, lambda x: (x * 2).numpy()):
        with pytest.raises(BackwardError, match=r"write x.detach\(\).numpy\(\)"):
            take(x)
    assert x.numpy(force=True).tolist() == [1.0]
    assert x.data.numpy().tolist() == [1.0]


def test_numpy_inside_transforms():
    with pytest.raises(BackwardError, match=r"inside grad would lose the derivative"):
        fx.grad(lambda x: fx.asarray(np.sin(x)))(fx.tensor(1.0))
    with pytest.raises(BackwardError, match=r"inside jvp would lose the derivative"):
        fx.jvp(lambda x: fx.asarray(x.numpy()), (fx.ones(2),), (fx.ones(2),))
    with pytest.raises(BatchedValueError, match="differs from lane to lane"):
        fx.vmap(lambda x: x.numpy())(fx.ones(2))
    assert fx.grad(lambda x: x * float(x.numpy(force=True)))(fx.tensor(3.0)).item() == 3.0


def test_meta_has_no_values():
    x = fx.ones(2, device="meta")
    for ask in (np.asarray, lambda x: x.tolist(), lambda x: x[0].item(), lambda x: bool(x[0])):
        with pytest.raises(DeviceError, match="has a shape and a dtype but no values"):
            ask(x)
    with pytest.raises(DeviceError, match="no values"):
        x.cpu()


# DLPack -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_dlpack_with_torch(dtype):
    x = fx.ones(2, 3, dtype=dtype)
    t = torch.from_dlpack(x)
    assert str(t.dtype).removeprefix("torch.") == dtype
    assert t.data_ptr() == x.data_ptr()
    assert t.tolist() == x.tolist()
    back = fx.from_dlpack(t)
    assert back.dtype == x.dtype
    assert back.data_ptr() == x.data_ptr()
    strided = fx.from_dlpack(t.T[1:])
    assert strided.shape == (2, 2)
    assert strided.tolist() == x.T[1:].tolist() if hasattr(x, "T") else True


def test_dlpack_with_numpy_is_read_only_and_shared():
    x = fx.ones(3)
    array = np.from_dlpack(x)
    assert np.shares_memory(array, x.numpy())
    assert not array.flags.writeable
    assert fx.from_dlpack(np.arange(3)).tolist() == [0, 1, 2]
    assert x.__dlpack_device__() == (1, 0)


class OldConsumer:
    """What asks for a capsule as libraries did before DLPack 1.0."""

    def __init__(self, x, **options):
        self.x, self.options = x, options

    def __dlpack__(self, **_):
        return self.x.__dlpack__(**self.options)

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()


@pytest.mark.parametrize("dtype", [fx.float32, fx.bfloat16])
def test_old_consumers_get_a_copy(dtype):
    x = fx.ones(3, dtype=dtype)
    t = torch.from_dlpack(OldConsumer(x))
    assert t.data_ptr() != x.data_ptr()
    t.fill_(5)
    assert x.tolist() == [1, 1, 1]
    with pytest.raises(BufferError, match=r"ask with max_version=\(1, 0\)"):
        x.__dlpack__(copy=False)


def test_dlpack_copies_on_request():
    x = fx.ones(3)
    assert torch.from_dlpack(x.numpy()).data_ptr() == x.data_ptr()
    array = np.from_dlpack(x, copy=True)
    assert not np.shares_memory(array, x.numpy())
    t = torch.ones(3)
    assert fx.from_dlpack(t, copy=True).data_ptr() != t.data_ptr()
    y = fx.from_dlpack(x)
    assert y is x


def test_dlpack_refuses():
    with pytest.raises(BackwardError, match=r"x.detach\(\)"):
        torch.from_dlpack(leaf(1.0))
    with pytest.raises(TypeError, match="takes an object with __dlpack__, got list"):
        fx.from_dlpack([1.0])
    with pytest.raises(BufferError, match="meta"):
        fx.ones(2, device="meta").__dlpack_device__()
