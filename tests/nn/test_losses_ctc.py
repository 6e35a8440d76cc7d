"""CTC against torch's: both forms of targets, every option, gradients through log_softmax."""

import numpy as np
import pytest

import fx
from fx.errors import DTypeError, ShapeError

torch = pytest.importorskip("torch")

from tests.nn.oracle import arrays, check, close

F, T = fx.nn.functional, torch.nn.functional
TIME, BATCH, CLASSES = 7, 4, 5
(X,) = arrays((TIME, BATCH, CLASSES))
# repeated labels, an empty target, one that needs every step
TARGETS = np.array([[1, 2, 2, 4], [3, 3, 3, 3], [1, 9, 9, 9], [4, 2, 1, 3]])
INPUTS, COUNTS = [7, 7, 3, 4], [3, 4, 0, 4]
FLAT = np.concatenate([row[:n] for row, n in zip(TARGETS, COUNTS)])


def both(blank=0, reduction="mean", zero_infinity=False, flat=False, inputs=INPUTS, x=X):
    """The loss of logits, ours and torch's."""
    labels = FLAT if flat else TARGETS
    if blank:
        labels = np.where(labels == blank, 0, labels)
    options = {"blank": blank, "reduction": reduction, "zero_infinity": zero_infinity}

    def ours(x):
        return F.ctc_loss(
            fx.nn.functional.log_softmax(x, -1), fx.tensor(labels), inputs, COUNTS, **options
        )

    def theirs(x):
        lengths = torch.tensor(inputs), torch.tensor(COUNTS)
        return T.ctc_loss(x.log_softmax(-1), torch.tensor(labels), *lengths, **options)

    check(ours, theirs, x)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("blank", [0, 4])
def test_options(blank, flat, reduction):
    both(blank, reduction, flat=flat)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_targets_that_do_not_fit(reduction):
    both(0, reduction, True, inputs=[3, 5, 1, 4])
    got = F.ctc_loss(fx.tensor(X).log_softmax(-1), fx.tensor(TARGETS), [3, 5, 1, 4], COUNTS,
                     reduction="none")  # fmt: skip
    assert np.isinf(got.numpy()).tolist() == [True, True, False, False]


def test_one_sequence():
    x = X[:, 0]
    check(
        lambda x: F.ctc_loss(x.log_softmax(-1), fx.tensor([1, 2, 2]), 7, 3),
        lambda x: T.ctc_loss(
            x.log_softmax(-1), torch.tensor([1, 2, 2]), torch.tensor(7), torch.tensor(3)
        ),
        x,
    )


def test_long_sequences_in_float32():
    x = arrays((60, 8, 12), dtype="float32")[0]
    y = np.random.default_rng(0).integers(1, 12, (8, 20))
    n = np.random.default_rng(1).integers(1, 20, 8)
    lengths = np.random.default_rng(2).integers(45, 60, 8)
    xs, ts = fx.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    loss = fx.nn.CTCLoss()(xs.log_softmax(-1), *map(fx.tensor, (y, lengths, n)))
    other = torch.nn.CTCLoss()(ts.log_softmax(-1), *map(torch.tensor, (y, lengths, n)))
    close(loss, other)
    loss.backward()
    other.backward()
    np.testing.assert_allclose(xs.grad.numpy(), ts.grad.numpy(), atol=1e-5)


def test_layer():
    for options in ({}, {"blank": 4, "reduction": "sum", "zero_infinity": True}):
        ours, theirs = fx.nn.CTCLoss(**options), torch.nn.CTCLoss(**options)
        assert repr(ours) == repr(theirs)
        labels = np.where(TARGETS == 4, 3, TARGETS) if options else TARGETS
        rest = labels, np.array(INPUTS), np.array(COUNTS)
        close(
            ours(fx.tensor(X).log_softmax(-1), *map(fx.tensor, rest)),
            theirs(torch.tensor(X).log_softmax(-1), *map(torch.tensor, rest)),
        )


def test_under_transforms():
    rest = [fx.tensor(a) for a in (TARGETS, np.array(INPUTS), np.array(COUNTS))]
    loss = lambda x, *rest: F.ctc_loss(x.log_softmax(-1), *rest)
    gradient = fx.grad(loss)
    x = fx.tensor(X)
    close(fx.jit(gradient)(x, *rest), gradient(x, *rest))
    lanes = fx.stack([x, x * 2])
    close(
        fx.vmap(gradient, (0, None, None, None))(lanes, *rest),
        fx.stack([gradient(lane, *rest) for lane in lanes]),
    )
    step, t = 1e-6, fx.tensor(arrays(X.shape, seed=4)[0])
    plain = lambda x: F.ctc_loss(x.log_softmax(-1), *rest, reduction="sum")
    slope = (plain(x + step * t) - plain(x - step * t)) / (2 * step)
    np.testing.assert_allclose((fx.grad(plain)(x) * t).sum().numpy(), slope.numpy(), rtol=1e-6)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("zero_infinity", [False, True])
@pytest.mark.parametrize("behind", ["log_softmax", "nothing"])
def test_gradients_of_any_input_are_torchs(reduction, zero_infinity, behind):
    """Also of what adds up to no 1, of sequences cut short, and where nothing can be aligned."""
    for inputs, counts in (
        ([7, 7, 7, 7], [3, 4, 1, 2]), ([7, 7, 3, 4], [3, 4, 0, 2]), ([1, 7, 3, 4], [3, 4, 1, 4]),
    ):  # fmt: skip
        grads = []
        for t in (fx, torch):
            x = t.tensor(X, requires_grad=True)
            y = x.log_softmax(-1) if behind == "log_softmax" else x * 1.0
            labels = t.tensor(np.where(TARGETS == 9, 1, TARGETS))
            loss = t.nn.functional.ctc_loss(
                y, labels, t.tensor(inputs), t.tensor(counts),
                reduction=reduction, zero_infinity=zero_infinity,
            )  # fmt: skip
            (loss * t.tensor(arrays(tuple(loss.shape), seed=3)[0])).sum().backward()
            grads.append(x.grad.numpy())
        np.testing.assert_allclose(grads[0], grads[1], rtol=1e-8, atol=1e-10)


L = fx.tensor(X).log_softmax(-1)
REFUSED = [
    (lambda: F.ctc_loss(L, fx.ones((4, 4)), INPUTS, COUNTS), DTypeError, "integers"),
    (lambda: F.ctc_loss(L, fx.tensor(TARGETS), [8, 1, 1, 1], COUNTS), ShapeError, "7 time steps"),
    (lambda: F.ctc_loss(L, fx.tensor(TARGETS), INPUTS, [5, 1, 1, 1]), ShapeError, "4 labels"),
    (lambda: F.ctc_loss(L, fx.tensor(TARGETS), [1, 1], COUNTS), ShapeError, r"\(4,\)"),
    (lambda: F.ctc_loss(L, fx.tensor(FLAT[1:]), INPUTS, COUNTS), ShapeError, "add up to 11"),
    (lambda: F.ctc_loss(L, fx.tensor(TARGETS[:2]), INPUTS, COUNTS), ShapeError, "batch of 4"),
    (lambda: F.ctc_loss(L, fx.tensor(TARGETS), INPUTS, COUNTS, blank=5), ValueError, "5 classes"),
    (lambda: F.ctc_loss(L[0, 0], fx.tensor(TARGETS), INPUTS, COUNTS), ShapeError, "time"),
]


@pytest.mark.parametrize(("call", "error", "match"), REFUSED)
def test_refused(call, error, match):
    with pytest.raises(error, match=match):
        call()
