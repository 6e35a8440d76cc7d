"""Losses of distributions, and the linear cross-entropy, against torch's."""

import warnings

import numpy as np
import pytest

import fx
from fx.errors import ShapeError

torch = pytest.importorskip("torch")

from tests.nn.oracle import arrays, check, check_layer, close, twins

F, T = fx.nn.functional, torch.nn.functional
REDUCTIONS = ["none", "mean", "sum"]
X, Y = arrays((4, 5), (4, 5))
V = np.exp(arrays((4, 5), seed=7)[0])
V[0, 0] = 1e-9  # below eps
COUNTS = np.random.default_rng(0).integers(0, 6, (4, 5)).astype("float64")
P = np.exp(Y) / np.exp(Y).sum(1, keepdims=True)
P0 = np.where(P < 0.1, 0.0, P)
LOGS = X - np.log(np.exp(X).sum(1, keepdims=True))
ONES = (Y > 0) * 1.0
SIGNS = np.where(Y > 0, 1.0, -1.0)
W = np.array([1.0, 0.5, 2.0, 0.1, 1.5])

# name, layer, differentiable arguments, other arguments, options
CASES = [
    ("gaussian_nll_loss", "GaussianNLLLoss", (X, Y, V), (), {}),
    ("gaussian_nll_loss", "GaussianNLLLoss", (X, Y, V), (), {"full": True, "eps": 0.5}),
    ("gaussian_nll_loss", "GaussianNLLLoss", (X, Y, V[:, 0]), (), {}),
    ("gaussian_nll_loss", "GaussianNLLLoss", (X, Y, V[:, :1]), (), {}),
    ("poisson_nll_loss", "PoissonNLLLoss", (X,), (COUNTS,), {}),
    ("poisson_nll_loss", "PoissonNLLLoss", (X,), (COUNTS,), {"full": True}),
    ("poisson_nll_loss", "PoissonNLLLoss", (V,), (COUNTS,), {"log_input": False, "eps": 1e-3}),
    ("kl_div", "KLDivLoss", (LOGS, P), (), {}),
    ("kl_div", "KLDivLoss", (LOGS,), (P0,), {}),
    ("kl_div", "KLDivLoss", (LOGS, LOGS * 0.5), (), {"log_target": True}),
    ("soft_margin_loss", "SoftMarginLoss", (X,), (SIGNS,), {}),
    ("multilabel_soft_margin_loss", "MultiLabelSoftMarginLoss", (X,), (ONES,), {}),
    ("multilabel_soft_margin_loss", "MultiLabelSoftMarginLoss", (X,), (ONES,), {"weight": W}),
]  # fmt: skip
IDS = {"ids": lambda c: f"{c[0]} {list(c[4])}"}


def made(options, make):
    """Options with arrays as tensors."""
    return {k: make(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}


@pytest.mark.filterwarnings("ignore:.*mean")
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("case", CASES, **IDS)
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
    assert repr(mine) == repr(other)
    assert list(mine.state_dict()) == list(other.state_dict())
    xs = [fx.tensor(a) for a in (*inputs, *others)]
    close(mine(*xs), other(*[torch.tensor(a) for a in (*inputs, *others)]))


@pytest.mark.parametrize("case", CASES, **IDS)
def test_under_transforms(case):
    name, _, inputs, others, options = case
    options, rest = made(options, fx.tensor), [fx.tensor(a) for a in others]
    f = lambda *xs: getattr(F, name)(*xs, *rest, **options, reduction="sum")
    xs = [fx.tensor(a) for a in inputs]
    gradient = fx.grad(f)
    close(fx.jit(gradient)(*xs), gradient(*xs))
    lanes = [fx.stack([x, x * 0.5]) for x in xs]
    loop = fx.stack([gradient(*[x[i] for x in lanes]) for i in range(2)])
    close(fx.vmap(gradient)(*lanes), loop)


def test_batch_mean():
    check(
        lambda x, y: F.kl_div(x, y, reduction="batchmean"),
        lambda x, y: T.kl_div(x, y, reduction="batchmean"),
        LOGS, P,
    )  # fmt: skip
    loss = fx.nn.KLDivLoss(reduction="batchmean")
    close(loss(fx.tensor(LOGS), fx.tensor(P)), torch.nn.KLDivLoss(reduction="batchmean")(
        torch.tensor(LOGS), torch.tensor(P)))  # fmt: skip
    with pytest.warns(UserWarning, match="batchmean"):
        F.kl_div(fx.tensor(LOGS), fx.tensor(P))


def test_one_variance():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = F.gaussian_nll_loss(fx.tensor(X), fx.tensor(Y), 2.0)
    close(got, T.gaussian_nll_loss(torch.tensor(X), torch.tensor(Y), 2.0))


# the linear cross-entropy -------------------------------------------------------------------------

INDICES = np.random.default_rng(1).integers(0, 5, (6,))
INDICES[1] = 3
LINEAR = [
    ({}, INDICES),
    ({"bias": True, "label_smoothing": 0.2}, INDICES),
    ({"ignore_index": 3, "weight": W}, INDICES),
    ({"bias": True}, np.abs(arrays((6, 5))[0])),
    ({"out_features": (2,), "bias": True}, np.random.default_rng(1).integers(0, 5, (6, 2))),
]


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(("options", "target"), LINEAR, ids=str)
def test_linear_cross_entropy(options, target, reduction):
    def make(nn):
        to = (torch if nn is torch.nn else fx).tensor
        return nn.LinearCrossEntropyLoss(3, 5, reduction=reduction, **made(options, to))

    def call(layer, x):
        return layer(x, (torch if isinstance(x, torch.Tensor) else fx).tensor(target))

    check_layer(make, *arrays((6, 3)), call=call)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("options", [{}, {"ignore_index": 3, "weight": W}], ids=str)
def test_linear_cross_entropy_in_pieces(options, reduction):
    (x,) = arrays((6, 3))
    cuts = fx.nn.LinearCrossEntropyOptions(batch_chunk_size=4)
    plain = fx.nn.LinearCrossEntropyLoss(3, 5, bias=True, dtype="float64", reduction=reduction,
                                         **made(options, fx.tensor))  # fmt: skip
    cut = fx.nn.LinearCrossEntropyLoss(3, 5, bias=True, dtype="float64", reduction=reduction,
                                       options=cuts, **made(options, fx.tensor))  # fmt: skip
    cut.load_state_dict(plain.state_dict())
    grads = []
    for layer in (plain, cut):
        leaf = fx.tensor(x, requires_grad=True)
        loss = layer(leaf, fx.tensor(INDICES))
        loss.sum().backward()
        grads.append([loss, leaf.grad, *[p.grad for p in layer.parameters()]])
    for a, b in zip(*grads):
        close(a, b)


def test_options_of_the_linear_cross_entropy():
    make = fx.nn.LinearCrossEntropyOptions
    for batch, features, classes in ((100, 8, 1000), (64, 64, 64), (7, 3, 5)):
        for method in ("aspect_ratio", "aspect_ratio:2"):
            theirs = torch.nn.LinearCrossEntropyOptions(chunking_method=method)
            wanted = theirs._compute_batch_chunk_size(batch, features, classes)
            assert make(chunking_method=method).rows(batch, features, classes) == max(wanted, 1)
    assert make(chunking_method=None).rows(9, 1, 9) == 9
    for bad in ({"acc_policy": "no"}, {"batch_chunk_size": 0}, {"chunking_method": "x:1"}):
        with pytest.raises(ValueError):
            make(**bad)
        with pytest.raises(ValueError):
            torch.nn.LinearCrossEntropyOptions(**bad)


# the adaptive softmax -----------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"head_bias": True, "div_value": 2.0}], ids=str)
def test_adaptive_softmax(options):
    make = lambda nn: nn.AdaptiveLogSoftmaxWithLoss(16, 20, [4, 9], **options)
    target = np.array([0, 3, 4, 8, 9, 19])
    to = lambda x: (torch if isinstance(x, torch.Tensor) else fx).tensor(target)
    x = arrays((6, 16))[0]
    check_layer(make, x, call=lambda layer, x: layer(x, to(x)).output)
    check_layer(make, x, call=lambda layer, x: layer(x, to(x)).loss)
    check_layer(make, x, call=lambda layer, x: layer.log_prob(x))
    ours, theirs = twins(make)
    got, expected = ours(fx.tensor(x[1]), fx.tensor(3)), theirs(torch.tensor(x[1]), torch.tensor(3))
    for a, b in zip(got, expected, strict=True):
        close(a, b)
    got[1].backward()
    expected[1].backward()
    for a, b in zip(ours.parameters(), theirs.parameters()):  # none in clusters without a target
        assert (a.grad is None) == (b.grad is None)
    for scale in (1.0, 9.0):
        close(ours.predict(fx.tensor(x * scale)), theirs.predict(torch.tensor(x * scale)))
    y = fx.tensor(target)
    close(fx.jit(lambda x, y: ours(x, y).loss)(fx.tensor(x), y), ours(fx.tensor(x), y).loss)
    with pytest.raises(IndexError, match=r"\[0, 19\]"):
        ours(fx.tensor(x), y + 1)


# refusals -----------------------------------------------------------------------------------------

A = fx.ones((4, 5))
REFUSED = [
    (lambda: F.gaussian_nll_loss(A, A, -A), ValueError, "negative"),
    (lambda: F.gaussian_nll_loss(A, A, fx.ones(3)), ShapeError, "incorrect size"),
    (lambda: F.kl_div(A, A, reduction="best"), ValueError, "best"),
    (lambda: F.linear_cross_entropy(A, fx.ones((3, 4)), A), ShapeError, "in_features"),
    (lambda: F.linear_cross_entropy(A, A, A[:, :4], ignore_index=1), ValueError, "probabilities"),
    (lambda: F.linear_cross_entropy(A, A, A, linear_bias=A), ShapeError, "linear_bias"),
    (lambda: fx.nn.LinearCrossEntropyLoss(3, 5, weight=fx.ones(3)), ShapeError, "weight"),
    (lambda: fx.nn.LinearCrossEntropyLoss(3, 5, label_smoothing=2.0), ValueError, "label"),
    (lambda: fx.nn.AdaptiveLogSoftmaxWithLoss(4, 9, [5, 3]), ValueError, "increasing"),
    (lambda: fx.nn.AdaptiveLogSoftmaxWithLoss(4, 9, []), ValueError, "cutoffs"),
    (lambda: fx.nn.AdaptiveLogSoftmaxWithLoss(4, 9, [9]), ValueError, "n_classes-1"),
    (lambda: fx.nn.AdaptiveLogSoftmaxWithLoss(4, 9, [3])(A, A), ShapeError, "batch"),
]


@pytest.mark.parametrize(("call", "error", "match"), REFUSED)
def test_refused(call, error, match):
    with pytest.raises(error, match=match):
        call()


def test_old_name():
    with pytest.warns(FutureWarning, match="write fx.nn.NLLLoss"):
        loss = fx.nn.NLLLoss2d(ignore_index=2)
    assert loss.ignore_index == 2
