"""nn.utils against torch's: weight and spectral norm, parametrizations, fusion, clipping."""

import copy
import pickle

import numpy as np
import pytest

import fx
from fx.nn.utils import parametrize

torch = pytest.importorskip("torch")

import torch.nn.utils.parametrize as torch_parametrize

from tests.nn.oracle import arrays, check_layer, close, twins

MAKERS = {
    "weight_norm": lambda nn: nn.utils.weight_norm(nn.Linear(4, 3)),
    "weight_norm dim 1": lambda nn: nn.utils.weight_norm(nn.Conv2d(2, 3, 2), dim=1),
    "weight_norm whole": lambda nn: nn.utils.weight_norm(nn.Linear(4, 3), dim=None),
    "weight_norm bias": lambda nn: nn.utils.weight_norm(nn.Linear(4, 3), "bias"),
    "spectral_norm": lambda nn: nn.utils.spectral_norm(nn.Linear(4, 3)),
    "spectral_norm twice": lambda nn: nn.utils.spectral_norm(
        nn.Linear(4, 3), n_power_iterations=2, eps=1e-6
    ),
    "spectral_norm conv": lambda nn: nn.utils.spectral_norm(nn.ConvTranspose2d(2, 3, 2)),
    "parametrized weight_norm": lambda nn: nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)),
    "parametrized spectral_norm": lambda nn: nn.utils.parametrizations.spectral_norm(
        nn.Conv2d(2, 3, 2), dim=1
    ),
    "orthogonal exp": lambda nn: nn.utils.parametrizations.orthogonal(
        nn.Linear(4, 3), orthogonal_map="matrix_exp"
    ),
    "orthogonal exp plain": lambda nn: nn.utils.parametrizations.orthogonal(
        nn.Linear(4, 4), use_trivialization=False
    ),
    "orthogonal cayley": lambda nn: nn.utils.parametrizations.orthogonal(
        nn.Linear(4, 4), orthogonal_map="cayley"
    ),
    "orthogonal cayley plain": lambda nn: nn.utils.parametrizations.orthogonal(
        nn.Linear(4, 3), orthogonal_map="cayley", use_trivialization=False
    ),
    "orthogonal householder": lambda nn: nn.utils.parametrizations.orthogonal(nn.Linear(3, 4)),
    "orthogonal householder plain": lambda nn: nn.utils.parametrizations.orthogonal(
        nn.Linear(4, 3), use_trivialization=False
    ),
    "skip_init": lambda nn: nn.utils.skip_init(nn.Linear, 4, 3),
}


def inputs(name, layer):
    weight = layer.weight
    return arrays((2, *weight.shape[1:])) if weight.ndim == 2 else arrays((2, 2, 5, 5))


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("mode", ["train", "eval"])
def test_layer(name, mode):
    make = MAKERS[name]
    check_layer(
        lambda nn: getattr(make(nn), mode)(),
        *inputs(name, make(fx.nn)),
        rounds=2 if mode == "train" else 1,
    )


@pytest.mark.parametrize("name", [n for n in MAKERS if n != "skip_init"])
def test_layer_under_transforms_and_copies(name):
    fx.manual_seed(1)
    layer = MAKERS[name](fx.nn).eval()
    (x,) = (fx.tensor(a.astype("float32")) for a in inputs(name, layer))
    expected = layer(x).detach()
    got = fx.jit(layer)(x).numpy(
        force=True
    )  # some weights are large: a few units of the last place
    np.testing.assert_allclose(got, expected.numpy(), rtol=2e-6, atol=1e-5)
    gradient = fx.grad(lambda m: m(x).sum())(layer)
    leaves = dict(layer.named_parameters())
    found = fx.tree.leaves(gradient)
    assert [g.shape for g in found] == [p.shape for p in leaves.values()]
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert type(twin) is type(layer) and repr(twin) == repr(layer)
        np.testing.assert_array_equal(twin(x).numpy(force=True), expected.numpy())


@pytest.mark.parametrize("kind", ["weight_norm", "spectral_norm"])
def test_removal_keeps_the_value(kind):
    layer = getattr(fx.nn.utils, kind)(fx.nn.Linear(4, 3)).eval()
    before = layer.weight.detach().numpy()
    getattr(fx.nn.utils, f"remove_{kind}")(layer)
    np.testing.assert_array_equal(layer.weight.numpy(force=True), before)
    assert type(layer) is fx.nn.Linear and list(layer.state_dict()) == ["bias", "weight"]
    assert layer(fx.ones(4)).shape == (3,) and not layer._forward_pre_hooks
    with pytest.raises(ValueError, match=f"{kind} of 'weight' not found in Linear"):
        getattr(fx.nn.utils, f"remove_{kind}")(layer)
    getattr(fx.nn.utils, kind)(layer)
    with pytest.raises(RuntimeError, match=f"Cannot register two {kind} hooks on the same"):
        getattr(fx.nn.utils, kind)(layer)


def halved(nn):
    class Halved(nn.Module):
        def forward(self, x):
            return x / 2

        def right_inverse(self, x):
            return x * 2

    return Halved()


def test_parametrization_one_after_the_other():
    def make(nn, face):
        layer = nn.Linear(3, 2)
        for _ in range(2):
            face.register_parametrization(layer, "weight", halved(nn))
        face.register_parametrization(layer, "bias", halved(nn))
        return layer

    torch.manual_seed(0)
    theirs = make(torch.nn, torch_parametrize)
    ours = make(fx.nn, parametrize)
    ours.load_state_dict({k: fx.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    assert list(ours.state_dict()) == list(theirs.state_dict()) and repr(ours) == repr(theirs)
    close(ours.weight, theirs.weight)
    assert parametrize.is_parametrized(ours, "bias") and not parametrize.is_parametrized(ours, "x")
    assert parametrize.type_before_parametrizations(ours) is fx.nn.Linear
    new = arrays((2, 3), dtype="float32")[0]
    with torch.no_grad():
        theirs.weight = torch.tensor(new)
    ours.weight = fx.tensor(new)
    close(ours.parametrizations.weight.original, theirs.parametrizations.weight.original)
    with parametrize.cached():
        assert ours.weight is ours.weight
    assert ours.weight is not ours.weight
    for leave in (True, False):
        parametrize.remove_parametrizations(ours, "bias" if leave else "weight", leave)
        torch_parametrize.remove_parametrizations(theirs, "bias" if leave else "weight", leave)
    close(ours.weight, theirs.weight), close(ours.bias, theirs.bias)
    assert type(ours) is fx.nn.Linear and isinstance(ours.weight, fx.nn.Parameter)


def test_parametrization_of_a_buffer_and_its_transfer():
    source, target = fx.nn.BatchNorm1d(2), fx.nn.BatchNorm1d(2)
    parametrize.register_parametrization(source, "running_mean", halved(fx.nn))
    source.running_mean = fx.tensor([4.0, 2.0])
    parametrize.transfer_parametrizations_and_params(source, target)
    np.testing.assert_array_equal(target.running_mean.numpy(), [4, 2])
    parametrize.remove_parametrizations(target, "running_mean")
    assert isinstance(target.running_mean, fx.nn.Buffer)


def test_parametrization_refusals():
    class Wider(fx.nn.Module):
        def forward(self, x):
            return fx.concat([x, x])

    layer = fx.nn.Linear(3, 2)
    with pytest.raises(ValueError, match="may not change the shape of the tensor"):
        parametrize.register_parametrization(layer, "weight", Wider())
    assert type(layer) is fx.nn.Linear and list(layer.state_dict()) == ["weight", "bias"]
    with pytest.raises(ValueError, match="does not have a parameter, a buffer"):
        parametrize.register_parametrization(layer, "missing", halved(fx.nn))
    with pytest.raises(ValueError, match="does not have a parametrization on weight"):
        parametrize.remove_parametrizations(layer, "weight")
    parametrize.register_parametrization(layer, "bias", Wider(), unsafe=True)
    with pytest.raises(RuntimeError, match="parametrization Wider does not implement right_inv"):
        layer.bias = fx.zeros(2)


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("options", [{}, {"affine": False}])
def test_conv_and_batch_norm_as_one(dims, transpose, options):
    kind = f"Conv{'Transpose' * transpose}{dims}d"

    def make(nn):
        layers = (
            getattr(nn, kind)(2, 3, 2, bias=bool(options)),
            getattr(nn, f"BatchNorm{dims}d")(3, **options),
        )
        return nn.Sequential(*layers)

    ours, theirs = twins(make)
    (x,) = arrays((4, 2, *[5] * dims))
    ours(fx.tensor(x)), theirs(torch.tensor(x))  # statistics
    ours.eval(), theirs.eval()
    fused = fx.nn.utils.fuse_conv_bn_eval(*ours, transpose)
    other = torch.nn.utils.fuse_conv_bn_eval(*theirs, transpose)
    close(fused.weight, other.weight), close(fused.bias, other.bias)
    close(fused(fx.tensor(x)), ours(fx.tensor(x)))


def test_linear_and_batch_norm_as_one():
    ours, theirs = twins(lambda nn: nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)))
    (x,) = arrays((4, 3))
    ours(fx.tensor(x)), theirs(torch.tensor(x))
    with pytest.raises(AssertionError, match="Fusion only for eval"):
        fx.nn.utils.fuse_linear_bn_eval(*ours)
    ours.eval(), theirs.eval()
    fused = fx.nn.utils.fuse_linear_bn_eval(*ours)
    close(fused.weight, torch.nn.utils.fuse_linear_bn_eval(*theirs).weight)
    close(fused(fx.tensor(x)), ours(fx.tensor(x)))


def test_names_are_those_of_torch():
    ignored = {"clip_grad", "clip_grad_norm", "convert_parameters", "init", "memory_format"}
    ignored |= {"convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"}
    wanted = {n for n in dir(torch.nn.utils) if not n.startswith("_")} - ignored
    assert wanted <= set(dir(fx.nn.utils))
