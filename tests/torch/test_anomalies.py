"""What PyTorch refuses: NaN on the way back where one looks for it, and what is no probability."""

import re
from pathlib import Path

import pytest
import torch

import fx.tape
import fx.torch as ft
from fx.transforms.jitting.function import Jitted

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


def line_of(text):
    """``file:line: source`` of the line of this file that holds a text, in a pattern."""
    lines = Path(__file__).read_text().splitlines()
    (number,) = [n for n, line in enumerate(lines, 1) if line.strip().startswith(text)]
    return re.escape(f"{__file__}:{number}: {lines[number - 1].strip()}")


def root_of(x):
    shifted = x - 1.0
    root = ft.sqrt(shifted) * shifted  # the culprit
    return root + 1.0


def run(way, x):
    if way == "eager":
        root_of(x).backward()
    elif way == "jit":
        ft.compile(root_of)(x).backward()
    elif way == "grad":
        ft.func.grad(root_of)(x.detach())
    else:

        @ft.compile
        def step(x):
            loss = root_of(x)
            loss.backward()
            return loss

        step(x)


@pytest.mark.parametrize("way", ["eager", "jit", "grad", "compiled step"])
def test_the_forward_line_is_named(way):
    x = ft.tensor(1.0, requires_grad=True)
    with (
        ft.autograd.detect_anomaly(),
        pytest.raises(RuntimeError, match="SqrtBackward0.*" + line_of("root = ft.sqrt")),
    ):
        run(way, x)
    assert (fx.tape._sequence, Jitted.__call__) == BEFORE
    run(way, x)  # nobody looks


BEFORE = fx.tape._sequence, Jitted.__call__


def test_a_forward_pass_of_before_has_no_line():
    x = ft.tensor(1.0, requires_grad=True)
    compiled = ft.compile(root_of)
    for f in (root_of, compiled):
        y = f(x)
        with (
            ft.autograd.detect_anomaly(),
            pytest.raises(RuntimeError, match="before anomalies were looked for"),
        ):
            y.backward()


def test_a_compiled_function_that_looks_runs_uncompiled():
    @ft.compile
    def step(x):
        with ft.autograd.detect_anomaly():
            root_of(x).backward()

    x = ft.tensor(1.0, requires_grad=True)
    with (
        pytest.warns(RuntimeWarning, match="looks for anomalies"),
        pytest.raises(RuntimeError, match=line_of("root = ft.sqrt")),
    ):
        step(x)
    assert not ft.is_anomaly_enabled()


def test_lanes_are_looked_at():
    slopes = ft.func.vmap(ft.func.grad(root_of))
    with (
        ft.autograd.detect_anomaly(),
        pytest.raises(RuntimeError, match=line_of("root = ft.sqrt")),
    ):
        slopes(ft.tensor([2.0, 1.0]))
    with ft.autograd.detect_anomaly():
        slopes(ft.tensor([2.0, 3.0]))
