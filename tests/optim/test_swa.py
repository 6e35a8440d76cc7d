"""Averages of weights against torch's."""

import copy
import pickle

import numpy as np
import pytest

import fx
from fx.optim import swa_utils

torch = pytest.importorskip("torch")

import torch.optim.swa_utils as torch_swa

from tests.nn.oracle import arrays, close, twins


def network(nn):
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 2))


def scaled(averages, values, count):
    """A function for lists of the user's own."""
    for a, v in zip(averages, values):
        if str(v.dtype).endswith("64") and not str(v.dtype).endswith("int64"):
            a.copy_(a * 0.25 + v * 0.75)


CASES = {
    "equal": lambda m: {},
    "function": lambda m: {"avg_fn": lambda a, v, n: 0.5 * (a + v)},
    "ema": lambda m: {"avg_fn": m.get_ema_avg_fn(0.8)},
    "swa": lambda m: {"avg_fn": m.get_swa_avg_fn()},
    "lists": lambda m: {"multi_avg_fn": scaled},
    "ema of lists": lambda m: {"multi_avg_fn": m.get_ema_multi_avg_fn(0.8)},
    "swa of lists": lambda m: {"multi_avg_fn": m.get_swa_multi_avg_fn()},
    "buffers": lambda m: {"use_buffers": True},
    "ema with buffers": lambda m: {"avg_fn": m.get_ema_avg_fn(0.9), "use_buffers": True},
}


def _close_to_float32(got, expected, what):
    np.testing.assert_allclose(
        got.detach().numpy(), expected.detach().numpy(), rtol=1e-6, err_msg=what
    )


def advance(lib, model, x):
    for p in model.parameters():
        p.grad = None
    (model(x) ** 2).sum().backward()
    with lib.no_grad():
        for p in model.parameters():
            p -= 0.1 * p.grad


@pytest.mark.parametrize("name", CASES)
def test_averages_are_torchs(name):
    case = CASES[name]
    # torch's function for lists computes the share of a new value in float32
    check = _close_to_float32 if name == "swa of lists" else close
    ours, theirs = twins(network)
    a = swa_utils.AveragedModel(ours, **case(swa_utils))
    b = torch_swa.AveragedModel(theirs, **case(torch_swa))
    for i, x in enumerate(arrays(*[(5, 3)] * 4)):
        advance(fx, ours, fx.tensor(x)), advance(torch, theirs, torch.tensor(x))
        a.update_parameters(ours), b.update_parameters(theirs)
        state, expected = a.state_dict(), b.state_dict()
        assert list(state) == list(expected) and int(a.n_averaged) == i + 1
        for key, value in expected.items():
            check(state[key], value, key)
    a.eval(), b.eval()
    check(a(fx.tensor(x)), b(torch.tensor(x)), "value")
    for p, q in zip(ours.parameters(), theirs.parameters()):
        close(p, q)


def test_an_average_goes_on_from_its_state_and_is_a_module():
    ours, theirs = twins(network)
    a = swa_utils.AveragedModel(ours, avg_fn=swa_utils.get_ema_avg_fn(0.5))
    a.update_parameters(ours)
    b = torch_swa.AveragedModel(theirs, avg_fn=torch_swa.get_ema_avg_fn(0.5))
    b.load_state_dict({k: torch.tensor(v.numpy()) for k, v in a.state_dict().items()})
    other = pickle.loads(pickle.dumps(copy.deepcopy(swa_utils.AveragedModel(ours))))
    other.load_state_dict({k: fx.tensor(v.numpy()) for k, v in b.state_dict().items()})
    assert int(other.n_averaged) == 1


@pytest.mark.parametrize("name", ["equal", "ema", "ema of lists"])
def test_averaging_inside_a_jitted_step(name):
    ours, _ = twins(network)
    eager = copy.deepcopy(ours)
    a = swa_utils.AveragedModel(ours, **CASES[name](swa_utils))
    b = swa_utils.AveragedModel(eager, **CASES[name](swa_utils))
    optimizer = fx.optim.SGD(ours.parameters(), lr=0.1)

    @fx.jit
    def step(x):
        optimizer.zero_grad()
        (ours(x) ** 2).sum().backward()
        optimizer.step()
        a.update_parameters(ours)

    for x in arrays(*[(5, 3)] * 4):
        step(fx.tensor(x))
        advance(fx, eager, fx.tensor(x))
        b.update_parameters(eager)
    for (key, got), expected in zip(a.state_dict().items(), b.state_dict().values()):
        np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-9, err_msg=key)
    assert step.cache_size() == 1


@pytest.mark.parametrize("pairs", [False, True])
def test_statistics_anew(pairs):
    ours, theirs = twins(network)
    batches = arrays((6, 3), (4, 3), (5, 3), seed=3)
    ours.eval(), theirs.eval()
    ours[1].momentum = theirs[1].momentum = 0.3
    swa_utils.update_bn([(fx.tensor(x), 0) if pairs else fx.tensor(x) for x in batches], ours)
    torch_swa.update_bn([torch.tensor(x) for x in batches], theirs)
    for (key, got), expected in zip(ours.state_dict().items(), theirs.state_dict().values()):
        close(got, expected, key)
    assert not ours.training and ours[1].momentum == 0.3


def test_a_model_without_statistics_is_not_run():
    swa_utils.update_bn([None], fx.nn.Linear(1, 1))


def test_refusals_are_torchs():
    for lib, m in ((fx, swa_utils), (torch, torch_swa)):
        with pytest.raises(AssertionError, match="Only one of avg_fn and multi_avg_fn"):
            m.AveragedModel(lib.nn.Linear(1, 1), avg_fn=abs, multi_avg_fn=abs)
        for f in (m.get_ema_avg_fn, m.get_ema_multi_avg_fn):
            with pytest.raises(ValueError, match=r"Invalid decay value 1\.5 provided"):
                f(1.5)
