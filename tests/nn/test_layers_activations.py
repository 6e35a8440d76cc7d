"""Activation functions: extreme values, integers, in-place names, and what is refused."""

import numpy as np
import pytest

import fx
from fx.errors import DTypeError, InPlaceError, ShapeError

torch = pytest.importorskip("torch")

from tests.nn.oracle import arrays, check, close
from tests.nn.tables import ACTIVATIONS, row_name

F, T = fx.nn.functional, torch.nn.functional

# at kinks and far out; where an exponential overflows nothing may become NaN
POINTS = [0.0, 1, -1, 3, -3, 6, 0.5, -0.5, 0.1, 0.2, -0.3, 1.1, -1.1, 20, -20, 100, -100]
FAR = [1e4, -1e4, 1e30, -1e30, 1e-30, -1e-30]
ELEMENTWISE = [
    row
    for row in ACTIVATIONS
    if row[1] == (2, 4) and not any(word in row_name(row) for word in ("max", "min(", "GLU", "=4"))
]


@pytest.mark.parametrize("row", ELEMENTWISE, ids=row_name)
def test_kinks_and_extremes(row):
    ours, theirs = row[0](fx.nn), row[0](torch.nn)
    check(lambda x: ours(x * 1.0), lambda x: theirs(x * 1.0), np.array(POINTS + FAR, "float32"))


@pytest.mark.parametrize(
    "name", ["celu", "selu", "mish", "hardswish", "softsign", "tanhshrink", "hardsigmoid"]
)
def test_integers_become_floating(name):
    x = fx.tensor([-2, 0, 5])
    close(getattr(F, name)(x), getattr(F, name)(x.astype("float32")))


@pytest.mark.parametrize("name", ["Softmax", "LogSoftmax", "Softmin"])
def test_an_axis_that_is_not_given_warns(name):
    (x,) = arrays((2, 3))
    said = "Implicit dimension choice for .* has been deprecated"
    with pytest.warns(UserWarning, match=rf"{said}.* dim=1 is what is taken for \(2, 3\)"):
        got = getattr(fx.nn, name)()(fx.tensor(x))
    with pytest.warns(UserWarning, match=said):
        close(got, getattr(torch.nn, name)()(torch.tensor(x)))


def test_threshold_of_integers():
    x = np.array([-2, 0, 5])
    close(F.threshold(fx.tensor(x), 1, 7), T.threshold(torch.tensor(x), 1, 7))


WRITING = [
    ("relu_", ()),
    ("leaky_relu_", (0.3,)),
    ("elu_", (0.5,)),
    ("celu_", (0.5,)),
    ("selu_", ()),
    ("hardtanh_", (-0.5, 0.5)),
    ("rrelu_", ()),
    ("threshold_", (0.1, 3.0)),
]


@pytest.mark.parametrize(("name", "args"), WRITING, ids=[name for name, _ in WRITING])
def test_in_place_names_rebind_cells_and_refuse_tensors(name, args):
    values = np.array([-2.0, -0.2, 0.3, 2.0], "float32")
    expected = getattr(T, name)(torch.tensor(values), *args)
    held = fx.nn.Buffer(fx.tensor(values))
    assert getattr(F, name)(held, *args) is held
    close(held, expected)
    weight = fx.nn.Parameter(fx.tensor(values))
    with pytest.raises(InPlaceError, match=rf"{name} on .* would lose its history"):
        getattr(F, name)(weight, *args)
    with fx.no_grad():
        getattr(F, name)(weight, *args)
    close(weight, expected)
    with pytest.raises(InPlaceError, match=rf"F\.{name}\(x\) would .* write x = F\.{name[:-1]}\(x"):
        getattr(F, name)(fx.tensor(values), *args)


def test_refusals():
    x = fx.ones((2, 3))
    with pytest.raises(ShapeError, match="halving dimension must be even, but dimension 1 is size"):
        F.glu(x)
    with pytest.raises(ShapeError, match="prelu: the weight must have one entry or 3"):
        F.prelu(x, fx.ones(2))
    with pytest.raises(DTypeError, match="prelu: input and weight must have one dtype"):
        F.prelu(x, fx.ones(3, dtype="float64"))
    with pytest.raises(ValueError, match="lambda must be greater or equal to 0"):
        F.softshrink(x, -0.1)
    with pytest.raises(RuntimeError, match="celu: alpha cannot be 0"):
        F.celu(x, 0.0)
    with pytest.raises(ShapeError, match="Softmax2d: expected input to be 3D or 4D"):
        fx.nn.Softmax2d()(x)
    with pytest.raises(ValueError, match=r"Hardtanh: max_val 1.0 must be larger than min_val 2"):
        fx.nn.Hardtanh(2)
    assert repr(fx.nn.Hardtanh(min_value=-2.0)) == repr(fx.nn.Hardtanh(-2.0))
