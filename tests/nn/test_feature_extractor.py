"""feature_extractor: intermediate outputs by name, with nothing left in the model."""

import threading

import numpy as np
import pytest

import fx
from fx.errors import StateError

torch = pytest.importorskip("torch")

from tests.nn.oracle import close, copy_state


def make(nn):
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)
            self.relu = nn.ReLU()
            self.unused = nn.Tanh()

        def forward(self, x):
            return self.relu(self.fc(self.relu(x)) + x)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer1 = Block()
            self.layer2 = nn.Sequential(Block(), nn.Dropout(0.5))
            self.head = nn.Linear(4, 2)

        def forward(self, x):
            return self.head(self.layer2(self.layer1(x)))

    return Net()


X = np.random.default_rng(0).standard_normal((3, 4)).astype("float32")


def by_hooks(model, path, x, turn=-1):
    """What torch's hooks see of a layer."""
    seen = []
    handle = model.get_submodule(path).register_forward_hook(lambda m, a, o: seen.append(o))
    model(x)
    handle.remove()
    return seen[turn]


def test_outputs_are_those_that_hooks_see():
    ours, theirs = make(fx.nn).eval(), make(torch.nn).eval()
    copy_state(ours, theirs)
    before = repr([sorted(m.__dict__) for m in ours.modules()])
    features = fx.nn.feature_extractor(
        ours, {"layer1.fc": "a", "layer2.0.relu": "b", "layer1.relu:0": "first", "": "out"}
    )
    found = features(fx.tensor(X))
    assert list(found) == ["a", "b", "first", "out"]
    x = torch.tensor(X)
    close(found["a"], by_hooks(theirs, "layer1.fc", x))
    close(found["b"], by_hooks(theirs, "layer2.0.relu", x))
    close(found["first"], by_hooks(theirs, "layer1.relu", x, 0))
    close(found["out"], theirs(x))
    assert repr([sorted(m.__dict__) for m in ours.modules()]) == before
    assert next(iter(features.parameters())) is ours.layer1.fc.weight


@pytest.mark.parametrize(
    "layers, names",
    [
        ("head", ["head"]),
        (["layer1.*"], ["layer1.fc", "layer1.relu", "layer1.unused"]),
        (["*.fc", "layer2.?.fc"], ["layer1.fc", "layer2.0.fc"]),
        (["layer?"], ["layer1", "layer2"]),
        (["layer1.relu:0", "layer1.relu:1"], ["layer1.relu:0", "layer1.relu:1"]),
    ],
)
def test_names_and_globs(layers, names):
    features = fx.nn.feature_extractor(make(fx.nn), layers)
    assert list(features.layers.values()) == names


def test_what_it_refuses():
    model = make(fx.nn)
    with pytest.raises(
        ValueError, match=r"Net has no layer 'layer2.0.rellu'; did you mean 'layer2.0.r"
    ):
        fx.nn.feature_extractor(model, ["layer2.0.rellu"])
    with pytest.raises(ValueError, match=r"Net has no layer 'zzz'; it has \['layer1', 'layer1.fc'"):
        fx.nn.feature_extractor(model, "zzz")
    with pytest.raises(ValueError, match=r"'\*.relu' stands for 1|'layer1.\*' stands for 3 layers"):
        fx.nn.feature_extractor(model, {"layer1.*": "x"})
    features = fx.nn.feature_extractor(model, ["layer1.unused"])
    with pytest.raises(StateError, match=r"layer 'layer1.unused' was called 0 times by"):
        features(fx.tensor(X))
    assert not any("_hooked" in m.__dict__ for m in model.modules())


def test_under_transforms():
    model = make(fx.nn).eval()
    features = fx.nn.feature_extractor(model, ["layer1", "head"])
    x = fx.tensor(X)
    eager = features(x)
    compiled = fx.jit(features)
    for _ in range(2):
        for name, value in compiled(x).items():
            np.testing.assert_allclose(
                value.detach().numpy(), eager[name].detach().numpy(), rtol=1e-5
            )
    gradient = fx.grad(lambda f: f(x)["layer1"].sum())(features)
    expected = fx.grad(lambda m: m.layer1(x).sum())(model)
    np.testing.assert_allclose(
        gradient.model.layer1.fc.weight.detach().numpy(),
        expected.layer1.fc.weight.detach().numpy(), rtol=1e-5,
    )  # fmt: skip
    rows = fx.vmap(features)(x)
    np.testing.assert_allclose(
        rows["head"].detach().numpy(), eager["head"].detach().numpy(), rtol=1e-5
    )
    model.train()
    assert features.model.training


def test_nested_and_in_threads():
    model = make(fx.nn).eval()
    inner = fx.nn.feature_extractor(model, ["layer1"])
    outer = fx.nn.feature_extractor(inner, ["model.layer1", "model.head"])
    x = fx.tensor(X)
    found = outer(x)
    np.testing.assert_array_equal(
        found["model.layer1"].detach().numpy(), inner(x)["layer1"].detach().numpy()
    )
    model.head.register_forward_hook(lambda m, a, out: out * 0)  # hooks of its own stay
    assert float(abs(outer(x)["model.head"]).sum()) == 0
    assert float(abs(model(x)).sum()) == 0
    wrong = []

    def work(scale):
        for _ in range(20):
            y = inner(x * scale)["layer1"].detach().numpy()
            if not np.allclose(y, model.layer1(x * scale).detach().numpy()):
                wrong.append(scale)

    threads = [threading.Thread(target=work, args=(s,)) for s in (1.0, 2.0)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong and "_hooked" not in model.layer1.__dict__
