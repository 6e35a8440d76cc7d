"""Pruning against torch's: masks, their composition, removal."""

import copy

import numpy as np
import pytest

import fx
from fx.nn.utils import prune

torch = pytest.importorskip("torch")

from torch.nn.utils import prune as torch_prune

from tests.nn.oracle import close, twins


def both(make=lambda nn: nn.Conv2d(3, 4, 2)):
    ours, theirs = twins(make)
    return (fx, ours, prune), (torch, theirs, torch_prune)


def agree(ours, theirs):
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for (k, v), w in zip(ours.state_dict().items(), theirs.state_dict().values()):
        close(v, w, k)
    assert repr(ours) == repr(theirs)


RECIPES = {
    "identity": lambda f, m, p: p.identity(m, "weight"),
    "l1 share": lambda f, m, p: p.l1_unstructured(m, "weight", 0.3),
    "l1 count": lambda f, m, p: p.l1_unstructured(m, "bias", 2),
    "l1 none": lambda f, m, p: p.l1_unstructured(m, "bias", 0),
    "l1 twice": lambda f, m, p: (
        p.l1_unstructured(m, "weight", 0.3), p.l1_unstructured(m, "weight", 0.5)
    ),
    "l1 scores": lambda f, m, p: p.l1_unstructured(
        m, "bias", 2, importance_scores=f.tensor([3.0, 1.0, 2.0, 0.0], dtype=f.float64)
    ),
    "ln": lambda f, m, p: p.ln_structured(m, "weight", 2, n=2, dim=0),
    "ln last axis": lambda f, m, p: p.ln_structured(m, "weight", 0.5, n=1, dim=-1),
    "ln inf": lambda f, m, p: p.ln_structured(m, "weight", 1, n=float("inf"), dim=1),
    "l1, ln, l1": lambda f, m, p: (
        p.l1_unstructured(m, "weight", 0.2),
        p.ln_structured(m, "weight", 2, n=2, dim=0),
        p.l1_unstructured(m, "weight", 0.5),
    ),
    "ln, ln": lambda f, m, p: (
        p.ln_structured(m, "weight", 2, n=2, dim=0), p.ln_structured(m, "weight", 0.5, n=2, dim=0)
    ),
    "mask": lambda f, m, p: p.custom_from_mask(m, "bias", f.tensor([1, 0, 0, 1])),
    "mask on l1": lambda f, m, p: (
        p.l1_unstructured(m, "bias", 1), p.custom_from_mask(m, "bias", f.tensor([1, 0, 1, 1]))
    ),
    "remove": lambda f, m, p: (p.l1_unstructured(m, "weight", 0.3), p.remove(m, "weight")),
    "remove of two": lambda f, m, p: (
        p.l1_unstructured(m, "bias", 1), p.l1_unstructured(m, "bias", 1), p.remove(m, "bias")
    ),
    "global": lambda f, m, p: p.global_unstructured(
        [(m, "weight"), (m, "bias")], pruning_method=p.L1Unstructured, amount=0.4
    ),
    "global on l1": lambda f, m, p: (
        p.l1_unstructured(m, "weight", 0.3),
        p.global_unstructured([(m, "weight"), (m, "bias")], p.L1Unstructured, amount=10),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RECIPES)
def test_recipe(name):
    ours, theirs = both()
    for face in (ours, theirs):
        RECIPES[name](*face)
    agree(ours[1], theirs[1])
    assert prune.is_pruned(ours[1]) == torch_prune.is_pruned(theirs[1])
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 4))
    y, expected = ours[1](fx.tensor(x)), theirs[1](torch.tensor(x))
    close(y, expected)
    y.sum().backward(), expected.sum().backward()
    for (k, p), q in zip(ours[1].named_parameters(), theirs[1].parameters()):
        close(p.grad, q.grad, k)


@pytest.mark.parametrize(
    ("kind", "args", "zeros"),
    [("random_unstructured", (0.25,), 12), ("random_structured", (1, 1), 16)],
)
def test_random_pruning_takes_as_many_as_asked(kind, args, zeros):
    layer = getattr(prune, kind)(fx.nn.Conv2d(3, 4, 2), "weight", *args)
    mask = layer.weight_mask.numpy()
    assert (mask == 0).sum() == zeros
    np.testing.assert_array_equal(layer.weight.numpy(force=True) == 0, mask == 0)
    if kind == "random_structured":
        assert set(mask.sum((0, 2, 3))) == {0, 16}


def test_pruned_modules_train_copy_and_compile():
    layer = prune.l1_unstructured(fx.nn.Linear(4, 3), "weight", 0.5)
    optimizer = fx.optim.SGD(layer.parameters(), lr=0.1)
    held = copy.deepcopy(layer)

    @fx.jit
    def step(x):
        optimizer.zero_grad()
        loss = layer(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    first = step(fx.ones((2, 4)))
    assert step(fx.ones((2, 4))) < first
    zero = layer.weight_mask.numpy() == 0
    np.testing.assert_array_equal(layer.weight.numpy(force=True)[zero], 0)
    assert not np.array_equal(layer.weight.numpy(force=True), held.weight.numpy(force=True))
    assert type(held) is type(layer) and prune.is_pruned(held)


def test_methods_of_ones_own():
    class EveryOther(prune.BasePruningMethod):
        PRUNING_TYPE = "unstructured"

        def compute_mask(self, t, default_mask):
            return default_mask.reshape(-1).at[::2].set(0).reshape(default_mask.shape)

    layer = fx.nn.Linear(2, 2)
    EveryOther.apply(layer, "bias")
    np.testing.assert_array_equal(layer.bias_mask.numpy(), [0, 1])
    assert prune.is_pruned(layer)
    prune.remove(layer, "bias")
    assert not layer._forward_pre_hooks and type(layer) is fx.nn.Linear


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m: prune.l1_unstructured(m, "weight", "0.3"), TypeError, "Invalid type for amount"),
        (lambda m: prune.l1_unstructured(m, "weight", 1.3), ValueError, r"in the range \[0, 1\]"),
        (lambda m: prune.l1_unstructured(m, "bias", 9), ValueError, "smaller than the number"),
        (lambda m: prune.ln_structured(m, "bias", 1, 2, 0), ValueError, "multidimensional"),
        (lambda m: prune.ln_structured(m, "weight", 1, 2, 7), IndexError, "Invalid index 7"),
        (lambda m: prune.remove(m, "weight"), ValueError, "has to be pruned before"),
        (lambda m: prune.l1_unstructured(m, "missing", 1), AttributeError, "missing"),
    ],
)
def test_refusals_leave_the_module_as_it_was(call, error, message):
    layer = fx.nn.Linear(2, 3)
    with pytest.raises(error, match=message):
        call(layer)
    assert type(layer) is fx.nn.Linear and list(layer.state_dict()) == ["weight", "bias"]
