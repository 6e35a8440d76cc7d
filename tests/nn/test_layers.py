"""Layers against torch's with copied weights: state keys, repr, values, gradients, buffers."""

from collections import OrderedDict

import numpy as np
import pytest

import fx
from fx.errors import InPlaceError, ShapeError

torch = pytest.importorskip("torch")

from tests.nn.oracle import arrays, check_layer, close, twins


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda nn: nn.BatchNorm1d(3), (4, 3)),
        (lambda nn: nn.BatchNorm1d(3, momentum=None), (4, 3, 5)),
        (lambda nn: nn.BatchNorm2d(3, eps=0.1, momentum=0.3), (2, 3, 4, 2)),
        (lambda nn: nn.BatchNorm2d(3, affine=False), (2, 3, 4, 2)),
        (lambda nn: nn.BatchNorm2d(3, track_running_stats=False), (2, 3, 4, 2)),
        (lambda nn: nn.BatchNorm3d(3), (2, 3, 2, 2, 2)),
        (lambda nn: nn.SyncBatchNorm(3), (2, 3, 4)),
        (lambda nn: nn.SyncBatchNorm(3, momentum=None, affine=False), (4, 3)),
        (lambda nn: nn.InstanceNorm1d(3, track_running_stats=True), (2, 3, 4)),
        (lambda nn: nn.InstanceNorm2d(3, momentum=0.3, track_running_stats=True), (3, 4, 2)),
        (lambda nn: nn.InstanceNorm3d(3, affine=True, track_running_stats=True), (2, 3, 2, 2, 2)),
        (lambda nn: nn.InstanceNorm1d(3, momentum=None, track_running_stats=True), (2, 3, 4)),
    ],
    ids=lambda v: None if callable(v) else str(v),
)
def test_batch_norm_over_three_batches_and_in_evaluation(make, shape):
    ours, theirs = check_layer(make, *arrays(shape), rounds=3)
    ours.eval(), theirs.eval()
    (x,) = arrays(shape, seed=5)
    close(ours(fx.tensor(x)), theirs(torch.tensor(x)))


def test_batch_norm_forgets_when_told():
    layer = fx.nn.BatchNorm1d(2)
    layer(fx.ones((3, 2)))
    assert int(layer.num_batches_tracked) == 1
    layer.reset_running_stats()
    assert int(layer.num_batches_tracked) == 0
    np.testing.assert_array_equal(layer.running_mean.numpy(), 0)
    np.testing.assert_array_equal(layer.running_var.numpy(), 1)


def test_batch_norm_refuses_other_ranks():
    with pytest.raises(ShapeError, match=r"BatchNorm2d takes \(batch, channels, height, width\)"):
        fx.nn.BatchNorm2d(3)(fx.ones((2, 3)))


@pytest.mark.parametrize("options", [{}, {"padding_idx": -2}, {"scale_grad_by_freq": True}])
def test_embedding(options):
    idx = np.array([[0, 1, 4], [3, 3, 2]])
    ours, theirs = check_layer(lambda nn: nn.Embedding(5, 3, **options), idx)
    assert ours.padding_idx == theirs.padding_idx


def test_embedding_from_a_table():
    (table,) = arrays((4, 2))
    layer = fx.nn.Embedding.from_pretrained(fx.tensor(table))
    theirs = torch.nn.Embedding.from_pretrained(torch.tensor(table))
    assert not layer.weight.requires_grad and repr(layer) == repr(theirs)
    close(layer(fx.tensor([3, 0])), theirs(torch.tensor([3, 0])))
    padded = fx.nn.Embedding(4, 2, padding_idx=1).weight[1]
    np.testing.assert_array_equal(padded.detach().numpy(), 0)


def test_transposed_convolution_takes_an_output_size():
    (x,) = arrays((1, 2, 5, 5))
    ours, theirs = twins(lambda nn: nn.ConvTranspose2d(2, 3, 3, stride=2, padding=1))
    for size in [(9, 9), (10, 9), [1, 3, 10, 10]]:
        close(ours(fx.tensor(x), size), theirs(torch.tensor(x), size))
    with pytest.raises(ShapeError, match=r"output_size \(11, 9\) must lie between \(9, 9\)"):
        ours(fx.tensor(x), (11, 9))


def test_a_whole_network_in_float32():
    def make(nn):
        return nn.Sequential(
            OrderedDict(
                conv=nn.Conv2d(1, 4, 3, padding=1),
                norm=nn.BatchNorm2d(4),
                act=nn.ReLU(),
                pool=nn.MaxPool2d(2),
                flat=nn.Flatten(),
                head=nn.Sequential(nn.Linear(64, 16), nn.GELU(), nn.Linear(16, 10)),
            )
        )

    check_layer(make, *arrays((5, 1, 8, 8), dtype="float32"), dtype="float32")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda nn: nn.Conv2d(3, 4, 2, groups=2), "in_channels 3 must be divisible by groups 2"),
        (lambda nn: nn.Conv2d(4, 4, 2, groups=0), "groups must be a positive integer"),
        (lambda nn: nn.Conv2d(4, 4, 2, padding="full"), "padding must be ints, 'same' or 'valid'"),
        (lambda nn: nn.Conv2d(4, 4, 2, 2, padding="same"), "not supported for strided"),
        (lambda nn: nn.Conv2d(4, 4, 2, padding_mode="wrap"), "padding_mode must be one of zeros"),
        (lambda nn: nn.ConvTranspose1d(4, 4, 2, padding_mode="reflect"), "only padding by numbers"),
        (lambda nn: nn.GroupNorm(2, 3), r"num_channels \(3\) must be divisible by num_groups"),
        (lambda nn: nn.Dropout(-0.1), "dropout probability has to be between 0 and 1"),
        (lambda nn: nn.Embedding(3, 2, padding_idx=3), "padding_idx 3 must be within"),
    ],
)
def test_constructors_refuse(make, message):
    with pytest.raises(ValueError, match=message):
        make(fx.nn)


# initialisers -----------------------------------------------------------------------------------

init = fx.nn.init


def sample(name, *args, shape=(200, 100, 5), **options):
    fx.manual_seed(0)
    p = fx.nn.Parameter(fx.zeros(shape))
    assert getattr(init, name)(p, *args, **options) is p
    return p.detach().numpy()


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("uniform_", (-2.0, 3.0)),
        ("normal_", (1.0, 0.5)),
        ("xavier_uniform_", (2.0,)),
        ("xavier_normal_", ()),
        ("kaiming_uniform_", (0.3,)),
        ("kaiming_normal_", (0, "fan_out", "relu")),
        ("trunc_normal_", (0.5, 2.0, -1.0, 3.0)),
    ],
)
def test_initialisers_have_torchs_distribution(name, args):
    got = sample(name, *args)
    torch.manual_seed(0)
    expected = getattr(torch.nn.init, name)(torch.zeros(200, 100, 5), *args).numpy()
    spread = expected.std()
    assert abs(got.mean() - expected.mean()) < 0.05 * spread
    assert abs(got.std() / spread - 1) < 0.03
    quantiles = np.linspace(0.02, 0.98, 9)
    np.testing.assert_allclose(
        np.quantile(got, quantiles), np.quantile(expected, quantiles), atol=0.05 * spread
    )
    if "uniform" in name or "trunc" in name:
        assert abs(abs(got).max() / abs(expected).max() - 1) < 0.01


def test_constant_initialisers():
    np.testing.assert_array_equal(sample("constant_", 3.5), np.full((200, 100, 5), 3.5))
    np.testing.assert_array_equal(sample("ones_"), np.ones((200, 100, 5)))
    np.testing.assert_array_equal(sample("zeros_"), np.zeros((200, 100, 5)))
    np.testing.assert_array_equal(sample("eye_", shape=(3, 4)), np.eye(3, 4))


@pytest.mark.parametrize("shape", [(5, 5), (4, 7), (7, 4), (6, 2, 5)])
def test_orthogonal(shape):
    q = sample("orthogonal_", 2.0, shape=shape).reshape(shape[0], -1) / 2.0
    small = q @ q.T if q.shape[0] <= q.shape[1] else q.T @ q
    np.testing.assert_allclose(small, np.eye(len(small)), atol=1e-5)


@pytest.mark.parametrize(
    "name", ["linear", "conv2d", "sigmoid", "tanh", "relu", "leaky_relu", "selu"]
)
def test_gains(name):
    assert init.calculate_gain(name) == torch.nn.init.calculate_gain(name)
    assert init.calculate_gain("leaky_relu", 0.2) == torch.nn.init.calculate_gain("leaky_relu", 0.2)


@pytest.mark.parametrize(
    "make",
    [
        lambda nn: nn.Linear(50, 400),
        lambda nn: nn.Conv2d(8, 100, 3),
        lambda nn: nn.ConvTranspose2d(20, 100, 3),
        lambda nn: nn.Embedding(100, 50),
    ],
)
def test_layers_begin_with_torchs_distribution(make):
    fx.manual_seed(0), torch.manual_seed(0)
    ours, theirs = make(fx.nn), make(torch.nn)
    for (name, p), q in zip(ours.named_parameters(), theirs.parameters()):
        a, b = p.detach().numpy(), q.detach().numpy()
        loose = 0.25 if b.size < 1000 else 0.05
        assert abs(a.std() / b.std() - 1) < loose, name
        assert abs(a.mean()) < loose * b.std() + 1e-3, name


def test_initialisers_repeat_with_the_seed_and_a_generator():
    a, b = sample("normal_"), sample("normal_")
    np.testing.assert_array_equal(a, b)
    g = fx.Generator().manual_seed(3)
    first = sample("normal_", generator=g)
    np.testing.assert_array_equal(first, sample("normal_", generator=g.manual_seed(3)))
    assert (first != a).any()


def test_what_initialisers_refuse():
    with pytest.raises(InPlaceError, match=r"init.uniform_ gives a Parameter or Buffer new values"):
        init.uniform_(fx.zeros(3))
    with pytest.raises(ShapeError, match="fewer than 2 dimensions"):
        init.xavier_uniform_(fx.nn.Parameter(fx.zeros(3)))
    with pytest.raises(ValueError, match="unsupported nonlinearity 'cube'"):
        init.calculate_gain("cube")
    with pytest.raises(ValueError, match="mode fan not supported"):
        init.kaiming_normal_(fx.nn.Parameter(fx.zeros((2, 2))), mode="fan")


# utils ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [1.0, 2.0, float("inf")])
@pytest.mark.parametrize("limit", [0.1, 100.0])
def test_clip_grad_norm(p, limit):
    ours, theirs = twins(lambda nn: nn.Linear(4, 3))
    (x,) = arrays((5, 4))
    (ours(fx.tensor(x)) ** 2).sum().backward()
    (theirs(torch.tensor(x)) ** 2).sum().backward()
    total = fx.nn.utils.clip_grad_norm_(ours.parameters(), limit, p)
    close(total, torch.nn.utils.clip_grad_norm_(theirs.parameters(), limit, p))
    for a, b in zip(ours.parameters(), theirs.parameters()):
        close(a.grad, b.grad)
    fx.nn.utils.clip_grad_value_(ours.parameters(), 0.01)
    torch.nn.utils.clip_grad_value_(theirs.parameters(), 0.01)
    for a, b in zip(ours.parameters(), theirs.parameters()):
        close(a.grad, b.grad)


def test_clip_grad_norm_that_is_not_finite():
    w = fx.nn.Parameter(fx.tensor([1.0]))
    w.grad = fx.tensor([float("inf")])
    with pytest.raises(RuntimeError, match=r"the total norm of order 2.0 of the gradients is inf"):
        fx.nn.utils.clip_grad_norm_([w], 1.0, error_if_nonfinite=True)


def test_parameters_as_a_vector():
    ours, theirs = twins(lambda nn: nn.Linear(4, 3))
    vector = fx.nn.utils.parameters_to_vector(ours.parameters())
    close(vector, torch.nn.utils.parameters_to_vector(theirs.parameters()))
    vector.sum().backward()
    np.testing.assert_array_equal(ours.weight.grad.numpy(), 1.0)
    fx.nn.utils.vector_to_parameters(vector.detach() * 2, ours.parameters())
    close(ours.weight, theirs.weight * 2)
    with pytest.raises(ShapeError, match="the parameters have 15 elements"):
        fx.nn.utils.vector_to_parameters(fx.zeros(14), ours.parameters())
