"""Lazy layers and parameters without a shape, against torch's."""

import copy
import pickle

import numpy as np
import pytest

import fx
from fx.errors import ShapeError

torch = pytest.importorskip("torch")

from tests.nn.oracle import close

pytestmark = pytest.mark.filterwarnings("ignore:Lazy modules are a new feature")

X3 = np.random.default_rng(0).standard_normal((2, 3, 8)).astype("float32")
X4 = np.random.default_rng(1).standard_normal((2, 4, 8, 8)).astype("float32")
X5 = np.random.default_rng(2).standard_normal((2, 4, 5, 5, 5)).astype("float32")

CASES = [
    ("LazyLinear", (5,), {}, X3), ("LazyLinear", (5,), {"bias": False}, X4),
    ("LazyConv1d", (4, 3), {}, X3), ("LazyConv2d", (4, 3), {"padding": 1, "groups": 2}, X4),
    ("LazyConv2d", (4, (1, 3)), {"stride": 2, "bias": False, "padding_mode": "circular"}, X4),
    ("LazyConv3d", (2, 2), {"dilation": 2}, X5), ("LazyConvTranspose1d", (4, 3), {}, X3),
    ("LazyConvTranspose2d", (4, 3), {"groups": 2, "stride": 2, "output_padding": 1}, X4),
    ("LazyConvTranspose3d", (2, 2), {"bias": False}, X5), ("LazyBatchNorm1d", (), {}, X3),
    ("LazyBatchNorm2d", (), {"momentum": None, "affine": False}, X4),
    ("LazyBatchNorm3d", (), {"track_running_stats": False}, X5), ("LazyInstanceNorm1d", (), {}, X3),
    ("LazyInstanceNorm2d", (), {"affine": False, "track_running_stats": False}, X4),
    ("LazyInstanceNorm3d", (), {"eps": 1e-3}, X5),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:input's size at dim=1")
@pytest.mark.parametrize("name, args, options, x", CASES, ids=lambda v: v if type(v) is str else "")
def test_lazy_layers(name, args, options, x):
    ours, theirs = (getattr(nn, name)(*args, **options) for nn in (fx.nn, torch.nn))
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert ours.has_uninitialized_params() == theirs.has_uninitialized_params()
    parameters = list(ours.parameters())
    ours(fx.tensor(x)), theirs(torch.tensor(x))
    assert type(ours).__name__ == type(theirs).__name__ == name[4:]
    if list(ours.state_dict()):  # else torch goes on saying 0 features
        assert repr(ours) == repr(theirs)
    assert list(ours.parameters()) == [] or all(
        a is b for a, b in zip(ours.parameters(), parameters)
    )  # an optimizer that was made before goes on
    state = theirs.state_dict()
    ours.load_state_dict(state)
    close(ours.eval()(fx.tensor(x)), theirs.eval()(torch.tensor(x)))


def test_states_before_and_after():
    def program(nn, tensor):
        make = lambda: nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d())
        x, out = tensor(X3[:, :, 0]), []
        fresh = make()
        state = fresh.state_dict()
        out += [sorted(repr(v) for v in state.values() if "Uninit" in repr(v))]
        other = make()
        out += [repr(other.load_state_dict(state)), repr(other)]
        fresh(x)
        out += [
            repr(other.load_state_dict(fresh.state_dict())),
            repr(other[0].weight.shape == (3, 3)),
        ]
        out += [other[0].has_uninitialized_params()]
        other(x)
        out += [repr(other[0])]
        with pytest.raises(RuntimeError, match="shape of an uninitialized parameter") as caught:
            other.load_state_dict(make().state_dict())
        return [*out, "get" in str(caught.value)]

    assert program(fx.nn, fx.tensor)[:-1] == program(torch.nn, torch.tensor)[:-1]


@pytest.mark.parametrize("how", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies(how):
    model = fx.nn.Sequential(fx.nn.LazyLinear(3, dtype=fx.float64), fx.nn.LazyBatchNorm1d())
    other = how(model)
    assert other[0].has_uninitialized_params() and other[0].weight.dtype == fx.float64
    other.float()(fx.tensor(X3[:, :, 0]))
    assert other[0].weight.dtype == fx.float32 and repr(other[0]).startswith("Linear(in_features=3")
    assert model[0].has_uninitialized_params()
    seen = how(other)
    close(
        seen.eval()(fx.tensor(X3[:, :, 0])),
        torch.tensor(other.eval()(fx.tensor(X3[:, :, 0])).detach().numpy()),
    )


def test_parameters_without_a_shape():
    p, b = fx.nn.UninitializedParameter(dtype=fx.float64), fx.nn.UninitializedBuffer()
    assert repr(p) == "<UninitializedParameter>" and p.dtype == fx.float64 and p.requires_grad
    with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized parameter"):
        p.shape
    with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter"):
        p + 1
    with pytest.raises(RuntimeError, match="Can't share memory on an uninitialized"):
        b.share_memory_()
    b.materialize((2,), dtype=fx.int64)
    p.materialize((2, 3))
    assert type(b) is fx.nn.Buffer and b.tolist() == [0, 0]
    assert type(p) is fx.nn.Parameter and p.shape == (2, 3) and p.dtype == fx.float64
    (p * 2).sum().backward()
    assert float(p.grad.sum()) == 12


def test_lazy_layers_of_ones_own():
    class Scale(fx.nn.layers.lazy.LazyModuleMixin, fx.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = fx.nn.UninitializedParameter()
            self.bias = fx.nn.UninitializedParameter()

        def initialize_parameters(self, x):
            if self.has_uninitialized_params():
                self.weight.materialize(x.shape[-1:])
                self.bias.materialize(x.shape[-1:])
                with fx.no_grad():
                    self.weight.fill_(2)

        def forward(self, x):
            return x * self.weight + self.bias

    class Forgetful(Scale):
        def initialize_parameters(self, x):
            self.weight.materialize(x.shape[-1:])

    scale = Scale()
    for _ in range(2):
        close(scale(fx.tensor(X3)), 2 * torch.tensor(X3))
    with pytest.raises(RuntimeError, match="module Forgetful has not been fully initialized"):
        Forgetful()(fx.tensor(X3))


def test_first_calls_under_transforms():
    x = fx.tensor(X3[:, :, 0])
    for wrap in (fx.jit, fx.vmap):
        model = fx.nn.Sequential(fx.nn.LazyLinear(4), fx.nn.ReLU(), fx.nn.LazyLinear(2))
        step = wrap(lambda x, model=model: model(x))
        first = step(x)
        assert type(model[2]) is fx.nn.Linear and model[2].weight.shape == (2, 4)
        np.testing.assert_allclose(first.detach().numpy(), model(x).detach().numpy(), rtol=1e-6)
        np.testing.assert_allclose(step(x).detach().numpy(), first.detach().numpy(), rtol=1e-6)


def test_what_they_refuse():
    with pytest.raises(
        ShapeError, match=r"Expected 3D \(unbatched\) or 4D \(batched\) input to LazyC"
    ):
        fx.nn.LazyConv2d(4, 3)(fx.ones(3))
    with pytest.raises(ValueError, match="in_channels must be divisible by groups, got 3 channels"):
        fx.nn.LazyConv1d(4, 3, groups=2)(fx.tensor(X3))
    with pytest.raises(ValueError, match="out_channels 3 must be divisible by groups 2"):
        fx.nn.LazyConv1d(3, 3, groups=2)
