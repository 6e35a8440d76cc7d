"""What PyTorch refuses: NaN on the way back where one looks for it, and what is no probability."""

import pytest
import torch

import fx.torch as ft

BOTH = pytest.mark.parametrize("t", [torch, ft], ids=["torch", "fx"])


@BOTH
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_nan_on_the_way_back_is_refused(t):
    x = t.tensor(0.0, requires_grad=True)
    with (
        t.autograd.detect_anomaly(),
        pytest.raises(RuntimeError, match=r"'SqrtBackward0' returned nan values in its 0th output"),
    ):
        (x * t.sqrt(x)).backward()
    assert not t.is_anomaly_enabled()
    (x * t.sqrt(x)).backward()  # nobody looks


@BOTH
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_anomaly_detection_by_a_call(t):
    x = t.tensor(0.0, requires_grad=True)
    t.autograd.set_detect_anomaly(True)
    try:
        with pytest.raises(RuntimeError, match="nan"):
            (x * t.sqrt(x)).backward()
    finally:
        t.autograd.set_detect_anomaly(False)


@BOTH
@pytest.mark.parametrize("p", [2.0, -0.1, float("nan")])
def test_what_is_no_probability(t, p):
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        t.nn.functional.binary_cross_entropy(t.tensor([p]), t.tensor([1.0]))


@BOTH
def test_embedding_leaves_out_the_row_of_padding(t):
    weight = t.ones(3, 2, requires_grad=True)
    t.embedding(weight, t.tensor([0, 1, 1]), 1).sum().backward()
    assert weight.grad.tolist() == [[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]]
