"""Laws, words and training on a device whose arrays NumPy cannot read."""

import copy
import io
import warnings

import numpy as np
import pytest

import fx
import fx.nn.functional as F
from fx import nn, optim
from fx.errors import DeviceError
from fx.testing import LAWS, all_primitives, broken_words, check_law
from fx.testing.case import on_device
from tests.laws.samples import NUMBERS, PRIMITIVES, stands_for_others

OPTIMIZERS = [
    name for name in dir(optim)
    if isinstance(kind := getattr(optim, name), type) and issubclass(kind, optim.Optimizer)
    and name not in ("Optimizer", "LBFGS", "SparseAdam", "Muon")
]  # fmt: skip


@pytest.mark.parametrize("name", PRIMITIVES)
def test_laws(fake, name):
    """Every sixth law, from another one on at each primitive; all where others rest on it."""
    laws = list(LAWS.values())
    with on_device("fake:1"):
        for law in laws if stands_for_others(name) else laws[NUMBERS[name] % 6 :: 6]:
            check_law(law, PRIMITIVES[name], examples=1, seed=3)


@pytest.mark.parametrize("name", ["tanh", "matmul", "take", "sum", "conv", "scan", "cond"])
def test_words(fake, name):
    with on_device("fake:0"):
        assert not broken_words(all_primitives()[name], 2)


# names and numbers ------------------------------------------------------------------------------


def test_devices_have_numbers(fake):
    x = fx.ones(2, device="fake:1")
    assert (x.device.type, x.device.index, str(x.device)) == ("fake", 1, "fake:1")
    assert repr(x) == "tensor([1., 1.], device='fake:1')"
    assert fx.device("fake") == fx.device("fake:0") != x.device
    assert repr(x.device) == "device(type='fake', index=1)"
    for name in ("fake:2", "fake:x", "fake:-1"):
        with pytest.raises(DeviceError, match="fake has 2, fake:0 to fake:1"):
            fx.device(name)


def test_new_tensors_go_where_they_are_wanted(fake):
    with fx.device("fake:1"):
        made = [
            fx.zeros(2),
            fx.arange(3),
            fx.tensor([1.0]),
            fx.randn(2),
            fx.eye(2),
            fx.full(2, 3.0),
        ]
    assert {x.device.name for x in made} == {"fake:1"}
    key = fx.random.key(0)
    here = fx.random.normal(key, (5,))
    fx.manual_seed(7)
    drawn = fx.randn(5, device="fake:0")
    fx.manual_seed(7)
    assert drawn.cpu().tolist() == fx.randn(5).tolist()
    assert here.device.name == "cpu"


def test_numbers_follow_their_partner(fake):
    x = fx.ones((2, 3), device="fake:0")
    out = (x * 2 + 1 - fx.tensor(0.5)) / np.float32(2)
    assert out.device.name == "fake:0" and out.cpu().tolist() == [[1.25] * 3] * 2
    w = fx.tensor(3.0, requires_grad=True)
    (x * w).sum().backward()
    assert w.grad.device.name == "cpu" and w.grad.item() == 6.0


def test_several_devices_are_refused_by_name(fake):
    here, there, further = fx.ones(3), fx.ones(3, device="fake:0"), fx.ones(3, device="fake:1")
    for pair in ((here, there), (there, further)):
        with pytest.raises(
            DeviceError, match=r"add got tensors on different devices: .* on fake:0"
        ):
            pair[0] + pair[1]
    with pytest.raises(DeviceError, match=r"write x.to|x\.to\('fake:0'\)"):
        there @ fx.ones((3, 2))


def test_moving_is_differentiable(fake):
    x = fx.tensor([1.0, 2.0, 3.0])

    def f(x):
        there = (x * x).to("fake:0")
        return (there.to("fake:1") * 2.0).sum().to("cpu")

    assert fx.grad(f)(x).tolist() == [4.0, 8.0, 12.0]
    assert fx.jvp(f, (x,), (fx.ones(3),))[1].item() == 24.0
    assert fx.vmap(fx.grad(f))(fx.ones((2, 3))).tolist() == [[4.0] * 3] * 2
    assert fx.jit(f)(x).item() == 28.0 and fx.jit(fx.grad(f))(x).tolist() == [4.0, 8.0, 12.0]
    leaf = fx.ones(3, requires_grad=True)
    f(leaf).backward()
    assert leaf.grad.device.name == "cpu" and leaf.grad.tolist() == [4.0] * 3


# programs ---------------------------------------------------------------------------------------


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3, padding=1, bias=False)  # it would have no gradient
        self.norm = nn.BatchNorm2d(2)
        self.fc = nn.Linear(2 * 16, 4)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)
        return self.fc(F.gelu(F.layer_norm(x.flatten(1), (32,))))


def batch(device):
    rng = np.random.default_rng(0)
    x = fx.tensor(rng.normal(size=(6, 1, 8, 8)).astype("float32"), device=device)
    return x, fx.tensor(rng.integers(0, 4, 6), device=device)


def losses(net, make, device, steps=3):
    x, y = batch(device)
    optimizer = make(net.parameters())
    out = []
    for _ in range(steps):
        loss = F.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        out.append(loss.item())
    return out


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(fake, name):
    fx.manual_seed(0)
    net = Net()
    there = copy.deepcopy(net).to("fake:1")
    make = getattr(optim, name)
    rate = {} if name in ("Adadelta", "Adafactor") else {"lr": 0.01}
    want = losses(net, lambda p: make(p, **rate), "cpu")
    got = losses(there, lambda p: make(p, **rate), "fake:1")
    np.testing.assert_allclose(got, want, rtol=2e-4)
    for p, q in zip(net.parameters(), there.parameters(), strict=True):
        assert q.device.name == "fake:1"
        np.testing.assert_allclose(q.detach().cpu().numpy(), p.detach().numpy(), atol=3e-4)


def test_a_step_copies_nothing_from_or_to_the_device(fake):
    net = Net().to("fake:0")
    x, y = batch("fake:0")
    optimizer = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for _ in range(2):
        before = fake.counts.copy()
        loss = F.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert fake.counts["launches"] > before["launches"] + 50
    assert fake.counts["copies out"] == before["copies out"]
    assert fake.counts["copies in"] == before["copies in"]


@pytest.mark.parametrize("make", [
    lambda: nn.LSTM(3, 4, batch_first=True), lambda: nn.GRU(3, 4), lambda: nn.Embedding(5, 3),
    lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True),
], ids=["lstm", "gru", "embedding", "transformer"])  # fmt: skip
def test_layers(fake, make):
    fx.manual_seed(1)
    layer = make()
    there = copy.deepcopy(layer).to("fake:0")
    if isinstance(layer, nn.Embedding):
        x = fx.tensor([[0, 4], [2, 2]])
    else:
        x = fx.randn(2, 5, 8 if isinstance(layer, nn.TransformerEncoderLayer) else 3)
    want, got = layer(x), there(x.to("fake:0"))
    if isinstance(want, tuple):
        want, got = want[0], got[0]
    assert got.device.name == "fake:0"
    np.testing.assert_allclose(got.detach().cpu().numpy(), want.detach().numpy(), atol=1e-5)
    want.sum().backward()
    got.sum().backward()
    for p, q in zip(layer.parameters(), there.parameters(), strict=True):
        np.testing.assert_allclose(q.grad.cpu().numpy(), p.grad.numpy(), atol=1e-4)


def test_files_and_loaders(fake):
    net = Net().to("fake:1")
    file = io.BytesIO()
    fx.save(net.state_dict(), file)
    file.seek(0)
    state = fx.load(file, map_location="fake:0")
    assert {v.device.name for v in state.values()} == {"fake:0"}
    file = io.BytesIO()
    fx.save({"w": nn.Parameter(fx.arange(3.0)), "leaf": fx.ones(2, requires_grad=True)}, file)
    file.seek(0)
    whole = fx.load(file, map_location="fake:1")
    assert {v.device.name for v in whole.values()} == {"fake:1"}
    assert whole["w"].tolist() == [0.0, 1.0, 2.0] and whole["leaf"].tolist() == [1.0, 1.0]
    other = Net()
    other.load_state_dict(state)
    for p, q in zip(net.parameters(), other.parameters(), strict=True):
        assert q.device.name == "cpu" and q.tolist() == p.cpu().tolist()
    data = fx.data.TensorDataset(fx.arange(6), fx.randn(6, 2))
    for number, row in fx.data.DataLoader(data, batch_size=3):
        assert (row.to("fake:0").sum(1) + number.to("fake:0")).device.name == "fake:0"


def test_compiled_functions_run_there(fake):
    net = Net().to("fake:0")
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    x, y = batch("fake:0")

    def step(x, y):
        loss = F.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    twin = copy.deepcopy(net)
    want = losses(twin, lambda p: optim.SGD(p, lr=0.1), "fake:0", 4)
    compiled = fx.jit(step)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what runs uncompiled says so
        np.testing.assert_allclose([compiled(x, y).item() for _ in range(4)], want, rtol=1e-5)
