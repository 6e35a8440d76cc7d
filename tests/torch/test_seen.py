"""Dtypes and sizes as modules see them: PyTorch's where they import ``fx.torch``, else fx's."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import fx
import fx.torch as face
from fx.spec import TensorSpec
from fx.tensor import new_tensor

SHOWN = """
x.dtype; x.shape; x.size(); x.size(0); x.size(-1); f"{x.dtype} {x.shape}"; str(x.shape); [x.dtype]
x.shape.numel(); x.shape[1:]; x.shape[0]; x.shape + (1,); (1,) + x.shape; x.shape * 2; x.T.shape
x.dtype.is_floating_point; x.dtype.is_complex; x.dtype.itemsize; x.dtype.is_signed; x > 1
torch.int64; torch.long; torch.bool; torch.half; torch.uint8.is_signed; torch.complex64.is_complex
None == torch.float64; torch.float64 is None; torch.float32 == torch.float; torch.int == torch.long
isinstance(x.dtype, torch.dtype); isinstance(x.shape, torch.Size); x.dtype is torch.float32
{torch.float32: 1, torch.int64: 2}[i.dtype]; i.dtype in (torch.int8, torch.int64); x.shape == (2, 3)
{p.dtype for p in m.parameters()}; m.weight.shape; m.weight.data.shape; m.weight.grad.dtype
m.state_dict()["weight"].shape; next(m.buffers(), x).dtype; m.double().weight.dtype; m.weight.dtype
torch.get_default_dtype(); torch.result_type(x, i); torch.promote_types(torch.int8, torch.half)
torch.finfo(x.dtype).eps; torch.finfo(torch.half).max; torch.finfo(torch.half).dtype
torch.iinfo(torch.int8).max; torch.iinfo(torch.int16).dtype; torch.broadcast_shapes((2, 1), (3,))
x.double(); x.half().dtype; i.int(); x.to(torch.float64).shape; torch.zeros(x.shape).shape; x.type()
x.new_zeros(x.shape[1:]).dtype; x.view(*x.size()).shape; x.reshape(x.shape[1], -1).shape; w.shape
torch.zeros(0, 3); torch.empty(0, dtype=torch.int32); w.dtype; v.shape; v.dtype; w[0].shape
torch.ones(2, dtype=i.dtype); torch.ones_like(i, dtype=torch.float64); torch.tensor(1.5).shape
torch.tensor([1.5], dtype=torch.bfloat16).dtype; y.shape; y.dtype; y.grad_fn is None
pickle.loads(pickle.dumps([x.dtype, x.shape])); copy.deepcopy(x.dtype) is x.dtype
copy.copy(x.shape); copy.deepcopy(x.shape)
saved(torch, {"dtype": x.dtype, "shape": x.shape}); x.double().numpy().dtype; numpy.zeros(x.shape)
"""
EXPRESSIONS = [one.strip() for line in SHOWN.strip().split("\n") for one in line.split("; ")]
BEFORE = """
import copy, io, numpy, pickle
import {library} as torch

def saved(torch, value):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file)

x, i = torch.ones(2, 3), torch.arange(3)
m = torch.nn.Linear(3, 2)
m(x).sum().backward()
w = torch.zeros(2, 3)
v = w[0]
w += 1
y = torch.ones(2, 2, requires_grad=True) * 2
"""


def shown(library):
    space = {"__name__": f"script_of_{library}"}
    exec(compile(BEFORE.format(library=library), "script.py", "exec"), space)
    return {e: repr(eval(e, space)) for e in EXPRESSIONS}


@pytest.fixture(scope="module")
def both():
    return shown("torch"), shown("fx.torch")


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_a_script_sees_torchs(expression, both):
    theirs, ours = both
    assert ours[expression] == theirs[expression]


def test_a_functional_module_sees_fxs():
    """Also in a process that has imported fx.torch."""
    space = {"__name__": "functional"}
    exec("import fx\nx = fx.ones((2, 3))\ndef f(x): return x.dtype, x.shape, x.size()", space)
    for dtype, shape, size in (space["f"](space["x"]), space["f"](face.ones(2, 3))):
        assert dtype is fx.float32 and type(shape) is tuple and type(size) is tuple
    assert eval("repr(x.astype(fx.float64))", space).endswith("dtype=fx.float64)")
    space["t"] = face.float64  # a dtype that a script hands over
    assert eval("fx.ones(2, dtype=t).dtype == t and x.to(t).dtype is fx.float64", space)


def test_nothing_is_decided_where_fx_is_alone():
    code = (
        "import fx; from fx.tensor import Tensor; x = fx.ones((2, 3));"
        "assert Tensor.shape is Tensor._shape and Tensor.dtype is Tensor._dtype;"
        "assert type(x.size()) is tuple and 'fx.torch' not in __import__('sys').modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", [d.name for d in fx.dtypes.ALL])
def test_a_dtype_is_taken_wherever_fxs_is(name):
    seen, own = fx.seen.TORCH[fx.dtypes.as_dtype(name)], fx.dtypes.as_dtype(name)
    assert repr(seen) == f"torch.{name}" and seen == own and own == seen and hash(seen) == hash(own)
    assert np.zeros(2, seen).dtype == own and fx.zeros(2, dtype=seen).dtype is seen
    assert fx.ones(2).astype(seen).dtype is seen and fx.dtypes.as_dtype(seen) is own
    assert pickle.loads(pickle.dumps(seen)) is seen and copy.deepcopy(seen) is seen
    theirs = getattr(torch, name)
    for attribute in ("is_floating_point", "is_complex", "is_signed", "itemsize"):
        assert getattr(seen, attribute) == getattr(theirs, attribute)
    with pytest.raises(AttributeError, match="cannot be set"):
        seen.itemsize = 3


def test_a_compiled_function_sees_them_too():
    @fx.jit
    def f(x, dtype):
        assert isinstance(x.shape, face.Size) and x.dtype is face.float32
        return x.to(dtype) * x.shape.numel(), x.shape

    for _ in range(2):
        y, shape = f(face.ones(2, 3), face.float64)
        assert y.dtype is face.float64 and y.tolist() == [[6.0] * 3] * 2
        assert repr(shape) == "torch.Size([2, 3])"
    assert f.cache_size() == 1


def test_as_arguments_of_a_tree():
    sizes = face.ones(2, 3).shape
    leaves, treedef = fx.tree.flatten({"a": sizes})
    assert leaves == [2, 3] and repr(fx.tree.unflatten(treedef, leaves)["a"]) == repr(sizes)


def test_a_size_that_is_kept_for_a_shape_is_of_ints_whoever_asked_first():
    for n in (np.int64(4099), 4099):
        x = new_tensor(TensorSpec((n, 3), fx.float32, "meta"))
        for sizes in (x.shape, x.size(), x.size.shape):
            assert [type(i) for i in sizes] == [int, int]
        assert x.size == 4099 * 3 and repr(x.shape) == "torch.Size([4099, 3])"


def test_who_asked_last_is_not_taken_for_another():
    plain, script = {"x": face.ones(2)}, {"x": face.ones(2)}
    exec("import fx\ndef ask(): return type(x.shape), type(x.size()), x.dtype", plain)
    exec(
        "import fx.torch as torch\ndef ask(): return type(x.shape), type(x.size()), x.dtype", script
    )
    for _ in range(2):
        assert plain["ask"]() == (tuple, tuple, np.dtype("float32"))
        assert script["ask"]() == (face.Size, face.Size, face.float32)
        assert type(script["ask"]()[2]) is face.dtype and type(plain["ask"]()[2]) is not face.dtype
