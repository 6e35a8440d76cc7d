"""Losses against torch's: values, gradients, every option, and what they refuse."""

import itertools

import numpy as np
import pytest

import fx
from fx.errors import DTypeError, IndexingError, ShapeError

torch = pytest.importorskip("torch")

from tests.nn.oracle import arrays, check, close

F, T = fx.nn.functional, torch.nn.functional
REDUCTIONS = ["none", "mean", "sum"]
FLAGS = list(itertools.product([None, True, False], repeat=2))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("mse_loss", {}),
        ("l1_loss", {}),
        ("smooth_l1_loss", {}),
        ("smooth_l1_loss", {"beta": 0.3}),
        ("smooth_l1_loss", {"beta": 0.0}),
        ("huber_loss", {"delta": 0.4}),
    ],
    ids=str,
)
def test_distances(name, options, reduction):
    x, y = arrays((3, 4), (3, 4))
    check(
        lambda x, y: getattr(F, name)(x, y, reduction=reduction, **options),
        lambda x, y: getattr(T, name)(x, y, reduction=reduction, **options),
        x,
        y,
    )


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "huber_loss"])
def test_weighted_distances(name, reduction):
    x, y, w = arrays((3, 4), (3, 4), (3, 4))
    w = w**2
    check(
        lambda x, y: getattr(F, name)(x, y, reduction=reduction, weight=fx.tensor(w)),
        lambda x, y: getattr(T, name)(x, y, reduction=reduction, weight=torch.tensor(w)),
        x,
        y,
    )


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weighted", [False, True])
def test_binary_cross_entropy(reduction, weighted):
    x, y, w = arrays((3, 4), (3, 4), (4,))
    p, y, w = 1 / (1 + np.exp(-x)), 1 / (1 + np.exp(-y)), w**2
    ours = {"weight": fx.tensor(w)} if weighted else {}
    theirs = {"weight": torch.tensor(w)} if weighted else {}
    check(
        lambda p: F.binary_cross_entropy(p, fx.tensor(y), reduction=reduction, **ours),
        lambda p: T.binary_cross_entropy(p, torch.tensor(y), reduction=reduction, **theirs),
        p,
    )
    check(
        lambda x, y: F.binary_cross_entropy_with_logits(x, y, reduction=reduction, **ours),
        lambda x, y: T.binary_cross_entropy_with_logits(x, y, reduction=reduction, **theirs),
        x * 30,
        y,
    )


def test_binary_cross_entropy_at_its_ends():
    p = np.array([0.0, 1.0, 0.0, 1.0, 0.3], "float32")
    y = np.array([0.0, 1.0, 1.0, 0.2, 0.7], "float32")
    check(
        lambda p: F.binary_cross_entropy(p, fx.tensor(y), reduction="none"),
        lambda p: T.binary_cross_entropy(p, torch.tensor(y), reduction="none"),
        p,
    )


def test_binary_cross_entropy_under_transforms():
    p, y = (1 / (1 + np.exp(-a)) for a in arrays((3, 4), (3, 4)))
    q, z = fx.tensor(p), fx.tensor(y)
    got = fx.hessian(lambda p: F.binary_cross_entropy(p, z))(q)
    plain = fx.hessian(lambda p: -(z * fx.log(p) + (1 - z) * fx.log(1 - p)).mean())(q)
    np.testing.assert_allclose(got.numpy(), plain.numpy(), rtol=1e-9, atol=1e-10)
    rows = fx.vmap(F.binary_cross_entropy)(q, z)
    loop = [float(F.binary_cross_entropy(q[i], z[i])) for i in range(3)]
    np.testing.assert_allclose(rows.numpy(), loop)


@pytest.mark.parametrize("bad", [2.0, -0.5, np.inf, np.nan])
@pytest.mark.parametrize("place", [0, 1])
def test_binary_cross_entropy_of_no_probability(bad, place):
    pair = [fx.tensor([0.3, 0.6, 0.9]), fx.tensor([0.0, 1.0, 0.5])]
    good = F.binary_cross_entropy(*pair, reduction="none")
    pair[place] = pair[place].at[1].set(bad)
    with pytest.raises(RuntimeError, match=r"all elements of .* should be between 0 and 1"):
        F.binary_cross_entropy(*pair)

    def losses(*pair):
        return F.binary_cross_entropy(*pair, reduction="none")

    def slope(*pair):
        return fx.grad(lambda p: losses(p, pair[1]).sum())(pair[0])

    for found in (fx.jit(losses)(*pair), fx.vmap(losses)(*pair)):
        np.testing.assert_array_equal(np.isnan(found.numpy()), [False, True, False])
        np.testing.assert_allclose(found.numpy()[::2], good.numpy()[::2], rtol=1e-6)
    slopes = [fx.jit(slope)] if place else [slope, fx.jit(slope)]  # a plain target is refused
    for found in [f(*pair) for f in slopes]:
        np.testing.assert_array_equal(np.isnan(found.numpy()), [False, True, False])


def test_binary_cross_entropy_with_weighted_positives():
    x, y, w = arrays((3, 4), (3, 4), (4,))
    y = (y > 0) * 1.0
    check(
        lambda x: F.binary_cross_entropy_with_logits(x, fx.tensor(y), pos_weight=fx.tensor(w**2)),
        lambda x: T.binary_cross_entropy_with_logits(
            x, torch.tensor(y), pos_weight=torch.tensor(w**2)
        ),
        x,
    )


SHAPES = [((3,), ()), ((5, 3), (5,)), ((2, 3, 4), (2, 4)), ((2, 3, 2, 2), (2, 2, 2))]


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_cross_entropy_of_indices(reduction, shapes, weighted, smoothing):
    x, w = arrays(shapes[0], (3,))
    y = np.random.default_rng(1).integers(0, 3, shapes[1])
    if y.ndim:
        y.reshape(-1)[0] = -100
    ours = {"weight": fx.tensor(w**2)} if weighted else {}
    theirs = {"weight": torch.tensor(w**2)} if weighted else {}
    both = {"reduction": reduction, "label_smoothing": smoothing}
    check(
        lambda x: F.cross_entropy(x, fx.tensor(y), **ours, **both),
        lambda x: T.cross_entropy(x, torch.tensor(y), **theirs, **both),
        x,
    )


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shape", [(3,), (5, 3), (2, 3, 4)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_cross_entropy_of_probabilities(reduction, shape, weighted, smoothing):
    x, y, w = arrays(shape, shape, (3,))
    y = np.exp(y) / np.exp(y).sum(min(1, len(shape) - 1), keepdims=True)
    ours = {"weight": fx.tensor(w**2)} if weighted else {}
    theirs = {"weight": torch.tensor(w**2)} if weighted else {}
    both = {"reduction": reduction, "label_smoothing": smoothing}
    check(
        lambda x, y: F.cross_entropy(x, y, **ours, **both),
        lambda x, y: T.cross_entropy(x, y, **theirs, **both),
        x,
        y,
    )


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weighted", [False, True])
def test_nll_loss(reduction, weighted):
    x, w = arrays((4, 3, 2), (3,))
    y = np.random.default_rng(1).integers(0, 3, (4, 2))
    ours = {"weight": fx.tensor(w**2)} if weighted else {}
    theirs = {"weight": torch.tensor(w**2)} if weighted else {}
    both = {"reduction": reduction, "ignore_index": 1}
    check(
        lambda x: F.nll_loss(x, fx.tensor(y), **ours, **both),
        lambda x: T.nll_loss(x, torch.tensor(y), **theirs, **both),
        x,
    )


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64"])
def test_targets_of_every_integer_dtype(dtype):
    (x,) = arrays((4, 3))
    y = np.array([0, 2, 1, 1])
    got = F.cross_entropy(fx.tensor(x), fx.tensor(y.astype(dtype)))
    close(got, T.cross_entropy(torch.tensor(x), torch.tensor(y)))


def test_cross_entropy_of_large_logits_and_nothing_used():
    x = np.array([[1e4, 0.0], [0.0, 1e4]])
    y = np.array([0, 0])
    expected = T.cross_entropy(torch.tensor(x), torch.tensor(y))
    close(F.cross_entropy(fx.tensor(x), fx.tensor(y)), expected)
    none = np.array([-100, -100])
    assert np.isnan(float(F.cross_entropy(fx.tensor(x), fx.tensor(none))))


@pytest.mark.parametrize(("average", "reduce"), FLAGS)
@pytest.mark.filterwarnings("ignore:size_average and reduce args")
def test_the_old_pair_of_flags(average, reduce):
    x, y = arrays((3,), (3,))
    close(
        F.mse_loss(fx.tensor(x), fx.tensor(y), average, reduce),
        T.mse_loss(torch.tensor(x), torch.tensor(y), average, reduce),
    )


@pytest.mark.parametrize(
    "name",
    ["MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss", "BCELoss", "BCEWithLogitsLoss"],
)
def test_distance_layers(name):
    x, y = (1 / (1 + np.exp(-a)) for a in arrays((3, 4), (3, 4)))
    ours, theirs = getattr(fx.nn, name)(reduction="sum"), getattr(torch.nn, name)(reduction="sum")
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    check(ours, theirs, x, y)


@pytest.mark.parametrize("name", ["CrossEntropyLoss", "NLLLoss"])
def test_class_layers(name):
    x, w = arrays((4, 3), (3,))
    y = np.array([0, 2, 1, 1])
    ours = getattr(fx.nn, name)(fx.tensor(w**2), ignore_index=2)
    theirs = getattr(torch.nn, name)(torch.tensor(w**2), ignore_index=2)
    assert list(ours.state_dict()) == list(theirs.state_dict()) == ["weight"]
    check(lambda x: ours(x, fx.tensor(y)), lambda x: theirs(x, torch.tensor(y)), x)


def test_shapes_that_differ_are_broadcast_with_a_warning():
    x, y = arrays((4, 1), (4,))
    with pytest.warns(UserWarning, match=r"all pairs of their broadcast \(4, 4\)"):
        got = F.mse_loss(fx.tensor(x), fx.tensor(y))
    with pytest.warns(UserWarning, match="Using a target size"):
        close(got, T.mse_loss(torch.tensor(x), torch.tensor(y)))


def test_gradients_of_gradients():
    x, _ = arrays((4, 3), ())
    y = np.array([0, 2, 1, 1])
    got = fx.hessian(lambda x: F.cross_entropy(x, fx.tensor(y), label_smoothing=0.1))(fx.tensor(x))
    expected = torch.func.hessian(
        lambda x: T.cross_entropy(x, torch.tensor(y), label_smoothing=0.1)
    )
    close(got, expected(torch.tensor(x)))


def test_what_losses_refuse():
    x = fx.ones((4, 3))
    with pytest.raises(ShapeError, match=r"cross_entropy: the input has shape \(4, 3\) and the"):
        F.binary_cross_entropy(x, fx.ones((4, 1)))
    with pytest.raises(ShapeError, match=r"mse_loss: shapes .* do not broadcast"):
        F.mse_loss(x, fx.ones((4, 2)))
    with pytest.raises(ValueError, match="'avg' is not a valid value for reduction"):
        F.mse_loss(x, x, reduction="avg")
    with pytest.raises(ShapeError, match=r"the target must have shape \(4,\), one class index"):
        F.cross_entropy(x, fx.zeros((4, 1), dtype=fx.int64))
    with pytest.raises(ShapeError, match=r"class indices must be integers: y.astype"):
        F.cross_entropy(x, fx.zeros(4))
    with pytest.raises(DTypeError, match="nll_loss: the target must hold class indices"):
        F.nll_loss(x, fx.zeros(4))
    with pytest.raises(IndexingError, match=r"outside 0\.\.2"):
        F.cross_entropy(x, fx.tensor([0, 1, 2, 3]))
    with pytest.raises(ShapeError, match=r"the weight must have shape \(3,\), one a class"):
        F.cross_entropy(x, fx.zeros(4, dtype=fx.int64), fx.ones(4))
    with pytest.raises(ValueError, match=r"label_smoothing must be in \[0, 1\], got 2"):
        F.cross_entropy(x, fx.zeros(4, dtype=fx.int64), label_smoothing=2)
    with pytest.raises(ValueError, match="huber_loss: delta must be positive"):
        F.huber_loss(x, x, delta=0)
