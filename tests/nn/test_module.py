"""Module: attributes, traversal, modes, state dicts, printing, copies; torch is the oracle."""

import copy
import pickle
from collections import OrderedDict

import numpy as np
import pytest

import fx
from fx.errors import DeviceError, DTypeError, StateError

torch = pytest.importorskip("torch")

from tests.nn.oracle import arrays, close


def net(nn):
    """A module with everything: shared weights and modules, buffers of both kinds, None."""

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.fc = nn.Linear(width, width)
            self.register_parameter("missing", None)
            self.scale = nn.Parameter(_ones(nn, width))

        def forward(self, x):
            return self.fc(x) * self.scale

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList([Block(4), Block(4)])
            self.norm = nn.BatchNorm1d(4)
            self.heads = nn.ModuleDict({"a": nn.Linear(4, 2), "b": nn.Identity()})
            self.tied = nn.Linear(4, 4)
            self.tied.weight = self.blocks[0].fc.weight
            self.again = self.norm
            self.register_buffer("steps", _ones(nn, 1))
            self.register_buffer("cache", _ones(nn, 2), persistent=False)
            self.register_buffer("nothing", None)

        def forward(self, x):
            for block in self.blocks:
                x = block(x)
            return self.heads["a"](self.tied(self.norm(x)))

        def extra_repr(self):
            return "width=4,\ndepth=2"

    return Net()


def _ones(nn, n):
    return fx.ones(n) if nn is fx.nn else torch.ones(n)


@pytest.fixture
def pair():
    return net(fx.nn), net(torch.nn)


# traversal --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "method",
    ["named_parameters", "named_buffers", "named_modules", "named_children", "state_dict"],
)
def test_names_are_torchs(pair, method):
    ours, theirs = (list(dict(getattr(m, method)())) for m in pair)
    assert ours == theirs


@pytest.mark.parametrize("method", ["named_parameters", "named_buffers"])
def test_names_with_options_are_torchs(pair, method):
    for options in ({"prefix": "p"}, {"recurse": False}, {"remove_duplicate": False}):
        ours, theirs = ([n for n, _ in getattr(m, method)(**options)] for m in pair)
        assert ours == theirs


def test_parameters_modules_children_buffers(pair):
    for method in ("parameters", "modules", "children", "buffers"):
        ours, theirs = (list(getattr(m, method)()) for m in pair)
        assert [type(x).__name__ for x in ours] == [
            {"Tensor": "Buffer"}.get(type(x).__name__, type(x).__name__) for x in theirs
        ]


def test_look_up_by_path(pair):
    model, _ = pair
    assert model.get_submodule("blocks.1.fc") is model.blocks[1].fc
    assert model.get_submodule("") is model
    assert model.get_parameter("heads.a.bias") is model.heads["a"].bias
    assert model.get_buffer("norm.running_mean") is model.norm.running_mean
    with pytest.raises(AttributeError, match="ModuleList has no attribute `7`"):
        model.get_submodule("blocks.7.fc")
    with pytest.raises(AttributeError, match=r"`norm` is not an nn.Parameter"):
        model.get_parameter("norm")
    with pytest.raises(AttributeError, match=r"`steps` is not an nn.Module"):
        model.get_submodule("steps")


def test_apply_visits_children_first(pair):
    seen = [[], []]
    for model, names in zip(pair, seen):
        model.apply(lambda m, names=names: names.append(type(m).__name__))
    assert seen[0] == seen[1]


# printing ---------------------------------------------------------------------------------------


def test_repr_is_torchs(pair):
    assert repr(pair[0]) == repr(pair[1])


def test_repr_of_containers_is_torchs():
    def make(nn):
        return nn.Sequential(
            nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2)]),
            nn.ModuleList(),
            nn.ModuleDict(),
            nn.Sequential(),
            nn.Sequential(OrderedDict(a=nn.Sequential(nn.Tanh(), nn.ModuleList([nn.Tanh()])))),
        )

    assert repr(make(fx.nn)) == repr(make(torch.nn))


def test_repr_of_parameters():
    p = fx.nn.Parameter(fx.tensor([1.0, 2.0]))
    q = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    assert repr(p) == repr(q)
    assert repr(fx.nn.Buffer(fx.tensor([1.0]))) == "tensor([1.])"


# attributes -------------------------------------------------------------------------------------


def test_attributes_are_registered_and_replaced(pair):
    model, _ = pair
    first = model.heads["a"]
    first.extra = fx.nn.Parameter(fx.ones(1))
    assert list(first._parameters) == ["weight", "bias", "extra"]
    first.extra = None
    assert first.extra is None and "extra" not in dict(first.named_parameters())
    del first.extra
    assert not hasattr(first, "extra")
    first.extra = 5  # a plain attribute may become a parameter
    first.extra = fx.nn.Parameter(fx.ones(1))
    assert "extra" not in first.__dict__ and "extra" in dict(first.named_parameters())
    first.extra = fx.nn.Linear(1, 1)  # and a parameter a module
    assert "extra" not in first._parameters and "extra" in dict(first.named_children())
    assert {"weight", "extra", "training"} <= set(dir(first))


def test_a_buffer_is_rebound_by_assignment(pair):
    model, _ = pair
    cell = model.steps
    model.steps = model.steps + 1
    assert model.steps is cell
    np.testing.assert_array_equal(cell.numpy(), [2.0])
    model.nothing = fx.ones(3)
    assert isinstance(model.nothing, fx.nn.Buffer)
    model.shiny = fx.nn.Buffer(fx.ones(1), persistent=False)
    assert "shiny" in dict(model.named_buffers()) and "shiny" not in model.state_dict()


def test_what_assignment_refuses(pair):
    model, _ = pair
    with pytest.raises(TypeError, match=r"cannot assign 'fx.tensor.Tensor' as parameter 'weight'"):
        model.tied.weight = fx.ones((4, 4))
    with pytest.raises(TypeError, match="cannot assign 'int' as child module 'norm'"):
        model.norm = 3
    with pytest.raises(TypeError, match="cannot assign 'float' object to buffer 'steps'"):
        model.steps = 1.0
    with pytest.raises(KeyError, match="attribute 'forward' already exists"):
        model.register_buffer("forward", fx.ones(1))
    with pytest.raises(KeyError, match=r'contain ".", got: a.b'):
        model.register_parameter("a.b", None)
    with pytest.raises(KeyError, match="be empty string"):
        model.add_module("", fx.nn.ReLU())
    with pytest.raises(TypeError, match="int is not a Module subclass"):
        model.add_module("x", 3)
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'absent'"):
        model.absent


def test_forgetting_super_init():
    class Late(fx.nn.Module):
        def __init__(self):
            self.fc = fx.nn.Linear(2, 2)

    with pytest.raises(AttributeError, match=r"before Module.__init__\(\) call; write super"):
        Late()


def test_a_module_without_forward():
    with pytest.raises(NotImplementedError, match='missing the required "forward" function'):
        fx.nn.Module()(1)


# modes and changes ------------------------------------------------------------------------------


def test_train_eval_requires_grad(pair):
    model, _ = pair
    model.eval()
    assert not any(m.training for m in model.modules())
    model.train()
    assert all(m.training for m in model.modules())
    with pytest.raises(ValueError, match="training mode is expected to be boolean"):
        model.train(1)
    model.requires_grad_(False)
    assert not any(p.requires_grad for p in model.parameters())
    assert not model(fx.ones((3, 4))).requires_grad


def test_zero_grad(pair):
    model, _ = pair
    model(fx.ones((3, 4))).sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    model.zero_grad(set_to_none=False)
    assert all(float(abs(p.grad).max()) == 0 for p in model.parameters())
    model.zero_grad()
    assert all(p.grad is None for p in model.parameters())


def test_to_casts_floating_cells_and_keeps_gradients(pair):
    model, _ = pair
    model(fx.ones((3, 4))).sum().backward()
    weight = model.tied.weight
    assert model.double() is model
    assert model.tied.weight is weight and weight.grad.dtype == fx.float64
    assert {p.dtype for p in model.parameters()} == {fx.float64}
    assert model.norm.num_batches_tracked.dtype == fx.int64
    assert model(fx.ones((3, 4), dtype=fx.float64)).dtype == fx.float64
    model.to("cpu", fx.bfloat16)
    assert model.norm.running_mean.dtype == fx.bfloat16
    model.to(fx.ones(1))
    assert model.norm.running_mean.dtype == fx.float32
    with pytest.raises(DTypeError, match=r"Module.to takes floating or complex dtypes, got int64"):
        model.to(fx.int64)
    with pytest.raises(DeviceError, match="there is no device 'cuda'"):
        model.to("cuda")


# state dicts ------------------------------------------------------------------------------------


def test_state_goes_to_torch_and_back(pair):
    ours, theirs = pair
    theirs.load_state_dict({k: torch.tensor(v.numpy()) for k, v in ours.state_dict().items()})
    (x,) = arrays((5, 4), dtype="float32")
    close(ours(fx.tensor(x)), theirs(torch.tensor(x)))
    state = {k: v.numpy() for k, v in theirs.state_dict().items()}  # arrays are taken too
    assert repr(ours.load_state_dict(state)) == "<All keys matched successfully>"
    for a, b in zip(ours.state_dict().values(), theirs.state_dict().values()):
        close(a, b)


def test_a_state_dict_is_a_snapshot(pair):
    model, _ = pair
    state = model.state_dict()
    before = state["tied.weight"].numpy().copy()
    with fx.no_grad():
        model.tied.weight.zero_()
    np.testing.assert_array_equal(state["tied.weight"].numpy(), before)
    assert state["tied.weight"] is state["blocks.0.fc.weight"]
    assert model.state_dict(keep_vars=True)["tied.weight"] is model.tied.weight
    assert next(iter(model.state_dict(prefix="net."))).startswith("net.")


def test_loading_lists_all_that_does_not_fit(pair):
    model, theirs = pair
    state = dict(model.state_dict())
    before = model.heads["a"].bias.detach()
    state["heads.a.bias"] = fx.ones(2)
    del state["tied.bias"]
    state["extra"] = fx.ones(1)
    state["heads.a.weight"] = fx.ones((3, 4))
    with pytest.raises(StateError) as caught:
        model.load_state_dict(state)
    with pytest.raises(RuntimeError) as expected:
        theirs.load_state_dict({k: torch.tensor(v.numpy()) for k, v in state.items()})
    message = str(expected.value).replace("torch.Size([3, 4])", "(3, 4)")
    assert str(caught.value) == message.replace("torch.Size([2, 4])", "(2, 4)")
    assert isinstance(caught.value, RuntimeError)
    np.testing.assert_array_equal(model.heads["a"].bias.detach().numpy(), before.numpy())


def test_loading_what_fits_and_naming_the_rest(pair):
    model, _ = pair
    found = model.load_state_dict({"steps": fx.tensor([7.0]), "extra": 1}, strict=False)
    assert found.unexpected_keys == ["extra"] and "tied.weight" in found.missing_keys
    assert float(model.steps) == 7
    with pytest.raises(
        StateError, match=r"\"steps\", expected fx.Tensor or .* received <class 'int'>"
    ):
        model.load_state_dict({"steps": 1}, strict=False)
    with pytest.raises(TypeError, match="Expected state_dict to be dict-like"):
        model.load_state_dict([1])


def test_loading_casts_unless_it_assigns():
    layer = fx.nn.Linear(2, 2)
    state = {k: v.astype(fx.float64) for k, v in layer.state_dict().items()}
    layer.load_state_dict(state)
    assert layer.weight.dtype == fx.float32
    layer.load_state_dict(state, assign=True)
    assert layer.weight.dtype == fx.float64 and layer.weight.requires_grad


# copies -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_are_independent_and_keep_ties(how):
    model = fx.nn.Sequential(fx.nn.Linear(3, 3), fx.nn.BatchNorm1d(3), fx.nn.Linear(3, 3))
    model[2].weight = model[0].weight
    model[0].bias.requires_grad_(False)
    other = how(model)
    assert other[2].weight is other[0].weight is not model[0].weight
    assert [p.requires_grad for p in other.parameters()] == [
        p.requires_grad for p in model.parameters()
    ]
    with fx.no_grad():
        other[0].weight.zero_()
    assert float(abs(model[0].weight).max()) > 0
    other(fx.ones((2, 3)))
    assert int(model[1].num_batches_tracked) == 0


# containers -------------------------------------------------------------------------------------


def test_containers_behave_as_torchs():
    def history(nn):
        seq = nn.Sequential(nn.Linear(1, 1), nn.ReLU())
        seq.append(nn.Tanh()).insert(1, nn.Sigmoid())
        seq.extend([nn.GELU()])
        out = [repr(seq), repr(seq[1:3]), len(seq), repr(seq[-1]), repr(seq.pop(0)), repr(seq)]
        del seq[0]
        seq[0] = nn.Identity()
        out.append(repr(seq))
        many = nn.ModuleList([nn.ReLU()]) + nn.ModuleList([nn.Tanh()])
        many += [nn.GELU()]
        many.append(nn.Linear(1, 1)).extend([nn.SiLU()])
        many.insert(0, nn.Softmax(dim=1))
        del many[1]
        out += [repr(many), repr(many[::2]), repr(many.pop(-1)), [type(m).__name__ for m in many]]
        named = nn.ModuleDict([("a", nn.ReLU()), ("b", nn.Tanh())])
        named.update({"c": nn.GELU()})
        named["a"] = nn.SiLU()
        out += [list(named), "a" in named, len(named), repr(named.pop("b")), list(named.keys())]
        out += [[repr(m) for m in named.values()], [k for k, _ in named.items()]]
        named.clear()
        return [*out, repr(named)]

    assert history(fx.nn) == history(torch.nn)


def test_what_containers_refuse():
    with pytest.raises(IndexError, match="index 1 is out of range for a container of 1 modules"):
        fx.nn.Sequential(fx.nn.ReLU())[1]
    with pytest.raises(TypeError, match="int is not a Module subclass"):
        fx.nn.ModuleList([1])
    with pytest.raises(TypeError, match=r"ModuleDict.update should be called with an iterable"):
        fx.nn.ModuleDict().update(3)
