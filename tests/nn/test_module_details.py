"""Details of Module: where errors say that they come from, conversions, paths, copies."""

import copy
import pickle
import traceback

import numpy as np
import pytest

import fx
from fx.errors import DeviceError, FxError, ShapeError

torch = pytest.importorskip("torch")

from tests.nn.oracle import close


class Block(fx.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = fx.nn.Linear(3, 4)

    def forward(self, x):
        return self.fc(x)


class Encoder(fx.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = fx.nn.ModuleList([Block(), Block()])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


# the layer in which an error was raised ---------------------------------------------------------

WHERE = "in layer encoder.layers.1.fc: Linear(in_features=3, out_features=4, bias=True)"


@pytest.mark.parametrize(
    "wrap", [lambda f: f, fx.jit, fx.vmap, lambda f: fx.grad(lambda x: f(x).sum())]
)
def test_errors_name_the_layer_by_its_path(wrap):
    class Net(fx.nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = Encoder()

        def forward(self, x):
            return self.encoder(x)

    with pytest.raises(ShapeError) as caught:
        wrap(Net())(fx.ones((2, 3)))
    text = str(caught.value)
    assert text.count("in layer") == 1 and text.endswith(WHERE)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda m: m(fx.ones((2, 3), dtype=fx.float64)), "float64"),
        (lambda m: m(fx.ones((2, 3), device="meta")), "meta"),
        (lambda m: m(fx.ones((2, 5))), "5"),
    ],
)
def test_wrong_dtypes_devices_and_shapes(call, message):
    model = fx.nn.Sequential(fx.nn.Identity(), fx.nn.Sequential(fx.nn.Linear(3, 4)))
    try:
        call(model)
    except FxError as error:
        text = str(error)
        assert message in text
        assert text.endswith("in layer 1.0: Linear(in_features=3, out_features=4, bias=True)")
    else:
        assert message == "float64"  # which promotes


def test_errors_of_the_users_own_code_and_of_one_layer():
    class Broken(fx.nn.Module):
        def forward(self, x):
            try:
                fx.ones(3) + fx.ones(4)
            except ShapeError as error:
                assert "in layer" not in str(error)
            return fx.ones(3) + fx.ones(4)

    with pytest.raises(ShapeError) as caught:
        Broken()(1)
    assert str(caught.value).endswith("\n  in layer Broken()")
    frames = [f.name for f in traceback.extract_tb(caught.value.__traceback__)]
    assert frames[-1] == "forward" and "__call__" not in frames
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)


# paths ------------------------------------------------------------------------------------------


def test_set_submodule():
    def program(nn):
        net = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU()))
        net.set_submodule("1.0", nn.Tanh())
        net.set_submodule("0", nn.Identity(), strict=True)
        net.set_submodule("1.more", nn.GELU())
        said = []
        for path, module, strict in (
            ("", nn.ReLU(), False), ("0", 3, False), ("7.x", nn.ReLU(), False),
            ("1.absent", nn.ReLU(), True), ("training", nn.ReLU(), False),
        ):  # fmt: skip
            with pytest.raises(Exception) as caught:
                net.set_submodule(path, module, strict)
            said.append((type(caught.value).__name__, str(caught.value)))
        return repr(net), said, len(list(net.modules(remove_duplicate=False)))

    assert program(fx.nn) == program(torch.nn)


def test_init_refuses_arguments():
    def program(nn):
        class Net(nn.Module):
            def __init__(self, *args, **kwargs):
                super().__init__(*args, **kwargs)

        said = []
        for args, kwargs in (((1,), {}), ((), {"width": 3})):
            with pytest.raises(TypeError) as caught:
                Net(*args, **kwargs)
            said.append(str(caught.value))

        class Mixin:
            def __init__(self, width):
                self.width = width

        class Both(nn.Module, Mixin):
            call_super_init = True

        return said, Both(3).width

    assert program(fx.nn) == program(torch.nn)


# conversions ------------------------------------------------------------------------------------


def test_conversions():
    model = fx.nn.Sequential(fx.nn.Linear(3, 2), fx.nn.BatchNorm1d(2))
    assert model.to("cpu", non_blocking=True) is model
    assert model.to(memory_format="channels_last") is model and model.share_memory() is model
    assert model.half()[0].weight.dtype == fx.float16
    assert model.bfloat16()[1].running_var.dtype == fx.bfloat16
    assert model.to(device="cpu", dtype=fx.float64)[0].bias.dtype == fx.float64
    model.type(fx.float32)
    assert model[1].num_batches_tracked.dtype == fx.float32
    with pytest.raises(DeviceError, match="no device 'cuda'"):
        model.cuda()
    with pytest.raises(DeviceError, match="no device 'cuda:1'"):
        model.cuda(1)
    empty = fx.nn.Linear(3, 2, device="meta")
    assert empty.to_empty(device="cpu").weight.device.name == "cpu"
    empty.load_state_dict(fx.nn.Linear(3, 2).state_dict())
    other = fx.nn.Linear(3, 2, device="meta")
    other.load_state_dict(empty.state_dict(), assign=True)
    close(other(fx.ones((1, 3))), torch.tensor(empty(fx.ones((1, 3))).detach().numpy()))


def test_apply_overridden_by_layers():
    seen = []

    class Flat(fx.nn.Linear):
        def _apply(self, fn, recurse=True):
            seen.append(self.out_features)
            return super()._apply(fn, recurse)

    fx.nn.Sequential(Flat(2, 3), fx.nn.Sequential(Flat(3, 1))).double()
    assert seen == [3, 1]


# copies -----------------------------------------------------------------------------------------


class Custom(fx.nn.Module):
    """At the top of a file, so that pickle finds it."""

    def __init__(self):
        super().__init__()
        self.fc = fx.nn.Linear(2, 2)
        self.again = self.fc
        self.settings = {"alpha": [1, 2]}
        self.register_buffer("mask", fx.ones(2), persistent=False)
        self.plain = fx.ones(2)

    def forward(self, x):
        return self.again(x) * self.mask * self.plain


@pytest.mark.parametrize("how", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_of_modules_of_ones_own(how):
    model = Custom()
    model.compile()
    x = fx.ones((3, 2))
    expected = model(x).detach().numpy()
    other = how(model)
    np.testing.assert_allclose(other(x).detach().numpy(), expected, rtol=1e-6)
    assert other.again is other.fc and other.settings == model.settings
    assert "mask" not in other.state_dict() and "mask" in dict(other.named_buffers())
    other.settings["alpha"].append(3)
    other.fc.weight.data.zero_()
    assert model.settings == {"alpha": [1, 2]}
    np.testing.assert_allclose(model(x).detach().numpy(), expected, rtol=1e-6)


def test_batch_norm_loads_states_from_before_it_counted():
    def program(nn, tensor):
        norm = nn.BatchNorm1d(2)
        norm(tensor([[1.0, 2.0], [3.0, 5.0]]))
        state = norm.state_dict()
        del state["num_batches_tracked"]
        other = nn.BatchNorm1d(2)
        with pytest.raises(RuntimeError, match=r'Missing key.* "num_batches_tracked"'):
            other.load_state_dict(state)
        state._metadata[""]["version"] = 1
        return repr(other.load_state_dict(state)), int(other.num_batches_tracked)

    assert program(fx.nn, fx.tensor) == program(torch.nn, torch.tensor)
