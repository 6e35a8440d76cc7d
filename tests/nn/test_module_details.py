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


# all manner of uses, and what torch says to them ------------------------------------------------


def _net(nn, lib):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(2, 2)
            self.b = None
            self.c = nn.Parameter(lib.ones(2))
            self.register_buffer("d", lib.ones(1))
            self.e = [nn.ReLU()]

    return Net()


USES = [
    "repr(m)", "set_(m, 'b', nn.Linear(1, 1)) or sorted(dict(m.named_modules()))",
    "set_(m, 'a', None) or (repr(m), list(m.state_dict()))",
    "set_(m, 'c', None) or (list(m.state_dict()), m.c)",
    "set_(m, 'c', None) or set_(m, 'c', nn.Parameter(lib.zeros(3))) or list(m.state_dict())",
    "set_(m, 'd', None) or (list(m.state_dict()), m.d)",
    "set_(m, 'd', lib.ones(4)) or (list(m.state_dict()), tuple(m.d.shape))",
    "set_(m, 'd', nn.Parameter(lib.ones(4))) or (list(m.state_dict()), len(list(m.buffers())))",
    "set_(m, 'c', 3)", "set_(m, 'c', lib.ones(2))", "set_(m, 'a', 3)", "set_(m, 'd', 3)",
    "m.register_buffer('c', lib.ones(1))", "m.register_parameter('z', lib.ones(1))",
    "m.register_parameter('w', nn.Parameter(lib.ones(1)) * 2)", "m.add_module('x.y', nn.ReLU())",
    "m.add_module('', nn.ReLU())", "m.register_buffer(3, None)", "m.register_module('a', 5)",
    "m.register_module('re', nn.ReLU()) or hasattr(m, 're')", "delattr(m, 'nothing')",
    "delattr(m, 'c') or list(m.state_dict())", "m.get_parameter('a.weight').shape == (2, 2)",
    "m.get_parameter('a.nope')", "m.get_buffer('a.weight')", "m.get_submodule('a.weight')",
    "m.get_parameter('q.w')", "[type(x).__name__ for x in m.children()]",
    "m.load_state_dict({}, strict=False)", "m.load_state_dict({'q': 1})", "m.load_state_dict(3)",
    "nn.Module()(1)", "m.train('x')", "m.to('nope')", "m.to(lib.int64)", "m.get_extra_state()",
    "[n for n, _ in m.named_parameters(prefix='p', recurse=False)]",
    "[n for n, _ in m.named_modules(prefix='q')]", "m.requires_grad_(False) is m",
    "m.eval().training", "m.apply(lambda x: None) is m", "nn.Parameter().shape == (0,)",
    "nn.Parameter(lib.ones(2), False).requires_grad", "'training' in dir(m) and 'c' in dir(m)",
    "m.double().a.weight.dtype == lib.float64", "m._version", "m._get_name()",
    "m.state_dict(keep_vars=True)['a.weight'] is m.a.weight", "len(m._forward_hooks)",
    "nn.ModuleDict({'a': nn.ReLU()}).forward(1)", "nn.Buffer(lib.ones(1)).persistent",
    "m.c.data.shape == (2,) and m.c.grad", "m.share_memory() is m", "m(1)", "m.missing",
]  # fmt: skip


@pytest.mark.parametrize("use", USES)
def test_uses_of_a_module(use):
    seen = []
    for lib in (fx, torch):
        names = {"m": _net(lib.nn, lib), "nn": lib.nn, "lib": lib, "set_": setattr}
        try:
            seen.append(eval(use, names))
        except Exception as error:
            kinds = [k for k in type(error).__mro__ if k.__module__ == "builtins"]
            seen.append(kinds)
    if isinstance(seen[1], list) and seen[1] and isinstance(seen[1][0], type):
        assert seen[1][0] in seen[0]
    else:
        assert repr(seen[0]) == repr(seen[1])


WRONG = [
    ("Linear(3, 4)", "ones((2, 5))", ValueError),
    ("Linear(3, 4)", "ones((2, 3), dtype=fx.int64)", TypeError),
    ("Linear(3, 4)", "ones((2, 3), device='meta')", RuntimeError),
    ("Linear(3, 4)", "None", TypeError),
    ("Conv2d(3, 4, 3)", "ones((1, 2, 5, 5))", ValueError),
    ("Conv2d(3, 4, 3)", "ones((2, 2))", ValueError),
    ("ConvTranspose2d(3, 4, 3)", "ones((1, 2, 5, 5))", ValueError),
    ("BatchNorm2d(3)", "ones((2, 3))", ValueError),
    ("BatchNorm2d(3)", "ones((2, 4, 3, 3))", ValueError),
    ("LayerNorm(4)", "ones((2, 3))", ValueError),
    ("GroupNorm(2, 4)", "ones((2, 3, 3))", ValueError),
    ("Embedding(3, 4)", "ones((2, 3))", TypeError),
    ("Embedding(3, 4)", "tensor([7])", IndexError),
    ("LSTM(3, 4)", "ones((2, 2, 5))", ValueError),
    ("GRU(3, 4)", "ones((2, 5))", ValueError),
    ("MaxPool2d(2)", "ones((3,))", ValueError),
    ("Softmax(dim=5)", "ones((2, 3))", IndexError),
    ("TransformerEncoderLayer(4, 2)", "ones((2, 3, 5))", ValueError),
]


@pytest.mark.parametrize("layer, x, kind", WRONG)
def test_wrong_inputs_name_their_layer(layer, x, kind):
    model = fx.nn.Sequential(fx.nn.Sequential(fx.nn.Identity(), eval(f"fx.nn.{layer}")))
    with pytest.raises(kind, match=r"(?s)in layer 0\.1.*: \w+"):
        model(None if x == "None" else eval(f"fx.{x}"))
