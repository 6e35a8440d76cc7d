"""Losses with margins against torch's: functions and layers, every option, transforms, refusals."""

import numpy as np
import pytest

import fx
from fx.errors import DTypeError, ShapeError
from fx.nn.functional import margin_losses

torch = pytest.importorskip("torch")

from tests.nn.oracle import arrays, check, close

F, T = fx.nn.functional, torch.nn.functional
REDUCTIONS = ["none", "mean", "sum"]
X, Y, Z = arrays((4, 5), (4, 5), (4, 5))
SIGNS = np.where(arrays((4, 5), seed=3)[0] > 0, 1.0, -1.0)
ROWS = SIGNS[:, 0].copy()
CLASSES = np.array([0, 4, 2, 2])
LABELS = np.array([[3, 0, -1, 1, 2], [-1, 0, 0, 0, 0], [4, 3, 2, 1, 0], [1, 1, -1, -1, -1]])
W = np.array([1.0, 0.5, 2.0, 0.1, 1.5])

# name, the layer's class, floating arguments, other arguments, options
CASES = [
    ("margin_ranking_loss", "MarginRankingLoss", (X, Y), (SIGNS,), {}),
    ("margin_ranking_loss", "MarginRankingLoss", (X, Y), (SIGNS,), {"margin": 0.7}),
    ("hinge_embedding_loss", "HingeEmbeddingLoss", (X,), (SIGNS,), {}),
    ("hinge_embedding_loss", "HingeEmbeddingLoss", (X,), (SIGNS,), {"margin": 0.3}),
    ("cosine_embedding_loss", "CosineEmbeddingLoss", (X, Y), (ROWS,), {}),
    ("cosine_embedding_loss", "CosineEmbeddingLoss", (X, Y), (ROWS,), {"margin": -0.2}),
    ("cosine_embedding_loss", "CosineEmbeddingLoss", (X[0], Y[0]), (ROWS[1],), {}),
    ("multi_margin_loss", "MultiMarginLoss", (X,), (CLASSES,), {}),
    ("multi_margin_loss", "MultiMarginLoss", (X,), (CLASSES,), {"p": 2, "margin": 0.4}),
    ("multi_margin_loss", "MultiMarginLoss", (X[0],), (CLASSES[1],), {}),
    ("multi_margin_loss", "MultiMarginLoss", (X,), (CLASSES,), {"weight": W}),
    ("multilabel_margin_loss", "MultiLabelMarginLoss", (X,), (LABELS,), {}),
    ("multilabel_margin_loss", "MultiLabelMarginLoss", (X[0],), (LABELS[0],), {}),
    ("triplet_margin_loss", "TripletMarginLoss", (X, Y, Z), (), {}),
    ("triplet_margin_loss", "TripletMarginLoss", (X, Y, Z), (), {"p": 1, "swap": True}),
    ("triplet_margin_loss", "TripletMarginLoss", (X[0], Y[0], Z[0]), (), {"margin": 3.0}),
    ("triplet_margin_loss", "TripletMarginLoss", (X, Y, Z), (), {"p": 3.0, "eps": 1e-3}),
    (
        "triplet_margin_with_distance_loss", "TripletMarginWithDistanceLoss", (X, Y, Z), (),
        {"swap": True, "margin": 2.0},
    ),
    (
        "triplet_margin_with_distance_loss", "TripletMarginWithDistanceLoss", (X, Y, Z), (),
        {"distance_function": lambda a, b: abs(a - b).sum(-1)},
    ),
]  # fmt: skip


def made(options, make):
    """Options with arrays as tensors."""
    return {k: make(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}


def shown(case):
    """The function and its options; a function among them by its name alone."""
    options = {k: v.__name__ if callable(v) else v for k, v in case[4].items()}
    return f"{case[0]} {options}"


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("case", CASES, ids=shown)
def test_functions_and_layers(case, reduction):
    name, layer, inputs, others, options = case
    ours = {**made(options, fx.tensor), "reduction": reduction}
    theirs = {**made(options, torch.tensor), "reduction": reduction}
    check(
        lambda *xs: getattr(F, name)(*xs, *map(fx.tensor, others), **ours),
        lambda *xs: getattr(T, name)(*xs, *map(torch.tensor, others), **theirs),
        *inputs,
    )
    mine, other = getattr(fx.nn, layer)(**ours), getattr(torch.nn, layer)(**theirs)
    if "distance_function" not in options:
        assert repr(mine) == repr(other)
    assert list(mine.state_dict()) == list(other.state_dict())
    xs = [fx.tensor(a) for a in (*inputs, *others)]
    close(mine(*xs), other(*[torch.tensor(a) for a in (*inputs, *others)]))


@pytest.mark.parametrize("case", CASES, ids=shown)
def test_under_transforms(case):
    name, _, inputs, others, options = case
    options, rest = made(options, fx.tensor), [fx.tensor(a) for a in others]
    xs = [fx.tensor(a) for a in inputs]
    f = lambda *xs: getattr(F, name)(*xs, *rest, **options)
    gradient = fx.grad(f)
    close(fx.jit(gradient)(*xs), gradient(*xs))
    lanes = [fx.stack([x, x * 0.5, -x]) for x in xs]
    loop = fx.stack([gradient(*[x[i] for x in lanes]) for i in range(3)])
    close(fx.vmap(gradient)(*lanes), loop)


@pytest.mark.parametrize(("average", "reduce"), [(None, False), (False, None), (True, True)])
@pytest.mark.parametrize(
    "case", [CASES[0], CASES[2], CASES[4], CASES[7], CASES[11], CASES[13]], ids=lambda c: c[0]
)
def test_old_reductions(case, average, reduce):
    name, layer, inputs, others, options = case
    flags = {"size_average": average, "reduce": reduce}
    tensors = [torch.tensor(a) for a in (*inputs, *others)]
    with pytest.warns(UserWarning, match="please use reduction") as warned:
        got = getattr(F, name)(*map(fx.tensor, (*inputs, *others)), **options, **flags)
        close(got, getattr(T, name)(*tensors, **options, **flags))
        mine = getattr(fx.nn, layer)(**options, **flags)
        assert mine.reduction == getattr(torch.nn, layer)(**options, **flags).reduction
    assert len({str(w.message) for w in warned}) == 1
    assert len(warned) == 4


A, INT = fx.ones((4, 5)), fx.zeros(4, dtype="int64")
REFUSED = [
    (lambda: F.margin_ranking_loss(A, A, fx.ones(4)), ShapeError, "same number of axes"),
    (lambda: F.cosine_embedding_loss(A, A, A), ShapeError, r"target \(batch,\)"),
    (lambda: F.triplet_margin_loss(A, A, fx.ones(5)), ShapeError, "same number of axes"),
    (lambda: F.triplet_margin_loss(A, A, A, margin=0), ValueError, "greater than 0"),
    (lambda: fx.nn.TripletMarginLoss(margin=-1), ValueError, "greater than 0"),
    (lambda: fx.nn.TripletMarginWithDistanceLoss(margin=0), ValueError, "greater than 0"),
    (lambda: F.multi_margin_loss(A, INT, p=3), ValueError, "p == 1 and p == 2"),
    (lambda: fx.nn.MultiMarginLoss(p=3), ValueError, "p == 1 and p == 2"),
    (lambda: fx.nn.MultiMarginLoss(weight=A), ValueError, r"\(classes,\)"),
    (lambda: F.multi_margin_loss(A, fx.ones(4)), DTypeError, "integers"),
    (lambda: F.multi_margin_loss(A, INT[:2]), ShapeError, "one class a row"),
    (lambda: F.multi_margin_loss(A, INT, weight=A[0, :2]), ShapeError, "weight"),
    (lambda: F.multilabel_margin_loss(A, INT), ShapeError, "target"),
    (lambda: F.multilabel_margin_loss(fx.ones((1, 2, 3)), fx.ones((1, 2, 3)).astype("int64")),
     ShapeError, "classes"),
    (lambda: F.hinge_embedding_loss(A, A, reduction="median"), ValueError, "median"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "match"), REFUSED)
def test_refused(call, error, match):
    with pytest.raises(error, match=match):
        call()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_margins_of_many_labels_are_the_composed_ones(dtype):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(50, 7)).astype(dtype), rng.integers(-1, 7, size=(50, 7))
    x[3, 2], y[5], y[6], y[7] = np.nan, -1, [1, 1, 2, 2, -1, 3, 3], range(7)
    scores, labels = fx.tensor(x), fx.tensor(y)
    assert margin_losses._multilabel.cpu(x, y) is not None
    found = margin_losses._multilabel(scores, labels)
    wanted = margin_losses._multilabel_in_steps(scores, labels)
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=2e-6)
    ct = fx.tensor(rng.normal(size=50).astype(dtype))
    found = margin_losses._multilabel_grad(ct, scores, labels)
    wanted = margin_losses._multilabel_grad_in_steps(ct, scores, labels)
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), atol=2e-6)
    with pytest.raises(IndexError, match="is out of range for axis 1"):
        F.multilabel_margin_loss(scores, labels + 3)
