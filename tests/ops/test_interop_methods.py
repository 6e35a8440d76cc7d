"""Tensor's own methods, the refusals of in-place use, and the Array API's namespace."""

import numpy as np
import pytest

import fx
from fx.errors import DeviceError, DTypeError, InPlaceError

torch = pytest.importorskip("torch")

DTYPES = [d.name for d in fx.dtypes.ALL]


def leaf(*values):
    return fx.tensor(list(values), requires_grad=True)


def requires_grad(x):
    return "requires_grad=True" in repr(x)


# methods ----------------------------------------------------------------------------------------


def test_to():
    x = fx.ones(2)
    assert x.to(fx.float64).dtype == fx.float64
    assert x.to("float64").dtype == fx.float64
    assert x.to(torch.ones(1).numpy().dtype) is x
    assert x.to("cpu") is x
    assert x.to("cpu", fx.int32, non_blocking=True).dtype == fx.int32
    assert x.to(device="meta", dtype=fx.int8).device == "meta"
    assert x.to(fx.ones(1, dtype=fx.int64)).dtype == fx.int64
    assert x.to(fx.float32, copy=True) is not x
    assert x.cpu() is x
    with pytest.raises(DeviceError, match="there is no device 'cuda'"):
        x.to("cuda")
    with pytest.raises(DTypeError, match="'float31' is not a dtype"):
        x.to("float31")
    with pytest.raises(TypeError, match=r"unexpected arguments \['colour'\]"):
        x.to(colour="red")


def test_casts_as_torch():
    x, t = fx.tensor([1.7, 0.0]), torch.tensor([1.7, 0.0])
    names = [
        "float",
        "double",
        "half",
        "bfloat16",
        "int",
        "long",
        "short",
        "char",
        "byte",
        "bool",
        "cfloat",
        "cdouble",
    ]
    for name in names:
        got, expected = getattr(x, name)(), getattr(t, name)()
        assert got.dtype.name == str(expected.dtype).removeprefix("torch.")
        assert got.tolist() == expected.tolist()
        assert got.type() == expected.type().replace("torch", "fx")
    assert x.float() is x
    assert x.type(fx.int32).dtype == fx.int32
    assert fx.astype(x, fx.float32) is not x
    assert x.astype(fx.float32, copy=False) is x


def test_what_a_tensor_says_of_itself():
    x, t = fx.ones(2, 3), torch.ones(2, 3)
    for name in [
        "dim",
        "ndimension",
        "numel",
        "nelement",
        "element_size",
        "is_floating_point",
        "is_complex",
        "stride",
    ]:
        assert getattr(x, name)() == getattr(t, name)(), name
    assert x.is_signed() and not x.byte().is_signed()
    assert (x.get_device(), x.is_cuda, x.is_meta) == (-1, False, False)
    y = fx.from_numpy(np.ones((3, 2)).T)
    assert not y.is_contiguous()
    assert y.contiguous().is_contiguous()
    assert x.contiguous() is x
    assert y.stride() == (1, 2)
    assert y.stride(1) == 2


def test_clone_lets_gradients_through():
    assert fx.grad(lambda x: x.clone() * x.copy())(fx.tensor(3.0)).item() == 6.0
    x = leaf(1.0)
    assert x.clone() is not x
    assert "grad_fn" in repr(x.clone())
    assert not requires_grad(x.data)


def test_new_tensors_like_another():
    x = fx.ones(2, dtype=fx.float64)
    assert x.new_zeros(3, 2).shape == (3, 2)
    assert x.new_ones((3,)).dtype == fx.float64
    assert x.new_full((2,), 7).tolist() == [7, 7]
    assert x.new_tensor([1, 2]).dtype == fx.float64
    assert x.new_empty(size=(1,), dtype=fx.int8).dtype == fx.int8
    assert fx.ones(2, device="meta").new_zeros(3).device == "meta"


# in place ---------------------------------------------------------------------------------------


def test_every_in_place_method_of_torch_is_refused_with_the_line():
    x = fx.ones(2)
    names = [n for n in dir(torch.Tensor) if n.endswith("_") and not n.startswith("_")]
    for name in names:
        if name in ("requires_grad_", "detach_"):
            continue
        with pytest.raises(InPlaceError, match="would change x, and tensors never change; write"):
            getattr(x, name)(1, 2)
    assert "add_" not in dir(x)
    assert "item" in dir(x)


def test_the_line_to_write():
    x = fx.ones(2, 3)
    with pytest.raises(InPlaceError, match=r"write x = x \+ y"):
        x.add_(1)
    with pytest.raises(InPlaceError, match=r"write x = x.clamp\(...\)"):
        x.clamp_(0, 1)
    with pytest.raises(InPlaceError, match=r"write x = x.at\[0, 1:\].set\(v\)"):
        x[0, 1:] = 5
    with pytest.raises(InPlaceError, match=r"write x = x.at\[::2, ...\].set\(v\)"):
        x[::2, ...] += 5
    with pytest.raises(InPlaceError, match=r"write x = x\[mask\]"):
        del x[0]
    with pytest.raises(InPlaceError, match=r"write x = v.detach\(\)"):
        x.data = x


def test_augmented_assignment_rebinds():
    x = y = fx.ones(2)
    x += 1
    x *= 3
    x -= y
    x /= 5
    assert x.tolist() == [1, 1]
    assert y.tolist() == [1, 1]


def test_unknown_attributes():
    with pytest.raises(AttributeError, match="'Tensor' object has no attribute 'toliste'"):
        fx.ones(2).toliste
    assert not hasattr(fx.ones(2), "__cuda_array_interface__")
    with pytest.raises(AttributeError):
        fx.ones(2).colour = "red"


# the Array API's namespace ----------------------------------------------------------------------


def test_namespace():
    x = fx.ones(2)
    assert x.__array_namespace__() is fx
    assert x.__array_namespace__(api_version="2024.12") is fx
    with pytest.raises(ValueError, match=r"version '1999.12'.*2024.12"):
        x.__array_namespace__(api_version="1999.12")
    info = fx.__array_namespace_info__()
    assert info.capabilities()["boolean indexing"]
    assert info.default_device() == fx.device("cpu")
    assert fx.device("cpu") in info.devices()
    assert info.default_dtypes()["real floating"] == fx.float32
    assert set(info.dtypes(kind="real floating")) == {"float32", "float64"}
    assert set(info.dtypes(kind=("bool", "unsigned integer"))) == {
        "bool", "uint8", "uint16", "uint32", "uint64"
    }  # fmt: skip
    assert (fx.e, fx.pi, fx.inf, fx.newaxis) == (np.e, np.pi, np.inf, None)
    assert fx.nan != fx.nan


@pytest.mark.parametrize("a", DTYPES)
def test_dtype_functions(a):
    t = torch.ones(1, dtype=getattr(torch, a))
    x = fx.ones(1, dtype=a)
    assert fx.isdtype(a, x.dtype)
    assert fx.isdtype(x.dtype, ("bool", "numeric"))
    if x.is_floating_point():
        ours, theirs = fx.finfo(x), torch.finfo(t.dtype)
        for name in ("bits", "eps", "max", "min", "smallest_normal", "tiny"):
            assert getattr(ours, name) == getattr(theirs, name), name
    elif fx.isdtype(x.dtype, "integral"):
        ours, theirs = fx.iinfo(a), torch.iinfo(t.dtype)
        assert (ours.bits, ours.max, ours.min) == (theirs.bits, theirs.max, theirs.min)
        with pytest.raises(DTypeError, match="finfo takes a floating dtype"):
            fx.finfo(a)
    assert fx.can_cast(x, a)
    assert fx.result_type(x, a, True) == x.dtype


def test_result_type_and_can_cast():
    assert fx.result_type(fx.int32, fx.float32, 1.0) == fx.float32
    assert fx.result_type(fx.int32, 1.0) == fx.float32
    assert fx.result_type(1, 2.0) == fx.float32
    assert fx.result_type(fx.uint8, fx.int8) == fx.int16
    assert not fx.can_cast(fx.uint64, fx.int64)
    with pytest.raises(ValueError, match="no kind 'floaty'"):
        fx.isdtype(fx.float32, "floaty")
