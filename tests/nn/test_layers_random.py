"""Dropout of every kind, RReLU, Gumbel softmax and initialisers: what is drawn, and how often."""

import numpy as np
import pytest

import fx
from fx.errors import InPlaceError, ShapeError

torch = pytest.importorskip("torch")

from tests.nn.oracle import close

F, T, init = fx.nn.functional, torch.nn.functional, fx.nn.init


def values(x):
    return x.detach().numpy()


# dropout ----------------------------------------------------------------------------------------

CHANNELS = {
    "Dropout1d": [(400, 8, 3), (400, 3)],
    "Dropout2d": [(400, 8, 2, 2)],
    "Dropout3d": [(400, 8, 1, 2, 2), (400, 1, 2, 2)],
    "FeatureAlphaDropout": [(400, 8, 3)],
}


@pytest.mark.parametrize("name", CHANNELS)
def test_whole_channels_drop_as_often_as_in_torch(name):
    for shape in CHANNELS[name]:
        fx.manual_seed(0), torch.manual_seed(0)
        x = np.ones(shape)
        got = values(getattr(fx.nn, name)(0.3)(fx.tensor(x)))
        expected = getattr(torch.nn, name)(0.3)(torch.tensor(x)).numpy()
        lead = 2 if len(shape) == len(CHANNELS[name][0]) else 1
        rows = got.reshape(*shape[:lead], -1)
        assert (rows == rows[..., :1]).all()
        np.testing.assert_allclose(np.unique(got.round(9)), np.unique(expected.round(9)))
        assert abs((got == got.min()).mean() - 0.3) < 0.07


def test_alpha_dropout_keeps_mean_and_deviation():
    fx.manual_seed(0), torch.manual_seed(0)
    x = fx.randn(40_000)
    got = values(fx.nn.AlphaDropout(0.2)(x))
    assert abs(got.mean()) < 0.03 and abs(got.std() - 1) < 0.03
    zeros = F.alpha_dropout(fx.zeros(1000, dtype="float64"), 0.2, True)
    theirs = T.alpha_dropout(torch.zeros(1000, dtype=torch.float64), 0.2, True)
    np.testing.assert_allclose(np.unique(values(zeros)), np.unique(theirs.numpy()))
    assert F.alpha_dropout(x) is x and F.feature_alpha_dropout(x[None]).shape == (1, 40_000)


DROPOUTS = ["Dropout", "Dropout1d", "AlphaDropout", "FeatureAlphaDropout"]


@pytest.mark.parametrize("name", DROPOUTS)
def test_masks_are_the_same_under_jit_and_differ_by_lane(name):
    layer, x = getattr(fx.nn, name)(0.5), fx.ones((4, 16, 3))
    fx.manual_seed(3)
    expected = layer(x)
    fx.manual_seed(3)
    close(fx.jit(layer)(x), expected)
    lanes = values(fx.vmap(layer)(fx.ones((8, 4, 16, 3))))
    assert not (lanes == lanes[:1]).all()


def test_dropout_refuses_and_warns():
    for name in (*DROPOUTS, "Dropout2d", "Dropout3d"):
        with pytest.raises(ValueError, match=r"has to be between 0 and 1, but got 1\.5"):
            getattr(fx.nn, name)(1.5)
    with pytest.raises(ShapeError, match=r"dropout1d: expected \(batch, channels, length\)"):
        F.dropout1d(fx.ones((2, 3, 4, 5)))
    with pytest.warns(UserWarning, match="dropout2d: received a 3D input"):
        F.dropout2d(fx.ones((2, 3, 4)))
    with pytest.warns(UserWarning, match="dropout3d: received a 2-D input"):
        F.dropout3d(fx.ones((2, 3)))
    with pytest.raises(ShapeError, match=r"feature_alpha_dropout: expected \(batch, channels"):
        F.feature_alpha_dropout(fx.ones(3), training=True)


# other draws ------------------------------------------------------------------------------------


def test_rrelu_draws_slopes():
    fx.manual_seed(0)
    x = -fx.ones(20_000)
    slopes = -values(fx.nn.RReLU(0.2, 0.6)(x))
    assert 0.2 <= slopes.min() < 0.201 and 0.599 < slopes.max() <= 0.6
    assert abs(slopes.mean() - 0.4) < 0.01
    fx.manual_seed(0)
    close(-fx.jit(fx.nn.RReLU(0.2, 0.6))(x), fx.tensor(slopes))
    with pytest.raises(ValueError, match="lower bound should be less than or equal"):
        F.rrelu(x, 0.5, 0.2)


def test_gumbel_softmax_draws_by_probability():
    fx.manual_seed(0)
    p = np.array([0.1, 0.2, 0.7])
    logits = fx.tensor(np.tile(np.log(p), (6000, 1)))
    hard = values(F.gumbel_softmax(logits, tau=0.7, hard=True))
    assert set(np.unique(hard.round(12))) == {0.0, 1.0} and (hard.round(12).sum(1) == 1).all()
    np.testing.assert_allclose(hard.mean(0), p, atol=0.02)
    soft = F.gumbel_softmax(logits[:5].T, tau=0.7, dim=0)
    np.testing.assert_allclose(values(soft.sum(dim=0)), 1)


def test_the_hard_sample_has_the_gradient_of_the_soft_one():
    x, ct = fx.randn((4, 3), dtype="float64"), fx.randn((4, 3), dtype="float64")

    def gradient(hard):
        fx.manual_seed(1)
        return fx.grad(lambda x: (F.gumbel_softmax(x, hard=hard) * ct).sum())(x)

    close(gradient(True), gradient(False))


# initialisers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(4, 4, 3), (6, 2, 3, 4), (4, 6, 2, 2, 3)])
@pytest.mark.parametrize("groups", [1, 2])
def test_dirac(shape, groups):
    p = fx.nn.Parameter(fx.ones(shape))
    assert init.dirac_(p, groups) is p
    np.testing.assert_array_equal(
        values(p), torch.nn.init.dirac_(torch.ones(shape), groups).numpy()
    )


@pytest.mark.parametrize("sparsity", [0.0, 0.1, 0.55, 1.0])
def test_sparse(sparsity):
    fx.manual_seed(0)
    p = init.sparse_(fx.nn.Parameter(fx.zeros((50, 300))), sparsity, std=0.5)
    zero = values(p) == 0
    assert (zero.sum(0) == np.ceil(sparsity * 50)).all()
    if 0 < sparsity < 1:
        assert zero.sum(1).std() > 0.5  # not always the same rows
    if sparsity < 1:
        assert abs(values(p)[~zero].std() - 0.5) < 0.03


OLD = [
    ("uniform", (0.0, 2.0)),
    ("normal", (1.0, 0.1)),
    ("constant", (2.0,)),
    ("eye", ()),
    ("xavier_uniform", (2.0,)),
    ("xavier_normal", ()),
    ("kaiming_uniform", ()),
    ("kaiming_normal", ()),
    ("orthogonal", ()),
    ("sparse", (0.5,)),
]


@pytest.mark.parametrize(("name", "args"), OLD, ids=[name for name, _ in OLD])
def test_old_names_warn_and_do_the_same(name, args):
    got, expected = [fx.nn.Parameter(fx.ones((4, 4))) for _ in range(2)]
    fx.manual_seed(0)
    message = f"`nn.init.{name}` is now deprecated in favor of `nn.init.{name}_`."
    with pytest.warns(FutureWarning, match=message):
        assert getattr(init, name)(got, *args) is got
    with pytest.warns(FutureWarning) as theirs:
        getattr(torch.nn.init, name)(torch.ones(4, 4), *args)
    assert str(theirs[0].message) == message
    fx.manual_seed(0)
    close(got, getattr(init, f"{name}_")(expected, *args))


DRAWN = [
    ("uniform_", ()),
    ("normal_", ()),
    ("trunc_normal_", ()),
    ("xavier_uniform_", ()),
    ("xavier_normal_", ()),
    ("kaiming_uniform_", ()),
    ("kaiming_normal_", ()),
    ("orthogonal_", ()),
    ("sparse_", (0.5,)),
]


@pytest.mark.parametrize(("name", "args"), DRAWN, ids=[name for name, _ in DRAWN])
def test_generators_and_what_is_initialised(name, args):
    draw = getattr(init, name)
    cells = [fx.nn.Parameter(fx.ones((4, 6))), fx.nn.Buffer(fx.ones((4, 6)))]
    handle = fx.nn.Parameter(fx.ones((4, 6)))
    generator = fx.Generator().manual_seed(5)
    first = values(draw(cells[0], *args, generator=generator))
    second = values(draw(cells[1], *args, generator=generator))
    assert not (first == second).all()
    draw(handle.data, *args, generator=fx.Generator().manual_seed(5))
    np.testing.assert_array_equal(values(handle), first)
    assert handle.requires_grad
    with pytest.raises(InPlaceError, match=rf"init\.{name} gives .*; write p = fx\.nn\.Parameter"):
        draw(fx.ones((4, 6)), *args)


def test_fans_and_what_does_not_fit():
    theirs = torch.nn.init
    w = fx.zeros((8, 3, 5, 2))
    shape = torch.zeros(8, 3, 5, 2)
    assert init._calculate_fan_in_and_fan_out(w) == theirs._calculate_fan_in_and_fan_out(shape)
    for mode in ("fan_in", "FAN_OUT"):
        assert init._calculate_correct_fan(w, mode) == theirs._calculate_correct_fan(shape, mode)
    with pytest.raises(ValueError, match="mode fan not supported, please use one of"):
        init.correct_fan(w, "fan")
    p = fx.nn.Parameter(fx.zeros((3, 4)))
    with pytest.raises(ValueError, match="with 3, 4 or 5 axes"):
        init.dirac_(p)
    with pytest.raises(ValueError, match="dim 0 must be divisible by groups"):
        init.dirac_(fx.nn.Parameter(w), 3)
    with pytest.raises(ValueError, match=r"sparse_ takes two axes, got shape \(8, 3, 5, 2\)"):
        init.sparse_(fx.nn.Parameter(w), 0.5)
    with pytest.warns(UserWarning, match="Initializing zero-element tensors is a no-op"):
        init.kaiming_normal_(fx.nn.Parameter(fx.zeros((0, 3))))
    with pytest.warns(UserWarning, match="more than 2 std"):
        init.trunc_normal_(p, mean=5.0)
